#!/usr/bin/env python3
"""Injures trainings by chance and compares what they leave with an undisturbed one; then feeds odd files to translate.

  .venv/bin/python scripts/soak.py                      30 minutes of trainings, then 200 files
  .venv/bin/python scripts/soak.py --minutes 5 --files 30 --seed 7

A small training is started again and again by the same command until it has ended, while it is killed, ended by SIGTERM, has bytes of its
last.pt turned around, or finds its disk full (a tmpfs that is mounted for it; without the right to mount, that fault is left out). Then the
next one begins. Every number of the checkpoints of each has to be what the undisturbed run left. Files of odd lines go through translate
under a limit of memory: as many lines out as in, all of them UTF-8; a file with bytes that are no UTF-8 has to be refused with one line.
The report goes to stdout, and to scripts/results/soak.json. Exit code 1 where anything differs or a line is lost.
"""

import argparse
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments import ROOT, commit, positive, processor, put_row, script, whole
from tqdm import tqdm

from nmt.verification import different

NMT = [sys.executable, "-m", "nmt"]
TMPFS_BYTES = 48 * 2**20  # a dozen checkpoints of this training
MEMORY = 6 * 2**30  # bytes of address space for translate
PAIRS = 2000
SETTINGS = [
    *("data=files", "data.name=soak", "data.src_lang=en", "data.tgt_lang=de", "data.folder=data"),
    *("data.train=[train]", "data.valid=[valid]", "tokenizer.vocab_size=500", "run.threads=1", "precision=fp32"),
    *("model=tiny", "model.embedding_size=32", "model.encoder_size=32", "model.decoder_size=64", "model.readout_size=32"),
    *("trainer.max_steps=120", "trainer.valid_every_steps=40", "trainer.save_every_steps=15", "batches.accumulate=2"),
    *("trainer.keep=2", "trainer.average=2", "trainer.ema_decay=0.9"),
]
ODD = [
    *("", "   ", "\u3000", "\ufeff", "\0", "\x85", "\u2028", "\u2029", "\x0b\x0c\x1c", "<s>", "</s>", "<unk>", "<pad>", "▁", "▁▁ ▁"),
    *(
        "\r",
        "a\rb",
        "\U0010ffff",
        "\ue000",
        "\u0378",
        "e\u0301\u0301\u0301",
        "👩‍👩‍👧‍👦🎉",
        "שלום עולם",
        "مرحبا",
        "日本語の文",
        "!?!?…—",
        "\u202eabc",
    ),
    *("A dog runs.", "Two men are playing chess in the park.", "${oc.env:HOME}", "key=value", "'\"\\", "0x00 <0x0A>", "\ud7ff\ue001"),
]


def command(run: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*NMT, "train", *SETTINGS, f"run.name={run}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


# A fault returns the exit codes that are right after it, and what the next start has to say.
Outcome = tuple[set[int], str]


def killed(training: "subprocess.Popen[bytes]", folder: Path) -> Outcome:
    training.kill()
    return {0, -signal.SIGKILL}, ""


def ended(training: "subprocess.Popen[bytes]", folder: Path) -> Outcome:
    training.send_signal(signal.SIGTERM)
    return {0, 128 + signal.SIGTERM, -signal.SIGTERM}, ""  # the last while Python itself begins or ends; a shell says 143 of both


def damaged(training: "subprocess.Popen[bytes]", folder: Path) -> Outcome:
    """Kill it, and turn some bytes of last.pt around; a training has to fall back to previous.pt."""
    training.kill()
    training.wait()
    told = ""
    if training.returncode and (last := folder / "last.pt").exists() and (folder / "previous.pt").exists():
        told = f"going on from {folder / 'previous.pt'}"
        content = bytearray(last.read_bytes())
        place = random.randrange(len(content) - 64)
        content[place : place + 64] = bytes(byte ^ 255 for byte in content[place : place + 64])
        last.unlink()  # previous.pt may be a second name of the same file
        last.write_bytes(content)
    return {0, -signal.SIGKILL}, told


def filled(training: "subprocess.Popen[bytes]", folder: Path) -> Outcome:
    """Fill its disk for a while."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    time.sleep(random.uniform(1, 8))
    filler.unlink()
    return {0, 2}, ""  # 2 where it ended meanwhile, and its last checkpoint could not be written


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of its own for a folder; False where it cannot be mounted."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def train_injured(run: str, faults: list[Callable[..., None]], span: float, counts: Counter[str]) -> list[str]:
    """Start a training until it has ended, injured once each time; the lines that should not have been on its stderr."""
    folder, odd, expected = Path("runs", run), list[str](), ""
    for _ in range(100):
        with command(run) as training:
            fault = random.choice(faults)
            with contextlib.suppress(subprocess.TimeoutExpired):
                training.wait(random.uniform(0.3, 1) * span)
            codes, after = {0}, ""
            if training.poll() is None:
                codes, after = fault(training, folder)
                counts[fault.__name__] += fault is not damaged or bool(after)
            told = training.communicate(timeout=600)[1].decode()
            odd += [line for line in told.splitlines() if "Traceback" in line or "Error:" in line]
            if training.returncode not in codes:
                odd.append(f"{run}: exit code {training.returncode} after {fault.__name__}: {told[-300:]}")
            if expected not in told and training.returncode == 0:
                odd.append(f"{run}: it did not say {expected!r}")
            expected = after or (expected if expected not in told else "")
            counts["starts"] += 1
            if training.returncode == 0:
                return odd
    return [*odd, f"{run} did not end in 100 starts"]


def odd_file(path: Path) -> tuple[int, bool]:
    """Write odd lines; how many there are, and whether all of it is UTF-8."""
    lines = [" ".join(random.choices(ODD, k=random.randint(1, 6))) for _ in range(random.randint(0, 40))]
    if random.random() < 0.1:
        lines.append("word " * 20_000 if random.random() < 0.5 else "x" * 2**17)
    content = b"".join(line.encode("utf-8", "replace") + b"\n" for line in lines)
    if content and random.random() < 0.3:
        content = content[:-1]
    whole_text = random.random() > 0.15 or not lines
    path.write_bytes(content if whole_text else content + b"\xff\xfe \xe9t\xe9\n")
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b""), whole_text


def translate_odd(number: int) -> tuple[int, str]:
    """Translate an odd file; how many of its lines are lost, and what else is wrong."""
    source, output = Path(f"odd-{number}.txt"), Path(f"out-{number}.txt")
    count, is_text = odd_file(source)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    arguments = ["translate", "checkpoint=runs/calm/best.pt", f"input={source}", f"output={output}", "decode.beam_size=1", "run.threads=1"]
    done = subprocess.run([*NMT, *arguments], capture_output=True, check=False, preexec_fn=limit)
    told = done.stderr.decode()
    if not is_text:
        refused = done.returncode == 2 and not output.exists() and "Traceback" not in told
        return 0, "" if refused else f"{source} is no text, and was not refused: {told[-300:]}"
    if done.returncode:
        return count, f"{source}: exit code {done.returncode}: {told[-300:]}"
    found = output.read_bytes().decode("utf-8").count("\n")
    return abs(count - found), ""


def make_texts(folder: Path) -> None:
    """The first pairs of the quick start's text."""
    for name, pairs in (("train", PAIRS), ("valid", 100)):
        for lang in ("en", "de"):
            lines = (ROOT / f"data/quickstart/{name}.{lang}").read_bytes().split(b"\n")[:pairs]
            (folder / f"{name}.{lang}").write_bytes(b"".join(line + b"\n" for line in lines))


@script
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=positive, default=30.0, help="of trainings (default: 30)")
    parser.add_argument("--files", type=whole(0), default=200, help="odd files (default: 200)")
    parser.add_argument("--seed", type=whole(0), default=1, help="of the faults and the files (default: 1)")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    counts, wrong, runs, lost, files = Counter[str](), list[str](), 0, 0, 0
    began, end = time.monotonic(), 60 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as workplace:
        make_texts(Path(workplace))
        os.environ["PYTHONPATH"] = str(ROOT)
        os.chdir(workplace)
        with command("calm") as calm:
            told = calm.communicate()[1].decode()
        if calm.returncode:
            raise SystemExit(told)
        span = time.monotonic() - began
        with tqdm(total=end, desc="trainings", unit="s", disable=None) as bar:
            while time.monotonic() - began < end:
                run = f"injured-{runs}"
                with small_disk(Path("runs", run)) as mounted:
                    wrong += train_injured(run, [killed, ended, damaged, *([filled] if mounted else [])], span, counts)
                    for name in ("last.pt", "best.pt"):
                        if not Path("runs", run, name).exists():
                            wrong.append(f"{run} has no {name}")
                            continue
                        wrong += [f"{run}: {name}: {place}" for place in different(Path("runs/calm", name), Path("runs", run, name))][:3]
                runs += 1
                bar.update(time.monotonic() - began - bar.n)
        for number in tqdm(range(arguments.files), desc="odd files", disable=None):
            missing, told = translate_odd(number)
            lost, files, wrong = lost + missing, files + 1, wrong + ([told] if told else [])
        os.chdir(ROOT)
    row = {
        "minutes": round((time.monotonic() - began) / 60, 1),
        "seed": arguments.seed,
        "starts": counts.pop("starts", 0),
        "faults": dict(counts),
        "runs_compared": runs,
        "files": files,
        "lines_lost": lost,
        "differences": len(wrong),
        "commit": commit(),
        "hardware": processor(),
    }
    put_row("soak.json", row, ["seed", "commit"])
    print(*(f"{name}: {value}" for name, value in row.items()), *wrong, sep="\n")
    return 1 if wrong or lost else 0


if __name__ == "__main__":
    main()
