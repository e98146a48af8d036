"""Batches: within the budget, every pair once an epoch, the same order for the same seed, and resumable at every place."""

import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from toy_corpus import sentences

from nmt.config import BatchesConfig, TokenizerConfig
from nmt.data.batches import Batch, Batches, SampledPairs, count_pools, make_batch, plan_epoch
from nmt.tokenizer import Tokenizer, train_tokenizers

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@dataclass(frozen=True)
class Lists:
    """Pairs in memory: pair i is i repeated, so that a row tells which pair it is."""

    src_lengths: NDArray[np.int32]
    tgt_lengths: NDArray[np.int32]

    @property
    def line_numbers(self) -> NDArray[np.int32]:
        return np.arange(101, 101 + len(self), dtype=np.int32)

    def __len__(self) -> int:
        return len(self.src_lengths)

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.src_lengths[indices], self.tgt_lengths[indices]

    def release(self) -> None:
        pass

    def src(self, index: int) -> list[int]:
        return [10 + int(index)] * int(self.src_lengths[index])

    def tgt(self, index: int) -> list[int]:
        return [11 + int(index)] * int(self.tgt_lengths[index])


@dataclass(frozen=True)
class Encoded(Lists):
    """Pairs of real text."""

    src_ids: list[list[int]]
    tgt_ids: list[list[int]]

    def src(self, index: int) -> NDArray[np.uint16]:
        return np.array(self.src_ids[index], np.uint16)

    def tgt(self, index: int) -> NDArray[np.uint16]:
        return np.array(self.tgt_ids[index], np.uint16)


def lists(lengths: list[tuple[int, int]]) -> Lists:
    return Lists(np.array([src for src, _ in lengths], np.int32), np.array([tgt for _, tgt in lengths], np.int32))


def captions(count: int) -> Lists:
    """Lengths as in image captions: mean 13, standard deviation 4, target length within a few tokens of the source."""
    rng = np.random.default_rng(1)
    src = np.clip(rng.normal(13, 4, count), 3, 40)
    return Lists(src.astype(np.int32), np.clip(src * rng.normal(1, 0.12, count), 3, 40).astype(np.int32))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig("bpe", joint=True, vocab_size=270, character_coverage=1.0, byte_fallback=True, sample_lines=9, seed=1)
    return train_tokenizers(["dog cat"], ["Hund"], config)[0]


def batches(pairs: Lists, tokenizer: Tokenizer, max_tokens: int = 64, seed: int = 7) -> Batches:
    return Batches(pairs, tokenizer, tokenizer, BatchesConfig(max_tokens=max_tokens, accumulate=1, sampling=0.0), seed)


def same(first: Batch, second: Batch) -> bool:
    names = ("src", "src_lengths", "tgt_in", "tgt_out", "tgt_lengths")
    return first.pairs == second.pairs and all(torch.equal(getattr(first, name), getattr(second, name)) for name in names)


def test_make_batch_adds_special_ids_and_padding(tokenizer: Tokenizer) -> None:
    pad, bos, eos = tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id
    batch = make_batch([[10, 11], [12]], [[20], np.array([21, 22, 23], np.uint16)], tokenizer, tokenizer, pairs=(4, 9))
    assert batch.src.tolist() == [[10, 11, eos], [12, eos, pad]]
    assert batch.src_lengths.tolist() == [3, 2]
    assert batch.tgt_in.tolist() == [[bos, 20, pad, pad], [bos, 21, 22, 23]]
    assert batch.tgt_out.tolist() == [[20, eos, pad, pad], [21, 22, 23, eos]]
    assert batch.tgt_lengths.tolist() == [2, 4]
    assert (batch.src_tokens, batch.tokens, batch.pairs) == (5, 6, (4, 9))
    assert {getattr(batch, name).dtype for name in ("src", "src_lengths", "tgt_in", "tgt_out", "tgt_lengths")} == {torch.int64}


@given(LENGTHS, st.integers(1, 4))
@settings(deadline=None)
def test_shares_of_a_batch_are_its_pairs_padded_no_further_than_they_need(
    tokenizer: Tokenizer, lengths: list[tuple[int, int]], count: int
) -> None:
    pairs = lists(lengths)
    members = list(range(len(pairs)))
    batch = make_batch([pairs.src(i) for i in members], [pairs.tgt(i) for i in members], tokenizer, tokenizer, members)
    for rank in range(min(count, len(members))):
        share, of = batch.rows(slice(rank, None, count)), members[rank::count]
        assert same(share, make_batch([pairs.src(i) for i in of], [pairs.tgt(i) for i in of], tokenizer, tokenizer, of))
    assert same(batch.rows(slice(None)), batch)


def test_a_batch_can_be_found_in_the_text(tokenizer: Tokenizer) -> None:
    found = batches(lists([(3, 3)] * 9), tokenizer)
    batch = next(found)
    assert found.line_numbers(batch) == [101 + pair for pair in batch.pairs]


def test_an_epoch_can_begin_again(tokenizer: Tokenizer) -> None:
    found = batches(lists([(5, 5)] * 40), tokenizer)
    first = next(found)
    next(found)
    found.restart_epoch()
    assert same(next(found), first)


def test_a_batch_moves_whole(tokenizer: Tokenizer) -> None:
    batch = make_batch([[10]], [[20]], tokenizer, tokenizer)
    moved = batch.to(torch.device("meta"))
    assert {getattr(moved, name).device.type for name in ("src", "src_lengths", "tgt_in", "tgt_out", "tgt_lengths")} == {"meta"}
    assert moved.tokens == batch.tokens == 2


@given(LENGTHS, st.integers(1, 80), st.integers(0, 3), st.integers(0, 3), st.integers(1, 70))
@settings(deadline=None, max_examples=150)
def test_every_pair_once_and_within_the_budget(lengths: list[tuple[int, int]], max_tokens: int, seed: int, epoch: int, pool: int) -> None:
    pairs = lists(lengths)
    pools = list(plan_epoch(pairs, max_tokens, seed, epoch, pool))
    assert len(pools) == count_pools(pairs, pool) and all(sum(map(len, batches)) <= pool for batches in pools)
    plan = [chosen for batches in pools for chosen in batches]
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(pairs)))
    for chosen in plan:
        widest = max(int(pairs.src_lengths[chosen].max()), int(pairs.tgt_lengths[chosen].max())) + 1
        assert len(chosen) * widest <= max_tokens or len(chosen) == 1


@given(LENGTHS, st.integers(1, 80))
@settings(deadline=None, max_examples=50)
def test_batches_are_as_large_as_the_budget_allows(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    """The cut is that of a plain loop that adds pairs, in sorted order, until the next one would not fit."""
    pairs = lists(lengths)
    (plan,) = plan_epoch(pairs, max_tokens, seed=1, epoch=0)
    order = sorted((pair for chosen in plan for pair in chosen), key=lambda i: (pairs.tgt_lengths[i], pairs.src_lengths[i]))
    sizes: list[int] = []
    widest = 0
    for pair in order:
        width = int(max(pairs.src_lengths[pair], pairs.tgt_lengths[pair])) + 1
        if sizes and (sizes[-1] + 1) * max(widest, width) <= max_tokens:
            sizes[-1], widest = sizes[-1] + 1, max(widest, width)
        else:
            sizes, widest = [*sizes, 1], width
    assert sorted(len(chosen) for chosen in plan) == sorted(sizes)


def test_rows_are_the_pairs_that_the_batch_names(tokenizer: Tokenizer) -> None:
    pairs = captions(100)
    stream = batches(pairs, tokenizer)
    while stream.epoch == 0:
        batch = next(stream)
        for row, pair in enumerate(batch.pairs):
            src, tgt = batch.src[row, : batch.src_lengths[row]].tolist(), batch.tgt_out[row, : batch.tgt_lengths[row]].tolist()
            assert src == [*pairs.src(pair), tokenizer.eos_id]
            assert tgt == [*pairs.tgt(pair), tokenizer.eos_id]


def test_order_depends_on_seed_and_epoch_alone(tokenizer: Tokenizer) -> None:
    pairs = captions(300)

    def epochs(seed: int) -> list[list[tuple[int, ...]]]:
        stream, seen = batches(pairs, tokenizer, seed=seed), [[], [], []]
        while stream.epoch < 3:
            seen[stream.epoch].append(next(stream).pairs)
        return seen

    first = epochs(7)
    assert first == epochs(7)
    assert first != epochs(8)
    assert first[0] != first[1] != first[2]
    assert all(sorted(i for chosen in epoch for i in chosen) == list(range(300)) for epoch in first)


def test_the_order_of_one_pool_is_the_one_that_saved_positions_count_in() -> None:
    pairs = captions(500)
    rng = np.random.default_rng([7, 2])
    order = rng.permutation(500)
    order = order[np.lexsort((pairs.src_lengths[order], pairs.tgt_lengths[order]))]
    (plan,) = plan_epoch(pairs, 100, seed=7, epoch=2)
    place = rng.permutation(len(plan)).tolist()
    assert np.concatenate([plan[place.index(i)] for i in range(len(plan))]).tolist() == order.tolist()


def test_a_pool_is_spread_over_the_corpus_and_another_one_in_each_epoch() -> None:
    pairs = captions(1000)
    first, again = ([np.concatenate(pool) for pool in plan_epoch(pairs, 100, 7, epoch, pool=100)] for epoch in (0, 1))
    for pool in first:
        assert np.array_equal(np.sort(pool) // 10, np.arange(100))
    assert len(set(first[0].tolist()) & set(again[0].tolist())) < 30


@pytest.fixture
def many_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of 40 pairs, a few batches each."""
    monkeypatch.setattr("nmt.data.batches.POOL_PAIRS", 40)


@pytest.mark.parametrize("taken", [0, 1, 9, 30, 31, 45])
@pytest.mark.usefixtures("many_pools")
def test_resume_at_every_place_of_many_pools(tokenizer: Tokenizer, taken: int) -> None:
    test_resume_at_every_place(tokenizer, taken)


def test_resume_plans_no_pool_before_its_own(tokenizer: Tokenizer, many_pools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning a pool of sampled texts takes seconds, and a large corpus has hundreds of them."""
    pairs = captions(150)
    stream = batches(pairs, tokenizer)
    for _ in range(30):
        next(stream)
    state, planned = stream.state_dict(), list[int]()
    assert state["pool"] == 2
    lengths = pairs.lengths
    monkeypatch.setattr(Lists, "lengths", lambda self, indices: planned.append(len(indices)) or lengths(indices))
    resumed = batches(pairs, tokenizer)
    resumed.load_state_dict(state)
    next(resumed)
    assert len(planned) == 1


@pytest.mark.usefixtures("many_pools")
def test_many_pools_make_one_epoch(tokenizer: Tokenizer) -> None:
    pairs = captions(150)
    stream, seen, done = batches(pairs, tokenizer), [], [0.0]
    while stream.epoch == 0:
        seen += next(stream).pairs
        done.append(stream.epochs_done)
    assert sorted(seen) == list(range(150))
    assert done == sorted(set(done)) and done[-1] == 1
    stream.load_state_dict({"epoch": 0, "position": 2})
    assert 2 / len(done) < stream.epochs_done < 0.25


def test_a_pool_is_planned_when_its_first_batch_is_due(tokenizer: Tokenizer, many_pools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    lengths = Lists.lengths
    monkeypatch.setattr(Lists, "lengths", lambda self, indices: read.append(len(indices)) or lengths(self, indices))
    stream = batches(captions(150), tokenizer)
    next(stream)
    assert len(read) == 1
    while stream.epoch == 0:
        next(stream)
    assert len(read) == 4 and sum(read) == 150


def test_neighbouring_batches_differ_in_length(tokenizer: Tokenizer) -> None:
    stream = batches(captions(2000), tokenizer, max_tokens=200)
    widths = [next(stream).src.shape[1] for _ in range(100)]
    rising = sum(left <= right for left, right in itertools.pairwise(widths))
    assert 25 < rising < 85


@pytest.mark.parametrize("taken", [0, 1, 7, 30, 31, 45])
def test_resume_at_every_place(tokenizer: Tokenizer, taken: int) -> None:
    pairs = captions(150)
    stream = batches(pairs, tokenizer)
    for _ in range(taken):
        next(stream)
    state = stream.state_dict()
    assert all(type(value) is int for value in state.values())
    resumed = batches(pairs, tokenizer)
    resumed.load_state_dict(state)
    assert resumed.epoch == stream.epoch
    for _ in range(60):
        assert same(next(resumed), next(stream))
        assert resumed.state_dict() == stream.state_dict()


def test_resume_goes_back_too(tokenizer: Tokenizer) -> None:
    stream = batches(captions(60), tokenizer)
    state = stream.state_dict()
    first = next(stream)
    while stream.epoch < 2:
        next(stream)
    stream.load_state_dict(state)
    assert same(next(stream), first)


def test_a_place_beyond_the_epoch_is_the_next_epoch(tokenizer: Tokenizer) -> None:
    stream = batches(captions(60), tokenizer)
    stream.load_state_dict({"epoch": 3, "position": 10_000})
    next(stream)
    assert stream.state_dict() == {"epoch": 4, "position": 1, "pool": 0, "pool_start": 0}


def test_epoch_is_that_of_the_next_batch(tokenizer: Tokenizer) -> None:
    stream = batches(lists([(3, 3)]), tokenizer)
    assert [(stream.epoch, next(stream).pairs) for _ in range(3)] == [(0, (0,)), (1, (0,)), (2, (0,))]
    assert iter(stream) is stream


def test_little_padding(tokenizer: Tokenizer) -> None:
    stream, real, positions = batches(captions(20_000), tokenizer, max_tokens=1024), 0, 0
    while stream.epoch == 0:
        batch = next(stream)
        real += batch.src_tokens + batch.tokens
        positions += batch.src.numel() + batch.tgt_out.numel()
    assert 1 - real / positions < 0.05


Texts = tuple[Encoded, Tokenizer, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def texts() -> Texts:
    return make_texts()


def make_texts() -> Texts:
    """Sixty pairs, and the tokenizer that they are encoded by."""
    pairs = sentences(60, seed=1)
    src, tgt = zip(*pairs, strict=True)
    config = TokenizerConfig("bpe", joint=True, vocab_size=340, character_coverage=1.0, byte_fallback=True, sample_lines=99, seed=1)
    tokenizer, _ = train_tokenizers(src, tgt, config)
    ids = tokenizer.encode(src), tokenizer.encode(tgt)
    lengths = (np.array(list(map(len, side)), np.int32) for side in ids)
    return Encoded(*lengths, *ids), tokenizer, pairs


def sampling(texts: Texts, alpha: float = 0.3, seed: int = 7) -> Batches:
    pairs, tokenizer, _ = texts
    return Batches(pairs, tokenizer, tokenizer, BatchesConfig(max_tokens=150, accumulate=1, sampling=alpha), seed)


def test_texts_are_cut_anew_in_each_epoch(texts: Texts) -> None:
    _, tokenizer, pairs = texts
    stream = sampling(texts)
    seen: dict[int, set[tuple[tuple[int, ...], tuple[int, ...]]]] = {number: set() for number in range(60)}
    while stream.epoch < 4:
        batch = next(stream)
        assert max(batch.src.numel(), batch.tgt_out.numel()) <= 150, "the budget holds for the new pieces"
        for row, number in enumerate(batch.pairs):
            src, tgt = batch.src[row, : batch.src_lengths[row]].tolist(), batch.tgt_out[row, : batch.tgt_lengths[row]].tolist()
            assert tuple(tokenizer.decode([src, tgt])) == pairs[number] and src[-1] == tgt[-1] == tokenizer.eos_id
            seen[number].add((tuple(src), tuple(tgt)))
    for side in (0, 1):
        assert sum(len({one[side] for one in found}) for found in seen.values()) > 3.5 * 60


def test_each_epoch_of_sampled_texts_has_every_pair_once(texts: Texts) -> None:
    stream, seen = sampling(texts), dict[int, list[int]]({0: [], 1: []})
    while (epoch := stream.epoch) < 2:
        seen[epoch] += next(stream).pairs
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(60)) and seen[0] != seen[1]


def test_sampled_texts_are_sorted_by_their_new_lengths(texts: Texts) -> None:
    """Sorted by the lengths before, a third of the positions would be padding."""
    (plan,) = plan_epoch(cut := SampledPairs(texts[0], (texts[1], texts[1]), 0.3, seed=7, epoch=0), 150, seed=7, epoch=0)
    widths = sorted((min(len(cut.tgt(i)) for i in batch), max(len(cut.tgt(i)) for i in batch)) for batch in plan)
    assert all(shorter[1] <= longer[0] for shorter, longer in itertools.pairwise(widths))


@pytest.mark.parametrize("pool", [1000, 17])
def test_sampled_texts_depend_on_seed_and_place_alone(texts: Texts, pool: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.batches.SAMPLED_POOL_PAIRS", pool)
    stream, again, other = sampling(texts), sampling(texts), sampling(texts, seed=8)
    assert not same(next(stream), next(other))
    next(again)
    for _ in range(40):
        state = stream.state_dict()
        batch = next(stream)
        assert same(batch, next(again))
        resumed = sampling(texts)
        resumed.load_state_dict(state)
        assert same(batch, next(resumed))


def batch_at(state: dict[str, int]) -> tuple[list[list[int]], list[list[int]]]:
    """The rows of the batch at this place, by a stream of its own."""
    stream = sampling(make_texts())
    stream.load_state_dict(state)
    batch = next(stream)
    return batch.src.tolist(), batch.tgt_out.tolist()


def test_texts_are_cut_the_same_in_every_process() -> None:
    states = [{"epoch": epoch, "position": position} for epoch in (0, 1) for position in (0, 3)]
    here = list(map(batch_at, states))
    for _ in range(2):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as elsewhere:
            assert list(elsewhere.map(batch_at, states)) == here
