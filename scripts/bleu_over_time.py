#!/usr/bin/env python3
"""BLEU on the validation set against minutes of training: a run of ours, and JoeyNMT 2.3.0 on the same text for the same time.

  .venv/bin/python scripts/bleu_over_time.py runs/quality/multi30k-1-… joeynmt_peer.py
  .venv/bin/python scripts/bleu_over_time.py runs/quality/tatoeba_en_fr-1-… joeynmt_peer.py --dropout 0.2 --threads 1

RUN was trained by scripts/quality.py, with each corpus one prefix; JOEYNMT is the script that sets JoeyNMT up and trains it
(joeynmt_peer.py setup, once). Both translate the validation set greedily as they train, and the same function scores the text. Our minutes
hold our validations; JoeyNMT's do not hold its own, but the time that it is given does. Its test score is of the model that it validated
best, with a beam of 5. Where RUN is still being trained on one thread, --threads 1 --minutes 60 trains JoeyNMT beside it on the other core. Figures go to scripts/results/bleu_over_time.json and .png, a panel for each corpus; what JoeyNMT trained is kept,
and used again.
"""

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments import command_line, facts, label_bleu, last_line, positive, put_row, read_rows, results, script, whole

from nmt.checkpoint import load_checkpoint
from nmt.config import DataConfig
from nmt.data.lines import did_you_mean, read_lines
from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluate import evaluate
from nmt.files import writing

RESULTS = "bleu_over_time.json"
Points = list[tuple[float, float]]  # minutes and BLEU


def our_points(run: Path) -> Points:
    """The validations of a run of ours."""
    rows = [json.loads(line) for line in read_lines(run / "metrics.jsonl")]
    return [(row["seconds"] / 60, row["valid_bleu"]) for row in rows if "valid_bleu" in row]


def their_minutes(log: Sequence[str]) -> list[float]:
    """Minutes of training before each validation in JoeyNMT's log, without the validations before it."""
    minutes, started, validating = list[float](), None, 0.0
    for line in log:
        if started is None and " EPOCH " in line:
            started = datetime.fromisoformat(line[:23])
        elif started and re.search(r"Predicting \d+ example", line):  # not its progress bar
            minutes.append(((datetime.fromisoformat(line[:23]) - started).total_seconds() - validating) / 60)
        elif took := re.search(r"Generation took ([\d.]+)", line):
            validating += float(took[1])
    return minutes


def their_points(folder: Path, references: Sequence[str], tgt_lang: str) -> Points:
    """The validations of JoeyNMT in FOLDER, with FOLDER.log: it writes the pieces of its translations to <update>.hyps."""
    points = []
    files = sorted(folder.glob("*.hyps"), key=lambda path: int(path.stem))
    for minutes, path in zip(their_minutes(list(read_lines(f"{folder}.log"))), files, strict=False):  # the last may be unfinished
        texts = [line.replace(" ", "").replace("▁", " ").strip() for line in read_lines(path)]
        points.append((minutes, evaluate(texts, references, tgt_lang, ter=False).bleu))
    return points


def their_training(peer: ModuleType, data: DataConfig, minutes: float, dropout: float, every: int) -> dict[str, Any]:
    """Train JoeyNMT, but where that was done, and score its validations and its translation of the test set."""
    if not peer.PY.exists():
        raise ConfigError(f"JoeyNMT is not there: {sys.executable} {peer.__file__} setup")
    corpus, valid, test = (str(items[0]) for items in (data.train, data.valid, data.test))
    texts = {"corpus": corpus, "valid": valid, "src": data.src_lang, "tgt": data.tgt_lang}
    name = f"over_time-{data.name}-{60 * minutes:.0f}s-dropout{100 * dropout:.0f}"  # it takes a point for the end of a name
    prepared = Path(corpus).parent.name + f"-{data.src_lang}-{data.tgt_lang}"
    if not (peer.PEERS / prepared / "pieces.txt").exists():
        peer.prepare(corpus, valid, data.src_lang, data.tgt_lang, peer.PEERS / prepared)
    log, finished = peer.PEERS / "runs" / f"{name}.log", peer.PEERS / "runs" / f"{name}.finished"
    if not finished.exists():
        peer.CONFIG = peer.CONFIG.replace("{valid_every}", str(every))
        peer.train(argparse.Namespace(name=name, minutes=minutes, updates=0, dropout=dropout, data=prepared, **texts))
        if "Interrupt at epoch" not in log.read_text(encoding="utf-8", errors="replace"):
            raise NmtError(f"JoeyNMT ended before its time (more in {log})")
        finished.touch()
    options = [f"--{option}={value}" for option, value in ({"name": name, "beam": 5, "test": test} | texts).items()]
    told = subprocess.run([sys.executable, peer.__file__, "bleu", *options], capture_output=True, text=True)
    if told.returncode:
        raise NmtError(f"{peer.__file__} bleu failed: {last_line(told.stderr)}")
    references = list(read_lines(f"{valid}.{data.tgt_lang}"))
    points = their_points(peer.PEERS / "runs" / name, references, data.tgt_lang)
    if not points:
        raise NmtError(f"JoeyNMT did not validate in {minutes:g} minutes: give more --minutes, or a smaller --every (it is {every})")
    found = re.search(r"BLEU = ([\d.]+) .*?(nrefs:\S+)", told.stdout, re.DOTALL)
    scores = {"bleu": float(found[1]), "bleu_signature": found[2]} if found else None
    return {"minutes": minutes, "trained_minutes": round(points[-1][0], 1), "dropout": dropout, "points": points, "test": scores}


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
    parser.add_argument("peer", type=Path, metavar="JOEYNMT")
    parser.add_argument("--minutes", type=positive, help="of JoeyNMT's training, validations included (default: as ours)")
    parser.add_argument("--dropout", type=float, default=0.3, help="JoeyNMT's (default: 0.3)")
    parser.add_argument(
        "--every", type=whole(1), default=500, help="updates between JoeyNMT's validations, a multiple of 10 (default: 500)"
    )
    parser.add_argument("--threads", type=int, choices=(1, 2), default=2, help="JoeyNMT's (default: 2)")
    arguments = parser.parse_args()
    if arguments.threads == 1:
        os.environ["OMP_THREAD_LIMIT"] = "1"  # JOEYNMT asks for two
    signal.signal(signal.SIGINT, signal.default_int_handler)  # JoeyNMT ends by it, and a background job would hand down that it is ignored
    data, minutes = load_checkpoint(arguments.run / "last.pt").config.data, arguments.minutes or facts(arguments.run)["minutes"]
    if not arguments.peer.is_file():
        raise DataError(f"there is no file {arguments.peer}{did_you_mean(arguments.peer)}")
    sys.path.append(str(arguments.peer.resolve().parent))
    peer = importlib.import_module(arguments.peer.stem)
    theirs = their_training(peer, data, minutes, arguments.dropout, arguments.every) | {"threads": arguments.threads}
    test = arguments.run / "test.json"
    ours = facts(arguments.run) | {"points": our_points(arguments.run), "test": json.loads(test.read_text(encoding="utf-8")) if test.exists() else None}
    put_row(RESULTS, {"corpus": data.name, "command": command_line(__file__), "ours": ours, "JoeyNMT": theirs}, ["corpus"])
    draw(results("bleu_over_time.png"), read_rows(RESULTS))
    print(results("bleu_over_time.png"))


if __name__ == "__main__":
    main()
