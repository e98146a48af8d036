from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.attention import Additive, General, Memory, NoAttention, attend, make_attention

KINDS = ("additive", "dot", "general", "none")
B, K, S = 3, 2, 5
MASK = torch.arange(S) < torch.tensor([5, 3, 1])[:, None]


def setting(config: Callable[..., ModelConfig], kind: str) -> tuple[Any, Tensor, Tensor]:
    """An attention in double precision with states (B, K, D) and annotations (B, S, 2H), zero at padding."""
    torch.manual_seed(0)
    sizes = config(attention=kind)
    attention = make_attention(sizes).double()
    for parameter in attention.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    states = torch.randn(B, K, sizes.decoder_size, dtype=torch.double)
    return attention, states, torch.randn(B, S, 2 * sizes.encoder_size, dtype=torch.double) * MASK.unsqueeze(2)


def weights_of(energies: Tensor, mask: Tensor) -> Tensor:
    return attend(energies, Memory(torch.zeros(*mask.shape, 2), torch.zeros(*mask.shape, 2), mask))[1]


def test_worked_example_of_energies_to_weights() -> None:
    energies = torch.tensor([[[2.0, 0.5, -1.0], [2.0, 2.5, -1.0]]])
    weights = weights_of(energies, torch.ones(1, 3, dtype=torch.bool))
    expected = torch.tensor([[[0.786, 0.175, 0.039], [0.371, 0.611, 0.018]]])
    torch.testing.assert_close(weights, expected, atol=5e-4, rtol=0)


def test_context_is_the_weighted_average_of_annotations() -> None:
    annotations = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    memory = Memory(annotations, annotations, torch.ones(1, 3, dtype=torch.bool))
    context, _ = attend(torch.tensor([[[0.0, 0.0, -1e9]]]), memory)
    torch.testing.assert_close(context, torch.tensor([[[1.5, 15.0]]]))


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_rows_sum_to_one_and_padding_is_exactly_zero(scale: float) -> None:
    torch.manual_seed(0)
    weights = weights_of(torch.randn(B, K, S) * scale, MASK)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, K))
    assert (weights[~MASK[:, None].expand(B, K, S)] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_do_not_see_each_other(config: Callable[..., ModelConfig], kind: str) -> None:
    """A softmax over anything but source positions would mix them."""
    attention, states, annotations = setting(config, kind)
    memory = attention.memory(annotations, MASK)
    together = attention(states, memory)
    for k in range(K):
        alone = attention(states[:, k : k + 1], memory)
        for one, all_ in zip(alone, together, strict=True):
            torch.testing.assert_close(one, all_[:, k : k + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_one_shape_for_all(config: Callable[..., ModelConfig], kind: str) -> None:
    attention, states, annotations = setting(config, kind)
    context, weights = attention(states, attention.memory(annotations, MASK))
    assert context.shape == (B, K, annotations.shape[2])
    assert weights.shape == (B, K, S)


def test_additive_is_the_equation_of_the_paper(config: Callable[..., ModelConfig]) -> None:
    attention, states, annotations = setting(config, "additive")
    assert isinstance(attention, Additive)
    w_a, u_a, v_a = attention.query.weight, attention.key.weight, attention.energy
    for b, k in ((0, 0), (1, 1), (2, 0)):
        real = annotations[b][MASK[b]]
        energies = torch.tanh(w_a @ states[b, k] + real @ u_a.t()) @ v_a
        context, weights = attention(states, attention.memory(annotations, MASK))
        torch.testing.assert_close(weights[b, k][MASK[b]], energies.softmax(0))
        torch.testing.assert_close(context[b, k], energies.softmax(0) @ real)


@pytest.mark.parametrize("kind", ["dot", "general"])
def test_products_are_the_equations_of_luong(config: Callable[..., ModelConfig], kind: str) -> None:
    attention, states, annotations = setting(config, kind)
    _, weights = attention(states, attention.memory(annotations, MASK))
    for b, k in ((0, 0), (1, 1), (2, 0)):
        real = annotations[b][MASK[b]]
        keys = real @ attention.key.weight.t() if isinstance(attention, General) else real
        torch.testing.assert_close(weights[b, k][MASK[b]], (keys @ states[b, k]).softmax(0))


def test_none_gives_the_last_annotations_whatever_the_state(config: Callable[..., ModelConfig]) -> None:
    attention, states, annotations = setting(config, "none")
    assert isinstance(attention, NoAttention)
    context, weights = attention(states, attention.memory(annotations, MASK))
    half = annotations.shape[2] // 2
    for b, last in enumerate((4, 2, 0)):
        expected = torch.cat((annotations[b, last, :half], annotations[b, 0, half:]))
        assert torch.equal(context[b], expected.expand(K, -1))
    assert not weights.any()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_columns_change_nothing(config: Callable[..., ModelConfig], kind: str) -> None:
    attention, states, annotations = setting(config, kind)
    context, weights = attention(states, attention.memory(annotations, MASK))
    wider = torch.nn.functional.pad(annotations, (0, 0, 0, 4)), torch.nn.functional.pad(MASK, (0, 4))
    wide_context, wide_weights = attention(states, attention.memory(*wider))
    torch.testing.assert_close(wide_context, context)
    torch.testing.assert_close(wide_weights[..., :S], weights)
    assert not wide_weights[..., S:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_select_keeps_the_chosen_sentences(config: Callable[..., ModelConfig], kind: str) -> None:
    attention, states, annotations = setting(config, kind)
    memory, chosen = attention.memory(annotations, MASK), torch.tensor([2, 0])
    for one, all_ in zip(attention(states[chosen], memory.select(chosen)), attention(states, memory), strict=True):
        torch.testing.assert_close(one, all_[chosen])


@pytest.mark.parametrize("kind", KINDS)
def test_weights_stay_float32_in_bf16(config: Callable[..., ModelConfig], kind: str) -> None:
    attention, states, annotations = setting(config, kind)
    attention = attention.float()
    exact = attention(states.float(), attention.memory(annotations.float(), MASK))[1]
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = attention(states.float(), attention.memory(annotations.bfloat16(), MASK))
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, exact, atol=0.05, rtol=0)
    assert context.isfinite().all()


def test_dot_needs_equal_sizes(config: Callable[..., ModelConfig]) -> None:
    with pytest.raises(ConfigError, match=r"decoder_size.*= 10, not 7.*general") as error:
        make_attention(config(attention="dot", decoder_size=7))
    assert "\n" not in str(error.value)
