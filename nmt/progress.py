"""How far a training run has come, and whether that is far enough."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nmt.config import TrainerConfig
from nmt.metrics import is_better

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """Plain numbers, saved and restored as they are; `best` and what follows from it are of single models, never of a mean of several."""

    step: int = 0
    seconds: float = 0.0
    validated_step: int = 0
    validation_seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_improvement: int = 0
    tgt_tokens: int = 0
    averaged: float | None = None  # the score of best.pt where it is a mean of models that no single one has beaten since
    finished: str = ""
    skipped: int = 0  # updates left out since their loss or gradient was no finite number
    skipped_in_a_row: int = 0
    risk_began: bool = False  # whether minimum risk training has

    def validation_due(self, every: int) -> bool:
        """Whether the update at hand is one after which the model is validated, and has not been."""
        return self.step > 0 and self.step % every == 0 and self.validated_step != self.step

    def begins_risk(self, after: int | None) -> bool:
        """Whether minimum risk training begins now, after so many updates (None: never); True once."""
        began, self.risk_began = self.risk_began, after is not None and self.step >= after  # a later place may have been set since
        if began or not self.risk_began:
            return False
        log.info("from here on: minimum risk training")
        self.without_improvement = 0
        return True

    def take(self, metric: str, score: float) -> bool:
        """Take note of a model's score; True where it is the best so far."""
        improved = is_better(metric, score, self.best)
        if self.best is not None:  # else it is compared with none: the first, or where best.pt was lost, which gives no more patience
            self.without_improvement = 0 if improved else self.without_improvement + 1
        if improved:
            self.best, self.best_step = score, self.step
        return improved

    def forget_best(self) -> None:
        """Let the next validation, which comes where this update's was or would be, be the first that is compared with none."""
        self.best, self.averaged, self.finished = None, None, ""
        self.validated_step = self.step - 1

    def recall_best(self, about: Mapping[str, Any] | None, metric: str) -> None:
        """Of what is known about best.pt, take note that it is a mean of models: a kill may have come between it and last.pt.

        Where it is gone or damaged (None), forget its score, so that the next validation writes one.
        """
        if about is None:
            self.forget_best()
        elif "averaged" in about:
            self.averaged = about["scores"][metric]

    def skip(self, loss: float, norm: float) -> None:
        """Count, and tell, an update that is left out since its loss, in nats a token, or its gradient's norm is no finite number."""
        self.skipped += 1
        self.skipped_in_a_row += 1
        log.warning("warning: update %d is left out: its loss is %.4g, the norm of its gradient %.4g", self.step, loss, norm)

    def limit(self, limits: TrainerConfig, epoch: int, seconds: float) -> str:
        """Which limit ends the training now, or an empty text.

        Args:
            limits: where training ends.
            epoch: how many epochs are complete.
            seconds: time spent on the run.
        """
        if limits.patience is not None and self.without_improvement >= limits.patience:
            return f"trainer.patience={limits.patience}: so many validations without a better {limits.metric}"
        if limits.max_steps is not None and self.step >= limits.max_steps:
            return f"trainer.max_steps={limits.max_steps}"
        if limits.max_epochs is not None and epoch >= limits.max_epochs:
            return f"trainer.max_epochs={limits.max_epochs}"
        # The last validation counts too, and that of the average after it, so their time is kept free.
        last = self.validation_seconds * (2 if limits.average else 1)
        if limits.max_minutes is not None and seconds + last >= 60 * limits.max_minutes:
            return f"trainer.max_minutes={limits.max_minutes:g}"
        return ""

    def share(self, limits: TrainerConfig, epochs: float, seconds: float) -> float:
        """How much of the run is done, 0 to 1, by the limit that is nearest, after so many epochs and seconds."""
        reached = ((self.step, limits.max_steps), (epochs, limits.max_epochs))
        shares = [value / limit for value, limit in reached if limit]
        shares += [seconds / (60 * limits.max_minutes)] if limits.max_minutes else []
        return min(1.0, max(shares, default=0.0))
