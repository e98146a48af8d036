"""The training loss, fused with the projection to the vocabulary so that the logits of a batch never exist all at once."""

from typing import Any

import torch
from torch import Tensor

from nmt.model.kernels import Product


def linear_cross_entropy(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float,
    r_drop: float = 0.0,
    importance: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross entropy of softmax(W x + b), summed over rows.

    With p the predicted distribution, y the target and ε the smoothing, a row costs (1 − ε)·(−log p_y) + ε·(−1/V Σ_k log p_k): the
    mass ε is spread evenly over the whole vocabulary, as in torch.nn.functional.cross_entropy.

    With R-Drop (Liang et al. 2021) rows 2i and 2i + 1 are token i with two dropout masks. Of their distributions p and q the token costs
    the mean of both rows' costs plus α·½[KL(p‖q) + KL(q‖p)]: half of the paper's loss, so that this α is half of the paper's.

    Args:
        inputs: (N, R), one row for each real target token, or two.
        weight: (V, R), and bias: (V,).
        targets: (N,) int64.
        label_smoothing: ε, from 0 to less than 1.
        r_drop: α; 0 is one row a token.
        importance: (N,) float32, of either sign: what each row's cost is multiplied by in the first sum; not with R-Drop.

    Returns:
        The sum of what tokens cost, and the sum of −log p_y (with R-Drop the mean of both rows'), which has no gradient: scalars in at
        least float32.
    """
    device = inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
    with torch.autocast(device, enabled=False):
        smoothed, nll = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            inputs, weight, bias, targets, label_smoothing, r_drop, importance, dtype, torch.is_grad_enabled()
        )
    return (smoothed / 2, nll / 2) if r_drop else (smoothed, nll)


class _LinearCrossEntropy(torch.autograd.Function):
    """Forward forms the gradients too, a chunk of rows at a time, while the probabilities are there."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        r_drop: float,
        importance: Tensor | None,
        dtype: torch.dtype,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        x, w, b, wide = inputs.to(dtype), weight.to(dtype), bias.to(dtype), weight.dtype
        d_inputs, d_weight, d_bias = (torch.zeros_like(p) if needs_grad else None for p in (inputs, weight, bias))
        smoothed, nll = weight.new_zeros(2)
        rows = 2 * max(1, _elements(weight) // (2 * len(weight))) if r_drop else max(1, _elements(weight) // len(weight))
        vocabulary = Product(w, b)
        for i in range(0, len(x), rows):
            logits, y = vocabulary(x[i : i + rows]).to(wide), targets[i : i + rows].unsqueeze(1)
            picked, mean, top = logits.gather(1, y).squeeze(1), logits.mean(-1), logits.amax(-1)
            gap = logits[::2] - logits[1::2] if r_drop else None
            probabilities = torch.softmax(logits, -1, out=logits)
            # log Σ exp without a second exp over the vocabulary: the most probable word has logit `top`.
            normalizer = top - probabilities.amax(-1).log_()
            losses = normalizer - picked
            nll += losses.sum()
            if importance is None:
                smoothed += (1 - smoothing) * losses.sum() + smoothing * (normalizer - mean).sum()
            else:
                share = importance[i : i + rows]
                smoothed += torch.dot(share, (1 - smoothing) * losses + smoothing * (normalizer - mean))
            if gap is not None:
                smoothed += _pull_together(probabilities, gap, r_drop)
            if d_inputs is not None and d_weight is not None and d_bias is not None:
                # dL/dlogits = p − (1 − ε)·onehot(y) − ε/V
                d_logits = probabilities.sub_(smoothing / len(weight)) if smoothing else probabilities
                d_logits.scatter_add_(1, y, torch.full_like(picked, smoothing - 1).unsqueeze(1))
                if importance is not None:
                    d_logits.mul_(share.unsqueeze(1))
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
        return d_inputs.mul_(grads[0]), d_weight.mul_(grads[0]), d_bias.mul_(grads[0]), None, None, None, None, None, None


def _pull_together(probabilities: Tensor, gap: Tensor, strength: float) -> Tensor:
    """What the disagreement of each two rows costs, strength·[KL(p‖q) + KL(q‖p)], summed; adds its gradient to `probabilities`.

    With x and z the logits of p and q, log p − log q is x − z but for a constant, which is the same in both sums and leaves
    KL(p‖q) + KL(q‖p) = Σ (p − q)(x − z), and by x its derivative is p·(x − z − Σ p (x − z)) + p − q.

    Args:
        probabilities: (2N, V), p in the even rows and q in the odd ones; what comes out is the start of the gradient by the logits.
        gap: (N, V), x − z.
    """
    p, q = probabilities[::2], probabilities[1::2]
    means = torch.bmm(probabilities.view(len(gap), 2, -1), gap.unsqueeze(2))  # (N, 2, 1): Σ p (x − z) and Σ q (x − z)
    difference = p - q
    p.addcmul_(p, gap - means[:, 0], value=strength).add_(difference, alpha=strength)
    q.addcmul_(q, gap - means[:, 1], value=-strength).sub_(difference, alpha=strength)
    return strength * (means[:, 0] - means[:, 1]).sum()


def _elements(x: Tensor) -> int:
    """How many logits to hold at once: what stays in a CPU's cache, or keeps a GPU busy."""
    return 2**22 if x.device.type == "cpu" else 2**27
