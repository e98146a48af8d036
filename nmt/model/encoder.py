"""From source tokens to annotations."""

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.dropout import Dropout, embedding_dropout
from nmt.model.unroll import bidirectional

BothWays = tuple[Tensor, Tensor, Tensor, Tensor]  # (2, E, 3H), (2, 1, 3H) of the inputs; (2, 3H, H), (2, 3H) of the states


class Encoder(nn.Module):
    """A GRU over each sentence from the left and one from the right (Bahdanau et al. 2015, section 3.2): h_j = [→h_j ; ←h_j]."""

    def __init__(self, vocab_size: int, pad_id: int, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.embedding_size, padding_idx=pad_id)
        self.embedding_dropout = embedding_dropout(config, config.src_word_dropout)
        self.state_dropout = Dropout(config.state_dropout)
        self.annotation_dropout = Dropout(config.annotation_dropout)
        self.rightward = nn.GRU(config.embedding_size, config.encoder_size)
        self.leftward = nn.GRU(config.embedding_size, config.encoder_size)
        self.mean = config.initial_state == "mean"
        self.initial = nn.Linear((2 if self.mean else 1) * config.encoder_size, config.decoder_size)

    def forward(self, src: Tensor, src_lengths: Tensor, weights: BothWays | None = None) -> tuple[Tensor, Tensor, Tensor]:
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
        reversal = torch.where(mask, src_lengths.unsqueeze(1) - 1 - positions, positions)
        embedded = self.embedding_dropout(self.embedding(src.t()))
        rightward, leftward = self._states(embedded, _reorder(embedded, reversal.t()), weights)
        leftward = _reorder(leftward, reversal.t())
        annotations = torch.cat((rightward, leftward), -1).transpose(0, 1) * mask.unsqueeze(2)
        return self.annotation_dropout(annotations), mask, self._initial_state(annotations, src_lengths)

    def both_ways(self, dtype: torch.dtype | None = None) -> BothWays:
        """The weights of the two directions stacked, as `bidirectional` wants them; None leaves their dtype."""
        pairs = zip(self.rightward.all_weights[0], self.leftward.all_weights[0], strict=True)
        input_weight, state_weight, input_bias, state_bias = (torch.stack(pair).to(dtype=dtype) for pair in pairs)
        size = self.rightward.hidden_size
        return input_weight.roll(size, 1).transpose(1, 2), input_bias.roll(size, 1).unsqueeze(1), state_weight, state_bias

    def _states(self, embedded: Tensor, reversed_embedded: Tensor, weights: BothWays | None = None) -> tuple[Tensor, Tensor]:
        """→h and, in reading order, ←h: both (S, B, H)."""
        kept = self.state_dropout.mask(embedded.new_empty(2, embedded.shape[1], self.rightward.hidden_size))
        if embedded.is_cuda and kept is None:
            return self.rightward(embedded)[0], self.leftward(reversed_embedded)[0]
        input_weight, input_bias, state_weight, state_bias = weights or self.both_ways()
        inputs = torch.stack((embedded, reversed_embedded)).flatten(1, 2)
        gates = torch.baddbmm(input_bias, inputs, input_weight).view(2, *embedded.shape[:2], -1)
        states = bidirectional(gates, state_weight.to(gates.dtype), state_bias.to(gates.dtype), kept)
        return states[:, 0], states[:, 1]

    def _initial_state(self, annotations: Tensor, src_lengths: Tensor) -> Tensor:
        """s_0 = tanh(W_s ←h_1) (appendix A.2.2), or tanh(W_s · mean of the annotations)."""
        summary = annotations.sum(1) / src_lengths.unsqueeze(1) if self.mean else annotations[:, 0].chunk(2, -1)[1]
        state: Tensor = self.initial(summary)
        return torch.tanh(state.to(torch.promote_types(state.dtype, torch.float32)))


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    """x (S, B, …) with position order[s, b] of sentence b at s."""
    rows = order * x.shape[1] + torch.arange(x.shape[1], device=x.device)
    return x.flatten(0, 1).index_select(0, rows.flatten()).view_as(x)
