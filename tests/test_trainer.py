"""Training: it learns, it stops when told, big batches equal accumulated ones, and a continued run equals an undisturbed one."""

import dataclasses
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_corpus import Composer
from training import assert_same, prepared, rows, scored, stop_at, trainer_of

from nmt import pipeline
from nmt.checkpoint import load_checkpoint
from nmt.config import AverageConfig
from nmt.data.batches import make_batch
from nmt.errors import ConfigError, DataError
from nmt.interruption import Interrupted
from nmt.journal import Validation
from nmt.rehearsal import rehearse
from nmt.trainer import Trainer

VARIANTS = [
    ("precision=fp32", "batches.accumulate=1"),
    ("precision=bf16", "batches.accumulate=2"),
    ("optimizer=adadelta", "scheduler=inverse_sqrt", "trainer.keep=2", "tokenizer.joint=false"),
    ("batches.sampling=0.3", "batches.accumulate=2", "batches.max_tokens=1000"),
    ("tokenizer=unigram", "tokenizer.vocab_size=320", "batches.sampling=0.3", "precision=fp16"),
    ("trainer.average=2", "trainer.keep=2", "trainer.ema_decay=0.9"),
    ("trainer.risk_after=6", "trainer.risk_samples=3", "precision=bf16", "batches.accumulate=2", "trainer.ema_decay=0.9"),
    ("trainer.r_drop=2.5", "batches.accumulate=2", "model.dropout=0.3"),
    ("scheduler.return_to_best=true", "scheduler.patience=0", "optimizer.lr=0.3", "trainer.valid_every_steps=4", "trainer.ema_decay=0.5"),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant[0])
@pytest.mark.parametrize("stop", [1, 3, 6, 7, 11])
def test_a_continued_run_equals_an_undisturbed_one(composed: Composer, stop: int, variant: tuple[str, ...]) -> None:
    calm = trainer_of(composed(*variant), "calm")
    calm.run()
    config = composed(*variant)
    first = trainer_of(config, "stopped")
    stop_at(first, stop)
    with pytest.raises(Interrupted):
        first.run()
    torch.manual_seed(99)  # a new process has other random states
    second = trainer_of(config, "stopped")
    second.restore(load_checkpoint(second.folder / "last.pt"))
    assert second.progress.step == stop
    second.run()
    for name in ("last.pt", "best.pt"):
        assert_same(calm.folder / name, second.folder / name)
    assert [row for row in rows(calm.folder) if "valid_bleu" in row] == [row for row in rows(second.folder) if "valid_bleu" in row]


def epoch_tokens(trainer: Trainer) -> int:
    """The target tokens of the first epoch."""
    total = 0
    while trainer.batches.epoch == 0:
        total += next(trainer.batches).tokens
    return total


def test_training_samples_pieces_and_validation_does_not(composed: Composer) -> None:
    plain, sampling = trainer_of(composed(), "plain"), trainer_of(composed("batches.sampling=0.3"), "sampling")
    assert epoch_tokens(plain) < epoch_tokens(sampling)
    for one, other in zip(plain.validate.batches, sampling.validate.batches, strict=True):  # type: ignore[attr-defined]
        assert torch.equal(one.src, other.src) and torch.equal(one.tgt_out, other.tgt_out)


def test_labels_are_smoothed_in_training_and_not_in_what_is_reported(composed: Composer) -> None:
    reported, norms = [], []
    for smoothing in (0.0, 0.3):
        trainer = trainer_of(composed(f"trainer.label_smoothing={smoothing}", "model.dropout=0"), str(smoothing))
        validated = trainer.validate().scores["loss"]
        trainer._update([next(trainer.batches)])
        means = trainer.window.means()
        reported.append([validated, means["loss"]])
        norms.append(means["gradient_norm"])
    assert reported[0] == reported[1]
    assert norms[1] < 0.95 * norms[0]


@pytest.mark.parametrize("decay", ["null", "0.5"])
def test_an_interrupted_validation_is_made_again(composed: Composer, decay: str) -> None:
    calm = trainer_of(composed(f"trainer.ema_decay={decay}"), "calm")
    calm.run()
    first = trainer_of(composed(f"trainer.ema_decay={decay}"), "stopped")

    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal ends a validation at once")

    first.validate.translator.renew = interrupted  # type: ignore[attr-defined]
    with pytest.raises(Interrupted) as stop:
        first.run()
    assert stop.value.number == signal.SIGINT and first.progress.step == 6 and first.progress.validated_step == 0
    second = trainer_of(composed(f"trainer.ema_decay={decay}"), "stopped")
    second.restore(load_checkpoint(second.folder / "last.pt"))
    second.run()
    assert_same(calm.folder / "last.pt", second.folder / "last.pt")


def test_signals_are_as_before_afterwards(composed: Composer) -> None:
    before = signal.getsignal(signal.SIGINT)
    trainer_of(composed("trainer.max_steps=1")).run()
    assert signal.getsignal(signal.SIGINT) is before


def test_accumulated_batches_equal_one_big_batch(composed: Composer) -> None:
    config = composed("model.dropout=0", "batches.max_tokens=300", "optimizer=adadelta", "optimizer.clip_norm=null")
    one, other = trainer_of(config, "one"), trainer_of(config, "other")
    small = [next(one.batches) for _ in range(7)]
    corpus, pairs = prepared(config), [pair for batch in small for pair in batch.pairs]
    sides = ([side(pair) for pair in pairs] for side in (corpus.train.src, corpus.train.tgt))
    big = make_batch(*sides, corpus.src_tokenizer, corpus.tgt_tokenizer)
    one._update(small)
    other._update([big])
    for (name, parameter), same in zip(one.model.named_parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(parameter, same, atol=1e-6, rtol=1e-4, msg=name)
    assert one.window.tokens == other.window.tokens == big.tokens


def test_r_drop_is_learnt_from_and_reported_as_cross_entropy_once_a_token(composed: Composer) -> None:
    means = []
    for settings in (("model.dropout=0.3", "trainer.r_drop=1e-9"), ("model.dropout=0.3", "trainer.r_drop=5")):
        trainer = trainer_of(composed(*settings), settings[1])
        torch.manual_seed(3)
        trainer._update([batch := next(trainer.batches)])
        assert trainer.window.tokens == trainer.progress.tgt_tokens == batch.tokens
        means.append(trainer.window.means())
    assert means[0]["loss"] == means[1]["loss"] == pytest.approx(math.log(trainer.model.decoder.vocabulary.out_features), rel=0.05)
    assert means[1]["gradient_norm"] != pytest.approx(means[0]["gradient_norm"], rel=1e-3)


def test_one_batch_is_learnt_by_heart(composed: Composer) -> None:
    """A network without a mistake overfits: BLEU 100 on the twenty sentences that it is shown again and again."""
    valid = composed().data.valid[0]
    config = composed(
        f"data.train=[{valid}]", "model.dropout=0", "batches.max_tokens=2000", "trainer.label_smoothing=0", "optimizer.lr=0.01",
        "model.decoder_size=64", "model.encoder_size=32", "model.embedding_size=32", "model.attention_size=32", "model.readout_size=32",
        "model.init_scale=0.3", "trainer.max_steps=200", "trainer.valid_every_steps=200", "tokenizer.vocab_size=330",
        "scheduler.warmup_steps=10", "trainer.valid_beam_size=2",
    )  # fmt: skip
    trainer = trainer_of(config)
    trainer.run()
    assert trainer.scores["bleu"] == pytest.approx(100.0)
    assert trainer.scores["loss"] < 0.1


@pytest.mark.parametrize(
    ("limits", "reason", "step"),
    [
        (("trainer.max_steps=5",), "max_steps=5", 5),
        (("trainer.max_epochs=1",), "max_epochs=1", None),
        (("trainer.max_minutes=1e-9",), "max_minutes", 0),
        (("trainer.patience=1", "optimizer.lr=1e-9", "trainer.max_steps=100"), "patience=1", 12),
    ],
)
def test_the_first_limit_ends_a_run_and_is_named(composed: Composer, limits: tuple[str, ...], reason: str, step: int | None) -> None:
    trainer = trainer_of(composed("trainer.max_steps=100", *limits))
    assert reason in trainer.run()
    assert step is None or trainer.progress.step == step
    if reason == "max_epochs=1":
        assert trainer.batches.epoch == 1
    assert (trainer.folder / "last.pt").exists()


def test_best_is_the_best_validation_and_keep_keeps_so_many(composed: Composer) -> None:
    scores = iter([3.0, 7.0, 5.0, 7.0, 1.0, 6.0])
    trainer = trainer_of(composed("trainer.valid_every_steps=2", "trainer.keep=3"))
    trainer.validate = lambda: Validation({"bleu": next(scores), "loss": 1.0})
    trainer.run()
    assert (trainer.progress.best, trainer.progress.best_step) == (7.0, 4)
    assert load_checkpoint(trainer.folder / "best.pt").about["step"] == 4
    assert sorted(path.name for path in trainer.folder.glob("step-*.pt")) == ["step-12.pt", "step-4.pt", "step-8.pt"]


@pytest.mark.parametrize("metric", ["bleu", "loss"])
def test_of_equal_scores_the_earlier_is_kept_and_what_is_no_number_is_not(composed: Composer, metric: str) -> None:
    scores = iter([math.nan, 5.0, math.nan, 5.0, 5.0, math.nan])
    trainer = trainer_of(composed("trainer.valid_every_steps=2", "trainer.keep=2", f"trainer.metric={metric}"))
    trainer.validate = lambda: Validation({metric: next(scores)})
    trainer.run()
    assert trainer.files.kept == [(5.0, 4), (5.0, 8)]
    assert sorted(path.name for path in trainer.folder.glob("step-*.pt")) == ["step-4.pt", "step-8.pt"]


def test_a_metric_that_falls_is_better_when_lower(composed: Composer) -> None:
    scores = iter([3.0, 2.0, 5.0])
    trainer = trainer_of(composed("trainer.valid_every_steps=4", "trainer.metric=loss"))
    trainer.validate = lambda: Validation({"loss": next(scores)})
    trainer.run()
    assert (trainer.progress.best, trainer.progress.best_step) == (2.0, 8)


def test_what_is_validated_and_kept_is_the_moving_average(composed: Composer) -> None:
    """As a run without an average that goes through the same weights, averaged here."""
    plain = trainer_of(composed("trainer.save_every_steps=1"), "plain")
    average = {name: tensor.clone() for name, tensor in plain.model.state_dict().items()}
    update = plain._update

    def averaging(batches: Any) -> None:
        update(batches)
        decay = min(0.5, (1 + plain.progress.step) / (10 + plain.progress.step))
        for name, tensor in plain.model.state_dict().items():
            average[name] = decay * average[name] + (1 - decay) * tensor

    plain._update = averaging  # type: ignore[method-assign]
    plain.run()
    trainer = trainer_of(composed("trainer.ema_decay=0.5", "trainer.keep=1"), "averaged")
    trainer.run()
    trained = dict(plain.model.state_dict())
    assert all(torch.equal(tensor, trained[name]) for name, tensor in trainer.model.state_dict().items())
    last = load_checkpoint(trainer.folder / "last.pt")
    assert all(torch.equal(tensor, trained[name]) for name, tensor in last.training["average"]["weights"].items())
    for name in ("last.pt", f"step-{trainer.progress.best_step}.pt", "best.pt"):
        if load_checkpoint(trainer.folder / name).about["step"] == 12:
            torch.testing.assert_close(load_checkpoint(trainer.folder / name).model, average)
    plain.model.load_state_dict(average)
    assert plain.validate().scores["loss"] == pytest.approx(last.about["scores"]["loss"], rel=1e-5)
    assert trainer.validate().scores["loss"] != pytest.approx(last.about["scores"]["loss"], rel=1e-3)


@pytest.mark.parametrize("decay", ["null", "0.5"])
def test_a_cut_of_the_rate_returns_to_the_best_weights(composed: Composer, decay: str) -> None:
    settings = ("trainer.valid_every_steps=2", f"trainer.ema_decay={decay}", "trainer.max_steps=8")
    trainer = trainer_of(composed(*settings, "scheduler.return_to_best=true"))
    seen = scored(trainer, 5.0, 7.0, 6.0, 3.0)  # patience is 1
    moments: list[Tensor] = []
    cut = trainer._cut

    def noting() -> None:
        moments.extend(state["exp_avg"].clone() for state in trainer.optimizer.state.values())
        cut()
        for name, tensor in trainer.model.state_dict().items():
            assert torch.equal(tensor, seen[1][name])
        with trainer.average.applied():
            for name, tensor in trainer.model.state_dict().items():
                assert torch.equal(tensor, seen[1][name])

    trainer._cut = noting  # type: ignore[method-assign]
    trainer.run()
    assert len(seen) == 4 and moments
    last = load_checkpoint(trainer.folder / "last.pt")
    assert all(torch.equal(tensor, seen[1][name]) for name, tensor in last.model.items())
    assert last.about["scores"]["bleu"] == 7  # of the weights that are there
    states = last.training["optimizer"]["state"].values()
    assert all(torch.equal(state["exp_avg"], moment) for state, moment in zip(states, moments, strict=True))
    stays = trainer_of(composed(*settings), "stays")
    seen = scored(stays, 5.0, 7.0, 6.0, 3.0)
    stays.run()
    assert all(torch.equal(tensor, seen[3][name]) for name, tensor in load_checkpoint(stays.folder / "last.pt").model.items())


@pytest.mark.parametrize(("score", "wins"), [(9.0, True), (7.0, False), (math.nan, False)])
@pytest.mark.parametrize("decay", ["null", "0.5"])
def test_the_mean_of_the_best_becomes_best_where_it_is_better(
    composed: Composer, caplog: pytest.LogCaptureFixture, score: float, wins: bool, decay: str
) -> None:
    caplog.set_level("INFO")
    trainer = trainer_of(composed("trainer.valid_every_steps=4", "trainer.keep=3", "trainer.average=2", f"trainer.ema_decay={decay}"))
    seen = scored(trainer, 5.0, 7.0, 6.0, score)
    trainer.run()
    mean = {name: (seen[1][name] + seen[2][name]) / 2 for name in seen[0]}
    torch.testing.assert_close(seen[3], mean)
    best, last = (load_checkpoint(trainer.folder / name) for name in ("best.pt", "last.pt"))
    torch.testing.assert_close(best.model, mean if wins else seen[1], rtol=0, atol=1e-7)
    assert best.about["scores"]["bleu"] == (9.0 if wins else 7.0)
    assert best.about.get("averaged") == ([8, 12] if wins else None)
    assert ("bleu 9.00, better than best.pt, which had 7.00" in caplog.text) == wins
    assert ("no better than best.pt, which has 7.00" in caplog.text) != wins
    assert "the mean of the models of updates 8, 12 has bleu" in caplog.text
    torch.testing.assert_close(last.model, seen[2], rtol=0, atol=0)  # training would go on from its own weights
    assert last.about["scores"]["bleu"] == 6.0 and "averaged" not in last.about


def test_a_run_that_goes_on_after_its_average_keeps_the_best_of_both(composed: Composer) -> None:
    settings = ("trainer.valid_every_steps=2", "trainer.keep=2", "trainer.average=2", "trainer.patience=3")
    first = trainer_of(composed(*settings, "trainer.max_steps=4"))
    seen = scored(first, 5.0, 7.0, 9.0)
    first.run()
    middle = trainer_of(composed(*settings, "trainer.max_steps=6"))
    middle.restore(load_checkpoint(middle.folder / "last.pt"))
    scored(middle, 8.0, 8.5)
    middle.run()
    assert middle.progress.best == 8.0 and middle.progress.without_improvement == 0  # patience compares models with models
    best = load_checkpoint(middle.folder / "best.pt")
    assert best.about["scores"]["bleu"] == 9.0 and all(torch.equal(tensor, best.model[name]) for name, tensor in mean_of(seen).items())
    assert load_checkpoint(middle.folder / "step-6.pt").about["scores"]["bleu"] == 8.0
    last = trainer_of(composed(*settings, "trainer.max_steps=8"))
    last.restore(load_checkpoint(last.folder / "last.pt"))
    scored(last, 10.0, 9.5)
    last.run()
    best = load_checkpoint(last.folder / "best.pt")
    assert (best.about["scores"]["bleu"], best.about["step"], best.about.get("averaged")) == (10.0, 8, None)
    assert last.progress.averaged is None


def mean_of(seen: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: (seen[0][name] + seen[1][name]) / 2 for name in seen[0]}


def test_a_run_that_is_stopped_in_the_validation_of_its_average_makes_it_again(composed: Composer) -> None:
    settings = ("trainer.keep=2", "trainer.average=2")
    calm = trainer_of(composed(*settings), "calm")
    calm.run()
    first = trainer_of(composed(*settings), "stopped")
    validate, calls = first.validate, iter(range(9))

    def interrupted() -> Validation:
        if next(calls) == 2:
            signal.raise_signal(signal.SIGTERM)
        return validate()

    first.validate = interrupted
    with pytest.raises(Interrupted):
        first.run()
    second = trainer_of(composed(*settings), "stopped")
    second.restore(load_checkpoint(second.folder / "last.pt"))
    assert second.progress.step == second.progress.validated_step == 12
    second.run()
    for name in ("last.pt", "best.pt"):
        assert_same(calm.folder / name, second.folder / name)


def test_an_average_of_more_than_is_kept_is_refused(composed: Composer) -> None:
    with pytest.raises(ConfigError, match=r"trainer.average=3 .*give trainer.keep=3 \(it is 2\)"):
        rehearse(composed("trainer.average=3", "trainer.keep=2"))


@pytest.mark.parametrize(("error", "traced"), [(ZeroDivisionError(), True), (RuntimeError("CUDA out of memory"), False)])
def test_a_failed_validation_is_a_gap_and_not_an_end(
    composed: Composer, caplog: pytest.LogCaptureFixture, error: Exception, traced: bool
) -> None:
    trainer = trainer_of(composed())

    def failing() -> Validation:
        raise error

    trainer.validate = failing
    trainer.run()
    assert "the validation after update 6 failed" in caplog.text and ("Traceback" in caplog.text) == traced
    assert trainer.progress.best is None and not any("valid_bleu" in row for row in rows(trainer.folder))


def test_the_norm_that_is_reported_is_a_mean(composed: Composer) -> None:
    trainer = trainer_of(composed())
    batch = next(trainer.batches)
    for norm in (1.0, 4.0):
        trainer.window.add([batch], 1.0, norm)
    assert trainer.window.means()["gradient_norm"] == 2.5


def test_a_mean_that_somebody_put_in_place_of_the_best_is_none_of_the_run(composed: Composer, caplog: pytest.LogCaptureFixture) -> None:
    config = composed()
    assert pipeline.train(config) == 0
    folder = Path(config.run.folder) / "test"
    pipeline.average(AverageConfig([str(folder / "last.pt")], str(folder / "mean.pt")))
    (folder / "mean.pt").replace(folder / "best.pt")
    assert pipeline.train(composed("trainer.max_steps=18")) == 0
    assert "the next validation writes a new one" in caplog.text
    assert load_checkpoint(folder / "best.pt").about["step"] > 12


def test_what_a_run_records(composed: Composer) -> None:
    config = composed()
    assert pipeline.train(config) == 0
    folder = Path(config.run.folder) / "test"
    found = rows(folder)
    names = {name for row in found for name in row}
    assert {"step", "loss", "perplexity", "gradient_norm", "lr", "padding", "epoch", "valid_loss", "valid_bleu", "valid_empty"} <= names
    last = load_checkpoint(folder / "last.pt").about
    assert last["scores_step"] == max(row["step"] for row in found if "valid_bleu" in row)
    samples = next(row["samples"] for row in found if "samples" in row)
    assert len(samples) == 3 and set(samples[0]) == {"source", "reference", "hypothesis"}
    assert list(folder.glob("events.out.tfevents.*"))
    losses = [row["loss"] for row in found if "loss" in row]
    assert losses[-1] < losses[0] and all(math.isfinite(loss) for loss in losses)
    assert all(0 <= row["padding"] < 1 for row in found if "padding" in row)


def test_a_finished_run_says_so_and_a_higher_limit_goes_on(composed: Composer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    config = composed("trainer.max_steps=4")
    pipeline.train(config)
    before = (Path(config.run.folder) / "test" / "last.pt").read_bytes()
    assert pipeline.train(config) == 0
    assert "is finished (trainer.max_steps=4)" in caplog.text
    assert (Path(config.run.folder) / "test" / "last.pt").read_bytes() == before
    pipeline.train(composed("trainer.max_steps=6"))
    assert load_checkpoint(Path(config.run.folder) / "test" / "last.pt").about["step"] == 6


def test_another_experiment_is_refused_and_named(composed: Composer) -> None:
    pipeline.train(composed("trainer.max_steps=2"))
    with pytest.raises(ConfigError, match=r"give another run.name=.*model.encoder_size \(16 in last.pt, 24 now\)"):
        pipeline.train(composed("trainer.max_steps=2", "model.encoder_size=24"))
    with pytest.raises(ConfigError, match=r"trainer.metric \(bleu in last.pt, loss now\)"):  # its best score is one of BLEU
        pipeline.train(composed("trainer.max_steps=4", "trainer.metric=loss"))
    with pytest.raises(ConfigError, match=r"run.seed \(\d+ in last.pt, 8 now\)"):  # it is in the middle of an order of that seed
        pipeline.train(composed("trainer.max_steps=4", "run.seed=8"))


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"junk")])
@pytest.mark.parametrize("steps", [4, 5])
def test_a_best_model_that_is_lost_is_told_and_made_again(
    composed: Composer, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], steps: int
) -> None:
    pipeline.train(config := composed("trainer.max_steps=4"))
    best = Path(config.run.folder) / "test" / "best.pt"
    damage(best)
    pipeline.train(composed(f"trainer.max_steps={steps}"))
    assert "best.pt" in caplog.text and "the next validation writes a new one" in caplog.text
    assert load_checkpoint(best).about["step"] in (4, 5)
    caplog.clear()
    pipeline.train(composed(f"trainer.max_steps={steps}"))
    assert "writes a new one" not in caplog.text


def test_a_best_model_that_was_moved_away_gives_no_more_patience(composed: Composer) -> None:
    limits = ("trainer.patience=1", "trainer.valid_every_steps=2", "trainer.max_steps=null", "optimizer.lr=1e-30")
    pipeline.train(config := composed(*limits))
    folder = Path(config.run.folder) / "test"
    (folder / "best.pt").rename(folder / "deployed.pt")
    pipeline.train(composed(*limits))
    assert [load_checkpoint(folder / name).about["step"] for name in ("deployed.pt", "best.pt", "last.pt")] == [2, 4, 4]


def test_the_best_models_are_kept_once_though_one_is_validated_again(composed: Composer) -> None:
    kept = ("trainer.keep=3", "trainer.average=2", "trainer.valid_every_steps=2")
    pipeline.train(config := composed("trainer.max_steps=4", *kept))
    folder = Path(config.run.folder) / "test"
    (folder / "best.pt").unlink()
    pipeline.train(composed("trainer.max_steps=5", *kept))
    steps = [step for _, step in load_checkpoint(folder / "last.pt").training["kept"]]
    assert sorted(steps) == [2, 4, 5] and sorted(path.name for path in folder.glob("step-*.pt")) == [f"step-{n}.pt" for n in (2, 4, 5)]
    validated = [row["step"] for row in rows(folder) if "valid_bleu" in row]
    assert validated == [2, 4, 5], "the validation that was made again has one row"


@pytest.mark.parametrize("precisions", [("fp32", "fp16"), ("fp16", "fp32"), ("fp16", "fp16")])
def test_the_precision_may_change_when_a_run_goes_on(composed: Composer, precisions: tuple[str, str]) -> None:
    for steps, precision in zip((2, 3), precisions, strict=True):
        assert pipeline.train(config := composed(f"trainer.max_steps={steps}", f"precision={precision}")) == 0
    assert load_checkpoint(Path(config.run.folder) / "test" / "last.pt").about["step"] == 3


def test_changed_text_is_refused(composed: Composer, tmp_path: Path) -> None:
    config = composed("trainer.max_steps=2")
    prefix = Path(config.data.train[0])
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_bytes(Path(f"{prefix}.{lang}").read_bytes())
    pipeline.train(composed("trainer.max_steps=2", f"data.train=[{tmp_path / 'train'}]"))
    for lang in ("en", "de"):
        with (tmp_path / f"train.{lang}").open("a", encoding="utf-8") as file:
            file.write("One more.\n")
    with pytest.raises(DataError, match="the training text of .* has changed"):
        pipeline.train(composed("trainer.max_steps=2", f"data.train=[{tmp_path / 'train'}]"))


def test_the_learning_rate_reaches_the_optimizer(composed: Composer) -> None:
    trainer = trainer_of(composed("scheduler=constant", "scheduler.warmup_steps=4", "trainer.max_steps=2", "optimizer.lr=0.004"))
    trainer.run()
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.002)


def test_clipping_bounds_the_update(composed: Composer) -> None:
    trainer = trainer_of(composed("optimizer.clip_norm=0.001"))
    norms: list[Tensor] = []
    step = trainer.optimizer.step

    def recording(*arguments: Any, **named: Any) -> Any:
        norms.append(torch.stack([p.grad.norm() for p in trainer.model.parameters() if p.grad is not None]).norm())
        return step(*arguments, **named)

    trainer.optimizer.step = recording  # type: ignore[method-assign]
    trainer._update([next(trainer.batches)])
    assert float(norms[0]) <= 0.00101
    assert dataclasses.asdict(trainer.progress)["tgt_tokens"] > 0


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_learns_what_full_precision_learns(composed: Composer, precision: str) -> None:
    losses = []
    for used in ("fp32", precision):
        trainer = trainer_of(composed(f"precision={used}", "model.dropout=0", "optimizer.lr=0.01"), used)
        assert trainer.scaler.is_enabled() == (used == "fp16")
        trainer.run()
        losses.append(trainer.scores["loss"])
        assert all(parameter.dtype == torch.float32 for parameter in trainer.model.parameters())
    assert losses[1] == pytest.approx(losses[0], rel=0.03)
