"""Minimum risk training: its cost by its definition, its place in a run, and that it makes better translations more probable."""

import dataclasses
import statistics

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from toy_corpus import Composer
from training import prepared, scored, trainer_of

from nmt import pipeline
from nmt.data.batches import Batch
from nmt.risk import Risk
from nmt.search import Found
from nmt.trainer import Trainer

SETTINGS = ("trainer.risk_after=4", "trainer.risk_samples=4", "trainer.ema_decay=0.9", "batches.max_tokens=200")


def risk_of(trainer: Trainer) -> Risk:
    assert trainer.gradient.risk is not None
    return trainer.gradient.risk


def test_the_cost_is_its_definition_and_what_comes_twice_counts_twice(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(composed(*SETTINGS, "model.dropout=0"))
    batch, risk, model = next(trainer.batches).rows(slice(0, 3)), risk_of(trainer), trainer.model
    references = [row[: length - 1].tolist() for row, length in zip(batch.tgt_out, batch.tgt_lengths, strict=True)]
    drawn = [[one, one[:-1], one[:-1], one[:1]] for one in references]
    found = [[Found(tuple(tokens), 0.0, 0.0, True, torch.zeros(0)) for tokens in row] for row in drawn]
    monkeypatch.setattr(risk.translator, "search", lambda sources, count: found)
    cost, nll = risk(batch, 5)

    expected, metric, decode = torch.zeros(()), BLEU(effective_order=True), risk.translator.tgt_tokenizer.decode
    for row, translations in enumerate(drawn):
        scores = [metric.sentence_score(decode([one])[0], decode([references[row]])).score / 100 for one in translations]
        for one, score in zip(translations, scores, strict=True):
            expected = expected + (score - statistics.fmean(scores)) * minus_log_p(trainer, batch, row, one) / 4
    torch.testing.assert_close(cost, expected)
    gradients = [torch.autograd.grad(one, list(model.parameters()), retain_graph=True) for one in (cost, expected)]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(nll, sum(minus_log_p(trainer, batch, row, one) for row, one in enumerate(references)).detach())


def minus_log_p(trainer: Trainer, batch: Batch, row: int, tokens: list[int], ended: bool = True) -> torch.Tensor:
    tokenizer = risk_of(trainer).translator.tgt_tokenizer
    end = tokenizer.eos_id if ended else tokenizer.pad_id
    tgt_in, tgt_out = torch.tensor([[tokenizer.bos_id, *tokens]]), torch.tensor([[*tokens, end]])
    length = batch.src_lengths[row : row + 1]
    return trainer.model.loss(batch.src[row : row + 1, : int(length)], length, tgt_in, tgt_out, 0.0)[0]


def test_where_all_translations_are_equally_good_nothing_is_learnt(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(composed(*SETTINGS))
    batch, risk = next(trainer.batches).rows(slice(0, 2)), risk_of(trainer)
    same = Found((5, 6), 0.0, 0.0, True, torch.zeros(0))
    monkeypatch.setattr(risk.translator, "search", lambda sources, count: [[same] * count for _ in sources])
    cost, nll = risk(batch, 5)
    cost.backward()
    assert cost == 0 and nll > 0 and all(parameter.grad is None for parameter in trainer.model.parameters())


def test_chance_is_of_the_seed_the_update_and_the_sentence_alone(composed: Composer) -> None:
    trainer = trainer_of(composed(*SETTINGS))
    batch, risk = next(trainer.batches).rows(slice(0, 6)), risk_of(trainer)
    whole = risk._drawn(batch, 5)
    torch.manual_seed(7)
    halves = [one._replace(row=2 * one.row + half) for half in (0, 1) for one in risk._drawn(batch.rows(slice(half, None, 2)), 5)]
    assert sorted(whole) == sorted(halves) and whole
    assert whole != risk._drawn(batch, 6)
    assert whole != risk_of(trainer_of(composed(*SETTINGS, "run.seed=2"), "other"))._drawn(batch, 5)


def test_the_colder_the_fewer_translations_are_drawn(composed: Composer) -> None:
    drawn = {}
    for temperature in (0.001, 1.0):
        trainer = trainer_of(composed(*SETTINGS, f"trainer.risk_temperature={temperature}"), str(temperature))
        drawn[temperature] = risk_of(trainer)._drawn(next(trainer.batches), 5)
    assert drawn[1.0] and not drawn[0.001]  # where all are the most probable one, none is better than the mean


def test_it_begins_once_after_so_many_updates_from_the_average_and_at_its_rate(composed: Composer) -> None:
    trainer = trainer_of(composed(*SETTINGS, "trainer.max_steps=6", "optimizer.lr=0.01"))
    risk, began = risk_of(trainer), []
    begin = trainer.average.begin_anew

    def calling(batch: Batch, update: int) -> tuple[torch.Tensor, torch.Tensor]:
        began.append((update, trainer.optimizer.param_groups[0]["lr"]))
        return risk(batch, update)

    def beginning() -> None:
        before = {name: weight.clone() for name, weight in trainer.average.weights.items()}
        begin()
        state = trainer.model.state_dict()
        assert trainer.average.updates == 0 and all(torch.equal(state[name], weight) for name, weight in before.items())
        began.append((trainer.progress.step, 0.0))

    trainer.gradient.risk = calling  # type: ignore[assignment]
    trainer.average.begin_anew = beginning  # type: ignore[method-assign]
    trainer.run()
    assert began == [(4, 0.0), (5, 1e-4), (6, 1e-4)]
    assert {int(state["step"]) for state in trainer.optimizer.state.values()} == {2}  # moments of another cost would scale this one's


def test_a_run_that_goes_on_beyond_the_place_begins_where_it_is(composed: Composer, caplog: pytest.LogCaptureFixture) -> None:
    pipeline.train(composed("trainer.max_steps=6", "trainer.ema_decay=0.9"))
    caplog.set_level("INFO")
    pipeline.train(composed(*SETTINGS, "trainer.max_steps=8"))
    assert caplog.text.count("from here on: minimum risk training") == 1
    pipeline.train(composed(*SETTINGS, "trainer.max_steps=9"))
    assert caplog.text.count("from here on: minimum risk training") == 1
    pipeline.train(composed(*SETTINGS, "trainer.max_steps=12", "trainer.risk_after=11"))
    assert caplog.text.count("from here on: minimum risk training") == 2


def test_a_training_that_ends_before_says_so(composed: Composer, caplog: pytest.LogCaptureFixture) -> None:
    pipeline.train(composed("trainer.risk_after=50", "trainer.max_steps=null", "trainer.max_epochs=1"))
    assert "trainer.risk_after=50 was not reached" in caplog.text
    caplog.clear()
    pipeline.train(composed(*SETTINGS, "run.name=reached", "trainer.max_steps=5"))
    assert "not reached" not in caplog.text


def test_no_plateau_ends_it(composed: Composer) -> None:
    plateau = (
        "scheduler.name=plateau",
        "scheduler.factor=0.5",
        "scheduler.patience=0",
        "scheduler.min_lr=0",
        "scheduler.return_to_best=true",
    )
    trainer = trainer_of(composed(*SETTINGS, *plateau, "trainer.valid_every_steps=2", "trainer.max_steps=9", "optimizer.lr=0.01"))
    scored(trainer, 9, 8, 7, 6, 5, 4)
    trainer.run()
    assert trainer.scheduler.scale == 1


@pytest.mark.parametrize("variant", [("precision=fp16",), ("precision=bf16",), ("optimizer=adadelta", "precision=fp16")], ids=str)
def test_an_update_without_anything_to_learn_from_is_one(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, variant: tuple[str, ...]
) -> None:
    trainer = trainer_of(composed(*SETTINGS, *variant, "trainer.risk_after=0", "trainer.max_steps=2"))
    same = Found((5, 6), 0.0, 0.0, True, torch.zeros(0))
    monkeypatch.setattr(risk_of(trainer).translator, "search", lambda sources, count: [[same] * count for _ in sources])
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer._update([next(trainer.batches)])
    assert trainer.progress.step == 1 and trainer.progress.skipped == 0
    assert all(torch.equal(weight, before[name]) for name, weight in trainer.model.state_dict().items())


def test_what_was_cut_off_has_no_end_that_it_is_blamed_for(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(composed(*SETTINGS, "model.dropout=0"))
    batch, risk = next(trainer.batches).rows(slice(0, 1)), risk_of(trainer)
    reference = tuple(batch.tgt_out[0, :-1].tolist())
    costs = []
    for ended in (True, False):
        found = [[Found(reference, 0.0, 0.0, True, torch.zeros(0)), Found(reference[:1], 0.0, 0.0, ended, torch.zeros(0))]]
        monkeypatch.setattr(risk.translator, "search", lambda sources, count, found=found: found)
        costs.append(risk(batch, 1)[0])
    end = minus_log_p(trainer, batch, 0, list(reference[:1])) - minus_log_p(trainer, batch, 0, list(reference[:1]), ended=False)
    (advantage,) = (one.advantage for one in risk._drawn(batch, 1) if not one.finished)
    torch.testing.assert_close(costs[0] - costs[1], advantage * end, atol=1e-5, rtol=1e-4)


def test_what_is_drawn_gets_better(composed: Composer) -> None:
    config = composed("trainer.max_steps=150", "trainer.valid_every_steps=150", "optimizer.lr=0.01", "batches.max_tokens=400")
    trainer = trainer_of(config)
    trainer.run()
    corpus = prepared(config)
    settings = dataclasses.replace(config.trainer, risk_after=0, risk_samples=8)
    risk = Risk(trainer.model, corpus.src_tokenizer, corpus.tgt_tokenizer, dataclasses.replace(config, trainer=settings))
    batch = next(trainer.batches)
    optimizer = torch.optim.Adam(trainer.model.parameters(), lr=1e-3)
    scores = []
    for update in range(30):
        found = risk.translator.search([row[: length - 1].tolist() for row, length in zip(batch.src, batch.src_lengths, strict=True)], 8)
        references = corpus.tgt_tokenizer.decode(
            [row[: length - 1].tolist() for row, length in zip(batch.tgt_out, batch.tgt_lengths, strict=True)]
        )
        pairs = zip(found, references, strict=True)
        scores.append(statistics.fmean(score for row, reference in pairs for score in risk._scores([one.tokens for one in row], reference)))
        optimizer.zero_grad()
        (risk(batch, update)[0] / batch.tokens).backward()
        optimizer.step()
    assert statistics.fmean(scores[-5:]) > statistics.fmean(scores[:5]) + 0.05
