"""The update rules: Adam, AdamW and Adadelta, in PyTorch's fused form where there is one."""

from collections.abc import Iterable

import torch
from torch import nn

from nmt.config import OptimizerConfig
from nmt.errors import ConfigError


def build_optimizer(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimizer that `config` names.

    Adam: Kingma & Ba (2015); AdamW: Loshchilov & Hutter (2019); Adadelta: Zeiler (2012), which Bahdanau et al. (2015) used with
    rho 0.95 and epsilon 1e-6.

    Raises:
        ConfigError: a setting that this rule needs is null, or one is set that it does not have.
    """
    adam, adadelta = ("beta1", "beta2"), ("rho",)
    needed, idle = (adadelta, adam) if config.name == "adadelta" else (adam, adadelta)
    for name in needed:
        if getattr(config, name) is None:
            raise ConfigError(f"optimizer.{name} is null, but optimizer.name={config.name} needs it: give optimizer.{name}=…")
    for name in idle:
        if (value := getattr(config, name)) is not None:
            raise ConfigError(f"optimizer.{name}={value:g}: optimizer.name={config.name} does nothing with it; leave it out")
    if config.name == "adadelta":
        assert config.rho is not None
        return torch.optim.Adadelta(
            parameters, lr=config.lr, rho=config.rho, eps=config.eps, weight_decay=config.weight_decay, foreach=True
        )
    assert config.beta1 is not None and config.beta2 is not None
    rule = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return rule(parameters, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps, weight_decay=config.weight_decay, fused=True)
