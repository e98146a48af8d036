"""Arithmetic that a CPU does faster in another way than the plain one: repeated products with one weight, and tanh."""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional


class Product:
    """x ↦ W x + b, without gradients, as often as wanted.

    On a CPU the weight is copied once into the blocked layout of oneDNN, PyTorch's other library of matrix products. For few rows that is
    up to twice as fast as a plain product, and how a row is rounded does not depend on how many rows there are. Where PyTorch lacks the
    two operators, or the processor lacks the type, it is the plain product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Take W (N, M) and b (N,), whose dtype is that of the products; both must not change afterwards."""
        self.dtype, self._bias = weight.dtype, bias
        self._packed = weight.device.type == "cpu" and _can_pack(weight.dtype)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()) if self._packed else weight

    def __call__(self, x: Tensor) -> Tensor:
        """W x + b of the last dimension: x (…, M) of any dtype to (…, N) in the weight's."""
        x = x.to(self.dtype)
        if not self._packed:
            return functional.linear(x, self._weight, self._bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return product


def tanh_(x: Tensor) -> Tensor:
    """tanh in place, without gradients, as 2σ(2x) − 1: a third of the time."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


@cache
def _can_pack(dtype: torch.dtype) -> bool:
    """Whether packed products of this type work here: they are tried, since the operators are not documented."""
    x, weight = torch.ones(2, 3, dtype=dtype), torch.ones(5, 3, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        return bool((torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "") == 3).all())
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
