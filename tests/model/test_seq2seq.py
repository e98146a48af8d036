import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.seq2seq import DecoderState, Seq2Seq
from nmt.model.unroll import unroll_steps

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
Network = Callable[..., Seq2Seq]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"readout": "tanh"},
    {"initial_state": "mean"},
    {"attention": "dot"},
    {"attention": "general"},
    {"attention": "none"},
    {"tie": "target"},
    {"tie": "all"},
    {"encoder_layers": 3},
    {"layer_norm": True, "encoder_layers": 2},
    {"layer_norm": True, "cell": "conditional"},
    {"cell": "conditional"},
    {"cell": "conditional", "attention": "general"},
    {"transitions": 2, "attention": "dot"},
    {"cell": "conditional", "transitions": 1, "layer_norm": True, "tie": "target"},
]
DROPOUT = {
    "embedding_dropout": 0.2,
    "annotation_dropout": 0.3,
    "state_dropout": 0.4,
    "variational": True,
    "src_word_dropout": 0.2,
    "tgt_word_dropout": 0.3,
}


def plain_log_probs(model: Seq2Seq, batch: Batch) -> Tensor:
    """(B, T, V) from the decoder's single steps, with the masks of dropout that belong to seed 4."""
    torch.manual_seed(4)
    src, src_lengths, tgt_in, _ = batch
    memory, state = model.encode(src, src_lengths)
    embedded = model.decoder.embed(tgt_in.t()).transpose(0, 1)
    states, contexts = unroll_steps(model.decoder, embedded, state, memory, model.decoder.state_dropout.mask(state))
    log_probs: Tensor = model.decoder.vocabulary(model.decoder.readout(states, embedded, contexts)).log_softmax(-1)
    return log_probs


def plain_loss(model: Seq2Seq, batch: Batch, smoothing: float) -> Tensor:
    """The loss from the decoder's single steps and PyTorch's cross entropy over all positions."""
    log_probs, tgt_out = plain_log_probs(model, batch), batch[3]
    targets = tgt_out.masked_fill(tgt_out == model.tgt_pad_id, -100)
    return functional.cross_entropy(log_probs.flatten(0, 1), targets.flatten(), label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("options", [*OPTIONS, *(DROPOUT | options for options in OPTIONS)])
def test_loss_and_all_gradients_equal_the_plain_computation(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model = network(**options)
    torch.manual_seed(4)
    smoothed, nll = model.loss(*batch, label_smoothing=0.1)
    torch.testing.assert_close(smoothed, plain_loss(model, batch, 0.1))
    torch.testing.assert_close(nll, plain_loss(model, batch, 0.0).detach())
    assert not nll.requires_grad
    parameters = list(model.parameters())
    fast = torch.autograd.grad(smoothed, parameters)
    for got, want in zip(fast, torch.autograd.grad(plain_loss(model, batch, 0.1), parameters), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("options", [{}, {"cell": "conditional", "layer_norm": True, "encoder_layers": 2}])
def test_r_drop_equals_the_plain_computation_on_each_sentence_twice(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model = network(**DROPOUT, **options)
    torch.manual_seed(4)
    cost, nll = model.loss(*batch, 0.1, r_drop=1.5)
    log_probs = plain_log_probs(model, tuple(torch.cat((x, x)) for x in batch))  # type: ignore[arg-type]
    p, q = (half[batch[3] != model.tgt_pad_id] for half in log_probs.chunk(2))
    targets = batch[3][batch[3] != model.tgt_pad_id]
    entropies = [functional.cross_entropy(x, targets, label_smoothing=0.1, reduction="sum") for x in (p, q)]
    divergences = [(a.exp() * (a - b)).sum() for a, b in ((p, q), (q, p))]
    expected = sum(entropies) / 2 + 1.5 * sum(divergences) / 2
    assert min(divergences) > 0.1
    torch.testing.assert_close(cost, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(nll, -sum(x.gather(1, targets.unsqueeze(1)).sum() for x in (p, q)) / 2, atol=1e-9, rtol=0)
    parameters = list(model.parameters())
    for got, want in zip(torch.autograd.grad(cost, parameters), torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["dropout", "readout_dropout", *(name for name in DROPOUT if name != "variational")])
@pytest.mark.parametrize("variational", [False, True])
def test_the_two_readings_of_r_drop_differ_by_every_dropout(network: Network, batch: Batch, name: str, variational: bool) -> None:
    model = network(**{name: 0.5}, variational=variational)
    costs = []
    for strength in (1e-9, 1.0):
        torch.manual_seed(4)
        costs.append(model.loss(*batch, 0.0, r_drop=strength)[0])
    assert costs[1] > costs[0] + 1e-3
    model.eval()
    torch.testing.assert_close(model.loss(*batch, 0.1, r_drop=1.0), model.loss(*batch, 0.1))


@pytest.mark.parametrize("options", OPTIONS)
def test_steps_equal_teacher_forcing(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model, (src, src_lengths, tgt_in, tgt_out) = network(**options), batch
    state, total = model.start(src, src_lengths), torch.zeros((), dtype=torch.double)
    for t in range(tgt_in.shape[1]):
        log_probs, weights, state = model.step(tgt_in[:, t : t + 1], state)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3, 1, dtype=torch.double))
        assert weights.shape == (3, 1, src.shape[1])
        real = tgt_out[:, t] != 0
        total -= log_probs[:, 0].gather(1, tgt_out[:, t : t + 1])[real].sum()
    torch.testing.assert_close(model.loss(*batch, 0.0)[1], total.detach())


@pytest.mark.parametrize("options", OPTIONS)
def test_padding_columns_change_nothing(network: Network, batch: Batch, options: dict[str, Any]) -> None:
    model, (src, src_lengths, tgt_in, tgt_out) = network(**options), batch
    wide = functional.pad(src, (0, 2)), src_lengths, functional.pad(tgt_in, (0, 3)), functional.pad(tgt_out, (0, 3))
    for got, want in zip(model.loss(*wide, 0.1), model.loss(*batch, 0.1), strict=True):
        torch.testing.assert_close(got, want)
    narrow, wider = (model.step(tgt_in[:, :1], model.start(s, src_lengths)) for s in (src, wide[0]))
    torch.testing.assert_close(wider[0], narrow[0])
    torch.testing.assert_close(wider[1][..., :5], narrow[1])
    assert not wider[1][..., 5:].any()


def test_the_batch_is_the_sum_of_its_sentences(network: Network, batch: Batch) -> None:
    model = network()
    alone = [model.loss(*(x[b : b + 1] for x in batch), 0.1) for b in range(3)]
    for got, parts in zip(model.loss(*batch, 0.1), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(parts).sum())


def test_select_keeps_sentences_and_reorders_beams(network: Network, batch: Batch) -> None:
    model, (src, src_lengths, _, _) = network(), batch
    _, _, state = model.step(torch.tensor([[2]] * 3), model.start(src, src_lengths))
    state = state.select(None, torch.zeros(3, 2, dtype=torch.int64))
    _, _, state = model.step(torch.tensor([[4, 5], [6, 7], [8, 9]]), state)
    chosen = state.select(torch.tensor([2, 0]), torch.tensor([[1, 1, 0], [0, 1, 1]]))
    tokens = torch.tensor([[3, 4, 5], [6, 7, 8]])
    log_probs, weights, after = model.step(tokens, chosen)
    for i, (sentence, beams) in enumerate(((2, (1, 1, 0)), (0, (0, 1, 1)))):
        for j, beam in enumerate(beams):
            one = DecoderState(state.state[sentence : sentence + 1, beam : beam + 1], state.memory.select(torch.tensor([sentence])))
            alone = model.step(tokens[i : i + 1, j : j + 1], one)
            torch.testing.assert_close(log_probs[i, j], alone[0][0, 0])
            torch.testing.assert_close(weights[i, j], alone[1][0, 0])
            torch.testing.assert_close(after.state[i, j], alone[2].state[0, 0])


def test_keys_are_made_once_and_shared_by_the_beams(network: Network, batch: Batch) -> None:
    model, (src, src_lengths, _, _) = network(), batch
    state = model.start(src, src_lengths).select(None, torch.zeros(3, 4, dtype=torch.int64))
    calls: list[int] = []
    model.decoder.attention.key.register_forward_hook(lambda *_: calls.append(1))
    _, _, after = model.step(torch.full((3, 4), 5), state)
    assert not calls
    assert after.memory is state.memory
    assert state.memory.keys.shape[0] == 3


@pytest.mark.parametrize("name", ["dropout", "readout_dropout", *(name for name in DROPOUT if name != "variational")])
def test_dropout_is_off_in_evaluation(network: Network, batch: Batch, name: str) -> None:
    model = network(**{name: 0.5})
    assert model.loss(*batch, 0.0)[1] != model.loss(*batch, 0.0)[1]
    model.eval()
    assert model.loss(*batch, 0.0)[1] == model.loss(*batch, 0.0)[1]
    torch.testing.assert_close(model.loss(*batch, 0.0)[1], network().loss(*batch, 0.0)[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_follows_full_precision(network: Network, batch: Batch, dtype: torch.dtype) -> None:
    model, (src, src_lengths, tgt_in, _) = network().float(), batch
    exact = model.loss(*batch, 0.1)
    with torch.autocast("cpu", dtype):
        half = model.loss(*batch, 0.1)
        log_probs, weights, state = model.step(tgt_in[:, :1], model.start(src, src_lengths))
    half[0].backward()
    assert {x.dtype for x in (*half, log_probs, weights, state.state)} == {torch.float32}
    torch.testing.assert_close(half, exact, rtol=0.02, atol=0)
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.dtype == torch.float32 for p in model.parameters())


def test_learns_one_batch_by_heart(config: Callable[..., ModelConfig], batch: Batch) -> None:
    torch.manual_seed(9)
    model = Seq2Seq(config(encoder_size=16, decoder_size=16), 11, 13, 0, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        loss, nll = model.loss(*batch, 0.0)
        loss.backward()
        optimizer.step()
    assert nll.item() < 0.2


def tied(model: Seq2Seq, tie: str) -> list[nn.Parameter]:
    """The matrices that are one."""
    words = [model.decoder.embedding.weight, model.decoder.vocabulary.weight]
    return [*words, model.encoder.embedding.weight] if tie == "all" else words


@pytest.mark.parametrize("tie", ["target", "all"])
def test_a_tied_matrix_has_the_gradients_of_all_its_places(network: Network, batch: Batch, tie: str) -> None:
    """A copy of the model with a matrix for each place gives their gradients; at padding only the vocabulary has one."""
    model = network(tie=tie)
    free = copy.deepcopy(model)
    free.decoder.vocabulary.weight = nn.Parameter(free.decoder.embedding.weight.detach().clone())
    free.encoder.embedding.weight = nn.Parameter(free.encoder.embedding.weight.detach().clone())
    grad = torch.autograd.grad(model.loss(*batch, 0.1)[0], tied(model, tie)[:1])[0]
    grads = torch.autograd.grad(free.loss(*batch, 0.1)[0], tied(free, tie))
    torch.testing.assert_close(grad, torch.stack(grads).sum(0), atol=1e-12, rtol=0)
    assert not any(one[0].any() for one in (grads[0], *grads[2:]))
    assert torch.equal(grad[0], grads[1][0])


@pytest.mark.parametrize("tie", ["target", "all"])
def test_a_tied_matrix_is_one_parameter(config: Callable[..., ModelConfig], tie: str) -> None:
    torch.manual_seed(12)
    model = Seq2Seq(config(tie=tie, embedding_size=60, readout_size=60, init_scale=0.25), 500, 500, 3, 3)
    matrix = model.decoder.vocabulary.weight
    assert all(weight is matrix for weight in tied(model, tie))
    assert sum(parameter is matrix for parameter in model.parameters()) == 1
    assert (model.encoder.embedding.weight is matrix) == (tie == "all")
    assert not matrix[3].any() and 0.24 < matrix.abs().max().item() <= 0.25


def test_initialization_of_the_paper(config: Callable[..., ModelConfig]) -> None:
    torch.manual_seed(10)
    widths = {"embedding_size": 60, "encoder_size": 50, "decoder_size": 70, "attention_size": 80, "readout_size": 40}
    model = Seq2Seq(config(initialization="paper", cell="conditional", transitions=1, **widths), 500, 600, 0, 3)
    for name, parameter in model.named_parameters():
        if "bias" in name or name.endswith("energy"):
            assert not parameter.any(), name
        elif name.endswith(("weight_hh_l0", "gates_state.weight", "gates_proposal.weight", "gates_transitions.0.weight")):
            for gate in parameter.chunk(3):
                torch.testing.assert_close(gate @ gate.t(), torch.eye(len(gate)), atol=1e-5, rtol=0)
        else:
            expected = 0.001 if "attention" in name else 0.01
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), name
    assert not model.encoder.embedding.weight[0].any()
    assert not model.decoder.embedding.weight[3].any()


def test_uniform_initialization(config: Callable[..., ModelConfig]) -> None:
    torch.manual_seed(11)
    model = Seq2Seq(config(init_scale=0.25, embedding_size=60, encoder_size=50), 500, 600, 0, 3)
    for name, parameter in model.named_parameters():
        largest = parameter.abs().max().item()
        assert largest == 0 if "bias" in name else 0.15 < largest <= 0.25, name


def test_parameters_have_the_configured_sizes(config: Callable[..., ModelConfig]) -> None:
    shapes = {name: tuple(p.shape) for name, p in Seq2Seq(config(), 11, 13, 0, 0).named_parameters()}
    expected = {
        "encoder.embedding.weight": (11, 6),
        "encoder.rightward.weight_hh_l0": (15, 5),
        "encoder.leftward.weight_ih_l0": (15, 6),
        "encoder.initial.weight": (7, 5),
        "decoder.embedding.weight": (13, 6),
        "decoder.attention.query.weight": (8, 7),
        "decoder.attention.key.weight": (8, 10),
        "decoder.attention.energy": (8,),
        "decoder.gates_embedding.weight": (21, 6),
        "decoder.gates_context.weight": (21, 10),
        "decoder.gates_state.weight": (21, 7),
        "decoder.readout_context.weight": (8, 10),
        "decoder.vocabulary.weight": (13, 4),
    }
    assert {name: shapes[name] for name in expected} == expected


def test_sizes_that_do_not_fit_are_refused(config: Callable[..., ModelConfig]) -> None:
    with pytest.raises(ConfigError, match="decoder_size"):
        Seq2Seq(config(attention="dot", decoder_size=9), 11, 13, 0, 0)
    with pytest.raises(ConfigError, match=r"model\.tie=target needs model\.readout_size = .* = 6, not 4: set model\.readout_size=6, or"):
        Seq2Seq(config(tie="target", readout_size=4), 11, 13, 0, 0)
