"""The scripts that train for published figures, on a corpus that trains in seconds; what they find is not judged here."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_corpus import Composer

from nmt.cli import main

sys.path.append(str(Path(__file__).parents[1] / "scripts"))
experiments, ablation = map(importlib.import_module, ("experiments", "ablation"))


@pytest.fixture
def multi30k(corpus: Path, tmp_path: Path) -> Path:
    """The small corpus under the names of Multi30k's files."""
    for path in corpus.iterdir():
        split, lang = path.name.split(".")
        shutil.copy(path, tmp_path / f"{experiments.MULTI30K[split]}.{lang}")
    return tmp_path


@pytest.fixture
def small(settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings that make trainings small; `nmt` runs in this process and folder, and every call of it is noted in calls.json."""
    calls: list[tuple[str, ...]] = []

    def nmt(*arguments: str, log: Path | None = None) -> None:
        calls.append(arguments)
        (tmp_path / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
        assert main(list(arguments)) == 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    monkeypatch.setattr(experiments, "nmt", nmt)
    monkeypatch.setattr(experiments, "commit", lambda: "abc")
    (tmp_path / "scripts/results").mkdir(parents=True)
    kept = ("data", "run.name", "trainer.max_epochs")
    return [setting for setting in settings if not setting.startswith(kept)]


def called(folder: Path) -> list[list[str]]:
    calls: list[list[str]] = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    return calls


def run(monkeypatch: pytest.MonkeyPatch, module: Any, *arguments: object) -> None:
    """The script as it is called on a command line, its jobs one after another in this thread: signals need the main one."""
    monkeypatch.setattr(sys, "argv", ["script", *map(str, arguments)])
    if hasattr(module, "in_lanes"):
        monkeypatch.setattr(module, "in_lanes", lambda jobs, lanes: (job() for job in jobs.values()))
    module.main()


def test_lanes_give_every_result_and_name_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = {"one": lambda: 1, "two": lambda: 1 // 0, "three": lambda: 3}
    found = []
    with pytest.raises(SystemExit, match="failed: two"):
        found += list(experiments.in_lanes({name: jobs[name] for name in ("one", "three")}, 2))
        found += list(experiments.in_lanes(jobs, 1))
    assert sorted(found) == [1, 3]
    assert "two FAILED: integer division" in capsys.readouterr().err


def test_a_row_takes_the_place_of_its_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    (tmp_path / "scripts/results").mkdir(parents=True)
    for name, seed, bleu in (("a", 1, 1.0), ("a", 2, 2.0), ("a", 1, 3.0)):
        experiments.put_row("rows.json", {"name": name, "seed": seed, "bleu": bleu}, ("name", "seed"))
    assert [row["bleu"] for row in experiments.read_rows("rows.json")] == [2.0, 3.0]


def test_the_ablation_trains_each_row_once_and_tells_differences(
    multi30k: Path, small: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ablation, "BASE", [*small, "trainer.max_steps=null"])
    monkeypatch.setattr(ablation, "ROWS", {"base": ("nothing", []), "ema": ("an average", ["trainer.ema_decay=0.9"])})
    run(monkeypatch, ablation, multi30k, "base", "--passes", 1)
    run(monkeypatch, ablation, multi30k, "--passes", 1)
    assert [call[0] for call in called(multi30k)] == ["train", "evaluate"] * 2  # base was not run again
    assert "test_2016_flickr" not in str([call for call in called(multi30k) if call[0] == "evaluate"])
    base, ema = experiments.read_rows("ablation.json")
    assert (base["name"], ema["name"], ema["settings"][-1]) == ("base", "ema", "trainer.ema_decay=0.9")
    for row in (base, ema):
        assert row["seed"] == 1 and row["passes"] == 1 and row["updates"] > 0 and row["minutes"] >= 0
        assert row["commit"] == "abc" and row["hardware"].startswith("1 core of") and row["signature"].startswith("nrefs:1")
        assert 0 <= row["bleu"] <= 100 and 0 <= row["greedy_valid"] <= 100
    capsys.readouterr()
    run(monkeypatch, ablation, "--table", "--passes", 1)
    shown = capsys.readouterr().out
    assert f"| ema | an average | `trainer.ema_decay=0.9` | {ema['bleu']:.1f} | {ema['bleu'] - base['bleu']:+.1f} | 0 | 1 | abc |" in shown
    monkeypatch.setitem(ablation.ROWS, "ema", ("an average", ["trainer.ema_decay=0.8"]))
    run(monkeypatch, ablation, "--table", "--passes", 1)
    assert "ema" not in capsys.readouterr().out  # it was measured with other settings


def test_the_rows_of_the_ablation_are_settings_that_exist(composed: Composer) -> None:
    configs = [composed(*ablation.settings_of(name, 3)) for name in ablation.ROWS]
    assert all(config.trainer.max_epochs == 3 and config.trainer.patience is None for config in configs)
    assert len({repr(config) for config in configs}) == len(configs)  # no row is another one
