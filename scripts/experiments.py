"""What the scripts of the published figures share: `nmt` as a user runs it, facts of a run, several runs side by side, rows of results."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from nmt.checkpoint import load_checkpoint
from nmt.files import write_text

ROOT = Path(__file__).resolve().parents[1]
MULTI30K = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # the files of each split
T = TypeVar("T")


def nmt(*arguments: str, log: Path | None = None) -> None:
    """Run a command of this checkout; what it says goes to the terminal, or to the end of a file."""
    command = [sys.executable, "-m", "nmt", *arguments]
    if log is None:
        subprocess.run(command, cwd=ROOT, check=True)
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            subprocess.run(command, cwd=ROOT, check=True, stdout=out, stderr=out)


def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").split("\n") if cpuinfo.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())


def commit() -> str | None:
    """The commit of this checkout, with a + where code or configuration were changed since; None outside of git."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "nmt", "configs"], cwd=ROOT, capture_output=True)
    return head.stdout.strip() + "+" * changed.returncode if head.returncode == 0 else None


def data_settings(name: str, folder: Path, src: str, tgt: str, splits: Mapping[str, str]) -> list[str]:
    """The settings that make plain files of FOLDER the data: FOLDER/<splits["train"]>.<src> and so on."""
    texts = [f"data.{split}={folder.resolve() / file}" for split, file in splits.items()]
    return ["data=files", f"data.name={name}", f"data.src_lang={src}", f"data.tgt_lang={tgt}", *texts]


def run_name(group: str, row: str, seed: int, settings: Sequence[str]) -> str:
    """The name of a run that no run with other settings has: what was trained with these goes on, or is used again."""
    return f"{group}/{row}-{seed}-{hashlib.sha256(json.dumps(list(settings)).encode()).hexdigest()[:6]}"


def train(run: str, *settings: str, log: Path | None = None) -> dict[str, Any]:
    """Train runs/RUN, or go on with it, and say what was done."""
    folder = ROOT / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "commit").exists():  # the one that a continued run began with
        write_text(folder / "commit", commit() or "")
    nmt("train", *settings, f"run.name={run}", log=log)
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
        "hardware": f"{threads} {'core' if threads == 1 else 'cores'} of {processor()}",
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
        sys.exit(f"failed: {', '.join(failed)}")


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
    others = [other for other in read_rows(name) if any(other[key] != row[key] for key in keys)]
    write_text(results(name), json.dumps([*others, row], indent=1, ensure_ascii=False) + "\n")
