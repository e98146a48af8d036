#!/usr/bin/env python3
"""What each lever gives on Multi30k's validation set (English–German), and what it costs: one training a row, a core a row.

  .venv/bin/python scripts/ablation.py FOLDER                    all rows, two side by side
  .venv/bin/python scripts/ablation.py FOLDER base plain --seed 2  these rows, with another seed
  .venv/bin/python scripts/ablation.py FOLDER base --again       also where the row is recorded already, from another machine
  .venv/bin/python scripts/ablation.py --table                   the rows measured so far, as Markdown

FOLDER holds train, val and test_2016_flickr in English and German; the test set is not looked at. All rows make the same number of
passes over the data, so that only their minutes depend on the machine. Rows go to scripts/results/ablation.json as they are done. One
that is there with these settings is not run again but with --again, and an interrupted one goes on: what is trained is kept in
runs/ablation, with a log of each row. After a change of BASE or ROWS the rows that it concerns are new ones; the old ones stay in the
file, but not in the table.
"""

import argparse
import math
import shutil
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments import MULTI30K, ROOT, data_settings, in_lanes, put_row, read_rows, run_name, score, script, train, whole

RESULTS = "ablation.json"
BASE = ["model=small", "model.cell=conditional", "model.tie=all", "tokenizer.vocab_size=4000", "trainer.ema_decay=0.998"]
BASE += ["trainer.patience=null", "trainer.valid_every_steps=500", "trainer.samples=0"]
PLATEAU = ["scheduler=plateau", "scheduler.return_to_best=true"]
ROWS = {  # name: what it changes, settings on top of BASE
    "base": ("`small` as a conditional GRU, one matrix of words, 4,000 subwords, moving average", []),
    "plain": ("attention before the only GRU", ["model.cell=gru"]),
    "plain, layer norm": ("the same, normalised", ["model.cell=gru", "model.layer_norm=true"]),
    "layer norm": ("layer normalisation", ["model.layer_norm=true"]),
    "two layers": ("a second encoder layer", ["model.encoder_layers=2"]),
    "transitions": ("two more GRUs without input", ["model.transitions=2"]),
    "tanh readout": ("tanh for maxout", ["model.readout=tanh"]),
    "mean state": ("first state from the mean annotation", ["model.initial_state=mean"]),
    "tie none": ("three matrices of words", ["model.tie=none"]),
    "tie target": ("two matrices of words", ["model.tie=target"]),
    "vocab 8000": ("twice the subwords", ["tokenizer.vocab_size=8000"]),
    "vocab 2000": ("half the subwords", ["tokenizer.vocab_size=2000"]),
    "bpe dropout": ("words cut by chance", ["batches.sampling=0.1"]),
    "batch 512": ("batches of half the size", ["batches.max_tokens=512", "trainer.valid_every_steps=1000"]),
    "lr 0.004": ("twice the learning rate", ["optimizer.lr=0.004"]),
    "plateau": ("rate cut by validation, back to the best", [*PLATEAU, "scheduler.patience=0", "trainer.valid_every_steps=100"]),
    "weight decay": ("AdamW", ["optimizer=adamw"]),
    "no average": ("no moving average", ["trainer.ema_decay=null"]),
    "best three": ("mean of the three best models for the moving one", ["trainer.ema_decay=null", "trainer.keep=3", "trainer.average=3"]),
    "dropout 0": ("no dropout", ["model.dropout=0"]),
    "dropout 0.3": ("more dropout", ["model.dropout=0.3"]),
    "variational": ("one dropout mask a sentence", ["model.variational=true"]),
    "annotations": ("dropout of annotations too", ["model.annotation_dropout=0.2"]),
    "states": ("dropout of states too", ["model.state_dropout=0.2"]),
    "word dropout": ("whole words zeroed", ["model.src_word_dropout=0.1", "model.tgt_word_dropout=0.1"]),
    "hard labels": ("no label smoothing", ["trainer.label_smoothing=0"]),
    "smoother": ("more label smoothing", ["trainer.label_smoothing=0.2"]),
    "R-Drop": ("each sentence read twice", ["trainer.r_drop=2"]),
}


def settings_of(name: str, passes: int) -> list[str]:
    """The settings of a row, but for data and seed."""
    return [*BASE, f"trainer.max_epochs={passes}", *ROWS[name][1]]


def measure(name: str, seed: int, passes: int, data: Sequence[str], again: bool = False) -> dict[str, Any]:
    """Train a row on one core, and score it on the validation set with beam search; `again`: from the start, whatever is there."""
    settings = settings_of(name, passes)
    run = run_name("ablation", name.replace(" ", "_"), seed, settings)
    log = ROOT / "runs" / f"{run}.log"
    if again:
        shutil.rmtree(ROOT / "runs" / run, ignore_errors=True)
    facts = train(run, *data, *settings, f"run.seed={seed}", "run.threads=1", log=log)
    scores = score(run, "valid", "run.threads=1", log=log)
    command = f"scripts/ablation.py FOLDER {name!r} --seed {seed} --passes {passes}"
    row = {"name": name, "changes": ROWS[name][0], "command": command, "settings": settings}
    found = {"bleu": scores["bleu"], "perplexity": scores["perplexity"], "signature": scores["bleu_signature"]}
    return row | found | facts


def measured(passes: int) -> list[dict[str, Any]]:
    """The rows of the file that have the settings of now."""
    return [row for row in read_rows(RESULTS) if row["name"] in ROWS and row["settings"] == settings_of(row["name"], passes)]


def table(rows: Sequence[dict[str, Any]], passes: int) -> str:
    """Markdown: means over the seeds, in the order of ROWS, with the mean difference to the first of them with the same seed."""
    lines = [
        "| row | what it changes | settings | BLEU on val | difference | perplexity | minutes | seeds | commit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    base = {row["seed"]: row["bleu"] for row in rows if row["name"] == "base"}
    for name, (changes, settings) in ROWS.items():
        if some := [row for row in rows if row["name"] == name]:
            bleu, perplexity, minutes = (statistics.fmean(row[key] for row in some) for key in ("bleu", "perplexity", "minutes"))
            gain = statistics.fmean(row["bleu"] - base.get(row["seed"], math.nan) for row in some)
            told = " ".join(f"`{setting}`" for setting in settings)
            seeds, commits = (", ".join(sorted({str(row[key]) for row in some})) for key in ("seed", "commit"))
            difference = f"{gain:+.1f}".replace("-", "−") if name != "base" else ""
            figures = f"{bleu:.1f} | {difference} | {perplexity:.2f} | {minutes:.0f}"
            lines.append(f"| {name} | {changes} | {told} | {figures} | {seeds} | {commits} |")
    about = [sorted({row[key] for row in rows}) for key in ("signature", "hardware")]
    base_settings = " ".join(settings_of("base", passes))
    return "\n".join([*lines, "", f"`{base_settings}`; beam 5; {'; '.join(', '.join(one) for one in about)}"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="where the text is")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"default: all of {', '.join(ROWS)}")
    parser.add_argument("--seed", type=whole(0), default=1)
    parser.add_argument("--passes", type=whole(1), default=3, help="over the training pairs (default: 3)")
    parser.add_argument("--lanes", type=whole(1), default=2, help="rows at a time, each on a core (default: 2)")
    parser.add_argument("--again", action="store_true", help="run and replace rows that are recorded already, too")
    parser.add_argument("--table", action="store_true", help="run nothing, print what was measured")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.rows if name not in ROWS]:
        parser.error(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    if not arguments.folder and not arguments.table:
        parser.error("FOLDER is missing")
    return arguments


@script
def main() -> None:
    arguments = parse()
    seed, passes = arguments.seed, arguments.passes
    if arguments.table:
        print(table(measured(passes), passes))
        return
    data = data_settings("multi30k", arguments.folder, "en", "de", MULTI30K)
    done = {row["name"] for row in measured(passes) if row["seed"] == seed and not arguments.again}
    todo = [name for name in arguments.rows or ROWS if name not in done]
    print(f"to do: {', '.join(todo) or 'nothing, all of it is recorded (--again runs it all the same)'}", flush=True)
    jobs = {name: partial(measure, name, seed, passes, data, arguments.again) for name in todo}
    for row in in_lanes(jobs, arguments.lanes):
        put_row(RESULTS, row, ("name", "seed", "settings"))
        print(f"{row['name']}: BLEU {row['bleu']:.2f}, {row['minutes']:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
