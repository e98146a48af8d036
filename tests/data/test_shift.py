"""Shifted sides: found where a line was lost, and never where none was."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.shift import find_shifts


def lengths(count: int, seed: int, noise: float = 0.15) -> tuple[list[int], list[int]]:
    """Lengths of lines and of their translations, which are a tenth longer on the average."""
    chance = random.Random(seed)
    src = [max(1, round(chance.lognormvariate(3.8, 0.4))) for _ in range(count)]
    return src, [max(1, round(1.1 * length * chance.lognormvariate(0, noise))) for length in src]


@pytest.mark.parametrize("count", [0, 1, 2, 12, 100, 1_000, 20_000])
def test_aligned_sides_are_not_suspected(count: int) -> None:
    for seed in range(3):
        assert find_shifts(*lengths(count, seed)) == []


@pytest.mark.parametrize("count", [200, 1_000, 20_000])
@pytest.mark.parametrize("side", [0, 1])
def test_a_lost_line_is_found_about_where_it_was(count: int, side: int) -> None:
    for seed in range(3):
        sides = lengths(count, seed)
        lost = count // 4
        sides[side][:] = [*sides[side][:lost], *sides[side][lost + 1 :], 40]
        (shift,) = find_shifts(*sides)
        assert abs(shift.first - (lost + 1)) <= 12
        assert shift.last >= count - 12 and shift.lag == (1 if side == 0 else -1)
        assert shift.standard_errors > 5
        assert f"from about line {shift.first:,} to {shift.last:,}, line n of the source belongs to line n{shift.lag:+}" in str(shift)


def test_a_header_on_one_side_shifts_all_of_it() -> None:
    src, tgt = lengths(300, 1)
    (shift,) = find_shifts(src, [20, *tgt])
    assert shift.lag == 1 and shift.first <= 5 and shift.last >= 290


def test_sides_that_go_together_again() -> None:
    src, tgt = lengths(3_000, 1)
    (shift,) = find_shifts([*src[:1_000], *src[1_001:2_000], 50, *src[2_000:]], tgt)
    assert (round(shift.first, -2), round(shift.last, -2), shift.lag) == (1_000, 2_000, 1)


def test_several_losses_are_told_in_order() -> None:
    src, tgt = lengths(3_000, 1)
    found = find_shifts(src, [*tgt[:1_000], *tgt[1_001:2_000], *tgt[2_001:]])
    assert [(round(shift.first, -2), round(shift.last, -2), shift.lag) for shift in found] == [(1_000, 2_000, -1), (2_000, 3_000, -2)]


def test_a_large_loss_shows_in_the_numbers_of_lines() -> None:
    src, tgt = lengths(3_000, 1)
    (shift,) = find_shifts(src, [*tgt[:1_000], *tgt[1_700:]])
    assert shift.lag == -700 and 1_001 - 12 <= shift.first <= 1_701 + 12  # what lies between has no translation


def translations_of_each(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return [length for length in src for _ in range(3)], [length + more for length in tgt for more in (0, 5, 9)]


def sorted_by_source(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    pairs = sorted(zip(src, tgt, strict=True))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def sorted_short_ones_longer(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    src, tgt = sorted_by_source(src, tgt)
    return src, [round(10 * length**0.5) + length % 7 for length in tgt]


def half_untranslated(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return src, [length if (place * 7919) % 13 < 6 else 0 for place, length in enumerate(tgt)]


def untranslated_runs(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return src, [length if place // 17 % 2 else 0 for place, length in enumerate(tgt)]


def documents(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return ([length * (1 + 9 * (place // 50 % 2)) for place, length in enumerate(lengths)] for lengths in (src, tgt))  # type: ignore[return-value]


def unrelated(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return src, random.Random(5).sample(tgt, len(tgt))


def one_huge_line(src: list[int], tgt: list[int]) -> tuple[list[int], list[int]]:
    return [*src[:50], 600_000, *src[50:]], [*tgt[:50], 700_000, *tgt[50:]]


ODD = [
    translations_of_each,
    sorted_by_source,
    sorted_short_ones_longer,
    half_untranslated,
    untranslated_runs,
    documents,
    unrelated,
    one_huge_line,
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("count", [100, 300, 3_000])
def test_no_alarm_for_odd_but_aligned_text(odd: object, count: int) -> None:
    for seed in range(5):
        assert find_shifts(*odd(*lengths(count, seed))) == []  # type: ignore[operator]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=150), st.integers(0, 30))
@settings(deadline=None, max_examples=50)
def test_any_lengths_at_all(pairs: list[tuple[int, int]], missing: int) -> None:
    src, tgt = [src for src, _ in pairs], [tgt for _, tgt in pairs][missing:]
    for shift in find_shifts(src, tgt):
        assert 1 <= shift.first <= shift.last <= min(len(src), len(tgt)) and shift.lag != 0
