"""Several networks that translate together: the mean of their probabilities, over the same search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import torch
from torch import Tensor

from nmt.model.seq2seq import DecoderState


class Predictor(Protocol):
    """What `Seq2Seq` and `Inference` have in common."""

    def start(self, src: Tensor, src_lengths: Tensor, /) -> DecoderState: ...
    def step(self, tokens: Tensor, decoder_state: DecoderState, /) -> tuple[Tensor, Tensor, DecoderState]: ...


@dataclass(frozen=True)
class EnsembleState:
    """What search carries from step to step: a state of each network, all of the same hypotheses."""

    states: tuple[DecoderState, ...]

    def select(self, sentences: Tensor | None, beams: Tensor) -> "EnsembleState":
        """See `DecoderState.select`."""
        return EnsembleState(tuple(state.select(sentences, beams) for state in self.states))


class Ensemble:
    """`Seq2Seq.start` and `Seq2Seq.step` of M networks for the same vocabularies: p(y) = Σ_m p_m(y) / M at each step.

    One network alone is itself, to the bit.
    """

    def __init__(self, models: Sequence[Predictor]) -> None:
        """Take M ≥ 1 networks, whose sizes may differ."""
        self._models = models

    def start(self, src: Tensor, src_lengths: Tensor) -> EnsembleState:
        """See `Seq2Seq.start`."""
        return EnsembleState(tuple(model.start(src, src_lengths) for model in self._models))

    def step(self, tokens: Tensor, ensemble_state: EnsembleState) -> tuple[Tensor, Tensor, EnsembleState]:
        """See `Seq2Seq.step`; weights are the mean of those of the networks that have attention."""
        steps = [model.step(tokens, state) for model, state in zip(self._models, ensemble_state.states, strict=True)]
        log_probs, weights, states = zip(*steps, strict=True)
        return _log_mean(log_probs), _mean_weights(weights), EnsembleState(states)


def _mean_weights(weights: Sequence[Tensor]) -> Tensor:
    """The mean, whose rows sum to 1 unless no network has attention: one without it has only zeros."""
    if len(weights) == 1:
        return weights[0]
    total = torch.stack(list(weights)).sum(0)
    return total / total.sum(-1, keepdim=True).clamp(min=torch.finfo(total.dtype).tiny)


def _log_mean(log_probs: Sequence[Tensor]) -> Tensor:
    """log Σ_m exp(x_m) / M, element by element."""
    return log_probs[0] if len(log_probs) == 1 else reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))
