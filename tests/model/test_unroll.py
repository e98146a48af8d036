from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.model import unroll
from nmt.model.attention import Memory
from nmt.model.decoder import Decoder
from nmt.model.seq2seq import Seq2Seq
from nmt.model.unroll_normalized import NormalizedBidirectionalGru, NormalizedGru

Network = Callable[..., Seq2Seq]
FAST: list[dict[str, Any]] = [
    {},
    {"cell": "conditional"},
    {"transitions": 2},
    {"cell": "conditional", "transitions": 1},
    {"layer_norm": True},
    {"cell": "conditional", "layer_norm": True},
    {"transitions": 1, "layer_norm": True},
    {"cell": "conditional", "transitions": 2, "layer_norm": True},
]
LOOPS = pytest.mark.parametrize("options", FAST)  # those that the fast loops take


def make_inputs(model: Seq2Seq, batch: int, length: int, steps: int, dtype: torch.dtype = torch.double) -> list[Tensor]:
    """embedded (B, T, E), state (B, D), annotations (B, S, 2H), zero at padding, and mask; the last sentence has one token."""
    torch.manual_seed(5)
    sizes = model.decoder.embedding.embedding_dim, model.encoder.initial.out_features, 2 * model.encoder.rightward.hidden_size
    mask = torch.arange(length) < torch.linspace(length, 1, batch).round()[:, None]
    annotations = torch.randn(batch, length, sizes[2], dtype=dtype) * mask.unsqueeze(2)
    tensors = [torch.randn(batch, steps, sizes[0], dtype=dtype), torch.randn(batch, sizes[1], dtype=dtype), annotations]
    return [*(x.requires_grad_() for x in tensors), mask]


def run(loop: Callable[..., tuple[Tensor, Tensor]], model: Seq2Seq, inputs: list[Tensor]) -> tuple[tuple[Tensor, Tensor], list[Tensor]]:
    """Outputs of a loop, and the gradients that random ones of them give to its inputs and every parameter it uses."""
    embedded, state, annotations, mask = inputs
    decoder = model.decoder
    torch.manual_seed(9)
    outputs = loop(decoder, embedded, state, decoder.attention.memory(annotations, mask))
    torch.manual_seed(6)
    total = sum((x * torch.randn(x.shape, dtype=inputs[0].dtype)).sum() for x in outputs)
    used = [p for name, p in decoder.named_parameters() if name.startswith(("attention", "gates", "norm"))]
    return outputs, list(torch.autograd.grad(total, [embedded, state, annotations, *used]))


def steps_with_dropout(decoder: Decoder, embedded: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    return unroll.unroll_steps(decoder, embedded, state, memory, decoder.state_dropout.mask(state))


@LOOPS
@pytest.mark.parametrize("state_dropout", [0.0, 0.4])
@pytest.mark.parametrize(("batch", "length", "steps"), [(3, 5, 4), (4, 3, 6), (1, 1, 1), (1, 4, 1), (2, 1, 3)])
def test_the_fast_loop_equals_the_readable_one(
    network: Network, batch: int, length: int, steps: int, state_dropout: float, options: dict[str, Any]
) -> None:
    model = network(state_dropout=state_dropout, **options)
    inputs = make_inputs(model, batch, length, steps)
    fast, fast_grads = run(unroll.unroll, model, inputs)
    slow, slow_grads = run(steps_with_dropout, model, inputs)
    for got, want in zip((*fast, *fast_grads), (*slow, *slow_grads), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@LOOPS
def test_additive_attention_takes_the_fast_loop(network: Network, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    model = network(**options)
    monkeypatch.setattr(unroll, "unroll_steps", None)
    run(unroll.unroll, model, make_inputs(model, 2, 3, 2))


@LOOPS
@pytest.mark.parametrize("attention", ["dot", "general", "none"])
def test_other_attentions_run_step_by_step(network: Network, attention: str, options: dict[str, Any]) -> None:
    model = network(attention=attention, **options)
    inputs = make_inputs(model, 3, 5, 4)
    embedded, state, annotations, mask = inputs
    memory = model.decoder.attention.memory(annotations, mask)
    states, contexts = unroll.unroll(model.decoder, embedded, state, memory)
    state = state.unsqueeze(1)
    for t in range(4):
        state, context, _ = model.decoder.step(embedded[:, t : t + 1], state, memory)
        torch.testing.assert_close(states[:, t : t + 1], state)
        torch.testing.assert_close(contexts[:, t : t + 1], context)


@LOOPS
def test_states_know_only_the_words_before_them(network: Network, options: dict[str, Any]) -> None:
    model = network(**options)
    embedded, state, annotations, mask = make_inputs(model, 3, 5, 4)
    memory = model.decoder.attention.memory(annotations, mask)
    changed = embedded.detach().clone()
    changed[:, 2] += 1
    before, after = (unroll.unroll(model.decoder, y, state, memory)[0] for y in (embedded, changed))
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.isclose(before[:, 2], after[:, 2]).any()


def new(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize("transitions", [0, 2])
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_gradcheck_of_the_attention_grus(dropout: bool, conditional: bool, transitions: int) -> None:
    torch.manual_seed(7)
    batch, length, steps, size, attention = 2, 3, 3, 2, 4
    padding = torch.tensor([[False, False, False], [False, True, True]])
    leaves: list[Any] = [new(steps, batch, 3 * size), new(batch, size), new(batch, length, 3 * size), new(batch, length, attention)]
    weights = [new(3 * size + attention, size), new(3 * size + attention), new(attention)]
    kept = torch.tensor([[2.0, 0.0], [2.0, 2.0]], dtype=torch.double) if dropout else None
    inputs = *leaves, padding, *weights, kept, conditional
    plain, normalized = [], [new(count) for count in (3 * size, 3 * size, attention, attention, 3 * size, 3 * size)]
    for _ in range(conditional + transitions):
        cell = [new(3 * size, size), new(3 * size)]
        plain += cell
        normalized += [*cell, new(3 * size), new(3 * size)]
    assert torch.autograd.gradcheck(unroll.AttentionGru.apply, (*inputs, *plain))
    assert torch.autograd.gradcheck(NormalizedGru.apply, (*inputs, *normalized))


@pytest.mark.parametrize("dropout", [False, True])
def test_gradcheck_of_the_bidirectional_grus(dropout: bool) -> None:
    torch.manual_seed(8)
    steps, batch, size = 3, 2, 2
    kept = torch.tensor([[2.0, 0.0], [2.0, 2.0]], dtype=torch.double).expand(2, 2, 2) if dropout else None
    inputs = new(2, steps, batch, 3 * size), new(2, 3 * size, size), new(2, 3 * size), kept
    assert torch.autograd.gradcheck(unroll.bidirectional, inputs)
    assert torch.autograd.gradcheck(NormalizedBidirectionalGru.apply, (*inputs, new(2, 1, 3 * size), new(2, 1, 3 * size)))


@LOOPS
@pytest.mark.parametrize("state_dropout", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_follows_full_precision(network: Network, dtype: torch.dtype, state_dropout: float, options: dict[str, Any]) -> None:
    model = network(state_dropout=state_dropout, **options).float()
    inputs = make_inputs(model, 3, 5, 4, torch.float32)
    exact, exact_grads = run(unroll.unroll, model, inputs)
    with torch.autocast("cpu", dtype):
        half, half_grads = run(unroll.unroll, model, inputs)
    assert half[0].dtype == torch.float32
    for got, want in zip((*half, *half_grads), (*exact, *exact_grads), strict=True):
        assert (got.float() - want).norm() < 0.03 * want.norm()


@LOOPS
def test_inputs_are_left_as_they_were(network: Network, options: dict[str, Any]) -> None:
    model = network(**options)
    inputs = make_inputs(model, 3, 5, 4)
    copies = [x.detach().clone() for x in inputs]
    first, first_grads = run(unroll.unroll, model, inputs)
    second, second_grads = run(unroll.unroll, model, inputs)
    for got, want in zip((*inputs, *second, *second_grads), (*copies, *first, *first_grads), strict=True):
        assert torch.equal(got, want)
