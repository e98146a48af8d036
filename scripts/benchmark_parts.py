"""Where the time of an update goes, for scripts/benchmark.py: each part of the network alone, forward and backward."""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from benchmark_training import arithmetic, build_system, random_batch, seconds
from torch import Tensor

from nmt.config import TrainConfig
from nmt.data.batches import Batch
from nmt.loss import linear_cross_entropy
from nmt.model.attention import Memory
from nmt.model.seq2seq import Seq2Seq
from nmt.model.unroll import unroll

TYPICAL = (64, 15)  # sentences of a batch, and their length
TIMES = 7


def measure_parts(config: TrainConfig, vocab_size: int, rate: float, times: int = TIMES) -> dict[str, dict[str, Any]]:
    """For encoder, unroll, vocabulary (readout and loss) and optimizer the median seconds in an update of ours in fp32, and for all but
    the optimizer the fraction of that which its matrix products would take at `rate`, in flop a second."""
    system, batch = build_system("fp32", config, vocab_size, 0), random_batch(*TYPICAL, vocab_size)
    model, flop = system.model, arithmetic(config.model, vocab_size, batch)
    assert isinstance(model, Seq2Seq)
    work = dict(_parts(model, batch, config.trainer.label_smoothing))
    taken: dict[str, list[float]] = {part: [] for part in (*work, "optimizer")}
    for _ in range(times + 1):
        for part, both in work.items():
            taken[part].append(seconds(both))
            model.zero_grad(set_to_none=True)
        torch.autograd.backward(system.loss(batch))
        taken["optimizer"].append(seconds(system.apply))
    medians = {part: statistics.median(some[1:]) for part, some in taken.items()}  # the first of each warms up
    return {
        part: {"seconds": median} | ({"fraction_of_limit": flop[part] / rate / median} if part in flop else {})
        for part, median in medians.items()
    }


def _parts(model: Seq2Seq, batch: Batch, label_smoothing: float) -> Iterator[tuple[str, Callable[[], None]]]:
    """The parts as Seq2Seq.loss puts them together, each with what the one before it gives as a constant."""
    memory, state = model.encode(batch.src, batch.src_lengths)
    embedded = model.decoder.embed(batch.tgt_in)
    states, contexts = unroll(model.decoder, embedded, state, memory)
    yield "encoder", partial(_encoder, model, batch)
    annotations, keys, state, states, contexts, embedded = map(_leaf, (memory.annotations, memory.keys, state, states, contexts, embedded))
    yield "unroll", partial(_unroll, model, embedded, state, Memory(annotations, keys, memory.mask))
    yield "vocabulary", partial(_vocabulary, model, (states, embedded, contexts), batch.tgt_out.flatten(), label_smoothing)


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


def _encoder(model: Seq2Seq, batch: Batch) -> None:
    memory, state = model.encode(batch.src, batch.src_lengths)
    _backward(memory.annotations, memory.keys, state)


def _unroll(model: Seq2Seq, embedded: Tensor, state: Tensor, memory: Memory) -> None:
    _backward(*unroll(model.decoder, embedded, state, memory))


def _vocabulary(model: Seq2Seq, inputs: tuple[Tensor, ...], targets: Tensor, label_smoothing: float) -> None:
    readout = model.decoder.readout(*(x.flatten(0, 1) for x in inputs))
    vocabulary = model.decoder.vocabulary
    torch.autograd.backward(linear_cross_entropy(readout, vocabulary.weight, vocabulary.bias, targets, label_smoothing)[0])


def _backward(*outputs: Tensor) -> None:
    torch.autograd.backward(outputs, tuple(map(torch.ones_like, outputs)))
