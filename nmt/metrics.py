"""Numbers that training is steered and watched by: which way each metric points, and signs of a model that does not translate."""

import math
from collections.abc import Sequence

from nmt.language import is_blank

HIGHER_IS_BETTER = {"bleu": True, "chrf": True, "loss": False, "perplexity": False}


def is_better(metric: str, new: float, best: float | None) -> bool:
    """Whether a new value is better than the best so far, or the first that is a number; what is no number (NaN) is never better.

    Args:
        metric: a name in HIGHER_IS_BETTER.
        new: the value of this validation.
        best: the best value before it, None where there is none.
    """
    if math.isnan(new):
        return False
    return best is None or (new > best if HIGHER_IS_BETTER[metric] else new < best)


def shown(value: float, digits: int = 2) -> str:
    """A number for people, with so many digits after the point; from a million on as 1.2e+06: a perplexity may have 44 digits before it."""
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.1e}"


def empty_share(texts: Sequence[str]) -> float:
    """The share, 0 to 1, of texts that are empty or blank."""
    return _share(sum(map(is_blank, texts)), texts)


def distinct_ratio(texts: Sequence[str]) -> float:
    """Distinct texts over texts, 0 to 1; near 0, the decoder writes the same whatever the source says."""
    return _share(len(set(texts)), texts)


def looping_share(texts: Sequence[str]) -> float:
    """The share, 0 to 1, of texts that repeat themselves; see `is_looping`."""
    return _share(sum(map(is_looping, texts)), texts)


def is_looping(text: str, repeats: int = 4, longest: int = 10) -> bool:
    """Whether some n-gram stands at least `repeats` times in a row.

    N-grams are of 1 to `longest` words, and of 2 to `longest` characters where the text has no spaces, as in Chinese or Japanese.
    """
    words = text.split()
    units: Sequence[str] = words if len(words) > 1 else text.strip()
    return any(_repeats(units, n, repeats) for n in range(1 if len(words) > 1 else 2, longest + 1))


def _repeats(units: Sequence[str], n: int, repeats: int) -> bool:
    """Whether an n-gram stands `repeats` times in a row, which is that (repeats - 1) n units in a row equal those n before them."""
    run = 0
    for before, unit in zip(units, units[n:], strict=False):
        run = run + 1 if before == unit else 0
        if run >= (repeats - 1) * n:
            return True
    return False


def _share(count: int, texts: Sequence[str]) -> float:
    return count / len(texts) if texts else 0.0
