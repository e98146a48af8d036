"""The README's tables hold what was measured, figure by figure."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))
experiments, ablation = map(importlib.import_module, ("experiments", "ablation"))
README = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")


def test_the_results_are_what_was_measured() -> None:
    rows = {row["commit"]: row["test"] for row in experiments.read_rows("quality.json")}
    shown = [line for line in README if "| **" in line]
    assert len(shown) >= 4
    for line in shown:
        test = rows[line.split("|")[-2].strip()]
        assert "| **{bleu:.1f}** | {chrf:.1f} | {ter:.1f} |".format(**test) in line


def test_the_figures_in_the_papers_measure_are_what_was_measured() -> None:
    start = README.index("| system | BLEU | training |") + 2
    ours = {line.split(" | ")[0]: line.split(" | ")[1] for line in README[start:] if line.startswith("| ours")}
    test = {row["name"]: row["test"] for row in experiments.read_rows("quality.json")}  # of several of a name the last
    names = {"first row": "multi30k", "tokenised text": "multi30k_published", "ensemble": "multi30k_ensemble"}
    assert len(ours) == len(names)
    for words, name in names.items():
        (shown,) = (figure for label, figure in ours.items() if words in label)
        assert shown == f"{test[name]['published']:.1f}"


def test_the_ablation_is_what_was_measured() -> None:
    table = ablation.table(ablation.measured(3), 3).split("\n\n")[0].split("\n")
    start = README.index(table[0])
    assert README[start : start + len(table)] == table
