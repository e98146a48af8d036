"""Ids on disk come back as they were written, from maps and not from memory, and damage is noticed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.dataset import PairWriter, PreparedCorpus, write_manifest, write_tokenizers, write_valid
from nmt.errors import DataError
from nmt.tokenizer import Tokenizer, train_tokenizers

CONFIG = TokenizerConfig(type="bpe", joint=True, vocab_size=280, character_coverage=1.0, byte_fallback=True, sample_lines=100, seed=1)
VALID = [("a b", "c"), ("", " "), ("x\u2028y\r", "\ufeffz"), ("\x00", "w")]
OTHER_FILES = ("line_numbers", "valid.src", "valid.tgt", "manifest.json")
SENTENCES = st.lists(st.integers(0, 279), max_size=6)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizers(["dog cat bird dog cat bird"] * 3, ["Hund Katze Vogel"] * 3, CONFIG)[0]


def write_corpus(folder: Path, tokenizer: Tokenizer, src: list[list[int]], tgt: list[list[int]], chunk: int = 2) -> None:
    with PairWriter(folder, tokenizer.vocab_size, tokenizer.vocab_size) as writer:
        for start in range(0, len(src), chunk):
            stop = min(len(src), start + chunk)
            writer.add(src[start:stop], tgt[start:stop], range(10 + start, 10 + stop))
    write_tokenizers(folder, tokenizer, tokenizer)
    write_valid(folder, VALID)
    write_manifest(folder, {"digest": "abc", "statistics": writer.statistics()})


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=40)
def test_ids_come_back(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, pairs: list[tuple[list[int], list[int]]], chunk: int, wide: bool
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = [*pairs, ([1], [2])]
    src, tgt = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    with pytest.MonkeyPatch.context() as patch:
        if wide:
            patch.setattr("nmt.data.dataset.UINT16_IDS", 100)
        write_corpus(folder, tokenizer, src, tgt, chunk)
        train = PreparedCorpus.open(folder).train
    assert train.src_ids.dtype == train.tgt_ids.dtype == (np.int32 if wide else np.uint16)
    assert [train.src(i).tolist() for i in range(len(train))] == src
    assert [train.tgt(i).tolist() for i in range(len(train))] == tgt
    every = np.arange(len(train))
    assert [lengths.tolist() for lengths in train.lengths(every)] == [[len(ids) for ids in side] for side in (src, tgt)]
    assert train.lengths(every)[0].dtype == np.int32
    assert train.line_numbers.tolist() == list(range(10, 10 + len(pairs)))


def test_open_gives_everything_back_from_maps(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path, tokenizer, [[5, 6], [7]], [[8], [9, 10, 11]])
    corpus = PreparedCorpus.open(str(tmp_path))
    assert corpus.folder == tmp_path
    assert corpus.valid == VALID
    assert corpus.digest == "abc"
    assert corpus.src_tokenizer is corpus.tgt_tokenizer
    assert corpus.src_tokenizer.model == tokenizer.model
    assert corpus.statistics == {"pairs": 2, "src_tokens": 3, "tgt_tokens": 4, "src_mean_tokens": 1.5, "tgt_mean_tokens": 2.0}
    assert isinstance(corpus.train.src_ids, np.memmap)
    assert isinstance(corpus.train.tgt_offsets, np.memmap)


def resident(path: Path) -> int:
    """How many kilobytes of a file's maps this process holds."""
    maps = Path("/proc/self/smaps").read_text().split("\n")
    starts = [number for number, line in enumerate(maps) if line.endswith(str(path))]
    return sum(int(next(line for line in maps[start:] if line.startswith("Rss:")).split()[1]) for start in starts)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is resident")
def test_what_was_read_is_let_go_of(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[number % 280] * 10 for number in range(10_000)]
    write_corpus(tmp_path, tokenizer, sentences, sentences, chunk=10_000)
    train = PreparedCorpus.open(tmp_path).train
    view = train.src(9_999)
    assert [train.src(row).tolist() for row in range(10_000)] == sentences
    assert resident(tmp_path / "src.ids") > 100
    train.release()
    assert resident(tmp_path / "src.ids") == 0
    assert view.tolist() == sentences[-1]
    monkeypatch.setattr("nmt.data.dataset.READ_AT_ONCE", 1_000)
    assert train.lengths(np.arange(10_000))[1].tolist() == [10] * 10_000
    assert resident(tmp_path / "tgt.offsets") == 0


def test_separate_tokenizers_are_two(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path, tokenizer, [[5]], [[6]])
    other = train_tokenizers(["ein anderer Text"], ["ein anderer Text"], CONFIG)[0]
    write_tokenizers(tmp_path, tokenizer, other)
    corpus = PreparedCorpus.open(tmp_path)
    assert (corpus.src_tokenizer.model, corpus.tgt_tokenizer.model) == (tokenizer.model, other.model)


@pytest.mark.parametrize("name", [*(f"{side}.{kind}" for side in ("src", "tgt") for kind in ("ids", "offsets", "model")), *OTHER_FILES])
def test_damage_is_an_error(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    write_corpus(tmp_path, tokenizer, [[5, 6], [7]], [[8], [9, 10, 11]])
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="prepare") as caught:
        PreparedCorpus.open(tmp_path)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match="prepare"):
        PreparedCorpus.open(tmp_path)


def test_another_format_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path, tokenizer, [[5]], [[6]])
    write_manifest(tmp_path, {"format": 99})
    with pytest.raises(DataError, match="not of format"):
        PreparedCorpus.open(tmp_path)
    with pytest.raises(DataError, match="no prepared corpus"):
        PreparedCorpus.open(tmp_path / "nowhere")
