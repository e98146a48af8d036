"""Sampling: the right distribution, nothing that is forbidden, and draws that depend on the sentence and its seed alone."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import BOS, EOS, REAL, LookingModel, ToyModel, coverage_along, log_probs_along, search
from torch import Tensor

from nmt.coverage import Coverage
from nmt.sampling import draw, sample
from nmt.search import NEVER, Found

FORBIDDEN = (0, 1, BOS)


def drawn(model: ToyModel, numbers: list[int], seeds: list[int], **changes: Any) -> list[list[Found]]:
    options: dict[str, Any] = {"max_lengths": torch.full((len(numbers),), 6), "temperature": 1.0, "top_k": 0, "length_penalty": 1.0}
    options |= {"bos_id": BOS, "eos_id": EOS, "forbidden_ids": FORBIDDEN}
    return sample(model.step, model.start(numbers), seeds=seeds, **(options | changes))


def shares(log_probs: Tensor, temperature: float, top_k: int, draws: int = 40_000) -> Tensor:
    points = torch.rand(1, draws, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return draw(log_probs.expand(1, draws, -1), points, temperature, top_k)[0].bincount(minlength=len(log_probs)) / draws


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [0, 2, 9])
def test_symbols_are_drawn_by_their_probability(temperature: float, top_k: int) -> None:
    log_probs = torch.tensor([NEVER, -2.0, -0.5, -3.0, NEVER, -1.2])
    expected = log_probs if top_k != 2 else torch.tensor([NEVER, NEVER, -0.5, NEVER, NEVER, -1.2])
    torch.testing.assert_close(shares(log_probs, temperature, top_k), (expected / temperature).softmax(0), atol=0.01, rtol=0)


@pytest.mark.parametrize("point", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("top_k", [0, 5])
def test_the_ends_of_the_distribution_are_allowed_symbols(point: float, top_k: int) -> None:
    log_probs = torch.tensor([[[NEVER, NEVER, -1e4, -0.1, -30.0, NEVER]]])
    symbol = draw(log_probs, torch.tensor([[point]], dtype=torch.float64), 1.0, top_k)
    assert log_probs[0, 0, symbol] > -100


def test_no_rounding_of_the_sum_leads_to_a_forbidden_symbol() -> None:
    log_probs = torch.randn(50, 1, 1000, generator=torch.Generator().manual_seed(1))
    log_probs[:, :, -1] = NEVER
    assert (draw(log_probs, torch.full((50, 1), 1 - 2**-53, dtype=torch.float64), 1.0, 0) < 999).all()


@pytest.mark.parametrize("temperature", [1e-5, 1e-300])
def test_a_low_temperature_is_greedy_search(temperature: float) -> None:
    model, numbers = ToyModel(vocab_size=9), list(range(12))
    greedy = search(model, numbers, beam_size=1)
    for (one,), (other,) in zip(drawn(model, numbers, numbers, temperature=temperature), greedy, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert (one.log_prob, one.score) == (pytest.approx(other.log_prob), pytest.approx(other.score))
        torch.testing.assert_close(one.weights, other.weights)


@pytest.mark.parametrize("temperature", [1e-300, 1e-309, 5e-324])
def test_no_temperature_is_too_low(temperature: float) -> None:
    log_probs = torch.tensor([[[-3.0, -0.1, -2.0, -9.0]]])
    for top_k in (0, 3):
        assert draw(log_probs, torch.tensor([[0.999]], dtype=torch.float64), temperature, top_k).tolist() == [[1]]


def test_top_k_of_one_is_greedy_search() -> None:
    model, numbers = ToyModel(vocab_size=9), list(range(12))
    greedy = [one.tokens for (one,) in search(model, numbers, beam_size=1)]
    assert [one.tokens for (one,) in drawn(model, numbers, numbers, top_k=1, temperature=5.0)] == greedy


def test_scores_count_what_was_looked_at() -> None:
    model, numbers = LookingModel(vocab_size=6), [4, 5, 6]
    limits, coverage = torch.tensor([3, 9, 5]), Coverage.start(0.3, REAL.expand(3, -1))
    every = drawn(model, numbers, numbers, samples=8, max_lengths=limits, coverage=coverage)
    for number, found in zip(numbers, every, strict=True):
        assert found == sorted(found, key=lambda one: -one.score) and len({len(one.tokens) for one in found}) > 1
        for one in found:
            symbols = one.tokens + (EOS,) * one.finished
            assert one.score == pytest.approx(one.log_prob / len(symbols) + 0.3 * coverage_along(model, number, symbols), abs=1e-4)


def test_whole_sequences_are_drawn_by_their_probability() -> None:
    model = ToyModel(vocab_size=6)
    (found,) = drawn(model, [4], [11], samples=20_000, max_lengths=torch.tensor([3]), forbidden_ids=())
    counts = Counter((*one.tokens, EOS) if one.finished else one.tokens for one in found)
    assert len(counts) > 50
    for symbols, count in counts.most_common(20):
        log_prob = sum(log_probs_along(model, 4, symbols)[0])
        assert count / 20_000 == pytest.approx(math.exp(log_prob), abs=0.012)


@settings(deadline=None, max_examples=30)
@given(numbers=st.lists(st.integers(0, 40), min_size=1, max_size=6), samples=st.integers(1, 4), top_k=st.integers(0, 4), data=st.data())
def test_each_sample_is_what_the_model_says_of_it_alone(numbers: list[int], samples: int, top_k: int, data: st.DataObject) -> None:
    model = ToyModel(vocab_size=8)
    limits = torch.tensor([data.draw(st.integers(1, 7)) for _ in numbers])
    together = drawn(model, numbers, numbers, samples=samples, max_lengths=limits, top_k=top_k, length_penalty=0.7)
    for number, limit, found in zip(numbers, limits, together, strict=True):
        (alone,) = drawn(model, [number], [number], samples=samples, max_lengths=limit.view(1), top_k=top_k, length_penalty=0.7)
        assert [one.tokens for one in found] == [one.tokens for one in alone] and len(found) == samples
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for one in found:
            symbols = (*one.tokens, EOS) if one.finished else one.tokens
            log_probs, weights = log_probs_along(model, number, symbols)
            assert one.log_prob == pytest.approx(sum(log_probs), abs=1e-5)
            assert one.score == pytest.approx(one.log_prob / len(symbols) ** 0.7)
            assert one.weights[:, 0].tolist() == weights and len(one.weights) == len(symbols) <= limit
            assert one.finished or len(symbols) == limit
            assert not {*FORBIDDEN, EOS} & set(one.tokens)


def test_the_seed_decides() -> None:
    model = ToyModel(vocab_size=9)
    first, again, other = ([one.tokens for one in drawn(model, [5], [seed], samples=8)[0]] for seed in (1, 1, 2**63 - 1))
    assert first == again != other
    assert len(set(first)) > 1


def test_finished_sentences_leave_the_batch() -> None:
    model = ToyModel(vocab_size=9)
    drawn(model, list(range(20)), list(range(20)))
    assert model.sentences_seen[0] == 20 and model.sentences_seen == sorted(model.sentences_seen, reverse=True)
    assert model.sentences_seen[-1] < 20


def test_probabilities_that_are_no_numbers_show_in_the_score() -> None:
    model = ToyModel()

    def broken(tokens: Tensor, state: Any) -> Any:
        following, weights, state = model.step(tokens, state)
        return following * float("nan"), weights, state

    (found,) = sample(
        broken, model.start([1]), seeds=[1], max_lengths=torch.tensor([3]), bos_id=BOS, eos_id=EOS, forbidden_ids=FORBIDDEN,
        temperature=1.0, top_k=0, length_penalty=1.0,
    )  # fmt: skip
    assert math.isnan(found[0].score)
