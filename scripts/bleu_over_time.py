#!/usr/bin/env python3
"""BLEU on the validation set against minutes of training: a run of ours, and JoeyNMT 2.3.0 on the same text for the same time.

  .venv/bin/python scripts/joeynmt.py                                                    sets JoeyNMT up, once
  .venv/bin/python scripts/bleu_over_time.py runs/quality/multi30k-1-…
  .venv/bin/python scripts/bleu_over_time.py runs/quality/tatoeba_en_fr-1-… --dropout 0.2 --minutes 60 --threads 1

RUN was trained by scripts/quality.py, with each corpus one prefix; while it is being trained on one thread, --threads 1 --minutes … trains
JoeyNMT beside it. Both translate the validation set greedily as they train, and the same function scores the text. Our minutes hold our
validations; JoeyNMT's do not hold its own, but the time that it is given does. Its test score is of the model that it validated best, with
a beam of 5. Figures go to scripts/results/bleu_over_time.json and .png, a panel for each corpus; what JoeyNMT trained is kept, and used
again.
"""

import argparse
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joeynmt
from experiments import command_line, cores, facts, label_bleu, positive, processor, put_row, read_rows, results, script, whole

from nmt.checkpoint import load_checkpoint
from nmt.config import DataConfig
from nmt.data.lines import read_lines
from nmt.errors import NmtError
from nmt.evaluate import evaluate
from nmt.files import writing

RESULTS = "bleu_over_time.json"


def ours(run: Path) -> dict[str, Any]:
    """What a run of ours is, its validations as minutes and BLEU, and its test score where it has one."""
    rows, test = [json.loads(line) for line in read_lines(run / "metrics.jsonl")], run / "test.json"
    points = [(row["seconds"] / 60, row["valid_bleu"]) for row in rows if "valid_bleu" in row]
    return facts(run) | {"points": points, "test": json.loads(test.read_text(encoding="utf-8")) if test.exists() else None}


def theirs(data: DataConfig, minutes: float, dropout: float, every: int, threads: int) -> dict[str, Any]:
    """The same of JoeyNMT, trained now, but where that was done."""
    name = f"{data.name}-{minutes:g}-minutes-{cores(threads)}-dropout-{dropout:g}"
    run = joeynmt.HOME / "runs" / name.replace(" ", "-").replace(".", "_")
    joeynmt.train(run, data, minutes, dropout, every, threads)
    points = joeynmt.validations(run, data)
    if not points:
        raise NmtError(f"JoeyNMT did not validate in {minutes:g} minutes: give more --minutes, or a smaller --every (it is {every})")
    done = {
        "minutes": minutes,
        "trained_minutes": round(points[-1][0], 1),
        "dropout": dropout,
        "hardware": f"{cores(threads)} of {processor()}",
    }
    test = None
    if data.test:
        hypotheses = joeynmt.translate(run, threads, f"{data.test[0]}.{data.src_lang}")
        report = evaluate(hypotheses, list(read_lines(f"{data.test[0]}.{data.tgt_lang}")), data.tgt_lang)
        test = {name: value for name, value in report.to_dict().items() if name.startswith(("bleu", "chrf", "ter"))}
    return done | {"points": points, "test": test}


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A panel for each corpus, with both curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(rows), 3.6), dpi=120, layout="constrained")
    for number, row in enumerate(rows, start=1):
        axes = figure.add_subplot(1, len(rows), number)
        for system, style in (("ours", "-"), ("JoeyNMT", "--")):
            minutes, bleu = zip(*row[system]["points"], strict=True)
            axes.plot(minutes, bleu, style, marker="o", markersize=3, label=system)
        axes.set_title(row["corpus"], fontsize=10)
        axes.set_xlim(left=0)
        label_bleu(axes, "minutes of training", "BLEU on the validation set, greedy")
        axes.legend(frameon=False, loc="lower right")
    with writing(path) as file:
        figure.savefig(file, format="png")


@script
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--minutes", type=positive, help="of JoeyNMT's training, validations included (default: as ours)")
    parser.add_argument("--dropout", type=float, default=0.3, help="JoeyNMT's (default: 0.3)")
    parser.add_argument("--threads", type=whole(1), default=2, help="JoeyNMT's (default: 2)")
    parser.add_argument(
        "--every", type=whole(1), default=500, help="updates between JoeyNMT's validations, a multiple of 10 (default: 500)"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # JoeyNMT ends by it, and a background job would hand down that it is ignored
    data = load_checkpoint(arguments.run / "last.pt").config.data
    minutes = arguments.minutes or facts(arguments.run)["minutes"]
    peer = theirs(data, minutes, arguments.dropout, arguments.every, arguments.threads)  # first: ours may train until then
    put_row(RESULTS, {"corpus": data.name, "command": command_line(__file__), "ours": ours(arguments.run), "JoeyNMT": peer}, ["corpus"])
    draw(results("bleu_over_time.png"), read_rows(RESULTS))
    print(results("bleu_over_time.png"))


if __name__ == "__main__":
    main()
