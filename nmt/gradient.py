"""The gradient of an update: of a process's share of its batches, in halves where they do not fit; and what to say when it is no number."""

import logging
from collections.abc import Iterable, Sequence

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

    def leave(self, batches: Sequence[Batch], tokens: int, update: int) -> Tensor:
        """Leave the gradient of this process's share, and return its −log p(y), summed; a share too large for the GPU is read in halves."""
        share = batches
        if self.processes.count > 1:
            share = [batch.rows(self.processes.share) for batch in batches if batch.src.shape[0] > self.processes.rank]
        try:
            return self.read(share, tokens, update)
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
        halves = [batch.rows(slice(half, None, 2)) for batch in share for half in range(min(2, batch.src.shape[0]))]
        try:
            return self.read(halves, tokens, update)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"half a batch does not fit into the GPU's memory either ({reason}): start a new run.name= with a smaller "
                "batches.max_tokens=, and as many more batches.accumulate=; after trainer.risk_after updates, go on with fewer "
                "trainer.risk_samples="
            ) from error

    def read(self, batches: Sequence[Batch], tokens: int, update: int) -> Tensor:
        """Add the gradient of the mean loss per token to what is there; the −log p(y) of the batches, summed.

        Raises:
            Interrupted: a signal has come; not of several processes, all of which have to hear of it at the same place.
        """
        total = torch.zeros((), device=self.device)
        self.scaler.scale(total)  # a process that has no row of the first batch has to have a scale, too
        for batch in batches:
            if self.processes.count == 1 and self.config.batches.accumulate > 1:
                self.signals.check()
            with autocast(self.device, self.dtype):
                cost, nll = self._cost(batch.to(self.device), update)
            torch.autograd.backward(self.scaler.scale(cost / tokens))
            total += nll.detach()
        return total

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
