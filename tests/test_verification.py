"""`nmt verify-resume`: it finds what is not exact, and leaves nothing behind."""

from pathlib import Path

import pytest
import torch
from toy_corpus import Composer

from nmt import pipeline, trainer
from nmt.cli import main
from nmt.verification import different


@pytest.mark.parametrize("setting", ["batches.accumulate=2", "precision=bf16", "trainer.ema_decay=0.9"])
def test_a_training_goes_on_exactly(
    settings: list[str], setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify-resume", *settings, "model.dropout=0.3", setting]) == 0
    assert "exact on cpu" in capsys.readouterr().out
    assert list(Path("runs").iterdir()) == []


@pytest.mark.parametrize("forgotten", ["restore_random_states", "load_checkpoint"])
def test_what_is_forgotten_is_found(
    composed: Composer, forgotten: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if forgotten == "restore_random_states":
        monkeypatch.setattr(trainer, forgotten, lambda states, rank: None)
    else:
        monkeypatch.setattr(trainer.Batches, "load_state_dict", lambda self, state: None)
    assert pipeline.verify_resume(composed("model.dropout=0.3")) == 1
    assert "NOT exact on cpu" in capsys.readouterr().out


def test_differences_are_named_and_times_are_none(tmp_path: Path) -> None:
    one = {"model": {"a": torch.ones(2), "b": torch.tensor(float("nan"))}, "about": {"seconds": 1.0}, "config": 1, "list": [1, 2]}
    other = {
        "model": {"a": torch.ones(2), "b": torch.tensor(float("nan"))},
        "about": {"seconds": 2.0},
        "config": 2,
        "list": [1, 2.0],
        "more": 1,
    }
    for name, content in (("one", one), ("other", other)):
        torch.save(content, tmp_path / name)
    assert different(tmp_path / "one", tmp_path / "one") == []
    assert different(tmp_path / "one", tmp_path / "other") == ["/list/1", "/more"]
