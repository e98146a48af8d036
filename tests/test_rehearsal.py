"""Contradictory settings are told before anything is prepared, and those that are none train as before."""

from pathlib import Path

import pytest
import torch
from toy_corpus import Composer

from nmt import pipeline
from nmt.cli import main
from nmt.rehearsal import rehearse


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("model.tie=all tokenizer.joint=false", "model.tie=all needs one vocabulary for both languages: give tokenizer.joint=true"),
        ("model.tie=target model.readout_size=8", "model.tie=target needs model.readout_size = model.embedding_size = 16, not 8"),
        ("model.attention=dot model.decoder_size=8", "model.attention=dot needs model.decoder_size = 2 x model.encoder_size = 32, not 8"),
        ("trainer.average=3", "give trainer.keep=3 (it is 0)"),
        ("trainer.average=1 trainer.keep=1", "trainer.average=1: the mean of one model is that model; give 0, or 2 and more"),
        ("scheduler=constant scheduler.return_to_best=true", "scheduler.return_to_best=true is for scheduler=plateau"),
        ("scheduler.factor=null", "scheduler.factor is null, but scheduler.name=plateau needs it"),
        ("optimizer.beta1=null", "optimizer.beta1 is null, but optimizer.name=adam needs it"),
        ("decode.top_k=5", "decode.top_k=5 is for sampling"),
        ("decode.coverage_penalty=0.1 model.attention=none", "decode.coverage_penalty=0.1 is for models with attention"),
        ("trainer.risk_after=3 trainer.max_steps=3", "training ends before, after trainer.max_steps=3"),
        ("trainer.risk_after=3 trainer.metric=perplexity", "raises BLEU at its cost; give trainer.metric=bleu or chrf"),
        ("trainer.r_drop=2 model.dropout=0", "every dropout is 0: give model.dropout=0.2"),
        ("trainer.r_drop=2 model.dropout=0.2 model.embedding_dropout=0 model.readout_dropout=0", "every dropout is 0"),
        ("trainer.r_drop=1e30", "trainer.r_drop = 1e+30: expected a number at least 0 and at most 100"),
        ("run.name=../x", "run.name = '../x': a name for the run's folder in runs is expected"),
    ],
)
def test_a_contradiction_is_told_before_anything_is_prepared(
    given: str, message: str, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared: list[object] = []
    monkeypatch.setattr(pipeline, "prepare_corpus", prepared.append)
    monkeypatch.chdir(tmp_path)
    assert main(["train", *settings, *given.split()]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert not prepared and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        ("trainer.r_drop=2", "model.dropout=0", "model.state_dropout=0.1"),
        ("trainer.average=2", "trainer.keep=2", "trainer.ema_decay=0.9", "precision=fp16"),
        ("model.tie=all", "optimizer=adadelta", "model.initialization=paper", "model.layer_norm=true", "model.attention=none"),
    ],
)
def test_what_can_be_trained_passes_and_draws_no_random_number(given: tuple[str, ...], composed: Composer) -> None:
    before = torch.get_rng_state()
    rehearse(composed(*given))
    assert torch.equal(torch.get_rng_state(), before)
