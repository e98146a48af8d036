from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.model import kernels
from nmt.model.inference import Inference
from nmt.model.kernels import Product
from nmt.model.seq2seq import DecoderState, Seq2Seq

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
Network = Callable[..., Seq2Seq]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"readout": "tanh"},
    {"attention": "dot"},
    {"attention": "general"},
    {"attention": "none"},
    {"tie": "target"},
    {"tie": "all"},
    {"state_dropout": 0.5, "annotation_dropout": 0.5, "tgt_word_dropout": 0.5, "src_word_dropout": 0.5, "variational": True},
    {"encoder_layers": 3},
    {"layer_norm": True, "encoder_layers": 2},
    {"layer_norm": True, "cell": "conditional"},
    {"cell": "conditional"},
    {"cell": "conditional", "attention": "dot"},
    {"layer_norm": True, "attention": "general", "cell": "conditional", "readout": "tanh"},
    {"layer_norm": True, "encoder_layers": 2, "cell": "conditional", "tie": "target", "state_dropout": 0.5, "dropout": 0.5},
    {"transitions": 1},
    {"transitions": 2, "cell": "conditional", "attention": "general", "readout": "tanh"},
    {"transitions": 2, "layer_norm": True},
]

DEEP: list[dict[str, Any]] = [
    {},
    {"cell": "conditional", "encoder_layers": 2},
    {"cell": "conditional", "encoder_layers": 2, "layer_norm": True},
    {"cell": "conditional", "transitions": 2, "layer_norm": True},
]


def walk(start: Any, step: Any, batch: Batch, steps: int = 4) -> list[Tensor]:
    """Log probabilities and weights of some steps with three hypotheses a sentence, which change places and of which sentences leave."""
    src, src_lengths, _, _ = batch
    chance = torch.Generator().manual_seed(3)
    state: DecoderState = start(src, src_lengths)
    tokens, seen = torch.full((len(src), 1), 2), []
    for number in range(steps):
        log_probs, weights, state = step(tokens, state)
        seen += [log_probs, weights]
        left = torch.arange(len(tokens))[: len(src) - number // 2]
        beams = torch.randint(log_probs.shape[1], (len(left), 3), generator=chance)
        state = state.select(left if len(left) < len(tokens) else None, beams)
        tokens = torch.randint(log_probs.shape[2], beams.shape, generator=chance)
    return seen


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_it_predicts_what_the_model_does(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model = network(**options).eval()
    inference = Inference(model, torch.double)
    for got, want in zip(walk(inference.start, inference.step, batch), walk(model.start, model.step, batch), strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("options", DEEP)
@torch.no_grad()
def test_packed_products_predict_the_same(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model = network(**options).float().eval()
    inference = Inference(model, torch.float32)
    for got, want in zip(walk(inference.start, inference.step, batch), walk(model.start, model.step, batch), strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", DEEP)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision_stays_near(network: Network, batch: Batch, dtype: torch.dtype, options: dict[str, Any]) -> None:
    model = network(**options).float().eval()
    inference = Inference(model, dtype)
    with torch.autocast("cpu", dtype=dtype):
        got = walk(inference.start, inference.step, batch)
    for one, want in zip(got, walk(model.start, model.step, batch), strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, want, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("shape", [(4,), (0, 4), (3, 4), (2, 3, 4)])
def test_a_product_is_a_linear_map(monkeypatch: pytest.MonkeyPatch, packed: bool, shape: tuple[int, ...]) -> None:
    if not packed:
        monkeypatch.setattr(kernels, "_can_pack", lambda dtype: False)
    weight, bias, x = torch.randn(7, 5)[:, 1:], torch.randn(7), torch.randn(shape)
    torch.testing.assert_close(Product(weight, bias)(x), x @ weight.t() + bias)
    torch.testing.assert_close(Product(weight)(x), x @ weight.t())


def test_products_are_packed_where_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not kernels._can_pack(torch.float64)

    def missing(*_: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing, raising=False)
    assert not kernels._can_pack.__wrapped__(torch.float32)
