"""The checkpoints of a run's folder, written by one process, and kept in memory while they cannot be."""

import dataclasses
import logging
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.averaging import mean_weights
from nmt.checkpoint import Checkpoint, load_checkpoint, on_cpu, save_checkpoint
from nmt.config import TrainerConfig
from nmt.distributed import Processes
from nmt.errors import CheckpointError, DataError, UnreadableError
from nmt.metrics import HIGHER_IS_BETTER
from nmt.resume import LAST, PREVIOUS

log = logging.getLogger(__name__)

COUNTED_ON = "best-before.pt"  # the best.pt that last.pt counts on, where best.pt is a later one since last.pt could not be written


class RunFiles:
    """Writes in the first process alone; a full disk, or one that is gone, is a warning, and what it kept from being written waits."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes = folder, processes
        self.saved_step = 0  # of last.pt
        self.kept: list[tuple[float, int]] = []  # score and step of the step-*.pt files, best first
        self._waiting: dict[str, Checkpoint] = {}
        self._behind = False  # whether last.pt could not be written the last time

    def write(self, name: str, checkpoint: Checkpoint) -> None:
        """Write a model; where that is not possible, keep a copy of it in memory until it is."""
        self._waiting.pop(name, None)
        if not self._written(name, checkpoint):
            self._waiting[name] = dataclasses.replace(checkpoint, model=on_cpu(checkpoint.model, copy=True))

    def write_last(self, checkpoint: Checkpoint) -> bool:
        """Write last.pt, with the one before as previous.pt; not before all that waits, since it counts on that. False where it is not."""
        for name, waiting in list(self._waiting.items()):
            if not self._written(name, waiting):
                self._behind = True
                return False
            del self._waiting[name]
        if not self._written(LAST, checkpoint, PREVIOUS):
            self._behind = True
            return False
        self._behind, self.saved_step = False, checkpoint.about["step"]
        self._remove(COUNTED_ON)
        return True

    def keep(self, score: float, step: int, limits: TrainerConfig, checkpoint: Checkpoint) -> None:
        """Write the model of an update as step-<n>.pt where it is among the limits.keep best, and remove what falls out."""
        sign = -1 if HIGHER_IS_BETTER[limits.metric] else 1
        others = [kept for kept in self.kept if kept[1] != step]  # where best.pt was lost, an update is validated again
        # Of equal scores the earlier stays first: that model needed less training. What is no number is worse than all.
        ranked = sorted([*others, (score, step)], key=lambda kept: math.inf if math.isnan(kept[0]) else sign * kept[0])
        self.kept = ranked[: limits.keep]
        if (score, step) in self.kept:
            self.write(f"step-{step}.pt", checkpoint)
        for _, dropped in ranked[limits.keep :]:
            self._remove(f"step-{dropped}.pt")

    def about_best(self) -> dict[str, Any] | None:
        """What is known about best.pt; None, and a warning, where that is gone, damaged, or was never measured.

        Raises:
            UnreadableError: it is there, and cannot be read now; the next validation would replace it by what may be worse.
            CheckpointError: something is there that is no file, and in the way of a new one.
        """
        best = self._usable("best.pt", needed=True)
        if best is None:
            log.warning("the next validation writes a new one")
            return None
        return best.about

    def find_best(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The weights of the best model so far, of update `step` or a mean, and what is known about them; None where they are lost."""
        before = [COUNTED_ON] if (self.folder / COUNTED_ON).exists() else []
        for name in ("best.pt", *before, f"step-{step}.pt"):
            best = self._usable(name)
            if best and (best.about["step"] == step or "averaged" in best.about):
                return best.model, best.about
        return None

    def mean_of_best(self, count: int) -> tuple[list[int], dict[str, Tensor]] | None:
        """The updates of the best models that were kept, at most so many, and the mean of their weights; None of fewer than two."""
        models = {step: kept.model for _, step in self.kept[:count] if (kept := self._usable(f"step-{step}.pt"))}
        return (list(models), mean_weights(models.values())) if len(models) > 1 else None

    def _usable(self, name: str, needed: bool = False) -> Checkpoint | None:
        """A checkpoint of this run; None, and a warning, where it is gone, damaged, or a mean that nobody has validated.

        Where it is there and cannot be read now, that is an error if it is `needed`.
        """
        if needed and (path := self.folder / name).exists() and not path.is_file():
            raise CheckpointError(f"{path} is a folder or no regular file: move it away, and the next validation writes a new one")
        try:
            found = self._waiting[name] if name in self._waiting else load_checkpoint(self.folder / name)
        except (CheckpointError, OSError) as error:
            if needed and isinstance(error, UnreadableError):
                way_out = "try again; where it stays so, move that file away, and the next validation writes a new one"
                raise UnreadableError(f"{error}: {way_out}") from error
            log.warning("warning: %s", error)
            return None
        if not found.about.get("scores"):
            log.warning("warning: nobody has validated %s", self.folder / name)
            return None
        return found

    def _remove(self, name: str) -> None:
        self._waiting.pop(name, None)
        if self.processes.first:
            with suppress(OSError):
                (self.folder / name).unlink(missing_ok=True)

    def _written(self, name: str, checkpoint: Checkpoint, before: str | None = None) -> bool:
        if self.processes.first:
            if name == "best.pt" and self._behind:
                with suppress(OSError):  # there is one already, or none to keep
                    os.link(self.folder / name, self.folder / COUNTED_ON)
            try:
                save_checkpoint(self.folder / name, checkpoint, self.folder / before if before else None)
            except (DataError, OSError) as error:  # the latter where the whole file system is gone
                log.warning("warning: %s; training goes on, and the next time that it saves it tries again", error)
                return False
        return True
