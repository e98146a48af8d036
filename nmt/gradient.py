"""The gradient of an update: of a process's share of its batches, in halves where they do not fit; and what to say when it is no number."""

import logging
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from nmt.config import TrainConfig
from nmt.data.batches import Batch
from nmt.device import autocast
from nmt.distributed import Processes
from nmt.errors import TrainingError
from nmt.interruption import Signals
from nmt.model.seq2seq import Seq2Seq
from nmt.resume import LAST
from nmt.risk import Risk
from nmt.saving import RunFiles

log = logging.getLogger(__name__)


class Gradient:
    """Adds the gradients of batches to a model's."""

    def __init__(
        self,
        model: Seq2Seq,
        config: TrainConfig,
        scaler: torch.amp.GradScaler,
        dtype: torch.dtype,
        processes: Processes,
        signals: Signals,
        risk: Risk | None,
    ) -> None:
        """Take what the trainer has; dtype is the type of the matrix products."""
        self.model, self.config, self.scaler, self.dtype = model, config, scaler, dtype
        self.processes, self.signals, self.risk = processes, signals, risk
        self.device = next(model.parameters()).device
        self.split = False  # whether a batch did not fit into the GPU's memory once
        self.asked = 0  # before how many of the update's batches all processes have asked one another for signals

    def leave(self, batches: Sequence[Batch], tokens: int, update: int) -> Tensor:
        """Leave the gradient of this process's share, and return its −log p(y), summed; a share too large for the GPU is read in halves."""
        self.asked = 0
        try:
            return self._read(batches, tokens, update)
        except torch.OutOfMemoryError as error:
            reason = str(error).split("\n")[0]
        # Only here, out of the handler, is what the error held of the failed attempt free.
        self.model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        if not self.split:
            log.error(  # other processes than the first say only errors, and this may be of one of them alone
                "warning: a batch does not fit into the GPU's memory, and is read in halves: batches.max_tokens=%d is large",
                self.config.batches.max_tokens,
            )
        self.split = True
        try:
            return self._read(batches, tokens, update, parts=2)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"half a batch does not fit into the GPU's memory either ({reason}): start a new run.name= with a smaller "
                "batches.max_tokens=, and as many more batches.accumulate=; after trainer.risk_after updates, go on with fewer "
                "trainer.risk_samples="
            ) from error

    def _read(self, batches: Sequence[Batch], tokens: int, update: int, parts: int = 1) -> Tensor:
        """Add the gradient of the mean loss per token, of this process's share, to what is there; the share's −log p(y), summed.

        Args:
            batches: of the update, whole.
            tokens: target tokens of the update, of all processes.
            update: its number.
            parts: how many parts each share is read in.

        Raises:
            Interrupted: a signal has come to one of the processes; all of them raise it, before the same batch.
        """
        total = torch.zeros((), device=self.device)
        self.scaler.scale(total)  # a process that has no row of the first batch has to have a scale, too
        for number, batch in enumerate(batches):
            self._ask_before(number)
            for part in self._share(batch, parts):
                with autocast(self.device, self.dtype):
                    cost, nll = self._cost(part.to(self.device), update)
                torch.autograd.backward(self.scaler.scale(cost / tokens))
                total += nll.detach()
        return total

    def _share(self, batch: Batch, parts: int) -> Iterator[Batch]:
        """This process's rows of a batch, in so many parts; a part that would have no row is left out."""
        first, step, rows = self.processes.rank, self.processes.count, batch.src.shape[0]
        if step * parts == 1:
            yield batch
        else:
            starts = range(first, min(first + step * parts, rows), step)
            yield from (batch.rows(slice(start, None, step * parts)) for start in starts)

    def _ask_before(self, number: int) -> None:
        """Raise Interrupted where a signal has come; an update of one batch hears of it at its end, and a second try does not ask again."""
        if self.config.batches.accumulate > 1 and number == self.asked:
            self.asked += 1
            self.processes.check(self.signals)

    def _cost(self, batch: Batch, update: int) -> tuple[Tensor, Tensor]:
        """What a batch costs, by cross entropy or, after trainer.risk_after updates, by its risk; and −log p(y) of its references."""
        settings = self.config.trainer
        if settings.risk_after is not None and update > settings.risk_after:
            assert self.risk, "trainer.risk_after needs a Risk"
            return self.risk(batch, update)
        return self.model.loss(batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, settings.label_smoothing, settings.r_drop)


def diverged(config: TrainConfig, losses: Iterable[float], lines: Sequence[int], files: RunFiles) -> TrainingError:
    """What to say when update after update is no number.

    Args:
        config: of the run.
        losses: of the last updates, in nats a token.
        lines: the pairs of the training text that the last of them read.
        files: what the run has saved.
    """
    allowed, last = config.trainer.max_skipped, files.folder / LAST
    way_out = (
        f"{last} is of update {files.saved_step}: a new run.name= with finetune_from={last} and a lower optimizer.lr goes on from there"
    )
    if not files.saved_step:
        way_out = "Nothing was saved yet: begin again with a lower optimizer.lr"
    return TrainingError(
        f"the training diverged: {allowed} updates in a row had no finite loss or gradient (trainer.max_skipped={allowed}). "
        f"Losses: {', '.join(f'{loss:.3g}' for loss in losses)}. "
        f"The last of them read pairs {', '.join(map(str, lines[:10]))}{' and others' if len(lines) > 10 else ''} of data.train. "
        f"Likely causes: optimizer.lr={config.optimizer.lr:g} is too high, clipping is off or loose (optimizer.clip_norm), "
        f"precision={config.precision} is too coarse, or the text is odd (nmt check-data). {way_out}"
    )
