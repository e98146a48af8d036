"""Beam search over a step function and a state that it knows nothing about; greedy search is a beam of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from nmt.coverage import Coverage
from nmt.errors import ConfigError

NEVER = float("-inf")
GROUPING_PAYS = 2**18  # values, on a CPU


class SearchState(Protocol):
    """What a step function carries from one symbol to the next, for B sentences with K hypotheses each."""

    def select(self, sentences: Tensor | None, beams: Tensor) -> Self:
        """Keep the sentences with these indices (B',), or all where None, then of each the hypotheses `beams` (B', K')."""
        ...


State = TypeVar("State", bound=SearchState)
# (last symbols (B, K) int64, state) -> (log_probs (B, K, V) float32 of the next symbol, weights (B, K, S), next state); log_probs belong
# to the search afterwards, which overwrites them
Step = Callable[[Tensor, State], tuple[Tensor, Tensor, State]]


@dataclass(frozen=True)
class Found:
    """One hypothesis.

    Attributes:
        tokens: target ids without the end symbol.
        log_prob: natural logarithm of its probability, the end symbol included where it is finished.
        score: log_prob / length ** length_penalty, where length counts the end symbol, plus the coverage's score where there is one.
        finished: False where max_length cut it off before an end symbol.
        weights: (length, S) float32 on the CPU, the attention weights from which each symbol, the end symbol included, was generated;
            (0, S) where only those of the best hypothesis are wanted.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    weights: Tensor


def beam_search(
    step: Step[State],
    state: State,
    *,
    batch_size: int,
    max_lengths: Tensor,
    bos_id: int,
    eos_id: int,
    forbidden_ids: Sequence[int],
    beam_size: int,
    length_penalty: float,
    coverage: Coverage | None = None,
    nbest: int = 1,
) -> list[list[Found]]:
    """Find the most probable target sequences of B sentences at once, with K = beam_size hypotheses each.

    Of the 2 K best continuations at each length, end symbols among the first K give finished hypotheses and the best K others live on,
    so that finished ones crowd out none. A sentence leaves the batch at its max_length, or when no live hypothesis can still beat the
    worst of its `nbest` finished ones; a beam of one leaves with its first end symbol, as greedy search does. Equal candidates go by
    hypothesis and id. A sentence's result does not depend on the other sentences.

    Args:
        state: before the first symbol, with K = 1; coverage likewise, None for scores of probabilities alone.
        max_lengths: (B,) int64 ≥ 1, the most symbols of each sentence, end symbol included; on the device of the search.
        forbidden_ids: ids that are never generated.
        length_penalty: exponent of the length, ≥ 0; 0 compares log probabilities, 1 their means over symbols.

    Returns:
        For each sentence at most `nbest` hypotheses (at most K): finished ones, best first, then, where they are too few, unfinished ones.

    Raises:
        ConfigError: nbest is larger than the beam.
    """
    if nbest > beam_size:
        raise ConfigError(f"nbest = {nbest} is more than decode.beam_size = {beam_size}: raise decode.beam_size or lower nbest")
    forbidden = torch.tensor(list(forbidden_ids), dtype=torch.int64, device=max_lengths.device)
    sentences, limits = torch.arange(batch_size, device=max_lengths.device), max_lengths
    live, ended, history = _Beams.start(sentences, bos_id), _Ended.none(sentences, nbest), list[_Links]()
    while len(sentences) > 0:
        following, weights, state = step(live.symbols, state)
        coverage = coverage and coverage.add(weights)
        finished, live = _extend(following.add_(live.log_probs.unsqueeze(2)).index_fill_(2, forbidden, NEVER), eos_id, beam_size)
        history.append(_Links(sentences, live.beams, live.symbols, weights))
        done = _settle(ended, sentences, finished, live, len(history), limits, length_penalty, coverage)
        left = (~done).nonzero()[:, 0] if done.any() else None
        if left is not None:
            sentences, limits, live = sentences[left], limits[left], live.at(left)
        if len(sentences) > 0:
            state, coverage = state.select(left, live.beams), coverage and coverage.select(left, live.beams)
    return _collect(ended, history, eos_id)


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row (B, N), or all N, in falling order and equal ones by index, which torch.topk leaves open.

    Returns:
        values and indices, (B, min(count, N)).
    """
    count = min(count, values.shape[1])
    if size := _group_size(values, count):
        groups = values.view(len(values), -1, size)
        chosen = largest(groups.amax(2), count)[1].sort(1).values
        top, place = largest(groups.gather(1, chosen.unsqueeze(2).expand(-1, -1, size)).flatten(1), count)
        return top, chosen.gather(1, place // size) * size + place % size
    if count == 1:
        top, index = values.max(1, keepdim=True)  # the first of equal ones
        return top, index
    top, index = values.topk(min(count + 1, values.shape[1]))
    top, index, beyond = top[:, :count], index[:, :count], top[:, count:]
    torn = ((top[:, -1:] == beyond) & beyond.isfinite()).any(1).nonzero()[:, 0]  # rows where equal values stand on both sides of the cut
    if len(torn) > 0:
        index[torn] = _largest_by_index(values[torn], top[torn, -1:], count)
    index = index.sort(1).values
    top, order = values.gather(1, index).sort(dim=1, descending=True, stable=True)
    return top, index.gather(1, order)


def _group_size(values: Tensor, count: int) -> int:
    """The length of groups, side by side, of which those `count` with the largest maxima hold all `count` largest values; 0 for no gain.

    Any group before the one of such a value, by maximum and then by index, has a value that goes before it. On a CPU, maxima cost a tenth
    of a top-k over a vocabulary.
    """
    if values.device.type != "cpu" or values.numel() < GROUPING_PAYS:
        return 0
    divisors = (size for size in range(64, 15, -1) if values.shape[1] % size == 0)
    size = next(divisors, 0)
    return size if size * count * 4 < values.shape[1] else 0


def _largest_by_index(values: Tensor, smallest: Tensor, count: int) -> Tensor:
    """Indices (B, count) of the values above `smallest` (B, 1) and of the first ones that equal it."""
    above, equal = values > smallest, values == smallest
    taken = above | (equal & (equal.cumsum(1) <= count - above.sum(1, keepdim=True)))
    return taken.nonzero()[:, 1].view(-1, count)


class _Beams(NamedTuple):
    """K hypotheses of each of B' sentences, best first; a log probability of minus infinity is none. All (B', K)."""

    log_probs: Tensor
    beams: Tensor  # which of the hypotheses before its last symbol each one continues
    symbols: Tensor  # its last symbol

    @classmethod
    def start(cls, sentences: Tensor, bos_id: int) -> Self:
        zeros = torch.zeros_like(sentences).unsqueeze(1)
        return cls(zeros.float(), zeros, zeros + bos_id)

    def at(self, sentences: Tensor) -> "_Beams":
        return _Beams(*(part[sentences] for part in self))

    def only(self, sentences: Tensor) -> "_Beams":
        """Those of the sentences that are True (B',), and none of the others."""
        return self._replace(log_probs=self.log_probs.masked_fill(~sentences.unsqueeze(1), NEVER))


def _extend(totals: Tensor, eos_id: int, beam_size: int) -> tuple[_Beams, _Beams]:
    """The finished and the K live ones among the 2 K best of all continuations, whose log probabilities are totals (B', K, V)."""
    # a beam of one ends with its first end symbol, so nothing is wanted beside it
    log_probs, index = largest(totals.flatten(1), 2 * beam_size if beam_size > 1 else 1)
    beams, symbols = index // totals.shape[2], index % totals.shape[2]
    ends = symbols == eos_id
    finished = _Beams(*(part[:, :beam_size] for part in (log_probs.masked_fill(~ends, NEVER), beams, symbols)))
    order = ends.int().argsort(dim=1, stable=True)[:, :beam_size]
    return finished, _Beams(*(part.gather(1, order) for part in (log_probs.masked_fill(ends, NEVER), beams, symbols)))


class _Ended(NamedTuple):
    """Hypotheses that ended, N for each of B sentences, best first; a score of minus infinity is none. All (B, N)."""

    scores: Tensor
    log_probs: Tensor
    lengths: Tensor
    beams: Tensor
    symbols: Tensor

    @classmethod
    def none(cls, sentences: Tensor, places: int) -> Self:
        zeros = sentences.new_zeros((3, len(sentences), places))
        return cls(*torch.full_like(zeros[:2], NEVER, dtype=torch.float32), *zeros)

    @classmethod
    def of(cls, beams: _Beams, length: int, length_penalty: float, coverage: Coverage | None) -> Self:
        """Of hypotheses that end now; coverage is that of those which they continue: what was seen is the same for every symbol."""
        log_probs, continued, symbols = beams
        scores = log_probs / length**length_penalty
        if coverage is not None:
            scores = scores + coverage.scores().gather(1, continued)
        return cls(scores, log_probs, torch.full_like(symbols, length), continued, symbols)

    def add(self, sentences: Tensor, others: "_Ended") -> None:
        """Keep the N best of those of `sentences` (B',) and others (B', M); of equal ones the earlier."""
        both = self._beside(sentences, others)
        self._put(sentences, both, both.scores.argsort(dim=1, descending=True, stable=True))

    def fill(self, sentences: Tensor, others: "_Ended") -> None:
        """Put the best of others (B', M) in the places of `sentences` (B',) that are still free."""
        order = others.scores.argsort(dim=1, descending=True, stable=True)
        both = self._beside(sentences, _Ended(*(part.gather(1, order) for part in others)))
        self._put(sentences, both, (both.scores == NEVER).int().argsort(dim=1, stable=True))

    def _beside(self, sentences: Tensor, others: "_Ended") -> "_Ended":
        return _Ended(*(torch.cat((mine[sentences], new), 1) for mine, new in zip(self, others, strict=True)))

    def _put(self, sentences: Tensor, both: "_Ended", order: Tensor) -> None:
        for mine, new in zip(self, both, strict=True):
            mine[sentences] = new.gather(1, order[:, : mine.shape[1]])


def _settle(
    ended: _Ended,
    sentences: Tensor,
    finished: _Beams,
    live: _Beams,
    length: int,
    limits: Tensor,
    length_penalty: float,
    coverage: Coverage | None,
) -> Tensor:
    """Put the hypotheses that end at this length in their places; returns which of the sentences are done, (B',) bool.

    A sentence is done when no score that is still to come can be better. A live hypothesis of log probability p ≤ 0 ends at a length n of
    at most `limit` with a log probability q ≤ p and, for its coverage, c ≤ 0: q / n ** penalty + c ≤ p / limit ** penalty.
    """
    at_limit = limits <= length
    if (finished.log_probs > NEVER).any():
        ended.add(sentences, _Ended.of(finished, length, length_penalty, coverage))
    if at_limit.any():
        ended.fill(sentences, _Ended.of(live.only(at_limit), length, length_penalty, coverage))
    kept = ended.scores[sentences]
    bound = live.log_probs[:, 0] / limits**length_penalty
    greedy = live.log_probs.shape[1] == 1
    return at_limit | (bound <= kept[:, -1]) | ((kept[:, 0] > NEVER) & greedy)


class _Links(NamedTuple):
    """One step of the search, for the B' of B sentences that were still in it: what leads back along each hypothesis."""

    sentences: Tensor  # (B'), rising
    beams: Tensor  # (B', K')
    symbols: Tensor  # (B', K')
    weights: Tensor  # (B', K, S), by the hypotheses that were continued


def _collect(ended: _Ended, history: list[_Links], eos_id: int) -> list[list[Found]]:
    """The hypotheses of each sentence as plain data."""
    found: list[list[Found]] = [[] for _ in ended.scores]
    sentences, places = (ended.scores != NEVER).nonzero().unbind(1)
    if len(sentences) == 0:
        return found
    paths = _Ended(*(part[sentences, places] for part in ended))
    symbols, weights = (part.cpu() for part in _trace(sentences, paths, history))
    rows = zip(sentences.tolist(), *(part.tolist() for part in paths), strict=True)
    for row, (sentence, score, log_prob, length, _, last) in enumerate(rows):
        finished = last == eos_id
        tokens = tuple(symbols[row, : length - finished].tolist())
        found[sentence].append(Found(tokens, log_prob, score, finished, weights[row, :length]))
    return found


def _trace(sentences: Tensor, paths: _Ended, history: list[_Links]) -> tuple[Tensor, Tensor]:
    """Symbols (P, T) and weights (P, T, S) of P hypotheses of these sentences (P,), whose fields are (P,), from last to first."""
    steps = int(paths.lengths.max())
    symbols = sentences.new_zeros((len(sentences), steps))
    weights = history[0].weights.new_zeros((len(sentences), steps, history[0].weights.shape[2]))
    symbol, beam = paths.symbols.clone(), paths.beams.clone()
    for step in reversed(range(steps)):
        path = (paths.lengths > step).nonzero()[:, 0]
        rows = torch.searchsorted(history[step].sentences, sentences[path])
        symbols[path, step] = symbol[path]
        weights[path, step] = history[step].weights[rows, beam[path]]
        if step > 0:
            links = history[step - 1]
            before = torch.searchsorted(links.sentences, sentences[path]), beam[path]
            symbol[path], beam[path] = links.symbols[before], links.beams[before]
    return symbols, weights
