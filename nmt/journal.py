"""What a run tells: metrics.jsonl and TensorBoard in its folder, a progress bar and one line a validation on stderr."""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from nmt.data.batches import Batch
from nmt.files import write_text
from nmt.metrics import shown
from nmt.progress import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger(__name__)
ROWS_IN_MEMORY = 2**20  # bytes
SHOWN = {"loss": 3, "perplexity": 2, "bleu": 2, "chrf": 2}  # what the line of a validation shows, with digits after the point
BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


@dataclass(frozen=True)
class Validation:
    """What a validation found.

    Attributes:
        scores: by name.
        samples: a few sentences, each as source, reference and hypothesis.
        pictures: the attention of each sample, (height, width, 3) red, green and blue.
    """

    scores: Mapping[str, float]
    samples: Sequence[Mapping[str, str]] = ()
    pictures: Sequence[NDArray[np.uint8]] = ()


class Journal:
    """Writes the numbers of a run; a context manager that closes its files."""

    def __init__(self, folder: Path, progress: Progress, done: float) -> None:
        """Open the records of a run, and drop what an interrupted run wrote after it was saved.

        Args:
            folder: the run's folder.
            progress: where training goes on from; rows of later updates and validations are removed, since they will be made again.
            done: the share of the run that is done, 0 to 1, for the progress bar.
        """
        from torch.utils.tensorboard import SummaryWriter  # slow to import, and only training needs it

        self.path = folder / "metrics.jsonl"
        if self.path.exists():
            write_text(self.path, "".join(f"{line}\n" for line in _rows_until(self.path, progress)))
        self.file = self.path.open("ab", buffering=ROWS_IN_MEMORY)  # where the disk is full, rows wait here for the next try
        self.board: SummaryWriter | None = SummaryWriter(str(folder), purge_step=progress.step + 1)
        self._failing = False
        self.bar = tqdm(total=1.0, initial=done, disable=None, dynamic_ncols=True, bar_format=BAR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.close()
        self._show(lambda board: board.close())
        with suppress(OSError):
            self.file.close()

    def advance(self, step: int, done: float) -> None:
        """Move the progress bar to an update."""
        self.bar.set_description_str(f"update {step}", refresh=False)
        self.bar.update(done - self.bar.n)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Record numbers of the updates since the last report, by name: loss and tokens_per_second among them."""
        self._write({"step": step, **values})
        self._show(lambda board: _show_scalars(board, "train", values, step))
        self.bar.set_postfix_str(f"loss {values['loss']:.3f}, {values['tokens_per_second']:.0f} tokens/s", refresh=False)

    def validation(self, step: int, validation: Validation, improved: bool, seconds: float) -> None:
        """Record a validation, show its sample translations, and say its scores in one line."""
        scores = validation.scores
        self._write({"step": step, **{f"valid_{name}": value for name, value in scores.items()}, "seconds": round(seconds, 1)})
        self._write({"step": step, "samples": validation.samples})
        self._show(lambda board: _show_validation(board, step, validation))
        for sample in validation.samples:
            log.info("\n".join(f"  {side:<12}{text}" for side, text in sample.items()))
        told = "  ".join(f"{name} {shown(scores[name], digits)}" for name, digits in SHOWN.items() if name in scores)
        log.info("update %d  %d:%02d min  %s%s", step, *divmod(int(seconds), 60), told, "  (best so far)" if improved else "")

    def _write(self, row: Mapping[str, object]) -> None:
        try:
            self.file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            self.file.flush()
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.warning("warning: cannot write %s: %s; training goes on", self.path, (error.strerror or str(error)).lower())
            self._failing = True

    def _show(self, put: Callable[["SummaryWriter"], None]) -> None:
        """Give something to TensorBoard; where its file cannot be written, say so and go on without."""
        if self.board is None:
            return
        try:
            put(self.board)
        except OSError as error:
            log.warning("warning: TensorBoard's records end here: %s", (error.strerror or str(error)).lower())
            self.board = None


def _show_scalars(board: "SummaryWriter", group: str, values: Mapping[str, float], step: int) -> None:
    for name, value in values.items():
        board.add_scalar(f"{group}/{name}", value, step)


def _show_validation(board: "SummaryWriter", step: int, validation: Validation) -> None:
    _show_scalars(board, "valid", validation.scores, step)
    for number, sample in enumerate(validation.samples):
        board.add_text(f"sample {number + 1}", "  \n".join(f"**{side}** {text}" for side, text in sample.items()), step)
    for number, picture in enumerate(validation.pictures):
        board.add_image(f"attention {number + 1}", picture, step, dataformats="HWC")


class Window:
    """Sums since the last report."""

    def __init__(self) -> None:
        self.nll = self.norms = 0.0
        self.updates = self.tokens = self.real = self.positions = 0
        self.started = time.monotonic()

    def add(self, batches: Sequence[Batch], nll: float, gradient_norm: float) -> None:
        """Count an update: its batches, their negative log-likelihood, summed, in nats, and the norm of their gradient."""
        self.nll += nll
        self.norms += gradient_norm
        self.updates += 1
        for batch in batches:
            self.tokens += batch.tokens
            self.real += batch.tokens + batch.src_tokens
            self.positions += batch.src.numel() + batch.tgt_out.numel()

    def means(self) -> dict[str, float]:
        """Loss in nats a target token, perplexity, gradient norm before clipping, speed, and the share of padding."""
        loss = self.nll / self.tokens
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 100.0)),
            "gradient_norm": self.norms / self.updates,
            "tokens_per_second": self.tokens / (time.monotonic() - self.started),
            "padding": 1 - self.real / self.positions,
        }


def _rows_until(path: Path, progress: Progress) -> list[str]:
    """The rows of metrics.jsonl up to an update and a validation; an unfinished last row, left by a kill, is dropped."""
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
            validation = "samples" in row or any(name.startswith("valid_") for name in row)
            if row["step"] <= (progress.validated_step if validation else progress.step):
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    return kept
