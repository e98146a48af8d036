"""The update rules do what their papers say."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from nmt.config import OptimizerConfig
from nmt.errors import ConfigError
from nmt.optimizer import build_optimizer

ADAM = OptimizerConfig("adam", 0.1, 0.9, 0.999, None, 1e-8, 0.0, None)
ADADELTA = OptimizerConfig("adadelta", 1.0, None, None, 0.95, 1e-6, 0.0, None)


def first_step(config: OptimizerConfig) -> float:
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimizer = build_optimizer([parameter], config)
    (3 * parameter).sum().backward()
    optimizer.step()
    return float(parameter.detach())


def test_adam_moves_by_the_learning_rate_first() -> None:
    assert first_step(ADAM) == pytest.approx(0.9, abs=1e-6)


def test_adamw_decays_the_weight_itself() -> None:
    assert first_step(replace(ADAM, name="adamw", weight_decay=0.5)) == pytest.approx(0.9 - 0.1 * 0.5, abs=1e-6)


def test_adadelta_needs_no_learning_rate() -> None:
    # Zeiler (2012), algorithm 1: the first step is sqrt(eps) / sqrt((1 - rho) g² + eps) · g
    assert first_step(ADADELTA) == pytest.approx(1 - 1e-3 / (0.05 * 9 + 1e-6) ** 0.5 * 3, abs=1e-6)


@pytest.mark.parametrize(("config", "name"), [(replace(ADAM, beta2=None), "beta2"), (replace(ADADELTA, rho=None), "rho")])
def test_a_needed_setting_that_is_null_is_named(config: OptimizerConfig, name: str) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{name} is null"):
        build_optimizer([nn.Parameter(torch.zeros(1))], config)
