"""Attention between words: pieces joined to words, hard links, their error rate against gold links, and a matrix for the terminal."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.data.lines import read_lines
from nmt.errors import DataError
from nmt.translation import Part

Links = frozenset[tuple[int, int]]  # of word indices from 0, source first
Matrix = NDArray[np.float32]

WORD_START = "▁"
ELLIPSIS = "…"
DRAWN = 40  # words of each side that a picture shows, and so the most parts of a line that it needs
END = "</s>"  # how the column of the end symbol is labelled
BYTE = re.compile("<0x[0-9A-F]{2}>")
LINK = re.compile("([0-9]+)-([0-9]+)")
# Thai, Lao, Burmese, Khmer; kana, ideographs and their punctuation. Without spaces between words, a piece is the best word there is.
SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]")
SHADES = ((0.7, "██"), (0.4, "▓▓"), (0.2, "▒▒"), (0.05, "░░"), (0.0, "· "))  # from which weight on


@dataclass(frozen=True)
class WordAttention:
    """Where each target word looked.

    Attributes:
        src_words, tgt_words: S and T words.
        weights: (T, S + 1) float32; each row sums to 1, or is 0 without attention; the last column is the end symbol of the source.
    """

    src_words: tuple[str, ...]
    tgt_words: tuple[str, ...]
    weights: Matrix


def word_attention(parts: Iterable[Part]) -> WordAttention:
    """Attention between the words of a line, from that between its pieces.

    A target word gives a source word the sum over the source word's pieces of the mean over its own pieces. The target's end symbol is
    left out. Each part of a line that was too long has looked at its own source alone; their end symbols share the last column.

    Args:
        parts: of one translation, as `Translation.parts`, or one from `Translator.align`.
    """
    src_words, tgt_words, blocks = list[str](), list[str](), list[tuple[int, int, Matrix]]()
    for part in parts:
        src, columns = join_pieces(part.src_pieces)
        tgt, rows = join_pieces(part.tgt_pieces)
        weights = part.weights.numpy()[: len(part.tgt_pieces)]
        blocks.append((len(tgt_words), len(src_words), _pool(weights, rows, [*columns, len(part.src_pieces)])))
        src_words, tgt_words = src_words + src, tgt_words + tgt
    joined = np.zeros((len(tgt_words), len(src_words) + 1), np.float32)
    for row, column, block in blocks:
        height, width = block.shape
        joined[row : row + height, column : column + width - 1] = block[:, :-1]
        joined[row : row + height, -1] = block[:, -1]
    return WordAttention(tuple(src_words), tuple(tgt_words), joined)


def join_pieces(pieces: Sequence[str]) -> tuple[list[str], list[int]]:
    """The words that pieces make up, as they stand in the text between spaces, and the index of the first piece of each.

    Byte pieces become the characters that they spell. In scripts without spaces each piece is a word. Further spaces belong to the word
    after them, at the end to the word before.
    """
    words, starts = list[str](), list[int]()
    for start, text in _spelled(pieces):
        if words and not _begins_word(words[-1], text):
            words[-1] += text
        else:
            words.append(text)
            starts.append(start)
    words = [word.strip(WORD_START).replace(WORD_START, " ") for word in words]
    return (words[:-1], starts[:-1]) if words and not words[-1] else (words, starts)


def clip(attention: WordAttention, limit: int = DRAWN) -> WordAttention:
    """At most `limit` words a side: what is beyond is pooled under an ellipsis, which stands for the last of them."""
    src_words, columns = _clip(attention.src_words, limit)
    tgt_words, rows = _clip(attention.tgt_words, limit)
    return WordAttention(src_words, tgt_words, _pool(attention.weights, rows, [*columns, len(attention.src_words)]))


def links(attention: WordAttention, mutual: bool = False) -> Links:
    """Each target word with the source word that it looks at most; none where that is the end symbol, or where it looks at nothing.

    Args:
        attention: between S and T words.
        mutual: keep a link only where, of all target words, this one gives the source word its largest weight.
    """
    peaks = enumerate(attention.weights.argmax(1).tolist())
    forward = frozenset((src, tgt) for tgt, src in peaks if src < len(attention.src_words) and attention.weights[tgt].any())
    if not (mutual and forward):
        return forward
    return forward & {(src, int(tgt)) for src, tgt in enumerate(attention.weights.argmax(0))}


def alignment_error_rate(found: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None) -> float:
    """AER over a corpus: 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), Och & Ney (2003), section 4; 0 is best, and what no links at all give.

    Args:
        found: A, the links of each pair.
        sure: S, its gold links.
        possible: P, further gold links that may be found or not; the sure ones are always among them.

    Raises:
        DataError: the number of pairs differs.
    """
    possible = sure if possible is None else possible
    if not len(found) == len(sure) == len(possible):
        raise DataError(f"links of {len(found):,} pairs cannot be compared with gold links of {len(sure):,} pairs: one for each is needed")
    hits = sum(len(a & s) + len(a & (s | p)) for a, s, p in zip(found, sure, possible, strict=True))
    total = sum(len(a) + len(s) for a, s in zip(found, sure, strict=True))
    return 1 - hits / total if total else 0.0


def read_links(path: str | Path) -> Iterator[Links]:
    """Yield the links of each line of a file, "0-0 1-2": source word, target word, both from 0; a line without links is blank.

    Raises:
        DataError: the file cannot be read, or a line holds something else.
    """
    for number, line in enumerate(read_lines(path), 1):
        matches = [(item, LINK.fullmatch(item)) for item in line.split()]
        for item, match in matches:
            if not match:
                raise DataError(f"{path}, line {number}: {item!r} is no link; expected SOURCE-TARGET, counted from 0, such as 0-0 1-2")
        yield frozenset((int(match[1]), int(match[2])) for _, match in matches if match)


def render(attention: WordAttention, limit: int = DRAWN) -> str:
    """The attention as text: a row for each target word, a column for each source word and for the end symbol."""
    clipped = clip(attention, limit)
    margin = max([_width(word) for word in clipped.tgt_words], default=0) + 2
    heads = [" " * margin + "│  " * place + word for place, word in enumerate((*clipped.src_words, END))]
    rows = [
        f"{word}{' ' * (margin - _width(word))}{' '.join(map(_shade, weights))}"
        for word, weights in zip(clipped.tgt_words, clipped.weights.tolist(), strict=True)
    ]
    return "\n".join(line.rstrip() for line in (*heads, *rows))


def is_wide(character: str) -> bool:
    """Whether a character takes the place of two Latin letters."""
    return unicodedata.east_asian_width(character) in "WF"


def _spelled(pieces: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each piece with its index, and each run of byte pieces as the text that they spell with the index of the first."""
    for is_byte, run in groupby(enumerate(pieces), key=lambda item: BYTE.fullmatch(item[1]) is not None):
        items = list(run)
        if is_byte:
            yield items[0][0], bytes(int(piece[3:5], 16) for _, piece in items).decode("utf-8", errors="replace")
        else:
            yield from items


def _begins_word(before: str, text: str) -> bool:
    """Whether `text` begins a word after a word that holds `before`."""
    if not before.strip(WORD_START):
        return False
    return text.startswith(WORD_START) or bool(SPACELESS.match(text) or SPACELESS.match(before[-1]))


def _pool(weights: Matrix, rows: Sequence[int], columns: Sequence[int]) -> Matrix:
    """Means over the groups of rows that begin at these indices of sums over groups of columns; each group goes to the next one's."""
    sums = np.add.reduceat(weights, np.asarray(columns, np.intp), axis=1)
    sizes = np.diff([*rows, len(weights)]).reshape(-1, 1)
    pooled: Matrix = (np.add.reduceat(sums, np.asarray(rows, np.intp), axis=0) / sizes).astype(np.float32)
    return pooled


def _clip(words: tuple[str, ...], limit: int) -> tuple[tuple[str, ...], range]:
    return (words if len(words) <= limit else (*words[: limit - 1], ELLIPSIS)), range(min(len(words), limit))


def _width(word: str) -> int:
    return sum(2 if is_wide(character) else 1 for character in word)


def _shade(weight: float) -> str:
    return next(shade for low, shade in SHADES if weight >= low)
