#!/usr/bin/env python3
"""What attention is for: BLEU against source length with it and without it (Bahdanau et al. 2015, figure 2).

  .venv/bin/python scripts/long_sentences.py FOLDER              80 minutes on 2 CPU cores: 20 for each of four models
  .venv/bin/python scripts/long_sentences.py FOLDER --lanes 2    40 minutes: two models side by side, a core each
  .venv/bin/python scripts/long_sentences.py FOLDER --minutes 5 --attention additive none

FOLDER holds train, val and test_2016_flickr in English and German. Neighbouring pairs are joined, up to 60 words, so that there are long
sentences to learn from and to test on. Figures and picture go to scripts/results/long_sentences.json and .png, beside those of earlier
calls; what is trained is kept in runs/long_sentences, with a log, and goes on from there when it is given more minutes.
"""

import argparse
import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments import (
    MULTI30K,
    ROOT,
    data_settings,
    in_lanes,
    label_bleu,
    positive,
    put_row,
    read_rows,
    require_texts,
    results,
    run_name,
    score,
    script,
    train,
    whole,
)

from nmt.data.lines import read_lines
from nmt.evaluate import evaluate
from nmt.files import write_text, writing

ATTENTIONS = ("additive", "dot", "general", "none")
MAX_WORDS = 60
MAX_JOINED = 5
WIDTH = 10  # words of source a point of the curve
LEAST = 20  # sentences of a point
RESULTS = "long_sentences.json"


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
    require_texts(folder, "en", "de", MULTI30K)
    made.mkdir(parents=True, exist_ok=True)
    for split, name in MULTI30K.items():
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


def measure(made: Path, attention: str, minutes: float, threads: int) -> dict[str, Any]:
    """Train one model, and score it on the test sentences."""
    settings = ["experiment=long_sentences", f"model.attention={attention}", f"run.threads={threads}"]
    run = run_name("long_sentences", attention, 1, settings)
    log = ROOT / "runs" / f"{run}.log"
    data = data_settings("long_sentences", made, "en", "de", {split: split for split in MULTI30K})
    facts = train(run, *data, *settings, f"trainer.max_minutes={minutes:g}", log=log)
    scores = score(run, "test", f"run.threads={threads}", log=log)
    sources, references = (list(read_lines(made / f"test.{lang}")) for lang in ("en", "de"))
    points = by_length(sources, list(read_lines(ROOT / f"runs/{run}/test.hyp")), references)
    return {"attention": attention, "settings": settings, "points": points} | facts | scores


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A curve for each attention: BLEU against the length of the source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for row in sorted(rows, key=lambda row: ATTENTIONS.index(row["attention"])):
        middles = [sum(point["words"]) / 2 for point in row["points"]]
        style = "--" if row["attention"] == "none" else "-"
        axes.plot(middles, [point["bleu"] for point in row["points"]], style, marker="o", markersize=4, label=row["attention"])
    label_bleu(axes, "words of the source sentence")
    axes.legend(frameon=False, title="attention")
    with writing(path) as file:
        figure.savefig(file, format="png")


@script
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=positive, default=20, help="of training for each (default: 20)")
    parser.add_argument("--attention", nargs="+", choices=ATTENTIONS, default=ATTENTIONS)
    parser.add_argument("--lanes", type=whole(1), default=1, help="models that train side by side, and share the cores (default: 1)")
    arguments = parser.parse_args()
    made = ROOT / "data/long_sentences_text"
    make_data(arguments.folder, made)
    threads = max(1, (os.cpu_count() or 1) // arguments.lanes)
    jobs = {attention: partial(measure, made, attention, arguments.minutes, threads) for attention in arguments.attention}
    command = f"scripts/long_sentences.py FOLDER --minutes {arguments.minutes:g} --lanes {arguments.lanes}"
    for row in in_lanes(jobs, arguments.lanes):
        put_row(RESULTS, {"command": command} | row, ["attention"])
        print(f"{row['attention']}: BLEU {row['bleu']:.2f} after {row['minutes']:.1f} minutes", flush=True)
        draw(results("long_sentences.png"), read_rows(RESULTS))


if __name__ == "__main__":
    main()
