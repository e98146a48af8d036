"""Averages of weights are exact, and a model gets its own weights back."""

import pytest
import torch
from torch import Tensor, nn

from nmt.averaging import MovingAverage, mean_weights, replaced


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
    for decay in (2 / 11, 3 / 12, 4 / 13, 5 / 14, 6 / 15, 0.4, 0.4):
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
    for _ in range(3):
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
