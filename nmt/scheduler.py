"""The learning rate as a function of the updates made and of the validations passed."""

import math
from typing import Any

from nmt.config import SchedulerConfig
from nmt.errors import ConfigError


class Scheduler:
    """Linear warm-up to the base rate, then constant, inverse square root decay, or a cut at each plateau of the validation metric."""

    def __init__(self, config: SchedulerConfig, base_lr: float, last: tuple[int, float] | None = None) -> None:
        """Start at update 0.

        Args:
            config: the schedule; `plateau` needs factor, patience and min_lr.
            base_lr: the rate at the end of the warm-up.
            last: after so many updates the schedule ends, and the rate is this one.

        Raises:
            ConfigError: a setting that this schedule needs is null, or one is set that it does not have.
        """
        if config.return_to_best and config.name != "plateau":
            raise ConfigError(f"scheduler.return_to_best=true is for scheduler=plateau; {config.name} cuts no rate")
        for name in ("factor", "patience", "min_lr"):
            value = getattr(config, name)
            if config.name == "plateau" and value is None:
                raise ConfigError(f"scheduler.{name} is null, but scheduler.name=plateau needs it: give scheduler.{name}=…")
            if config.name != "plateau" and value is not None:
                raise ConfigError(f"scheduler.{name}={value:g} is for scheduler=plateau; {config.name} does nothing with it: leave it out")
        self.config = config
        self.base_lr, self.last = base_lr, last
        self.scale = 1.0
        self.waited = 0

    def lr(self, step: int) -> float:
        """The learning rate of update `step`, counted from 1."""
        if self.last and step > self.last[0]:
            return self.last[1]
        warmup = self.config.warmup_steps
        if step < warmup:
            return self.base_lr * step / warmup
        if self.config.name == "inverse_sqrt":
            return self.base_lr * math.sqrt(max(warmup, 1) / max(step, 1))
        floor = min(self.config.min_lr or 0.0, self.base_lr)
        return max(self.base_lr * self.scale, floor)

    def validated(self, improved: bool, step: int) -> bool:
        """Take note of a validation after update `step`; True where a plateau just lowered the rate, which min_lr may have kept it from."""
        if self.config.name != "plateau" or (self.last and step >= self.last[0]):
            return False
        assert self.config.factor is not None and self.config.patience is not None
        self.waited = 0 if improved else self.waited + 1
        if self.waited <= self.config.patience:
            return False
        self.waited, before = 0, self.lr(self.config.warmup_steps)
        self.scale *= self.config.factor
        return self.lr(self.config.warmup_steps) < before

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers that load_state_dict takes back."""
        return {"scale": self.scale, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.scale, self.waited = state["scale"], state["waited"]
