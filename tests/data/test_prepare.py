"""Prepare: whole or not at all, once, complete about what it dropped, and clear about what is wrong."""

import itertools
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.config import DataConfig, FilterConfig, PrepareConfig, TokenizerConfig
from nmt.data import prepare as prepare_module
from nmt.data.prepare import prepare, prepared_folder
from nmt.errors import ConfigError, DataError

ADJECTIVES = (("red", "roter"), ("big", "großer"), ("old", "alter"))
NOUNS = (("dog", "Hund"), ("bird", "Vogel"), ("man", "Mann"))
VERBS = (("sleeps", "schläft"), ("runs", "rennt"), ("eats", "isst"))
PAIRS = [(f"A {a} {n} {v}.", f"Ein {b} {m} {w}.") for (a, b), (n, m), (v, w) in itertools.product(ADJECTIVES, NOUNS, VERBS)]
VALID = [("", " "), ("The same.", "The same."), ("A red dog sleeps.", "Ein roter Hund schläft."), ("x\u2028\rx", "y " * 50)]


def write_pairs(prefix: Path, pairs: list[tuple[str, str]]) -> None:
    for side, lang in enumerate(("en", "de")):
        Path(f"{prefix}.{lang}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())


@pytest.fixture
def config(tmp_path: Path) -> PrepareConfig:
    write_pairs(tmp_path / "train", PAIRS)
    write_pairs(tmp_path / "valid", VALID)
    write_pairs(tmp_path / "test", [("A green tree.", "Ein grüner Baum.")])
    train, valid, test = ([str(tmp_path / split)] for split in ("train", "valid", "test"))
    return PrepareConfig(
        DataConfig("tiny", "en", "de", None, None, None, train, valid, test, None, None, None, str(tmp_path / "data")),
        FilterConfig(max_pieces=100, max_ratio=5.0, drop_copies=True, drop_duplicates=True),
        TokenizerConfig("bpe", joint=True, vocab_size=310, character_coverage=1.0, byte_fallback=True, sample_lines=1000, seed=1),
    )


def changed(config: PrepareConfig, **data: Any) -> PrepareConfig:
    return replace(config, data=replace(config.data, **data))


def entries(config: PrepareConfig) -> list[str]:
    """What lies in the corpus's folder, the lock file apart."""
    return sorted(path.name for path in (Path(config.data.folder) / config.data.name).iterdir() if path.name != ".lock")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Counts how often a corpus is really written."""
    calls: list[Path] = []
    real = prepare_module._write
    monkeypatch.setattr(prepare_module, "_write", lambda folder, *rest: (calls.append(folder), real(folder, *rest)))
    return calls


def test_everything_arrives(config: PrepareConfig) -> None:
    corpus = prepare(config)
    assert corpus.folder == prepared_folder(config)
    assert corpus.folder.name.startswith("bpe-310-")
    assert entries(config) == [corpus.folder.name]
    assert corpus.valid == VALID
    assert corpus.src_tokenizer is corpus.tgt_tokenizer
    decoded = zip(
        corpus.src_tokenizer.decode([corpus.train.src(i) for i in range(len(corpus.train))]),
        corpus.tgt_tokenizer.decode([corpus.train.tgt(i) for i in range(len(corpus.train))]),
        strict=True,
    )
    assert list(decoded) == PAIRS
    assert corpus.train.line_numbers.tolist() == list(range(1, 28))
    statistics = corpus.statistics
    assert (statistics["pairs"], statistics["valid_pairs"]) == (27, 4)
    src_lengths, tgt_lengths = corpus.train.lengths(np.arange(27))
    assert statistics["src_tokens"] == src_lengths.sum()
    assert statistics["tgt_mean_tokens"] == pytest.approx(tgt_lengths.mean())
    manifest = json.loads((corpus.folder / "manifest.json").read_text(encoding="utf-8"))
    assert [Path(file["path"]).name for files in manifest["inputs"].values() for file in files] == [
        f"{split}.{lang}" for split in ("train", "valid", "test") for lang in ("en", "de")
    ]
    assert all(len(file["sha256"]) == 64 for files in manifest["inputs"].values() for file in files)


def test_filters_drop_whole_pairs_and_say_how_many(config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [("", "leer"), ("blank", "\u3000"), ("Taxi", "Taxi"), PAIRS[0], ("dog " * 110, "Hund " * 110), ("dog", "Hund " * 20)]
    write_pairs(tmp_path / "train", [*odd[:3], *PAIRS, *odd[3:], ("the end", "das Ende")])
    corpus = prepare(config)
    assert corpus.src_tokenizer.decode([corpus.train.src(i) for i in range(len(corpus.train))]) == [*(src for src, _ in PAIRS), "the end"]
    assert corpus.tgt_tokenizer.decode([corpus.train.tgt(i) for i in range(len(corpus.train))]) == [*(tgt for _, tgt in PAIRS), "das Ende"]
    assert corpus.train.line_numbers.tolist() == [*range(4, 31), 34]
    assert corpus.statistics["filtered"] == {"read": 34, "blank": 2, "copies": 1, "duplicates": 1, "too_long": 1, "ratio": 1}
    captured = capsys.readouterr()
    assert captured.out == ""
    table = {" ".join(line.split()[:-1]): line.split()[-1] for line in captured.err.split("\n") if line}
    assert (table["- blank on either side"], table["- over 100 pieces"], table["kept"]) == ("2", "1", "28")


def test_overlap_and_processed_text_are_warned_about(config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pairs(tmp_path / "test", [("a RED dog sleeps.", "Ein &quot; Hund .")])
    warnings = "\n".join(prepare(config).statistics["warnings"])
    assert "valid: training holds 1 of its 4 source lines" in warnings
    assert "test: training holds 0 of its 1 source lines (1 case-folded)" in warnings
    assert "test.de: 100% of the lines hold escaped" in warnings
    assert "warning: valid: training holds" in capsys.readouterr().err


def test_what_is_odd_in_the_training_text_is_said(config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(config)
    assert "\nodd lines of it: nothing\n" in capsys.readouterr().err
    write_pairs(tmp_path / "train", [*PAIRS, ("a\rb", "c\x00"), ("", "leer"), ("собака", "Hund")])
    prepare(config)
    told = r"odd lines of it: 1 \r inside, 1 other control characters, 1 blank on one side only, 1 mostly in a foreign script"
    assert f"\n{told}\n" in capsys.readouterr().err


def test_shifted_sides_are_warned_about(config: PrepareConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [("dog " * (number * 7 % 11 + 1) + str(number), "Hund " * (number * 7 % 11 + 1) + str(number)) for number in range(300)]
    write_pairs(tmp_path / "train", pairs)
    assert not any("shifted" in warning for warning in prepare(config).statistics["warnings"])
    src, tgt = zip(*pairs, strict=True)
    write_pairs(tmp_path / "train", list(zip(src, [*tgt[:50], *tgt[51:], "Ende"], strict=True)))
    assert any("shifted" in warning and "n-1 of the target" in warning for warning in prepare(config).statistics["warnings"])
    assert "warning: train: the sides look shifted against each other: from about line 5" in capsys.readouterr().err


def test_the_second_time_does_nothing(config: PrepareConfig, writes: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    first = prepare(config)
    capsys.readouterr()
    second = prepare(config)
    assert len(writes) == 1
    assert capsys.readouterr().err == ""
    assert second.digest == first.digest
    assert second.statistics == first.statistics


def test_a_touched_file_is_hashed_once_and_changed_text_is_prepared_again(
    config: PrepareConfig, writes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = prepare(config).digest
    os.utime(tmp_path / "train.en", ns=(1, 1))
    prepare(config)
    hashed: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "_sha256", lambda path: hashed.append(path) or "")
        prepare(config)
    assert (len(writes), hashed) == (1, [])
    write_pairs(tmp_path / "train", [("A hot dog.", "Ein Hotdog."), *PAIRS[1:]])
    same_size = (tmp_path / "valid.de").read_bytes().replace(b"y", b"z")
    (tmp_path / "valid.de").write_bytes(same_size)
    corpus = prepare(config)
    assert len(writes) == 2
    assert corpus.digest != digest
    assert corpus.valid[3][1] == "z " * 50
    assert entries(config) == [corpus.folder.name]


def test_same_size_and_other_text_is_noticed(config: PrepareConfig, writes: list[Path], tmp_path: Path) -> None:
    prepare(config)
    path = tmp_path / "train.en"
    path.write_bytes(path.read_bytes().replace(b"dog", b"cat"))
    os.utime(path, ns=(1, 1))
    prepare(config)
    assert len(writes) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda config: replace(config, tokenizer=replace(config.tokenizer, seed=2)),
        lambda config: replace(config, tokenizer=replace(config.tokenizer, vocab_size=311)),
        lambda config: replace(config, filter=replace(config.filter, max_pieces=99)),
        lambda config: changed(config, test=[]),
    ],
)
def test_another_configuration_is_another_folder(config: PrepareConfig, change: Callable[[PrepareConfig], PrepareConfig]) -> None:
    first, second = prepare(config), prepare(change(config))
    assert first.folder != second.folder
    assert entries(config) == sorted((first.folder.name, second.folder.name))


def test_result_and_digest_do_not_depend_on_where_and_when(config: PrepareConfig, tmp_path: Path) -> None:
    first = prepare(config)
    elsewhere = tmp_path / "else where=(1)ä"
    elsewhere.mkdir()
    for split, pairs in (("train", PAIRS), ("valid", VALID)):
        write_pairs(elsewhere / split, pairs)
    second = prepare(changed(config, name="copy", train=[str(elsewhere / "train")], valid=[str(elsewhere / "valid")], test=[]))
    assert second.folder.parent != first.folder.parent
    assert second.digest == first.digest
    assert contents(second.folder) == contents(first.folder)
    other = prepare(replace(config, filter=replace(config.filter, max_ratio=4.0)))
    assert other.digest != first.digest


def test_a_relative_path_is_the_same_corpus(
    config: PrepareConfig, writes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(config)
    monkeypatch.chdir(tmp_path)
    prepare(changed(config, train=["train"], folder="data"))
    assert len(writes) == 1


def test_a_damaged_corpus_is_written_again(config: PrepareConfig, writes: list[Path]) -> None:
    folder = prepare(config).folder
    before = contents(folder)
    (folder / "src.ids").write_bytes(b"\x00")
    prepare(config)
    assert len(writes) == 2
    assert contents(folder) == before
    assert entries(config) == [folder.name]


def test_separate_vocabularies(config: PrepareConfig) -> None:
    corpus = prepare(replace(config, tokenizer=replace(config.tokenizer, joint=False, vocab_size=290)))
    assert corpus.src_tokenizer.model != corpus.tgt_tokenizer.model
    assert corpus.tgt_tokenizer.decode([corpus.train.tgt(1)]) == [PAIRS[1][1]]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp", "a\\b", "a\x00b", "x" * 300])
def test_data_name_is_a_folder_name(config: PrepareConfig, name: str) -> None:
    with pytest.raises(ConfigError, match=r"data\.name="):
        prepare(changed(config, name=name))


@pytest.mark.parametrize("split", ["train", "valid"])
def test_no_training_or_validation_text(config: PrepareConfig, split: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.{split} is empty"):
        prepare(changed(config, **{split: []}))


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_bad_text_leaves_nothing(config: PrepareConfig, tmp_path: Path, split: str) -> None:
    target = tmp_path / f"{split}.de"
    whole = target.read_bytes()
    for content, reason in ((whole + b"more\n", "lines but"), (whole[:-1] + b"\xff\n", "not valid UTF-8"), (b"\xff\xfea\x00", "UTF-16")):
        target.write_bytes(content)
        with pytest.raises(DataError, match=reason):
            prepare(config)
        assert entries(config) == []
    target.write_bytes(b"")
    (tmp_path / f"{split}.en").write_bytes(b"")
    with pytest.raises(DataError, match="no line of text"):
        prepare(config)
    assert entries(config) == []


def test_missing_files_are_noticed_before_anything_is_read(config: PrepareConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "read_pairs", lambda *_: pytest.fail("read before all files were looked for"))
    with pytest.raises(DataError, match="there is no file .*nothing"):
        prepare(changed(config, test=["/no/such/nothing"]))
    assert not Path(config.data.folder).exists()


def test_a_pipe_is_no_training_text(config: PrepareConfig, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.en")
    with pytest.raises(DataError, match="no regular file"):
        prepare(changed(config, train=[[str(tmp_path / "pipe.en"), str(tmp_path / "train.de")]]))


def test_nothing_left_after_filtering(config: PrepareConfig, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pair of data\.train is left.* 27 read; 27 too long"):
        prepare(replace(config, filter=replace(config.filter, max_pieces=1)))
    write_pairs(tmp_path / "train", [("same", "same")] * 3)
    with pytest.raises(DataError, match=r"3 read; 3 copies"):
        prepare(config)
    assert entries(config) == []


def test_a_vocabulary_that_is_too_large(config: PrepareConfig) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=9999 .*largest possible is \d+"):
        prepare(replace(config, tokenizer=replace(config.tokenizer, vocab_size=9999)))
    assert entries(config) == []


def test_a_folder_that_cannot_be_written(config: PrepareConfig, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write .*; give another data.folder="):
        prepare(changed(config, folder=str(tmp_path / "train.en")))


def test_text_that_changes_while_it_is_read(config: PrepareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = prepare_module.write_valid
    monkeypatch.setattr(prepare_module, "write_valid", lambda *rest: (real(*rest), write_pairs(tmp_path / "test", PAIRS)))
    with pytest.raises(DataError, match=r"test\.en was changed while it was being read"):
        prepare(config)
    assert entries(config) == []


def _hang_in_write(config: PrepareConfig, started: Any) -> None:
    def hang(*_: object) -> None:
        started.set()
        time.sleep(60)

    prepare_module.write_valid = hang
    prepare(config)


def test_a_killed_prepare_leaves_nothing_that_counts(config: PrepareConfig) -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    process = context.Process(target=_hang_in_write, args=(config, started))
    process.start()
    assert started.wait(timeout=60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert [name.endswith(".part") for name in entries(config)] == [True]
    assert not prepared_folder(config).exists()
    corpus = prepare(config)
    assert entries(config) == [corpus.folder.name]


def _prepare_and_count(config: PrepareConfig, barrier: Any, results: Any) -> None:
    calls: list[None] = []
    real = prepare_module._write
    prepare_module._write = lambda *rest: (calls.append(None), real(*rest))
    barrier.wait()
    corpus = prepare(config)
    results.put((len(calls), corpus.digest, len(corpus.train)))


def test_of_several_at_once_one_prepares(config: PrepareConfig) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(3), context.SimpleQueue()
    processes = [context.Process(target=_prepare_and_count, args=(config, barrier, results)) for _ in range(3)]
    for process in processes:
        process.start()
    outcomes = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert sorted(outcome[0] for outcome in outcomes) == [0, 0, 1]
    assert len({outcome[1:] for outcome in outcomes}) == 1
    assert entries(config) == [prepared_folder(config).name]
