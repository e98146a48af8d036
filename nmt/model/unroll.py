"""The recurrences over whole sentences in training: the readable loop, and a fast one with a backward pass written by hand.

Autograd through a loop forms and adds up every weight gradient once a step. Here the loop holds only what must wait for the state before
it; states are stored, sigmoids are recomputed in backward, and each weight gradient is one matrix product at the end. What a step does,
and in which order gates are stored, is in steps.py.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nmt.model.attention import Additive, Memory
from nmt.model.cell import Cell, cell_parameters, make_cells
from nmt.model.decoder import Decoder
from nmt.model.kernels import Product
from nmt.model.norm import Norm
from nmt.model.steps import (
    accumulate,
    attend_backward,
    attend_forward,
    dropped,
    gates_backward,
    gates_forward,
    matrices_backward,
    matrix_backward,
)
from nmt.model.unroll_normalized import NormalizedBidirectionalGru, unroll_normalized


def unroll(decoder: Decoder, embedded: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """All states and contexts of target sentences that are known (teacher forcing).

    Args:
        decoder: its attention and layer normalisation decide which of the loops runs.
        embedded: (B, T, E), E y_0 … E y_{T−1}.
        state: (B, D), s_0.
        memory: of the B sentences.

    Returns:
        states s_1 … s_T (B, T, D) and contexts c_1 … c_T (B, T, 2H).
    """
    kept = decoder.state_dropout.mask(state)
    if isinstance(decoder.attention, Additive):
        fast = unroll_normalized if decoder.layer_norm else unroll_additive
        return fast(decoder, decoder.attention, embedded, state, memory, kept)
    return unroll_steps(decoder, embedded, state, memory, kept)


def unroll_steps(decoder: Decoder, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`unroll` by the decoder's own step: for everything, and what the fast loops are checked against.

    `kept` (B, D) is what dropout multiplies a state with where it goes into a product; None is 1. The same in the other loops.
    """
    state, states, contexts = state.unsqueeze(1), [], []
    kept = None if kept is None else kept.unsqueeze(1)
    for y in embedded.unsqueeze(2).unbind(1):
        state, context, _ = decoder.step(y, state, memory, kept)
        states.append(state)
        contexts.append(context)
    return torch.cat(states, 1), torch.cat(contexts, 1)


def unroll_additive(
    decoder: Decoder, attention: Additive, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`unroll` for additive attention by the fast loop.

    C c_i = Σ_j α_ij C h_j: projecting the annotations beforehand leaves a weighted sum in the loop instead of a matrix product.
    """
    size = state.shape[-1]
    weight, bias = (p.roll(size, 0) for p in (decoder.gates_embedding.weight, decoder.gates_embedding.bias))
    gates = functional.linear(embedded.transpose(0, 1), weight, bias)
    values = functional.linear(memory.annotations, decoder.gates_context.weight.roll(size, 0))
    looking = decoder.gates_proposal or decoder.gates_state  # reads the state that attention looks from
    recurrent = torch.cat((looking.weight, 2 * attention.query.weight)).to(gates.dtype)
    bias = functional.pad(looking.bias, (0, attention.energy.shape[0])).to(gates.dtype)
    wide = state.dtype
    inputs = gates.to(wide), state, values.to(wide), memory.keys, ~memory.mask, recurrent, bias, 2 * attention.energy, kept
    cells = cell_parameters(decoder, gates.dtype)
    with torch.autocast(state.device.type, enabled=False):
        states, weights = AttentionGru.apply(*inputs, decoder.gates_proposal is not None, *cells)  # type: ignore[no-untyped-call]
    contexts = torch.bmm(weights.transpose(0, 1).to(memory.annotations.dtype), memory.annotations)
    return states.transpose(0, 1), contexts


def bidirectional(gates: Tensor, recurrent: Tensor, bias: Tensor, kept: Tensor | None = None, norm: Norm | None = None) -> Tensor:
    """Two independent GRUs over the same number of steps, from zero states: the directions of an encoder.

    Args:
        gates: (2, S, B, 3H), the inputs' half of the gates with bias, in the order new, reset, update.
        recurrent: (2, 3H, H), in PyTorch's order reset, update, new; so bias (2, 3H). Their dtype is that of the products.
        kept: (2, B, H), what dropout multiplies a state with where it goes into a product; None is 1.
        norm: of the products with states, gain and offset (2, 1, 3H).

    Returns:
        states (S, 2, B, H), in at least float32.
    """
    with torch.autocast(gates.device.type, enabled=False):
        wide = gates.to(torch.promote_types(gates.dtype, torch.float32))
        if norm is None:
            states: Tensor = BidirectionalGru.apply(wide, recurrent, bias, kept)  # type: ignore[no-untyped-call]
        else:
            states = NormalizedBidirectionalGru.apply(wide, recurrent, bias, kept, *norm.parameters())  # type: ignore[no-untyped-call]
    return states


class AttentionGru(torch.autograd.Function):
    """s_t = GRU(s_{t−1}, gates_t + Σ_j α_tj values_j), α_t = softmax_j(energy·σ(query(s_{t−1}) + keys_j)), for t = 1 … T.

    conditional: s'_t = GRU₁(s_{t−1}, gates_t), from which attention looks, and s_t = GRU₂(s'_t, Σ_j α_tj values_j).
    Transitions follow: each is a GRU without input that goes from s_t to the s_t that counts.
    """

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
        conditional: bool,
        *others: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Shapes: gates (T, B, 3D), state (B, D), values (B, S, 3D), keys (B, S, A), padding (B, S), recurrent (3D + A, D), energy (A,).

        kept (B, D) is as in `unroll_steps`. recurrent and bias are those of the cell that reads the context and of the query; others those
        (3D, D) and (3D,) of the other cells.

        Returns:
            states (T, B, D) and weights (T, B, S).
        """
        (steps, batch, _), size = gates.shape, state.shape[1]
        cells = make_cells(kept, others, 2)
        states = state.new_empty(steps + 1, 1 + len(cells), batch, size)  # after each cell of each step
        states[0, -1] = state
        seen = states[1:, 0] if conditional else states[:-1, -1]  # what attention looks from
        weights = state.new_empty(steps, batch, keys.shape[1])
        hidden = state.new_empty(steps, batch, recurrent.shape[0])
        active = torch.empty_like(gates)
        sigmoids, nothing = torch.empty_like(keys), state.new_zeros(3 * size)
        product = Product(recurrent, bias)
        for t in range(steps):
            if conditional:
                cells[0].forward(gates[t], states[t, -1], seen[t])
            h = hidden[t].copy_(product(dropped(seen[t], kept)))
            alpha = attend_forward(keys, h[:, 3 * size :], energy, padding, sigmoids, weights[t])
            torch.baddbmm(gates[t].unsqueeze(1), alpha.unsqueeze(1), values, beta=int(not conditional), out=active[t].unsqueeze(1))
            chain = states[t + 1, conditional:]
            gates_forward(active[t], h, seen[t], active[t], chain[0])
            for k, cell in enumerate(cells[conditional:]):
                cell.forward(nothing, chain[k], chain[k + 1])
        ctx.save_for_backward(seen, weights, hidden, active, values, keys, recurrent, energy, kept)
        ctx.conditional, ctx.cells = conditional, cells
        return states[1:, -1], weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _attention_gru_backward(ctx.saved_tensors, ctx.conditional, ctx.cells, *grads)


def _attention_gru_backward(
    saved: tuple[Any, ...], conditional: bool, cells: list[Cell], d_states: Tensor, d_weights: Tensor
) -> tuple[Tensor | None, ...]:
    seen, weights, hidden, active, values, keys, recurrent, energy, kept = saved
    (steps, batch, size), attention = d_states.shape, keys.shape[2]
    d_all = seen.new_empty(steps, batch, 4 * size + attention)
    d_state = torch.zeros_like(seen[0])
    d_keys, d_energy, sigmoids = torch.zeros_like(keys), torch.zeros_like(energy), torch.empty_like(keys)
    for cell in cells:
        cell.start_backward()
    for t in range(steps - 1, -1, -1):
        d_t, query = d_all[t], hidden[t, :, 3 * size :]
        d_state.add_(d_states[t])
        for cell in reversed(cells[conditional:]):
            cell.backward(t, d_state)
        gates_backward(d_state, active[t], seen[t], hidden[t, :, 2 * size : 3 * size], d_t)
        d_alpha = torch.baddbmm(d_weights[t].unsqueeze(2), values, d_t[:, : 3 * size].unsqueeze(2)).squeeze(2)
        attend_backward(d_alpha, weights[t], keys, query, energy, sigmoids, d_keys, d_energy, d_t[:, 4 * size :])
        d_state.mul_(active[t, :, 2 * size :])
        accumulate(d_state, d_t[:, size:], recurrent, kept)
        if conditional:
            cells[0].backward(t, d_state)
    d_inputs = d_all[..., : 3 * size]
    d_gates = cells[0].d_inputs() if conditional else d_inputs
    d_values = torch.bmm(weights.permute(1, 2, 0), d_inputs.transpose(0, 1))
    d_matrix, d_bias = matrix_backward(d_all[..., size:], seen, kept, recurrent.dtype)
    d_others = [d_parameter for cell in cells for d_parameter in cell.gradients()]
    return d_gates, d_state, d_values, d_keys.mul_(energy), None, d_matrix, d_bias, d_energy, None, None, *d_others


class BidirectionalGru(torch.autograd.Function):
    """s_t = GRU(s_{t−1}, gates_t) for two directions at once, s_0 = 0: one batched matrix product a step."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, kept: Tensor | None) -> Tensor:
        """Shapes as in `bidirectional`."""
        _, steps, batch, size = *gates.shape[:3], recurrent.shape[2]
        states = gates.new_zeros(steps + 1, 2, batch, size)
        buffers = steps if any(ctx.needs_input_grad) else 1  # without a backward pass, one step's serve all
        hidden, active = gates.new_empty(2, buffers, 2, batch, 3 * size)
        transposed, biases = recurrent.transpose(1, 2), bias.unsqueeze(1)
        for t in range(steps):
            h, previous = hidden[t % buffers], dropped(states[t], kept)
            if transposed.dtype == h.dtype:
                torch.baddbmm(biases, previous, transposed, out=h)
            else:
                h.copy_(torch.baddbmm(biases, previous.to(transposed.dtype), transposed))
            gates_forward(gates[:, t], h, states[t], active[t % buffers], states[t + 1])
        ctx.save_for_backward(states, hidden, active, recurrent, kept)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _bidirectional_gru_backward(ctx.saved_tensors, *grads)


def _bidirectional_gru_backward(saved: tuple[Any, ...], d_states: Tensor) -> tuple[Tensor | None, ...]:
    states, hidden, active, recurrent, kept = saved
    steps, _, batch, size = d_states.shape
    d_all = states.new_empty(2, steps, batch, 4 * size)
    d_state = torch.zeros_like(states[0])
    for t in range(steps - 1, -1, -1):
        d_state.add_(d_states[t])
        gates_backward(d_state, active[t], states[t], hidden[t, ..., 2 * size :], d_all[:, t])
        d_state.mul_(active[t, ..., 2 * size :])
        accumulate(d_state, d_all[:, t, :, size:], recurrent, kept)
    d_matrix, d_bias = matrices_backward(d_all[..., size:], states[:-1], kept, recurrent.dtype)
    return d_all[..., : 3 * size], d_matrix, d_bias, None
