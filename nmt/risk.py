"""Minimum risk training: what a model says of its own accord becomes more or less probable, as it scores above or below the rest."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import TrainConfig
from nmt.data.batches import Batch, make_batch
from nmt.evaluate import bleu_metric
from nmt.model.seq2seq import Seq2Seq
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

ONE_BATCH = 2**30  # sentences; what does not fit into a GPU's memory is read in halves by the caller


class Risk:
    """The cost whose gradient is an estimate of that of the risk, the expected 1 − BLEU of the model's translations (Shen et al. 2016).

    Of each sentence x, N translations y are drawn from p(y | x). With r(y) the sentence-level BLEU of y, 0 to 1, and r̄ the mean over
    all N, the sentence costs Σ_y (r(y) − r̄) · (−log p(y | x)) / N: the score function estimate (Williams 1992, with a baseline), whose
    derivative is that of the risk but for chance and a factor of (N − 1) / N.
    """

    def __init__(self, model: Seq2Seq, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer, config: TrainConfig) -> None:
        """Take a model on its device, its tokenizers, and the settings of its run: N, the limits of decoding, the target language.

        Raises:
            ConfigError: the tokenizer of BLEU for the target language is not installed.
        """
        device = next(model.parameters()).device
        decode = dataclasses.replace(config.decode, temperature=1.0, top_k=0, coverage_penalty=0.0, batch_size=ONE_BATCH)
        self.model, self.samples, self.seed = model, config.trainer.risk_samples, config.run.seed
        self.translator = Translator([model], src_tokenizer, tgt_tokenizer, decode, config.data.tgt_lang, device)
        self.bleu = bleu_metric(config.data.tgt_lang, sentences=True)

    def __call__(self, batch: Batch, update: int) -> tuple[Tensor, Tensor]:
        """What a batch costs at an update, which is what chance depends on beside the sentences.

        Returns:
            The sum of what the sentences cost, and the sum of −log p of the reference's tokens, which has no gradient: float32 scalars.
        """
        device = batch.src.device
        with torch.no_grad():
            _, nll = self.model.loss(batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, 0.0)
        sources, targets, advantages = self._drawn(batch, update)
        if not targets:  # all that was drawn of each sentence is equally good
            return torch.zeros((), device=device, requires_grad=True), nll
        drawn = make_batch(sources, targets, self.translator.src_tokenizer, self.translator.tgt_tokenizer).to(device)
        weights = torch.tensor(advantages, device=device)
        cost, _ = self.model.loss(drawn.src, drawn.src_lengths, drawn.tgt_in, drawn.tgt_out, 0.0, weights=weights)
        return cost, nll

    def _drawn(self, batch: Batch, update: int) -> tuple[list[list[int]], list[list[int]], list[float]]:
        """Sources, different translations of each, and for each translation (r(y) − r̄) / N times how often it came, unless that is 0."""
        translator = self.translator
        columns = (batch.src, batch.src_lengths - 1, batch.tgt_out, batch.tgt_lengths - 1)
        pairs = [(src[:i], tgt[:j]) for src, i, tgt, j in zip(*(column.tolist() for column in columns), strict=True)]
        translator.decode = dataclasses.replace(translator.decode, seed=self.seed * 2**32 + update)
        translator.renew()
        found = translator.search([source for source, _ in pairs], self.samples)
        references = translator.tgt_tokenizer.decode([target for _, target in pairs])
        sources, targets, advantages = list[list[int]](), list[list[int]](), list[float]()
        for (source, _), reference, drawn in zip(pairs, references, found, strict=True):
            counts = Counter(one.tokens for one in drawn)
            scores = self._scores(list(counts), reference)
            mean = sum(score * count for score, count in zip(scores, counts.values(), strict=True)) / len(drawn)
            for (tokens, count), score in zip(counts.items(), scores, strict=True):
                if score != mean:
                    sources.append(source)
                    targets.append(list(tokens))
                    advantages.append((score - mean) * count / len(drawn))
        return sources, targets, advantages

    def _scores(self, translations: Sequence[Sequence[int]], reference: str) -> list[float]:
        """The sentence-level BLEU of each, 0 to 1."""
        return [self.bleu.sentence_score(text, [reference]).score / 100 for text in self.translator.tgt_tokenizer.decode(translations)]
