"""How text is cut: many lines into chunks; a line that is longer than a model can take into parts, at sentence ends, else at spaces, else
between any two pieces."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from nmt.tokenizer import Tokenizer

CLOSING = "\"'”’»›)\\]」』】）》"
# A run of end marks with closing quotes and brackets, then a space; full-width marks, and those of Burmese and Khmer, need no space. The
# lookbehind starts each run once, and what has matched is not given back, so that long runs of marks cost linear time.
SPACED = ".!?…؟۔।॥።։།"  # of Arabic, Urdu, Hindi, Amharic, Armenian and Tibetan too
UNSPACED = "。！？｡။។៕"
SENTENCE_END = re.compile(rf"(?<![{SPACED}])[{SPACED}]++[{CLOSING}]*+\s++|(?<![{UNSPACED}])[{UNSPACED}]++[{CLOSING}]*+\s*+")
WORD_START = "▁"


def numbered_chunks(lines: Iterable[str], size: int, last_size: int) -> Iterator[list[tuple[int, str]]]:
    """Yield lines with their numbers, counted from 1, in chunks that grow from one size to another, so that the first ones come soon.

    Lines are read as they are needed.

    Raises:
        TypeError: a line is no text.
    """
    waiting = enumerate(lines, start=1)
    while chunk := list(islice(waiting, size)):
        if strange := [(number, line) for number, line in chunk if not isinstance(line, str)]:
            raise TypeError(f"lines of text are expected; number {strange[0][0]} is {strange[0][1]!r}")
        yield chunk
        size = min(2 * size, last_size)


def split_line(line: str, tokenizer: Tokenizer, max_pieces: int) -> list[list[int]]:
    """Ids of the parts of a line, each of 1 to max_pieces pieces, in order. Takes time linear in the length of the line."""
    return [part for ids in tokenizer.encode(list(split_sentences(line))) for part in cut(ids, tokenizer.pieces(ids), max_pieces)]


def split_sentences(line: str) -> Iterator[str]:
    """Yield the sentences of a line, without the space between them; a lower-case letter goes on with the sentence ("z. B. so")."""
    start = 0
    for end in SENTENCE_END.finditer(line):
        if not line[end.end() : end.end() + 1].islower():
            yield line[start : end.end()].strip()
            start = end.end()
    if line[start:].strip():
        yield line[start:].strip()


def cut(ids: Sequence[int], pieces: Sequence[str], max_pieces: int) -> Iterator[list[int]]:
    """Yield runs of at most max_pieces ids, as few and as equal in length as the words allow; a word is cut only if it is longer."""
    start = 0
    while start < len(ids):
        rest = len(ids) - start
        limit = start + math.ceil(rest / math.ceil(rest / max_pieces))
        end = limit if limit == len(ids) else next((i for i in range(limit, start, -1) if pieces[i].startswith(WORD_START)), limit)
        yield list(ids[start:end])
        start = end
