"""The learning rate at every update."""

from typing import Any

import pytest

from nmt.config import SchedulerConfig
from nmt.errors import ConfigError
from nmt.scheduler import Scheduler


def schedule(
    name: str,
    warmup: int = 0,
    factor: float | None = None,
    patience: int | None = None,
    min_lr: float | None = None,
    return_to_best: bool = False,
) -> Scheduler:
    return Scheduler(SchedulerConfig(name, warmup, factor, patience, min_lr, return_to_best), base_lr=0.1)  # type: ignore[arg-type]


def test_constant_after_a_linear_warm_up() -> None:
    scheduler = schedule("constant", warmup=4)
    assert [scheduler.lr(step) for step in (1, 2, 4, 5, 1000)] == pytest.approx([0.025, 0.05, 0.1, 0.1, 0.1])


def test_inverse_square_root_is_continuous_at_the_end_of_the_warm_up() -> None:
    scheduler = schedule("inverse_sqrt", warmup=100)
    assert [scheduler.lr(step) for step in (50, 100, 400)] == pytest.approx([0.05, 0.1, 0.05])


def test_a_plateau_cuts_the_rate_after_its_patience_and_not_below_the_floor() -> None:
    scheduler = schedule("plateau", factor=0.5, patience=1, min_lr=0.03)
    assert [scheduler.validated(improved, 1) for improved in (True, False, False, False, True, False, False)] == [
        False, False, True, False, False, False, True,
    ]  # fmt: skip
    assert scheduler.lr(10) == pytest.approx(0.03)
    assert not any(scheduler.validated(False, 1) for _ in range(10)), "there is nothing left to cut"
    assert scheduler.lr(10) == pytest.approx(0.03)


def test_the_schedule_ends_where_another_rate_begins() -> None:
    scheduler = Scheduler(SchedulerConfig("inverse_sqrt", 4, None, None, None, False), 0.1, last=(8, 0.001))
    plateau = Scheduler(SchedulerConfig("plateau", 4, 0.5, 0, 0.0, True), 0.1, last=(8, 0.001))
    assert plateau.validated(False, 7) and not plateau.validated(False, 8) and plateau.scale == 0.5
    assert [scheduler.lr(step) for step in (4, 8, 9, 100)] == pytest.approx([0.1, 0.1 / 2**0.5, 0.001, 0.001])


def test_the_state_goes_on() -> None:
    first, second = (schedule("plateau", factor=0.5, patience=1, min_lr=0.0) for _ in range(2))
    first.validated(False, 1)
    second.load_state_dict(first.state_dict())
    assert second.validated(False, 1) and second.lr(1) == pytest.approx(0.05)


def test_a_plateau_needs_its_settings() -> None:
    with pytest.raises(ConfigError, match="scheduler.patience is null"):
        schedule("plateau", factor=0.5, min_lr=0.0)


@pytest.mark.parametrize("name", ["constant", "inverse_sqrt"])
@pytest.mark.parametrize("setting", [{"factor": 0.5}, {"patience": 0}, {"min_lr": 1e-4}])
def test_what_a_schedule_does_not_have_is_refused(name: str, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"scheduler.{next(iter(setting))}=.* is for scheduler=plateau; {name} does nothing with it"):
        schedule(name, **setting)


def test_only_a_plateau_returns_to_the_best() -> None:
    schedule("plateau", factor=0.5, patience=1, min_lr=0.0, return_to_best=True)
    with pytest.raises(ConfigError, match=r"scheduler\.return_to_best=true is for scheduler=plateau; constant cuts no rate"):
        schedule("constant", return_to_best=True)
