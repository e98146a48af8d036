"""The training loss, fused with the projection to the vocabulary so that the logits of a batch never exist all at once."""

from typing import Any

import torch
from torch import Tensor

from nmt.model.kernels import Product


def linear_cross_entropy(inputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross entropy of softmax(W x + b), summed over rows.

    With p the predicted distribution, y the target and ε the smoothing, a row costs (1 − ε)·(−log p_y) + ε·(−1/V Σ_k log p_k): the
    mass ε is spread evenly over the whole vocabulary, as in torch.nn.functional.cross_entropy.

    Args:
        inputs: (N, R), one row for each real target token.
        weight: (V, R), and bias: (V,).
        targets: (N,) int64.
        label_smoothing: ε, from 0 to less than 1.

    Returns:
        The smoothed sum, and the sum of −log p_y, which has no gradient: scalars in at least float32.
    """
    device = inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
    with torch.autocast(device, enabled=False):
        smoothed, nll = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            inputs, weight, bias, targets, label_smoothing, dtype, torch.is_grad_enabled()
        )
    return smoothed, nll


class _LinearCrossEntropy(torch.autograd.Function):
    """Forward forms the gradients too, a chunk of rows at a time, while the probabilities are there."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype, needs_grad: bool
    ) -> tuple[Tensor, Tensor]:
        x, w, b, wide = inputs.to(dtype), weight.to(dtype), bias.to(dtype), weight.dtype
        d_inputs, d_weight, d_bias = (torch.zeros_like(p) if needs_grad else None for p in (inputs, weight, bias))
        smoothed, nll = weight.new_zeros(2)
        rows = max(1, _elements(weight) // weight.shape[0])
        vocabulary = Product(w, b)
        for i in range(0, len(x), rows):
            logits, y = vocabulary(x[i : i + rows]).to(wide), targets[i : i + rows].unsqueeze(1)
            picked, mean, top = logits.gather(1, y).squeeze(1), logits.mean(-1), logits.amax(-1)
            probabilities = torch.softmax(logits, -1, out=logits)
            # log Σ exp without a second exp over the vocabulary: the most probable word has logit `top`.
            normalizer = top - probabilities.amax(-1).log_()
            losses = normalizer - picked
            nll += losses.sum()
            smoothed += (1 - smoothing) * losses.sum() + smoothing * (normalizer - mean).sum()
            if d_inputs is not None and d_weight is not None and d_bias is not None:
                # dL/dlogits = p − (1 − ε)·onehot(y) − ε/V
                d_logits = probabilities.sub_(smoothing / len(weight)) if smoothing else probabilities
                d_logits.scatter_add_(1, y, torch.full_like(picked, smoothing - 1).unsqueeze(1))
                d_bias += d_logits.sum(0)
                d_logits = d_logits.to(dtype)
                d_inputs[i : i + rows] = d_logits @ w
                if dtype == d_weight.dtype:
                    d_weight.addmm_(d_logits.t(), x[i : i + rows])
                else:
                    d_weight += d_logits.t() @ x[i : i + rows]
        ctx.save_for_backward(d_inputs, d_weight, d_bias)
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_inputs, d_weight, d_bias = ctx.saved_tensors
        return d_inputs.mul_(grads[0]), d_weight.mul_(grads[0]), d_bias.mul_(grads[0]), None, None, None, None


def _elements(x: Tensor) -> int:
    """How many logits to hold at once: what stays in a CPU's cache, or keeps a GPU busy."""
    return 2**22 if x.device.type == "cpu" else 2**27
