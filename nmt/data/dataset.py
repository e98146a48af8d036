"""A prepared corpus on disk: token ids in flat memory-mapped files, held-out text, tokenizers, and a manifest that is written last."""

import itertools
import json
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.errors import DataError
from nmt.tokenizer import Tokenizer

FORMAT = 1
UINT16_IDS = 2**16  # the largest vocabulary whose ids fit into 16 bits
READ_AT_ONCE = 100_000  # pairs whose lengths are read before their pages are let go of
Ids = NDArray[np.uint16] | NDArray[np.int32]


@dataclass(frozen=True)
class PairIds:
    """The token ids of all training pairs, without special ids; nothing is read before it is asked for.

    Attributes:
        src_ids, tgt_ids: all sentences one after the other, uint16 or int32.
        src_offsets, tgt_offsets: (pairs + 1,) int64; sentence i is ids[offsets[i]:offsets[i + 1]].
        line_numbers: (pairs,) int32; which pair of the training text this was, counted from 1 over all its files.
    """

    src_ids: Ids
    src_offsets: NDArray[np.int64]
    tgt_ids: Ids
    tgt_offsets: NDArray[np.int64]
    line_numbers: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.line_numbers)

    def src(self, index: int) -> Ids:
        """Source ids of one pair."""
        return self.src_ids[self.src_offsets[index] : self.src_offsets[index + 1]]

    def tgt(self, index: int) -> Ids:
        """Target ids of one pair."""
        return self.tgt_ids[self.tgt_offsets[index] : self.tgt_offsets[index + 1]]

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Source and target lengths, in pieces, of some pairs; of a large corpus give them in rising order, for the disk's sake."""
        src, tgt = np.empty(len(indices), np.int32), np.empty(len(indices), np.int32)
        for start in range(0, len(indices), READ_AT_ONCE):
            some = indices[start : start + READ_AT_ONCE]
            src[start : start + len(some)] = self.src_offsets[some + 1] - self.src_offsets[some]
            tgt[start : start + len(some)] = self.tgt_offsets[some + 1] - self.tgt_offsets[some]
            self.release()
        return src, tgt

    def release(self) -> None:
        """Let go of what was read, lest the process grow to the size of the corpus. The system has it in its cache, to be had again."""
        for array in (self.src_ids, self.src_offsets, self.tgt_ids, self.tgt_offsets):
            assert isinstance(array.base, mmap.mmap)
            array.base.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class PreparedCorpus:
    """What `nmt prepare` leaves and training reads.

    Attributes:
        folder: where it lies.
        src_tokenizer, tgt_tokenizer: the same object where the vocabulary is joint.
        train: ids of the training pairs.
        valid: validation pairs as text, unfiltered.
        digest: changes with the training text and with everything that decides on its ids, and with nothing else.
        statistics: pairs, tokens, mean lengths, what was filtered, overlap, warnings; plain numbers, strings, lists and dicts.
    """

    folder: Path
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    train: PairIds
    valid: list[tuple[str, str]]
    digest: str
    statistics: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> "PreparedCorpus":
        """Open a prepared corpus; takes no longer for a large one than for a small one.

        Raises:
            DataError: there is none in the folder, or it is damaged or of another format.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        try:
            src_model, tgt_model = (folder / "src.model").read_bytes(), (folder / "tgt.model").read_bytes()
            src_tokenizer = Tokenizer(src_model)
            tgt_tokenizer = src_tokenizer if src_model == tgt_model else Tokenizer(tgt_model)
            valid = list(zip(_read_text(folder / "valid.src"), _read_text(folder / "valid.tgt"), strict=True))
            train = _open_pairs(folder, manifest["statistics"]["pairs"], src_tokenizer.vocab_size, tgt_tokenizer.vocab_size)
            return cls(folder, src_tokenizer, tgt_tokenizer, train, valid, manifest["digest"], manifest["statistics"])
        except (OSError, ValueError, KeyError, DataError) as error:
            raise DataError(f"the prepared corpus {folder} is damaged ({error}): delete the folder and prepare again") from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a prepared corpus; raises DataError where there is none or it is of another format."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is no prepared corpus: its manifest.json is missing or damaged; run nmt prepare") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"the prepared corpus {folder} is not of format {FORMAT}: delete the folder and prepare again")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write manifest.json in one move, so that it is whole whenever it is there."""
    text = json.dumps({"format": FORMAT, **manifest}, indent=1)
    temporary = folder / "manifest.json.part"
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(folder / "manifest.json")


def write_valid(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write the validation pairs as text."""
    for side, name in enumerate(("valid.src", "valid.tgt")):
        (folder / name).write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode("utf-8"))


def write_tokenizers(folder: Path, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> None:
    """Write both SentencePiece models."""
    (folder / "src.model").write_bytes(src_tokenizer.model)
    (folder / "tgt.model").write_bytes(tgt_tokenizer.model)


class PairWriter:
    """Appends encoded pairs to the flat files of a folder; memory does not grow. A context manager."""

    def __init__(self, folder: Path, src_vocab_size: int, tgt_vocab_size: int) -> None:
        self.pairs = self.src_tokens = self.tgt_tokens = 0
        self._dtypes = _dtype(src_vocab_size), _dtype(tgt_vocab_size)
        names = ("src.ids", "src.offsets", "tgt.ids", "tgt.offsets", "line_numbers")
        self._files = [(folder / name).open("wb") for name in names]
        for offsets in (self._files[1], self._files[3]):
            offsets.write(np.zeros(1, np.int64).tobytes())

    def __enter__(self) -> "PairWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for file in self._files:
            file.close()

    def add(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], line_numbers: Iterable[int]) -> None:
        """Append pairs: ids without special ids, and line numbers counted from 1."""
        src_ids, src_offsets, tgt_ids, tgt_offsets, numbers = self._files
        self.src_tokens = _append(src_ids, src_offsets, src, self._dtypes[0], self.src_tokens)
        self.tgt_tokens = _append(tgt_ids, tgt_offsets, tgt, self._dtypes[1], self.tgt_tokens)
        numbers.write(np.fromiter(line_numbers, np.int32).tobytes())
        self.pairs += len(src)

    def statistics(self) -> dict[str, Any]:
        """Pairs, tokens and mean lengths so far (at least one pair), special ids not counted."""
        return {
            "pairs": self.pairs,
            "src_tokens": self.src_tokens,
            "tgt_tokens": self.tgt_tokens,
            "src_mean_tokens": self.src_tokens / self.pairs,
            "tgt_mean_tokens": self.tgt_tokens / self.pairs,
        }


def _append(ids_file: Any, offsets_file: Any, sentences: Sequence[Sequence[int]], dtype: type[np.generic], start: int) -> int:
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ids_file.write(np.fromiter(itertools.chain.from_iterable(sentences), dtype, int(lengths.sum())).tobytes())
    offsets_file.write((start + np.cumsum(lengths)).tobytes())
    return start + int(lengths.sum())


def _dtype(vocab_size: int) -> type[np.uint16] | type[np.int32]:
    return np.uint16 if vocab_size <= UINT16_IDS else np.int32


def _open_pairs(folder: Path, pairs: int, src_vocab_size: int, tgt_vocab_size: int) -> PairIds:
    src_offsets = _map(folder / "src.offsets", np.int64, pairs + 1)
    tgt_offsets = _map(folder / "tgt.offsets", np.int64, pairs + 1)
    src_ids = _map(folder / "src.ids", _dtype(src_vocab_size), int(src_offsets[-1]))
    tgt_ids = _map(folder / "tgt.ids", _dtype(tgt_vocab_size), int(tgt_offsets[-1]))
    return PairIds(src_ids, src_offsets, tgt_ids, tgt_offsets, _map(folder / "line_numbers", np.int32, pairs))


def _map(path: Path, dtype: type[np.generic], length: int) -> Any:
    expected = length * np.dtype(dtype).itemsize
    if path.stat().st_size != expected:
        raise DataError(f"{path.name} has {path.stat().st_size:,} bytes in place of {expected:,}")
    return np.memmap(path, dtype=dtype, mode="r", shape=(length,))


def _read_text(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").split("\n")[:-1]
