"""Sampling over the same step function as beam search: each symbol is drawn by its probability."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.coverage import Coverage
from nmt.search import NEVER, Found, State, Step, largest


def sample(
    step: Step[State],
    state: State,
    *,
    seeds: Sequence[int],
    max_lengths: Tensor,
    bos_id: int,
    eos_id: int,
    forbidden_ids: Sequence[int],
    temperature: float,
    top_k: int,
    length_penalty: float,
    coverage: Coverage | None = None,
    samples: int = 1,
) -> list[list[Found]]:
    """Draw N target sequences for each of B sentences, independently of each other: p(y) ∝ exp(log p(y) / temperature).

    What is drawn for a sentence depends on its seed and its probabilities alone, not on the other sentences of the batch.

    Args:
        state: before the first symbol, with K = 1; coverage likewise, and length_penalty: what makes a score, as for beam search.
        seeds: B numbers, 0 to 2 ** 63 − 1.
        max_lengths: (B,) int64 ≥ 1, the most symbols of each sentence, end symbol included; on the device of the search.
        forbidden_ids: ids that are never generated.
        temperature: above 0; 1 is the model's own distribution, towards 0 the most probable symbol wins always.
        top_k: draw from so many most probable symbols; 0 draws from all.
        samples: N.

    Returns:
        For each sentence its N samples, the highest score first; log_prob and score are the model's own, at temperature 1.
    """
    sentences = torch.arange(len(seeds), device=max_lengths.device)
    forbidden = torch.tensor(list(forbidden_ids), dtype=torch.int64, device=max_lengths.device)
    points = _points(seeds, max_lengths, samples).to(max_lengths.device)
    paths = _Paths(len(seeds), samples, max_lengths.device)
    state = state.select(None, sentences.new_zeros((len(seeds), samples)))
    symbols = sentences.new_full((len(seeds), samples), bos_id)
    for length in range(1, points.shape[2] + 1):
        following, weights, state = step(symbols, state)
        allowed = following.index_fill(2, forbidden, NEVER)
        symbols = draw(allowed, points[sentences, :, length - 1], temperature, top_k)
        paths.extend(sentences, symbols, following.gather(2, symbols.unsqueeze(2))[:, :, 0], weights, symbols == eos_id)
        left = (~paths.ended[sentences].all(1) & (max_lengths[sentences] > length)).nonzero()[:, 0]
        if len(left) == 0:
            break
        if len(left) < len(sentences):
            sentences, symbols = sentences[left], symbols[left]
            state = state.select(left, torch.arange(samples, device=left.device).expand(len(left), -1))
    return paths.found(length_penalty, coverage)


def draw(log_probs: Tensor, points: Tensor, temperature: float, top_k: int) -> Tensor:
    """The symbols at these points of the cumulative distributions, by inversion.

    Args:
        log_probs: (B, N, V) float32, minus infinity for what cannot be drawn.
        points: (B, N) float64 in [0, 1), evenly distributed.
        temperature: see `sample`, and `top_k`.

    Returns:
        (B, N) int64.
    """
    values, symbols = log_probs.flatten(0, 1), None
    if top_k > 0:
        values, symbols = largest(values, top_k)
    cumulated = ((values - values.amax(1, keepdim=True)).double() / temperature).softmax(1).cumsum(1)  # 0 is the largest at any temperature
    point = points.reshape(-1, 1) * cumulated[:, -1:]  # the sum is 1 but for rounding
    place = torch.searchsorted(cumulated, point, right=True).clamp(max=cumulated.shape[1] - 1)
    return (place if symbols is None else symbols.gather(1, place)).view(points.shape)


def _points(seeds: Sequence[int], max_lengths: Tensor, samples: int) -> Tensor:
    """(B, N, T) float64 in [0, 1): of each sentence from a generator of its own, and as many as it can need; zero behind them."""
    points = torch.zeros(len(seeds), samples, int(max_lengths.max()), dtype=torch.float64)
    for row, (seed, length) in enumerate(zip(seeds, max_lengths.tolist(), strict=True)):
        points[row, :, :length] = torch.rand(samples, length, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return points


class _Paths:
    """What has been drawn so far: N paths of each of B sentences."""

    def __init__(self, batch_size: int, samples: int, device: torch.device) -> None:
        self.log_probs = torch.zeros(batch_size, samples, device=device)
        self.lengths = torch.zeros(batch_size, samples, dtype=torch.int64, device=device)
        self.ended = torch.zeros(batch_size, samples, dtype=torch.bool, device=device)
        self.symbols: list[Tensor] = []  # each (B, N)
        self.weights: list[Tensor] = []  # each (B, N, S)

    def extend(self, sentences: Tensor, symbols: Tensor, log_probs: Tensor, weights: Tensor, ends: Tensor) -> None:
        """Append a symbol (B', N) to the paths of these sentences (B',); paths that have ended stay as they are."""
        ended = self.ended[sentences]
        self.log_probs[sentences] += log_probs.masked_fill(ended, 0.0)
        self.lengths[sentences] += ~ended
        self.ended[sentences] = ended | ends
        self.symbols.append(symbols.new_zeros(self.lengths.shape).index_copy_(0, sentences, symbols))
        self.weights.append(weights.new_zeros(*self.lengths.shape, weights.shape[2]).index_copy_(0, sentences, weights))

    def found(self, length_penalty: float, coverage: Coverage | None) -> list[list[Found]]:
        """The paths of each sentence as plain data, the highest score first."""
        symbols, weights = torch.stack(self.symbols, 2).tolist(), torch.stack(self.weights, 2)
        looked = self._looked(weights, coverage)
        weights, found = weights.cpu(), list[list[Found]]()
        for row, columns in enumerate(zip(self.log_probs.tolist(), self.lengths.tolist(), self.ended.tolist(), strict=True)):
            paths = []
            for n, (log_prob, length, ended) in enumerate(zip(*columns, strict=True)):
                tokens, score = tuple(symbols[row][n][: length - ended]), log_prob / length**length_penalty + looked[row][n]
                paths.append(Found(tokens, log_prob, score, ended, weights[row, n, :length]))
            found.append(sorted(paths, key=lambda one: -one.score))
        return found

    def _looked(self, weights: Tensor, coverage: Coverage | None) -> list[list[float]]:
        """What coverage adds to each score, from the weights (B, N, T, S) of all steps."""
        scores = torch.zeros_like(self.log_probs)
        if coverage is not None:
            taken = torch.arange(weights.shape[2], device=weights.device) < self.lengths.unsqueeze(2)
            scores = coverage.add((weights * taken.unsqueeze(3)).sum(2)).scores()
        looked: list[list[float]] = scores.tolist()
        return looked
