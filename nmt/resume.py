"""Whether a command may go on with a run: the same experiment on the same data, with other limits at most."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.checkpoint import Checkpoint
from nmt.config import TrainConfig
from nmt.errors import ConfigError, DataError

log = logging.getLogger(__name__)

# Limits, how training goes on from here, and where the same text lies; the command's value wins over the checkpoint's.
TEXT_IS_FROM = ("data.folder", "data.path", "data.config", "data.revision", "data.train", "data.valid", "data.test")
CHANGEABLE = ("trainer.", "decode.", "run.", "precision", *TEXT_IS_FROM)
FIXED = ("trainer.metric", "run.seed")  # the best score so far is one of this metric; the place in the data is one in this order


def refuse_changes(config: TrainConfig, data_digest: str, last: Checkpoint, folder: Path) -> None:
    """Tell what changed since `last` was written, and refuse what would make it another experiment.

    Args:
        config: what the command asks for now.
        data_digest: the digest of the training text now.
        last: the checkpoint that the run would go on from.
        folder: the run's folder, for messages.

    Raises:
        ConfigError: a setting differs that a run cannot change.
        DataError: the training text differs.
    """
    changes = list(differences(dataclasses.asdict(last.config), dataclasses.asdict(config)))
    for key, before, now in changes:
        if _may_change(key):
            log.info("%s was %s and is now %s", key, before, now)
    refused = [change for change in changes if not _may_change(change[0])]
    if refused:
        told = ", ".join(f"{key} ({before} in last.pt, {now} now)" for key, before, now in refused[:4])
        more = f" and {len(refused) - 4} more" if len(refused) > 4 else ""
        raise ConfigError(f"{folder} was trained with other settings: {told}{more}; give another run.name= to start a new run")
    if last.about["data"] != data_digest:
        raise DataError(f"the training text of {folder} has changed since it began; give another run.name= to start a new run")


def _may_change(key: str) -> bool:
    return key.startswith(CHANGEABLE) and key not in FIXED


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The dotted name, old and new value of every setting that differs."""
    for name in now:
        if isinstance(now[name], Mapping) and isinstance(before.get(name), Mapping):
            yield from differences(before[name], now[name], f"{prefix}{name}.")
        elif before.get(name) != now[name]:
            yield f"{prefix}{name}", before.get(name), now[name]
