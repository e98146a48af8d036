from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.attention import Additive, Memory
from nmt.model.decoder import Decoder

B, K, S = 3, 2, 5


def make(config: ModelConfig) -> Decoder:
    torch.manual_seed(3)
    decoder = Decoder(13, 0, config).double()
    for parameter in decoder.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return decoder


def inputs(decoder: Decoder, config: ModelConfig) -> tuple[Tensor, Tensor, Memory]:
    torch.manual_seed(4)
    mask = torch.arange(S) < torch.tensor([5, 3, 1])[:, None]
    annotations = torch.randn(B, S, 2 * config.encoder_size, dtype=torch.double)
    embedded, state = torch.randn(B, K, config.embedding_size).double(), torch.randn(B, K, config.decoder_size).double()
    return embedded, state, decoder.attention.memory(annotations, mask)


def test_attention_looks_from_the_previous_state(config: Callable[..., ModelConfig]) -> None:
    """c_i comes from s_{i−1} and goes into s_i; looking from s_i is another model."""
    decoder = make(config())
    embedded, state, memory = inputs(decoder, config())
    next_state, context, weights = decoder.step(embedded, state, memory)
    for got, want in zip((context, weights), decoder.attention(state, memory), strict=True):
        torch.testing.assert_close(got, want)
    assert not torch.allclose(weights, decoder.attention(next_state, memory)[1], atol=1e-3)


def test_state_is_that_of_a_gru_cell_fed_embedding_and_context(config: Callable[..., ModelConfig]) -> None:
    sizes = config()
    decoder = make(sizes)
    cell = nn.GRUCell(sizes.embedding_size + 2 * sizes.encoder_size, sizes.decoder_size).double()
    cell.weight_ih.data = torch.cat((decoder.gates_embedding.weight, decoder.gates_context.weight), 1).data
    cell.bias_ih.data, cell.bias_hh.data = decoder.gates_embedding.bias.data, decoder.gates_state.bias.data
    cell.weight_hh.data = decoder.gates_state.weight.data
    embedded, state, memory = inputs(decoder, sizes)
    next_state, context, _ = decoder.step(embedded, state, memory)
    expected = cell(torch.cat((embedded, context), -1).flatten(0, 1), state.flatten(0, 1))
    torch.testing.assert_close(next_state, expected.view_as(next_state))


def test_the_conditional_gru_looks_between_two_cells(config: Callable[..., ModelConfig]) -> None:
    sizes = config(cell="conditional")
    decoder = make(sizes)
    assert decoder.gates_proposal is not None
    first, second = (nn.GRUCell(size, sizes.decoder_size).double() for size in (sizes.embedding_size, 2 * sizes.encoder_size))
    for cell, inputs_, recurrent in (
        (first, decoder.gates_embedding, decoder.gates_state),
        (second, decoder.gates_context, decoder.gates_proposal),
    ):
        cell.weight_ih.data, cell.weight_hh.data, cell.bias_hh.data = inputs_.weight.data, recurrent.weight.data, recurrent.bias.data
        cell.bias_ih.data = inputs_.bias.data if inputs_.bias is not None else torch.zeros_like(cell.bias_ih)
    embedded, state, memory = inputs(decoder, sizes)
    proposal = first(embedded.flatten(0, 1), state.flatten(0, 1))
    context, weights = decoder.attention(proposal.view_as(state), memory)
    expected = second(context.flatten(0, 1), proposal).view_as(state)
    for got, want in zip(decoder.step(embedded, state, memory), (expected, context, weights), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("cell", ["gru", "conditional"])
def test_layer_normalisation_of_each_product(config: Callable[..., ModelConfig], cell: str) -> None:
    sizes = config(cell=cell, layer_norm=True)
    decoder = make(sizes)
    embedded, state, memory = inputs(decoder, sizes)

    def normal(product: nn.Linear, norm: Any, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(product(x), norm.weight.shape, norm.weight, norm.bias)

    def gru(x: Tensor, u: Tensor, previous: Tensor) -> Tensor:
        (x_r, x_z, x_n), (u_r, u_z, u_n) = x.chunk(3, -1), u.chunk(3, -1)
        new, update = torch.tanh(x_n + torch.sigmoid(x_r + u_r) * u_n), torch.sigmoid(x_z + u_z)
        return (1 - update) * new + update * previous

    word, past = normal(decoder.gates_embedding, decoder.norm_embedding, embedded), normal(decoder.gates_state, decoder.norm_state, state)
    seen_from = gru(word, past, state) if cell == "conditional" else state
    attention = decoder.attention
    assert isinstance(attention, Additive)
    query = normal(attention.query, attention.norm_query, seen_from)
    energies = torch.tanh(query.unsqueeze(2) + memory.keys.unsqueeze(1) / 2) @ attention.energy
    weights = energies.masked_fill(~memory.mask.unsqueeze(1), -torch.inf).softmax(-1)
    found = normal(decoder.gates_context, decoder.norm_context, weights @ memory.annotations)
    if decoder.gates_proposal is None:
        expected = gru(word + found, past, state)
    else:
        expected = gru(found, normal(decoder.gates_proposal, decoder.norm_proposal, seen_from), seen_from)
    for got, want in zip(decoder.step(embedded, state, memory), (expected, weights @ memory.annotations, weights), strict=True):
        torch.testing.assert_close(got, want)
    keys = normal(attention.key, attention.norm_key, memory.annotations)
    torch.testing.assert_close(memory.keys, 2 * keys)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("cell", ["gru", "conditional"])
def test_transitions_are_grus_without_input_at_the_end_of_a_step(config: Callable[..., ModelConfig], cell: str, layer_norm: bool) -> None:
    deep = make(config(cell=cell, layer_norm=layer_norm, transitions=2))
    shallow = Decoder(13, 0, config(cell=cell, layer_norm=layer_norm)).double()
    shallow.load_state_dict({name: value for name, value in deep.state_dict().items() if "transitions" not in name})
    embedded, state, memory = inputs(deep, config())
    expected, context, weights = shallow.step(embedded, state, memory)
    for gates, norm in zip(deep.gates_transitions, deep.norm_transitions, strict=True):
        reset, update, new = norm(gates(expected)).chunk(3, -1)
        update = update.sigmoid()
        expected = (1 - update) * torch.tanh(reset.sigmoid() * new) + update * expected
    for got, want in zip(deep.step(embedded, state, memory), (expected, context, weights), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("options", [{"cell": "gru", "transitions": 1}, {"cell": "conditional"}])
def test_hypotheses_do_not_see_each_other(config: Callable[..., ModelConfig], options: dict[str, Any]) -> None:
    decoder = make(config(**options))
    embedded, state, memory = inputs(decoder, config())
    together = decoder.step(embedded, state, memory)
    for k in range(K):
        alone = decoder.step(embedded[:, k : k + 1], state[:, k : k + 1], memory)
        for one, all_ in zip(alone, together, strict=True):
            torch.testing.assert_close(one, all_[:, k : k + 1])


@pytest.mark.parametrize("kind", ["maxout", "tanh"])
def test_readout(config: Callable[..., ModelConfig], kind: str) -> None:
    sizes = config(readout=kind)
    decoder = make(sizes)
    embedded, state, memory = inputs(decoder, sizes)
    _, context, _ = decoder.step(embedded, state, memory)
    weight = torch.cat([part.weight for part in (decoder.readout_state, decoder.readout_embedding, decoder.readout_context)], 1)
    sums = torch.cat((state, embedded, context), -1) @ weight.t() + decoder.readout_state.bias
    size = sizes.readout_size
    expected = torch.tanh(sums) if kind == "tanh" else torch.stack([sums[..., [j, j + size]].amax(-1) for j in range(size)], -1)
    readout = decoder.readout(state, embedded, context)
    assert readout.shape == (B, K, size)
    torch.testing.assert_close(readout, expected)


def test_dropout_only_in_training(config: Callable[..., ModelConfig]) -> None:
    decoder = make(config(dropout=0.5))
    embedded, state, memory = inputs(decoder, config())
    tokens, context = torch.arange(8), decoder.step(embedded, state, memory)[1]
    assert not torch.equal(decoder.embed(tokens), decoder.embed(tokens))
    assert not torch.equal(decoder.readout(state, embedded, context), decoder.readout(state, embedded, context))
    decoder.eval()
    assert torch.equal(decoder.embed(tokens), decoder.embedding.weight[:8])
    assert torch.equal(decoder.readout(state, embedded, context), decoder.readout(state, embedded, context))


def test_a_state_is_dropped_where_it_goes_into_products(config: Callable[..., ModelConfig]) -> None:
    """W (s ∘ m) = (W diag m) s: the same as other weights; what is carried over to the next state is whole."""
    decoder = make(config(transitions=1))
    embedded, state, memory = inputs(decoder, config())
    kept = torch.tensor([0, 2, 2, 0, 2, 0, 2], dtype=torch.double)
    got = decoder.step(embedded, state, memory, kept.expand(B, 1, -1))
    for linear in (decoder.gates_state, decoder.attention.query, decoder.gates_transitions[0]):
        assert isinstance(linear, nn.Linear)
        linear.weight.data *= kept
    for one, want in zip(got, decoder.step(embedded, state, memory), strict=True):
        torch.testing.assert_close(one, want)


@pytest.mark.parametrize(("part", "other"), [("embedding", "readout"), ("readout", "embedding")])
def test_dropout_of_a_part_goes_before_that_of_all(config: Callable[..., ModelConfig], part: str, other: str) -> None:
    zeros = {}
    for name, settings in (("own", {f"{part}_dropout": 0.9, f"{other}_dropout": 0.0}), ("all", {})):
        sizes = config(dropout=0.5, embedding_size=200, readout_size=200, **settings)
        decoder = make(sizes)
        embedded, state, memory = inputs(decoder, sizes)
        readout = decoder.readout(state, embedded, decoder.step(embedded, state, memory)[1])
        shares = {"embedding": decoder.embed(torch.arange(12) + 1), "readout": readout}
        zeros[name] = {key: (x == 0).double().mean().item() for key, x in shares.items()}
    assert zeros["own"] == pytest.approx({part: 0.9, other: 0.0}, abs=0.05)
    assert zeros["all"] == pytest.approx({part: 0.5, other: 0.5}, abs=0.05)


def test_words_that_the_decoder_reads_are_dropped_whole(config: Callable[..., ModelConfig]) -> None:
    decoder = make(config(tgt_word_dropout=0.5))
    tokens = torch.arange(12) + 1
    seen = decoder.embed(tokens)
    kept = seen.any(-1)
    torch.testing.assert_close(seen, 2 * decoder.embedding(tokens) * kept.unsqueeze(-1))
    assert 0 < kept.sum() < 12


def test_variational_dropout_takes_the_same_elements_from_all_words_of_a_sentence(config: Callable[..., ModelConfig]) -> None:
    decoder = make(config(dropout=0.5, variational=True))
    tokens = torch.arange(12).view(4, 3) + 1
    ratio = decoder.embed(tokens) / decoder.embedding(tokens)
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(ratio[0, 0], ratio[0, 1])
