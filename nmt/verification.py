"""Whether a training that is killed goes on exactly: tried with a run's own data and settings."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from nmt.config import TrainConfig
from nmt.data.batches import Batch
from nmt.resume import LAST, newest
from nmt.trainer import Trainer

UPDATES = 8
KILLED_AFTER = (2, 4, 6, 8)  # before anything is saved, and in the updates after a save, after a validation, and at the end


class Killed(BaseException):
    """The process would have ended here, and have written nothing more."""


def shortened(config: TrainConfig) -> TrainConfig:
    """The settings of a run that ends after a few updates, validates twice and saves now and then."""
    trainer = dataclasses.replace(
        config.trainer,
        max_steps=UPDATES,
        max_epochs=None,
        max_minutes=None,
        patience=None,
        valid_every_steps=UPDATES // 2,
        save_every_steps=3,
        log_every_steps=1,
        risk_after=None if config.trainer.risk_after is None else UPDATES // 2,
        samples=0,
    )
    return dataclasses.replace(config, trainer=trainer)


def verify(build: Callable[[Path], Trainer], folder: Path) -> list[str]:
    """Train in one go, and several times with a kill at some update and a continuation, and compare all that was saved.

    Args:
        build: a trainer at its first update, whose files go to a folder.
        folder: an empty one.

    Returns:
        What differs, as "after a kill at update 3: best.pt: model/…"; nothing where resuming is exact.
    """
    calm = _made(folder / "undisturbed")
    build(calm).run()
    found = []
    for update in tqdm(KILLED_AFTER, desc="killed and resumed", disable=None):
        killed = _made(folder / f"killed-{update}")
        with suppress(Killed):
            _kill_at(build(killed), update).run()
        trainer = build(killed)
        if last := newest(killed):
            trainer.restore(last)
        trainer.run()
        for name in (LAST, "best.pt"):
            found += [f"after a kill at update {update}: {name}: {place}" for place in different(calm / name, killed / name)]
    return found


def different(one: Path, other: Path) -> list[str]:
    """The places of all values in which two checkpoints differ, but for their settings and for what tells a time."""
    first, second = (dict(_leaves(torch.load(path, map_location="cpu", weights_only=True))) for path in (one, other))
    return [place for place in sorted(first.keys() | second.keys()) if not _equal(first.get(place), second.get(place))]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if not (place == "" and name in ("config", "digest")) and not str(name).endswith(("seconds", "created")):
                yield from _leaves(item, f"{place}/{name}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{place}/{number}")
    else:
        yield place, value


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same bit for bit."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        return same and torch.equal(*(tensor.reshape(-1).view(torch.uint8) for tensor in (one, other)))
    return repr(one) == repr(other)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _kill_at(trainer: Trainer, last: int) -> Trainer:
    """The trainer, which is killed when it has read the batches of an update and made nothing of them yet."""
    leave = trainer.gradient.leave

    def leaving(batches: Sequence[Batch], tokens: int, update: int) -> Tensor:
        nll = leave(batches, tokens, update)
        if update == last:
            raise Killed
        return nll

    trainer.gradient.leave = leaving  # type: ignore[method-assign]
    return trainer
