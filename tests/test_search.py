"""Beam search against exhaustive search, a plain greedy loop, and itself on other batches."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.coverage import TINY, Coverage
from nmt.errors import ConfigError
from nmt.search import Found, _group_size, beam_search, largest

BOS, EOS = 2, 3
POSITIONS = 4


@dataclass(frozen=True)
class Prefixes:
    """The state of a toy model: a number for everything generated so far, and one for each sentence."""

    code: Tensor  # (B, K)
    sentence: Tensor  # (B, 1)

    def select(self, sentences: Tensor | None, beams: Tensor) -> "Prefixes":
        code, sentence = (self.code, self.sentence) if sentences is None else (self.code[sentences], self.sentence[sentences])
        return Prefixes(code.gather(1, beams), sentence)


class ToyModel:
    """Probabilities that depend on the sentence and on the whole prefix, element by element, so that batches change no bit of them."""

    def __init__(self, vocab_size: int = 5, sharpness: float = 2.0, levels: int | None = None) -> None:
        self.vocab_size, self.sharpness, self.levels = vocab_size, sharpness, levels
        self.sentences_seen: list[int] = []

    def start(self, numbers: list[int]) -> Prefixes:
        sentence = torch.tensor(numbers).unsqueeze(1)
        return Prefixes(sentence * 0 + 7, sentence)

    def step(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Tensor, Prefixes]:
        self.sentences_seen.append(len(tokens))
        code = (state.code * 31 + tokens + 1) % 99991
        angles = (code * (state.sentence * 2 + 3)).unsqueeze(2) * 0.7 + torch.arange(self.vocab_size) * 1.9
        logits = torch.sin(angles.double()) * self.sharpness
        if self.levels is not None:  # equal probabilities, to see how ties are broken
            logits = (logits * self.levels).round() / self.levels
        weights = torch.zeros(*tokens.shape, POSITIONS)
        weights[..., 0] = code
        return logits.log_softmax(2).float(), weights, Prefixes(code, state.sentence)


class LookingModel(ToyModel):
    """It looks at source positions by the prefix, and never at the last one, which is padding."""

    def step(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Tensor, Prefixes]:
        log_probs, weights, state = super().step(tokens, state)
        energies = torch.sin(weights[..., :1].double() * torch.arange(1, POSITIONS)) * 4
        weights[..., :-1] = energies.softmax(2)
        weights[..., -1] = 0
        return log_probs, weights, state


REAL = torch.tensor([[True] * (POSITIONS - 1) + [False]])


def search(model: ToyModel, numbers: list[int], **changes: object) -> list[list[Found]]:
    options: dict = {"beam_size": 4, "length_penalty": 1.0, "max_lengths": torch.full((len(numbers),), 6), "forbidden_ids": (0, 1, BOS)}
    return beam_search(model.step, model.start(numbers), batch_size=len(numbers), bos_id=BOS, eos_id=EOS, **(options | changes))


def log_probs_along(model: ToyModel, number: int, symbols: tuple[int, ...]) -> tuple[list[float], list[float]]:
    """What the model says of each symbol of one sequence, and the first weight that it gives there."""
    state, log_probs, weights = model.start([number]), [], []
    for last, symbol in itertools.pairwise((BOS, *symbols)):
        following, weight, state = model.step(torch.tensor([[last]]), state)
        log_probs.append(float(following[0, 0, symbol]))
        weights.append(float(weight[0, 0, 0]))
    return log_probs, weights


def coverage_along(model: ToyModel, number: int, symbols: tuple[int, ...]) -> float:
    """Σ_j log min(Σ_i α_ij, 1) of one sequence, from one step after another."""
    state, seen = model.start([number]), [0.0] * (POSITIONS - 1)
    for last in (BOS, *symbols[:-1]):
        _, weights, state = model.step(torch.tensor([[last]]), state)
        seen = [one + weight for one, weight in zip(seen, weights[0, 0].tolist(), strict=False)]
    return sum(math.log(min(one, 1.0)) for one in seen)


def exhaustive(
    model: ToyModel, number: int, max_length: int, allowed: list[int], length_penalty: float
) -> list[tuple[float, tuple[int, ...]]]:
    """Every finished sequence of at most max_length symbols, best first."""
    every = [tokens for n in range(max_length) for tokens in itertools.product(allowed, repeat=n)]
    scored = [(sum(log_probs_along(model, number, (*tokens, EOS))[0]) / (len(tokens) + 1) ** length_penalty, tokens) for tokens in every]
    return sorted(scored, reverse=True)


def as_plain(found: list[Found]) -> list[tuple[tuple[int, ...], float, float, bool, list[list[float]]]]:
    return [(one.tokens, one.log_prob, one.score, one.finished, one.weights.tolist()) for one in found]


@settings(deadline=None, max_examples=25)
@given(
    number=st.integers(0, 1000),
    sharpness=st.floats(0.2, 6),
    length_penalty=st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.5, 3.0]),
    max_length=st.integers(1, 4),
    nbest=st.integers(1, 6),
)
def test_a_wide_beam_is_exhaustive_search(number: int, sharpness: float, length_penalty: float, max_length: int, nbest: int) -> None:
    model = ToyModel(6, sharpness)
    expected = exhaustive(model, number, max_length, [4, 5, 1], length_penalty)
    changes = {"forbidden_ids": (0, BOS), "max_lengths": torch.tensor([max_length]), "nbest": nbest, "length_penalty": length_penalty}
    found = search(model, [number], beam_size=200, **changes)[0]
    finished = [one for one in found if one.finished]
    assert [one.score for one in finished] == pytest.approx([score for score, _ in expected[:nbest]], abs=1e-5)
    if len(expected) <= nbest or expected[nbest - 1][0] - expected[nbest][0] > 1e-5:
        assert {one.tokens for one in finished} == {tokens for _, tokens in expected[:nbest]}
    assert len(finished) == min(nbest, len(expected)), "unfinished hypotheses stand in only where finished ones are too few"


@settings(deadline=None, max_examples=25)
@given(
    number=st.integers(0, 1000),
    sharpness=st.floats(0.2, 6),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 3.0]),
    penalty=st.sampled_from([0.05, 0.2, 1.0, 5.0]),
    max_length=st.integers(1, 4),
    nbest=st.integers(1, 6),
)
def test_a_wide_beam_with_coverage_is_exhaustive_search(
    number: int, sharpness: float, length_penalty: float, penalty: float, max_length: int, nbest: int
) -> None:
    model = LookingModel(6, sharpness)
    plain = exhaustive(model, number, max_length, [4, 5, 1], length_penalty)
    expected = sorted(((score + penalty * coverage_along(model, number, (*tokens, EOS)), tokens) for score, tokens in plain), reverse=True)
    changes = {"forbidden_ids": (0, BOS), "max_lengths": torch.tensor([max_length]), "nbest": nbest, "length_penalty": length_penalty}
    found = search(model, [number], beam_size=200, coverage=Coverage.start(penalty, REAL), **changes)[0]
    finished = [one for one in found if one.finished]
    assert [one.score for one in finished] == pytest.approx([score for score, _ in expected[:nbest]], abs=1e-4)
    if len(expected) <= nbest or expected[nbest - 1][0] - expected[nbest][0] > 1e-4:
        assert {one.tokens for one in finished} == {tokens for _, tokens in expected[:nbest]}


@settings(deadline=None, max_examples=30)
@given(number=st.integers(0, 1000), beam_size=st.integers(1, 6), penalty=st.floats(0.01, 5), max_length=st.integers(1, 9))
def test_every_score_counts_what_was_looked_at(number: int, beam_size: int, penalty: float, max_length: int) -> None:
    model, limits = LookingModel(9, sharpness=1.0), torch.tensor([max_length])
    found = search(model, [number], beam_size=beam_size, nbest=beam_size, coverage=Coverage.start(penalty, REAL), max_lengths=limits)[0]
    assert found == sorted(found, key=lambda one: (not one.finished, -one.score)), "finished first, best first"
    for one in found:
        symbols = one.tokens + (EOS,) * one.finished
        expected = one.log_prob / len(symbols) + penalty * coverage_along(model, number, symbols)
        assert one.score == pytest.approx(expected, abs=1e-4)


@settings(deadline=None, max_examples=30)
@given(
    numbers=st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    max_lengths=st.lists(st.integers(1, 9), min_size=6, max_size=6),
    beam_size=st.integers(1, 5),
)
def test_coverage_in_a_batch_is_that_of_its_sentences_one_by_one(numbers: list[int], max_lengths: list[int], beam_size: int) -> None:
    model, limits = LookingModel(9), torch.tensor(max_lengths[: len(numbers)])
    mask = torch.arange(POSITIONS) <= torch.tensor(numbers).unsqueeze(1) % POSITIONS
    options = {"beam_size": beam_size, "nbest": beam_size}
    together = search(model, numbers, coverage=Coverage.start(0.4, mask), max_lengths=limits, **options)
    for row, number in enumerate(numbers):
        one = slice(row, row + 1)
        alone = search(model, [number], coverage=Coverage.start(0.4, mask[one]), max_lengths=limits[one], **options)
        assert as_plain(together[row]) == as_plain(alone[0])


def test_coverage_of_what_was_never_looked_at_is_finite() -> None:
    found = search(LookingModel(), [3], coverage=Coverage.start(0.1, torch.ones(1, POSITIONS, dtype=torch.bool)))[0][0]
    assert found.finished and math.isfinite(found.score)
    assert found.score < 0.1 * math.log(TINY)


def test_without_a_penalty_there_is_no_coverage() -> None:
    assert Coverage.start(0.0, REAL) is None


@settings(deadline=None, max_examples=30)
@given(number=st.integers(0, 1000), sharpness=st.floats(0.2, 6), length_penalty=st.floats(0, 3), max_length=st.integers(1, 12))
def test_a_beam_of_one_is_greedy_search(number: int, sharpness: float, length_penalty: float, max_length: int) -> None:
    model = ToyModel(8, sharpness)
    forbidden = [0, 1, BOS]
    state, tokens, last, log_prob, steps = model.start([number]), [], BOS, 0.0, 0
    while last != EOS and steps < max_length:
        following, _, state = model.step(torch.tensor([[last]]), state)
        following[..., forbidden] = -math.inf
        last, steps = int(following.argmax()), steps + 1
        log_prob += float(following[0, 0, last])
        tokens += [last] if last != EOS else []
    model.sentences_seen.clear()
    found = search(model, [number], beam_size=1, length_penalty=length_penalty, max_lengths=torch.tensor([max_length]))[0]
    assert [(one.tokens, one.finished) for one in found] == [(tuple(tokens), last == EOS)]
    assert found[0].log_prob == pytest.approx(log_prob, abs=1e-5)
    assert len(model.sentences_seen) == steps


@settings(deadline=None, max_examples=30)
@given(
    numbers=st.lists(st.integers(0, 1000), min_size=1, max_size=7),
    max_lengths=st.lists(st.integers(1, 9), min_size=7, max_size=7),
    beam_size=st.integers(1, 6),
    levels=st.sampled_from([None, 1, 2]),
)
@example(numbers=[5, 5, 5, 5, 5, 5, 5], max_lengths=[1, 9, 2, 8, 3, 7, 4], beam_size=3, levels=1)
def test_a_batch_is_its_sentences_one_by_one(numbers: list[int], max_lengths: list[int], beam_size: int, levels: int | None) -> None:
    model = ToyModel(9, levels=levels)
    limits = torch.tensor(max_lengths[: len(numbers)])
    together = search(model, numbers, beam_size=beam_size, nbest=beam_size, max_lengths=limits)
    alone = [search(model, [n], beam_size=beam_size, nbest=beam_size, max_lengths=limits[i : i + 1])[0] for i, n in enumerate(numbers)]
    assert [as_plain(found) for found in together] == [as_plain(found) for found in alone]


@settings(deadline=None, max_examples=30)
@given(number=st.integers(0, 1000), beam_size=st.integers(1, 6), length_penalty=st.floats(0, 2), max_length=st.integers(1, 9))
def test_what_is_returned_is_what_the_model_says(number: int, beam_size: int, length_penalty: float, max_length: int) -> None:
    model = ToyModel(9, sharpness=1.0)
    limits = torch.tensor([max_length])
    found = search(model, [number], beam_size=beam_size, nbest=beam_size, length_penalty=length_penalty, max_lengths=limits)[0]
    assert found
    for one in found:
        symbols = one.tokens + (EOS,) * one.finished
        log_probs, weights = log_probs_along(model, number, symbols)
        assert len(symbols) <= max_length and (one.finished or len(symbols) == max_length)
        assert not {0, 1, BOS, EOS} & set(one.tokens)
        assert one.log_prob == pytest.approx(sum(log_probs), abs=1e-4)
        assert one.score == pytest.approx(one.log_prob / len(symbols) ** length_penalty, abs=1e-4)
        assert one.weights[:, 0].tolist() == weights, "the weights of another hypothesis"
        assert one.weights.shape == (len(symbols), POSITIONS) and one.weights.dtype == torch.float32
    assert found == sorted(found, key=lambda one: (not one.finished, -one.score)), "finished first, best first"
    assert len({(one.tokens, one.finished) for one in found}) == len(found)


@dataclass(frozen=True)
class Path:
    """The state of a model that is written down as a table: the symbols so far, of one sentence."""

    prefixes: tuple[tuple[int, ...], ...]

    def select(self, sentences: Tensor | None, beams: Tensor) -> "Path":
        return Path(tuple(self.prefixes[beam] for beam in beams[0].tolist()))


def table_search(table: dict[tuple[int, ...], dict[int, float]], max_length: int, **options: object) -> list[Found]:
    def step(tokens: Tensor, state: Path) -> tuple[Tensor, Tensor, Path]:
        prefixes = tuple((*prefix, token) for prefix, token in zip(state.prefixes, tokens[0].tolist(), strict=True))
        probabilities = torch.zeros(1, len(prefixes), 6)
        for row, prefix in enumerate(prefixes):
            for symbol, probability in table.get(prefix[1:], {EOS: 1.0}).items():
                probabilities[0, row, symbol] = probability
        return probabilities.log(), torch.ones(1, len(prefixes), 1), Path(prefixes)

    everything: dict = {"beam_size": 2, "forbidden_ids": (0, 1, BOS), "nbest": 1, "max_lengths": torch.tensor([max_length])} | options
    return beam_search(step, Path(((),)), batch_size=1, bos_id=BOS, eos_id=EOS, **everything)[0]


LATE_WINNER = {(): {EOS: 0.5, 4: 0.4}, (4,): {4: 0.9}, (4, 4): {4: 0.9}, (4, 4, 4): {EOS: 0.9}}


def test_the_search_goes_on_while_a_longer_hypothesis_can_win() -> None:
    # the first end symbol is the most probable hypothesis, and with a length penalty not the best one
    assert table_search(LATE_WINNER, 10, length_penalty=1.0)[0].tokens == (4, 4, 4)
    assert table_search(LATE_WINNER, 10, length_penalty=0.0)[0].tokens == ()


def test_a_sentence_stops_when_nothing_can_win_any_more() -> None:
    model = ToyModel(6, sharpness=6.0)
    search(model, [1], length_penalty=0.0, max_lengths=torch.tensor([1000]))
    assert len(model.sentences_seen) < 20


def test_finished_sentences_leave_the_batch() -> None:
    model = ToyModel(9)
    search(model, [1, 2, 3], max_lengths=torch.tensor([2, 9, 4]), beam_size=3, nbest=3)
    assert model.sentences_seen[:2] == [3, 3] and 1 in model.sentences_seen
    assert model.sentences_seen == sorted(model.sentences_seen, reverse=True)


def test_finished_hypotheses_crowd_out_no_live_ones() -> None:
    # with two places for everything, (4, 5) would not be looked at once the two end symbols are there
    table = {(): {4: 0.5, 5: 0.45}, (4,): {EOS: 0.6, 5: 0.39}, (5,): {EOS: 0.6, 4: 0.1}, (4, 5): {4: 0.99}, (4, 5, 4): {EOS: 1.0}}
    assert table_search(table, 10, length_penalty=2.0)[0].tokens == (4, 5, 4)


def test_unfinished_hypotheses_come_only_where_finished_ones_are_too_few() -> None:
    found = table_search({(): {4: 0.7, EOS: 0.2}, (4,): {4: 0.9, 5: 0.1}}, 2, length_penalty=0.0, beam_size=3, nbest=3)
    assert [(one.tokens, one.finished) for one in found] == [((), True), ((4, 4), False), ((4, 5), False)]
    found = table_search({(): {4: 0.7, EOS: 0.2}, (4,): {4: 0.9, 5: 0.1}}, 2, length_penalty=0.0, beam_size=3)
    assert [(one.tokens, one.finished) for one in found] == [((), True)]


def test_a_vocabulary_smaller_than_the_beam() -> None:
    model = ToyModel(5)
    found = search(model, [3], beam_size=50, nbest=50, max_lengths=torch.tensor([4]))[0]
    assert {one.tokens for one in found if one.finished} == {(), (4,), (4, 4), (4, 4, 4)}
    assert [one.tokens for one in found if not one.finished] == [(4, 4, 4, 4)]


def test_only_the_end_symbol_is_allowed() -> None:
    found = search(ToyModel(5), [3, 4], beam_size=2, nbest=2, forbidden_ids=(0, 1, 2, 4))
    assert [[one.tokens for one in sentence] for sentence in found] == [[()], [()]]


def test_nothing_is_allowed() -> None:
    assert search(ToyModel(5), [3, 4], forbidden_ids=(0, 1, 2, 3, 4)) == [[], []]


def test_no_sentences() -> None:
    assert search(ToyModel(5), []) == []


def test_nbest_beyond_the_beam_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nbest = 3 is more than decode.beam_size = 2"):
        search(ToyModel(5), [3], beam_size=2, nbest=3)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, -math.inf]), min_size=7, max_size=7), max_size=4),
    count=st.integers(1, 9),
)
def test_largest_breaks_ties_by_index(rows: list[list[float]], count: int) -> None:
    values, index = largest(torch.tensor(rows).reshape(len(rows), 7), count)
    for row, found, order in zip(rows, values.tolist(), index.tolist(), strict=True):
        expected = sorted(range(7), key=lambda i: (-row[i], i))[:count]
        assert found == [row[i] for i in expected]
        finite = [i for i in expected if row[i] > -math.inf]
        assert order[: len(finite)] == finite


@pytest.mark.parametrize("levels", [2, 5, 100, 100_000])
def test_groups_hold_the_largest(monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
    monkeypatch.setattr("nmt.search.GROUPING_PAYS", 0)
    chance = torch.Generator().manual_seed(levels)
    for width in (1280, 1000, 64 * 61):
        values = torch.randint(levels, (7, width), generator=chance).float()
        values[torch.rand(values.shape, generator=chance) < 0.3] = -math.inf
        values[0] = -math.inf
        values[1, 100:] = -math.inf
        assert _group_size(values, 4) > 0
        top, index = largest(values, 4)
        for row, found, order in zip(values.tolist(), top.tolist(), index.tolist(), strict=True):
            expected = [i for i in sorted(range(width), key=lambda i: (-row[i], i))[:4] if row[i] > -math.inf]
            assert order[: len(expected)] == expected
            assert found == [row[i] for i in expected] + [-math.inf] * (4 - len(expected))
