"""Averages of weights are exact, and a model gets its own weights back."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy_corpus import Composer, sentences

from nmt.averaging import MovingAverage, average_checkpoints, mean_weights, replaced
from nmt.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from nmt.errors import CheckpointError, ConfigError
from nmt.tokenizer import train_tokenizers
from nmt.translator import build_model


class Tied(nn.Module):
    """Two names for one parameter, and another one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2, dtype=torch.float64)
        self.second = nn.Linear(3, 2, dtype=torch.float64)
        self.second.weight = self.first.weight


def moved(model: nn.Module) -> None:
    """Other weights, as an update leaves them."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_a_moving_average_is_the_sum_that_its_definition_says() -> None:
    model = Tied()
    average = MovingAverage(model, 0.4)
    expected = weights(model)
    for decay in (2 / 11, 3 / 12, 4 / 13, 5 / 14, 6 / 15, 0.4, 0.4, None, 3 / 5, 4 / 6):
        if decay is None:  # from here on from the average itself, of which few updates would soon leave nothing
            average.begin_anew()
            torch.testing.assert_close(model.state_dict(), expected)
            average.decay, decay = 0.9, 2 / 4
        moved(model)
        average.update()
        expected = {name: decay * expected[name] + (1 - decay) * tensor for name, tensor in model.state_dict().items()}
    own = weights(model)
    with average.applied():
        torch.testing.assert_close(model.state_dict(), expected)
        assert model.first.weight is model.second.weight
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())


def test_a_model_gets_its_weights_back_after_an_error_too() -> None:
    model = Tied()
    own = weights(model)
    with pytest.raises(KeyboardInterrupt), replaced(model, {name: tensor + 1 for name, tensor in own.items()}):
        assert torch.equal(model.second.bias, own["second.bias"] + 1)
        raise KeyboardInterrupt
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())


def test_an_average_goes_on_from_its_state() -> None:
    model, other = Tied(), Tied()
    average, again = MovingAverage(model, 0.9), MovingAverage(other, 0.9)
    for anew in (False, True, False):
        if anew:
            average.begin_anew()
        moved(model)
        average.update()
    state = average.state_dict()
    with average.applied():
        other.load_state_dict(weights(model))
    again.load_state_dict(state)
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())
    for one in (model, other):
        torch.manual_seed(1)
        moved(one)
    average.update()
    again.update()
    with average.applied(), again.applied():
        assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_an_average_can_be_begun_and_given_up_within_a_run() -> None:
    model = Tied()
    own = weights(model)
    begun = MovingAverage(model, 0.9)
    moved(model)
    begun.load_state_dict({})  # the checkpoint has none
    with begun.applied():
        assert not torch.equal(model.first.weight, own["first.weight"])
    average = MovingAverage(model, 0.9)
    moved(model)
    average.update()
    trained, state = weights(model), average.state_dict()
    with average.applied():
        served = weights(model)
    model.load_state_dict(served)
    given_up = MovingAverage(model, None)
    given_up.load_state_dict(state)
    given_up.update()
    assert given_up.state_dict() == {}
    with given_up.applied():
        assert all(torch.equal(tensor, trained[name]) for name, tensor in model.state_dict().items())


def test_the_mean_of_models_is_exact_and_tied_weights_stay_tied() -> None:
    half = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    models = [{**Tied().state_dict(), "half": half * number} for number in (1, 2, 3)]
    before = [{name: tensor.clone() for name, tensor in model.items()} for model in models]
    mean = mean_weights(model for model in models)
    for name, tensor in mean.items():
        expected = torch.stack([model[name].double() for model in models]).mean(0)
        torch.testing.assert_close(tensor.double(), expected, atol=1e-15, rtol=0)
        assert tensor.dtype == models[0][name].dtype
        assert all(torch.equal(model[name], old[name]) for model, old in zip(models, before, strict=True))
    assert mean["first.weight"] is mean["second.weight"]
    assert list(mean) == list(models[0])
    assert all(torch.equal(tensor, models[1][name]) for name, tensor in mean_weights([models[1]]).items())


def saved(path: Path, composed: Composer, *overrides: str) -> str:
    """A checkpoint with new weights, as training leaves one at update 3."""
    config = composed(*overrides)
    source, target = train_tokenizers(*zip(*sentences(200, 1), strict=True), config.tokenizer)
    model = build_model(config.model, source, target).state_dict()
    about = {"step": 3, "data": "x", "scores": {"bleu": 7.0}}
    save_checkpoint(path, Checkpoint(config, source, target, model, about, {"optimizer": {"x": torch.ones(3)}}))
    return str(path)


def test_checkpoints_give_one_with_the_mean_of_their_weights(composed: Composer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = [saved(tmp_path / f"{name}.pt", composed) for name in "abc"]
    average = average_checkpoints(paths)
    first, *_ = models = [load_checkpoint(path) for path in paths]
    for name, tensor in average.model.items():
        torch.testing.assert_close(tensor, sum(model.model[name] for model in models) / 3, atol=1e-7, rtol=0)
    assert average.training == {} and average.config == first.config and average.src_tokenizer.model == first.src_tokenizer.model
    assert average.about["scores"] == {} and average.about["averaged"] == paths and average.about["step"] == 3
    assert "different runs" not in caplog.text
    average_checkpoints([paths[0], saved(tmp_path / "d.pt", composed, "run.seed=2")])
    assert "a.pt and " in caplog.text and "d.pt are of different runs" in caplog.text
    caplog.clear()
    average_checkpoints([paths[0], saved(tmp_path / "e.pt", composed, "run.folder=elsewhere")])
    assert "e.pt are of different runs" in caplog.text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("model.encoder_size=24", "model.readout=tanh"), "its model.encoder_size is 24, not 16, its model.readout is tanh, not maxout$"),
        (("data.src_lang=de", "data.tgt_lang=en"), "it translates de–en, not en–de$"),
        (("tokenizer.vocab_size=300",), "its source tokenizer is another one, its target tokenizer is another one$"),
    ],
)
def test_what_keeps_checkpoints_from_being_averaged_is_said(composed: Composer, tmp_path: Path, change: tuple[str, ...], told: str) -> None:
    one, two = saved(tmp_path / "a.pt", composed), saved(tmp_path / "b.pt", composed, *change)
    with pytest.raises(CheckpointError, match=rf"b\.pt cannot be averaged with .*a\.pt: {told}"):
        average_checkpoints([one, one, two])


@pytest.mark.parametrize("paths", [[], [["a.pt", "b.pt"]]])
def test_a_list_of_files_is_needed(paths: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"one or more files are expected, such as checkpoints=\[a\.pt,b\.pt\]"):
        average_checkpoints(paths)
