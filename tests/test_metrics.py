import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import Metric
from nmt.metrics import HIGHER_IS_BETTER, distinct_ratio, empty_share, is_better, is_looping, looping_share, shown


@pytest.mark.parametrize(
    ("metric", "new", "best", "better"),
    [
        ("bleu", 30.0, 29.9, True),
        ("bleu", 29.9, 30.0, False),
        ("chrf", 55.0, 50.0, True),
        ("chrf", 50.0, 55.0, False),
        ("loss", 2.0, 2.1, True),
        ("loss", 2.1, 2.0, False),
        ("perplexity", 7.0, 8.0, True),
        ("perplexity", 8.0, 7.0, False),
        ("bleu", 0.0, None, True),
        ("perplexity", math.inf, None, True),
    ],
)
def test_each_metric_has_its_direction(metric: str, new: float, best: float | None, better: bool) -> None:
    assert is_better(metric, new, best) is better


@pytest.mark.parametrize("metric", get_args(Metric))
def test_every_metric_that_can_be_configured_has_a_direction(metric: str) -> None:
    assert metric in HIGHER_IS_BETTER
    assert not is_better(metric, 1.0, 1.0), "patience counts a value that is only as good"
    assert not is_better(metric, math.nan, None) and not is_better(metric, math.nan, 1.0)


def test_shares() -> None:
    texts = ["a dog", "", " \t", "a dog"]
    assert empty_share(texts) == 0.5
    assert distinct_ratio(texts) == 0.75
    assert looping_share(["so so so so", "a dog"]) == 0.5
    assert empty_share([]) == distinct_ratio([]) == looping_share([]) == 0.0


@pytest.mark.parametrize(
    "text",
    ["là là là là", "it seems that " * 4, "A dog is in the in the in the in the", "彼は彼は彼は彼は", "ababababx"],
)
def test_loops(text: str) -> None:
    assert is_looping(text)


@pytest.mark.parametrize(
    "text", ["", "no no no", "a b a b a b", "the man and the dog and the cat and", "Aaah!!!", "1000000", "彼は彼は言った"]
)
def test_no_loops(text: str) -> None:
    assert not is_looping(text)


words = st.lists(st.sampled_from("abc"), max_size=10)


@settings(deadline=None)
@given(start=words, loop=words.filter(bool), rest=words)
def test_a_loop_is_found_wherever_it_stands(start: list[str], loop: list[str], rest: list[str]) -> None:
    assert is_looping(" ".join(start + loop * 4 + rest))


def test_large_numbers_are_shown_shortly() -> None:
    assert [shown(7.125), shown(7.125, 1), shown(999_999.0)] == ["7.12", "7.1", "999999.00"]
    assert [shown(1_234_567.0), shown(math.exp(100)), shown(math.inf)] == ["1.2e+06", "2.7e+43", "inf"]
