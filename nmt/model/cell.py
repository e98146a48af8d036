"""GRU cells that a fast loop runs beside the one that reads the context: a conditional GRU's first one, and those without input."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.decoder import Decoder
from nmt.model.kernels import Product
from nmt.model.norm import Normalization
from nmt.model.steps import accumulate, dropped, gates_backward, gates_forward, matrix_backward


class Cell:
    """A GRU in every step of a loop, with what its backward pass needs; see `gates_forward`."""

    def __init__(self, kept: Tensor | None, matrix: Tensor, bias: Tensor, *norm: Tensor) -> None:
        """Take what dropout multiplies a state with, matrix (3D, D) and bias (3D,), and gain and offset of what normalises the product."""
        self._kept, self._matrix, self._product = kept, matrix, Product(matrix, bias)
        self._norm = Normalization(*norm) if norm else None
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def forward(self, inputs: Tensor, state: Tensor, out: Tensor) -> None:
        """The next step: the state after `state` (B, D) into out; inputs (B, 3D) or (3D,) in the order n, r, z."""
        hidden = self._product(dropped(state, self._kept)).to(state.dtype)
        if self._norm is not None:
            hidden = self._norm.forward(hidden)
        active = torch.empty_like(hidden)
        gates_forward(inputs, hidden, state, active, out)
        self._steps.append((state, hidden, active))

    def start_backward(self) -> None:
        """Makes room for the gradients of every step."""
        state, size = self._steps[0][0], self._matrix.shape[1]
        self._d_all = state.new_empty(len(self._steps), len(state), 4 * size)
        self._d_products = self._d_all[..., size:]
        if self._norm is not None:
            self._d_products = torch.empty_like(self._d_products)
            self._norm.start_backward()

    def backward(self, t: int, d_state: Tensor) -> None:
        """The gradient of the state after step t (B, D) becomes that of the state before it."""
        (state, hidden, active), size, d = self._steps[t], d_state.shape[1], self._d_all[t]
        gates_backward(d_state, active, state, hidden[:, 2 * size :], d)
        if self._norm is not None:
            self._norm.backward(t, d[:, size:], self._d_products[t])
        d_state.mul_(active[:, 2 * size :])
        accumulate(d_state, self._d_products[t], self._matrix, self._kept)

    def d_inputs(self) -> Tensor:
        """The gradient of the inputs of all steps (T, B, 3D)."""
        return self._d_all[..., : 3 * self._matrix.shape[1]]

    def gradients(self) -> tuple[Tensor, ...]:
        """Those of matrix and bias, and of gain and offset where there are any."""
        states = torch.stack([state for state, _, _ in self._steps])
        of_product = matrix_backward(self._d_products, states, self._kept, self._matrix.dtype)
        return of_product if self._norm is None else (*of_product, *self._norm.gradients())


def cell_parameters(decoder: Decoder, dtype: torch.dtype) -> list[Tensor]:
    """What `make_cells` takes of a decoder: its first cell, if it is a conditional GRU, and those without input; products in dtype."""
    cells = list(zip(decoder.gates_transitions, decoder.norm_transitions, strict=True))
    if decoder.gates_proposal is not None:
        cells.insert(0, (decoder.gates_state, decoder.norm_state))
    return [p for gates, norm in cells for p in (*(p.to(dtype) for p in gates.parameters()), *norm.parameters())]


def make_cells(kept: Tensor | None, parameters: Sequence[Tensor], each: int) -> list[Cell]:
    """Cells from `each` parameters a cell: see `Cell`."""
    return [Cell(kept, *parameters[i : i + each]) for i in range(0, len(parameters), each)]
