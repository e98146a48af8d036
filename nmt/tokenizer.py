"""Subwords: SentencePiece models trained in memory, and text to piece ids and back without loss."""

import io
import random
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import sentencepiece

from nmt.config import TokenizerConfig
from nmt.errors import ConfigError, DataError
from nmt.subwords import Subwords, subwords

Item = TypeVar("Item")

# SentencePiece drops longer training lines (in bytes); its own limit of 4,192 would drop ordinary paragraphs.
MAX_TRAINING_LINE = 100_000


class Tokenizer:
    """One SentencePiece model. Special ids and the vocabulary come from the model alone.

    Text is not normalised: with byte fallback, `decode(encode(lines)) == lines` for every line without "▁" and "\\n".

    Attributes:
        model: the serialised SentencePiece model.
        vocab_size: number of ids, special ones included.
        pad_id, unk_id, bos_id, eos_id: the special ids.
        forbidden_ids: ids that a search must never generate: pad, unk, bos, and every piece that holds a control character (U+0000 to
            U+001F but tab, and U+007F), such as the byte piece of a newline.
    """

    def __init__(self, model: bytes) -> None:
        """Load a serialised model.

        Raises:
            DataError: the bytes are no SentencePiece model with the special pieces pad, unk, bos and eos.
        """
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
            controls = [i for i in range(self._processor.get_piece_size()) if self._holds_control_character(i)]
        except (RuntimeError, ValueError) as error:  # the latter where a piece, or the message about it, is no UTF-8
            raise DataError(f"{len(model):,} bytes that should be a SentencePiece model are none; prepare the data again") from error
        self.model = model
        self.vocab_size: int = self._processor.get_piece_size()
        self.pad_id: int = self._processor.pad_id()
        self.unk_id: int = self._processor.unk_id()
        self.bos_id: int = self._processor.bos_id()
        self.eos_id: int = self._processor.eos_id()
        self._special_ids = frozenset((self.pad_id, self.unk_id, self.bos_id, self.eos_id))
        if self.vocab_size == 0 or min(self._special_ids) < 0 or len(self._special_ids) < 4:
            raise DataError("the SentencePiece model lacks a special piece: it needs all of pad, unk, bos and eos; prepare the data again")
        self.forbidden_ids = tuple(sorted({self.pad_id, self.unk_id, self.bos_id, *controls}))

    def _holds_control_character(self, piece_id: int) -> bool:
        piece: str = self._processor.id_to_piece(piece_id)
        text = chr(int(piece[1:-1], 16)) if self._processor.is_byte(piece_id) else piece
        return any((char < " " and char != "\t") or char == "\x7f" for char in text)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without special ids; an empty line gives no ids. Strings such as "</s>" are plain text."""
        ids: list[list[int]] = self._processor.encode(list(lines))
        return ids

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Text of each sequence of ids; special ids are skipped, and a newline (which no search generates) becomes a space."""
        texts: list[str] = self._processor.decode([[int(i) for i in line if i not in self._special_ids] for line in ids])
        return [text.replace("\n", " ") for text in texts]

    def resample(self, ids: Sequence[Sequence[int]], alpha: float, seed: int) -> list[list[int]]:
        """Ids of the same texts, cut into pieces by chance: the same chance for the same texts, alpha and seed.

        Of a bpe model's merges each is left out with probability alpha; of a unigram model's segmentations one is drawn by its
        probability ** alpha. See `nmt.subwords`. Ids that stand for no text of their own (unk, bytes) stay where they are.

        Args:
            ids: (lines) (pieces).
            alpha: 0 to 1.
            seed: at least 0.
        """
        rng = random.Random(seed)
        return [self._subwords.cut(line, alpha, rng) for line in ids]

    @cached_property
    def _subwords(self) -> Subwords:
        """Built where it is needed: in training with sampling."""
        model, ids = self._processor, range(self.vocab_size)
        textless = [model.is_byte(i) or model.is_control(i) or model.is_unknown(i) for i in ids]
        pieces = [None if without else piece for piece, without in zip(self.pieces(ids), textless, strict=True)]
        return subwords(pieces, [model.get_score(i) for i in ids])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id as SentencePiece writes it: "▁" for a space, "<0x0A>" for a byte."""
        pieces: list[str] = self._processor.id_to_piece([int(i) for i in ids])
        return pieces


def sample(items: Iterable[Item], size: int, seed: int) -> list[Item]:
    """A uniform random sample of `size` items in one pass; all of them, in order, where there are no more than that.

    Reservoir sampling (Vitter, 1985, algorithm R).
    """
    rng = random.Random(seed)
    reservoir: list[Item] = []
    for index, item in enumerate(items):
        if index < size:
            reservoir.append(item)
        elif (slot := int(rng.random() * (index + 1))) < size:
            reservoir[slot] = item
    return reservoir


def train_tokenizers(src_lines: Iterable[str], tgt_lines: Iterable[str], config: TokenizerConfig) -> tuple[Tokenizer, Tokenizer]:
    """Learn the source and the target tokenizer; with `config.joint` both are the same object, learnt from both sides.

    Each side is sampled down to `config.sample_lines` lines. The same lines, configuration and seed give the same bytes.

    Raises:
        ConfigError: vocab_size is larger than the text allows or smaller than its characters need; the message says the limit.
        DataError: there is no text.
    """
    src_sample = sample(src_lines, config.sample_lines, config.seed)
    tgt_sample = sample(tgt_lines, config.sample_lines, config.seed)
    if config.joint:
        joint = Tokenizer(_train(src_sample + tgt_sample, config, "the text"))
        return joint, joint
    return Tokenizer(_train(src_sample, config, "the source text")), Tokenizer(_train(tgt_sample, config, "the target text"))


def _train(lines: list[str], config: TokenizerConfig, name: str) -> bytes:
    if not any(lines):
        raise DataError(f"{name} holds nothing to learn subwords from: every line is empty")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=config.type,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=MAX_TRAINING_LINE,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            minloglevel=2,
        )
    except (RuntimeError, OSError, ValueError) as error:
        raise _explained(str(error), config, name) from error
    return model.getvalue()


def _explained(message: str, config: TokenizerConfig, name: str) -> ConfigError:
    """SentencePiece's exception in terms of our settings."""
    size = f"tokenizer.vocab_size={config.vocab_size}"
    if "sentences_.empty()" in message:
        limit = f"lines of more than {MAX_TRAINING_LINE:,} bytes, and those that hold U+2585, are left out"
        return ConfigError(f"SentencePiece finds no line of {name} that it can learn from: {limit}; cut the text into sentences")
    if too_large := re.search(r"too high .*<= (\d+)", message):
        return ConfigError(f"{size} is too large for {name}: the largest possible is {too_large[1]}")
    if too_small := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"{size} is too small for the characters of {name}: the smallest possible is {too_small[1]} "
            f"(or lower tokenizer.character_coverage={config.character_coverage:g})"
        )
    return ConfigError(f"SentencePiece cannot learn a {config.type} model with {size}: {' '.join(message.split())}")
