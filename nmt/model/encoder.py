"""From source tokens to annotations."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.dropout import Dropout, embedding_dropout
from nmt.model.norm import Norm, make_norm
from nmt.model.unroll import bidirectional

BothWays = tuple[Tensor, Tensor, Tensor, Tensor]  # (2, E, 3H), (2, 1, 3H) of the inputs; (2, 3H, H), (2, 3H) of the states


class Layer(NamedTuple):
    """A GRU from the left, one from the right, and for both together what normalises the products with inputs and states, if anything."""

    rightward: nn.GRU
    leftward: nn.GRU
    norm_inputs: Norm | nn.Identity
    norm_states: Norm | nn.Identity


class Encoder(nn.Module):
    """A GRU over each sentence from the left and one from the right (Bahdanau et al. 2015, section 3.2): h_j = [→h_j ; ←h_j].

    A further layer is a pair of GRUs over the annotations of the layer below, and adds what it finds to them.
    """

    def __init__(self, vocab_size: int, pad_id: int, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.embedding_size, padding_idx=pad_id)
        self.embedding_dropout = embedding_dropout(config, config.src_word_dropout)
        self.layer_dropout = Dropout(config.dropout if config.encoder_layers > 1 else 0.0, shared=0 if config.variational else None)
        self.state_dropout = Dropout(config.state_dropout)
        self.annotation_dropout = Dropout(config.annotation_dropout)
        self.rightward = nn.GRU(config.embedding_size, config.encoder_size)
        self.leftward = nn.GRU(config.embedding_size, config.encoder_size)
        above, annotation = range(config.encoder_layers - 1), 2 * config.encoder_size
        self.rightward_above = nn.ModuleList(nn.GRU(annotation, config.encoder_size) for _ in above)
        self.leftward_above = nn.ModuleList(nn.GRU(annotation, config.encoder_size) for _ in above)
        norms = [make_norm(config.layer_norm, 2, 1, 3 * config.encoder_size) for _ in range(2 * config.encoder_layers)]
        self.norm_inputs, self.norm_states = nn.ModuleList(norms[::2]), nn.ModuleList(norms[1::2])
        self.mean = config.initial_state == "mean"
        self.initial = nn.Linear((2 if self.mean else 1) * config.encoder_size, config.decoder_size)

    def forward(self, src: Tensor, src_lengths: Tensor, weights: list[BothWays] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Reads B sentences; padding changes nothing at a real position.

        Args:
            src: (B, S) int64, padded on the right.
            src_lengths: (B,) int64, at least 1, at most S.
            weights: what `both_ways` returned since the last change of a parameter; None forms it anew.

        Returns:
            annotations (B, S, 2H), zero at padding, with dropout in training; mask (B, S) bool, True at real tokens; s_0 (B, D), in at
            least float32.
        """
        positions = torch.arange(src.shape[1], device=src.device).expand_as(src)
        mask = positions < src_lengths.unsqueeze(1)
        # Turns each sentence around and leaves its padding behind it; applied twice, it gives the sentence back.
        reversal = torch.where(mask, src_lengths.unsqueeze(1) - 1 - positions, positions).t()
        layers = self.layers()
        ways: Sequence[BothWays | None] = weights or [None] * len(layers)
        states = self._read(self.embedding_dropout(self.embedding(src.t())), reversal, layers[0], ways[0])
        for layer, way in zip(layers[1:], ways[1:], strict=True):
            states = states + self._read(self.layer_dropout(states), reversal, layer, way)
        annotations = states.transpose(0, 1) * mask.unsqueeze(2)
        return self.annotation_dropout(annotations), mask, self._initial_state(annotations, src_lengths)

    def layers(self) -> list[Layer]:
        """The first layer and those above it."""
        ways = [self.rightward, *self.rightward_above], [self.leftward, *self.leftward_above]
        return [Layer(*modules) for modules in zip(*ways, self.norm_inputs, self.norm_states, strict=True)]  # type: ignore[arg-type]

    def both_ways(self, dtype: torch.dtype | None = None) -> list[BothWays]:
        """The weights of each layer as `bidirectional` wants them; None leaves their dtype."""
        return [_both_ways(layer, dtype) for layer in self.layers()]

    def _read(self, x: Tensor, reversal: Tensor, layer: Layer, weights: BothWays | None) -> Tensor:
        """[→h_j ; ←h_j] of one layer: x (S, B, E), reversal (S, B), to (S, B, 2H)."""
        rightward, leftward = self._states(x, _reorder(x, reversal), layer, weights)
        return torch.cat((rightward, _reorder(leftward, reversal)), -1)

    def _states(self, x: Tensor, reversed_x: Tensor, layer: Layer, weights: BothWays | None = None) -> tuple[Tensor, Tensor]:
        """→h and, in reading order, ←h: both (S, B, H)."""
        size, norm = layer.rightward.hidden_size, layer.norm_states if isinstance(layer.norm_states, Norm) else None
        kept = self.state_dropout.mask(x.new_empty(2, x.shape[1], size))
        if x.is_cuda and norm is None and kept is None:
            return layer.rightward(x)[0], layer.leftward(reversed_x)[0]
        input_weight, input_bias, state_weight, state_bias = weights or _both_ways(layer)
        inputs = torch.stack((x, reversed_x)).flatten(1, 2)
        gates = torch.baddbmm(input_bias, inputs, input_weight)
        state_weight, state_bias = state_weight.to(gates.dtype), state_bias.to(gates.dtype)
        if norm is not None:
            gates = layer.norm_inputs(gates, roll=size)
        states = bidirectional(gates.view(2, *x.shape[:2], -1), state_weight, state_bias, kept, norm)
        return states[:, 0], states[:, 1]

    def _initial_state(self, annotations: Tensor, src_lengths: Tensor) -> Tensor:
        """s_0 = tanh(W_s ←h_1) (appendix A.2.2), or tanh(W_s · mean of the annotations)."""
        summary = annotations.sum(1) / src_lengths.unsqueeze(1) if self.mean else annotations[:, 0].chunk(2, -1)[1]
        state: Tensor = self.initial(summary)
        return torch.tanh(state.to(torch.promote_types(state.dtype, torch.float32)))


def _both_ways(layer: Layer, dtype: torch.dtype | None = None) -> BothWays:
    """The weights of the two directions stacked."""
    pairs = zip(layer.rightward.all_weights[0], layer.leftward.all_weights[0], strict=True)
    input_weight, state_weight, input_bias, state_bias = (torch.stack(pair).to(dtype=dtype) for pair in pairs)
    size = layer.rightward.hidden_size
    return input_weight.roll(size, 1).transpose(1, 2), input_bias.roll(size, 1).unsqueeze(1), state_weight, state_bias


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    """x (S, B, …) with position order[s, b] of sentence b at s."""
    rows = order * x.shape[1] + torch.arange(x.shape[1], device=x.device)
    return x.flatten(0, 1).index_select(0, rows.flatten()).view_as(x)
