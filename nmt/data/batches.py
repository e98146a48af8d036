"""Batches by a budget of positions, of pairs of similar length, in an order that depends on the seed and the epoch alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config import BatchesConfig
from nmt.tokenizer import Tokenizer

# Pairs are planned, and sorted by length, in pools of at most this many, so that memory stays flat however large the corpus is.
POOL_PAIRS = 1_000_000
# Of these the new pieces are held in memory, and cutting them takes a core some seconds.
SAMPLED_POOL_PAIRS = 20_000


class Pairs(Protocol):
    """What batches are made of: `PairIds`, or anything like it."""

    @property
    def line_numbers(self) -> NDArray[np.int32]: ...
    def __len__(self) -> int: ...
    def src(self, index: int, /) -> Sequence[int] | NDArray[Any]: ...
    def tgt(self, index: int, /) -> Sequence[int] | NDArray[Any]: ...
    def lengths(self, indices: NDArray[np.int64], /) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
    def release(self) -> None: ...


@dataclass(frozen=True)
class Batch:
    """Padded pairs. The source ends with eos, tgt_in starts with bos, tgt_out ends with eos; pad fills up on the right.

    Attributes:
        src: (B, S) int64.
        src_lengths: (B,) int64, end symbol included.
        tgt_in, tgt_out: (B, T) int64; tgt_out is tgt_in one position later.
        tgt_lengths: (B,) int64, end symbol included.
        src_tokens, tokens: real source and target tokens of the batch, end symbols included; plain numbers.
        pairs: the indices of the pairs in their corpus.
    """

    src: Tensor
    src_lengths: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_lengths: Tensor
    src_tokens: int
    tokens: int
    pairs: tuple[int, ...] = ()

    def rows(self, chosen: slice) -> "Batch":
        """Some of its pairs (at least one), padded no further than they need."""
        src_lengths, tgt_lengths = self.src_lengths[chosen], self.tgt_lengths[chosen]
        source, target = int(src_lengths.max()), int(tgt_lengths.max())
        return Batch(
            src=self.src[chosen, :source].contiguous(),
            src_lengths=src_lengths.contiguous(),
            tgt_in=self.tgt_in[chosen, :target].contiguous(),
            tgt_out=self.tgt_out[chosen, :target].contiguous(),
            tgt_lengths=tgt_lengths.contiguous(),
            src_tokens=int(src_lengths.sum()),
            tokens=int(tgt_lengths.sum()),
            pairs=self.pairs[chosen],
        )

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; to CUDA by way of pinned memory, without waiting for the copy."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

        return replace(
            self,
            src=move(self.src),
            src_lengths=move(self.src_lengths),
            tgt_in=move(self.tgt_in),
            tgt_out=move(self.tgt_out),
            tgt_lengths=move(self.tgt_lengths),
        )


def make_batch(
    src_ids: Sequence[Sequence[int] | NDArray[Any]],
    tgt_ids: Sequence[Sequence[int] | NDArray[Any]],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    pairs: Sequence[int] = (),
) -> Batch:
    """Pad sentences (ids without special ids) and add their special ids; see `Batch`."""
    src, src_lengths = _ended(src_ids, src_tokenizer)
    tgt_out, tgt_lengths = _ended(tgt_ids, tgt_tokenizer)
    tgt_in = np.full_like(tgt_out, tgt_tokenizer.bos_id)
    tgt_in[:, 1:] = np.where(tgt_out[:, :-1] == tgt_tokenizer.eos_id, tgt_tokenizer.pad_id, tgt_out[:, :-1])
    return Batch(
        src=torch.from_numpy(src),
        src_lengths=torch.from_numpy(src_lengths),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt_out),
        tgt_lengths=torch.from_numpy(tgt_lengths),
        src_tokens=int(src_lengths.sum()),
        tokens=int(tgt_lengths.sum()),
        pairs=tuple(pairs),
    )


def _ended(sentences: Sequence[Sequence[int] | NDArray[Any]], tokenizer: Tokenizer) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentences with their end symbol, padded on the right, and their lengths with it."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    ended = np.full((len(sentences), lengths.max(initial=0) + 1), tokenizer.pad_id, np.int64)
    for row, length, sentence in zip(ended, lengths, sentences, strict=True):
        row[:length] = sentence
        row[length] = tokenizer.eos_id
    return ended, lengths + 1


def plan_epoch(
    pairs: Pairs, max_tokens: int, seed: int, epoch: int, pool: int = POOL_PAIRS, first: int = 0
) -> Iterator[list[NDArray[np.int64]]]:
    """Yield the batches of an epoch, pool by pool, as the indices of their pairs: every pair exactly once.

    A pool is spread over the whole corpus: it holds one pair, by chance, of each stretch of as many pairs as there are pools. Its pairs
    are shuffled, sorted by (target, source) length, cut where sentences times the longest side (end symbols included) would exceed
    `max_tokens`, and its batches are shuffled. A pair that is longer than that is a batch of its own.

    Args:
        max_tokens: positions of the longer side of a batch.
        seed: of the run.
        epoch: counted from 0.
        pool: the most pairs that are sorted together.
        first: the pool to begin with; each is the same whether those before it were planned or not.
    """
    rng = np.random.default_rng([seed, epoch])
    pools = count_pools(pairs, pool)
    stretches = np.arange(0, len(pairs), pools)
    shifts = rng.integers(pools, size=len(stretches))
    for number in range(first, pools):
        members = stretches + (shifts + number) % pools
        chance = np.random.default_rng([seed, epoch, number]) if number else rng  # numpy takes a last 0 of a seed for nothing
        yield _plan_pool(pairs, members[members < len(pairs)], max_tokens, chance)


def count_pools(pairs: Pairs, pool: int) -> int:
    """How many pools of at most `pool` pairs an epoch is planned in."""
    return -(-len(pairs) // pool)


def _plan_pool(pairs: Pairs, members: NDArray[np.int64], max_tokens: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    src_lengths, tgt_lengths = pairs.lengths(members)
    order = rng.permutation(len(members))
    order = order[np.lexsort((src_lengths[order], tgt_lengths[order]))]
    batches = list(_cut(members[order], np.maximum(src_lengths, tgt_lengths)[order] + 1, max_tokens))
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(indices: NDArray[np.int64], widths: NDArray[np.int32], max_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Cut a sorted pool into the largest batches that hold rows times widest row ≤ max_tokens."""
    start = 0
    while start < len(indices):
        widest = np.maximum.accumulate(widths[start : start + max(1, max_tokens // int(widths[start]))])
        rows = int(np.searchsorted(widest * np.arange(1, len(widest) + 1), max_tokens, side="right"))
        yield indices[start : start + max(1, rows)]
        start += max(1, rows)


class SampledPairs:
    """Pairs whose texts are cut into pieces anew, by chance: those of a pool when its lengths are asked for, so that it is sorted by them.

    Only the pool at hand is held. Its pieces depend on the seed, the epoch and the pool alone.
    """

    def __init__(self, pairs: Pairs, tokenizers: tuple[Tokenizer, Tokenizer], alpha: float, seed: int, epoch: int) -> None:
        """Take what is cut, by which tokenizers, the alpha of `Tokenizer.resample`, the seed of the run and the epoch."""
        self._pairs, self._tokenizers, self._alpha = pairs, tokenizers, alpha
        self._seed, self._epoch = seed, epoch
        self._src: dict[int, NDArray[np.int32]] = {}
        self._tgt: dict[int, NDArray[np.int32]] = {}

    @property
    def line_numbers(self) -> NDArray[np.int32]:
        return self._pairs.line_numbers

    def __len__(self) -> int:
        return len(self._pairs)

    def src(self, index: int, /) -> NDArray[np.int32]:
        return self._src[index]

    def tgt(self, index: int, /) -> NDArray[np.int32]:
        return self._tgt[index]

    def lengths(self, indices: NDArray[np.int64], /) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        seeds = np.random.SeedSequence([self._seed, self._epoch, int(indices[0])]).generate_state(2).tolist()
        members = indices.tolist()
        self._src, self._tgt = {}, {}  # those of the last pool go before the new ones come
        self._src = self._cut([self._pairs.src(i) for i in members], members, self._tokenizers[0], seeds[0])
        self._tgt = self._cut([self._pairs.tgt(i) for i in members], members, self._tokenizers[1], seeds[1])
        self._pairs.release()
        src, tgt = (np.fromiter(map(len, side.values()), np.int32, len(members)) for side in (self._src, self._tgt))
        return src, tgt

    def _cut(self, side: Sequence[Any], members: Sequence[int], tokenizer: Tokenizer, seed: int) -> dict[int, NDArray[np.int32]]:
        cuts = tokenizer.resample([list(map(int, ids)) for ids in side], self._alpha, seed)
        return {index: np.array(ids, np.int32) for index, ids in zip(members, cuts, strict=True)}

    def release(self) -> None:
        """Nothing to let go of: what is held is the pool at hand."""


class Batches:
    """Batches for ever, epoch after epoch. The order depends on (seed, epoch) alone, and resuming finds its place by index.

    So does chance, where texts are cut into pieces by chance; see `SampledPairs`.
    """

    def __init__(self, pairs: Pairs, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, config: BatchesConfig, seed: int) -> None:
        """Take pairs (at least one), the tokenizers for their special ids, the budget and the seed of the run."""
        self._pairs = pairs
        self._cut = pairs  # as they are read in the epoch at hand
        self._tokenizers = (src_tokenizer, tgt_tokenizer)
        self._max_tokens, self._sampling = config.max_tokens, config.sampling
        self._seed = seed
        self._pool_pairs = min(POOL_PAIRS, SAMPLED_POOL_PAIRS) if self._sampling else POOL_PAIRS
        self._pools = count_pools(pairs, self._pool_pairs)
        self._position = 0  # of the next batch in its epoch
        self._plan: Iterator[list[NDArray[np.int64]]] = iter(())
        self._planned_epoch = -1
        self._pool: list[NDArray[np.int64]] = []  # the batches of the pool at hand, its number, and the position of its first batch
        self._pool_number = self._pool_start = 0
        self.epoch = 0  # of the next batch, counted from 0

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        chosen = self._find_pool()[self._position - self._pool_start]
        src, tgt = [self._cut.src(i) for i in chosen], [self._cut.tgt(i) for i in chosen]
        self._position += 1
        if self._position == self._pool_start + len(self._pool) and self._pool_number == self._pools - 1:
            self._begin(self.epoch + 1)
        batch = make_batch(src, tgt, *self._tokenizers, pairs=chosen.tolist())
        self._cut.release()
        return batch

    def _begin(self, epoch: int) -> None:
        """Stand at the first batch of an epoch."""
        self.epoch, self._position, self._pool_number, self._pool_start = epoch, 0, 0, 0

    def _find_pool(self) -> list[NDArray[np.int64]]:
        """The pool of the next batch."""
        if self._planned_epoch != self.epoch:
            if self._sampling:
                self._cut = SampledPairs(self._pairs, self._tokenizers, self._sampling, self._seed, self.epoch)
            self._plan = plan_epoch(self._cut, self._max_tokens, self._seed, self.epoch, self._pool_pairs, self._pool_number)
            self._planned_epoch, self._pool = self.epoch, next(self._plan, [])
        while self._position >= self._pool_start + len(self._pool):
            self._pool_start += len(self._pool)
            self._pool, self._pool_number = next(self._plan, []), self._pool_number + 1
            if not self._pool:  # resumed with fewer batches an epoch than before: go on with the next epoch
                self._begin(self.epoch + 1)
                return self._find_pool()
        return self._pool

    @property
    def epochs_done(self) -> float:
        """How many times all pairs have been seen, with the share of the epoch at hand."""
        pool = self._find_pool()
        return self.epoch + (self._pool_number + (self._position - self._pool_start) / len(pool)) / self._pools

    def line_numbers(self, batch: Batch) -> list[int]:
        """Which pairs of the training text a batch of these holds, counted from 1 over all its files."""
        return [int(number) for number in self._pairs.line_numbers[list(batch.pairs)]]

    def restart_epoch(self) -> None:
        """Go back to the first batch of the epoch at hand."""
        self._begin(self.epoch)
        self._planned_epoch = -1

    def state_dict(self) -> dict[str, int]:
        """Where the next batch is; `pool_start` is the position of the first batch of its pool."""
        return {"epoch": self.epoch, "position": self._position, "pool": self._pool_number, "pool_start": self._pool_start}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go to where `state_dict` was taken."""
        self.epoch, self._position = int(state["epoch"]), int(state["position"])
        self._pool_number, self._pool_start = int(state.get("pool", 0)), int(state.get("pool_start", 0))
        self._planned_epoch = -1
