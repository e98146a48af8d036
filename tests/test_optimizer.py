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


def first_step(config: OptimizerConfig, slope: float = 3.0) -> float:
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimizer = build_optimizer([parameter], config)
    (slope * parameter).sum().backward()
    optimizer.step()
    return float(parameter.detach())


def test_adam_moves_by_the_learning_rate_first() -> None:
    assert first_step(ADAM) == pytest.approx(0.9, abs=1e-6)


def test_adamw_decays_the_weight_itself() -> None:
    assert first_step(replace(ADAM, name="adamw", weight_decay=0.5)) == pytest.approx(0.9 - 0.1 * 0.5, abs=1e-6)


@pytest.mark.parametrize(("config", "gradient"), [(ADADELTA, 3.0), (replace(ADADELTA, weight_decay=2.0), 5.0)])
def test_adadelta_needs_no_learning_rate_and_decays_through_the_gradient(config: OptimizerConfig, gradient: float) -> None:
    # Zeiler (2012), algorithm 1: the first step is sqrt(eps) / sqrt((1 - rho) g² + eps) · g
    assert first_step(config) == pytest.approx(1 - 1e-3 / (0.05 * gradient**2 + 1e-6) ** 0.5 * gradient, abs=1e-6)


def test_adam_decays_through_the_gradient() -> None:
    # the first step goes by the sign of the gradient alone, here of -3 + 4 · 1 and of -3
    assert first_step(replace(ADAM, weight_decay=4.0), slope=-3.0) == pytest.approx(0.9, abs=1e-6)
    assert first_step(ADAM, slope=-3.0) == pytest.approx(1.1, abs=1e-6)


@pytest.mark.parametrize(("config", "name"), [(replace(ADAM, beta2=None), "beta2"), (replace(ADADELTA, rho=None), "rho")])
def test_a_needed_setting_that_is_null_is_named(config: OptimizerConfig, name: str) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{name} is null"):
        build_optimizer([nn.Parameter(torch.zeros(1))], config)


@pytest.mark.parametrize(("config", "name"), [(replace(ADAM, rho=0.9), "rho"), (replace(ADADELTA, beta2=0.9), "beta2")])
def test_what_a_rule_does_not_have_is_refused(config: OptimizerConfig, name: str) -> None:
    with pytest.raises(ConfigError, match=f"optimizer.{name}=0.9: optimizer.name=.* does nothing with it"):
        build_optimizer([nn.Parameter(torch.zeros(1))], config)
