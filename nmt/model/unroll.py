"""The recurrences over whole sentences in training: the readable loop, and a fast one with a backward pass written by hand.

Autograd through a loop forms and adds up every weight gradient once a step. Here the loop holds only what must wait for the state before
it; states are stored, sigmoids are recomputed in backward, and each weight gradient is one matrix product at the end. Gates are stored in
the order new, reset, update, so that in backward the gradients of both sides of the reset product are neighbours and need no copy:

    n, r, z, n∘r, query      first three: of the input gates; last four: of the recurrent product
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nmt.model.attention import MASKED, Additive, Memory
from nmt.model.decoder import Decoder
from nmt.model.kernels import Product, tanh_

aten = torch.ops.aten


def unroll(decoder: Decoder, embedded: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """All states and contexts of target sentences that are known (teacher forcing).

    Args:
        decoder: its attention decides which of the two loops runs.
        embedded: (B, T, E), E y_0 … E y_{T−1}.
        state: (B, D), s_0.
        memory: of the B sentences.

    Returns:
        states s_1 … s_T (B, T, D) and contexts c_1 … c_T (B, T, 2H).
    """
    kept = decoder.state_dropout.mask(state)
    if isinstance(decoder.attention, Additive):
        return unroll_additive(decoder, decoder.attention, embedded, state, memory, kept)
    return unroll_steps(decoder, embedded, state, memory, kept)


def unroll_steps(decoder: Decoder, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`unroll` by the decoder's own step: for every attention, and what the fast loop is checked against.

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
    recurrent = torch.cat((decoder.gates_state.weight, 2 * attention.query.weight)).to(gates.dtype)
    bias = functional.pad(decoder.gates_state.bias, (0, attention.energy.shape[0])).to(gates.dtype)
    wide = state.dtype
    with torch.autocast(state.device.type, enabled=False):
        states, weights = AttentionGru.apply(  # type: ignore[no-untyped-call]
            gates.to(wide), state, values.to(wide), memory.keys, ~memory.mask, recurrent, bias, 2 * attention.energy, kept
        )
    contexts = torch.bmm(weights.transpose(0, 1).to(memory.annotations.dtype), memory.annotations)
    return states.transpose(0, 1), contexts


def bidirectional(gates: Tensor, recurrent: Tensor, bias: Tensor, kept: Tensor | None = None) -> Tensor:
    """Two independent GRUs over the same number of steps, from zero states: the directions of an encoder.

    Args:
        gates: (2, S, B, 3H), the inputs' half of the gates with bias, in the order new, reset, update.
        recurrent: (2, 3H, H), in PyTorch's order reset, update, new; so bias (2, 3H). Their dtype is that of the products.
        kept: (2, B, H), what dropout multiplies a state with where it goes into a product; None is 1.

    Returns:
        states (S, 2, B, H), in at least float32.
    """
    with torch.autocast(gates.device.type, enabled=False):
        wide = gates.to(torch.promote_types(gates.dtype, torch.float32))
        states: Tensor = BidirectionalGru.apply(wide, recurrent, bias, kept)  # type: ignore[no-untyped-call]
    return states


class AttentionGru(torch.autograd.Function):
    """s_t = GRU(s_{t−1}, gates_t + Σ_j α_tj values_j), α_t = softmax_j(energy·σ(query(s_{t−1}) + keys_j)), for t = 1 … T."""

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
        kept: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Shapes: gates (T, B, 3D), state (B, D), values (B, S, 3D), keys (B, S, A), padding (B, S), recurrent (3D + A, D), energy (A,).

        kept (B, D) is as in `unroll_steps`.

        Returns:
            states (T, B, D) and weights (T, B, S).
        """
        (steps, batch, _), size, length = gates.shape, state.shape[1], keys.shape[1]
        states = state.new_empty(steps + 1, batch, size)
        states[0] = state
        weights = state.new_empty(steps, batch, length)
        hidden = state.new_empty(steps, batch, recurrent.shape[0])
        active = torch.empty_like(gates)
        sigmoids = torch.empty_like(keys)
        product = Product(recurrent, bias)
        for t in range(steps):
            h, new, r_z = hidden[t].copy_(product(_dropped(states[t], kept))), active[t, :, :size], active[t, :, size:]
            torch.add(keys, h[:, None, 3 * size :], out=sigmoids).sigmoid_()
            energies = torch.mv(sigmoids.view(-1, sigmoids.shape[2]), energy).view(batch, length)
            alpha = torch.softmax(energies.masked_fill_(padding, MASKED), -1, out=weights[t])
            torch.baddbmm(gates[t].unsqueeze(1), alpha.unsqueeze(1), values, out=active[t].unsqueeze(1))
            r_z.add_(h[:, : 2 * size]).sigmoid_()
            tanh_(new.addcmul_(r_z[:, :size], h[:, 2 * size : 3 * size]))
            torch.lerp(new, states[t], r_z[:, size:], out=states[t + 1])
        ctx.save_for_backward(states, weights, hidden, active, values, keys, recurrent, energy, kept)
        return states[1:], weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grads[0].device.type, enabled=False):
            return _attention_gru_backward(ctx.saved_tensors, *grads)


def _attention_gru_backward(saved: tuple[Any, ...], d_states: Tensor, d_weights: Tensor) -> tuple[Tensor | None, ...]:
    states, weights, hidden, active, values, keys, recurrent, energy, kept = saved
    (steps, batch, size), attention = d_states.shape, keys.shape[2]
    d_all = states.new_empty(steps, batch, 4 * size + attention)
    d_state = torch.zeros_like(states[0])
    d_keys, d_energy, sigmoids = torch.zeros_like(keys), torch.zeros_like(energy), torch.empty_like(keys)
    for t in range(steps - 1, -1, -1):
        d_t, d_query = d_all[t], d_all[t, :, 4 * size :]
        d_state.add_(d_states[t])
        _gates_backward(d_state, active[t], states[t], hidden[t, :, 2 * size : 3 * size], d_t)
        d_alpha = torch.baddbmm(d_weights[t].unsqueeze(2), values, d_t[:, : 3 * size].unsqueeze(2)).squeeze(2)
        d_energies = d_alpha.mul_(weights[t])
        d_energies.addcmul_(weights[t], d_energies.sum(-1, keepdim=True), value=-1)
        torch.add(keys, hidden[t, :, None, 3 * size :], out=sigmoids).sigmoid_()
        d_energy.addmv_(sigmoids.view(-1, attention).t(), d_energies.view(-1))
        slopes = sigmoids.addcmul_(sigmoids, sigmoids, value=-1)
        d_keys.addcmul_(slopes, d_energies.unsqueeze(2))
        torch.mul(torch.bmm(d_energies.unsqueeze(1), slopes).squeeze(1), energy, out=d_query)
        d_state.mul_(active[t, :, 2 * size :])
        _accumulate(d_state, d_t[:, size:], recurrent, kept)
    d_inputs, d_recurrent = d_all[..., : 3 * size], d_all[..., size:].flatten(0, 1).to(recurrent.dtype)
    d_values = torch.bmm(weights.permute(1, 2, 0), d_inputs.transpose(0, 1))
    d_matrix = d_recurrent.t() @ _dropped(states[:-1], kept).flatten(0, 1).to(recurrent.dtype)
    return d_inputs, d_state, d_values, d_keys.mul_(energy), None, d_matrix, d_recurrent.sum(0), d_energy, None


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
            h, new, r_z = hidden[t % buffers], active[t % buffers, ..., :size], active[t % buffers, ..., size:]
            previous = _dropped(states[t], kept)
            if transposed.dtype == h.dtype:
                torch.baddbmm(biases, previous, transposed, out=h)
            else:
                h.copy_(torch.baddbmm(biases, previous.to(transposed.dtype), transposed))
            torch.add(gates[:, t, :, size:], h[..., : 2 * size], out=r_z).sigmoid_()
            tanh_(torch.addcmul(gates[:, t, :, :size], r_z[..., :size], h[..., 2 * size :], out=new))
            torch.lerp(new, states[t], r_z[..., size:], out=states[t + 1])
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
        _gates_backward(d_state, active[t], states[t], hidden[t, ..., 2 * size :], d_all[:, t])
        d_state.mul_(active[t, ..., 2 * size :])
        _accumulate(d_state, d_all[:, t, :, size:], recurrent, kept)
    d_recurrent = d_all[..., size:].flatten(1, 2).to(recurrent.dtype)
    previous = _dropped(states[:-1], kept).transpose(0, 1).flatten(1, 2)
    d_matrix = torch.bmm(d_recurrent.transpose(1, 2), previous.to(recurrent.dtype))
    return d_all[..., : 3 * size], d_matrix, d_recurrent.sum(1), None


def _gates_backward(d_state: Tensor, active: Tensor, previous: Tensor, hidden_new: Tensor, out: Tensor) -> None:
    """From the gradient of s_t (…, D) those of n, r, z, before their nonlinearity, and of n∘r, side by side into out (…, ≥ 4D)."""
    size = d_state.shape[-1]
    new, reset, update = active.chunk(3, -1)
    d_new, d_reset, d_update, d_hidden = (out[..., i * size : (i + 1) * size] for i in range(4))
    aten.sigmoid_backward.grad_input((previous - new).mul_(d_state), update, grad_input=d_update)
    aten.tanh_backward.grad_input(torch.addcmul(d_state, d_state, update, value=-1), new, grad_input=d_new)
    aten.sigmoid_backward.grad_input(d_new * hidden_new, reset, grad_input=d_reset)
    torch.mul(d_new, reset, out=d_hidden)


def _dropped(states: Tensor, kept: Tensor | None) -> Tensor:
    return states if kept is None else states * kept


def _accumulate(out: Tensor, x: Tensor, weight: Tensor, kept: Tensor | None) -> None:
    """out += (x @ weight) ∘ kept, the product computed in the weight's dtype."""
    if kept is not None:
        out.addcmul_(torch.matmul(x.to(weight.dtype), weight).to(out.dtype), kept)
    elif weight.dtype != out.dtype:
        out.add_(torch.matmul(x.to(weight.dtype), weight))
    elif weight.dim() == 2:
        out.addmm_(x, weight)
    else:
        out.baddbmm_(x, weight)
