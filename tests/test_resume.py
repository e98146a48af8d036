"""What a run goes on from when something went wrong: damaged files, full disks, other text, a second process; and fine-tuning."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_corpus import Composer, sentences, write_pairs
from training import assert_same, rows, scored, stop_at, trainer_of

from nmt import pipeline, saving, training
from nmt.checkpoint import load_checkpoint, save_checkpoint
from nmt.config import TrainConfig
from nmt.data import prepare
from nmt.errors import CheckpointError, ConfigError, DataError, UnreadableError
from nmt.files import held
from nmt.interruption import Interrupted
from nmt.journal import Journal, Validation
from nmt.model.seq2seq import Seq2Seq
from nmt.resume import newest
from nmt.trainer import Trainer


def spoil_at(trainer: Trainer, update: int, *names: str) -> None:
    """Damage files of a run right before the validation after an update."""
    validate = trainer.validate

    def spoiling() -> Validation:
        for name in names if trainer.progress.step == update else ():
            spoil(trainer.folder / name)
        return validate()

    trainer.validate = spoiling


def folder_of(config: TrainConfig) -> Path:
    return Path(config.run.folder) / config.run.name


def spoil(path: Path) -> None:
    """Turn some bytes around in the middle of a file."""
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 2, len(content) // 2 + 1024)  # more than a zip leaves unread between its files
    content[middle] = bytes(byte ^ 255 for byte in content[middle])
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [spoil, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:1000])])
def test_a_damaged_last_falls_back_to_the_one_before_and_the_run_ends_as_if_undisturbed(
    composed: Composer, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    pipeline.train(calm := composed("run.name=calm"))
    stopped = trainer_of(config := composed(), "test")
    stop_at(stopped, 8)
    with pytest.raises(Interrupted):
        stopped.run()
    folder = folder_of(config)
    damage(folder / "last.pt")
    caplog.clear()
    assert pipeline.train(composed()) == 0
    assert "going on from" in caplog.text and "previous.pt, of update 6" in caplog.text
    for name in ("last.pt", "best.pt"):
        assert_same(folder_of(calm) / name, folder / name)
    assert rows(folder)[-1] == rows(folder_of(calm))[-1]


def test_where_both_are_damaged_there_is_a_way_out(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=7"))
    folder = folder_of(composed())
    for name in ("last.pt", "previous.pt"):
        spoil(folder / name)
    with pytest.raises(CheckpointError, match=r"last.pt is .*damaged.*; no other state of the run.*finetune_from=.*best.pt with another"):
        pipeline.train(composed())


def test_a_last_that_cannot_be_read_now_is_left_as_it_is(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.train(composed("trainer.max_steps=7"))
    folder, load = folder_of(composed()), torch.load

    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", failing)
        with pytest.raises(UnreadableError, match=r"cannot read checkpoint .*last\.pt: Input/output error"):
            newest(folder)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(UnreadableError, match=r"cannot read checkpoint .*last\.pt: out of memory"):
            newest(folder)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda path, **how: failing() if path.name == "best.pt" else load(path, **how))
        with pytest.raises(UnreadableError, match=r"cannot read checkpoint .*best\.pt: Input/output error"):
            pipeline.train(composed())
    assert newest(folder) and not (folder / "damaged.pt").exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_best_is_told_before_training_goes_on(composed: Composer, make: Callable[[Path], None]) -> None:
    pipeline.train(composed("trainer.max_steps=7"))
    best = folder_of(composed()) / "best.pt"
    best.unlink()
    make(best)
    with pytest.raises(CheckpointError, match=r"best\.pt is a folder or no regular file: move it away"):
        pipeline.train(composed("trainer.max_steps=8"))


@pytest.mark.parametrize("folders", [("last.pt",), ("damaged.pt",), ("last.pt", "damaged.pt")])
def test_a_folder_in_the_way_of_what_is_set_aside_ends_no_run(composed: Composer, folders: tuple[str, ...]) -> None:
    pipeline.train(composed("trainer.max_steps=7"))
    folder = folder_of(composed())
    (folder / "last.pt").write_bytes(b"junk")
    (folder / "damaged.pt").write_bytes(b"older")
    for name in folders:
        (folder / name).unlink()
        (folder / name).mkdir()
    assert newest(folder) and not (folder / "last.pt").exists() and (folder / "damaged-1.pt").exists()


def test_pieces_that_were_learned_anew_are_not_those_of_the_model(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another version of SentencePiece may learn them from the same text, once the prepared corpus is gone."""
    settings = ("trainer.max_steps=9",)
    pipeline.train(composed("trainer.max_steps=5"))
    before = load_checkpoint(folder_of(composed()) / "last.pt")
    shutil.rmtree(composed().data.folder)
    learn = prepare.train_tokenizers
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "train_tokenizers", lambda src, tgt, config: learn(list(src)[::2], list(tgt)[1::2], config))
        pipeline.train(composed(*settings))
    after = load_checkpoint(folder_of(composed()) / "last.pt")
    assert after.src_tokenizer.model == before.src_tokenizer.model and after.about["step"] == 9
    shutil.rmtree(composed().data.folder)
    assert pipeline.train(composed(*settings, "run.name=calm")) == 0
    calm = load_checkpoint(folder_of(composed("run.name=calm")) / "last.pt")
    torch.testing.assert_close(after.model, calm.model, atol=0, rtol=0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_training_with_its_code_and_the_same_command_goes_on(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    advance = Journal.advance

    def signalled(journal: Journal, step: int, share: float) -> None:
        advance(journal, step, share)
        if step == 4:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "advance", signalled)
        assert pipeline.train(composed("trainer.max_steps=7")) == 128 + number
    assert load_checkpoint(folder_of(composed()) / "last.pt").about["step"] == 4
    caplog.set_level("INFO")
    assert pipeline.train(composed("trainer.max_steps=8")) == 0
    last = load_checkpoint(folder_of(composed()) / "last.pt")
    assert "trainer.max_steps was 7 and is now 8" in caplog.text and last.about["step"] == last.config.trainer.max_steps == 8


@pytest.mark.parametrize("sampling", [0, 0.2])
def test_a_signal_between_the_batches_of_an_update_leaves_the_update_for_later(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, sampling: float
) -> None:
    settings = ("batches.accumulate=3", "trainer.max_steps=7", "model.dropout=0.3", f"batches.sampling={sampling}")
    loss, calls = Seq2Seq.loss, 0

    def signalled(model: Seq2Seq, *arguments: Any) -> tuple[Tensor, Tensor]:
        nonlocal calls
        if model.training:
            calls += 1
            if calls == 4 * 3 + 2:
                signal.raise_signal(signal.SIGTERM)
        return loss(model, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Seq2Seq, "loss", signalled)
        assert pipeline.train(composed(*settings)) == 143
    assert calls == 4 * 3 + 2 and load_checkpoint(folder_of(composed()) / "last.pt").about["step"] == 4
    assert pipeline.train(composed(*settings)) == pipeline.train(composed(*settings, "run.name=calm")) == 0
    assert_same(folder_of(composed()) / "last.pt", folder_of(composed("run.name=calm")) / "last.pt")


def test_a_signal_within_the_last_save_ends_a_sweep(composed: Composer) -> None:
    config = composed("trainer.max_steps=3")
    trainer = trainer_of(config)
    average = trainer._average_best
    trainer._average_best = lambda: (signal.raise_signal(signal.SIGTERM), average())[1]  # type: ignore[method-assign, func-returns-value]
    assert training._run_to_the_end(trainer, trainer.folder) == 143
    assert load_checkpoint(trainer.folder / "last.pt").training["progress"]["finished"]


def test_nothing_saved_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert newest(tmp_path) is None


def test_a_model_without_a_state_of_training_is_no_last(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=2"))
    folder = folder_of(composed())
    (folder / "previous.pt").unlink()
    (folder / "best.pt").replace(folder / "last.pt")
    with pytest.raises(CheckpointError, match=r"last.pt holds a model and no state of training.*finetune_from="):
        pipeline.train(composed())


@pytest.mark.parametrize("name", ["last.pt", "best.pt"])
def test_weights_that_do_not_fit_are_one_line(composed: Composer, name: str) -> None:
    pipeline.train(composed("trainer.max_steps=2"))
    path = folder_of(composed()) / name
    checkpoint = load_checkpoint(path)
    save_checkpoint(path, dataclasses.replace(checkpoint, model=dict(list(checkpoint.model.items())[1:])))
    settings = () if name == "last.pt" else (f"finetune_from={path}", "run.name=further")
    with pytest.raises(CheckpointError, match="do not fit its configuration: .* is missing"):
        pipeline.train(composed(*settings))


def test_a_state_of_training_that_is_none_is_one_line(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=2"))
    path = folder_of(composed()) / "last.pt"
    checkpoint = load_checkpoint(path)
    save_checkpoint(path, dataclasses.replace(checkpoint, training=checkpoint.training | {"progress": {"step": 2, "moon": 3}}))
    with pytest.raises(CheckpointError, match="holds no state that this version can go on from"):
        pipeline.train(composed())


def test_a_place_for_runs_that_is_none_is_found_out_first(composed: Composer) -> None:
    config = composed()
    with pytest.raises(ConfigError, match="no folder that can be written to; give another run.folder="):
        pipeline.train(dataclasses.replace(config, run=dataclasses.replace(config.run, folder="/dev/null/runs")))
    assert not Path(config.data.folder).exists()


@pytest.mark.parametrize("steps", [2, 6])
def test_the_best_model_of_a_run_whose_states_are_gone_is_kept(composed: Composer, caplog: pytest.LogCaptureFixture, steps: int) -> None:
    """But that of the first validation, which a run that was killed right after it makes again."""
    limits = ("trainer.valid_every_steps=2", f"trainer.max_steps={steps}", "optimizer.lr=0.01")
    pipeline.train(composed(*limits))
    folder = folder_of(composed())
    best = (folder / "best.pt").read_bytes()
    for path in (folder / "last.pt", folder / "previous.pt"):
        path.unlink()
    pipeline.train(composed(*limits))
    aside = [path.read_bytes() for path in folder.glob("best-*.pt")]
    assert aside == ([best] if steps == 6 else []) and ("its best.pt is" in caplog.text) == (steps == 6)
    (folder / "last.pt").unlink()
    (folder / "previous.pt").unlink(missing_ok=True)
    pipeline.train(composed(*limits, "model.dropout=0.4"))
    assert len(list(folder.glob("best-*.pt"))) == len(aside) + 1, "another model is set aside, however young"


@pytest.mark.parametrize(
    ("full", "told"), [(0, "update 3 could not be saved, nothing is saved"), (4, "could not be saved, saved is update 2")]
)
def test_a_signal_while_the_disk_is_full_says_what_is_saved(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, full: int, told: str
) -> None:
    FullDisk(monkeypatch, lambda number: number >= full)
    advance = Journal.advance

    def signalled(journal: Journal, step: int, share: float) -> None:
        advance(journal, step, share)
        if step == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Journal, "advance", signalled)
    assert pipeline.train(composed("trainer.save_every_steps=1", "trainer.valid_every_steps=2")) == 143
    assert told in caplog.text and "saved after update" not in caplog.text


class FullDisk:
    """A disk that is full at some of the times when a checkpoint is written, counted from 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, full: Callable[[int], bool]) -> None:
        self.calls, self.full = 0, full
        monkeypatch.setattr(saving, "save_checkpoint", self.save)

    def save(self, path: Path, checkpoint: Any, before: Path | None = None) -> None:
        self.calls += 1
        if self.full(self.calls - 1):
            raise DataError(f"cannot write {path}: no space left on device")
        save_checkpoint(path, checkpoint, before)


KEEPING = ("trainer.valid_every_steps=2", "trainer.keep=2", "trainer.average=2", "trainer.ema_decay=0.5")


@pytest.mark.parametrize("full", [lambda n: n < 9, lambda n: n % 2 == 0, lambda n: n % 3 != 0, lambda n: n > 2])
def test_a_full_disk_costs_nothing_once_there_is_room_again(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, full: Callable[[int], bool]
) -> None:
    calm = trainer_of(composed(*KEEPING), "calm")
    calm.run()
    disk = FullDisk(monkeypatch, lambda number: number < 12 and full(number))
    trainer = trainer_of(composed(*KEEPING), "full")
    trainer.run()
    assert disk.calls > 12 and "no space left on device; training goes on" in caplog.text
    names = sorted(path.name for path in calm.folder.glob("*.pt") if path.name != "previous.pt")
    assert names == sorted(path.name for path in trainer.folder.glob("*.pt") if path.name != "previous.pt")
    for name in names:
        assert_same(calm.folder / name, trainer.folder / name)


@pytest.mark.parametrize("killed", [3, 6, 8, 11])
def test_a_kill_while_the_disk_is_full_costs_updates_and_nothing_else(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    calm = trainer_of(composed(*KEEPING), "calm")
    calm.run()
    with monkeypatch.context() as patch:
        FullDisk(patch, lambda number: number >= killed)
        trainer = trainer_of(composed(*KEEPING), "full")
        with pytest.raises(DataError, match="training has ended, but .*last.pt cannot be written: make room"):
            trainer.run()
    again = trainer_of(composed(*KEEPING), "full")
    if last := newest(again.folder):
        again.restore(last)
    again.run()
    for name in ("last.pt", "best.pt"):
        assert_same(calm.folder / name, again.folder / name)


def test_records_wait_for_room_too(composed: Composer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = trainer_of(composed())
    journal = Journal(trainer.folder, trainer.progress, 0.0)
    journal.file.close()
    with Path("/dev/full").open("ab") as journal.file:
        journal.scalars(1, {"loss": 1.0, "tokens_per_second": 1.0})
        journal.scalars(2, {"loss": 1.0, "tokens_per_second": 1.0})
        assert caplog.text.count("metrics.jsonl: no space left on device; training goes on") == 1
        room = os.open(tmp_path / "room", os.O_WRONLY | os.O_CREAT)
        os.dup2(room, journal.file.fileno())
        journal.scalars(3, {"loss": 1.0, "tokens_per_second": 1.0})
        assert [json.loads(line)["step"] for line in (tmp_path / "room").read_text(encoding="utf-8").splitlines()] == [1, 2, 3]


def test_two_processes_do_not_train_one_run(composed: Composer) -> None:
    pipeline.train(config := composed("trainer.max_steps=2"))
    (leftover := folder_of(config) / ".last.pt.abc.part").touch()
    with held(folder_of(config), ""), pytest.raises(ConfigError, match="another process is at work in .*run.name="):
        pipeline.train(composed())
    assert not leftover.exists()
    assert pipeline.train(composed()) == 0


def test_the_hold_on_a_folder_dies_with_its_process(tmp_path: Path) -> None:
    code = f"import time, pathlib, nmt.files\nwith nmt.files.held(pathlib.Path({str(tmp_path)!r}), ''): print(flush=True); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(ConfigError), held(tmp_path, ""):
            pass
        other.kill()
    with held(tmp_path, ""):
        pass


def other_text(tmp_path: Path) -> tuple[str, ...]:
    """The settings of a corpus with other words."""
    for name, count, seed in (("train", 60, 7), ("valid", 10, 8)):
        write_pairs(tmp_path / f"other-{name}", [(f"zebra {src}", f"Zebra {tgt}") for src, tgt in sentences(count, seed)])
    return "data.name=other", f"data.train=[{tmp_path / 'other-train'}]", f"data.valid=[{tmp_path / 'other-valid'}]"


def test_a_model_is_trained_further_on_other_text_with_its_own_pieces(
    composed: Composer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pipeline.train(first := composed())
    parent = folder_of(first) / "best.pt"
    further = ("run.name=further", f"finetune_from={parent}", "model.encoder_size=24", "model.dropout=0.3", "tokenizer.vocab_size=300")
    further = (*further, *other_text(tmp_path), "optimizer=adadelta", "scheduler=constant")
    pipeline.train(config := composed(*further, "trainer.max_steps=1", "trainer.valid_every_steps=1"))
    assert "its weights, network and pieces" in caplog.text
    old, new = load_checkpoint(parent), load_checkpoint(folder_of(config) / "last.pt")
    assert new.src_tokenizer.model == old.src_tokenizer.model and new.config.tokenizer == old.config.tokenizer
    assert new.config.model == dataclasses.replace(old.config.model, dropout=0.3) and new.about["step"] == 1
    assert new.about["data"] != old.about["data"]
    for name, tensor in new.model.items():
        assert (tensor - old.model[name]).abs().max() < 0.05, "one small update away"
    parent.unlink()  # a run that has begun needs it no more
    assert pipeline.train(composed(*further, "trainer.max_steps=3")) == 0
    assert load_checkpoint(folder_of(config) / "last.pt").about["step"] == 3


def test_a_moving_average_begins_with_the_parent(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=3"))
    last = folder_of(composed()) / "last.pt"
    pipeline.train(config := composed("run.name=further", f"finetune_from={last}", "trainer.ema_decay=0.9", "optimizer.lr=1e-9"))
    torch.testing.assert_close(load_checkpoint(folder_of(config) / "last.pt").model, load_checkpoint(last).model, atol=1e-5, rtol=0)


def test_text_that_changed_restarts_the_epoch_on_demand_in_the_old_pieces(
    composed: Composer, tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_bytes((corpus / f"train.{lang}").read_bytes())
    settings = (f"data.train=[{tmp_path / 'train'}]", "run.changed_text=restart_epoch", "batches.max_tokens=400")
    pipeline.train(config := composed(*settings, "trainer.max_steps=5"))
    before = load_checkpoint(folder_of(config) / "last.pt")
    assert before.training["batches"]["position"] == 5
    pipeline.train(composed(*settings, "trainer.max_steps=6"))
    assert load_checkpoint(folder_of(config) / "last.pt").training["batches"]["position"] == 6, "the text is the same"
    with (tmp_path / "train.en").open("a") as src, (tmp_path / "train.de").open("a") as tgt:
        src.write("a zebra .\n" * 50)
        tgt.write("ein Zebra .\n" * 50)
    pipeline.train(composed(*settings, "trainer.max_steps=7"))
    after = load_checkpoint(folder_of(config) / "last.pt")
    assert "its epoch begins again" in caplog.text and after.training["batches"]["position"] == 1
    assert after.src_tokenizer.model == before.src_tokenizer.model and after.about["data"] != before.about["data"]
    pipeline.train(composed(*settings, "trainer.max_steps=8"))
    assert load_checkpoint(folder_of(config) / "last.pt").training["batches"]["position"] == 2, "and goes on from there"


def test_a_mean_that_became_best_right_before_a_kill_is_remembered(composed: Composer) -> None:
    settings = ("trainer.keep=2", "trainer.average=2", "trainer.valid_every_steps=4")
    trainer = trainer_of(composed(*settings))
    scored(trainer, 5.0, 7.0, 6.0, 9.0)
    save = trainer._save_last
    trainer._save_last = lambda: trainer.progress.finished == "" and save()  # type: ignore[method-assign]
    with pytest.raises(DataError):
        trainer.run()
    assert load_checkpoint(trainer.folder / "best.pt").about["averaged"] == [8, 12]
    assert load_checkpoint(trainer.folder / "last.pt").training["progress"]["averaged"] is None
    again = trainer_of(composed(*settings))
    again.restore(load_checkpoint(again.folder / "last.pt"))
    assert again.progress.averaged == 9.0


def test_a_signal_that_is_ignored_stays_ignored(composed: Composer) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        trainer = trainer_of(composed("trainer.max_steps=2"))
        stop_at(trainer, 1, signal.SIGHUP)
        assert "max_steps=2" in trainer.run()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_whose_limit_was_raised_is_not_finished_before_its_last_validation(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=4"))
    trainer = trainer_of(composed("trainer.max_steps=9"), "test")
    trainer.restore(load_checkpoint(trainer.folder / "last.pt"))
    stop_at(trainer, 9)
    with pytest.raises(Interrupted):
        trainer.run()
    assert pipeline.train(composed("trainer.max_steps=9")) == 0
    assert [row["step"] for row in rows(trainer.folder) if "valid_bleu" in row][-1] == 9


def test_a_kept_model_that_is_damaged_ends_no_training(composed: Composer, caplog: pytest.LogCaptureFixture) -> None:
    trainer = trainer_of(composed("trainer.valid_every_steps=2", "trainer.keep=3", "trainer.average=3"))
    scored(trainer, 5.0, 7.0, 6.0, 3.0, 2.0, 1.0, 9.0)
    spoil_at(trainer, 8, "step-2.pt")
    trainer.run()
    assert "step-2.pt" in caplog.text and load_checkpoint(trainer.folder / "best.pt").about["averaged"] == [4, 6]


@pytest.mark.parametrize("spoiled", [["best.pt"], ["best.pt", "step-4.pt"]])
def test_a_cut_goes_back_to_what_is_left_of_the_best(composed: Composer, spoiled: list[str]) -> None:
    settings = ("scheduler.return_to_best=true", "scheduler.patience=0", "trainer.valid_every_steps=4", "trainer.keep=1")
    trainer = trainer_of(composed(*settings))
    seen = scored(trainer, 7.0, 5.0, 8.0)
    spoil_at(trainer, 8, *spoiled)
    stop_at(trainer, 9)
    update, before = trainer._update, []

    def noting(batches: Any) -> None:
        before.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
        update(batches)

    trainer._update = noting  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        trainer.run()
    torch.testing.assert_close(before[-1], seen[0] if spoiled == ["best.pt"] else seen[1], atol=0, rtol=0)


def test_a_cut_that_is_made_again_goes_back_to_the_best_of_then(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though best.pt is of a later validation, after which there was no room for last.pt."""
    settings = ("scheduler.return_to_best=true", "scheduler.patience=0", "trainer.valid_every_steps=2", "trainer.max_steps=8")
    calm = trainer_of(composed(*settings), "calm")
    scored(calm, 7.0, 5.0, 8.0, 4.0)
    calm.run()

    def little_room(path: Path, checkpoint: Any, before: Path | None = None) -> None:
        if path.name == "last.pt" and checkpoint.about["step"] >= 4:
            raise DataError(f"cannot write {path}: no space left on device")
        save_checkpoint(path, checkpoint, before)

    stopped = trainer_of(composed(*settings), "stopped")
    scored(stopped, 7.0, 5.0, 8.0, 4.0)
    stop_at(stopped, 7)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(saving, "save_checkpoint", little_room)
        stopped.run()
    assert [load_checkpoint(stopped.folder / name).about["step"] for name in ("last.pt", "best.pt")] == [3, 6]
    again = trainer_of(composed(*settings), "stopped")
    scored(again, 5.0, 8.0, 4.0)
    last = newest(again.folder)
    assert last
    again.restore(last)
    again.run()
    for name in ("last.pt", "best.pt"):
        assert_same(calm.folder / name, again.folder / name)
    assert sorted(path.name for path in again.folder.glob("*.pt")) == ["best.pt", "last.pt", "previous.pt"]


def test_scores_of_another_validation_text_are_not_compared(composed: Composer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_pairs(tmp_path / "valid", sentences(10, 5))
    pipeline.train(composed("trainer.max_steps=6", "trainer.keep=2"))
    pipeline.train(config := composed("trainer.max_steps=8", "trainer.keep=2", f"data.valid=[{tmp_path / 'valid'}]"))
    assert "the validation text has changed" in caplog.text
    training = load_checkpoint(folder_of(config) / "last.pt").training
    assert 6 in [step for _, step in training["kept"]], "it was validated again"
    assert training["progress"]["best"] == max(score for score, _ in training["kept"])
