"""How good a model is on text pairs: perplexity under teacher forcing, and BLEU of real decoding by the code that `evaluate` uses."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.alignment import DRAWN, word_attention
from nmt.data.batches import Batch, make_batch
from nmt.device import autocast
from nmt.distributed import ALONE, Processes
from nmt.errors import DataError, NmtError, lack_of_memory
from nmt.evaluate import evaluate
from nmt.interruption import Signals
from nmt.journal import Validation
from nmt.metrics import distinct_ratio, empty_share, looping_share
from nmt.model.seq2seq import Seq2Seq
from nmt.pictures import pixels
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

log = logging.getLogger(__name__)
T = TypeVar("T")
LONGEST = 2000  # pieces; what the loss of a pair costs grows with the product of its lengths, and a whole book in a line with hours


class Validator:
    """Scores a model that is being trained on the validation pairs, when it is called."""

    def __init__(
        self,
        translator: Translator,
        pairs: Sequence[tuple[str, str]],
        max_tokens: int,
        dtype: torch.dtype,
        samples: int,
        processes: Processes = ALONE,
        signals: Signals | None = None,
    ) -> None:
        """Encode the pairs once.

        Args:
            translator: translates with the model in training, and with the beam that validation shall use.
            pairs: source and reference lines.
            max_tokens: positions in a batch for the loss.
            dtype: the type of the matrix products.
            samples: how many translations to show, as text and as pictures of their attention.
            processes: share the pairs out among them; all get the same scores.
            signals: one of these ends a validation.

        Raises:
            DataError: every pair is too long to have a loss; see `batch_pairs`.
        """
        self.translator, self.pairs, self.dtype, self.samples = translator, pairs, dtype, samples
        self.processes, self.signals = processes, signals or Signals()
        self.batches = list(batch_pairs(pairs, translator.src_tokenizer, translator.tgt_tokenizer, max_tokens))
        if not self.batches:
            raise DataError(f"every validation pair has a side of more than {LONGEST:,} pieces: break the lines of data.valid up")

    def __call__(self) -> Validation:
        """Loss (nats a target token), perplexity, BLEU, chrF, length ratio, shares of empty, distinct and looping translations.

        A few translations come with them, as text and as pictures of their attention.

        Raises:
            Interrupted: a signal has come, to any of the processes.
        """
        sources, references = zip(*self.pairs, strict=True)
        shares = self.processes.together(self._measure)
        loss = sum(share.nll for share in shares) / sum(batch.tokens for batch in self.batches)
        hypotheses = _merged([share.hypotheses for share in shares])
        report = evaluate(hypotheses, references, self.translator.tgt_lang, ter=False)
        scores = {
            "loss": loss,
            "perplexity": math.exp(min(loss, 100.0)),
            "bleu": report.bleu,
            "chrf": report.chrf,
            "length_ratio": report.length_ratio,
            "empty": empty_share(hypotheses),
            "distinct": distinct_ratio(hypotheses),
            "looping": looping_share(hypotheses),
        }
        if len(self.pairs) >= 20 and scores["distinct"] < 0.1:
            log.warning("fewer than one in ten translations differ: the decoder may be ignoring the source (is optimizer.lr too high?)")
        columns = zip(sources, references, hypotheses, strict=True)
        samples = [dict(zip(("source", "reference", "hypothesis"), column, strict=True)) for column in islice(columns, self.samples)]
        return Validation(scores, samples, _merged([share.pictures for share in shares]))

    def _measure(self) -> "Share":
        """What this process has to do of it."""
        with self.signals.at_once():
            self.translator.renew()
            share = self.processes.share
            nll = summed_loss(self.translator.models[0], self.batches[share], self.dtype)
            translations = self.translator.hypotheses([src for src, _ in self.pairs[share]])
            shown = list(islice(translations, len(range(self.samples)[share])))
            hypotheses = [translation.text for translation in chain(shown, translations)]
            return Share(nll, hypotheses, [pixels(word_attention(translation.parts[:DRAWN])) for translation in shown])


def attempted(validate: Callable[[], Validation], update: int) -> Validation | None:
    """What a validation found; None where validation itself failed, which is an error in the log and a gap in the records."""
    try:
        return validate()
    except NmtError:
        raise
    except Exception as error:
        memory = lack_of_memory(error)
        told = f"the validation after update {update} failed; training goes on without its scores"
        log.error(f"{told}: {memory}" if memory else told, exc_info=not memory)
        return None


@dataclass(frozen=True)
class Share:
    """A process's share of a validation: the −log p(y) of its batches, summed; the translations of its pairs, and the pictures of some."""

    nll: float
    hypotheses: list[str]
    pictures: list[NDArray[np.uint8]]


def _merged(shares: Sequence[Sequence[T]]) -> list[T]:
    """What was shared out one by one, in its order."""
    merged: list[T] = [item for share in shares for item in share]
    for rank, share in enumerate(shares):
        merged[rank :: len(shares)] = share
    return merged


def batch_pairs(pairs: Sequence[tuple[str, str]], src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, max_tokens: int) -> Iterator[Batch]:
    """Batches of text pairs in order of length, each of at most max_tokens positions or of one pair.

    Pairs with a side of more than 2,000 pieces are left out, and a warning says how many they are.
    """
    ids = zip(src_tokenizer.encode([src for src, _ in pairs]), tgt_tokenizer.encode([tgt for _, tgt in pairs]), strict=True)
    fitting = [pair for pair in ids if max(map(len, pair)) <= LONGEST]
    if len(fitting) < len(pairs):
        log.warning("%d pairs with more than %s pieces do not count for loss and perplexity", len(pairs) - len(fitting), f"{LONGEST:,}")
    waiting: list[tuple[list[int], list[int]]] = []
    for pair in sorted(fitting, key=lambda pair: max(len(pair[0]), len(pair[1]))):
        if waiting and (len(waiting) + 1) * (max(len(pair[0]), len(pair[1])) + 1) > max_tokens:
            yield make_batch([src for src, _ in waiting], [tgt for _, tgt in waiting], src_tokenizer, tgt_tokenizer)
            waiting = []
        waiting.append(pair)
    if waiting:
        yield make_batch([src for src, _ in waiting], [tgt for _, tgt in waiting], src_tokenizer, tgt_tokenizer)


def mean_loss(model: Seq2Seq, batches: Sequence[Batch], dtype: torch.dtype) -> float:
    """Negative log-likelihood in nats a target token, end symbols included, without label smoothing."""
    return summed_loss(model, batches, dtype) / sum(batch.tokens for batch in batches)


@torch.no_grad()
def summed_loss(model: Seq2Seq, batches: Sequence[Batch], dtype: torch.dtype) -> float:
    """Negative log-likelihood in nats of all target tokens, end symbols included, without label smoothing."""
    device = next(model.parameters()).device
    total = torch.zeros((), device=device)
    for batch in batches:
        moved = batch.to(device)
        with autocast(device, dtype):
            _, nll = model.loss(moved.src, moved.src_lengths, moved.tgt_in, moved.tgt_out, 0.0)
        total += nll
    return float(total)
