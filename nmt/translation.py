"""What translating a line gives: the text, its score, its pieces and where the model looked for each of them."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Part:
    """What the model saw and wrote at once: a line, or a part of one that was too long.

    Attributes:
        src_pieces, tgt_pieces: S − 1 and T pieces, without end symbols.
        weights: (T or T + 1, S) float32, a row for each target piece and for the end symbol of a finished translation, a column for
            each source piece and for the end symbol.
    """

    src_pieces: tuple[str, ...]
    tgt_pieces: tuple[str, ...]
    weights: Tensor


@dataclass(frozen=True)
class Translation:
    """The translation of one line; of a blank line it is empty, with log_prob 0 and no parts.

    Attributes:
        text: without "\\n" and "\\r".
        score: log_prob / length ** length_penalty + coverage; the mean over the parts of a line that was too long.
        log_prob: natural logarithm of its probability, summed over the parts.
        finished: False where the length limit cut it off.
        parts: one but for blank lines (none) and lines that were too long (several).
        nbest: the best texts, this one first, and their scores; no text twice.
    """

    text: str
    score: float
    log_prob: float
    finished: bool
    parts: tuple[Part, ...]
    nbest: tuple[tuple[str, float], ...]

    @property
    def tokens(self) -> list[str]:
        """The target pieces of all parts."""
        return [piece for part in self.parts for piece in part.tgt_pieces]

    @property
    def alignment(self) -> list[tuple[int, int]]:
        """(target index, source index) over the pieces of all parts: where each target piece looked most, if not at the end symbol.

        Without attention there are none.
        """
        pairs, src_start, tgt_start = [], 0, 0
        for part in self.parts:
            peaks = part.weights.argmax(1).tolist()[: len(part.tgt_pieces)]
            looked = part.weights.any(1).tolist()
            pairs += [(tgt_start + tgt, src_start + src) for tgt, src in enumerate(peaks) if src < len(part.src_pieces) and looked[tgt]]
            src_start, tgt_start = src_start + len(part.src_pieces), tgt_start + len(part.tgt_pieces)
        return pairs


BLANK = Translation("", 0.0, 0.0, True, (), ())


def to_json(translation: Translation) -> dict[str, Any]:
    """A translation as plain data for a JSON line."""
    return {
        "text": translation.text,
        "score": translation.score,
        "log_prob": translation.log_prob,
        "finished": translation.finished,
        "src_tokens": [piece for part in translation.parts for piece in part.src_pieces],
        "tokens": translation.tokens,
        "alignment": [list(pair) for pair in translation.alignment],
        "nbest": [{"text": text, "score": score} for text, score in translation.nbest],
    }
