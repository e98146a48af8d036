"""One step of a GRU, readably, and in place, as one of additive attention, forward and backward: what the fast loops consist of.

Gates are stored in the order new, reset, update, so that in backward the gradients of both sides of the reset product are neighbours and
need no copy:

    n, r, z, n∘r, query      first three: of the input gates; last four: of the recurrent product
"""

import torch
from torch import Tensor

from nmt.model.attention import MASKED
from nmt.model.kernels import tanh_

aten = torch.ops.aten


def gru(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """The state after `state` (…, D), from the two halves x and u of its gates, (…, 3D), each with its bias.

    r = σ(x_r + u_r),  z = σ(x_z + u_z),  n = tanh(x_n + r ∘ u_n);  (1 − z) ∘ n + z ∘ state.

    As in PyTorch and cuDNN, the reset gate acts on the product U s; in Cho et al. (2014) and Bahdanau et al. (2015) it acts on s before it.
    """
    inputs, recurrent, size = inputs.to(state.dtype), recurrent.to(state.dtype), state.shape[-1]
    reset, update = torch.sigmoid(inputs[..., : 2 * size] + recurrent[..., : 2 * size]).chunk(2, -1)
    new = torch.tanh(inputs[..., 2 * size :] + reset * recurrent[..., 2 * size :])
    return torch.lerp(new, state, update)


def gates_forward(inputs: Tensor, hidden: Tensor, previous: Tensor, active: Tensor, out: Tensor) -> None:
    """s_t (…, D) into out, and n, r, z (…, 3D) into active, which may be inputs itself.

    Args:
        inputs: (…, 3D), the inputs' half of n, r, z before their nonlinearity.
        hidden: (…, ≥ 3D), the state's half, in PyTorch's order r, z, n.
        previous: (…, D), s_{t−1}.
    """
    size = previous.shape[-1]
    new, r_z = active[..., :size], active[..., size:]
    torch.add(inputs[..., size:], hidden[..., : 2 * size], out=r_z).sigmoid_()
    tanh_(torch.addcmul(inputs[..., :size], r_z[..., :size], hidden[..., 2 * size : 3 * size], out=new))
    torch.lerp(new, previous, r_z[..., size:], out=out)


def gates_backward(d_state: Tensor, active: Tensor, previous: Tensor, hidden_new: Tensor, out: Tensor) -> None:
    """From the gradient of s_t (…, D) those of n, r, z, before their nonlinearity, and of n∘r, side by side into out (…, ≥ 4D)."""
    size = d_state.shape[-1]
    new, reset, update = active.chunk(3, -1)
    d_new, d_reset, d_update, d_hidden = (out[..., i * size : (i + 1) * size] for i in range(4))
    aten.sigmoid_backward.grad_input((previous - new).mul_(d_state), update, grad_input=d_update)
    aten.tanh_backward.grad_input(torch.addcmul(d_state, d_state, update, value=-1), new, grad_input=d_new)
    aten.sigmoid_backward.grad_input(d_new * hidden_new, reset, grad_input=d_reset)
    torch.mul(d_new, reset, out=d_hidden)


def attend_forward(keys: Tensor, query: Tensor, energy: Tensor, padding: Tensor, sigmoids: Tensor, out: Tensor) -> Tensor:
    """α (B, S) into out, from keys (B, S, A), query (B, A), energy (A,) and padding (B, S); sigmoids is room for (B, S, A)."""
    torch.add(keys, query.unsqueeze(1), out=sigmoids).sigmoid_()
    energies = torch.mv(sigmoids.view(-1, sigmoids.shape[2]), energy).view_as(padding)
    return torch.softmax(energies.masked_fill_(padding, MASKED), -1, out=out)


def attend_backward(
    d_alpha: Tensor,
    alpha: Tensor,
    keys: Tensor,
    query: Tensor,
    energy: Tensor,
    sigmoids: Tensor,
    d_keys: Tensor,
    d_energy: Tensor,
    out: Tensor,
) -> None:
    """From the gradient of α (B, S), which is overwritten, that of the query (B, A) into out, and those of energy and keys added to theirs.

    Shapes as in `attend_forward`. What d_keys sums up is still to be multiplied by energy, once, after the last step.
    """
    d_energies = d_alpha.mul_(alpha)
    d_energies.addcmul_(alpha, d_energies.sum(-1, keepdim=True), value=-1)
    torch.add(keys, query.unsqueeze(1), out=sigmoids).sigmoid_()
    d_energy.addmv_(sigmoids.view(-1, keys.shape[2]).t(), d_energies.view(-1))
    slopes = sigmoids.addcmul_(sigmoids, sigmoids, value=-1)
    d_keys.addcmul_(slopes, d_energies.unsqueeze(2))
    torch.mul(torch.bmm(d_energies.unsqueeze(1), slopes).squeeze(1), energy, out=out)


def dropped(states: Tensor, kept: Tensor | None) -> Tensor:
    """States as they go into a product; kept is what dropout multiplies them with, None is 1."""
    return states if kept is None else states * kept


def accumulate(out: Tensor, x: Tensor, weight: Tensor, kept: Tensor | None) -> None:
    """out += (x @ weight) ∘ kept, the product computed in the weight's dtype."""
    if kept is not None:
        out.addcmul_(torch.matmul(x.to(weight.dtype), weight).to(out.dtype), kept)
    elif weight.dtype != out.dtype:
        out.add_(torch.matmul(x.to(weight.dtype), weight))
    elif weight.dim() == 2:
        out.addmm_(x, weight)
    else:
        out.baddbmm_(x, weight)


def matrix_backward(d_products: Tensor, states: Tensor, kept: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The gradients of matrix and bias from those of all steps' products (T, B, N) with states (T, B, D), dropped as `kept` says."""
    d_rows = d_products.flatten(0, 1).to(dtype)
    return d_rows.t() @ dropped(states, kept).flatten(0, 1).to(dtype), d_rows.sum(0)


def matrices_backward(d_products: Tensor, states: Tensor, kept: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`matrix_backward` for two directions at once: products (2, T, B, N), states (T, 2, B, D)."""
    d_rows = d_products.flatten(1, 2).to(dtype)
    previous = dropped(states, kept).transpose(0, 1).flatten(1, 2)
    return torch.bmm(d_rows.transpose(1, 2), previous.to(dtype)), d_rows.sum(1)
