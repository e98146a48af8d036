"""The report on a corpus: it goes on whatever it meets, agrees with prepare, and says where what is."""

import bz2
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_corpus import sentences

from nmt.config import CheckDataConfig, DataConfig, FilterConfig, PrepareConfig, TokenizerConfig
from nmt.data.check import CorpusCheck, data_of, render
from nmt.data.prepare import prepare
from nmt.errors import ConfigError, DataError

FILTER = FilterConfig(max_pieces=100, max_ratio=6.0, drop_copies=True, drop_duplicates=True)
TOKENIZER = TokenizerConfig("bpe", joint=True, vocab_size=300, character_coverage=1.0, byte_fallback=True, sample_lines=1000, seed=1)
PAIRS = sentences(40, 1)
SRC, TGT = ("".join(f"{pair[side]}\n" for pair in PAIRS).encode() for side in (0, 1))


def data_config(folder: Path, **changes: Any) -> DataConfig:
    """Training text is folder/train.en and .de, validation text two sound lines."""
    (folder / "valid.en").write_bytes(b"A new dog.\nIt sleeps.\n")
    (folder / "valid.de").write_bytes("Ein neuer Hund.\nEr schläft.\n".encode())
    train, valid = [str(folder / "train")], [str(folder / "valid")]
    data = DataConfig("tiny", "en", "de", None, None, None, train, valid, [], None, None, None, str(folder / "data"))
    return replace(data, **changes)


def checked(folder: Path, src: bytes, tgt: bytes, filters: FilterConfig = FILTER) -> dict[str, Any]:
    """The report on two files, which can be written as JSON and as text."""
    (folder / "x.en").write_bytes(src)
    (folder / "x.de").write_bytes(tgt)
    report = CorpusCheck(
        data_of(CheckDataConfig(None, str(folder / "x.en"), str(folder / "x.de"), None, None, filters, False)), filters
    ).report()
    assert report == json.loads(json.dumps(report))
    assert render(report).count("\n") > 5
    return report


def findings(report: dict[str, Any]) -> dict[str, Any]:
    (text,) = report["splits"]["train"]["texts"]
    return dict(text["findings"])


def swapped(count: int) -> tuple[bytes, bytes]:
    """Sides of which the target lacks a line near the start and has one too many at the end."""
    chance = random.Random(3)
    words = [chance.randrange(1, 30) for _ in range(count)]
    src, tgt = (["".join(f"{word} " * length) + str(number) for number, length in enumerate(words)] for word in ("dog", "Hund"))
    return "\n".join(src).encode(), "\n".join([*tgt[:10], *tgt[11:], "Ende"]).encode()


TABLE: dict[str, tuple[bytes, bytes]] = {
    "sound": (SRC, TGT),
    "short target": (SRC, TGT[: TGT.rstrip().rindex(b"\n") + 1]),
    "short source": (SRC[: SRC.rstrip().rindex(b"\n") + 1], TGT),
    "no last newline": (SRC.rstrip(), TGT),
    "latin1": (SRC, TGT.decode().encode("latin-1")),
    "one wrong byte": (SRC + b"b\n", TGT + b"a\xe2\x80b\n"),
    "wrong byte on both": (SRC + b"\xff\n", TGT + b"a\xe2\x80b\n"),
    "utf-16": (SRC.decode().encode("utf-16"), TGT),
    "utf-16 without mark": (SRC.decode().encode("utf-16-le"), TGT),
    "gzip under a plain name": (gzip.compress(SRC), TGT),
    "bom": (b"\xef\xbb\xbf" + SRC, TGT),
    "bom inside": (SRC.replace(b"dog", b"\xef\xbb\xbfdog"), TGT),
    "crlf": (SRC.replace(b"\n", b"\r\n"), TGT),
    "separators": (SRC.replace(b" ", "\u2028".encode(), 30), TGT),
    "control characters": (SRC.replace(b"o", b"o\x00\x1b"), TGT),
    "one-sided blanks": (b"\n\n" + SRC, b"Eins\n \n" + TGT),
    "all blank": (b"\n \n", b"a\nb\n"),
    "all copies": (b"a\nb\n", b"a\nb \n"),
    "all duplicates": (b"a dog sleeps\n" * 30, b"ein Hund\n" * 30),
    "copies and blanks": (b"a\n\n", b"a\nb\n"),
    "empty": (b"", b""),
    "empty source": (b"", TGT),
    "wrong script": ("Собака спит\n".encode() + SRC, b"Der Hund\n" + TGT),
    "shifted": swapped(300),
}


def refuses(data: DataConfig, filters: FilterConfig) -> str | None:
    """What prepare says against the text; that a vocabulary does not suit it is no matter of the text."""
    try:
        prepare(PrepareConfig(data, filters, TOKENIZER))
    except DataError as error:
        return str(error)
    except ConfigError as error:
        assert "tokenizer.vocab_size" in str(error)
    return None


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("filters", [FILTER, replace(FILTER, drop_copies=False, drop_duplicates=False)], ids=["filtered", "unfiltered"])
def test_it_refuses_what_prepare_refuses(tmp_path: Path, name: str, filters: FilterConfig) -> None:
    for lang, content in zip(("en", "de"), TABLE[name], strict=True):
        (tmp_path / f"train.{lang}").write_bytes(content)
    data = data_config(tmp_path)
    report, refused = CorpusCheck(data, filters).report(), refuses(data, filters)
    assert (report["verdict"] == "refused") == (refused is not None), refused
    assert (report["verdict"] == "shifted") == (name == "shifted")
    assert refused is None or refused in report["refused"]


@pytest.mark.parametrize("split", ["valid", "test"])
def test_held_out_text_is_checked_like_training_text(tmp_path: Path, split: str) -> None:
    (tmp_path / "train.en").write_bytes(SRC)
    (tmp_path / "train.de").write_bytes(TGT)
    data = data_config(tmp_path)
    (tmp_path / "more.en").write_bytes(b"\n\n")
    (tmp_path / "more.de").write_bytes(b"\n")
    data = replace(data, **{split: [str(tmp_path / "more")]})
    report = CorpusCheck(data, FILTER).report()
    assert report["verdict"] == "refused" and report["refused"] == [refuses(data, FILTER)]
    (tmp_path / "more.de").write_bytes(b"\n\n")  # blank held-out text is no reason
    assert CorpusCheck(data, FILTER).report()["verdict"] == "fine" and refuses(data, FILTER) is None


TABLES = {
    "sound.tsv": b"a dog\tein Hund\nthe cat\tdie Katze\nthe third\tdas dritte\n",
    "sound.jsonl": b'{"en": "a dog", "de": "ein Hund"}\n{"en": "a cat", "de": "eine Katze"}\n',
    "short row.tsv": b"a dog\tein Hund\nalone\nthe cat\tdie Katze\n",
    "no header.tsv": b"",
    "no json.jsonl": b'{"en": "a dog", "de": "ein Hund"}\n{"en": \n{"en": "a cat", "de": "eine Katze"}\n',
    "no key.jsonl": b'{"en": "a dog"}\n',
    "two lines.jsonl": b'{"en": "a\\ndog", "de": "ein Hund"}\n',
    "wrong byte.tsv": b"a dog\tein \xff\n",
    "blank.tsv": b"a dog\t\n",
    "packed.tsv.gz": gzip.compress(b"a dog\tein Hund\nthe cat\tdie Katze\n"),
    "damaged.tsv.gz": gzip.compress(b"a dog\tein Hund\n")[:-9],
    "damaged.tsv.bz2": bz2.compress(b"a dog\tein Hund\n")[:-9],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(TABLES[name])
    data = data_config(tmp_path, train=[str(tmp_path / name)])
    report, refused = CorpusCheck(data, FILTER).report(), refuses(data, FILTER)
    assert (report["verdict"] == "refused") == (refused is not None) == ("sound" not in name and "packed" not in name)
    assert refused is None or refused in report["refused"]


def test_it_goes_on_after_a_row_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(b"de\ten\nHund\ta dog\nalone\nKatze\ta\rcat\nHund\ta dog\n\xff\tb\n")
    data = data_config(tmp_path, train=[str(tmp_path / "x.tsv")], src_field="en", tgt_field="de")
    report = CorpusCheck(data, FILTER).report()
    assert report["refusals"] == 2 and "line 3: there is no column 2" in report["refused"][0] and "line 6" in report["refused"][1]
    assert report["splits"]["train"]["read"] == 4
    told = findings(report)
    assert told["carriage_return"]["examples"] == [{"line": 4, "side": "src", "text": "a\\u000dcat"}]
    assert told["duplicates"]["examples"] == [{"line": 5, "side": "", "text": "", "first": "line 2"}]
    assert told["invalid_utf8"]["examples"][0]["line"] == 6


def test_wrong_bytes_are_told_with_their_places(tmp_path: Path) -> None:
    report = checked(tmp_path, b"\xef\xbb\xbfone\xff\ntwo\nthr\xc3\xa4\xe4\n", "éins\n".encode() + b"zw\xe4i\n\x80rei\n")
    assert report["refusals"] == 4
    told = findings(report)
    examples = told["invalid_utf8"]["examples"]
    assert [(example["side"], example["line"], example["byte"]) for example in examples] == [("src", 1, 7), ("tgt", 2, 9), ("src", 3, 18)]
    assert told["invalid_utf8"]["count"] == 4
    assert [(example["side"], example["line"], example["text"]) for example in told["latin1"]["examples"]] == [
        ("src", 1, "oneÿ"),
        ("tgt", 2, "zwäi"),
    ]
    assert "latin1" in told and told["bom_start"]["count"] == 1
    assert "tgt line 2, byte 9 of the file: zw\ufffdi" in render(report)


def test_a_file_of_wrong_bytes_is_read_to_its_end_and_told_in_short(tmp_path: Path) -> None:
    report = checked(tmp_path, b"\xff\n" * 1_000, b"x\r\n" * 999)
    assert report["refusals"] == 1_001 and len(report["refused"]) == 5
    assert findings(report)["crlf"]["count"] == 999
    assert report["splits"]["train"]["texts"][0]["lines"] == [1_000, 999]
    assert render(report).startswith(f"prepare would refuse this text: {tmp_path / 'x.en'}, line 1, byte 1") and "1,000 more" in render(
        report
    )


def test_the_other_side_of_a_file_that_is_no_text_is_read(tmp_path: Path) -> None:
    report = checked(tmp_path, SRC.decode().encode("utf-16"), b"a\x00\n" * 3)
    assert "UTF-16" in report["refused"][0] and findings(report)["control"]["count"] == 3


def test_duplicates_and_copies_over_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"a dog\tein Hund\nTaxi\tTaxi \n\t\n")
    (tmp_path / "b.tsv").write_bytes(b"Taxi\tTaxi\na cat\teine Katze\na dog\tein Hund\na cat\teine Katze\n")
    report = CorpusCheck(data_config(tmp_path, train=[str(tmp_path / "a.tsv"), str(tmp_path / "b.tsv")]), FILTER).report()
    split = report["splits"]["train"]
    assert {name: split[name] for name in ("read", "blank", "copies", "duplicates")} == {
        "read": 7,
        "blank": 1,
        "copies": 2,
        "duplicates": 2,
    }
    first, second = (text["findings"] for text in split["texts"])
    assert [example["line"] for example in first["copies"]["examples"] + second["copies"]["examples"]] == [2, 1]
    assert "duplicates" not in first and second["duplicates"]["count"] == 2
    assert [(example["line"], example["first"]) for example in second["duplicates"]["examples"]] == [
        (3, f"line 1 of {tmp_path / 'a.tsv'}"),
        (4, f"line 2 of {tmp_path / 'b.tsv'}"),
    ]


def test_overlap_of_training_with_held_out_text(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(b"a NEW dog.\nA cat.\n")
    (tmp_path / "train.de").write_bytes(b"Ein Hund.\nEine Katze.\n")
    report = CorpusCheck(data_config(tmp_path), FILTER).report()
    assert report["overlap"]["valid"]["sources_casefolded"] == 1 and report["verdict"] == "fine"
    assert "training holds 0 of its 2 source lines (1 case-folded)" in render(report)


def test_shifted_sides_are_the_verdict(tmp_path: Path) -> None:
    report = checked(tmp_path, *swapped(300))
    (shift,) = report["splits"]["train"]["texts"][0]["shifts"]
    assert shift["lag"] == -1 and abs(shift["first"] - 11) < 5
    first = render(report).split("\n")[0]
    assert first.startswith("the sides look shifted against each other: ") and "belongs to line n-1 of the target" in first


def test_a_lost_line_is_found_where_the_numbers_of_lines_differ(tmp_path: Path) -> None:
    src, tgt = swapped(300)
    report = checked(tmp_path, src, tgt[: tgt.rindex(b"\n")])
    assert report["verdict"] == "refused" and report["splits"]["train"]["texts"][0]["shifts"][0]["lag"] == -1


@pytest.mark.parametrize(
    ("src", "tgt", "langs"),
    [("a/x.en", "b/x.de", ("en", "de")), ("x.en.gz", "y.pt-BR.xz", ("en", "pt-BR")), ("english", "german.txt", ("", "txt"))],
)
def test_languages_are_told_by_the_names_of_files(src: str, tgt: str, langs: tuple[str, str]) -> None:
    config = CheckDataConfig(None, src, tgt, None, None, FILTER, False)
    data = data_of(config)
    assert (data.src_lang, data.tgt_lang) == langs and data.train == [[src, tgt]]
    assert data_of(replace(config, src_lang="ja")).src_lang == "ja"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: {}, "what shall be checked"),
        (lambda data: {"src": "a"}, "what shall be checked"),
        (lambda data: {"src": "a", "tgt": "b", "data": data}, "what shall be checked"),
        (lambda data: {"src_lang": "en", "data": data}, "what shall be checked"),
        (lambda data: {"data": replace(data, train=[], valid=[])}, "there is nothing to check"),
    ],
)
def test_it_must_be_said_what_to_check(tmp_path: Path, change: Callable[[DataConfig], dict[str, Any]], message: str) -> None:
    nothing = CheckDataConfig(None, None, None, None, None, FILTER, False)
    with pytest.raises(ConfigError, match=message):
        data_of(replace(nothing, **change(data_config(tmp_path))))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_missing_file_is_no_finding(tmp_path: Path, split: str) -> None:
    with pytest.raises(DataError, match="there is no file"):
        CorpusCheck(data_config(tmp_path, **{"train": [], split: [str(tmp_path / "none")]}), FILTER).report()
