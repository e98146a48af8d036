"""The training loop: update, validate, save, stop; and exact continuation from what was saved."""

import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from nmt.averaging import MovingAverage, replaced
from nmt.checkpoint import Checkpoint
from nmt.config import TrainConfig
from nmt.data.batches import Batch, Batches
from nmt.device import random_states, restore_random_states
from nmt.distributed import ALONE, Processes
from nmt.errors import DataError
from nmt.gradient import Gradient, diverged
from nmt.interruption import Interrupted, Signals
from nmt.journal import Journal, Validation, Window
from nmt.metrics import is_better
from nmt.model.seq2seq import Seq2Seq
from nmt.optimizer import build_optimizer
from nmt.progress import Progress
from nmt.resume import LAST
from nmt.risk import Risk
from nmt.saving import RunFiles
from nmt.scheduler import Scheduler
from nmt.validation import attempted

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
        processes: Processes = ALONE,
        signals: Signals | None = None,
        risk: Risk | None = None,
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
            processes: those that train this model together. All of them do the same, each with its share of every batch; one writes.
            signals: those that end training; `validate` looks there too.
            risk: the cost of a batch after trainer.risk_after updates.

        Raises:
            ConfigError: the optimizer or the scheduler refuses its settings.
        """
        self.config, self.model, self.batches, self.validate = config, model, batches, validate
        self.blank, self.folder, self.files = blank, folder, RunFiles(folder, processes)
        self.processes, self.signals = processes, signals or Signals()
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model.parameters(), config.optimizer)
        risk_after, risk_lr = config.trainer.risk_after, config.trainer.risk_lr
        self.scheduler = Scheduler(config.scheduler, config.optimizer.lr, None if risk_after is None else (risk_after, risk_lr))
        self.average = MovingAverage(model, config.trainer.ema_decay)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=dtype == torch.float16)
        self.gradient = Gradient(model, config, self.scaler, dtype, processes, self.signals, risk)
        self.progress = Progress()
        self.scores: dict[str, float] = {}
        self.recent_losses: deque[float] = deque(maxlen=12)
        self.window = Window()
        self.started = time.monotonic()

    def run(self) -> str:
        """Train until a limit is reached, and say which.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGHUP came; last.pt holds the state.
        """
        self.progress.finished = ""
        batches = iter(self.batches)
        told = Journal(self.folder, self.progress, self._share_done()) if self.processes.first else nullcontext()
        with self.signals, told as journal:
            try:
                while True:
                    if self.progress.validation_due(self.config.trainer.valid_every_steps):
                        self._validate(journal)
                    if reached := self.limit_reached():
                        break
                    if self.progress.begins_risk(self.config.trainer.risk_after):
                        self.average.begin_anew()
                        self.optimizer.state.clear()  # its moments are those of another cost
                    with self._whole_or_not_at_all():
                        self._update([next(batches) for _ in range(self.config.batches.accumulate)])
                    self._after_update(journal)
                if self.progress.validated_step != self.progress.step:
                    self._validate(journal)
                self._average_best()
            except Interrupted:
                self._save_last()
                raise
        self.progress.finished = reached
        if not self._save_last():
            raise DataError(f"training has ended, but {self.folder / LAST} cannot be written: make room, and give the same command again")
        return reached

    def _after_update(self, journal: Journal | None) -> None:
        """Tell, save and stop, where it is time."""
        step, limits = self.progress.step, self.config.trainer
        if journal:
            journal.advance(step, self._share_done())
        if step % limits.log_every_steps == 0:
            self._report(journal)
        if step % limits.save_every_steps == 0 and not self.progress.skipped_in_a_row:
            self._save_last()
        self.processes.check(self.signals)  # one may have reached some of the processes only

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
        self.files.kept = [(score, step) for score, step in training["kept"]]
        self.scores = checkpoint.about["scores"]
        self.files.saved_step = self.progress.step
        restore_random_states([training["random"], *training.get("random_others", [])], self.processes.rank)
        if self.progress.best is not None:
            self.progress.recall_best(self.processes.of_first(self.files.about_best), self.config.trainer.metric)

    def limit_reached(self) -> str:
        """Which limit ends the training now, or an empty text; by the clock of the first process."""
        return self.processes.of_first(lambda: self.progress.limit(self.config.trainer, self.batches.epoch, self._seconds()))

    def _update(self, batches: list[Batch]) -> None:
        """One optimizer step on the mean loss per target token of all the batches together."""
        self.model.train()
        self.progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.scheduler.lr(self.progress.step)
        tokens = sum(batch.tokens for batch in batches)
        nll = self.processes.sum_gradients(self.model, self.gradient.leave(batches, tokens, self.progress.step))
        self.scaler.unscale_(self.optimizer)  # clipping must see the true gradient
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optimizer.clip_norm or math.inf)
        summed, norm = torch.stack([nll, norm]).tolist()  # the only place where an update by cross entropy waits for the device
        self.recent_losses.append(summed / tokens)
        # A gradient that overflows since it is scaled up, in float16, is the scaler's business: it leaves the update out and scales less.
        if math.isfinite(summed) and (math.isfinite(norm) or (self.scaler.is_enabled() and self.scaler.get_scale() > 1)):
            self.scaler.step(self.optimizer)
            if math.isfinite(norm):
                self.average.update()
                self.window.add(batches, summed, norm)
            self.progress.skipped_in_a_row = 0
        else:
            self.progress.skip(summed / tokens, norm)
            if self.progress.skipped_in_a_row >= self.config.trainer.max_skipped:
                lines = [number for batch in batches for number in self.batches.line_numbers(batch)]
                raise diverged(self.config, self.recent_losses, lines, self.files)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.tgt_tokens += tokens

    @contextmanager
    def _whole_or_not_at_all(self) -> Iterator[None]:
        """Where a signal ends an update between its batches, put everything back to where it was before the first of them was read."""
        place = self.batches.state_dict()
        chance = [random_states()] if self.config.batches.accumulate > 1 else []  # else no signal is heard before the end
        try:
            yield
        except Interrupted:
            self.progress.step -= 1
            self.batches.load_state_dict(place)
            restore_random_states(chance)
            self.optimizer.zero_grad(set_to_none=True)
            raise

    def _validate(self, journal: Journal | None) -> None:
        """Score the model, keep it where it is the best so far, tell the schedule, save."""
        self._report(journal)
        began = time.monotonic()
        with self.average.applied():
            validation = self._score()
            self.progress.validated_step = self.progress.step
            self.progress.validation_seconds = self.processes.largest(time.monotonic() - began)
            improved = validation is not None and self._note(journal, validation)
        if validation is not None and self.scheduler.validated(improved, self.progress.step):
            self._cut()
        if not self.progress.skipped_in_a_row:
            self._save_last()
        self.window = Window()  # the time of a validation is not training speed

    def _note(self, journal: Journal | None, validation: Validation) -> bool:
        """Take note of the scores of the model as it is, and keep it where it is good; True where it is the best so far."""
        progress, metric = self.progress, self.config.trainer.metric
        self.scores = dict(validation.scores)
        improved = progress.take(metric, score := self.scores[metric])
        if journal:
            journal.validation(progress.step, validation, improved, self._seconds())
        if improved and is_better(metric, score, progress.averaged):
            progress.averaged = None
            self.files.write("best.pt", self._filled({}))
        self.files.keep(score, progress.step, self.config.trainer, self._filled({}))
        return improved

    def _cut(self) -> None:
        """Say that the rate was cut, and go on from the weights of best.pt where scheduler.return_to_best says so."""
        metric, rate = self.config.trainer.metric, self.scheduler.lr(self.progress.step + 1)
        log.info("no better %s for a while: learning rate cut to %.3g", metric, rate)
        if self.config.scheduler.return_to_best and (
            found := self.processes.of_first(lambda: self.files.find_best(self.progress.best_step))
        ):
            weights, about = found
            self.average.move_to(weights)
            self.scores = about["scores"]
            log.info("back to the weights of update %d, the best so far", about["step"])

    def _score(self) -> Validation | None:
        """What the validation found, or None; see `attempted`."""
        self.model.eval()
        return attempted(self.validate, self.progress.step)

    def _report(self, journal: Journal | None) -> None:
        """Record the means since the last report."""
        if self.window.tokens:
            place = {"lr": self.scheduler.lr(self.progress.step), "epoch": self.batches.epoch, "skipped": self.progress.skipped}
            if journal:
                journal.scalars(self.progress.step, self.window.means() | place)
            self.window = Window()

    def _average_best(self) -> None:
        """Score the mean of the best trainer.average models that were kept; where it is better than best.pt, it becomes best.pt."""
        metric, count, progress = self.config.trainer.metric, self.config.trainer.average, self.progress
        found = None if progress.best is None else self.processes.of_first(lambda: self.files.mean_of_best(count))
        if found is None:
            return
        kept, mean = found
        with replaced(self.model, mean):
            if (validation := self._score()) is None:
                return
            score, best = validation.scores[metric], progress.best if progress.averaged is None else progress.averaged
            better = is_better(metric, score, best)
            if better:
                progress.averaged = score
                self.files.write("best.pt", self._filled({}, scores=dict(validation.scores), averaged=sorted(kept)))
        verdict = "better than best.pt, which had %.2f: it is best.pt now" if better else "no better than best.pt, which has %.2f and stays"
        log.info(f"the mean of the models of updates %s has %s %.2f, {verdict}", ", ".join(map(str, sorted(kept))), metric, score, best)

    def _save_last(self) -> bool:
        """Write last.pt, with all that an exact continuation needs; False where that was not possible."""
        chance = self.processes.gather(random_states())
        training: dict[str, object] = {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.state_dict(),
            "batches": self.batches.state_dict(),
            "progress": dataclasses.asdict(self.progress) | {"seconds": self._seconds()},
            "kept": [list(kept) for kept in self.files.kept],
            "random": chance[0],
            "random_others": chance[1:],
        }
        with self.average.applied():
            return self.files.write_last(self._filled(training))

    def _filled(self, training: dict[str, object], **facts: object) -> Checkpoint:
        about = {
            "step": self.progress.step,
            "epoch": self.batches.epoch,
            "tgt_tokens": self.progress.tgt_tokens,
            "seconds": self._seconds(),
            "scores": self.scores,
            "scores_step": self.progress.validated_step,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        return dataclasses.replace(self.blank, model=self.model.state_dict(), about=self.blank.about | about | facts, training=training)

    def _share_done(self) -> float:
        """How much of the run is done, 0 to 1, by the limit that is nearest."""
        return self.progress.share(self.config.trainer, self.batches.epochs_done, self._seconds())

    def _seconds(self) -> float:
        """Time spent on this run, validation included, summed over its continuations."""
        return self.progress.seconds + time.monotonic() - self.started
