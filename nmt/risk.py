"""Minimum risk training: what a model says of its own accord becomes more or less probable, as it scores above or below the rest."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.config import TrainConfig
from nmt.data.batches import Batch, make_batch
from nmt.evaluate import bleu_metric
from nmt.model.seq2seq import Seq2Seq
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

ONE_BATCH = 2**30  # sentences: a batch is searched whole; what does not fit into a GPU's memory is read in halves by the caller


class Drawn(NamedTuple):
    """A translation: of which row of the batch, by which ids, whether it has ended, and (r(y) − r̄) / N times how often it was drawn."""

    row: int
    tokens: Sequence[int]
    finished: bool
    advantage: float


class Risk:
    """The cost whose gradient is an estimate of that of the risk, the expected 1 − BLEU of the model's translations (Shen et al. 2016).

    Of each sentence x, N translations y are drawn from p(y | x), sharpened by a temperature: label smoothing leaves every word some
    probability, so that most translations drawn from p itself hold a word of mere chance, and differ in reward by that. With r(y) the
    sentence-level BLEU of y, 0 to 1, and r̄ the mean over all N, the sentence costs Σ_y (r(y) − r̄) · (−log p(y | x)) / N: the score
    function estimate (Williams 1992, with a baseline), whose derivative is, at temperature 1, that of the risk but for chance and a
    factor of (N − 1) / N. They are drawn without dropout, and learnt from with it.
    """

    def __init__(self, model: Seq2Seq, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, config: TrainConfig) -> None:
        """Take a model on its device, its tokenizers, and the settings of its run: N, the limits of decoding, the target language.

        Raises:
            ConfigError: the tokenizer of BLEU for the target language is not installed.
        """
        device = next(model.parameters()).device
        temperature = config.trainer.risk_temperature
        decode = dataclasses.replace(config.decode, temperature=temperature, top_k=0, coverage_penalty=0.0, batch_size=ONE_BATCH)
        self.model, self.samples, self.seed = model, config.trainer.risk_samples, config.run.seed
        self.translator = Translator([model], src_tokenizer, tgt_tokenizer, decode, config.data.tgt_lang, device)
        self.bleu = bleu_metric(config.data.tgt_lang, sentences=True)

    def __call__(self, batch: Batch, update: int) -> tuple[Tensor, Tensor]:
        """What a batch costs at an update, which is what chance depends on beside the sentences.

        Returns:
            The sum of what the sentences cost, and the sum of −log p of the reference's tokens, which has no gradient: float32 scalars.
        """
        device, translator = batch.src.device, self.translator
        with torch.no_grad():
            _, nll = self.model.loss(batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, 0.0)
        drawn = self._drawn(batch, update)
        if not drawn:  # all that was drawn of each sentence is equally good
            return torch.zeros((), device=device, requires_grad=True), nll
        rows = make_batch([()] * len(drawn), [one.tokens for one in drawn], translator.src_tokenizer, translator.tgt_tokenizer)
        for tgt_out, one in zip(rows.tgt_out, drawn, strict=True):
            if not one.finished:  # cut off: its end is not the model's
                tgt_out[len(one.tokens)] = self.model.tgt_pad_id
        rows = rows.to(device)
        scale = max(abs(one.advantage) for one in drawn)  # small numbers would be lost in float16
        weights = torch.tensor([one.advantage / scale for one in drawn], device=device)
        sources = torch.tensor([one.row for one in drawn], device=device)
        torch.clear_autocast_cache()  # PyTorch before 2.10 keeps what was cast without gradients
        cost, _ = self.model.loss(batch.src, batch.src_lengths, rows.tgt_in, rows.tgt_out, 0.0, weights=weights, sources=sources)
        return scale * cost, nll

    def _drawn(self, batch: Batch, update: int) -> list[Drawn]:
        """Different translations of each sentence, but those that are as good as the mean."""
        translator = self.translator
        columns = (batch.src, batch.src_lengths - 1, batch.tgt_out, batch.tgt_lengths - 1)
        pairs = [(src[:i], tgt[:j]) for src, i, tgt, j in zip(*(column.tolist() for column in columns), strict=True)]
        translator.decode = dataclasses.replace(translator.decode, seed=self.seed * 2**32 + update)
        translator.renew()
        found = translator.search([source for source, _ in pairs], self.samples)
        translator.renew()  # what made the search fast is in the way of the gradient's memory
        references = translator.tgt_tokenizer.decode([target for _, target in pairs])
        drawn = []
        for row, (reference, samples) in enumerate(zip(references, found, strict=True)):
            counts = Counter((one.tokens, one.finished) for one in samples)
            scores = self._scores([tokens for tokens, _ in counts], reference)
            mean = sum(score * count for score, count in zip(scores, counts.values(), strict=True)) / len(samples)
            for ((tokens, finished), count), score in zip(counts.items(), scores, strict=True):
                if score != mean:
                    drawn.append(Drawn(row, tokens, finished, (score - mean) * count / len(samples)))
        return drawn

    def _scores(self, translations: Sequence[Sequence[int]], reference: str) -> list[float]:
        """The sentence-level BLEU of each, 0 to 1."""
        return [self.bleu.sentence_score(text, [reference]).score / 100 for text in self.translator.tgt_tokenizer.decode(translations)]
