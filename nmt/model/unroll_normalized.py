"""The loops of unroll.py with layer normalisation: each product with a state is normalised in the loop, and so is the context."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nmt.model.attention import Additive, Memory
from nmt.model.decoder import Decoder
from nmt.model.kernels import Product
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

EPSILON = 1e-5  # added to the variance, as torch does it
aten = torch.ops.aten


class Normalization:
    """Layer normalisation in every step of a loop, with what its backward pass needs; see `Norm`."""

    def __init__(self, gain: Tensor, offset: Tensor, *, keep: bool = True) -> None:
        """Take what normalised vectors are scaled and shifted by, and whether there will be a backward pass."""
        self._gain, self._offset, self._keep = gain, offset, keep
        self._steps: list[tuple[Tensor, Tensor]] = []
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """The next step: x (…, N), of which nothing is kept, normalised."""
        normal, _, scale = torch.native_layer_norm(x, x.shape[-1:], None, None, EPSILON)
        output = torch.addcmul(self._offset, normal, self._gain)
        if self._keep:
            self._steps.append((normal, scale))
            self.outputs.append(output)
        return output

    def start_backward(self) -> None:
        """Sets all gradients to zero, as room for the sums over steps."""
        normal, scale = self._steps[0]
        self._zero, self._one = torch.zeros_like(scale), torch.ones_like(scale)
        self._d_gain, self._d_offset = torch.zeros_like(normal), torch.zeros_like(normal)

    def backward(self, t: int, d_output: Tensor, out: Tensor) -> None:
        """From the gradient of the output of step t (…, N) that of its x, into out."""
        normal, scale = self._steps[t]
        self._d_gain.addcmul_(d_output, normal)
        self._d_offset.add_(d_output)
        d_normal, shape, mask = d_output * self._gain, normal.shape[-1:], [True, False, False]
        d_x = aten.native_layer_norm_backward(d_normal, normal, shape, self._zero, self._one, None, None, mask)[0]
        torch.mul(d_x, scale, out=out)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Those of gain and offset."""
        return self._d_gain.sum_to_size(self._gain.shape), self._d_offset.sum_to_size(self._offset.shape)


def unroll_normalized(
    decoder: Decoder, attention: Additive, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`unroll` for additive attention by the fast loop; gains and offsets of the query are doubled, as the keys are."""
    size, wide = state.shape[-1], state.dtype
    gates = decoder.norm_embedding(decoder.gates_embedding(embedded.transpose(0, 1))).roll(size, -1)
    values = functional.linear(memory.annotations, decoder.gates_context.weight.roll(size, 0))
    looking, of_state = decoder.gates_state, decoder.norm_state
    first: list[Tensor] = []
    if decoder.gates_proposal is not None:
        first = [*(p.to(values.dtype) for p in looking.parameters()), *of_state.parameters()]
        looking, of_state = decoder.gates_proposal, decoder.norm_proposal
    recurrent = torch.cat((looking.weight, attention.query.weight)).to(values.dtype)
    bias = functional.pad(looking.bias, (0, attention.energy.shape[0])).to(values.dtype)
    inputs = gates.to(wide), state, values.to(wide), memory.keys, ~memory.mask, recurrent, bias, 2 * attention.energy, kept
    norms = (
        *of_state.parameters(),
        *(2 * p for p in attention.norm_query.parameters()),
        *(p.roll(size, 0) for p in decoder.norm_context.parameters()),
    )
    with torch.autocast(state.device.type, enabled=False):
        states, weights = NormalizedGru.apply(*inputs, *norms, *first)  # type: ignore[no-untyped-call]
    contexts = torch.bmm(weights.transpose(0, 1).to(memory.annotations.dtype), memory.annotations)
    return states.transpose(0, 1), contexts


class NormalizedGru(torch.autograd.Function):
    """`AttentionGru` with normalised products, or `ConditionalGru` where its first cell is given."""

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
        *others: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Shapes as in `AttentionGru`; others: gain and offset for the looking state, for query and for context, then for the conditional
        GRU matrix, bias, gain and offset of its first cell.

        Returns:
            states (T, B, D) and weights (T, B, S).
        """
        (steps, batch, _), size = gates.shape, state.shape[1]
        states, weights = state.new_empty(steps + 1, batch, size), state.new_empty(steps, batch, keys.shape[1])
        states[0] = state
        active, sigmoids = torch.empty_like(gates), torch.empty_like(keys)
        product, first_product = Product(recurrent, bias), Product(*others[6:8]) if others[6:] else None
        of_state, of_query, of_context, *of_first = (Normalization(*others[i : i + 2]) for i in range(0, len(others), 2) if i != 6)
        first_active, proposals = (torch.empty_like(gates), torch.empty_like(states[1:])) if first_product else (active, states)
        for t in range(steps):
            if first_product:
                h = of_first[0].forward(first_product(dropped(states[t], kept)).to(state.dtype))
                gates_forward(gates[t], h, states[t], first_active[t], proposals[t])
            h = product(dropped(proposals[t], kept)).to(state.dtype)
            alpha = attend_forward(keys, of_query.forward(h[:, 3 * size :]), energy, padding, sigmoids, weights[t])
            context = of_context.forward(torch.bmm(alpha.unsqueeze(1), values).squeeze(1))
            inputs = context if first_product else context + gates[t]
            gates_forward(inputs, of_state.forward(h[:, : 3 * size]), proposals[t], active[t], states[t + 1])
        ctx.save_for_backward(states, proposals, weights, first_active, active, values, keys, recurrent, energy, kept, *others[6:7])
        ctx.norms = of_state, of_query, of_context, *of_first
        return states[1:], weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _normalized_gru_backward(ctx.saved_tensors, ctx.norms, *grads)


def _normalized_gru_backward(
    saved: tuple[Any, ...], norms: tuple[Normalization, ...], d_states: Tensor, d_weights: Tensor
) -> tuple[Tensor | None, ...]:
    states, proposals, weights, first_active, active, values, keys, recurrent, energy, kept, *first_recurrent = saved
    of_state, of_query, of_context, *of_first = norms
    (steps, batch, size), attention, dtype = d_states.shape, keys.shape[2], recurrent.dtype
    d_products, d_first = states.new_empty(steps, batch, 3 * size + attention), states.new_empty(steps, batch, 3 * size)
    d_gates, d_contexts = torch.empty_like(d_first), torch.empty_like(d_first)
    d, d_query, d_state = states.new_empty(batch, 4 * size), states.new_empty(batch, attention), torch.zeros_like(states[0])
    d_keys, d_energy, sigmoids = torch.zeros_like(keys), torch.zeros_like(energy), torch.empty_like(keys)
    for norm in norms:
        norm.start_backward()
    for t in range(steps - 1, -1, -1):
        d_state.add_(d_states[t])
        gates_backward(d_state, active[t], proposals[t], of_state.outputs[t][:, 2 * size :], d)
        of_context.backward(t, d[:, : 3 * size], d_contexts[t])
        d_alpha = torch.baddbmm(d_weights[t].unsqueeze(2), values, d_contexts[t].unsqueeze(2)).squeeze(2)
        attend_backward(d_alpha, weights[t], keys, of_query.outputs[t], energy, sigmoids, d_keys, d_energy, d_query)
        of_state.backward(t, d[:, size:], d_products[t, :, : 3 * size])
        of_query.backward(t, d_query, d_products[t, :, 3 * size :])
        d_state.mul_(active[t, :, 2 * size :])
        accumulate(d_state, d_products[t], recurrent, kept)
        if first_recurrent:
            gates_backward(d_state, first_active[t], states[t], of_first[0].outputs[t][:, 2 * size :], d)
            of_first[0].backward(t, d[:, size:], d_first[t])
            d_state.mul_(first_active[t, :, 2 * size :])
            accumulate(d_state, d_first[t], first_recurrent[0], kept)
        d_gates[t] = d[:, : 3 * size]
    d_values = torch.bmm(weights.permute(1, 2, 0), d_contexts.transpose(0, 1))
    d_matrix = matrix_backward(d_products, proposals[:steps], kept, dtype)
    d_norms = [d_parameter for norm in norms[:3] for d_parameter in norm.gradients()]
    d_others = [*matrix_backward(d_first, states[:-1], kept, dtype), *of_first[0].gradients()] if of_first else []
    return d_gates, d_state, d_values, d_keys.mul_(energy), None, *d_matrix, d_energy, None, *d_norms, *d_others


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
