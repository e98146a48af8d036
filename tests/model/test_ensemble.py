"""Several networks together: each step is the mean of their probabilities, and the search is the one of a single network."""

import copy
import itertools
import math
from collections.abc import Callable

import pytest
import torch
from test_inference import walk
from torch import Tensor

from nmt.model.ensemble import Ensemble
from nmt.model.inference import Inference
from nmt.model.seq2seq import Seq2Seq
from nmt.search import beam_search

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
Network = Callable[..., Seq2Seq]
BOS, EOS = 2, 3
ALLOWED, LONGEST = (4, 5, 6), 4


@pytest.fixture
def models(network: Network) -> list[Seq2Seq]:
    """Two networks that differ in everything but their vocabularies."""
    return [
        network().eval(),
        network(encoder_size=6, cell="conditional", transitions=1, attention="general", readout="tanh", init_scale=0.8).eval(),
    ]


@torch.no_grad()
def test_one_network_is_itself(models: list[Seq2Seq], batch: Batch) -> None:
    ensemble = Ensemble(models[:1])
    for got, want in zip(walk(ensemble.start, ensemble.step, batch), walk(models[0].start, models[0].step, batch), strict=True):
        assert torch.equal(got, want)


@torch.no_grad()
def test_a_step_is_the_mean_of_all(models: list[Seq2Seq], batch: Batch) -> None:
    ensemble = Ensemble([*models, models[1]])
    one, two = (walk(model.start, model.step, batch) for model in models)
    for number, got in enumerate(walk(ensemble.start, ensemble.step, batch)):
        is_weights = number % 2
        mean = (one[number] + 2 * two[number]) / 3 if is_weights else ((one[number].exp() + 2 * two[number].exp()) / 3).log()
        torch.testing.assert_close(got, mean, atol=1e-12, rtol=1e-12)


@torch.no_grad()
def test_weights_are_of_the_networks_that_have_attention(network: Network, batch: Batch) -> None:
    attentive, blind = network().eval(), network(attention="none").eval()
    for pair, want in (((attentive, blind), attentive), ((blind, blind), blind)):
        ensemble = Ensemble(pair)
        got, alone = (list(walk(which.start, which.step, batch)) for which in (ensemble, want))
        torch.testing.assert_close(got[1], alone[1], atol=1e-12, rtol=1e-12)


def every_sequence(models: list[Seq2Seq], src: Tensor) -> list[tuple[float, tuple[int, ...]]]:
    """The score of each finished sequence for one sentence, from probabilities that are multiplied one by one; best first."""
    scored = []
    for tokens in (tokens for length in range(LONGEST) for tokens in itertools.product(ALLOWED, repeat=length)):
        states = [model.start(src, torch.tensor([src.shape[1]])) for model in models]
        probability = 1.0
        for last, symbol in itertools.pairwise((BOS, *tokens, EOS)):
            steps = [model.step(torch.tensor([[last]]), state) for model, state in zip(models, states, strict=True)]
            states = [state for _, _, state in steps]
            probability *= sum(float(log_probs[0, 0, symbol].exp()) for log_probs, _, _ in steps) / len(models)
        scored.append((math.log(probability) / (len(tokens) + 1), tokens))
    return sorted(scored, reverse=True)


@torch.no_grad()
def test_a_wide_search_finds_the_best_by_mean_probabilities(models: list[Seq2Seq], batch: Batch) -> None:
    src, src_lengths, _, _ = batch
    ensemble = Ensemble([Inference(copy.deepcopy(model).float(), torch.float32) for model in models])
    found = beam_search(
        ensemble.step,
        ensemble.start(src, src_lengths),
        batch_size=3,
        max_lengths=torch.full((3,), LONGEST),
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=[i for i in range(13) if i not in (EOS, *ALLOWED)],
        beam_size=100,
        length_penalty=1.0,
        nbest=10,
    )
    for row, length, hypotheses in zip(src, src_lengths, found, strict=True):
        expected = every_sequence(models, row[None, :length])
        assert [one.tokens for one in hypotheses] == [tokens for _, tokens in expected[:10]]
        assert [one.score for one in hypotheses] == pytest.approx([score for score, _ in expected[:10]], abs=1e-5)
        assert expected != every_sequence(models[:1], row[None, :length])
