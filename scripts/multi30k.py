#!/usr/bin/env python3
"""Trains and scores Multi30k English–German, and writes the row of the README's results table to scripts/results/.

  .venv/bin/python scripts/multi30k.py FOLDER [settings …]      about 17 minutes on 2 CPU cores

FOLDER holds train.en, train.de, val.en, val.de, test_2016_flickr.en and test_2016_flickr.de. Settings go to `nmt train`, after
`model=small trainer.max_minutes=15`.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def nmt(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "nmt", *arguments], cwd=ROOT, check=True)


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").split("\n") if cpuinfo.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    folder, settings = Path(sys.argv[1]).resolve(), ["model=small", "trainer.max_minutes=15", *sys.argv[2:]]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    data = ["data=files", "data.name=multi30k", "data.src_lang=en", "data.tgt_lang=de", f"data.train=[{folder}/train]"]
    data += [f"data.valid=[{folder}/val]", f"data.test=[{folder}/test_2016_flickr]"]
    run = f"multi30k_en_de-{commit}"
    nmt("train", *data, *settings, f"run.name={run}")
    nmt("evaluate", f"checkpoint=runs/{run}/best.pt", "split=test", f"output=runs/{run}/test.json")
    scores = json.loads((ROOT / f"runs/{run}/test.json").read_text(encoding="utf-8"))
    row = {
        "command": "scripts/multi30k.py FOLDER " + " ".join(sys.argv[2:]),
        "settings": settings,
        "commit": commit,
        "hardware": f"{os.cpu_count()} cores of {processor()}",
        "test": "Multi30k test_2016_flickr, English-German",
        **scores,
    }
    path = ROOT / "scripts/results/multi30k_en_de.json"
    path.write_text(json.dumps(row, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
