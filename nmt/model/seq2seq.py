"""The whole network: encoder, attention, decoder and loss, for training and, step by step, for search."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.loss import linear_cross_entropy
from nmt.model.attention import Memory
from nmt.model.decoder import Decoder
from nmt.model.encoder import BothWays, Encoder
from nmt.model.unroll import unroll


@dataclass(frozen=True)
class DecoderState:
    """What search carries from step to step: state (B, K, D) of K hypotheses of each sentence, and the memory of the B sentences."""

    state: Tensor
    memory: Memory

    def select(self, sentences: Tensor | None, beams: Tensor) -> "DecoderState":
        """Keeps some sentences, then for each of them some of its hypotheses, in the order given.

        Args:
            sentences: (B',) int64; None keeps all of them.
            beams: (B', K') int64, indices of hypotheses within the sentence; one may appear more than once.
        """
        state, memory = self.state, self.memory
        if sentences is not None:
            state, memory = state.index_select(0, sentences), memory.select(sentences)
        return DecoderState(state.gather(1, beams.unsqueeze(2).expand(-1, -1, state.shape[2])), memory)


class Seq2Seq(nn.Module):
    """Recurrent translation with attention.

    Raises:
        ConfigError: for sizes that do not fit each other.
    """

    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int, src_pad_id: int, tgt_pad_id: int) -> None:
        super().__init__()
        self.tgt_pad_id = tgt_pad_id
        self.encoder = Encoder(src_vocab_size, src_pad_id, config)
        self.decoder = Decoder(tgt_vocab_size, tgt_pad_id, config)
        if config.tie == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight
        initialize(self, config)

    def encode(self, src: Tensor, src_lengths: Tensor, weights: list[BothWays] | None = None) -> tuple[Memory, Tensor]:
        """Memory and s_0 (B, D) of B sentences: src (B, S) int64, padded on the right, src_lengths (B,) int64; see `Encoder`."""
        annotations, mask, state = self.encoder(src, src_lengths, weights)
        device = src.device.type
        if torch.is_autocast_enabled(device):
            annotations = annotations.to(torch.get_autocast_dtype(device))  # once, not in every step
        return self.decoder.attention.memory(annotations, mask), state

    def loss(
        self,
        src: Tensor,
        src_lengths: Tensor,
        tgt_in: Tensor,
        tgt_out: Tensor,
        label_smoothing: float,
        r_drop: float = 0.0,
        weights: Tensor | None = None,
        sources: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Loss of a batch under teacher forcing, summed over its real target tokens; the caller divides.

        With r_drop above 0 each sentence is read twice, side by side in one batch, so that dropout draws a mask for each reading.

        Args:
            src: (B, S) int64, and src_lengths: (B,) int64.
            tgt_in: (B, T) int64, what the decoder has read, from the start symbol on.
            tgt_out: (B, T) int64, what it should say next, to the end symbol.
            label_smoothing, r_drop: see `linear_cross_entropy`.
            weights: (B,) float32, what the cost of each sentence is multiplied by; not with r_drop.
            sources: (B,) int64, the row of src that each target is of, where several are of one, which is then read once: src is (C, S),
                src_lengths (C,); not with r_drop.

        Returns:
            The sum of what tokens cost and the sum of −log p(y): float32 scalars; the second has no gradient.
        """
        if r_drop:
            src, src_lengths, tgt_in, tgt_out = (torch.cat((x, x)) for x in (src, src_lengths, tgt_in, tgt_out))
        real = (tgt_out != self.tgt_pad_id).flatten().nonzero().squeeze(1)
        if r_drop:
            real = real.view(2, -1).t().flatten()  # the two readings of a token next to each other
        memory, state = self.encode(src, src_lengths)
        if sources is not None:
            memory, state = memory.select(sources), state.index_select(0, sources)
        embedded = self.decoder.embed(tgt_in.t()).transpose(0, 1)
        states, contexts = unroll(self.decoder, embedded, state, memory)
        readout = self.decoder.readout(*(x.flatten(0, 1).index_select(0, real) for x in (states, embedded, contexts)))
        vocabulary = self.decoder.vocabulary
        importance = None if weights is None else weights[real // tgt_out.shape[1]]
        targets = tgt_out.flatten()[real]
        return linear_cross_entropy(readout, vocabulary.weight, vocabulary.bias, targets, label_smoothing, r_drop, importance)

    def start(self, src: Tensor, src_lengths: Tensor) -> DecoderState:
        """The state before the first target token, with one hypothesis a sentence (K = 1)."""
        memory, state = self.encode(src, src_lengths)
        return DecoderState(state.unsqueeze(1), memory)

    def step(self, tokens: Tensor, decoder_state: DecoderState) -> tuple[Tensor, Tensor, DecoderState]:
        """Reads one token for each hypothesis and predicts the next one.

        Args:
            tokens: (B, K) int64, y_{i−1}.
            decoder_state: of B sentences with K hypotheses each.

        Returns:
            log_probs (B, K, V) float32, weights (B, K, S) float32, and the state after this step.
        """
        embedded = self.decoder.embed(tokens)
        state, context, weights = self.decoder.step(embedded, decoder_state.state, decoder_state.memory)
        logits = self.decoder.vocabulary(self.decoder.readout(state, embedded, context))
        log_probs = logits.to(state.dtype).log_softmax(-1)
        return log_probs, weights, DecoderState(state, decoder_state.memory)


@torch.no_grad()
def initialize(model: Seq2Seq, config: ModelConfig) -> None:
    """Sets every parameter anew; biases and the embeddings of padding become zero, gains of normalisation one.

    paper: Bahdanau et al. (2015), appendix B.1: recurrent matrices orthogonal, W_a and U_a Gaussian with deviation 0.001, v_a zero, all
    others Gaussian with deviation 0.01. uniform: all evenly between −init_scale and init_scale.
    """
    for name, parameter in model.named_parameters():
        if "bias" in name:
            parameter.zero_()
        elif ".norm" in name:
            parameter.fill_(1)
        elif config.initialization == "uniform":
            parameter.uniform_(-config.init_scale, config.init_scale)
        elif name.endswith(("weight_hh_l0", "gates_state.weight", "gates_proposal.weight")) or ".gates_transitions." in name:
            for gate in parameter.chunk(3):
                nn.init.orthogonal_(gate)
        elif name.endswith("attention.energy"):
            parameter.zero_()
        else:
            parameter.normal_(0, 0.001 if ".attention." in name else 0.01)
    for embedding in (model.encoder.embedding, model.decoder.embedding):
        embedding.weight[embedding.padding_idx].zero_()
