"""Attention as a tutorial writes it: what scripts/benchmark.py measures the project's model against.

The network and its arithmetic are those of nmt/model; only the way of computing them differs. Autograd sees every step: attention has one
linear map over [s_{i−1}; h_j], so the annotations are multiplied anew at each step, the context goes through the gates at each step, and
the logits of all positions, padding included, exist at once.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import ModelConfig
from nmt.data.batches import Batch


class Textbook(nn.Module):
    """Bidirectional GRU encoder, additive attention, GRU decoder, for one vocabulary on both sides; without dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int, pad_id: int) -> None:
        super().__init__()
        embedding, state, annotation = config.embedding_size, config.decoder_size, 2 * config.encoder_size
        self.pad_id = pad_id
        self.src_embedding = nn.Embedding(vocab_size, embedding, padding_idx=pad_id)
        self.tgt_embedding = nn.Embedding(vocab_size, embedding, padding_idx=pad_id)
        self.encoder = nn.GRU(embedding, config.encoder_size, batch_first=True, bidirectional=True)
        self.initial = nn.Linear(config.encoder_size, state)
        self.attention = nn.Linear(state + annotation, config.attention_size)
        self.energy = nn.Linear(config.attention_size, 1, bias=False)
        self.cell = nn.GRUCell(embedding + annotation, state)
        self.maxout = config.readout == "maxout"
        self.readout = nn.Linear(state + embedding + annotation, (2 if self.maxout else 1) * config.readout_size)
        self.vocabulary = nn.Linear(config.readout_size, vocab_size)

    def loss(self, batch: Batch) -> Tensor:
        """Mean of −log p(y) over the real target tokens of a batch, under teacher forcing."""
        annotations, state = self.encode(batch.src, batch.src_lengths)
        mask = batch.src != self.pad_id
        logits = []
        for tokens in batch.tgt_in.unbind(1):
            step_logits, state = self.step(tokens, state, annotations, mask)
            logits.append(step_logits)
        return functional.cross_entropy(torch.stack(logits, 1).flatten(0, 1), batch.tgt_out.flatten(), ignore_index=self.pad_id)

    def encode(self, src: Tensor, src_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """src (B, S) and src_lengths (B,) to annotations (B, S, 2H) and s_0 (B, D)."""
        packed = pack_padded_sequence(self.src_embedding(src), src_lengths, batch_first=True, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        annotations, _ = pad_packed_sequence(outputs, batch_first=True, total_length=src.shape[1])
        return annotations, torch.tanh(self.initial(last[1]))

    def step(self, tokens: Tensor, state: Tensor, annotations: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """From y_{i−1} (B,) and s_{i−1} (B, D) to logits (B, V) and s_i (B, D); mask (B, S) is True at real source tokens."""
        embedded = self.tgt_embedding(tokens)
        repeated = state.unsqueeze(1).expand(-1, annotations.shape[1], -1)
        energies = self.energy(torch.tanh(self.attention(torch.cat((repeated, annotations), 2)))).squeeze(2)
        weights = energies.masked_fill(~mask, float("-inf")).softmax(1)
        context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)
        state = self.cell(torch.cat((embedded, context), 1), state)
        readout = self.readout(torch.cat((state, embedded, context), 1))
        readout = torch.maximum(*readout.chunk(2, 1)) if self.maxout else torch.tanh(readout)
        return self.vocabulary(readout), state
