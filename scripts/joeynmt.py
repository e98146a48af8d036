#!/usr/bin/env python3
"""JoeyNMT 2.3.0, the nearest living peer: its recurrent model, trained for bleu_over_time.py in an environment of its own.

  .venv/bin/python scripts/joeynmt.py      makes that environment in ~/.cache/nmt-peers, or in $PEERS

Its settings are in joeynmt.yaml. It reads pieces of a joint BPE of 8,000, in batches of 64 sentences of about equal lengths.
"""

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from experiments import last_line, script
from omegaconf import OmegaConf
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from nmt.config import DataConfig
from nmt.data.lines import read_lines
from nmt.errors import ConfigError, NmtError
from nmt.evaluate import evaluate
from nmt.files import write_text

HOME = Path(os.environ.get("PEERS", Path.home() / ".cache/nmt-peers"))
PYTHON = HOME / "joey/bin/python"
NEEDED = ["numpy<2.5", "tensorboard", "sacrebleu", "sacremoses", "sentencepiece", "subword-nmt", "matplotlib", "seaborn", "pyyaml"]
NEEDED += ["packaging", "datasets", "pandas", "plotly", "importlib_metadata"]
BATCH = 64
SIZE = 8000


def set_up() -> None:
    """Make JoeyNMT's environment where it is missing; JoeyNMT itself would ask for an older PyTorch."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", PYTHON.parents[1]], check=True)
        for packages in (["torch==2.13.0"], ["--no-deps", "joeynmt==2.3.0"], NEEDED):
            subprocess.run([PYTHON, "-m", "pip", "install", "-q", *packages], check=True)


def pieces_of(processor: SentencePieceProcessor, path: str) -> list[str]:
    return [" ".join(pieces) for pieces in processor.encode(list(read_lines(path)), out_type=str)]


def write_pieces(data: DataConfig, folder: Path) -> None:
    """Learn subwords of the training text, and write training and validation text in them; training text batch after batch."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus, langs = data.train[0], (data.src_lang, data.tgt_lang)
    special = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    texts = [f"{corpus}.{lang}" for lang in langs]
    SentencePieceTrainer.train(
        input=texts, model_prefix=f"{folder}/pieces", vocab_size=SIZE, model_type="bpe", character_coverage=1.0, minloglevel=2, **special
    )
    processor = SentencePieceProcessor(model_file=f"{folder}/pieces.model")
    write_text(folder / "pieces.txt", "".join(f"{processor.id_to_piece(id)}\n" for id in range(len(special), len(processor))))
    for name, prefix in (("train", corpus), ("valid", data.valid[0])):
        pairs = list(zip(*(pieces_of(processor, f"{prefix}.{lang}") for lang in langs), strict=True))
        if name == "train":
            pairs = in_batches([pair for pair in pairs if all(pair)])
        for side, lang in enumerate(langs):
            write_text(folder / f"{name}.{lang}", "".join(f"{pair[side]}\n" for pair in pairs))


def in_batches(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of about equal lengths next to each other, so many as a batch has; the batches shuffled, and a last small one left out."""
    chance = random.Random(1)
    chance.shuffle(pairs)
    pairs.sort(key=lambda pair: (pair[0].count(" "), pair[1].count(" ")))
    batches = [pairs[start : start + BATCH] for start in range(0, len(pairs) - BATCH + 1, BATCH)]
    chance.shuffle(batches)
    return [pair for batch in batches for pair in batch]


def settings_of(run: Path, data: DataConfig, dropout: float, every: int) -> Any:
    """joeynmt.yaml with the values of a run, as OmegaConf has it."""
    text = f"{run}.text"
    src, trg = {"lang": data.src_lang, "voc_file": f"{text}/pieces.txt"}, {"lang": data.tgt_lang}
    values = {
        "model_dir": str(run),
        "data": {"train": f"{text}/train", "dev": f"{text}/valid", "src": src, "trg": trg},
        "training": {"validation_freq": every},
        "model": {"encoder": {"dropout": dropout}},
    }
    return OmegaConf.merge(OmegaConf.load(Path(__file__).with_suffix(".yaml")), values)


def call(verb: str, run: Path, settings: Any, threads: int) -> dict[str, Any]:
    """How subprocess calls JoeyNMT with settings, which are written beside the run's folder."""
    path = f"{run}.{verb}.yaml"
    write_text(path, OmegaConf.to_yaml(settings, resolve=True))
    return {"args": [str(PYTHON), "-W", "ignore", "-m", "joeynmt", verb, path], "env": os.environ | {"OMP_NUM_THREADS": str(threads)}}


def train(run: Path, data: DataConfig, minutes: float, dropout: float, every: int, threads: int) -> None:
    """Train into the folder RUN, with what it says in RUN.log, for so many minutes; nothing is done where that was done.

    Raises:
        ConfigError: its environment is not there.
        NmtError: it ended before its time.
    """
    if not PYTHON.exists():
        raise ConfigError(f"JoeyNMT is not there: {sys.executable} {__file__}")
    if Path(f"{run}.finished").exists():
        return
    write_pieces(data, Path(f"{run}.text"))
    log, training = Path(f"{run}.log"), call("train", run, settings_of(run, data, dropout, every), threads)
    training["args"].append("-t")  # no test at its end
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(**training, stdout=out, stderr=out)
        try:
            process.wait(timeout=60 * minutes)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it saves
            process.wait()
    if "Interrupt at epoch" not in log.read_text(encoding="utf-8", errors="replace"):
        raise NmtError(f"JoeyNMT ended before its time (more in {log})")
    Path(f"{run}.finished").touch()


def text_of(pieces: str) -> str:
    return pieces.replace(" ", "").replace("▁", " ").strip()


def minutes_of(log: Sequence[str]) -> list[float]:
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


def validations(run: Path, data: DataConfig) -> list[tuple[float, float]]:
    """Minutes and BLEU of its validations, greedy: it writes the pieces of its translations to RUN/<update>.hyps."""
    references, points = list(read_lines(f"{data.valid[0]}.{data.tgt_lang}")), []
    files = sorted(run.glob("*.hyps"), key=lambda path: int(path.stem))
    for minutes, path in zip(minutes_of(list(read_lines(f"{run}.log"))), files, strict=False):  # the last may be unfinished
        points.append((minutes, evaluate([text_of(line) for line in read_lines(path)], references, data.tgt_lang, ter=False).bleu))
    return points


def translate(run: Path, threads: int, source: str) -> list[str]:
    """A file's translations by the best model of RUN, with the beam of joeynmt.yaml.

    Raises:
        NmtError: it failed, or gave another number of lines.
    """
    pieces = pieces_of(SentencePieceProcessor(model_file=f"{run}.text/pieces.model"), source)
    settings = OmegaConf.merge(OmegaConf.load(f"{run}.train.yaml"), {"testing": {"load_model": f"{run}/best.ckpt"}})
    text = "".join(f"{line}\n" for line in pieces)
    told = subprocess.run(**call("translate", run, settings, threads), input=text, capture_output=True, encoding="utf-8")
    lines = told.stdout.split("\n")[:-1][-len(pieces) :]
    if told.returncode or len(lines) != len(pieces):
        raise NmtError(f"JoeyNMT gave {len(lines)} lines for {len(pieces)} of {source}: {last_line(told.stderr)}")
    return [text_of(line) for line in lines]


if __name__ == "__main__":
    script(set_up)()
