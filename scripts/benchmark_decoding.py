"""Decoding speed for scripts/benchmark.py: from lines to lines, greedy and with a beam of 5."""

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from benchmark_training import CPU, seconds, spread

from nmt.config import DecodeConfig
from nmt.data.batches import make_batch
from nmt.device import autocast, pick_dtype
from nmt.model.inference import Inference
from nmt.model.seq2seq import Seq2Seq
from nmt.search import beam_search
from nmt.tokenizer import Tokenizer

BEAMS = {"greedy": 1, "beam5": 5}
PASSES = 3
LATENCY_SENTENCES = 30
LATENCY_LENGTH = 15
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


@torch.inference_mode()
def translate(
    inference: Inference, tokenizer: Tokenizer, lines: Sequence[str], decode: DecodeConfig, beam: int, length: int | None
) -> tuple[list[str], int]:
    """Translate one batch of lines.

    Args:
        length: forces each output to have exactly so many tokens; None: as long as the model finds right.

    Returns:
        The translations, and the number of tokens generated, end symbols included.
    """
    batch = make_batch(tokenizer.encode(lines), [()] * len(lines), tokenizer, tokenizer)
    natural = ((batch.src_lengths - 1) * decode.max_length_ratio).ceil().long() + decode.max_length_extra + 1
    with autocast(CPU, inference.dtype):
        found = beam_search(
            inference.step,
            inference.start(batch.src, batch.src_lengths),
            batch_size=len(lines),
            max_lengths=natural if length is None else torch.full_like(natural, length),
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            forbidden_ids=tokenizer.forbidden_ids if length is None else (*tokenizer.forbidden_ids, tokenizer.eos_id),
            beam_size=beam,
            length_penalty=decode.length_penalty,
        )
    best = [hypotheses[0] for hypotheses in found]
    return tokenizer.decode([one.tokens for one in best]), sum(len(one.tokens) + one.finished for one in best)


def measure_decoding(
    model: Seq2Seq, tokenizer: Tokenizer, lines: Sequence[str], decode: DecodeConfig, length: int | None, passes: int = PASSES
) -> dict[str, dict[str, dict[str, Any]]]:
    """Tokens and sentences a second in fp32 and in what "auto" means here; medians over passes, by turns.

    Greedy search translates all lines, a beam of 5 every second batch of them.
    """
    model.eval()
    ordered = _by_length(tokenizer, lines)
    batches = [ordered[i : i + decode.batch_size] for i in range(0, len(ordered), decode.batch_size)]
    timed = {"greedy": batches, "beam5": batches[::2]}
    auto = pick_dtype("auto", CPU)
    runs = [(how, dtype) for how in BEAMS for dtype in dict.fromkeys((torch.float32, auto))]
    taken: dict[tuple[str, torch.dtype], list[tuple[float, int]]] = {run: [] for run in runs}
    ready = {dtype: Inference(model, dtype) for _, dtype in runs}
    for how, dtype in runs:
        translate(ready[dtype], tokenizer, batches[len(batches) // 2], decode, BEAMS[how], length)  # warms up
    for how, dtype in runs * passes:
        began, tokens = time.perf_counter(), 0
        for batch in timed[how]:
            tokens += translate(ready[dtype], tokenizer, batch, decode, BEAMS[how], length)[1]
        taken[how, dtype].append((time.perf_counter() - began, tokens))

    def figures(how: str, dtype: torch.dtype) -> dict[str, Any]:
        took = statistics.median(took for took, _ in taken[how, dtype])
        return {
            "tokens_per_second": taken[how, dtype][0][1] / took,
            "sentences_per_second": sum(map(len, timed[how])) / took,
            "precision": NAMES[dtype],
        }

    return {how: {"fp32": figures(how, torch.float32), "auto": figures(how, auto)} for how in BEAMS}


def measure_latency(
    model: Seq2Seq, tokenizer: Tokenizer, lines: Sequence[str], decode: DecodeConfig, length: int | None
) -> tuple[float, list[float]]:
    """Milliseconds for one sentence at beam 5 in the configured precision: median and quartiles over sentences of all lengths."""
    model.eval()
    ordered, dtype, length = _by_length(tokenizer, lines), pick_dtype(decode.precision, CPU), length or LATENCY_LENGTH
    some = [ordered[k * len(ordered) // LATENCY_SENTENCES] for k in range(LATENCY_SENTENCES)]
    one = partial(translate, Inference(model, dtype), tokenizer, decode=decode, beam=BEAMS["beam5"], length=length)
    one(some[:1])  # warms up
    return spread([1000 * seconds(partial(one, [line])) for line in some])


def _by_length(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    pieces = [len(ids) for ids in tokenizer.encode(lines)]
    return [lines[i] for i in sorted(range(len(lines)), key=pieces.__getitem__)]
