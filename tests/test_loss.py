from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from nmt import loss
from nmt.loss import linear_cross_entropy


@pytest.fixture(params=[1, 60, 10**6], ids=["one row a chunk", "chunks with a rest", "one chunk"])
def chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loss, "_elements", lambda _: request.param)
    yield


def make(dtype: torch.dtype = torch.double) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """inputs (10, 6), weight (20, 6), bias (20,), targets (10,)."""
    torch.manual_seed(0)
    tensors = [torch.randn(shape, dtype=dtype).requires_grad_() for shape in ((10, 6), (20, 6), (20,))]
    return tensors[0], tensors[1], tensors[2], torch.randint(0, 20, (10,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_equals_cross_entropy_with_its_gradients(chunked: None, smoothing: float) -> None:
    inputs, weight, bias, targets = make()
    smoothed, nll = linear_cross_entropy(inputs, weight, bias, targets, smoothing)
    logits = functional.linear(inputs, weight, bias)
    expected = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(smoothed, expected)
    torch.testing.assert_close(nll, functional.cross_entropy(logits, targets, reduction="sum").detach())
    leaves = (inputs, weight, bias)
    for got, want in zip(torch.autograd.grad(3 * smoothed, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(got, want)


def plain_r_drop(inputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, strength: float) -> Tensor:
    """Mean of the cross entropies of the two rows of each token + strength · half of the divergences in both directions."""
    logits = functional.linear(inputs, weight, bias)
    entropy = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum") / 2
    p, q = logits.log_softmax(-1).view(-1, 2, len(weight)).unbind(1)
    return entropy + strength * sum(functional.kl_div(b, a, log_target=True, reduction="sum") for a, b in ((p, q), (q, p))) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("strength", [0.7, 5.0])
def test_r_drop_equals_its_definition_with_its_gradients(chunked: None, smoothing: float, strength: float) -> None:
    inputs, weight, bias, targets = make()
    targets = targets[::2].repeat_interleave(2)
    cost, nll = linear_cross_entropy(inputs, weight, bias, targets, smoothing, strength)
    expected = plain_r_drop(inputs, weight, bias, targets, smoothing, strength)
    torch.testing.assert_close(cost, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(nll, plain_r_drop(inputs, weight, bias, targets, 0.0, 0.0).detach(), atol=1e-9, rtol=0)
    assert not nll.requires_grad
    leaves = (inputs, weight, bias)
    for got, want in zip(torch.autograd.grad(3 * cost, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(inputs, weight, bias, targets, smoothing, strength)[0], cost.detach())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_rows_count_by_their_importance(chunked: None, smoothing: float) -> None:
    inputs, weight, bias, targets = make()
    importance = torch.randn(10, dtype=torch.double)
    cost, nll = linear_cross_entropy(inputs, weight, bias, targets, smoothing, importance=importance)
    logits = functional.linear(inputs, weight, bias)
    expected = importance @ functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="none")
    torch.testing.assert_close(cost, expected)
    torch.testing.assert_close(nll, functional.cross_entropy(logits, targets, reduction="sum").detach())
    leaves = (inputs, weight, bias)
    for got, want in zip(torch.autograd.grad(3 * cost, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(got, want)


def test_r_drop_by_finite_differences() -> None:
    *leaves, targets = make()
    targets = targets[::2].repeat_interleave(2)

    def cost(step: float) -> Tensor:
        return linear_cross_entropy(*(x + step * d for x, d in zip(leaves, directions, strict=True)), targets, 0.1, 1.5)[0]  # type: ignore[misc]

    directions = [torch.randn_like(x) for x in leaves]
    slope = sum((g * d).sum() for g, d in zip(torch.autograd.grad(cost(0.0), leaves), directions, strict=True))
    assert ((cost(1e-5) - cost(-1e-5)) / 2e-5).item() == pytest.approx(float(slope), rel=1e-7)


def test_two_equal_rows_cost_what_one_does() -> None:
    inputs, weight, bias, targets = make()
    one = linear_cross_entropy(inputs, weight, bias, targets, 0.1)
    two = linear_cross_entropy(inputs.repeat_interleave(2, 0), weight, bias, targets.repeat_interleave(2), 0.1, 5.0)
    torch.testing.assert_close(two, one)


def test_the_second_sum_has_no_gradient() -> None:
    smoothed, nll = linear_cross_entropy(*make(), 0.1)
    assert smoothed.requires_grad and not nll.requires_grad


def test_without_gradients_the_values_are_the_same_and_none_are_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [x.detach() for x in linear_cross_entropy(*make(), 0.1)]
    monkeypatch.setattr(Tensor, "scatter_add_", None)
    with torch.no_grad():
        got = linear_cross_entropy(*make(), 0.1)
    assert not got[0].requires_grad
    torch.testing.assert_close(list(got), expected)


def test_certain_and_hopeless_predictions_stay_finite() -> None:
    inputs, weight = torch.tensor([[1.0], [1.0]], requires_grad=True), torch.tensor([[300.0], [-300.0]], requires_grad=True)
    smoothed, nll = linear_cross_entropy(inputs, weight, torch.zeros(2), torch.tensor([0, 1]), 0.0)
    assert nll.item() == pytest.approx(600)
    assert all(g.isfinite().all() for g in torch.autograd.grad(smoothed, (inputs, weight)))
    opposite = inputs.detach().mul(torch.tensor([[1.0], [-1.0]])).requires_grad_()
    cost, nll = linear_cross_entropy(opposite, weight, torch.zeros(2), torch.tensor([0, 0]), 0.0, 1.0)
    assert cost.item() == pytest.approx(300 + 600)
    assert all(g.isfinite().all() for g in torch.autograd.grad(cost, (opposite, weight)))


@pytest.mark.parametrize("r_drop", [0.0, 1.5])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(chunked: None, dtype: torch.dtype, r_drop: float) -> None:
    inputs, weight, bias, targets = make(torch.float32)
    exact = linear_cross_entropy(inputs, weight, bias, targets, 0.1, r_drop)[0]
    with torch.autocast("cpu", dtype):
        half, nll = linear_cross_entropy(inputs.to(dtype), weight, bias, targets, 0.1, r_drop)
    assert half.dtype == nll.dtype == torch.float32
    torch.testing.assert_close(half, exact, rtol=0.01, atol=0)
    leaves = (inputs, weight, bias)
    for got, want in zip(torch.autograd.grad(half, leaves), torch.autograd.grad(exact, leaves), strict=True):
        assert got.dtype == torch.float32
        assert (got - want).norm() < 0.03 * want.norm()
