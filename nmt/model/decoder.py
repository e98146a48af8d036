"""One step of the decoder, as the paper writes it; nmt/model/unroll.py runs it over a whole target sentence."""

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.attention import Memory, make_attention
from nmt.model.dropout import Dropout, embedding_dropout
from nmt.model.norm import make_norm
from nmt.model.steps import dropped, gru


class Decoder(nn.Module):
    """A GRU that looks at the source through attention before each step (Bahdanau et al. 2015, appendices A.1.2 and A.2.2).

    As a conditional GRU (Sennrich et al. 2017, "Nematus", section 2) it looks in the middle of a step, when the last word has been read.
    Further GRUs without input may make the step deeper ("deep transition", Pascanu et al. 2014; Miceli Barone et al. 2017).
    Rows of the gate matrices are in PyTorch's order: reset, update, new. With layer normalisation each of their products is normalised.

    Raises:
        ConfigError: for sizes that do not fit the attention, or one matrix for words and vocabulary (Press & Wolf 2017).
    """

    def __init__(self, vocab_size: int, pad_id: int, config: ModelConfig) -> None:
        super().__init__()
        embedding, state, annotation = config.embedding_size, config.decoder_size, 2 * config.encoder_size
        self.maxout_size = 2 if config.readout == "maxout" else 1  # linear units of which the largest is taken
        self.embedding = nn.Embedding(vocab_size, embedding, padding_idx=pad_id)
        self.embedding_dropout = embedding_dropout(config, config.tgt_word_dropout)
        self.state_dropout = Dropout(config.state_dropout)
        self.readout_dropout = Dropout(config.dropout if config.readout_dropout is None else config.readout_dropout)
        self.attention = make_attention(config)
        self.gates_embedding = nn.Linear(embedding, 3 * state)
        self.gates_context = nn.Linear(annotation, 3 * state, bias=False)
        self.gates_state = nn.Linear(state, 3 * state)
        self.gates_proposal = nn.Linear(state, 3 * state) if config.cell == "conditional" else None
        self.gates_transitions = nn.ModuleList(nn.Linear(state, 3 * state) for _ in range(config.transitions))
        self.layer_norm = config.layer_norm
        self.norm_embedding, self.norm_context, self.norm_state = (make_norm(config.layer_norm, 3 * state) for _ in range(3))
        self.norm_proposal = make_norm(config.layer_norm and self.gates_proposal is not None, 3 * state)
        self.norm_transitions = nn.ModuleList(make_norm(config.layer_norm, 3 * state) for _ in range(config.transitions))
        self.readout_state = nn.Linear(state, self.maxout_size * config.readout_size)
        self.readout_embedding = nn.Linear(embedding, self.maxout_size * config.readout_size, bias=False)
        self.readout_context = nn.Linear(annotation, self.maxout_size * config.readout_size, bias=False)
        self.vocabulary = nn.Linear(config.readout_size, vocab_size)
        if config.tie != "none":
            if config.readout_size != embedding:
                raise ConfigError(
                    f"model.tie={config.tie} needs model.readout_size = model.embedding_size = {embedding}, not {config.readout_size}: "
                    f"set model.readout_size={embedding}, or use model.tie=none"
                )
            self.vocabulary.weight = self.embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        """E y: tokens (T, …) int64, position by position, to vectors (T, …, E), with dropout in training."""
        embedded: Tensor = self.embedding_dropout(self.embedding(tokens))
        return embedded

    def step(self, embedded: Tensor, state: Tensor, memory: Memory, kept: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """From s_{i−1} and y_{i−1} to s_i, for K hypotheses of each sentence.

        Attention looks from the previous state, or from what the last word made of it: c_i is a part of what makes s_i.

        Args:
            embedded: (B, K, E), E y_{i−1}.
            state: (B, K, D), s_{i−1}.
            memory: of the B sentences.
            kept: (B, 1, D), what dropout multiplies each state with where it goes into a product, the same in every step; None is 1.

        Returns:
            s_i (B, K, D), c_i (B, K, 2H) and α_i (B, K, S).
        """
        seen = dropped(state, kept)
        if self.gates_proposal is None:
            # e_ij = a(s_{i−1}, h_j),  α_i = softmax(e_i),  c_i = Σ_j α_ij h_j;  s_i = GRU(s_{i−1}, W y + C c_i)
            context, weights = self.attention(seen, memory)
            inputs = self.norm_embedding(self.gates_embedding(embedded)) + self.norm_context(self.gates_context(context))
            state = gru(inputs, self.norm_state(self.gates_state(seen)), state)
        else:
            # s'_i = GRU₁(s_{i−1}, W y);  e_ij = a(s'_i, h_j),  α_i = softmax(e_i),  c_i = Σ_j α_ij h_j;  s_i = GRU₂(s'_i, C c_i)
            proposal = gru(self.norm_embedding(self.gates_embedding(embedded)), self.norm_state(self.gates_state(seen)), state)
            seen = dropped(proposal, kept)
            context, weights = self.attention(seen, memory)
            inputs, recurrent = self.norm_context(self.gates_context(context)), self.norm_proposal(self.gates_proposal(seen))
            state = gru(inputs, recurrent, proposal)

        # s_i ← GRU(s_i), as often as there are transitions
        nothing = state.new_zeros(3 * state.shape[-1])
        for gates, norm in zip(self.gates_transitions, self.norm_transitions, strict=True):
            state = gru(nothing, norm(gates(dropped(state, kept))), state)
        return state, context, weights

    def readout(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """What the next word is read from, t_i (…, readout_size), from s_i, y_{i−1} and c_i; with dropout in training.

        maxout: t̃ = U_o s_i + V_o y_{i−1} + C_o c_i, of which each two elements j and j + readout_size give their larger one;
        tanh: t = tanh(t̃).
        """
        readout = self.readout_state(state) + self.readout_embedding(embedded) + self.readout_context(context)
        readout = torch.maximum(*readout.chunk(2, -1)) if self.maxout_size == 2 else torch.tanh(readout)
        dropped: Tensor = self.readout_dropout(readout)
        return dropped
