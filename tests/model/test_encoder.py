from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.config import ModelConfig
from nmt.model.encoder import Encoder

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def make(config: ModelConfig) -> Encoder:
    torch.manual_seed(2)
    return Encoder(11, 0, config).double()


def packed(encoder: Encoder, src: Tensor, src_lengths: Tensor) -> tuple[Tensor, nn.GRU]:
    """PyTorch's bidirectional GRU over packed sentences, with the encoder's weights."""
    gru = nn.GRU(encoder.embedding.embedding_dim, encoder.rightward.hidden_size, bidirectional=True, batch_first=True).double()
    for own, module in (("", encoder.rightward), ("_reverse", encoder.leftward)):
        for name, parameter in module.named_parameters():
            getattr(gru, name + own).data.copy_(parameter.data)
    inputs = pack_padded_sequence(encoder.embedding(src), src_lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(gru(inputs)[0], batch_first=True)[0], gru


def test_equals_a_packed_bidirectional_gru(config: Callable[..., ModelConfig], batch: Batch) -> None:
    """Values and all gradients; so padding is skipped and ←h starts at each sentence's last token."""
    encoder, (src, src_lengths, _, _) = make(config()), batch
    annotations, mask, _ = encoder(src, src_lengths)
    expected, gru = packed(encoder, src, src_lengths)
    torch.testing.assert_close(annotations, expected, atol=1e-12, rtol=0)
    assert torch.equal(mask, src != 0)
    weight = torch.randn_like(annotations)
    own = [encoder.embedding.weight, *encoder.rightward.parameters(), *encoder.leftward.parameters()]
    grads = torch.autograd.grad((annotations * weight).sum(), own)
    truth = torch.autograd.grad((expected * weight).sum(), [encoder.embedding.weight, *gru.parameters()])
    for got, want in zip(grads, truth, strict=True):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_equals_its_own_modules(config: Callable[..., ModelConfig]) -> None:
    """The modules run on their own on a GPU."""
    encoder = make(config())
    embedded, turned = torch.randn(2, 4, 3, 6, dtype=torch.double)
    rightward, leftward = encoder._states(embedded, turned)
    torch.testing.assert_close(rightward, encoder.rightward(embedded)[0])
    torch.testing.assert_close(leftward, encoder.leftward(turned)[0])


@pytest.mark.parametrize("initial_state", ["backward", "mean"])
def test_padding_changes_nothing(config: Callable[..., ModelConfig], batch: Batch, initial_state: str) -> None:
    encoder, (src, src_lengths, _, _) = make(config(initial_state=initial_state)), batch
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


def test_states_are_dropped_where_they_go_into_the_product(
    config: Callable[..., ModelConfig], batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one mask for all steps of a sentence, and another for each sentence and direction."""
    encoder, (src, src_lengths, _, _) = make(config(state_dropout=0.5)), batch
    kept = torch.rand(2, 3, 5, dtype=torch.double)
    monkeypatch.setattr(encoder.state_dropout, "mask", lambda x: kept if x.shape == kept.shape else None)
    annotations, _, _ = encoder(src, src_lengths)
    for b, length in enumerate(src_lengths.tolist()):
        embedded = encoder.embedding(src[b, :length])
        for direction, gru in enumerate((encoder.rightward, encoder.leftward)):
            state, order = torch.zeros(5, dtype=torch.double), range(length) if direction == 0 else reversed(range(length))
            for t in order:
                inputs = gru.weight_ih_l0 @ embedded[t] + gru.bias_ih_l0
                recurrent = gru.weight_hh_l0 @ (state * kept[direction, b]) + gru.bias_hh_l0
                reset, update = torch.sigmoid(inputs[:10] + recurrent[:10]).chunk(2)
                new = torch.tanh(inputs[10:] + reset * recurrent[10:])
                state = (1 - update) * new + update * state
                torch.testing.assert_close(annotations[b, t].chunk(2)[direction], state)


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


def test_variational_dropout_takes_the_same_elements_from_all_words_of_a_sentence(config: Callable[..., ModelConfig], batch: Batch) -> None:
    encoder, (src, _, _, _) = make(config(dropout=0.5, variational=True)), batch
    embedded = encoder.embedding(src.t())
    ratio = encoder.embedding_dropout(embedded)[:3, :2] / embedded[:3, :2]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    assert not torch.equal(ratio[0, 0], ratio[0, 1])
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
