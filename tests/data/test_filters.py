"""What is dropped, what is counted, and what is warned about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import FilterConfig
from nmt.data.filters import FilterCounts, Overlap, TextFilter, fits, nothing_left, processed_warnings

CONFIG = FilterConfig(max_pieces=20, max_ratio=2.0, drop_copies=True, drop_duplicates=True)
PAIRS = [
    ("a dog", "ein Hund"),  # kept
    ("", "etwas"),
    ("something", " \t\u3000\u2028 "),
    ("", ""),
    ("a cat", "a cat"),  # copy
    ("a cat ", "a cat"),  # copy but for a space
    ("a dog", "ein Hund"),  # duplicate
    ("a dog", "der Hund"),  # kept: another translation
    ("A dog", "ein Hund"),  # kept: another case
    ("\u200b", "nicht leer"),  # blank: nothing of it is to be seen
]


def filtered(config: FilterConfig, pairs: list[tuple[str, str]]) -> tuple[list[int], FilterCounts]:
    text_filter = TextFilter(config)
    for src, tgt in pairs:
        text_filter.accept(src, tgt)
    kept, counts = text_filter.finish()
    return np.flatnonzero(kept).tolist(), counts


def test_text_filter() -> None:
    kept, counts = filtered(CONFIG, PAIRS)
    assert kept == [0, 7, 8]
    assert counts == FilterCounts(read=10, blank=4, copies=2, duplicates=1)
    assert counts.kept == 3


def test_where_duplicates_are_and_came_first() -> None:
    text_filter = TextFilter(CONFIG)
    for src, tgt in [*PAIRS, ("a cat", "a cat"), ("a dog", "der Hund")]:
        text_filter.accept(src, tgt)
    assert [(place, text_filter.first_place(place)) for place in text_filter.duplicates().tolist()] == [(6, 0), (11, 7)]


def test_what_is_said_where_nothing_is_left() -> None:
    assert "3 read; 2 blank, 1 too long; the limits are filter.*" in str(nothing_left(FilterCounts(read=3, blank=2, too_long=1)))


def test_text_filter_without_copies_and_duplicates() -> None:
    kept, counts = filtered(FilterConfig(20, 2.0, drop_copies=False, drop_duplicates=False), PAIRS)
    assert kept == [0, 4, 5, 6, 7, 8]
    assert counts == FilterCounts(read=10, blank=4)


@given(st.lists(st.tuples(st.sampled_from(["", " ", "a", "b\x00"]), st.sampled_from(["", "a", "x", "y"]))))
@settings(deadline=None)
def test_text_filter_is_the_plain_loop(pairs: list[tuple[str, str]]) -> None:
    expected: dict[tuple[str, str], int] = {}
    for index, (src, tgt) in enumerate(pairs):
        if src.strip() and tgt.strip() and src != tgt:
            expected.setdefault((src, tgt), index)
    kept, counts = filtered(CONFIG, pairs)
    assert kept == sorted(expected.values())
    assert counts.kept == len(kept)


def test_lengths() -> None:
    lengths = [(20, 20), (21, 20), (5, 21), (1, 9), (1, 10), (10, 5), (11, 5), (5, 11), (10, 10)]
    counts = FilterCounts()
    verdict = fits(np.array([src for src, _ in lengths]), np.array([tgt for _, tgt in lengths]), CONFIG, counts)
    assert verdict.tolist() == [True, False, False, True, False, True, False, False, True]
    assert (counts.too_long, counts.ratio) == (2, 3)


def test_table_names_every_filter_with_its_count() -> None:
    table = FilterCounts(read=1_000, blank=1, copies=2, duplicates=3, too_long=4, ratio=5).table(CONFIG)
    assert [line.split()[-1] for line in table.split("\n")] == ["1,000", "1", "2", "3", "4", "5", "985"]
    assert "over 20 pieces" in table
    assert "ratio over 2" in table


def test_overlap_exact_and_casefolded() -> None:
    held_out = {
        "valid": [("A dog.", "Ein Hund."), ("a CAT.", "EINE Katze."), ("A bird.", "Ein Vogel."), ("", "")],
        "test": [("Straße", "street"), ("new", "neu")],
    }
    overlap = Overlap(held_out)
    for pair in [("A dog.", "Ein Hund."), ("A cat.", "eine Katze."), ("A bird.", "Der Vogel."), ("STRASSE", "road"), ("", "")]:
        overlap.see(*pair)
    assert overlap.counts() == {
        "valid": {"lines": 4, "sources": 2, "sources_casefolded": 3, "pairs": 1, "pairs_casefolded": 2},
        "test": {"lines": 2, "sources": 0, "sources_casefolded": 1, "pairs": 0, "pairs_casefolded": 0},
    }
    valid, test = overlap.warnings()
    assert valid.startswith("valid: training holds 2 of its 4 source lines (3 case-folded) and 1 of its pairs (2)")
    assert test.startswith("test: training holds 0 of its 2 source lines (1 case-folded)")


def test_no_overlap_no_warning() -> None:
    overlap = Overlap({"valid": [("A dog.", "Ein Hund."), (" ", "")]})
    overlap.see("A cat.", "Eine Katze.")
    assert overlap.warnings() == []


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("he said &quot;no&quot;", "&quot;"),
        ("the dog &apos;s bone", "&apos;|escaped"),
        ("a well @-@ known dog", "@-@"),
        ("un@@ known", "@-@"),
        ("the dog 's bone", "'s"),
        ("it does n't bark", "'s"),
        ("A dog , a cat .", "space before"),
    ],
)
def test_signs_of_processed_text(line: str, sign: str) -> None:
    (warning,) = processed_warnings("test.en", [line] * 6 + ["A plain line."] * 4)
    assert warning.startswith("test.en: 60% of the lines")
    assert any(part in warning for part in sign.split("|"))
    assert "BLEU" in warning


def test_raw_text_has_no_signs() -> None:
    lines = ["A dog's bone, it's well-known: isn't it?", "Où est le chien ?", "R&D at AT&T.", "He said 'so' , once.", "mail me@home.de", ""]
    assert processed_warnings("train.en", lines * 3) == []
    assert processed_warnings("train.en", []) == []
