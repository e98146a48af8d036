"""The README's tables hold what was measured, figure by figure."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))
experiments, ablation = map(importlib.import_module, ("experiments", "ablation"))
README = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")


def test_the_results_are_what_was_measured() -> None:
    measured = {}
    for row in experiments.read_rows("quality.json"):
        bleu, chrf, ter = (row["test"][name] for name in ("bleu", "chrf", "ter"))
        measured[row["commit"]] = f"| **{bleu:.1f}** | {chrf:.1f} | {ter:.1f} |"
    shown = [line for line in README if "| **" in line]
    assert len(shown) >= 4
    for line in shown:
        assert measured[line.split("|")[-2].strip()] in line


def test_the_ablation_is_what_was_measured() -> None:
    table = ablation.table(ablation.measured(3), 3).split("\n\n")[0].split("\n")
    start = README.index(table[0])
    assert README[start : start + len(table)] == table
