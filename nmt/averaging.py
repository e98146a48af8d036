"""Averages of weights: a moving one along a training run, and the mean of several checkpoints."""

import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nmt.checkpoint import Checkpoint, load_checkpoint
from nmt.errors import CheckpointError, ConfigError
from nmt.resume import differences
from nmt.translator import check_weights

log = logging.getLogger(__name__)


class MovingAverage:
    """An exponential moving average of a model's weights, which often translates better than what the last few updates left.

    After update t it is d · average + (1 − d) · weights with d = min(decay, (1 + t) / (1 + haste + t)): about the last t / haste updates
    count. The haste of 9 of a new training has the weights drawn by chance soon out of the average; that of 2 where it begins anew, from
    weights that are good already, averages the noise of small steps. Where decay is None there is no average, and every method leaves
    the model as it is.
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        """Begin with the model's weights as they are.

        Args:
            model: whose weights are averaged; a parameter under two names is averaged once.
            decay: the share of the average that an update leaves in it, 0 to 1.
        """
        self.model, self.decay, self.updates, self.haste = model, decay, 0, 9
        self.weights = {} if decay is None else _weights(model)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights that an update has just left."""
        if self.decay is not None:
            self.updates += 1
            decay = min(self.decay, (1 + self.updates) / (1 + self.haste + self.updates))
            torch._foreach_lerp_(list(self.weights.values()), list(self.model.parameters()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The average in place of the model's weights until the block ends."""
        with replaced(self.model, self.weights):
            yield

    def move_to(self, weights: Mapping[str, Tensor]) -> None:
        """Give these weights to the model, and to the average as well."""
        set_weights(self.model, weights)
        if self.decay is not None:
            self.weights = _weights(self.model)

    def begin_anew(self) -> None:
        """Give the average to the model, and let another one begin there."""
        set_weights(self.model, self.weights)
        self.updates, self.haste = 0, 2

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold beside the average, which it holds as its model; empty where there is none."""
        return {} if self.decay is None else {"updates": self.updates, "haste": self.haste, "weights": _weights(self.model)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, with the model of its checkpoint in place; without a state, begin an average here."""
        self.updates, self.haste = state.get("updates", 0), state.get("haste", 9)
        self.weights = {} if self.decay is None else _weights(self.model)
        set_weights(self.model, state.get("weights", {}))


def mean_weights(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight, summed in float64, of one or more models with the same names and shapes; two are in memory at a time.

    Names that share a tensor in the first model (tied weights) share one in the mean, so that a file of it does not hold it twice.
    """
    each = iter(models)
    first, count = next(each), 1
    names = {tensor.data_ptr(): name for name, tensor in first.items()}
    totals = {name: first[name].to(torch.float64, copy=True) for name in names.values()}
    for model in each:
        count += 1
        for name, total in totals.items():
            total += model[name]
    means = {name: (total / count).to(first[name].dtype) for name, total in totals.items()}
    return {name: means[names[tensor.data_ptr()]] for name, tensor in first.items()}


def average_checkpoints(paths: Sequence[str]) -> Checkpoint:
    """A checkpoint with the mean of the weights of several, and with all that the first of them says of data, training and settings.

    Its scores are empty, since nobody has measured them; about["averaged"] says which files it is made of.

    Raises:
        ConfigError: `paths` is empty, or holds something else than texts.
        CheckpointError: one cannot be read, has weights that do not fit its configuration, or is of another network or other tokenizers
            than the first.
    """
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ConfigError(f"checkpoints={paths}: one or more files are expected, such as checkpoints=[a.pt,b.pt]")
    first = load_checkpoint(paths[0])
    check_weights(first, paths[0])

    def models() -> Iterator[Mapping[str, Tensor]]:
        yield first.model
        for path in paths[1:]:
            other = load_checkpoint(path)
            if told := _difference(first, other):
                raise CheckpointError(f"{path} cannot be averaged with {paths[0]}: {told}")
            check_weights(other, path)
            if _run(other) != _run(first):
                log.warning("warning: %s and %s are of different runs: the mean of weights of two runs is seldom of use", paths[0], path)
            yield other.model

    about = first.about | {"scores": {}, "averaged": list(paths), "created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    return dataclasses.replace(first, model=mean_weights(models()), about=about, training={})


def _run(checkpoint: Checkpoint) -> tuple[object, ...]:
    """What the checkpoints of a run have in common."""
    run = checkpoint.config.run
    return run.folder, run.name, run.seed, checkpoint.about.get("data")


def _difference(first: Checkpoint, other: Checkpoint) -> str:
    """What keeps two checkpoints from being averaged; an empty text where nothing does."""
    one, another = dataclasses.asdict(first.config.model), dataclasses.asdict(other.config.model)
    told = [f"its {key} is {there}, not {here}" for key, here, there in differences(one, another, "model.")]
    langs = [(checkpoint.config.data.src_lang, checkpoint.config.data.tgt_lang) for checkpoint in (first, other)]
    told += [f"it translates {'–'.join(langs[1])}, not {'–'.join(langs[0])}"] if langs[0] != langs[1] else []
    sides = (("source", first.src_tokenizer, other.src_tokenizer), ("target", first.tgt_tokenizer, other.tgt_tokenizer))
    told += [f"its {side} tokenizer is another one" for side, here, there in sides if here.model != there.model]
    return ", ".join(told)


@contextmanager
def replaced(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """The model with other weights, which are copied into its own tensors, and with its own again when the block ends."""
    own = {name: parameter.detach().clone() for name, parameter in model.named_parameters() if name in weights}
    set_weights(model, weights)
    try:
        yield
    finally:
        set_weights(model, own)


@torch.no_grad()
def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights by name into the model's parameters."""
    for name, parameter in model.named_parameters():
        if name in weights:
            parameter.copy_(weights[name])


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
