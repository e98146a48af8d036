"""What a run goes on from, and whether a command may go on with it: the same experiment on the same data, with other limits at most."""

import dataclasses
import itertools
import logging
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.checkpoint import Checkpoint, load_checkpoint
from nmt.config import ModelConfig, TrainConfig
from nmt.errors import CheckpointError, ConfigError, DataError, UnreadableError

log = logging.getLogger(__name__)

# Limits, how training goes on from here, and where the same text lies; the command's value wins over the checkpoint's.
TEXT_IS_FROM = ("data.folder", "data.path", "data.config", "data.revision", "data.train", "data.valid", "data.test")
CHANGEABLE = ("trainer.", "decode.", "run.", "precision", *TEXT_IS_FROM)
FIXED = ("trainer.metric", "run.seed")  # the best score so far is one of this metric; the place in the data is one in this order

LAST, PREVIOUS = "last.pt", "previous.pt"  # the state of a run when it was saved last, and the time before
# What a model that is trained further does not take from its parent: they change no weight.
REGULARISATION = (
    "dropout",
    "embedding_dropout",
    "readout_dropout",
    "annotation_dropout",
    "state_dropout",
    "variational",
    "src_word_dropout",
    "tgt_word_dropout",
)


class _StatelessError(CheckpointError):
    """A checkpoint is whole, and holds a model alone."""


def newest(folder: Path) -> Checkpoint | None:
    """What a run goes on from: last.pt, or previous.pt where that is damaged or gone; None where the run has saved nothing yet.

    A damaged last.pt is called damaged.pt from then on, lest it become previous.pt in its turn.

    Raises:
        CheckpointError: no one of them can be used, or one cannot be read now, which says nothing about what it holds.
    """
    damaged: CheckpointError | None = None
    for path in (folder / LAST, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            checkpoint = _state(path)
        except UnreadableError:
            raise
        except CheckpointError as error:
            damaged = damaged or error
            continue
        if path.name == PREVIOUS:
            told = damaged or f"there is no {folder / LAST}"
            log.warning("warning: %s; going on from %s, of update %d", told, path, checkpoint.about.get("step", 0))
            if damaged:
                _set_aside(folder / LAST)
        return checkpoint
    if isinstance(damaged, _StatelessError):  # which says what to do
        raise damaged
    if damaged:
        best = f"finetune_from={folder / 'best.pt'} with another run.name=" if (folder / "best.pt").exists() else "run.name=another"
        raise CheckpointError(f"{damaged}; no other state of the run can be used: give {best} to begin anew")
    return None


def set_best_aside(folder: Path, config: TrainConfig) -> None:
    """Where a run begins, keep the best.pt of one before, whose states are gone, by a name that is free.

    That of the first validation stays: a run of the same settings that was killed before it had saved a state makes the same again.
    """
    path = folder / "best.pt"
    if not path.is_file():
        return
    with suppress(CheckpointError):
        best = load_checkpoint(path)
        if best.config == config and best.about.get("step", 0) <= config.trainer.valid_every_steps:
            return
    aside = _free(path)
    path.replace(aside)
    log.warning("warning: %s has no last.pt to go on from, and begins anew; its best.pt is %s now", folder, aside)


def _set_aside(path: Path) -> None:
    """Call what is damaged damaged.pt, in place of an older one; where one of the two is a folder, by a name that is free."""
    aside = path.with_name("damaged.pt")
    path.replace(_free(aside) if path.is_dir() or aside.is_dir() else aside)


def _free(path: Path) -> Path:
    """The path with the lowest number in its name that nothing has."""
    return next(free for number in itertools.count(1) if not (free := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists())


def _state(path: Path) -> Checkpoint:
    """A checkpoint that training can go on from."""
    checkpoint = load_checkpoint(path)
    if "optimizer" not in checkpoint.training:
        raise _StatelessError(
            f"{path} holds a model and no state of training, as best.pt does: "
            "name it in finetune_from= with another run.name= to train it further"
        )
    return checkpoint


def inherited(config: TrainConfig, parent: Checkpoint) -> TrainConfig:
    """The settings of a run that begins from another model: that one's network and pieces; everything else is the command's."""
    own = {name: getattr(config.model, name) for name in REGULARISATION}
    model: ModelConfig = dataclasses.replace(parent.config.model, **own)
    return dataclasses.replace(config, model=model, tokenizer=parent.config.tokenizer)


def refuse_changes(config: TrainConfig, last: Checkpoint, folder: Path) -> None:
    """Tell what changed since `last` was written, and refuse what would make it another experiment.

    Args:
        config: what the command asks for now.
        last: the checkpoint that the run would go on from.
        folder: the run's folder, for messages.

    Raises:
        ConfigError: a setting differs that a run cannot change.
    """
    changes = list(differences(dataclasses.asdict(last.config), dataclasses.asdict(config)))
    for key, before, now in changes:
        if _may_change(key):
            log.info("%s was %s and is now %s", key, before, now)
    refused = [change for change in changes if not _may_change(change[0])]
    if refused:
        told = ", ".join(f"{key} ({before} in last.pt, {now} now)" for key, before, now in refused)
        raise ConfigError(
            f"{folder} was trained with other settings: give another run.name= to start a new run, with finetune_from={folder / LAST} to "
            f"begin it with these weights; when a run goes on, only trainer.*, decode.*, run.*, precision and where the text lies may "
            f"change, but for {' and '.join(FIXED)}; changed are {told}"
        )


def text_changed(config: TrainConfig, digests: Container[str], last: Checkpoint, folder: Path) -> bool:
    """Whether the training text is another one than that of `last`, where run.changed_text allows it; the digests are of the text now.

    Raises:
        DataError: it is another one, and run.changed_text does not allow it.
    """
    if last.about.get("data") in digests:
        return False
    if config.run.changed_text == "refuse":
        raise DataError(
            f"the training text of {folder} has changed since it began: give another run.name= to start a new run, "
            "or run.changed_text=restart_epoch to go on with the new text, in the old pieces, from the beginning of the epoch"
        )
    log.info("the training text of %s has changed: its epoch begins again, with the new text", folder)
    return True


def _may_change(key: str) -> bool:
    return key.startswith(CHANGEABLE) and key not in FIXED


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The dotted name, old and new value of every setting that differs."""
    for name in now:
        if isinstance(now[name], Mapping) and isinstance(before.get(name), Mapping):
            yield from differences(before[name], now[name], f"{prefix}{name}.")
        elif before.get(name) != now[name]:
            yield f"{prefix}{name}", before.get(name), now[name]
