"""BLEU as the Multi30k papers report it, of lower-cased, punctuation-normalised, Moses-tokenised text; for a place beside their rows."""

import sys
from collections.abc import Iterable, Sequence

from sacrebleu.metrics.bleu import BLEU

from nmt.errors import ConfigError
from nmt.evaluate import check_lengths

try:
    import sacremoses
except ImportError:  # nothing but this measure needs it
    sacremoses = None


def require_sacremoses() -> None:
    """Raise ConfigError where sacremoses is missing."""
    if sacremoses is None:
        raise ConfigError(f"the published measure needs sacremoses: {sys.executable} -m pip install sacremoses")


def moses(lines: Iterable[str], lang: str) -> list[str]:
    """The lines as the official files of Multi30k have them."""
    require_sacremoses()
    normalizer, tokenizer = sacremoses.MosesPunctNormalizer(lang=lang), sacremoses.MosesTokenizer(lang=lang)
    return [tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True) for line in lines]


def published_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """BLEU of tokens as they stand, of what `moses` returned or what a model made that was trained on such text.

    Raises:
        DataError: the numbers of lines differ.
    """
    check_lengths([hypotheses, references], ["the translation", "the reference"])
    metric = BLEU(tokenize="none", force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    return {"published": score, "published_signature": f"{metric.get_signature()}, lower-cased, Moses-tokenised"}
