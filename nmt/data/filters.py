"""Which training pairs are dropped and why, what training shares with held-out text, and signs that text was processed before."""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from nmt.config import FilterConfig
from nmt.errors import DataError
from nmt.language import is_blank

# Below this many pieces on the longer side a ratio says nothing: "Yes." may well be five words.
RATIO_FROM_PIECES = 10


@dataclass
class FilterCounts:
    """How many training pairs were read, and how many of them each filter dropped, in the order in which the filters are asked."""

    read: int = 0
    blank: int = 0
    copies: int = 0
    duplicates: int = 0
    too_long: int = 0
    ratio: int = 0

    @property
    def kept(self) -> int:
        return self.read - self.blank - self.copies - self.duplicates - self.too_long - self.ratio

    def table(self, config: FilterConfig) -> str:
        """The counts as text, one filter a line."""
        rows = (
            ("training pairs read", self.read),
            ("- blank on either side", self.blank),
            ("- identical copies" if config.drop_copies else "- identical copies (not dropped)", self.copies),
            ("- duplicate pairs" if config.drop_duplicates else "- duplicate pairs (not dropped)", self.duplicates),
            (f"- over {config.max_pieces} pieces", self.too_long),
            (f"- length ratio over {config.max_ratio:g}", self.ratio),
            ("kept", self.kept),
        )
        return "\n".join(f"{label:<34}{count:>14,}" for label, count in rows)


class TextFilter:
    """The filters that need no pieces, pair by pair in one pass; 9 bytes of memory a pair."""

    def __init__(self, config: FilterConfig) -> None:
        self.config = config
        self._kept = bytearray()
        self._hashes = array("Q")
        self._counts = FilterCounts()

    def accept(self, src: str, tgt: str) -> bool:
        """Whether a pair passes all but the duplicate filter, which can tell only at the end."""
        self._counts.read += 1
        blank = is_blank(src) or is_blank(tgt)
        copy = self.config.drop_copies and not blank and src.strip() == tgt.strip()
        self._counts.blank += blank
        self._counts.copies += copy
        self._kept.append(not blank and not copy)
        if self.config.drop_duplicates:
            digest = blake2b(f"{src}\n{tgt}".encode(), digest_size=8).digest()
            self._hashes.append(int.from_bytes(digest, "little"))
        return not blank and not copy

    def finish(self) -> tuple[NDArray[np.bool_], FilterCounts]:
        """Which pairs are kept, in the order in which they came, each duplicate only at its first place; and the counts so far."""
        kept = np.frombuffer(self._kept, dtype=np.bool_).copy()
        if self.config.drop_duplicates:
            duplicates = self.duplicates()
            self._counts.duplicates = len(duplicates)
            kept[duplicates] = False
        return kept, self._counts

    def duplicates(self) -> NDArray[np.int64]:
        """The places, from 0, of the pairs that came before and are not dropped for another reason; drop_duplicates is on."""
        repeated = np.frombuffer(self._kept, dtype=np.bool_).copy()
        repeated[np.unique(np.frombuffer(self._hashes, dtype=np.uint64), return_index=True)[1]] = False
        return np.flatnonzero(repeated)

    def first_place(self, place: int) -> int:
        """Where the pair at a place, from 0, came first; drop_duplicates is on."""
        return self._hashes.index(self._hashes[place])


def nothing_left(counts: FilterCounts) -> DataError:
    """The error about training text all of which is dropped."""
    dropped = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in asdict(counts).items() if name != "read" and value)
    same = counts.copies == counts.read
    advice = "both sides are the same text: name two files, [src_file, tgt_file]" if same else "the limits are filter.*"
    return DataError(f"no pair of data.train is left after filtering: {counts.read:,} read; {dropped}; {advice}")


def fits(src_lengths: NDArray[np.int64], tgt_lengths: NDArray[np.int64], config: FilterConfig, counts: FilterCounts) -> NDArray[np.bool_]:
    """Which pairs (lengths in pieces) are neither too long nor too unequal; adds to the counts.

    The ratio is that of the longer to the shorter side, and asked only where the longer side has at least 10 pieces.
    """
    longer, shorter = np.maximum(src_lengths, tgt_lengths), np.minimum(src_lengths, tgt_lengths)
    too_long = longer > config.max_pieces
    unequal = ~too_long & (longer >= RATIO_FROM_PIECES) & (longer > config.max_ratio * shorter)
    counts.too_long += int(np.count_nonzero(too_long))
    counts.ratio += int(np.count_nonzero(unequal))
    return ~too_long & ~unequal


class Overlap:
    """Finds the lines of held-out text that also occur in training, exactly or but for the case of letters."""

    def __init__(self, splits: dict[str, list[tuple[str, str]]]) -> None:
        self._splits = splits
        self._wanted = {src.casefold() for pairs in splits.values() for src, _ in pairs if src.strip()}
        self._found: set[tuple[str, str]] = set()

    def see(self, src: str, tgt: str) -> None:
        """Take note of one training pair."""
        if src.casefold() in self._wanted:
            self._found.add((src, tgt))

    def counts(self) -> dict[str, dict[str, int]]:
        """For each split: its lines, and how many sources and pairs training holds too, exactly and case-folded."""
        folded = {_fold(pair) for pair in self._found}
        sources, folded_sources = {src for src, _ in self._found}, {src for src, _ in folded}
        return {
            name: {
                "lines": len(pairs),
                "sources": sum(pair[0] in sources for pair in pairs),
                "sources_casefolded": sum(_fold(pair)[0] in folded_sources for pair in pairs),
                "pairs": sum(pair in self._found for pair in pairs),
                "pairs_casefolded": sum(_fold(pair) in folded for pair in pairs),
            }
            for name, pairs in self._splits.items()
        }

    def warnings(self) -> list[str]:
        """One line for each split that training overlaps with."""
        return [
            f"{name}: training holds {of['sources']:,} of its {of['lines']:,} source lines ({of['sources_casefolded']:,} case-folded) and "
            f"{of['pairs']:,} of its pairs ({of['pairs_casefolded']:,}); scores on those lines are too good"
            for name, of in self.counts().items()
            if of["sources_casefolded"]
        ]


def _fold(pair: tuple[str, str]) -> tuple[str, str]:
    return pair[0].casefold(), pair[1].casefold()


# What it is called, how it looks, and in what share of the lines it takes to be a sign.
SIGNS = (
    ("escaped characters such as &quot;", re.compile(r"&(?:quot|apos|amp|lt|gt|nbsp|#\d+);"), 0.01),
    ("joiners such as @-@", re.compile(r"@[-/]@|@@ "), 0.01),
    ('endings cut off such as " \'s"', re.compile(r"\w (?:'(?:s|re|ve|ll|d|m)|n't)(?= |$)"), 0.01),
    ("a space before . or ,", re.compile(r"\S [.,](?= |$)"), 0.5),
)


def processed_warnings(name: str, lines: Sequence[str]) -> list[str]:
    """One line for each sign that a text was tokenised or escaped before, which makes its BLEU incomparable."""
    shares = ((sign, _share(pattern, lines), threshold) for sign, pattern, threshold in SIGNS)
    return [
        f"{name}: {share:.0%} of the lines hold {sign}: the text looks tokenised or escaped, which makes its BLEU incomparable"
        for sign, share, threshold in shares
        if share >= threshold
    ]


def _share(pattern: re.Pattern[str], lines: Iterable[str]) -> float:
    found = [pattern.search(line) is not None for line in lines]
    return sum(found) / max(1, len(found))
