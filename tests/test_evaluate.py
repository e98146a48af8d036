"""Scores against sacreBLEU's own, and everything that must not be scored."""

import functools
import http.server
import io
import json
import logging
import os
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.tokenizers import tokenizer_ja_mecab

from nmt import evaluate as module
from nmt.errors import ConfigError, DataError
from nmt.evaluate import bleu_metric, evaluate

HYPOTHESES = ["The dog sees the cat.", "A man rides a bike, slowly.", "", "The bird is in the old tree."]
REFERENCES = ["The dog sees a cat.", "A man slowly rides a bike.", "Nothing.", "The bird sits in the old tree."]


def test_the_scores_are_those_of_sacrebleu() -> None:
    report = evaluate(HYPOTHESES, REFERENCES, "en")
    assert report.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert report.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert report.ter == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score
    assert (report.sentences, report.empty) == (4, 1)
    assert report.length_ratio == pytest.approx(22 / 23) and report.brevity_penalty < 1 and len(report.precisions) == 4


def test_several_references() -> None:
    others = ["The dog sees the cat.", "A man rides a bike.", "Nothing at all.", "There is a bird in the tree."]
    report = evaluate(HYPOTHESES, [REFERENCES, others], "en")
    assert report.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES, others]).score
    assert report.signatures["bleu"].startswith("nrefs:2|")


@pytest.mark.parametrize(
    ("lang", "tokenizer"),
    [
        ("de", "13a"),
        ("", "13a"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("cmn_Hans", "zh"),
        ("ja", "ja-mecab"),
        ("jpn", "ja-mecab"),
        ("ko", "ko-mecab"),
        ("yue", "zh"),
        ("jp", "ja-mecab"),
        ("th", "char"),
        ("lao", "char"),
        ("my", "char"),
        ("km-KH", "char"),
        ("bo", "char"),
    ],
)
def test_the_tokenizer_follows_the_target_language(lang: str, tokenizer: str) -> None:
    assert f"|tok:{tokenizer}" in evaluate(["彼は行く。"], ["彼は行った。"], lang).signatures["bleu"]


def test_a_language_without_spaces_is_not_scored_as_one_word() -> None:
    assert evaluate(["我们今天去北京看朋友。"], ["我们明天去北京看朋友。"], "zh").bleu > 50
    assert evaluate(["我们今天去北京看朋友。"], ["我们明天去北京看朋友。"], "en").bleu == 0
    for lang, hypothesis, reference in (
        ("zh", "我们今天去北京看朋友。", "我们明天去北京看朋友。"),
        ("jpn", "私は犬が好きです。", "私は猫が好きです。"),
    ):
        report = evaluate([hypothesis], [reference], lang)
        assert report.ter is not None and 0 < report.ter < 20 and "asian:yes" in report.signatures["ter"]


def test_thai_is_scored_by_characters_and_has_no_ter(caplog: pytest.LogCaptureFixture) -> None:
    hypotheses, references = ["ฉันชอบกินข้าวผัดกุ้ง"], ["ฉันชอบกินข้าวผัดไก่"]
    report = evaluate(hypotheses, references, "th")
    assert 50 < report.bleu < 100 and report.ter is None and "no TER" in caplog.text
    caplog.clear()
    assert evaluate(hypotheses, references, "txt").bleu == 0
    assert "most letters of the references are THAI" in caplog.text and "tgt_lang=th" in caplog.text
    caplog.clear()
    evaluate(["나는 간다 大韓民國"], ["나는 大韓民國 大韓民國"], "ko")
    evaluate(["Ich war in 東京."], ["Ich bin in 東京."], "de")
    assert not caplog.text


def test_a_missing_tokenizer_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(ConfigError, match=r'^BLEU for \'ja\' needs the tokenizer MeCab: pip install "sacrebleu\[ja\]"$'):
        bleu_metric("ja")


def test_different_numbers_of_lines_are_not_scored() -> None:
    with pytest.raises(DataError) as error:
        evaluate(["a", "b"], ["a"], "en", names=("out.txt", "test.de"))
    assert str(error.value) == "out.txt has 2 lines but test.de has 1; they must match line by line"
    with pytest.raises(DataError, match="the translation has 2 lines but reference 2 has 3"):
        evaluate(["a", "b"], [["a", "b"], ["a", "b", "c"]], "en")


@pytest.mark.parametrize(("separator", "name"), [("\r", "U+000D"), ("\u2028", "U+2028"), ("\x0c", "U+000C")])
def test_what_may_have_split_a_line_is_named(separator: str, name: str) -> None:
    with pytest.raises(DataError, match=f"; line 2 of test.de holds {name.replace('+', '[+]')}, which"):
        evaluate(["a", "b", "c"], ["a", f"b{separator}c"], "en", names=("out.txt", "test.de"))


def test_nothing_is_not_scored() -> None:
    with pytest.raises(DataError, match=r"out\.txt is empty: there is nothing to score"):
        evaluate([], [], "en", names=("out.txt", "test.de"))
    with pytest.raises(DataError, match="the translation has 1 lines but reference 1 has 0"):
        evaluate(["a"], [], "en")


def test_scores_of_empty_translations_are_zero() -> None:
    report = evaluate(["", ""], ["a dog", "a cat"], "en")
    assert (report.bleu, report.chrf, report.ter, report.empty, report.length_ratio) == (0, 0, 100, 2, 0)


def test_the_report_as_json() -> None:
    report = evaluate(HYPOTHESES, REFERENCES, "en", unfinished=1, perplexity=3.5, seconds=2.25, precision="bfloat16")
    values = json.loads(json.dumps(report.to_dict()))
    assert values["bleu"] == report.bleu and values["chrf"] == report.chrf and values["ter"] == report.ter
    assert values["bleu_signature"] == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" + sacrebleu.__version__
    assert {"chrf_signature", "ter_signature", "precisions", "brevity_penalty", "length_ratio"} <= values.keys()
    facts = {name: values[name] for name in ("sentences", "empty", "unfinished", "perplexity", "seconds", "precision")}
    assert facts == {"sentences": 4, "empty": 1, "unfinished": 1, "perplexity": 3.5, "seconds": 2.25, "precision": "bfloat16"}
    assert not any(isinstance(value, dict) for value in values.values()), "flat"


def test_the_report_as_a_table() -> None:
    table = evaluate(HYPOTHESES, REFERENCES, "en", unfinished=1, perplexity=3.5, seconds=2.25, precision="bfloat16").table()
    lines = table.split("\n")
    assert len(lines) == 5 and all("nrefs:1|" in lines[row] for row in (0, 2, 3)), "no score without its signature"
    assert lines[4] == "sentences 4  empty 1  unfinished 1  perplexity 3.50  seconds 2.2  precision bfloat16"
    assert evaluate(HYPOTHESES, REFERENCES, "en", perplexity=2.7e43).table().endswith("  perplexity 2.7e+43")


def test_without_ter() -> None:
    report = evaluate(HYPOTHESES, REFERENCES, "en", ter=False)
    assert report.ter is None and "ter" not in report.signatures and "TER" not in report.table()
    assert report.to_dict()["ter"] is None


@pytest.mark.parametrize(("lang", "line"), [("en", "a b " * 600), ("ja", "彼は" * 600)])
def test_a_line_of_a_book_has_no_ter(lang: str, line: str, caplog: pytest.LogCaptureFixture) -> None:
    report = evaluate([*HYPOTHESES, line], [*REFERENCES, line], lang)
    assert report.ter is None and report.bleu > 0 and report.chrf > 0
    assert f"no TER: line {len(HYPOTHESES) + 1} has 1,200 words" in caplog.text
    assert evaluate(HYPOTHESES, [line[:2000], *REFERENCES[1:]], "en").ter is not None


def test_tokenised_text_is_warned_about_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        evaluate(["A dog ."] * 120, ["A dog ."] * 120, "en")
    assert [record.getMessage() for record in caplog.records] == [
        "120 of 120 translations end in ' .': BLEU of tokenised text cannot be compared with other BLEU"
    ]


@pytest.mark.parametrize(
    ("name", "pair", "message"),
    [
        ("wmt14/ful", ("en", "de"), r"^sacreBLEU has no test set 'wmt14/ful'; did you mean wmt14/full\?$"),
        ("xyz", ("en", "de"), "has no test set 'xyz'; there are .*wmt17"),
        ("wmt14/full", ("en", "ja"), "^test set wmt14/full has no language pair en-ja; it has .*en-de"),
    ],
)
def test_unknown_test_sets(name: str, pair: tuple[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        module.test_set(name, *pair)


def fetch(name: str, pair: tuple[str, str], folder: Path, code: str = "", **environment: str) -> str:
    """What fetching a test set into a folder prints, in a process of its own, since sacreBLEU reads $SACREBLEU when it is imported."""
    program = f"""
        import nmt.evaluate
        dataset = nmt.evaluate.DATASETS["{name}"]
        {code}
        try:
            print(nmt.evaluate.test_set("{name}", *{pair}))
        except nmt.evaluate.DataError as error:
            print("DataError:", error)
    """
    run = [sys.executable, "-c", textwrap.dedent(program)]
    changed = os.environ | {"SACREBLEU": str(folder), "PYTHONIOENCODING": "utf-8", "no_proxy": "localhost"} | environment
    return subprocess.run(run, env=changed, capture_output=True, text=True, check=True, timeout=60, encoding="utf-8").stdout


def test_a_test_set_that_is_there_is_read_without_a_network(tmp_path: Path) -> None:
    (tmp_path / "wmt17").mkdir()
    (tmp_path / "wmt17" / "wmt17.en-de.src").write_text("a dog\na\u2028cat\n", encoding="utf-8")
    (tmp_path / "wmt17" / "wmt17.en-de.ref").write_text("ein Hund\neine\u2028Katze\n", encoding="utf-8")
    expected = (["a dog", "a\u2028cat"], [["ein Hund", "eine\u2028Katze"]])
    assert fetch("wmt17", ("en", "de"), tmp_path) == f"{expected}\n"


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing about it."""

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_test_set_is_downloaded_by_sacrebleu(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    members = sacrebleu.DATASETS["mtedx/test"].langpairs["el-en"]
    with tarfile.open(tmp_path / "served" / "test.tgz", "w:gz") as archive:
        for member, text in zip(members, ("ένα\nδύο\n", "one\ntwo\n"), strict=True):
            entry = tarfile.TarInfo(member)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    with http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Files, directory=tmp_path / "served")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = f"dataset.data, dataset.md5 = ['http://localhost:{server.server_port}/test.tgz'], None"
        output = fetch("mtedx/test", ("el", "en"), tmp_path / "kept", code)
        server.shutdown()
    assert output == f"{(['ένα', 'δύο'], [['one', 'two']])}\n"


@pytest.mark.parametrize("closed", [True, False])
def test_no_network_is_an_error_in_a_few_seconds(tmp_path: Path, closed: bool) -> None:
    with socket.socket() as server:  # stands for a proxy that refuses, or accepts and says nothing
        server.bind(("127.0.0.1", 0))
        if not closed:
            server.listen()
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        proxies = {"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy}
        output = fetch("wmt17", ("en", "de"), tmp_path, "nmt.evaluate.CONNECT_SECONDS = 1", **proxies)
    assert output.startswith("DataError: cannot fetch test set wmt17 from http") and output.count("\n") == 1
    assert ("timed out" if not closed else "refused") in output
