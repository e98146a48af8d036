"""Lines of text to translations: subwords, batches by length, search or sampling, and the order of the input restored."""

import dataclasses
import logging
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from nmt.checkpoint import Checkpoint, load_checkpoints
from nmt.config import DecodeConfig, ModelConfig
from nmt.coverage import Coverage
from nmt.data.batches import make_batch
from nmt.data.segments import numbered_chunks, split_line
from nmt.device import autocast, pick_device, pick_dtype
from nmt.errors import SURROGATE, CheckpointError, ConfigError, DataError
from nmt.language import is_blank, word_separator
from nmt.model.attention import NoAttention
from nmt.model.ensemble import Ensemble
from nmt.model.inference import Inference
from nmt.model.seq2seq import Seq2Seq
from nmt.sampling import sample
from nmt.schema import load
from nmt.search import Found, beam_search
from nmt.tokenizer import Tokenizer
from nmt.translation import BLANK, Part, Translation

log = logging.getLogger(__name__)
CHUNK_BATCHES = 16  # how many batches of lines are read at once and sorted by length


def build_model(config: ModelConfig, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> Seq2Seq:
    """A network with new parameters, for the vocabularies of two tokenizers.

    Raises:
        ConfigError: for sizes that do not fit each other, or tie=all with two vocabularies.
    """
    check_tie(config, src_tokenizer.model == tgt_tokenizer.model)
    return Seq2Seq(config, src_tokenizer.vocab_size, tgt_tokenizer.vocab_size, src_tokenizer.pad_id, tgt_tokenizer.pad_id)


def check_weights(checkpoint: Checkpoint, name: str = "the checkpoint") -> None:
    """Raise CheckpointError where the weights of a checkpoint, which it calls `name`, are not those of the network that it describes."""
    with torch.device("meta"):  # so that no memory is asked for, whatever sizes the configuration names
        expected = build_model(checkpoint.config.model, checkpoint.src_tokenizer, checkpoint.tgt_tokenizer).state_dict()
    if told := _unfit(checkpoint.model, expected):
        raise CheckpointError(f"the weights of {name} do not fit its configuration: {told}; use another checkpoint")


def _unfit(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """What keeps weights from being those that are expected; an empty text where nothing does."""
    for name in sorted(map(str, given.keys() ^ expected.keys())):
        return f"{name} is missing" if name in expected else f"there is no {name} in such a network"
    for name, tensor in expected.items():
        if given[name].shape != tensor.shape or not given[name].is_floating_point():
            return f"{name} is {given[name].dtype} {tuple(given[name].shape)}, not {tensor.dtype} {tuple(tensor.shape)}"
    return ""


def check_tie(config: ModelConfig, joint: bool) -> None:
    """Raise ConfigError for tie=all where the languages have no vocabulary in common."""
    if config.tie == "all" and not joint:
        raise ConfigError("model.tie=all needs one vocabulary for both languages: give tokenizer.joint=true, or use model.tie=target")


class Translator:
    """Translates lines with one model, or with several together. Neither texts nor their order depend on how lines are batched."""

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        src_tokenizer: Tokenizer,
        tgt_tokenizer: Tokenizer,
        decode: DecodeConfig,
        tgt_lang: str,
        device: torch.device,
    ) -> None:
        """Take models, which may be in training: they are left in the mode that they are in; see `renew`.

        Args:
            models: one, or an ensemble for the same vocabularies.
            decode: beam, limits, batch size and precision.
            tgt_lang: code of the target language; it says how the parts of a line that was too long are joined.
            device: where to compute; the models are moved there.

        Raises:
            ConfigError: decode.top_k without a temperature, or decode.coverage_penalty without attention.
        """
        if decode.top_k > 0 and decode.temperature == 0:
            raise ConfigError(f"decode.top_k={decode.top_k} is for sampling: give decode.temperature=1 too, or leave it out")
        if decode.coverage_penalty > 0 and any(isinstance(model.decoder.attention, NoAttention) for model in models):
            raise ConfigError(f"decode.coverage_penalty={decode.coverage_penalty:g} is for models with attention: leave it out")
        self.models = [model.to(device) for model in models]
        self.src_tokenizer = src_tokenizer
        self.tgt_tokenizer = tgt_tokenizer
        self.decode = decode
        self.tgt_lang = tgt_lang
        self.device = device
        self.dtype = pick_dtype(decode.precision, device)
        self._inference: Ensemble | None = None

    @classmethod
    def of(cls, checkpoints: Sequence[Checkpoint], device: torch.device, decode: DecodeConfig) -> Self:
        """A translator with the models of checkpoints, as `load_checkpoints` gives them.

        Raises:
            CheckpointError: the weights of one do not fit its configuration.
        """
        tokenizers = checkpoints[0].src_tokenizer, checkpoints[0].tgt_tokenizer
        for number, checkpoint in enumerate(checkpoints, start=1):
            check_weights(checkpoint, "the checkpoint" if len(checkpoints) == 1 else f"checkpoint {number}")
        models = [build_model(checkpoint.config.model, *tokenizers).eval() for checkpoint in checkpoints]
        for model, checkpoint in zip(models, checkpoints, strict=True):
            model.load_state_dict(checkpoint.model)
        return cls(models, *tokenizers, decode, checkpoints[0].config.data.tgt_lang, device)

    @classmethod
    def load(cls, path: str | Path | Sequence[str | Path], device: str = "auto", **decode: Any) -> Self:
        """A translator from a checkpoint file, or from several: an ensemble.

        Args:
            path: a checkpoint, such as runs/first/best.pt, or a list of them; it may come from another kind of device.
            device: "cpu", "cuda", or "auto" for a GPU where there is one.
            decode: settings of DecodeConfig in place of the (first) checkpoint's, such as beam_size=1.

        Raises:
            CheckpointError: a file is missing, damaged, or no checkpoint, or several do not belong together.
            ConfigError: a setting does not exist or is out of range, or there is no such device.
        """
        checkpoints = load_checkpoints([path] if isinstance(path, str | Path) else path)
        settings = load(DecodeConfig, dataclasses.asdict(checkpoints[0].config.decode) | decode, "decode.")
        return cls.of(checkpoints, pick_device(device), settings)

    def translate(self, lines: Iterable[str]) -> list[str]:
        """The text of the best translation of each line, in order, one for each; a blank line gives an empty text."""
        return [translation.text for translation in self.hypotheses(lines)]

    def hypotheses(self, lines: Iterable[str], nbest: int = 1) -> Iterator[Translation]:
        """Yield the translation of each line, in order; lines are read as they are needed, in chunks.

        A line of more than decode.max_source_pieces pieces is cut into parts at sentence ends, else at spaces, else anywhere; their
        translations are joined, and a warning is logged. The end of a line ("\\n", "\\r\\n") is no part of it.

        Args:
            lines: any number of them.
            nbest: how many texts to give for each line, at most decode.beam_size; fewer are found where translations are short. With a
                temperature above 0 so many samples are drawn, and those that read the same are given once.

        Raises:
            ConfigError: nbest is larger than the beam.
            CheckpointError: the probabilities of the model are no numbers.
        """
        if isinstance(lines, str):
            raise TypeError("a list of lines is expected, not one string")
        if nbest < 1:
            raise ConfigError(f"nbest = {nbest}: at least one translation a line is expected")
        for chunk in numbered_chunks(lines, self.decode.batch_size, CHUNK_BATCHES * self.decode.batch_size):
            yield from self.translate_chunk(chunk, nbest)

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[Part]:
        """Where the model looks while it reads translations that are given, one part for each pair of source and target line."""
        sources, targets = (self.src_tokenizer.encode([src for src, _ in pairs]), self.tgt_tokenizer.encode([tgt for _, tgt in pairs]))
        parts: dict[int, Part] = {}
        order = sorted(range(len(pairs)), key=lambda row: len(targets[row]))
        for start in range(0, len(order), self.decode.batch_size):
            rows = order[start : start + self.decode.batch_size]
            every = self._read([sources[row] for row in rows], [targets[row] for row in rows])
            for row, weights in zip(rows, every, strict=True):
                src, tgt = self.src_tokenizer.pieces(sources[row]), self.tgt_tokenizer.pieces(targets[row])
                parts[row] = Part(tuple(src), tuple(tgt), weights[: len(tgt) + 1, : len(src) + 1].clone())
        return [parts[row] for row in range(len(pairs))]

    @torch.inference_mode()
    def _read(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
        """The weights (B, T, S) with which each target symbol, the end symbol included, is predicted."""
        batch = make_batch(sources, targets, self.src_tokenizer, self.tgt_tokenizer).to(self.device)
        with _evaluating(self.models), autocast(self.device, self.dtype):
            inference = self._ready()
            state, rows = inference.start(batch.src, batch.src_lengths), []
            for symbols in batch.tgt_in.unbind(1):
                _, weights, state = inference.step(symbols.unsqueeze(1), state)
                rows.append(weights)
        return torch.cat(rows, 1).cpu()

    def translate_chunk(self, numbered_lines: Sequence[tuple[int, str]], nbest: int) -> Iterator[Translation]:
        """Yield the translations of lines that come with their numbers, for messages; else as `hypotheses`, which cuts its lines so."""
        parts = self._parts(numbered_lines)
        found = iter(self.search([ids for line in parts for ids in line], nbest))
        for line in parts:
            yield self._join(line, list(islice(found, len(line))), nbest)

    def _parts(self, numbered_lines: Sequence[tuple[int, str]]) -> list[list[list[int]]]:
        """Source ids of each line: none where it is blank, several where it is too long."""
        limit = self.decode.max_source_pieces
        texts = [line.rstrip("\r\n").replace("\n", " ") for _, line in numbered_lines]
        if torn := [number for number, line in numbered_lines if SURROGATE.search(line)]:
            raise DataError(f"line {torn[0]} holds half of a surrogate pair, which is not Unicode text: decode the text as UTF-8")
        every = self.src_tokenizer.encode(["" if is_blank(text) else text for text in texts])
        parts = [[ids] if ids else [] for ids in every]
        for row, ids in enumerate(every):
            if len(ids) > limit:
                parts[row] = split_line(texts[row], self.src_tokenizer, limit)
                where = f"line {numbered_lines[row][0]} has {len(ids):,} pieces, more than decode.max_source_pieces={limit}"
                log.warning("%s: translated in %d parts", where, len(parts[row]))
        return parts

    def search(self, sources: Sequence[list[int]], nbest: int) -> list[list[Found]]:
        """Hypotheses of each source, batched by length: of a search the unfinished only where no other is found; weights of the best alone.

        All samples stay: without those that were cut off, the others would be too short.
        """
        found: list[list[Found]] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
        samples = self.decode.temperature > 0
        size = max(1, self.decode.batch_size // nbest) if samples else self.decode.batch_size
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            for row, hypotheses in zip(rows, self._search_batch([sources[row] for row in rows], nbest), strict=True):
                best, *others = [one for one in hypotheses if one.finished or samples] or hypotheses
                real = best.weights[:, : len(sources[row]) + 1].clone()
                found[row] = [dataclasses.replace(best, weights=real), *(dataclasses.replace(one, weights=real[:0]) for one in others)]
        return found

    @torch.inference_mode()
    def _search_batch(self, sources: Sequence[list[int]], nbest: int) -> list[list[Found]]:
        batch = make_batch(sources, [()] * len(sources), self.src_tokenizer, self.tgt_tokenizer).to(self.device)
        pieces, decode = batch.src_lengths - 1, self.decode
        options: dict[str, Any] = {
            "max_lengths": (pieces * decode.max_length_ratio).ceil().long() + decode.max_length_extra + 1,
            "bos_id": self.tgt_tokenizer.bos_id,
            "eos_id": self.tgt_tokenizer.eos_id,
            "forbidden_ids": self.tgt_tokenizer.forbidden_ids,
            "length_penalty": decode.length_penalty,
            "coverage": Coverage.start(decode.coverage_penalty, batch.src != self.src_tokenizer.pad_id),
        }
        with _evaluating(self.models), autocast(self.device, self.dtype):
            inference = self._ready()
            step, state = inference.step, inference.start(batch.src, batch.src_lengths)
            if decode.temperature > 0:
                seeds = [random.Random(f"{decode.seed} {source}").getrandbits(63) for source in sources]
                found = sample(step, state, seeds=seeds, temperature=decode.temperature, top_k=decode.top_k, samples=nbest, **options)
            else:
                found = beam_search(step, state, batch_size=len(sources), beam_size=decode.beam_size, nbest=nbest, **options)
        if any(math.isnan(one.score) for hypotheses in found for one in hypotheses):
            raise CheckpointError("the model's probabilities are no numbers (NaN): training has diverged; use an earlier checkpoint")
        return found

    def renew(self) -> None:
        """Read the models' weights again: for a model that has been trained on since its last translation."""
        self._inference = None

    def _ready(self) -> Ensemble:
        if self._inference is None:
            self._inference = Ensemble([Inference(model, self.dtype) for model in self.models])
        return self._inference

    def _join(self, sources: Sequence[list[int]], found: Sequence[list[Found]], nbest: int) -> Translation:
        """The translation of a line from the hypotheses of its parts, each list of which is not empty."""
        if not sources:
            return BLANK
        ranked = [[hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in found] for rank in range(nbest)]
        texts: dict[str, float] = {}
        for parts in ranked:
            texts.setdefault(self._text(parts), sum(part.score for part in parts) / len(parts))
        best = ranked[0]
        text, score = next(iter(texts.items()))
        return Translation(
            text=text,
            score=score,
            log_prob=sum(part.log_prob for part in best),
            finished=all(part.finished for part in best),
            parts=tuple(map(self._part, sources, best)),
            nbest=tuple(texts.items()),
        )

    def _text(self, parts: Sequence[Found]) -> str:
        texts = self.tgt_tokenizer.decode([part.tokens for part in parts])
        return texts[0] if len(texts) == 1 else word_separator(self.tgt_lang).join(filter(None, (text.strip() for text in texts)))

    def _part(self, source: Sequence[int], found: Found) -> Part:
        return Part(tuple(self.src_tokenizer.pieces(source)), tuple(self.tgt_tokenizer.pieces(found.tokens)), found.weights)


@contextmanager
def _evaluating(models: Sequence[Seq2Seq]) -> Iterator[None]:
    """The models without dropout, and afterwards as they were."""
    training = [model for model in models if model.training]
    for model in training:
        model.eval()
    try:
        yield
    finally:
        for model in training:
            model.train()
