"""Attention as tutorials write it: what scripts/benchmark.py measures the project's model against.

Sizes of embeddings, encoder, decoder and attention are those of nmt/model; what differs is how it is computed. Autograd sees every step;
attention has one linear map over [s_{i−1}; h_j], so the annotations are multiplied anew at each step; the context goes through the gates at
each step; the vocabulary reads [s_i; E y_{i−1}; c_i] itself, with no narrower readout between; and the logits of all positions, padding
included, exist at once.
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
        self.vocabulary = nn.Linear(state + embedding + annotation, vocab_size)

    def loss(self, batch: Batch) -> Tensor:
        """Mean of −log p(y) over the real target tokens of a batch, under teacher forcing."""
        annotations, state = self.encode(batch.src, batch.src_lengths)
        mask = batch.src != self.pad_id
        logits = annotations.new_zeros(*batch.tgt_in.shape, self.vocabulary.out_features)
        for t, tokens in enumerate(batch.tgt_in.unbind(1)):
            logits[:, t], state = self.step(tokens, state, annotations, mask)
        return functional.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=self.pad_id)

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
        return self.vocabulary(torch.cat((state, embedded, context), 1)), state
