#!/usr/bin/env python3
"""How fast training and decoding are on this processor, beside a textbook implementation and beside what its arithmetic allows.

  .venv/bin/python scripts/benchmark.py                                        the quick-start corpus, 4 minutes on 2 cores
  .venv/bin/python scripts/benchmark.py --corpus FOLDER --sizes default        FOLDER holds train.en, train.de, test.en, …
  .venv/bin/python scripts/benchmark.py --corpus FOLDER --force-length 15 --json speed.json
  .venv/bin/python scripts/benchmark.py --scaling --plot scaling.png           5 minutes, on random sentences

Ours in fp32, ours in bf16 and the textbook (scripts/textbook.py) train by turns on the same batches of 64 sentences of similar length.
The limit is what the matrix products alone would take, for real tokens, at the rate of a large product measured in the same run.
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmark_decoding import measure_decoding, measure_latency
from benchmark_parts import measure_parts
from benchmark_scaling import draw_scaling, measure_scaling, scaling_table
from benchmark_training import HAS_BF16, SYSTEMS, build_system, measure_training, peak_memory_mb
from experiments import ROOT, commit, output_file, processor, script, training_settings, whole

from nmt.config import TokenizerConfig, TrainConfig
from nmt.data.batches import Batch, make_batch
from nmt.data.lines import read_lines
from nmt.device import keep_freed_memory
from nmt.errors import ConfigError, DataError
from nmt.files import write_text
from nmt.model.seq2seq import Seq2Seq
from nmt.tokenizer import Tokenizer, train_tokenizers

SENTENCES = 64  # of a training batch
TESTS = ("test_2016_flickr", "test", "val", "valid")  # what is decoded: the first of these that is there
SIZES = {
    "peers": [
        *("cell=gru", "embedding_size=256", "encoder_size=512", "decoder_size=512", "attention_size=512"),
        *("readout=tanh", "readout_size=512"),
    ],
    "default": [],
}


@dataclass(frozen=True)
class Corpus:
    """What is trained on, an epoch in a random order, and the lines that are decoded."""

    tokenizer: Tokenizer
    batches: list[Batch]
    lines: list[str]

    @property
    def padding(self) -> float:
        """The share of padding in the positions that an epoch computes."""
        positions = sum(batch.src.numel() + batch.tgt_out.numel() for batch in self.batches)
        return 1 - sum(batch.src_tokens + batch.tokens for batch in self.batches) / positions


def settings(sizes: str) -> TrainConfig:
    """The configuration of `nmt train` with the base model in these sizes, without dropout."""
    data = ["data.name=benchmark", "data.src_lang=src", "data.tgt_lang=tgt", "data.train=[]", "data.valid=[]"]
    return training_settings(*data, "model=base", "model.dropout=0", *(f"model.{size}" for size in SIZES[sizes]))


def read_corpus(folder: Path, src: str, tgt: str, config: TokenizerConfig, seed: int) -> Corpus:
    """Read FOLDER/train.SRC and so on, learn subwords, and cut batches: pairs are shuffled, sorted by (target, source) length, cut.

    Raises:
        DataError: a file is missing or no text, or the files of a pair have different numbers of lines.
    """
    sources, targets = (list(read_lines(folder / f"train.{lang}")) for lang in (src, tgt))
    if len(sources) != len(targets):
        raise DataError(f"{folder}/train.{src} has {len(sources):,} lines, train.{tgt} has {len(targets):,}: they are no translations")
    test = next((folder / f"{name}.{src}" for name in TESTS if (folder / f"{name}.{src}").exists()), None)
    if test is None:
        raise DataError(f"{folder} holds no text to decode: none of {', '.join(f'{name}.{src}' for name in TESTS)}")
    tokenizer = learn_subwords(sources, targets, config)
    pairs = [pair for pair in zip(tokenizer.encode(sources), tokenizer.encode(targets), strict=True) if all(pair)]
    return Corpus(tokenizer, cut_batches(pairs, tokenizer, seed), [line for line in read_lines(test) if line.strip()])


def learn_subwords(sources: list[str], targets: list[str], config: TokenizerConfig) -> Tokenizer:
    """Joint subwords, of half the size as often as the text is too small for them."""
    try:
        return train_tokenizers(sources, targets, config)[0]
    except ConfigError:
        if config.vocab_size < 100:
            raise
        return learn_subwords(sources, targets, replace(config, vocab_size=config.vocab_size // 2))


def cut_batches(pairs: list[tuple[list[int], list[int]]], tokenizer: Tokenizer, seed: int) -> list[Batch]:
    """Full batches of pairs of similar length, in a random order."""
    chance = np.random.default_rng(seed)
    lengths = np.array([[len(src), len(tgt)] for src, tgt in pairs])
    order = chance.permutation(len(pairs))
    order = order[np.lexsort((lengths[order, 0], lengths[order, 1]))]
    rows = [order[i : i + SENTENCES] for i in range(0, max(1, len(order) - SENTENCES + 1), SENTENCES)]
    batches = [make_batch([pairs[i][0] for i in some], [pairs[i][1] for i in some], tokenizer, tokenizer) for some in rows]
    return [batches[i] for i in chance.permutation(len(batches))]


def measure(config: TrainConfig, corpus: Corpus, updates: int, length: int | None) -> dict[str, Any]:
    """All figures of a run, as they go to JSON."""
    tokenizer, batches = corpus.tokenizer, corpus.batches
    tell("peak memory")
    by_size = sorted(batches, key=lambda batch: batch.src.numel() + batch.tgt_out.numel())
    weighed = {"fp32": [*batches[:2], *by_size[-3:]], "bf16": [*batches[:2], *by_size[-3:]], "textbook": [batches[0], by_size[-1]]}
    if not HAS_BF16:
        weighed["bf16"] = [by_size[0], by_size[len(by_size) // 2]]  # the largest would take a minute
    memory = {name: peak_memory_mb(name, config, tokenizer.vocab_size, tokenizer.pad_id, some) for name, some in weighed.items()}
    tell("training")
    systems = {name: build_system(name, config, tokenizer.vocab_size, tokenizer.pad_id) for name in SYSTEMS}
    train, rates = measure_training(config, tokenizer.vocab_size, systems, batches, updates)
    for name, figures in train.items():
        largest = weighed[name][-1] is by_size[-1]
        figures |= {"peak_memory_mb": memory[name], "peak_memory_of": "largest batch" if largest else "typical batch"}
    model = systems["fp32"].model
    assert isinstance(model, Seq2Seq)
    tell("parts")
    train["fp32"]["parts"] = measure_parts(config, tokenizer.vocab_size, rates["fp32"])
    tell("decoding")
    decode = measure_decoding(model, tokenizer, corpus.lines, config.decode, length)
    latency, latency_quartiles = measure_latency(model, tokenizer, corpus.lines, config.decode, length)
    return {
        "train": train,
        "decode": decode,
        "latency_ms": latency,
        "latency_quartiles_ms": latency_quartiles,
        "padding": corpus.padding,
        "vocabulary": tokenizer.vocab_size,
        "gemm_gflops": rates["fp32"] / 1e9,
        "gemm_gflops_bf16": rates["bf16"] / 1e9,
    }


def about(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where and how a run was made."""
    machine = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }
    return {
        "machine": machine,
        "sizes": "peers" if arguments.scaling else arguments.sizes,
        "commit": commit(),
        "command": " ".join(sys.argv),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures to read."""
    lines = [f"{'training':<10}{'tokens/s':>10}{'quartiles':>16}{'of the limit':>14}{'peak MB':>10}"]
    for name, one in figures["train"].items():
        low, high = one["quartiles"]
        quartiles = f"{low:,.0f}–{high:,.0f}"
        lines.append(
            f"{name:<10}{one['tokens_per_second']:>10,.0f}{quartiles:>16}{one['fraction_of_limit']:>14.2f}{one['peak_memory_mb']:>10,.0f}"
        )
    lines += ["", f"{'part':<12}{'ms':>8}{'of the limit':>14}"]
    for name, one in figures["train"]["fp32"]["parts"].items():
        fraction = f"{one['fraction_of_limit']:.2f}" if "fraction_of_limit" in one else ""
        lines.append(f"{name:<12}{1000 * one['seconds']:>8.1f}{fraction:>14}")
    lines += ["", f"{'decoding':<10}{'':<6}{'tokens/s':>10}{'sentences/s':>14}"]
    for how, precisions in figures["decode"].items():
        for asked, one in precisions.items():
            told = f"  {one['precision']}" if asked == "auto" else ""
            lines.append(f"{how:<10}{asked:<6}{one['tokens_per_second']:>10,.0f}{one['sentences_per_second']:>14,.1f}{told}")
    low, high = figures["latency_quartiles_ms"]
    lines += ["", f"one sentence at beam 5: {figures['latency_ms']:.1f} ms ({low:.1f}–{high:.1f})"]
    lines += [f"padding: {figures['padding']:.1%}; vocabulary: {figures['vocabulary']:,}"]
    lines += [f"matrix products: {figures['gemm_gflops']:.0f} GFLOP/s in fp32, {figures['gemm_gflops_bf16']:.0f} in bf16"]
    return "\n".join(lines)


def tell(what: str) -> None:
    """Progress, to stderr."""
    print(what, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=ROOT / "data/quickstart", metavar="FOLDER", help="plain files, one sentence a line")
    parser.add_argument("--src", default="en", help="language that is read; the end of the files' names (default: en)")
    parser.add_argument("--tgt", default="de", help="language that is written (default: de)")
    parser.add_argument("--sizes", default="peers", choices=sorted(SIZES), help="other toolkits' usual sizes, or configs/model/base.yaml")
    parser.add_argument("--updates", type=whole(1), default=40, metavar="N", help="timed updates of ours in fp32 (default: 40)")
    parser.add_argument("--force-length", type=whole(1), metavar="N", help="decode exactly N tokens for every sentence")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--scaling", action="store_true", help="instead, training speed against length, batch, vocabulary, hidden size")
    parser.add_argument("--plot", type=output_file, metavar="FILE", help="with --scaling: draw it, .png or .svg")
    arguments = parser.parse_args()
    if arguments.plot and not (arguments.scaling and arguments.plot.suffix in (".png", ".svg")):
        parser.error("--plot FILE.png or FILE.svg belongs to --scaling")
    return arguments


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure what is asked for, and print it."""
    if arguments.scaling:
        figures: dict[str, Any] = {"scaling": measure_scaling(settings("peers"))}
        print(scaling_table(figures["scaling"]))
        if arguments.plot:
            draw_scaling(arguments.plot, figures["scaling"])
        return figures
    config = settings(arguments.sizes)
    tell("subwords and batches")
    corpus = read_corpus(arguments.corpus, arguments.src, arguments.tgt, config.tokenizer, config.run.seed)
    figures = measure(config, corpus, arguments.updates, arguments.force_length)
    print(table(figures))
    return figures


@script
def main() -> None:
    arguments = parse()
    keep_freed_memory()  # as `nmt` does
    figures = about(arguments) | run(arguments)
    if arguments.json:
        write_text(arguments.json, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
