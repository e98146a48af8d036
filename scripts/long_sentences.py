#!/usr/bin/env python3
"""What attention is for: BLEU against source length with it and without it (Bahdanau et al. 2015, figure 2).

  .venv/bin/python scripts/long_sentences.py FOLDER              80 minutes on 2 CPU cores: 20 for each of four models
  .venv/bin/python scripts/long_sentences.py FOLDER --minutes 5 --attention additive none

FOLDER holds train, val and test_2016_flickr in English and German. Neighbouring pairs are joined, up to 60 words, so that there are long
sentences to learn from and to test on. Figures and picture go to scripts/results/long_sentences.json and .png; what is trained is kept.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import ROOT, nmt, processor

from nmt.data.corpus import read_lines
from nmt.evaluate import evaluate
from nmt.files import write_text, writing

SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
ATTENTIONS = ("additive", "dot", "general", "none")
MAX_WORDS = 60
MAX_JOINED = 5
WIDTH = 10  # words of source a point of the curve
LEAST = 20  # sentences of a point
RESULTS = ROOT / "scripts/results"


def join(sources: Sequence[str], targets: Sequence[str], seed: int) -> list[tuple[str, str]]:
    """Runs of one to five neighbouring pairs, each pair once, side by side as long as neither side passes MAX_WORDS words."""
    chance, joined = random.Random(seed), list[tuple[str, str]]()
    waiting = list(zip(sources, targets, strict=True))[::-1]
    while waiting:
        src, tgt = waiting.pop()
        for _ in range(chance.randrange(MAX_JOINED)):
            if not waiting or any(len(f"{one} {more}".split()) > MAX_WORDS for one, more in zip((src, tgt), waiting[-1], strict=True)):
                break
            more = waiting.pop()
            src, tgt = f"{src} {more[0]}", f"{tgt} {more[1]}"
        joined.append((src, tgt))
    return joined


def make_data(folder: Path, made: Path) -> None:
    """Write the joined pairs of every split to made/train.en and so on."""
    made.mkdir(parents=True, exist_ok=True)
    for split, name in SPLITS.items():
        sides = [[line.strip() for line in read_lines(folder / f"{name}.{lang}")] for lang in ("en", "de")]
        for lang, lines in zip(("en", "de"), zip(*join(sides[0], sides[1], seed=1), strict=True), strict=True):
            write_text(made / f"{split}.{lang}", "".join(f"{line}\n" for line in lines))


def by_length(sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> list[dict[str, Any]]:
    """BLEU of the sentences of 1–10 words of source, 11–20 and so on, where there are enough of them."""
    points = []
    for start in range(0, MAX_WORDS, WIDTH):
        rows = [row for row, line in enumerate(sources) if start < len(line.split()) <= start + WIDTH]
        if len(rows) >= LEAST:
            report = evaluate([hypotheses[row] for row in rows], [references[row] for row in rows], "de", ter=False)
            points.append({"words": [start + 1, start + WIDTH], "sentences": len(rows), "bleu": report.bleu})
    return points


def measure(made: Path, attention: str, minutes: float) -> dict[str, Any]:
    """Train one model, and score it on the test sentences."""
    run = f"long_sentences-{attention}"
    data = ["data=files", "data.name=long_sentences", "data.src_lang=en", "data.tgt_lang=de"]
    data += [f"data.{split}=['{made}/{split}']" for split in SPLITS]
    settings = ["experiment=long_sentences", f"model.attention={attention}", f"trainer.max_minutes={minutes:g}"]
    nmt("train", *data, *settings, f"run.name={run}")
    output = ROOT / "runs" / run / "test.json"
    nmt("evaluate", f"checkpoint=runs/{run}/best.pt", "split=test", f"output={output}")
    sources, references = (list(read_lines(made / f"test.{lang}")) for lang in ("en", "de"))
    points = by_length(sources, list(read_lines(output.with_suffix(".hyp"))), references)
    return {"settings": settings, "points": points, **json.loads(output.read_text(encoding="utf-8"))}


def draw(path: Path, figures: dict[str, Any]) -> None:
    """A curve for each attention: BLEU against the length of the source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for attention, one in figures.items():
        middles = [sum(point["words"]) / 2 for point in one["points"]]
        style = "--" if attention == "none" else "-"
        axes.plot(middles, [point["bleu"] for point in one["points"]], style, marker="o", markersize=4, label=attention)
    axes.set_xlabel("words of the source sentence")
    axes.set_ylabel("BLEU")
    axes.set_ylim(bottom=0)
    axes.grid(True, axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="attention")
    with writing(path) as file:
        figure.savefig(file, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--attention", nargs="+", choices=ATTENTIONS, default=ATTENTIONS)
    arguments = parser.parse_args()
    made = ROOT / "data/long_sentences_text"
    make_data(arguments.folder.resolve(), made)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    figures = {attention: measure(made, attention, arguments.minutes) for attention in arguments.attention}
    about = {"command": " ".join(["scripts/long_sentences.py", "FOLDER", *sys.argv[2:]]), "commit": commit, "hardware": processor()}
    write_text(RESULTS / "long_sentences.json", json.dumps(about | {"attention": figures}, indent=1, ensure_ascii=False) + "\n")
    draw(RESULTS / "long_sentences.png", figures)
    print(RESULTS / "long_sentences.png")


if __name__ == "__main__":
    main()
