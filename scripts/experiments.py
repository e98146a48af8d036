"""What the scripts of the published figures share: mistakes told in a line, `nmt` as a user runs it, facts of a run, rows of results."""

import argparse
import functools
import hashlib
import json
import math
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nmt.checkpoint import load_checkpoint
from nmt.config import TrainConfig
from nmt.data.lines import did_you_mean
from nmt.errors import DataError, NmtError
from nmt.files import write_text
from nmt.schema import config_dir, load

ROOT = Path(__file__).resolve().parents[1]
MULTI30K = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # the files of each split
T = TypeVar("T")


def script(main: Callable[[], int | None]) -> Callable[[], NoReturn]:
    """Let the main function of a script end it: with what it returns, or with one line and code 2 for a user's mistake, as `nmt` does."""

    @functools.wraps(main)
    def ending() -> NoReturn:
        try:
            code = main()
        except NmtError as error:
            print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
            code = 2
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        sys.exit(code or 0)

    return ending


def whole(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least this."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number of at least {least} is expected")
        return int(text)

    return read


def positive(text: str) -> float:
    """The type of an argument that is a number above 0."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}: a number above 0 is expected")


def output_file(text: str) -> Path:
    """The type of an argument that names a file to write: its folder is there."""
    if not Path(text).resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {Path(text).resolve().parent}")
    return Path(text)


def nmt(*arguments: str, log: Path | None = None) -> None:
    """Run a command of this checkout; what it says goes to the terminal, or to the end of a file.

    Raises:
        SystemExit: it failed, and has said why on the terminal.
        NmtError: it failed; with the last line that went to the file.
    """
    command = [sys.executable, "-m", "nmt", *arguments]
    if log is None:
        if code := subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(code if code > 0 else 128 - code)  # a negative one is the signal that ended it
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as out:
        code = subprocess.run(command, cwd=ROOT, stdout=out, stderr=out).returncode
    if code:
        raise NmtError(f"{last_line(log.read_text(encoding='utf-8', errors='replace'))} (more in {log})")


def last_line(text: str) -> str:
    """The last line that holds something, without the progress bar that it may have replaced."""
    return next((line.strip() for line in reversed(text.replace("\r", "\n").split("\n")) if line.strip()), "it failed without a word")


def training_settings(*overrides: str) -> TrainConfig:
    """What `nmt train` would use with these settings."""
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return load(TrainConfig, OmegaConf.to_container(compose("train", list(overrides)), resolve=True))  # type: ignore[arg-type]


def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").split("\n") if cpuinfo.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())


def cores(count: int) -> str:
    """So many cores, in words."""
    return f"{count} {'core' if count == 1 else 'cores'}"


def command_line(script: str) -> str:
    """How a script, named by its file, was called, as it can be called again."""
    return shlex.join([f"scripts/{Path(script).name}", *sys.argv[1:]])


def commit() -> str | None:
    """The commit of this checkout, with a + where code or configuration were changed since; None outside of git."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "nmt", "configs"], cwd=ROOT, capture_output=True)
    return head.stdout.strip() + "+" * changed.returncode if head.returncode == 0 else None


def require_texts(folder: Path, src: str, tgt: str, splits: Mapping[str, str]) -> None:
    """Raise DataError where one of FOLDER/<splits["train"]>.<src> and so on is missing."""
    for path in (folder / f"{file}.{lang}" for file in splits.values() for lang in (src, tgt)):
        if not path.is_file():
            raise DataError(f"there is no file {path}{did_you_mean(path)}; {', '.join(splits.values())} are needed, in {src} and {tgt}")


def data_settings(name: str, folder: Path, src: str, tgt: str, splits: Mapping[str, str]) -> list[str]:
    """The settings that make plain files of FOLDER the data; see `require_texts` for which they are, and what is raised."""
    require_texts(folder, src, tgt, splits)
    texts = [f"data.{split}={folder.resolve() / file}" for split, file in splits.items()]
    return ["data=files", f"data.name={name}", f"data.src_lang={src}", f"data.tgt_lang={tgt}", *texts]


def run_name(group: str, row: str, seed: int, settings: Sequence[str]) -> str:
    """The name of a run that no run with other settings has: what was trained with these goes on, or is used again."""
    return f"{group}/{row}-{seed}-{hashlib.sha256(json.dumps(list(settings)).encode()).hexdigest()[:6]}"


def train(run: str, *settings: str, log: Path | None = None) -> dict[str, Any]:
    """Train runs/RUN, or go on with it, and say what was done."""
    folder = ROOT / "runs" / run
    if not (folder / "last.pt").exists():  # a run that goes on has the commit that it began with
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "commit", commit() or "")
    try:
        nmt("train", *settings, f"run.name={run}", log=log)
    finally:
        if not (folder / "last.pt").exists():
            (folder / "commit").unlink(missing_ok=True)
            with suppress(OSError):  # it is not empty
                folder.rmdir()
    return facts(folder)


def facts(folder: Path) -> dict[str, Any]:
    """What was done in a run's folder, as rows of tables name it; `greedy_valid` is the validation BLEU of best.pt."""
    last = load_checkpoint(folder / "last.pt")
    progress, threads = last.training["progress"], last.config.run.threads or os.cpu_count()
    return {
        "seed": last.config.run.seed,
        "greedy_valid": progress["best"] if progress["averaged"] is None else progress["averaged"],
        "passes": last.about["epoch"],
        "updates": last.about["step"],
        "minutes": round(last.about["seconds"] / 60, 1),
        "commit": (folder / "commit").read_text(encoding="utf-8") if (folder / "commit").exists() else None,
        "hardware": f"{cores(threads)} of {processor()}",
    }


def score(run: str, split: str, *settings: str, checkpoint: str | None = None, log: Path | None = None) -> dict[str, Any]:
    """`nmt evaluate` of best.pt, or of what else `checkpoint` says; runs/RUN/<split>.json and .hyp keep what was found."""
    output = ROOT / "runs" / run / f"{split}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    chosen = checkpoint or f"runs/{run}/best.pt"
    nmt("evaluate", f"checkpoint={chosen}", f"split={split}", f"output={output}", *settings, log=log)
    scores: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return scores


def in_lanes(jobs: Mapping[str, Callable[[], T]], lanes: int) -> Iterator[T]:
    """The results of named jobs as they come, so many at a time; one that fails is told, and ends the script only after the others."""
    failed = []
    pool = ThreadPoolExecutor(lanes)
    try:
        futures = {pool.submit(job): name for name, job in jobs.items()}
        for future in as_completed(futures):
            if error := future.exception():
                print(f"{futures[future]} FAILED: {error}", file=sys.stderr, flush=True)
                failed.append(futures[future])
            else:
                yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
    if failed:
        raise NmtError(f"failed: {', '.join(failed)}")


def results(name: str) -> Path:
    """Where figures are kept: scripts/results/NAME."""
    return ROOT / "scripts" / "results" / name


def read_rows(name: str) -> list[dict[str, Any]]:
    """The rows of scripts/results/NAME; none where there is no such file yet."""
    path = results(name)
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def put_row(name: str, row: dict[str, Any], keys: Sequence[str]) -> None:
    """Write scripts/results/NAME anew, with this row in place of one that is equal in all of these keys."""
    others = [other for other in read_rows(name) if any(other.get(key) != row.get(key) for key in keys)]
    write_text(results(name), json.dumps([*others, row], indent=1, ensure_ascii=False) + "\n")


def label_bleu(axes: Any, across: str, up: str = "BLEU") -> None:
    """What the curves of BLEU have in common: their names, from 0 on, a light grid, no frame."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(bottom=0)
    axes.grid(True, axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
