"""The conditional GRU over whole target sentences, as unroll.py has it for the plain one."""

from typing import Any

import torch
from torch import Tensor

from nmt.model.kernels import Product
from nmt.model.steps import accumulate, attend_backward, attend_forward, dropped, gates_backward, gates_forward, matrix_backward


class ConditionalGru(torch.autograd.Function):
    """s'_t = GRU₁(s_{t−1}, gates_t), α_t = softmax_j(energy·σ(query(s'_t) + keys_j)), s_t = GRU₂(s'_t, Σ_j α_tj values_j)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        state: Tensor,
        values: Tensor,
        keys: Tensor,
        padding: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        energy: Tensor,
        kept: Tensor | None,
        first_recurrent: Tensor,
        first_bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Shapes as in `AttentionGru`; recurrent and bias are those of GRU₂ and the query, first_recurrent (3D, D) of GRU₁.

        Returns:
            states (T, B, D) and weights (T, B, S).
        """
        (steps, batch, _), size = gates.shape, state.shape[1]
        states, proposals = state.new_empty(steps + 1, batch, size), state.new_empty(steps, batch, size)
        states[0] = state
        weights = state.new_empty(steps, batch, keys.shape[1])
        first_hidden, first_active, active = torch.empty_like(gates), torch.empty_like(gates), torch.empty_like(gates)
        hidden = state.new_empty(steps, batch, recurrent.shape[0])
        sigmoids = torch.empty_like(keys)
        first_product, product = Product(first_recurrent, first_bias), Product(recurrent, bias)
        for t in range(steps):
            first_h = first_hidden[t].copy_(first_product(dropped(states[t], kept)))
            gates_forward(gates[t], first_h, states[t], first_active[t], proposals[t])
            h = hidden[t].copy_(product(dropped(proposals[t], kept)))
            alpha = attend_forward(keys, h[:, 3 * size :], energy, padding, sigmoids, weights[t])
            torch.bmm(alpha.unsqueeze(1), values, out=active[t].unsqueeze(1))
            gates_forward(active[t], h, proposals[t], active[t], states[t + 1])
        ctx.save_for_backward(
            states, proposals, weights, first_hidden, first_active, hidden, active, values, keys, recurrent, energy, kept, first_recurrent
        )
        return states[1:], weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _conditional_gru_backward(ctx.saved_tensors, *grads)


def _conditional_gru_backward(saved: tuple[Any, ...], d_states: Tensor, d_weights: Tensor) -> tuple[Tensor | None, ...]:
    states, proposals, weights, first_hidden, first_active, hidden, active, values, keys, recurrent, energy, kept, first_recurrent = saved
    (steps, batch, size), attention = d_states.shape, keys.shape[2]
    d_first, d_all = states.new_empty(steps, batch, 4 * size), states.new_empty(steps, batch, 4 * size + attention)
    d_state = torch.zeros_like(states[0])
    d_keys, d_energy, sigmoids = torch.zeros_like(keys), torch.zeros_like(energy), torch.empty_like(keys)
    for t in range(steps - 1, -1, -1):
        d_t, query = d_all[t], hidden[t, :, 3 * size :]
        d_state.add_(d_states[t])
        gates_backward(d_state, active[t], proposals[t], hidden[t, :, 2 * size : 3 * size], d_t)
        d_alpha = torch.baddbmm(d_weights[t].unsqueeze(2), values, d_t[:, : 3 * size].unsqueeze(2)).squeeze(2)
        attend_backward(d_alpha, weights[t], keys, query, energy, sigmoids, d_keys, d_energy, d_t[:, 4 * size :])
        d_state.mul_(active[t, :, 2 * size :])
        accumulate(d_state, d_t[:, size:], recurrent, kept)  # now of s'_t
        gates_backward(d_state, first_active[t], states[t], first_hidden[t, :, 2 * size :], d_first[t])
        d_state.mul_(first_active[t, :, 2 * size :])
        accumulate(d_state, d_first[t, :, size:], first_recurrent, kept)
    d_values = torch.bmm(weights.permute(1, 2, 0), d_all[..., : 3 * size].transpose(0, 1))
    d_matrix, d_bias = matrix_backward(d_all[..., size:], proposals, kept, recurrent.dtype)
    d_first_matrix, d_first_bias = matrix_backward(d_first[..., size:], states[:-1], kept, recurrent.dtype)
    d_gates = d_first[..., : 3 * size]
    return d_gates, d_state, d_values, d_keys.mul_(energy), None, d_matrix, d_bias, d_energy, None, d_first_matrix, d_first_bias
