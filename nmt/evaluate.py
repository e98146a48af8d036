"""Translations against references: sacreBLEU's BLEU, chrF and TER, none of which travels without its signature."""

import difflib
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacrebleu import DATASETS
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.utils import SACREBLEU_DIR

from nmt.data.lines import OTHER_SEPARATORS, read_lines
from nmt.errors import ConfigError, DataError
from nmt.language import SPACELESS, base_language, is_blank, main_script, scripts, writes_spaces
from nmt.metrics import shown
from nmt.server import connect

log = logging.getLogger(__name__)

BLEU_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
CONNECT_SECONDS = 20
LONGEST = 1000  # words; sacreBLEU's TER fills a table of the words of a translation times those of its reference, in Python


@dataclass(frozen=True)
class Report:
    """Scores of a set of translations.

    Attributes:
        bleu, chrf: 0 to 100, higher is better.
        ter: edits a reference word times 100, lower is better; None where it was not asked for, or a line is too long for it.
        signatures: sacreBLEU's signature by metric: bleu, chrf, ter.
        precisions: of n-grams of 1 to 4 tokens, 0 to 100.
        brevity_penalty: the factor of BLEU for translations that are shorter than their references, 0 to 1.
        length_ratio: tokens of the translations over tokens of the references.
        sentences: how many there are, and how many of them are empty and how many reached the length limit of the search.
        perplexity: of the references under the model; of an ensemble it is not measured.
        seconds: spent on translating.
        precision: the arithmetic of the model. These four are None where the caller does not know them.
    """

    bleu: float
    chrf: float
    ter: float | None
    signatures: dict[str, str]
    precisions: list[float]
    brevity_penalty: float
    length_ratio: float
    sentences: int
    empty: int
    unfinished: int | None = None
    perplexity: float | None = None
    seconds: float | None = None
    precision: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, flat: the signatures are bleu_signature, chrf_signature, ter_signature."""
        values = {name: value for name, value in vars(self).items() if name != "signatures"}
        return values | {f"{metric}_signature": signature for metric, signature in self.signatures.items()}

    def table(self) -> str:
        """A few lines for people."""
        orders = "/".join(f"{precision:.1f}" for precision in self.precisions)
        detail = f"{orders}, brevity penalty {self.brevity_penalty:.3f}, length ratio {self.length_ratio:.3f}"
        scores = [("BLEU", self.bleu, "bleu"), ("chrF2", self.chrf, "chrf"), ("TER", self.ter, "ter")]
        rows = [f"{name:<6}{value:6.2f}   {self.signatures[metric]}" for name, value, metric in scores if value is not None]
        rows.insert(1, f"{'':<15}{detail}")
        facts = [
            ("sentences", f"{self.sentences:,}"),
            ("empty", f"{self.empty:,}"),
            ("unfinished", None if self.unfinished is None else f"{self.unfinished:,}"),
            ("perplexity", None if self.perplexity is None else shown(self.perplexity)),
            ("seconds", None if self.seconds is None else f"{self.seconds:.1f}"),
            ("precision", self.precision),
        ]
        return "\n".join([*rows, "  ".join(f"{name} {value}" for name, value in facts if value is not None)])


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tgt_lang: str,
    *,
    names: Sequence[str] = (),
    ter: bool = True,
    unfinished: int | None = None,
    perplexity: float | None = None,
    seconds: float | None = None,
    precision: str | None = None,
) -> Report:
    """Score translations as text, not as tokens: BLEU's tokenizer follows the target language.

    Args:
        hypotheses: one translation a sentence.
        references: one reference a sentence, or several such lists.
        tgt_lang: code of the target language, such as "de", "zh-CN" or "jpn"; it may be empty.
        names: what errors call the hypotheses and each list of references, such as their files.
        ter: whether to compute TER, which is slow for bad translations; where a line has more than 1,000 words there is a warning instead.
        unfinished, perplexity, seconds, precision: as in `Report`, put in as they are.

    Raises:
        DataError: there is nothing to score, or the numbers of lines differ.
        ConfigError: the tokenizer of the target language is not installed.
    """
    streams = [[one for one in references if isinstance(one, str)]] if isinstance(next(iter(references), ""), str) else references
    check_lengths([hypotheses, *streams], names or ("the translation", *(f"reference {n}" for n in range(1, len(streams) + 1))))
    _warn_of_tokens(hypotheses)
    _warn_of_script(streams[0], tgt_lang)
    ter = ter and _has_words_for_ter(tgt_lang) and not _too_long([hypotheses, *streams], tgt_lang)
    metrics = {"bleu": bleu_metric(tgt_lang), "chrf": CHRF()} | ({"ter": ter_metric(tgt_lang)} if ter else {})
    scores = {name: metric.corpus_score(hypotheses, streams) for name, metric in metrics.items()}
    return Report(
        bleu=scores["bleu"].score,
        chrf=scores["chrf"].score,
        ter=scores["ter"].score if ter else None,
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
        precisions=scores["bleu"].precisions,
        brevity_penalty=scores["bleu"].bp,
        length_ratio=scores["bleu"].ratio,
        sentences=len(hypotheses),
        empty=sum(map(is_blank, hypotheses)),
        unfinished=unfinished,
        perplexity=perplexity,
        seconds=seconds,
        precision=precision,
    )


def bleu_metric(tgt_lang: str, sentences: bool = False) -> BLEU:
    """BLEU with the tokenizer of the target language: over characters where it writes no spaces and sacreBLEU cannot find its words.

    For single `sentences` n-grams that are longer than a sentence do not count.

    Raises:
        ConfigError: that tokenizer is not installed.
    """
    lang = base_language(tgt_lang)
    tokenizer = BLEU_TOKENIZERS.get(lang, BLEU.TOKENIZER_DEFAULT if writes_spaces(lang) else "char")
    try:
        return BLEU(tokenize=tokenizer, force=True, effective_order=sentences)  # our own warning is one line
    except RuntimeError as error:
        raise ConfigError(f'BLEU for {tgt_lang!r} needs the tokenizer MeCab: pip install "sacrebleu[{lang}]"') from error


def ter_metric(tgt_lang: str) -> TER:
    """TER over words, or over characters where sacreBLEU's TER knows that a language writes no spaces."""
    asian = _is_asian(tgt_lang)
    return TER(normalized=asian, asian_support=asian)  # the second acts in normalisation alone


def _is_asian(tgt_lang: str) -> bool:
    return base_language(tgt_lang) in ("ja", "zh")


def _has_words_for_ter(tgt_lang: str) -> bool:
    """Whether sacreBLEU's TER knows what to count; where it does not, that is said."""
    if writes_spaces(tgt_lang) or _is_asian(tgt_lang):
        return True
    log.warning("no TER: sacreBLEU's counts words, and %s writes no spaces between them", tgt_lang)
    return False


def _too_long(texts: Sequence[Sequence[str]], tgt_lang: str) -> bool:
    """Whether a line is too long for TER, which is then said."""
    for text in texts:
        for number, line in enumerate(text, start=1):
            if (words := len(line if _is_asian(tgt_lang) else line.split())) > LONGEST:
                log.warning("no TER: line %d has %s words, and more than %s take it hours", number, f"{words:,}", f"{LONGEST:,}")
                return True
    return False


def check_lengths(texts: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """See that all texts have the same number of lines, and any.

    Raises:
        DataError: they do not; the message names the first two that differ, their counts, and a line that may be the cause.
    """
    first = texts[0]
    for text, name in zip(texts, names, strict=True):
        if len(text) != len(first):
            both = ((first, names[0]), (text, name))
            hint = next((hint for lines, where in both if (hint := _suspicious_line(lines, where))), "")
            raise DataError(f"{names[0]} has {len(first):,} lines but {name} has {len(text):,}; they must match line by line{hint}")
    if not first:
        raise DataError(f"{names[0]} is empty: there is nothing to score")


def _suspicious_line(lines: Sequence[str], name: str) -> str:
    for number, line in enumerate(lines, start=1):
        for character in line:
            if character in OTHER_SEPARATORS:
                return f"; line {number} of {name} holds U+{ord(character):04X}, which some programs take for the end of a line"
    return ""


def _warn_of_tokens(hypotheses: Sequence[str]) -> None:
    """Scores of tokenised text look like those of text, and are higher."""
    count = sum(hypothesis.endswith(" .") for hypothesis in hypotheses)
    if count >= max(10, len(hypotheses) / 10):
        log.warning("%d of %d translations end in ' .': BLEU of tokenised text cannot be compared with other BLEU", count, len(hypotheses))


def _warn_of_script(references: Sequence[str], tgt_lang: str) -> None:
    """Text without spaces that is scored by words has a BLEU of about 0, however good it is."""
    script = main_script(references[:1000]) if writes_spaces(tgt_lang) else ""
    if script in SPACELESS and script not in scripts(tgt_lang):
        advice = f"give the language of the translations, such as tgt_lang={SPACELESS[script]}"
        log.warning("most letters of the references are %s, but tgt_lang=%s writes spaces: BLEU says nothing; %s", script, tgt_lang, advice)


def test_set(name: str, src_lang: str, tgt_lang: str) -> tuple[list[str], list[list[str]]]:
    """Sources and the one or several lists of references of a test set that sacreBLEU knows, fetched once into $SACREBLEU.

    Args:
        name: such as "wmt14/full"; `sacrebleu --list` shows all of them.
        src_lang, tgt_lang: two-letter codes.

    Raises:
        DataError: there is no such test set or language pair, or it cannot be fetched.
    """
    if name not in DATASETS:
        close = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(DATASETS)}"
        raise DataError(f"sacreBLEU has no test set {name!r}; {hint}")
    dataset: Any = DATASETS[name]
    pair = f"{src_lang}-{tgt_lang}"
    if pair not in dataset.langpairs:
        raise DataError(f"test set {name} has no language pair {pair}; it has {', '.join(dataset.langpairs)}")
    try:
        files = _fetch(dataset, pair)
    except (Exception, SystemExit) as error:  # sacreBLEU raises plain Exceptions, and exits where a checksum differs
        reason = " ".join(str(getattr(error, "reason", None) or error).split())
        raise DataError(f"cannot fetch test set {name} from {dataset.data[0]} into {SACREBLEU_DIR}: {reason}") from error
    sources, *references = (list(read_lines(file)) for file in files)
    return sources, references


def _fetch(dataset: Any, pair: str) -> list[Path]:
    """The files of the sources and of each list of references, under the names that sacreBLEU gives them; downloaded if not there."""
    folder = Path(SACREBLEU_DIR, dataset.name)
    files = sorted(folder.glob(f"*.{pair}.src")) + sorted(folder.glob(f"*.{pair}.ref*"))
    if len(files) > 1:
        return files
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(CONNECT_SECONDS)
    try:
        connect(dataset.data[0], CONNECT_SECONDS)
        return [Path(file) for file in (dataset.get_source_file(pair), *dataset.get_reference_files(pair))]
    finally:
        socket.setdefaulttimeout(patience)
