import torch
from torch import nn

from nmt.model.norm import Norm, make_norm


def test_vectors_get_mean_zero_and_deviation_one_then_gain_and_offset() -> None:
    torch.manual_seed(0)
    x = 3 * torch.randn(5, 4, 100, dtype=torch.double) + 2
    norm = Norm(4, 100).double()
    torch.testing.assert_close(norm(x).mean(-1), torch.zeros(5, 4, dtype=torch.double))
    torch.testing.assert_close(norm(x).std(-1, correction=0), torch.ones(5, 4, dtype=torch.double), atol=1e-5, rtol=0)
    plain = norm(x)
    nn.init.uniform_(norm.weight)
    nn.init.uniform_(norm.bias)
    torch.testing.assert_close(norm(x), plain * norm.weight + norm.bias)


def test_half_precision_comes_out_in_float32() -> None:
    assert Norm(6)(torch.randn(2, 6, dtype=torch.bfloat16)).dtype == torch.float32


def test_without_it_everything_stays() -> None:
    x = torch.randn(3, 4)
    assert make_norm(False, 4)(x) is x
    assert isinstance(make_norm(True, 4), Norm)
