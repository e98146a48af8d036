"""The network in search: what depends on the source alone, or on a word alone, is computed once and not in every step."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.model.attention import Additive, Memory
from nmt.model.kernels import Product, tanh_
from nmt.model.norm import Norm
from nmt.model.seq2seq import DecoderState, Seq2Seq


class Inference:
    """`Seq2Seq.start` and `Seq2Seq.step`, faster and without dropout and gradients.

    Gates and readout read an annotation h_j and a word y only through the products [C ; C_o] h_j and [W ; V_o] E y. The first are formed
    for each source position, where attention averages them in place of the annotations: with K hypotheses and T steps that saves K·T
    products for S. The second are kept for each word that has come up. Products with the same vector are one: U and W_a with the state,
    U_a and [C ; C_o] with an annotation.
    """

    @torch.no_grad()
    def __init__(self, model: Seq2Seq, dtype: torch.dtype) -> None:
        """Take a model, whose parameters must not change as long as this is used, and the dtype of the matrix products."""
        decoder, attention = model.decoder, model.decoder.attention
        self._model, self._decoder, self._attention = model, decoder, attention
        self.dtype, self._size = dtype, decoder.gates_state.in_features
        self._both_ways = model.encoder.both_ways(dtype)
        query, key = decoder.gates_state.weight[:0], decoder.gates_context.weight[:0]
        if isinstance(attention, Additive):
            scale = 1 if decoder.layer_norm else 2  # see `_double`
            query, key = scale * attention.query.weight, scale * attention.key.weight
        first = None if decoder.gates_proposal is None else decoder.gates_state
        self._first = None if first is None else _product(dtype, (first.weight,), first.bias)
        looking = decoder.gates_proposal or decoder.gates_state  # reads the state that attention looks from
        self._norm = decoder.norm_state if first is None else decoder.norm_proposal
        self._state = _product(dtype, (looking.weight, query), functional.pad(looking.bias, (0, len(query))))
        transitions = zip(decoder.gates_transitions, decoder.norm_transitions, strict=True)
        self._transitions = [(Product(*(p.to(dtype) for p in gates.parameters())), norm) for gates, norm in transitions]
        self._no_input = looking.bias.new_zeros(3 * self._size)
        self._annotations = _product(dtype, (key, decoder.gates_context.weight, decoder.readout_context.weight))
        embedding_bias = torch.cat((decoder.gates_embedding.bias, decoder.readout_state.bias))
        self._embedding = _product(dtype, (decoder.gates_embedding.weight, decoder.readout_embedding.weight), embedding_bias)
        self._readout = _product(dtype, (decoder.readout_state.weight,))
        self._vocabulary = _product(dtype, (decoder.vocabulary.weight,), decoder.vocabulary.bias)
        self._words = decoder.embedding.weight
        # rows of words that have not come up are not even touched, so they take no memory
        self._table = self._words.new_empty(len(self._words), len(embedding_bias), dtype=dtype)
        self._known = torch.zeros(len(self._words), dtype=torch.bool)

    def start(self, src: Tensor, src_lengths: Tensor) -> DecoderState:
        """See `Seq2Seq.start`; the memory holds [C ; C_o] h_j in place of h_j."""
        annotations, mask, state = self._model.encoder(src, src_lengths, self._both_ways)
        if isinstance(self._attention, Additive):
            mapped, keys = self._annotations(annotations), len(self._attention.energy)
            memory = Memory(mapped[..., keys:], _double(self._attention.norm_key, mapped[..., :keys].to(state.dtype)), mask)
        else:
            memory = self._attention.memory(annotations, mask).project(self._annotations)
        return DecoderState(state.unsqueeze(1), memory)

    def step(self, tokens: Tensor, decoder_state: DecoderState) -> tuple[Tensor, Tensor, DecoderState]:
        """See `Seq2Seq.step`."""
        previous, memory, size = decoder_state.state, decoder_state.memory, self._size
        with torch.autocast(previous.device.type, enabled=False):
            words = self._of_words(tokens)
            if self._first is not None:
                recurrent = self._first(previous).to(previous.dtype)
                previous = _gru(words.to(previous.dtype), self._decoder.norm_state(recurrent), previous)
            recurrent = self._state(previous).to(previous.dtype)
            if isinstance(self._attention, Additive):
                averaged, weights = self._attention.look(_double(self._attention.norm_query, recurrent[..., 3 * size :]), memory)
            else:
                averaged, weights = self._attention(previous, memory)
            averaged = _normalize(self._decoder.norm_context, averaged, 3 * size)
            inputs = (words + averaged).to(previous.dtype)
            gates = inputs if self._first is None else averaged.to(previous.dtype)
            state = _gru(gates, self._norm(recurrent[..., : 3 * size]), previous)
            for product, norm in self._transitions:
                state = _gru(self._no_input, norm(product(state).to(state.dtype)), state)
            readout = self._readout(state).to(state.dtype).add_(inputs[..., 3 * size :])
            readout = torch.maximum(*readout.chunk(2, -1)) if self._decoder.maxout_size == 2 else tanh_(readout)
            logits = self._vocabulary(readout).to(state.dtype)
            log_probs = torch.log_softmax(logits, -1, out=logits)
        return log_probs, weights, DecoderState(state, memory)

    def _of_words(self, tokens: Tensor) -> Tensor:
        """[W ; V_o] E y + bias: tokens (B, K) to (B, K, 3D + readout). On a GPU, where looking at values makes it wait, always anew."""
        if tokens.device.type != "cpu":
            return self._of_embedding(functional.embedding(tokens, self._words))
        unknown = torch.unique(tokens[~self._known[tokens]])
        if len(unknown) > 0:
            self._table[unknown] = self._of_embedding(self._words[unknown])
            self._known[unknown] = True
        return functional.embedding(tokens, self._table)

    def _of_embedding(self, embedded: Tensor) -> Tensor:
        return _normalize(self._decoder.norm_embedding, self._embedding(embedded), 3 * self._size)


def _product(dtype: torch.dtype, weights: tuple[Tensor, ...], bias: Tensor | None = None) -> Product:
    return Product(torch.cat(weights).to(dtype), None if bias is None else bias.to(dtype))


def _normalize(norm: Norm | nn.Identity, x: Tensor, size: int) -> Tensor:
    """x with the first `size` elements of each row normalised."""
    return torch.cat((norm(x[..., :size]).to(x.dtype), x[..., size:]), -1) if isinstance(norm, Norm) else x


def _double(norm: Norm | nn.Identity, product: Tensor) -> Tensor:
    """Twice the normalised product; where nothing is normalised, its weight is doubled already."""
    return 2 * norm(product) if isinstance(norm, Norm) else product


def _gru(inputs: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    """See nmt.model.steps.gru; of inputs and recurrent (…, ≥ 3D), the first 3D count."""
    size = state.shape[-1]
    reset, update = (inputs[..., : 2 * size] + recurrent[..., : 2 * size]).sigmoid_().chunk(2, -1)
    new = tanh_(torch.addcmul(inputs[..., 2 * size : 3 * size], reset, recurrent[..., 2 * size : 3 * size]))
    return torch.lerp(new, state, update)
