"""Training speed for scripts/benchmark.py: the systems, their arithmetic, the processor's rate, and the clock."""

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from textbook import Textbook
from torch import Tensor, nn

from nmt.config import ModelConfig, TrainConfig
from nmt.data.batches import Batch
from nmt.device import autocast, keep_freed_memory, pick_dtype
from nmt.model.seq2seq import Seq2Seq
from nmt.optimizer import build_optimizer

CPU = torch.device("cpu")
SYSTEMS = {"fp32": torch.float32, "bf16": torch.bfloat16, "textbook": torch.float32}
GEMM = (1024, 512, 8000)  # rows, inner size and columns of the product that gives the processor's rate
GEMM_EVERY = 2  # updates
HAS_BF16 = pick_dtype("auto", CPU) == torch.bfloat16  # elsewhere bf16 is emulated, and 30 times slower than fp32
# A slow system gets one update for so many of ours in fp32, and at least so many.
SLOWER = {"fp32": 1, "bf16": 1 if HAS_BF16 else 20, "textbook": 8}
LEAST = {"fp32": 1, "bf16": 1, "textbook": 3}


@dataclass(frozen=True)
class System:
    """Something that trains: its network, the mean loss of a batch, its update rule, and the type of its matrix products."""

    model: nn.Module
    loss: Callable[[Batch], Tensor]
    optimizer: torch.optim.Optimizer
    dtype: torch.dtype

    def update(self, batch: Batch) -> None:
        """One update as nmt/trainer.py does it."""
        with autocast(CPU, self.dtype):
            loss = self.loss(batch)
        torch.autograd.backward(loss)
        self.apply()

    def apply(self) -> None:
        """Clip the gradients and let the optimizer use them."""
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def build_system(name: str, config: TrainConfig, vocab_size: int, pad_id: int) -> System:
    """A system of SYSTEMS with new weights: "textbook", or else ours in that precision."""
    torch.manual_seed(config.run.seed)
    if name == "textbook":
        textbook = Textbook(config.model, vocab_size, pad_id).train()
        return System(textbook, textbook.loss, torch.optim.Adam(textbook.parameters(), lr=config.optimizer.lr), SYSTEMS[name])
    model = Seq2Seq(config.model, vocab_size, vocab_size, pad_id, pad_id).train()

    def loss(batch: Batch) -> Tensor:
        return model.loss(batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, config.trainer.label_smoothing)[0] / batch.tokens

    return System(model, loss, build_optimizer(model.parameters(), config.optimizer), SYSTEMS[name])


def arithmetic(model: ModelConfig, vocab_size: int, batch: Batch) -> dict[str, float]:
    """Floating-point operations of an update in the matrix products of each part, real tokens alone: two for each multiply-add, and the
    backward pass costs twice the forward pass."""
    assert model.attention == "additive"
    embedding, encoder, state, attention = model.embedding_size, model.encoder_size, model.decoder_size, model.attention_size
    annotation, readout = 2 * encoder, (2 if model.readout == "maxout" else 1) * model.readout_size
    pairs = int((batch.src_lengths * batch.tgt_lengths).sum())
    initial = (annotation if model.initial_state == "mean" else encoder) * state
    layers = 2 * 3 * encoder * (embedding + encoder + (model.encoder_layers - 1) * (annotation + encoder))
    encoder_products = batch.src_tokens * (layers + annotation * attention) + len(batch.src) * initial
    cells = (2 if model.cell == "conditional" else 1) + model.transitions
    gates = 3 * state * (embedding + annotation + cells * state)
    unroll_products = batch.tokens * (gates + state * attention) + pairs * (attention + annotation)
    vocabulary_products = batch.tokens * ((state + embedding + annotation) * readout + model.readout_size * vocab_size)
    products = {"encoder": encoder_products, "unroll": unroll_products, "vocabulary": vocabulary_products}
    return {part: 3.0 * 2.0 * multiply_adds for part, multiply_adds in products.items()}


def random_batch(sentences: int, length: int, vocab_size: int) -> Batch:
    """Random sentences that all have this length on both sides, end symbol included."""
    bos, eos, first = 2, 3, 4  # 0 is padding
    chance = torch.Generator().manual_seed(1)
    src, tgt = (torch.randint(first, vocab_size, (sentences, length), generator=chance) for _ in range(2))
    src[:, -1] = tgt[:, -1] = eos
    tgt_in = torch.cat((torch.full((sentences, 1), bos), tgt[:, :-1]), 1)
    lengths = torch.full((sentences,), length)
    return Batch(src, lengths, tgt_in, tgt, lengths, src.numel(), tgt.numel())


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class GemmClock:
    """Measures the rate of a large matrix product, in flop a second."""

    def __init__(self, dtype: torch.dtype) -> None:
        rows, inner, columns = GEMM
        self._factors = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
        self._out = torch.empty(rows, columns, dtype=dtype)
        self._samples: list[float] = []
        if dtype == torch.float32 or HAS_BF16:
            self._work()  # warms up

    def _work(self) -> None:
        torch.mm(*self._factors, out=self._out)

    def sample(self) -> None:
        """Measure once more."""
        rows, inner, columns = GEMM
        self._samples.append(2 * rows * inner * columns / seconds(self._work))

    @property
    def rate(self) -> float:
        """The median of all samples."""
        return statistics.median(self._samples)


def spread(values: Sequence[float]) -> tuple[float, list[float]]:
    """Median and quartiles."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return median, [low, high]


def turns(batches: Sequence[Batch], count: int) -> set[int]:
    """Indices of `count` of the batches, spread evenly over their sizes, so that medians over few and over all can be compared."""
    order = sorted(range(len(batches)), key=lambda i: batches[i].tokens)
    return {order[int((k + 0.5) * len(order) / count)] for k in range(count)}


def measure_training(
    config: TrainConfig, vocab_size: int, systems: Mapping[str, System], batches: Sequence[Batch], updates: int
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Train all systems on the same batches, by turns.

    Slow ones get fewer updates.

    Args:
        batches: of an epoch; the first `updates` are timed, and the last one warms up.
        updates: of ours in fp32.

    Returns:
        For each system its figures, and the rates of matrix products in flop a second, "fp32" and "bf16".
    """
    timed = [batches[i % len(batches)] for i in range(updates)]
    rounds = {name: turns(timed, min(updates, max(LEAST[name], updates // SLOWER[name]))) for name in systems}
    clocks = {name: GemmClock(SYSTEMS[name]) for name in ("fp32", "bf16")}
    taken: dict[str, list[tuple[Batch, float]]] = {name: [] for name in systems}
    for name, system in systems.items():
        if HAS_BF16 or name != "bf16":
            system.update(batches[-1])
    for number, batch in enumerate(timed):
        print(f"\rupdate {number + 1} of {updates}", end="", file=sys.stderr, flush=True)
        for name, system in systems.items():
            if number in rounds[name]:
                taken[name].append((batch, seconds(partial(system.update, batch))))
        for name, clock in clocks.items():
            if number % (GEMM_EVERY * (updates if SLOWER[name] > 1 else 1)) == 0:
                clock.sample()
    print(file=sys.stderr)
    rates = {name: clock.rate for name, clock in clocks.items()}
    return {name: _figures(config.model, vocab_size, taken[name], rates["bf16" if name == "bf16" else "fp32"]) for name in systems}, rates


def _figures(model: ModelConfig, vocab_size: int, taken: Sequence[tuple[Batch, float]], rate: float) -> dict[str, Any]:
    median, quartiles = spread([batch.tokens / time for batch, time in taken])
    fractions = [sum(arithmetic(model, vocab_size, batch).values()) / rate / time for batch, time in taken]
    return {
        "tokens_per_second": median,
        "quartiles": quartiles,
        "fraction_of_limit": statistics.median(fractions),
        "updates": len(taken),
    }


def peak_memory_mb(name: str, config: TrainConfig, vocab_size: int, pad_id: int, batches: Sequence[Batch]) -> float:
    """The most memory that a process of its own holds while it trains a system on some batches, in megabytes.

    Linux counts for a new process what its parent held at that moment: call this while the parent is still small.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_train_and_weigh, name, config, vocab_size, pad_id, list(batches)).result()


def _train_and_weigh(name: str, config: TrainConfig, vocab_size: int, pad_id: int, batches: list[Batch]) -> float:
    keep_freed_memory()
    system = build_system(name, config, vocab_size, pad_id)
    for batch in batches:
        system.update(batch)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
