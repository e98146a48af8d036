"""Small networks and a ragged batch for the tests of nmt/model."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.model.seq2seq import Seq2Seq
from nmt.schema import complete

VOCAB, PAD = 11, 0


def small_config(**changes: Any) -> ModelConfig:
    """Sizes that all differ, so that a mix-up cannot go unnoticed."""
    settings: dict[str, Any] = {
        "embedding_size": 6,
        "encoder_size": 5,
        "decoder_size": 7,
        "attention": "additive",
        "attention_size": 8,
        "initial_state": "backward",
        "readout": "maxout",
        "readout_size": 4,
        "initialization": "uniform",
        "init_scale": 0.5,
        "dropout": 0.0,
    }
    if changes.get("attention") == "dot":
        settings["decoder_size"] = 10
    if changes.get("tie", "none") != "none":
        settings["readout_size"] = 6
    return ModelConfig(**complete(ModelConfig, settings | changes))


@pytest.fixture
def config() -> Callable[..., ModelConfig]:
    return small_config


@pytest.fixture
def network() -> Callable[..., Seq2Seq]:
    """A network in double precision, its biases not zero, its gains not one."""

    def build(**changes: Any) -> Seq2Seq:
        torch.manual_seed(1)
        src_vocab = VOCAB + 2 if changes.get("tie") == "all" else VOCAB
        model = Seq2Seq(small_config(**changes), src_vocab, VOCAB + 2, PAD, PAD).double()
        for name, parameter in model.named_parameters():
            if "bias" in name or ".norm" in name:
                torch.nn.init.uniform_(parameter, -0.5, 0.5)
        return model

    return build


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """src, src_lengths, tgt_in, tgt_out: three sentences, ragged on both sides, lengths in different orders."""
    src = torch.tensor([[4, 5, 6, 7, 3], [8, 9, 3, 0, 0], [3, 0, 0, 0, 0]])
    tgt_in = torch.tensor([[2, 5, 0, 0], [2, 4, 6, 8], [2, 10, 12, 0]])
    tgt_out = torch.tensor([[5, 3, 0, 0], [4, 6, 8, 3], [10, 12, 3, 0]])
    return src, torch.tensor([5, 3, 1]), tgt_in, tgt_out
