"""Losses and gradients that are no finite numbers, and batches that do not fit into memory."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_corpus import Composer
from training import rows, trainer_of

from nmt.checkpoint import load_checkpoint
from nmt.errors import TrainingError
from nmt.trainer import Trainer


def weights(trainer: Trainer) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def spoiling(trainer: Trainer, spoiled: Callable[[int], bool], number: float, gradient_only: bool = False) -> None:
    """Let the loss, or the gradient alone, of some updates be `number`."""
    loss = trainer.model.loss

    def spoiled_loss(*arguments: Any) -> tuple[Tensor, Tensor]:
        cost, nll = loss(*arguments)
        if not spoiled(trainer.progress.step):
            return cost, nll
        return cost * number, nll if gradient_only else nll * number

    trainer.model.loss = spoiled_loss  # type: ignore[method-assign]


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("gradient_only", [True, False])
def test_an_update_that_is_no_number_is_left_out_and_counted(
    composed: Composer, caplog: pytest.LogCaptureFixture, number: float, gradient_only: bool
) -> None:
    trainer = trainer_of(composed("trainer.ema_decay=0.5", "trainer.log_every_steps=1", "trainer.max_steps=6"))
    spoiling(trainer, lambda step: step in (2, 3, 5), number, gradient_only)
    seen = []
    for _ in range(5):
        trainer._update([next(trainer.batches)])
        seen.append(weights(trainer))
    unchanged = [all(map(torch.equal, one, other)) for one, other in itertools.pairwise(seen)]
    assert unchanged == [True, True, False, True]
    assert (trainer.progress.skipped, trainer.progress.skipped_in_a_row) == (3, 1) and trainer.average.updates == 2
    assert "update 3 is left out" in caplog.text and "update 4" not in caplog.text
    assert math.isfinite(trainer.window.means()["loss"]) and math.isfinite(trainer.window.means()["gradient_norm"])
    trainer.run()
    assert rows(trainer.folder)[0]["skipped"] == 3


def test_too_many_in_a_row_end_the_training_and_keep_what_was_good(composed: Composer) -> None:
    trainer = trainer_of(composed("trainer.max_skipped=4", "trainer.max_steps=50", "trainer.save_every_steps=1"))
    spoiling(trainer, lambda step: step > 7, math.nan)
    with pytest.raises(TrainingError) as error:
        trainer.run()
    told = str(error.value)
    assert "4 updates in a row" in told and "nan, nan, nan, nan." in told and "optimizer.lr=0.01" in told and "finetune_from=" in told
    assert trainer.progress.step == 11
    last = load_checkpoint(trainer.folder / "last.pt")
    assert last.about["step"] == 7 and all(bool(tensor.isfinite().all()) for tensor in last.model.values())
    again = trainer_of(composed())
    again.batches.load_state_dict(last.training["batches"])
    lines = again.batches.line_numbers([next(again.batches) for _ in range(4)][-1])
    assert f"The last of them read pairs {', '.join(map(str, lines[:10]))} " in told


def test_what_overflows_in_float16_is_the_scalers_business(composed: Composer) -> None:
    trainer = trainer_of(composed("precision=fp16", "trainer.max_skipped=1"))
    spoiling(trainer, lambda step: step == 2, math.inf, gradient_only=True)
    before = trainer.scaler.get_scale()
    for _ in range(3):
        trainer._update([next(trainer.batches)])
    assert trainer.progress.skipped == 0 and trainer.scaler.get_scale() == before / 2
    assert trainer.window.updates == 2  # one had a norm that is no number
    spoiling(trainer, lambda step: step == 4, math.nan)
    with pytest.raises(TrainingError):
        trainer._update([next(trainer.batches)])


def test_a_gradient_that_overflows_whatever_the_scale_is_divergence(composed: Composer) -> None:
    trainer = trainer_of(composed("precision=fp16", "trainer.max_steps=50"))
    spoiling(trainer, lambda step: True, math.inf, gradient_only=True)
    with pytest.raises(TrainingError, match="10 updates in a row"):
        trainer.run()


def small_memory(trainer: Trainer, rows_that_fit: int) -> None:
    """Let the model run out of memory, half way, on batches of more rows."""
    loss = trainer.model.loss

    def failing(src: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        if src.shape[0] > rows_that_fit:
            sum(parameter.sum() for parameter in trainer.model.parameters()).backward()  # type: ignore[union-attr]
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return loss(src, *arguments)

    trainer.model.loss = failing  # type: ignore[method-assign]


def test_a_batch_that_does_not_fit_is_read_in_halves_and_gives_the_same_update(
    composed: Composer, caplog: pytest.LogCaptureFixture
) -> None:
    config = composed("model.dropout=0", "batches.max_tokens=400", "batches.accumulate=2", "optimizer=adadelta")
    one, other = trainer_of(config, "one"), trainer_of(config, "other")
    drawn = [[next(one.batches) for _ in range(2)] for _ in range(2)]
    small_memory(other, max(batch.src.shape[0] for batch in drawn[0] + drawn[1]) // 2 + 1)
    for batches in drawn:
        one._update(batches)
        other._update(batches)
    for parameter, same in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(parameter, same, atol=1e-6, rtol=1e-4)
    assert one.window.tokens == other.window.tokens and other.window.nll == pytest.approx(one.window.nll, rel=1e-5)
    assert caplog.text.count("is read in halves") == 1


def test_halves_that_do_not_fit_either_end_the_training(composed: Composer) -> None:
    trainer = trainer_of(composed())
    small_memory(trainer, 0)
    with pytest.raises(TrainingError, match=r"half a batch .*Tried to allocate 2.00 GiB.*batches.max_tokens="):
        trainer._update([next(trainer.batches)])
