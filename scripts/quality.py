#!/usr/bin/env python3
"""Trains and scores what the results table of README.md shows, and puts the row into scripts/results/quality.json.

  .venv/bin/python scripts/quality.py multi30k FOLDER [settings …]            the recipe of configs/experiment/multi30k_en_de.yaml
  .venv/bin/python scripts/quality.py multi30k FOLDER … --trial               to choose by: only validation, and no row is written
  .venv/bin/python scripts/quality.py multi30k_published FOLDER               the same on lower-cased, tokenised text, as papers have it
  .venv/bin/python scripts/quality.py tatoeba_en_fr FOLDER --minutes 60       instead of the recipe's time
  .venv/bin/python scripts/quality.py tatoeba_en_ja FOLDER --seed 2
  .venv/bin/python scripts/quality.py ensemble runs/quality/…/best.pt …       several models together [and decode.* settings]
  .venv/bin/python scripts/quality.py table                                   the rows as Markdown

FOLDER holds train, val and test_2016_flickr of Multi30k, or train, valid and test of Tatoeba, each with the languages as endings.
Multi30k is also scored in the published measure, which needs sacremoses. The model is kept in runs/quality; a row that is asked for
again with the same recipe, settings and seed is scored again, but not trained, also with other settings decode.* of the search. One with
another recipe, other settings or another seed is another row.
"""

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments import (
    MULTI30K,
    ROOT,
    command_line,
    commit,
    data_settings,
    facts,
    positive,
    put_row,
    read_rows,
    require_texts,
    run_name,
    score,
    script,
    train,
    whole,
)
from omegaconf import OmegaConf
from published import moses, published_bleu, require_sacremoses

from nmt.checkpoint import load_checkpoint
from nmt.data.lines import read_lines
from nmt.errors import ConfigError
from nmt.files import write_text

RESULTS = "quality.json"
TATOEBA = {"train": "train", "valid": "valid", "test": "test"}


class Task(NamedTuple):
    """What is trained on what."""

    title: str
    experiment: str
    tgt: str
    splits: Mapping[str, str]


TASKS = {
    "multi30k": Task("Multi30k English–German, test_2016_flickr", "multi30k_en_de", "de", MULTI30K),
    "multi30k_published": Task("the same, trained on lower-cased, tokenised text", "multi30k_en_de", "de", MULTI30K),
    "tatoeba_en_fr": Task("Tatoeba English–French", "tatoeba_en_fr", "fr", TATOEBA),
    "tatoeba_en_ja": Task("Tatoeba English–Japanese", "tatoeba_en_ja", "ja", TATOEBA),
}


def make_published_text(folder: Path) -> Path:
    """All files of FOLDER as the official, tokenised ones are, in a folder of their own."""
    require_texts(folder, "en", "de", MULTI30K)
    made = ROOT / "data/multi30k_published_text"
    made.mkdir(parents=True, exist_ok=True)
    for file in MULTI30K.values():
        for lang in ("en", "de"):
            write_text(made / f"{file}.{lang}", "".join(f"{line}\n" for line in moses(read_lines(folder / f"{file}.{lang}"), lang)))
    return made


def train_row(name: str, folder: Path, settings: Sequence[str], seed: int, splits: Sequence[str]) -> dict[str, Any]:
    """Train one model, and score it; what settings say of the search is for the score alone."""
    task = TASKS[name]
    if name == "multi30k_published":
        folder = make_published_text(folder)
    search = [setting for setting in settings if setting.startswith("decode.")]
    trained = [f"experiment={task.experiment}", *[setting for setting in settings if setting not in search]]
    recipe = OmegaConf.to_container(OmegaConf.load(ROOT / f"configs/experiment/{task.experiment}.yaml"))
    run = run_name("quality", name, seed, [*trained, json.dumps(recipe)])  # a changed recipe is another run
    done = train(run, *data_settings(name, folder, "en", task.tgt, task.splits), *trained, f"run.seed={seed}")
    row = {"name": name, "title": task.title, "settings": [*trained, *search], "recipe": recipe}
    return row | done | scores(run, [ROOT / f"runs/{run}/best.pt"], search, splits)


def ensemble_row(checkpoints: Sequence[Path], search: Sequence[str], splits: Sequence[str]) -> dict[str, Any]:
    """Score several models together."""
    if strange := [setting for setting in search if not setting.startswith("decode.")]:
        raise ConfigError(f"{strange[0]}: the models of an ensemble are trained; decode.* settings of the search can be given")
    name = load_checkpoint(checkpoints[0]).config.data.name
    if name.startswith("multi30k"):
        require_sacremoses()
    models = [facts(checkpoint.parent) for checkpoint in checkpoints]
    digest = hashlib.sha256(repr(checkpoints).encode()).hexdigest()[:6]
    return {
        "name": f"{name}_ensemble",
        "title": f"{TASKS[name].title if name in TASKS else name}, ensemble of {len(checkpoints)}",
        "settings": list(search),
        "seed": [model["seed"] for model in models],
        "minutes": sum(model["minutes"] for model in models),
        "commit": commit(),
        "hardware": models[0]["hardware"],
        "models": models,
    } | scores(f"quality/{name}_ensemble-{digest}", checkpoints, search, splits)


def scores(run: str, checkpoints: Sequence[Path], search: Sequence[str], splits: Sequence[str]) -> dict[str, Any]:
    """What is found on each of the splits; of Multi30k in the published measure too, and of tokenised text in that alone."""
    data, found = load_checkpoint(checkpoints[0]).config.data, {}
    for split in splits:
        texts = {"valid": data.valid, "test": data.test}[split]
        found[split] = score(run, split, *search, checkpoint=f"[{','.join(map(str, checkpoints))}]")
        if data.name.startswith("multi30k"):
            both = [list(read_lines(path)) for path in (ROOT / f"runs/{run}/{split}.hyp", f"{texts[0]}.{data.tgt_lang}")]
            tokenized = data.name == "multi30k_published"
            measured = published_bleu(*(both if tokenized else [moses(lines, data.tgt_lang) for lines in both]))
            found[split] = measured if tokenized else found[split] | measured
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in Markdown, sacreBLEU first, and the signatures below."""
    columns = ["test set", "BLEU", "chrF2", "TER", "published measure", "BLEU on val", "minutes", "seed", "hardware", "commit"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        values = [*(row.get("test", {}).get(key) for key in ("bleu", "chrf", "ter", "published")), row["valid"].get("bleu"), row["minutes"]]
        shown = ["" if value is None else f"{value:.1f}" for value in values]
        lines.append(f"| {' | '.join([row['title'], *shown, str(row['seed']), row['hardware'], str(row['commit'])])} |")
    signatures = sorted({value for row in rows for key, value in row.get("test", {}).items() if key.endswith("signature")})
    return "\n".join([*lines, "", *signatures])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*TASKS, "ensemble", "table"])
    parser.add_argument("what", nargs="*", metavar="FOLDER|CHECKPOINT", help="and settings after the folder")
    parser.add_argument("--minutes", type=positive, help="of training (default: the recipe's)")
    parser.add_argument("--seed", type=whole(0), default=1)
    parser.add_argument("--trial", action="store_true", help="leave the test set alone, and write no row")
    arguments = parser.parse_intermixed_args()
    if arguments.name != "table" and not arguments.what:
        parser.error("FOLDER is missing" if arguments.name in TASKS else "the checkpoints are missing")
    return arguments


@script
def main() -> None:
    arguments = parse()
    if arguments.name == "table":
        print(table(read_rows(RESULTS)))
        return
    if arguments.name.startswith("multi30k"):
        require_sacremoses()  # now, and not after an hour
    command = command_line(__file__)
    splits = ("valid",) if arguments.trial else ("valid", "test")
    if arguments.name == "ensemble":
        search = [word for word in arguments.what if "=" in word and not Path(word).exists()]
        row = ensemble_row([Path(word).resolve() for word in arguments.what if word not in search], search, splits)
    else:
        command = command.replace(arguments.what[0], "FOLDER", 1)
        minutes = [f"trainer.max_minutes={arguments.minutes:g}"] if arguments.minutes else []
        row = train_row(arguments.name, Path(arguments.what[0]).resolve(), [*minutes, *arguments.what[1:]], arguments.seed, splits)
    if not arguments.trial:
        put_row(RESULTS, {"command": command} | row, ("name", "seed", "settings", "recipe", "models"))  # not every row has all of them
    print(table([row]))


if __name__ == "__main__":
    main()
