from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import ModelConfig
from nmt.model.encoder import Encoder, Layer
from nmt.model.norm import Norm

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def make(config: ModelConfig) -> Encoder:
    torch.manual_seed(2)
    return Encoder(11, 0, config).double()


def packed(layer: Layer, x: Tensor, src_lengths: Tensor) -> tuple[Tensor, nn.GRU]:
    """PyTorch's bidirectional GRU over packed sentences, with the weights of one of the encoder's layers."""
    gru = nn.GRU(layer.rightward.input_size, layer.rightward.hidden_size, bidirectional=True, batch_first=True).double()
    for own, module in (("", layer.rightward), ("_reverse", layer.leftward)):
        for name, parameter in module.named_parameters():
            getattr(gru, name + own).data.copy_(parameter.data)
    inputs = pack_padded_sequence(x, src_lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(gru(inputs)[0], batch_first=True)[0], gru


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equals_packed_bidirectional_grus(config: Callable[..., ModelConfig], batch: Batch, layers: int) -> None:
    """Values and all gradients; so padding is skipped, ←h starts at each sentence's last token, and layers add to each other."""
    encoder, (src, src_lengths, _, _) = make(config(encoder_layers=layers)), batch
    annotations, mask, _ = encoder(src, src_lengths)
    expected, *grus = packed(encoder.layers()[0], encoder.embedding(src), src_lengths)
    for layer in encoder.layers()[1:]:
        found, gru = packed(layer, expected, src_lengths)
        expected = expected + found
        grus.append(gru)
    torch.testing.assert_close(annotations, expected, atol=1e-12, rtol=0)
    assert torch.equal(mask, src != 0)
    weight = torch.randn_like(annotations)
    own, theirs = (
        [p for layer in encoder.layers() for gru in layer[:2] for p in gru.parameters()],
        [p for gru in grus for p in gru.parameters()],
    )
    assert len(own) == layers * 8 == len(list(encoder.parameters())) - 3
    grads = torch.autograd.grad((annotations * weight).sum(), [encoder.embedding.weight, *own])
    truth = torch.autograd.grad((expected * weight).sum(), [encoder.embedding.weight, *theirs])
    for got, want in zip(grads, truth, strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def read_alone(layer: Layer, x: Tensor, kept: Tensor) -> Tensor:
    """Annotations (S, 2H) of one sentence, step by step: x (S, E), and what multiplies states where they go into products (2, H)."""
    ways = []
    for way, gru in enumerate(layer[:2]):
        state, states = torch.zeros(gru.hidden_size, dtype=torch.double), {}
        input_weight, state_weight, input_bias, state_bias = gru.all_weights[0]
        for j in list(range(len(x)))[:: 1 - 2 * way]:
            products = [input_weight @ x[j] + input_bias, state_weight @ (state * kept[way]) + state_bias]
            for i, norm in enumerate((layer.norm_inputs, layer.norm_states)):
                if isinstance(norm, Norm):
                    products[i] = nn.functional.layer_norm(products[i], products[i].shape, norm.weight[way, 0], norm.bias[way, 0])
            (x_r, x_z, x_n), (u_r, u_z, u_n) = (product.chunk(3) for product in products)
            new, update = torch.tanh(x_n + torch.sigmoid(x_r + u_r) * u_n), torch.sigmoid(x_z + u_z)
            state = states[j] = (1 - update) * new + update * state
        ways.append(torch.stack([states[j] for j in range(len(x))]))
    return torch.cat(ways, -1)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("state_dropout", [0.0, 0.5])
@pytest.mark.parametrize("layers", [1, 2])
def test_equals_each_sentence_read_alone_step_by_step(
    config: Callable[..., ModelConfig], batch: Batch, monkeypatch: pytest.MonkeyPatch, layers: int, state_dropout: float, layer_norm: bool
) -> None:
    """Values and all gradients; dropout has one mask for all steps of a sentence, another for each sentence, direction and layer."""
    encoder = make(config(encoder_layers=layers, state_dropout=state_dropout, layer_norm=layer_norm))
    for name, parameter in encoder.named_parameters():
        if "norm" in name:
            nn.init.uniform_(parameter, -1, 1)
    src, src_lengths, _, _ = batch
    kept = torch.rand(layers, 2, 3, 5, dtype=torch.double) if state_dropout else torch.ones(layers, 2, 3, 5, dtype=torch.double)
    if state_dropout:
        masks = iter(kept)
        monkeypatch.setattr(encoder.state_dropout, "mask", lambda x: next(masks) if x.shape == kept.shape[1:] else None)
    annotations, _, _ = encoder(src, src_lengths)
    expected = torch.zeros_like(annotations)
    for b, length in enumerate(src_lengths.tolist()):
        first, *above = encoder.layers()
        states = read_alone(first, encoder.embedding(src[b, :length]), kept[0, :, b])
        for number, layer in enumerate(above, start=1):
            states = states + read_alone(layer, states, kept[number, :, b])
        expected[b, :length] = states
    torch.testing.assert_close(annotations, expected, atol=1e-9, rtol=0)
    weight, parameters = torch.randn_like(annotations), [p for name, p in encoder.named_parameters() if "initial" not in name]
    grads = torch.autograd.grad((annotations * weight).sum(), parameters)
    for got, want in zip(grads, torch.autograd.grad((expected * weight).sum(), parameters), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


def test_equals_its_own_modules(config: Callable[..., ModelConfig]) -> None:
    """The modules run on their own on a GPU."""
    encoder = make(config())
    embedded, turned = torch.randn(2, 4, 3, 6, dtype=torch.double)
    rightward, leftward = encoder._states(embedded, turned, encoder.layers()[0])
    torch.testing.assert_close(rightward, encoder.rightward(embedded)[0])
    torch.testing.assert_close(leftward, encoder.leftward(turned)[0])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("initial_state", ["backward", "mean"])
def test_padding_changes_nothing(config: Callable[..., ModelConfig], batch: Batch, initial_state: str, layers: int) -> None:
    encoder, (src, src_lengths, _, _) = make(config(initial_state=initial_state, encoder_layers=layers)), batch
    annotations, _, state = encoder(src, src_lengths)
    wide_annotations, wide_mask, wide_state = encoder(nn.functional.pad(src, (0, 3)), src_lengths)
    torch.testing.assert_close(wide_annotations[:, :5], annotations)
    torch.testing.assert_close(wide_state, state)
    assert not wide_annotations[~wide_mask].any()
    garbage = torch.where(src == 0, 9, src)
    for got, want in zip(encoder(garbage, src_lengths), encoder(src, src_lengths), strict=True):
        assert torch.equal(got, want)


def test_a_sentence_is_the_same_alone_and_in_a_batch(config: Callable[..., ModelConfig], batch: Batch) -> None:
    encoder, (src, src_lengths, _, _) = make(config()), batch
    annotations, _, state = encoder(src, src_lengths)
    for b, length in enumerate(src_lengths.tolist()):
        alone, _, alone_state = encoder(src[b : b + 1, :length], src_lengths[b : b + 1])
        torch.testing.assert_close(alone[0], annotations[b, :length])
        torch.testing.assert_close(alone_state[0], state[b])


def test_initial_states(config: Callable[..., ModelConfig], batch: Batch) -> None:
    src, src_lengths, _, _ = batch
    backward, mean = make(config()), make(config(initial_state="mean"))
    annotations, _, state = backward(src, src_lengths)
    torch.testing.assert_close(state, torch.tanh(backward.initial(annotations[:, 0, 5:])))
    annotations, mask, state = mean(src, src_lengths)
    average = torch.stack([row[real].mean(0) for row, real in zip(annotations, mask, strict=True)])
    torch.testing.assert_close(state, torch.tanh(mean.initial(average)))


def test_dropout_only_in_training(config: Callable[..., ModelConfig], batch: Batch) -> None:
    encoder, (src, src_lengths, _, _) = make(config(dropout=0.5)), batch
    assert not torch.equal(encoder(src, src_lengths)[0], encoder(src, src_lengths)[0])
    encoder.eval()
    assert torch.equal(encoder(src, src_lengths)[0], encoder(src, src_lengths)[0])


def test_annotations_are_dropped_for_the_attention_alone(config: Callable[..., ModelConfig], batch: Batch) -> None:
    src, src_lengths, _, _ = batch
    dropped, mask, state = make(config(annotation_dropout=0.5))(src, src_lengths)
    annotations, _, whole = make(config())(src, src_lengths)
    torch.testing.assert_close(state, whole)
    kept = dropped != 0
    torch.testing.assert_close(dropped, 2 * annotations * kept)
    assert 0.2 < kept[mask].double().mean().item() < 0.8
    assert torch.equal(mask, src != 0)


def test_words_are_dropped_whole_and_keep_their_places(config: Callable[..., ModelConfig], batch: Batch) -> None:
    encoder, (src, src_lengths, _, _) = make(config(src_word_dropout=0.5)), batch
    embedded = encoder.embedding(src)
    seen = encoder.embedding_dropout(embedded)
    kept = seen.any(-1)
    torch.testing.assert_close(seen, 2 * embedded * kept.unsqueeze(-1))
    assert 0 < kept[src != 0].sum() < (src != 0).sum()
    annotations, mask, _ = encoder(src, src_lengths)
    assert torch.equal(mask, src != 0)
    assert annotations[mask].all()


@pytest.mark.parametrize("part", ["embedding_dropout", "layer_dropout"])
def test_variational_dropout_takes_the_same_elements_from_all_words_of_a_sentence(
    config: Callable[..., ModelConfig], batch: Batch, part: str
) -> None:
    encoder, (src, _, _, _) = make(config(dropout=0.5, variational=True, encoder_layers=2)), batch
    embedded = encoder.embedding(src.t())
    ratio = encoder.get_submodule(part)(embedded)[:3, :2] / embedded[:3, :2]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert not torch.equal(ratio[0, 0], ratio[0, 1])
    assert set(ratio.unique().tolist()) == {0.0, 2.0}


def test_dropout_between_layers(config: Callable[..., ModelConfig], batch: Batch) -> None:
    """Embeddings are zero here, so dropout shows in what the second layer reads alone."""
    src, src_lengths, _, _ = batch
    for layers in (1, 2):
        encoder = make(config(dropout=0.5, encoder_layers=layers))
        nn.init.zeros_(encoder.embedding.weight)
        assert torch.equal(encoder(src, src_lengths)[0], encoder(src, src_lengths)[0]) == (layers == 1)
