"""What one reading of a parallel text finds in it, pair by pair: odd characters, foreign scripts, blank sides, and the lengths of lines."""

import re
import string
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.shift import Shift, find_shifts
from nmt.language import is_blank, script_of, scripts

EXAMPLES = 3
EXCERPT = 60  # characters
SIDES = ("src", "tgt")
KINDS = {
    "invalid_utf8": "not UTF-8",
    "latin1": "not UTF-8, but readable as Latin-1",
    "mojibake": "UTF-8 once taken for Latin-1 (Ã¤ for ä)",
    "bom_start": "byte order mark at the start",
    "bom": "byte order mark inside",
    "crlf": r"ended by \r\n",
    "carriage_return": r"\r inside",
    "separator": "U+2028, U+2029 or U+0085 inside",
    "control_separator": "VT, FF or FS to RS inside",
    "control": "other control characters",
    "blank_one_side": "blank on one side only",
    "copies": "the same on both sides",
    "duplicates": "pairs that came before",
    "script": "mostly in a foreign script",
}
KIND_OF = {"\r": "carriage_return", "\ufeff": "bom"}
KIND_OF |= dict.fromkeys("\u2028\u2029\x85", "separator") | dict.fromkeys("\v\f\x1c\x1d\x1e", "control_separator")
ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
# not all of them: what ends or closes a sentence may well come after a capital Ã
MOJIBAKE = re.compile("[ÂÃ][\x80-\x9f¡-ª¬-º¼-¿€ƒ„†‡ˆ‰ŠŒŽŸ]|â€")
NO_ASCII = re.compile(r"[^\x00-\x7f]")
NO_ASCII_LETTERS = bytes(set(range(128)) - set(string.ascii_letters.encode()))


@dataclass
class Finding:
    """In how many lines something was found, and the first of them."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, line: int, side: str, text: str, start: int = 0, **more: Any) -> None:
        """Count one line.

        Args:
            line: its number.
            side: "src", "tgt", or "" for both.
            text: what is shown of it, or enough of it.
            start: the place in the text that matters.
            more: what else the example shall say.
        """
        self.count += 1
        if len(self.examples) < EXAMPLES:
            start = max(0, start - EXCERPT // 3)
            self.examples.append({"line": line, "side": side, "text": _printable(text[start : start + EXCERPT]), **more})

    def join(self, other: "Finding") -> None:
        """Add what another one counted, of other lines."""
        self.count += other.count
        self.examples = sorted(self.examples + other.examples, key=lambda example: example["line"])[:EXAMPLES]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


class TextScan:
    """Takes the rows of a text one by one; some 12 bytes of memory a row, and the first few lines of each kind.

    Args:
        src_lang: which scripts belong there; where that is unknown, the one that most letters of the side are of.
        tgt_lang: the same.
    """

    def __init__(self, src_lang: str, tgt_lang: str) -> None:
        self.numbers = array("I")  # of the rows that have both sides
        self.lengths = (array("I"), array("I"))
        self.findings: dict[str, Finding] = defaultdict(Finding)
        self._own = (scripts(src_lang), scripts(tgt_lang))
        self._letters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._mostly: tuple[dict[str, Finding], dict[str, Finding]] = (defaultdict(Finding), defaultdict(Finding))

    def see(self, number: int, src: str | None, tgt: str | None) -> None:
        """Take one row; None is the side of a file that has ended."""
        if src is not None:
            src_length = self._look(0, number, src)
        if tgt is not None:
            tgt_length = self._look(1, number, tgt)
        if src is None or tgt is None:
            return
        self.numbers.append(number)
        if (src_length == 0) != (tgt_length == 0):
            self.findings["blank_one_side"].add(number, "tgt" if src_length else "src", src or tgt)

    def _look(self, side: int, number: int, line: str) -> int:
        """Note what is odd in a line; returns its length, 0 where it is blank."""
        length = 0 if is_blank(line) else len(line.strip())
        self.lengths[side].append(length)
        if not line.isprintable():
            first = {KIND_OF.get(match[0], "control"): match.start() for match in reversed(list(ODD.finditer(line)))}
            for kind, start in first.items():
                self.findings[kind].add(number, SIDES[side], line, start)
        letters = len(line.encode("ascii", "ignore").translate(None, NO_ASCII_LETTERS))
        self._letters[side]["LATIN"] += letters
        if not line.isascii():
            if match := MOJIBAKE.search(line):
                self.findings["mojibake"].add(number, SIDES[side], line, match.start())
            self._see_scripts(side, number, line, letters)
        elif letters and "LATIN" not in self._own[side]:
            self._mostly[side]["LATIN"].add(number, SIDES[side], line)
        return length

    def _see_scripts(self, side: int, number: int, line: str, ascii_letters: int) -> None:
        counts: dict[str, int] = {}
        for char in NO_ASCII.findall(line):
            if script := script_of(char):
                counts[script] = counts.get(script, 0) + 1
        for script, count in counts.items():
            self._letters[side][script] += count
        counts["LATIN"] = counts.get("LATIN", 0) + ascii_letters
        half = sum(counts.values()) / 2
        for script, count in counts.items():
            if count > half and script not in self._own[side]:
                self._mostly[side][script].add(number, SIDES[side], line)

    def found(self) -> dict[str, Finding]:
        """All findings by kind, in the order of KINDS: also the lines that are mostly in a foreign script, which the end alone tells."""
        foreign = Finding()
        for side in (0, 1):
            for script in self._mostly[side].keys() - self._belonging(side):
                foreign.join(self._mostly[side][script])
        findings = self.findings | {"script": foreign}
        return {kind: findings[kind] for kind in KINDS if kind in findings and findings[kind].count}

    def foreign(self, side: int) -> dict[str, float]:
        """The share of a side's letters in each script that its language does not use."""
        letters, belonging = self._letters[side], self._belonging(side)
        return {script: count / letters.total() for script, count in letters.most_common() if count and script not in belonging}

    def _belonging(self, side: int) -> Collection[str]:
        return self._own[side] or [script for script, _ in self._letters[side].most_common(1)]

    def shifts(self) -> list[Shift]:
        """Where the sides look shifted against each other; see `find_shifts`. Lines are numbered as they were given."""
        return [
            replace(shift, first=self.numbers[shift.first - 1], last=self.numbers[shift.last - 1]) for shift in find_shifts(*self.lengths)
        ]

    def summary(self) -> str:
        """Everything found, in one line."""
        return ", ".join(f"{finding.count:,} {KINDS[kind]}" for kind, finding in self.found().items()) or "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Everything found and measured, in plain values."""
        src, tgt = (np.asarray(lengths, dtype=np.float64) for lengths in self.lengths)
        rows = len(self.numbers)
        both = (src[:rows] > 0) & (tgt[:rows] > 0)
        return {
            "lines": [len(src), len(tgt)],
            "characters": {"src": _distribution(src), "tgt": _distribution(tgt)},
            "ratio": _distribution(tgt[:rows][both] / src[:rows][both]),
            "foreign_letters": {side: self.foreign(place) for place, side in enumerate(SIDES)},
            "findings": {kind: asdict(finding) for kind, finding in self.found().items()},
            "shifts": [asdict(shift) for shift in self.shifts()],
        }


def _distribution(values: NDArray[np.float64]) -> dict[str, float] | None:
    if not len(values):
        return None
    levels = {"min": 0.0, "p1": 0.01, "median": 0.5, "p99": 0.99, "max": 1.0}
    return dict(zip(levels, np.quantile(values, list(levels.values())).round(3).tolist(), strict=True)) | {"mean": round(values.mean(), 3)}
