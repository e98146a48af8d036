"""Settings that contradict each other, or would do nothing, found before a corpus is prepared for them."""

from pathlib import Path
from typing import Any

import torch

from nmt.config import TrainConfig
from nmt.errors import ConfigError
from nmt.model.dropout import Dropout
from nmt.model.seq2seq import Seq2Seq
from nmt.trainer import Trainer
from nmt.translator import Translator, check_tie

META = torch.device("meta")  # tensors with shapes and without numbers


def rehearse(config: TrainConfig) -> None:
    """Set a training up without text or weights: each part refuses the settings that it will refuse in earnest.

    Raises:
        ConfigError: settings contradict each other, or one has no effect beside the others.
    """
    unknown: Any = None  # what only a prepared corpus gives; no part looks at it before the first update
    check_tie(config.model, config.tokenizer.joint)
    with META:
        model = Seq2Seq(config.model, config.tokenizer.vocab_size, config.tokenizer.vocab_size, 0, 0)
        _refuse_contradictions(config, model)
        Translator([model], unknown, unknown, config.decode, config.data.tgt_lang, META)
        Trainer(config, model, unknown, unknown, unknown, Path(), torch.float32)


def _refuse_contradictions(config: TrainConfig, model: Seq2Seq) -> None:
    """Refuse settings of the trainer that need others, or would do nothing beside them."""
    average, keep = config.trainer.average, config.trainer.keep
    if average > keep:
        raise ConfigError(f"trainer.average={average} needs as many models that are kept: give trainer.keep={average} (it is {keep})")
    if average == 1:
        raise ConfigError("trainer.average=1: the mean of one model is that model; give 0, or 2 and more")
    risk_after, max_steps = config.trainer.risk_after, config.trainer.max_steps
    if risk_after is not None and max_steps is not None and risk_after >= max_steps:
        told = f"trainer.risk_after={risk_after}: training ends before, after trainer.max_steps={max_steps}"
        raise ConfigError(f"{told}; give a smaller one, or leave it out")
    if risk_after is not None and config.trainer.metric in ("loss", "perplexity"):
        told = f"trainer.metric={config.trainer.metric} chooses best.pt, but trainer.risk_after={risk_after} raises BLEU at its cost"
        raise ConfigError(f"{told}; give trainer.metric=bleu or chrf, or leave trainer.risk_after out")
    drops = any(isinstance(part, Dropout) and part.probability > 0 for part in model.modules())
    if config.trainer.r_drop > 0 and not drops:
        told = f"trainer.r_drop={config.trainer.r_drop:g} compares two readings, which dropout alone makes different"
        raise ConfigError(f"{told}, and every dropout is 0: give model.dropout=0.2 or another one, or leave trainer.r_drop out")
