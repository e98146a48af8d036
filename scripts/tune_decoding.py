#!/usr/bin/env python3
"""Beam, length penalty and coverage penalty, chosen on the validation set: BLEU of every combination, best first.

  .venv/bin/python scripts/tune_decoding.py runs/NAME/best.pt
  .venv/bin/python scripts/tune_decoding.py a.pt b.pt c.pt --beam 5 12 --length 1 1.2 --coverage 0 0.02      an ensemble

The checkpoint (the first of several) knows its validation set. With --json FILE the figures are kept. A log is in runs/tune_decoding.log.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path

from experiments import ROOT, command_line, commit, nmt, output_file, script, whole

from nmt.files import write_text


def bleu(checkpoints: list[str], beam: int, length: float, coverage: float) -> float:
    """BLEU on the validation set with these settings of the search."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "valid.json"
        chosen = "checkpoint=[" + ",".join(str(Path(path).resolve()) for path in checkpoints) + "]"
        settings = [f"decode.beam_size={beam}", f"decode.length_penalty={length}", f"decode.coverage_penalty={coverage}"]
        nmt("evaluate", chosen, "split=valid", f"output={output}", *settings, log=ROOT / "runs/tune_decoding.log")
        return float(json.loads(output.read_text(encoding="utf-8"))["bleu"])


@script
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT")
    parser.add_argument("--beam", type=whole(1), nargs="+", default=[5, 12])
    parser.add_argument("--length", type=float, nargs="+", default=[0.8, 0.9, 1.0, 1.1, 1.2], help="length penalties")
    parser.add_argument("--coverage", type=float, nargs="+", default=[0.0, 0.02], help="coverage penalties")
    parser.add_argument("--json", type=output_file, metavar="FILE")
    arguments = parser.parse_args()
    rows = []
    for beam, length, coverage in itertools.product(arguments.beam, arguments.length, arguments.coverage):
        row = {"beam_size": beam, "length_penalty": length, "coverage_penalty": coverage}
        rows.append({"bleu": bleu(arguments.checkpoints, beam, length, coverage), **row})
        print(f"{rows[-1]['bleu']:.2f}  {row}", flush=True)
    rows.sort(key=lambda row: -row["bleu"])
    print(f"best: {rows[0]}")
    if arguments.json:
        about = {"command": command_line(__file__), "commit": commit(), "split": "valid", "rows": rows}
        write_text(arguments.json, json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
