"""The loops of unroll.py with layer normalisation: each product with a state is normalised in the loop, and so is the context."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nmt.model.attention import Additive, Memory
from nmt.model.cell import Cell, cell_parameters, make_cells
from nmt.model.decoder import Decoder
from nmt.model.kernels import Product
from nmt.model.norm import Normalization
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


def unroll_normalized(
    decoder: Decoder, attention: Additive, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`unroll` for additive attention by the fast loop; gains and offsets of the query are doubled, as the keys are."""
    size, wide = state.shape[-1], state.dtype
    gates = decoder.norm_embedding(decoder.gates_embedding(embedded.transpose(0, 1))).roll(size, -1)
    values = functional.linear(memory.annotations, decoder.gates_context.weight.roll(size, 0))
    looking, of_state = decoder.gates_state, decoder.norm_state
    if decoder.gates_proposal is not None:
        looking, of_state = decoder.gates_proposal, decoder.norm_proposal
    recurrent = torch.cat((looking.weight, attention.query.weight)).to(values.dtype)
    bias = functional.pad(looking.bias, (0, attention.energy.shape[0])).to(values.dtype)
    inputs = gates.to(wide), state, values.to(wide), memory.keys, ~memory.mask, recurrent, bias, 2 * attention.energy, kept
    norms = (
        *of_state.parameters(),
        *(2 * p for p in attention.norm_query.parameters()),
        *(p.roll(size, 0) for p in decoder.norm_context.parameters()),
    )
    cells = cell_parameters(decoder, values.dtype)
    with torch.autocast(state.device.type, enabled=False):
        states, weights = NormalizedGru.apply(*inputs, decoder.gates_proposal is not None, *norms, *cells)  # type: ignore[no-untyped-call]
    contexts = torch.bmm(weights.transpose(0, 1).to(memory.annotations.dtype), memory.annotations)
    return states.transpose(0, 1), contexts


class NormalizedGru(torch.autograd.Function):
    """`AttentionGru` with normalised products."""

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
        """Shapes as in `AttentionGru`; others: gain and offset for the state, the query and the context of the cell that reads the context,
        then matrix, bias, gain and offset of the other cells.

        Returns:
            states (T, B, D) and weights (T, B, S).
        """
        (steps, batch, _), size = gates.shape, state.shape[1]
        of_state, of_query, of_context = norms = [Normalization(*others[i : i + 2]) for i in (0, 2, 4)]
        cells = make_cells(kept, others[6:], 4)
        states = state.new_empty(steps + 1, 1 + len(cells), batch, size)  # after each cell of each step
        states[0, -1] = state
        seen = states[1:, 0] if conditional else states[:-1, -1]  # what attention looks from
        weights = state.new_empty(steps, batch, keys.shape[1])
        active, sigmoids, nothing = torch.empty_like(gates), torch.empty_like(keys), state.new_zeros(3 * size)
        product = Product(recurrent, bias)
        for t in range(steps):
            if conditional:
                cells[0].forward(gates[t], states[t, -1], seen[t])
            h = product(dropped(seen[t], kept)).to(state.dtype)
            alpha = attend_forward(keys, of_query.forward(h[:, 3 * size :]), energy, padding, sigmoids, weights[t])
            context = of_context.forward(torch.bmm(alpha.unsqueeze(1), values).squeeze(1))
            inputs, chain = context if conditional else context + gates[t], states[t + 1, conditional:]
            gates_forward(inputs, of_state.forward(h[:, : 3 * size]), seen[t], active[t], chain[0])
            for k, cell in enumerate(cells[conditional:]):
                cell.forward(nothing, chain[k], chain[k + 1])
        ctx.save_for_backward(seen, weights, active, values, keys, recurrent, energy, kept)
        ctx.conditional, ctx.norms, ctx.cells = conditional, norms, cells
        return states[1:, -1], weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _normalized_gru_backward(ctx.saved_tensors, ctx.conditional, ctx.norms, ctx.cells, *grads)


def _normalized_gru_backward(
    saved: tuple[Any, ...], conditional: bool, norms: list[Normalization], cells: list[Cell], d_states: Tensor, d_weights: Tensor
) -> tuple[Tensor | None, ...]:
    seen, weights, active, values, keys, recurrent, energy, kept = saved
    of_state, of_query, of_context = norms
    (steps, batch, size), attention = d_states.shape, keys.shape[2]
    d_all, d_products = seen.new_empty(steps, batch, 4 * size), seen.new_empty(steps, batch, 3 * size + attention)
    d_contexts, d_query, d_state = torch.empty_like(active), seen.new_empty(batch, attention), torch.zeros_like(seen[0])
    d_keys, d_energy, sigmoids = torch.zeros_like(keys), torch.zeros_like(energy), torch.empty_like(keys)
    parts: list[Normalization | Cell] = [*norms, *cells]
    for part in parts:
        part.start_backward()
    for t in range(steps - 1, -1, -1):
        d = d_all[t]
        d_state.add_(d_states[t])
        for cell in reversed(cells[conditional:]):
            cell.backward(t, d_state)
        gates_backward(d_state, active[t], seen[t], of_state.outputs[t][:, 2 * size :], d)
        of_context.backward(t, d[:, : 3 * size], d_contexts[t])
        d_alpha = torch.baddbmm(d_weights[t].unsqueeze(2), values, d_contexts[t].unsqueeze(2)).squeeze(2)
        attend_backward(d_alpha, weights[t], keys, of_query.outputs[t], energy, sigmoids, d_keys, d_energy, d_query)
        of_state.backward(t, d[:, size:], d_products[t, :, : 3 * size])
        of_query.backward(t, d_query, d_products[t, :, 3 * size :])
        d_state.mul_(active[t, :, 2 * size :])
        accumulate(d_state, d_products[t], recurrent, kept)
        if conditional:
            cells[0].backward(t, d_state)
    d_gates = cells[0].d_inputs() if conditional else d_all[..., : 3 * size]
    d_values = torch.bmm(weights.permute(1, 2, 0), d_contexts.transpose(0, 1))
    d_matrix = matrix_backward(d_products, seen, kept, recurrent.dtype)
    d_others = [d_parameter for part in parts for d_parameter in part.gradients()]
    return d_gates, d_state, d_values, d_keys.mul_(energy), None, *d_matrix, d_energy, None, None, *d_others


class NormalizedBidirectionalGru(torch.autograd.Function):
    """`BidirectionalGru` with normalised products."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, kept: Tensor | None, gain: Tensor, offset: Tensor) -> Tensor:
        """Shapes as in `bidirectional`; gain and offset (2, 1, 3H), in PyTorch's order."""
        _, steps, batch, size = *gates.shape[:3], recurrent.shape[2]
        states = gates.new_zeros(steps + 1, 2, batch, size)
        buffers = steps if any(ctx.needs_input_grad) else 1  # without a backward pass, one step's serve all
        active, norm = gates.new_empty(buffers, 2, batch, 3 * size), Normalization(gain, offset, keep=buffers == steps)
        transposed, biases = recurrent.transpose(1, 2), bias.unsqueeze(1)
        for t in range(steps):
            h = norm.forward(torch.baddbmm(biases, dropped(states[t], kept).to(recurrent.dtype), transposed).to(gates.dtype))
            gates_forward(gates[:, t], h, states[t], active[t % buffers], states[t + 1])
        ctx.save_for_backward(states, active, recurrent, kept)
        ctx.norm = norm
        return states[1:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _normalized_bidirectional_backward(ctx.saved_tensors, ctx.norm, *grads)


def _normalized_bidirectional_backward(saved: tuple[Any, ...], norm: Normalization, d_states: Tensor) -> tuple[Tensor | None, ...]:
    states, active, recurrent, kept = saved
    steps, _, batch, size = d_states.shape
    d_gates, d_products = states.new_empty(2, 2, steps, batch, 3 * size)
    d, d_state = states.new_empty(2, batch, 4 * size), torch.zeros_like(states[0])
    norm.start_backward()
    for t in range(steps - 1, -1, -1):
        d_state.add_(d_states[t])
        gates_backward(d_state, active[t], states[t], norm.outputs[t][..., 2 * size :], d)
        d_gates[:, t] = d[..., : 3 * size]
        norm.backward(t, d[..., size:], d_products[:, t])
        d_state.mul_(active[t, ..., 2 * size :])
        accumulate(d_state, d_products[:, t], recurrent, kept)
    d_matrix, d_bias = matrices_backward(d_products, states[:-1], kept, recurrent.dtype)
    return d_gates, d_matrix, d_bias, None, *norm.gradients()
