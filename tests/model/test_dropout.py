import pytest
import torch

from nmt.model.dropout import Dropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.95])
def test_zeroes_the_given_share_and_keeps_the_expectation(probability: float) -> None:
    torch.manual_seed(0)
    x = torch.full((1001, 203), 2.0)
    y = Dropout(probability)(x)
    assert (y == 0).float().mean().item() == pytest.approx(probability, abs=0.005)
    assert y.mean().item() == pytest.approx(2, rel=0.03)
    assert len(y.unique()) == 2


@pytest.mark.parametrize("lane", range(4))
def test_neighbours_are_independent(lane: int) -> None:
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(40_000)) > 0).view(-1, 4)
    agree = (kept[:, lane] == kept[:, (lane + 1) % 4]).float().mean().item()
    assert agree == pytest.approx(0.5, abs=0.02)


def test_follows_the_seed() -> None:
    dropout, x = Dropout(0.5), torch.ones(7, 3)
    torch.manual_seed(5)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


def test_gradient_passes_where_values_do() -> None:
    x = torch.ones(5, 5, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_identity_in_evaluation_and_at_zero() -> None:
    x = torch.randn(4, 4)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_elements_may_share_their_fate_along_a_dimension() -> None:
    torch.manual_seed(0)
    x = torch.rand(5, 40, 30) + 1
    same = Dropout(0.25, shared=0)(x) / x
    torch.testing.assert_close(same, same[:1].expand_as(same))
    assert not torch.equal(same[:, 0], same[:, 1])
    words = Dropout(0.25, shared=-1)(x) / x
    torch.testing.assert_close(words, words[..., :1].expand_as(words))
    for kept in (same[0], words[..., 0]):
        assert (kept == 0).float().mean().item() == pytest.approx(0.25, abs=0.1)
        assert kept[kept > 0].tolist() == pytest.approx([4 / 3] * int((kept > 0).sum()), rel=1e-3)


def test_a_mask_is_what_forward_multiplies_with() -> None:
    dropout, x = Dropout(0.5), torch.randn(7, 3)
    torch.manual_seed(5)
    dropped = dropout(x)
    torch.manual_seed(5)
    mask = dropout.mask(x)
    assert mask is not None and torch.equal(dropped, x * mask)
    assert dropout.eval().mask(x) is None
    assert Dropout(0.0).mask(x) is None
