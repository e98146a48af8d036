from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import ModelConfig
from nmt.model.encoder import Encoder, Layer, _states

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


def test_layer_normalisation_is_that_of_each_sentence_read_alone(config: Callable[..., ModelConfig], batch: Batch) -> None:
    encoder, (src, src_lengths, _, _) = make(config(layer_norm=True)), batch
    layer = encoder.layers()[0]
    for norm in (layer.norm_inputs, layer.norm_states):
        for parameter in norm.parameters():
            nn.init.uniform_(parameter, -1, 1)
    annotations, _, _ = encoder(src, src_lengths)
    weight, total = torch.randn_like(annotations), torch.zeros((), dtype=torch.double)
    for b, length in enumerate(src_lengths.tolist()):
        for way, gru in enumerate(layer[:2]):
            order, state = list(range(length))[:: 1 - 2 * way], torch.zeros(5, dtype=torch.double)
            for j in order:
                input_weight, state_weight, input_bias, state_bias = gru.all_weights[0]
                products = (encoder.embedding(src[b, j]) @ input_weight.t() + input_bias, state @ state_weight.t() + state_bias)
                norms = zip(products, (layer.norm_inputs, layer.norm_states), strict=True)
                x, u = (nn.functional.layer_norm(p, p.shape, norm.weight[way, 0], norm.bias[way, 0]).chunk(3) for p, norm in norms)
                new, update = torch.tanh(x[2] + torch.sigmoid(x[0] + u[0]) * u[2]), torch.sigmoid(x[1] + u[1])
                state = (1 - update) * new + update * state
                torch.testing.assert_close(annotations[b, j].chunk(2)[way], state, atol=1e-9, rtol=0)
                total = total + (state * weight[b, j].chunk(2)[way]).sum()
    parameters = [p for name, p in encoder.named_parameters() if "initial" not in name]
    grads = torch.autograd.grad((annotations * weight).sum(), parameters)
    for got, want in zip(grads, torch.autograd.grad(total, parameters), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


def test_equals_its_own_modules(config: Callable[..., ModelConfig]) -> None:
    """The modules run on their own on a GPU."""
    encoder = make(config())
    embedded, turned = torch.randn(2, 4, 3, 6, dtype=torch.double)
    rightward, leftward = _states(embedded, turned, encoder.layers()[0])
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


def test_dropout_between_layers(config: Callable[..., ModelConfig], batch: Batch) -> None:
    """Embeddings are zero here, so dropout shows in what the second layer reads alone."""
    src, src_lengths, _, _ = batch
    for layers in (1, 2):
        encoder = make(config(dropout=0.5, encoder_layers=layers))
        nn.init.zeros_(encoder.embedding.weight)
        assert torch.equal(encoder(src, src_lengths)[0], encoder(src, src_lengths)[0]) == (layers == 1)
