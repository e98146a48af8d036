"""What a run tells: metrics.jsonl and TensorBoard in its folder, a progress bar and one line a validation on stderr."""

import json
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import Tensor
from tqdm import tqdm

from nmt.data.batches import Batch
from nmt.files import write_text

log = logging.getLogger(__name__)
SHOWN = {"loss": 3, "perplexity": 2, "bleu": 2, "chrf": 2}  # what the line of a validation shows, with digits after the point


class Journal:
    """Writes the numbers of a run; a context manager that closes its files."""

    def __init__(self, folder: Path, step: int, total_steps: int | None) -> None:
        """Open the records of a run that stands at `step`, and drop what an interrupted run wrote after it.

        Args:
            folder: the run's folder.
            step: the update that training goes on from; rows of later updates are removed, since they will be made again.
            total_steps: the length of the progress bar; None where another limit ends the run.
        """
        from torch.utils.tensorboard import SummaryWriter  # slow to import, and only training needs it

        self.path = folder / "metrics.jsonl"
        if self.path.exists():
            write_text(self.path, "".join(f"{line}\n" for line in _rows_until(self.path, step)))
        self.file = self.path.open("a", encoding="utf-8", newline="\n")
        self.board = SummaryWriter(str(folder), purge_step=step + 1)
        self.bar = tqdm(total=total_steps, initial=step, unit="step", desc="train", disable=None, dynamic_ncols=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.close()
        self.board.close()
        self.file.close()

    def advance(self) -> None:
        """Move the progress bar by one update."""
        self.bar.update()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Record numbers of one update, by name; names that begin with valid_ are of a validation."""
        self.file.write(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        self.file.flush()
        for name, value in values.items():
            kind, short = ("valid", name.removeprefix("valid_")) if name.startswith("valid_") else ("train", name)
            self.board.add_scalar(f"{kind}/{short}", value, step)
        if "tokens_per_second" in values:
            self.bar.set_postfix(loss=f"{values['loss']:.3f}", tokens_per_second=f"{values['tokens_per_second']:.0f}")

    def validation(self, step: int, scores: Mapping[str, float], improved: bool, seconds: float) -> None:
        """Record the scores of a validation, and say them in one line."""
        self.scalars(step, {f"valid_{name}": value for name, value in scores.items()} | {"seconds": round(seconds, 1)})
        told = "  ".join(f"{name} {scores[name]:.{digits}f}" for name, digits in SHOWN.items() if name in scores)
        log.info("update %d  %d:%02d min  %s%s", step, *divmod(int(seconds), 60), told, "  (best so far)" if improved else "")

    def samples(self, step: int, texts: Mapping[str, str]) -> None:
        """Keep sample translations for TensorBoard's text page."""
        for name, text in texts.items():
            self.board.add_text(name, text, step)


class Window:
    """Sums since the last report. Losses stay on the device as tensors, so that an update does not wait for them."""

    def __init__(self) -> None:
        self.nll: Tensor | float = 0.0
        self.gradient_norm: Tensor | float = 0.0
        self.tokens = self.real = self.positions = 0
        self.started = time.monotonic()

    def add(self, batch: Batch, nll: Tensor) -> None:
        """Count a batch and its summed negative log-likelihood, a scalar tensor in nats."""
        self.nll = self.nll + nll
        self.tokens += batch.tokens
        self.real += batch.tokens + batch.src_tokens
        self.positions += batch.src.numel() + batch.tgt_out.numel()

    def means(self) -> dict[str, float]:
        """Loss in nats a target token, perplexity, gradient norm before clipping, speed, and the share of padding."""
        loss = float(self.nll) / self.tokens
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 100.0)),
            "gradient_norm": float(self.gradient_norm),
            "tokens_per_second": self.tokens / (time.monotonic() - self.started),
            "padding": 1 - self.real / self.positions,
        }


def _rows_until(path: Path, step: int) -> list[str]:
    """The rows of metrics.jsonl up to an update; an unfinished last row, left by a kill, is dropped."""
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    return kept
