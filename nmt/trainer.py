"""The training loop: update, validate, save, stop; and exact continuation from what was saved."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch

from nmt.averaging import MovingAverage, mean_weights, replaced
from nmt.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from nmt.config import TrainConfig
from nmt.data.batches import Batch, Batches
from nmt.device import autocast, random_states, restore_random_states
from nmt.errors import CheckpointError, ConfigError, NmtError
from nmt.interruption import Interrupted, Signals
from nmt.journal import Journal, Validation, Window
from nmt.metrics import HIGHER_IS_BETTER, is_better
from nmt.model.seq2seq import Seq2Seq
from nmt.optimizer import build_optimizer
from nmt.progress import Progress
from nmt.scheduler import Scheduler

log = logging.getLogger(__name__)


class Trainer:
    """Trains one model; `run()` is the loop."""

    def __init__(
        self,
        config: TrainConfig,
        model: Seq2Seq,
        batches: Batches,
        validate: Callable[[], Validation],
        blank: Checkpoint,
        folder: Path,
        dtype: torch.dtype,
    ) -> None:
        """Set a run up at its first update.

        Args:
            config: everything that the experiment fixes.
            model: the network, on its device.
            batches: the endless stream of training batches, which knows its own position.
            validate: called with the model in evaluation mode; its scores hold `trainer.metric`.
            blank: a checkpoint with the run's configuration and tokenizers, to be filled in whenever one is saved.
            folder: where last.pt and best.pt go.
            dtype: the type of the matrix products, float32, bfloat16 or float16.

        Raises:
            ConfigError: settings that contradict each other.
        """
        if (average := config.trainer.average) > config.trainer.keep:
            raise ConfigError(
                f"trainer.average={average} needs as many models that are kept: give trainer.keep={average} (it is {config.trainer.keep})"
            )
        self.config, self.model, self.batches, self.validate = config, model, batches, validate
        self.blank, self.folder, self.dtype = blank, folder, dtype
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model.parameters(), config.optimizer)
        self.scheduler = Scheduler(config.scheduler, config.optimizer.lr)
        self.average = MovingAverage(model, config.trainer.ema_decay)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=dtype == torch.float16)
        self.progress = Progress()
        self.scores: dict[str, float] = {}
        self.kept: list[tuple[float, int]] = []  # score and step of the step-*.pt files, best first
        self.signals = Signals()
        self.window = Window()
        self.started = time.monotonic()

    def run(self) -> str:
        """Train until a limit is reached, and say which.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP came; last.pt holds the state.
        """
        limits = self.config.trainer
        batches = iter(self.batches)
        with self.signals, Journal(self.folder, self.progress, self._share_done()) as journal:
            try:
                while True:
                    if self._validation_due():
                        self._validate(journal)
                    if reached := self.limit_reached():
                        break
                    self._update([next(batches) for _ in range(self.config.batches.accumulate)])
                    journal.advance(self.progress.step, self._share_done())
                    if self.progress.step % limits.log_every_steps == 0:
                        self._report(journal)
                    if self.progress.step % limits.save_every_steps == 0:
                        self._save_last()
                    self.signals.check()
                if self.progress.validated_step != self.progress.step:
                    self._validate(journal)
                self._average_best()
            except Interrupted:
                self._save_last()
                raise
        self.progress.finished = reached
        self._save_last()
        return reached

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on exactly where `checkpoint`, a last.pt, was written."""
        training = checkpoint.training
        self.model.load_state_dict(checkpoint.model)
        self.average.load_state_dict(training.get("average", {}))
        self.optimizer.load_state_dict(training["optimizer"])
        self.scheduler.load_state_dict(training["scheduler"])
        if self.scaler.is_enabled() and training["scaler"]:  # both are so where the run was and is of fp16
            self.scaler.load_state_dict(training["scaler"])
        self.batches.load_state_dict(training["batches"])
        self.progress = Progress(**training["progress"])
        self.kept = [(score, step) for score, step in training["kept"]]
        self.scores = checkpoint.about["scores"]
        restore_random_states(training["random"])
        if self.progress.best is not None:
            self._check_best()

    def limit_reached(self) -> str:
        """Which limit ends the training now, or an empty text."""
        return self.progress.limit(self.config.trainer, self.batches.epoch, self._seconds())

    def _check_best(self) -> None:
        """Where best.pt is gone or damaged, say so and validate now, so that there is one again."""
        try:
            load_checkpoint(self.folder / "best.pt")
        except CheckpointError as error:
            log.warning("warning: %s; the next validation writes a new one", error)
            self.progress.best, self.progress.averaged, self.progress.finished = None, None, ""
            self.progress.validated_step = self.progress.step - 1

    def _update(self, batches: list[Batch]) -> None:
        """One optimizer step on the mean loss per target token of all the batches together."""
        self.model.train()
        self.progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.scheduler.lr(self.progress.step)
        settings, tokens = self.config.trainer, sum(batch.tokens for batch in batches)
        for batch in batches:
            moved = batch.to(self.device)
            with autocast(self.device, self.dtype):
                smoothed, nll = self.model.loss(
                    moved.src, moved.src_lengths, moved.tgt_in, moved.tgt_out, settings.label_smoothing, settings.r_drop
                )
            torch.autograd.backward(self.scaler.scale(smoothed / tokens))
            self.window.add(batch, nll.detach())
        self.scaler.unscale_(self.optimizer)  # clipping must see the true gradient
        clip_norm = self.config.optimizer.clip_norm
        self.window.gradient_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), math.inf if clip_norm is None else clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.average.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.tgt_tokens += tokens

    def _validation_due(self) -> bool:
        step = self.progress.step
        return step > 0 and step % self.config.trainer.valid_every_steps == 0 and self.progress.validated_step != step

    def _validate(self, journal: Journal) -> None:
        """Score the model, keep it where it is the best so far, tell the schedule, save."""
        self._report(journal)
        began = time.monotonic()
        with self.average.applied():
            validation = self._score()
            self.progress.validated_step = self.progress.step
            self.progress.validation_seconds = time.monotonic() - began
            improved = validation is not None and self._note(journal, validation)
        if validation is not None and self.scheduler.validated(improved):
            self._cut()
        self._save_last()
        self.window = Window()  # the time of a validation is not training speed

    def _note(self, journal: Journal, validation: Validation) -> bool:
        """Take note of the scores of the model as it is, and keep it where it is good; True where it is the best so far."""
        progress, metric = self.progress, self.config.trainer.metric
        self.scores = dict(validation.scores)
        score = self.scores[metric]
        improved = is_better(metric, score, progress.best)
        progress.without_improvement = 0 if improved else progress.without_improvement + 1
        if improved:
            progress.best, progress.best_step = score, progress.step
        journal.validation(progress.step, validation, improved, self._seconds())
        self._keep(score, improved)
        return improved

    def _cut(self) -> None:
        """Say that the rate was cut, and go on from the weights of best.pt where scheduler.return_to_best says so."""
        metric, rate = self.config.trainer.metric, self.scheduler.lr(self.progress.step + 1)
        log.info("no better %s for a while: learning rate cut to %.3g", metric, rate)
        best = self.folder / "best.pt"
        if self.config.scheduler.return_to_best and best.exists():
            checkpoint = load_checkpoint(best)
            self.average.move_to(checkpoint.model)
            self.scores = checkpoint.about["scores"]
            log.info("back to the weights of update %d, the best so far", checkpoint.about["step"])

    def _score(self) -> Validation | None:
        """What the validation found; None where validation itself failed, which is an error in the log and a gap in the records."""
        self.model.eval()
        try:
            with self.signals.at_once():
                return self.validate()
        except NmtError:
            raise
        except Exception:
            log.exception("the validation after update %d failed; training goes on without its scores", self.progress.step)
            return None

    def _report(self, journal: Journal) -> None:
        """Record the means since the last report: the only place where an update waits for the device."""
        if self.window.tokens:
            values = self.window.means() | {"lr": self.scheduler.lr(self.progress.step), "epoch": self.batches.epoch}
            journal.scalars(self.progress.step, values)
            self.window = Window()

    def _keep(self, score: float, improved: bool) -> None:
        """Write best.pt and the trainer.keep best step-*.pt; remove those that fell out."""
        step, keep = self.progress.step, self.config.trainer.keep
        if improved and is_better(self.config.trainer.metric, score, self.progress.averaged):
            self.progress.averaged = None
            self._save(self.folder / "best.pt")
        sign = -1 if HIGHER_IS_BETTER[self.config.trainer.metric] else 1
        others = [kept for kept in self.kept if kept[1] != step]  # where best.pt was lost, an update is validated again
        # Of equal scores the earlier stays first: that model needed less training. What is no number is worse than all.
        ranked = sorted([*others, (score, step)], key=lambda kept: math.inf if math.isnan(kept[0]) else sign * kept[0])
        self.kept = ranked[:keep]
        if (score, step) in self.kept:
            self._save(self.folder / f"step-{step}.pt")
        for _, dropped in ranked[keep:]:
            (self.folder / f"step-{dropped}.pt").unlink(missing_ok=True)

    def _average_best(self) -> None:
        """Score the mean of the best trainer.average models that were kept; where it is better than best.pt, it becomes best.pt."""
        metric, progress = self.config.trainer.metric, self.progress
        kept = [step for _, step in self.kept[: self.config.trainer.average] if (self.folder / f"step-{step}.pt").exists()]
        if len(kept) < 2 or progress.best is None:
            return
        with replaced(self.model, mean_weights(load_checkpoint(self.folder / f"step-{step}.pt").model for step in kept)):
            if (validation := self._score()) is None:
                return
            score, best = validation.scores[metric], progress.best if progress.averaged is None else progress.averaged
            better = is_better(metric, score, best)
            if better:
                progress.averaged = score
                self._save(self.folder / "best.pt", scores=dict(validation.scores), averaged=sorted(kept))
        verdict = "better than best.pt, which had %.2f: it is best.pt now" if better else "no better than best.pt, which has %.2f and stays"
        log.info(f"the mean of the models of updates %s has %s %.2f, {verdict}", ", ".join(map(str, sorted(kept))), metric, score, best)

    def _save_last(self) -> None:
        """Write last.pt, with all that an exact continuation needs."""
        training: dict[str, object] = {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.state_dict(),
            "batches": self.batches.state_dict(),
            "progress": dataclasses.asdict(self.progress) | {"seconds": self._seconds()},
            "kept": [list(kept) for kept in self.kept],
            "random": random_states(),
        }
        with self.average.applied():
            self._save(self.folder / "last.pt", training)

    def _save(self, path: Path, training: dict[str, object] | None = None, **facts: object) -> None:
        about = {
            "step": self.progress.step,
            "epoch": self.batches.epoch,
            "tgt_tokens": self.progress.tgt_tokens,
            "seconds": self._seconds(),
            "scores": self.scores,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        filled = dataclasses.replace(
            self.blank, model=self.model.state_dict(), about=self.blank.about | about | facts, training=training or {}
        )
        save_checkpoint(path, filled)

    def _share_done(self) -> float:
        """How much of the run is done, 0 to 1, by the limit that is nearest."""
        return self.progress.share(self.config.trainer, self.batches.epochs_done, self._seconds())

    def _seconds(self) -> float:
        """Time spent on this run, validation included, summed over its continuations."""
        return self.progress.seconds + time.monotonic() - self.started
