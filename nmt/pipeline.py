"""The commands: what is read, built and written, in which order. Every part does its work elsewhere."""

import dataclasses
import functools
import itertools
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from tqdm import tqdm

from nmt.averaging import average_checkpoints
from nmt.checkpoint import Checkpoint, load_checkpoint, load_checkpoints, outline, save_checkpoint
from nmt.config import (
    AverageConfig,
    CheckDataConfig,
    DataConfig,
    DecodeConfig,
    EvaluateConfig,
    InfoConfig,
    MachineConfig,
    PrepareConfig,
    TranslateConfig,
)
from nmt.data.check import CorpusCheck, data_of, render
from nmt.data.corpus import absolute, find_files, read_pairs
from nmt.data.lines import OPENERS, ending, packing, read_lines
from nmt.data.prepare import prepare as prepare_corpus
from nmt.data.segments import numbered_chunks
from nmt.device import pick_dtype, prepare_machine
from nmt.errors import ConfigError, DataError, escaped
from nmt.evaluate import Report, check_lengths, test_set
from nmt.evaluate import evaluate as score
from nmt.files import make_folder, same_file, streaming, writing
from nmt.pictures import draw_each
from nmt.schema import load
from nmt.training import described
from nmt.training import train as train
from nmt.training import verify_resume as verify_resume
from nmt.translation import Translation, to_json
from nmt.translator import Translator
from nmt.validation import batch_pairs, mean_loss
from nmt.workers import sharing

log = logging.getLogger(__name__)
SHARED_BATCHES = 4  # how many batches of lines a process takes at once: more sort better by length, fewer are shared out more evenly


def check_data(config: CheckDataConfig) -> int:
    """`nmt check-data`: a report to stdout; returns the exit code, 1 for text that `prepare` would refuse or whose sides look shifted."""
    report = CorpusCheck(data_of(config), config.filter).report()
    print(json.dumps(report, ensure_ascii=False) if config.json else render(report))
    return int(report["verdict"] != "fine")


def prepare(config: PrepareConfig) -> None:
    """`nmt prepare`."""
    corpus = prepare_corpus(dataclasses.replace(config, data=absolute(config.data)))
    log.info("%s: %s", corpus.folder, described(corpus))


def evaluate(config: EvaluateConfig) -> None:
    """`nmt evaluate`: a table to stdout, and JSON and the translations where `output` says."""
    outputs = _evaluate_outputs(config)
    _spare([config.hyp, config.src, *(config.ref or ()), *(config.checkpoint or ())], outputs)
    with ExitStack() as stack:
        files = [stack.enter_context(writing(path)) for path in outputs]
        report, hypotheses = _score_existing(config) if config.hyp else _score_model(config)
        texts = (json.dumps(report.to_dict(), ensure_ascii=False, indent=1) + "\n", "".join(f"{line}\n" for line in hypotheses))
        for file, text in zip(files, texts, strict=False):
            file.write(text.encode())
    print(report.table())


def translate(config: TranslateConfig) -> None:
    """`nmt translate`: a file or standard input to a file or standard output, line by line."""
    if config.nbest > 1 and config.format == "text":
        raise ConfigError(f"nbest={config.nbest} needs format=jsonl: a text line holds one translation")
    if config.workers > 1 and config.attention:
        raise ConfigError(f"workers={config.workers}: the pictures of attention= are drawn by one process; leave one of the two out")
    if config.stream and Path(config.output or "").suffix in (".bz2", ".xz"):
        raise ConfigError(f"stream=true: {config.output} would be packed in blocks of many lines; .gz can be followed, and a plain file")
    _spare([config.input or "/dev/stdin", *config.checkpoint], [config.output] if config.output else [])
    lines = _begun(read_lines(config.input)) if config.input else read_lines(_standard(sys.stdin, "input"))
    pictures = make_folder(config.attention, "give another attention=") if config.attention else None
    with _output(config) as out:
        checkpoints = load_checkpoints(config.checkpoint)
        if config.workers > 1:
            rows = _shared_rows(config, checkpoints, lines)
        else:
            translations = _translator(checkpoints, config.decode, config.run).hypotheses(lines, config.nbest)
            if pictures:
                translations = draw_each(translations, pictures, config.attention_format)
            rows = (_row(translation, config.format) for translation in translations)
        with closing(rows):
            for row in tqdm(rows, total=_count(config.input), unit="line", desc="translate", disable=None):
                out.write(row.encode())
                if config.stream or not config.output:
                    out.flush()


def average(config: AverageConfig) -> None:
    """`nmt average`: one checkpoint of the mean weights of several."""
    mean = average_checkpoints(config.checkpoints)
    _spare(config.checkpoints, [config.output])
    save_checkpoint(config.output, mean)
    log.info("%s is the mean of %d checkpoints", config.output, len(config.checkpoints))


def info(config: InfoConfig) -> None:
    """`nmt info`: what a checkpoint is, on stdout."""
    print(*map(escaped, [f"checkpoint: {config.checkpoint}", *outline(load_checkpoint(config.checkpoint))]), sep="\n")


def _evaluate_outputs(config: EvaluateConfig) -> list[Path]:
    """The file of the scores and, where there are new translations, the one for them."""
    if not config.output:
        return []
    path = Path(config.output)
    if not path.name:
        raise ConfigError(f"output={config.output} is a folder: name a .json file")
    if path.suffix == ".hyp":
        raise ConfigError(f"output={config.output}: the translations are written to a .hyp file beside it; name a .json file")
    if path.suffix in OPENERS:
        raise ConfigError(f"output={config.output}: the scores are not packed; name a .json file")
    return [path] if config.hyp else [path, path.with_suffix(".hyp")]


def _spare(read: Iterable[str | Path | None], written: Iterable[str | Path]) -> None:
    """Raise ConfigError where a file that is read would be replaced."""
    for path, output in itertools.product(read, written):
        if path and same_file(output, path):
            raise ConfigError(f"{output} would be written over {path}, which is read: give another output=")


def _score_existing(config: EvaluateConfig) -> tuple[Report, list[str]]:
    """Score the lines of `hyp` against `ref`."""
    if not config.hyp or not config.ref or config.checkpoint or config.split or config.src or config.testset:
        raise ConfigError("hyp= needs ref=, and neither checkpoint=, split=, src= nor testset=")
    hypotheses = list(read_lines(config.hyp))
    references = [list(read_lines(path)) for path in config.ref]
    lang = config.tgt_lang or ending(config.ref[0])
    return score(hypotheses, references, lang, names=(config.hyp, *config.ref)), hypotheses


def _score_model(config: EvaluateConfig) -> tuple[Report, list[str]]:
    """Translate a test set with a checkpoint, or an ensemble of them, and score the translations."""
    if not config.checkpoint:
        raise ConfigError("evaluate needs checkpoint=, or hyp= and ref= to score an existing translation")
    chosen = [name for name in ("split", "src", "testset") if getattr(config, name)]
    if len(chosen) != 1 or bool(config.src) != bool(config.ref):
        raise ConfigError("what shall be evaluated? Give one of split=test, src= with ref=, or testset=")
    checkpoints = load_checkpoints(config.checkpoint)
    trained = checkpoints[0].config
    sources, references, lang = _test_data(config, config.data or trained.data)
    translator = _translator(checkpoints, config.decode, config.run)
    dtype = pick_dtype(translator.decode.precision, translator.device)
    began = time.monotonic()
    translations = list(tqdm(translator.hypotheses(sources), total=len(sources), unit="line", desc="translate", disable=None))
    seconds = time.monotonic() - began
    pairs = list(zip(sources, references[0], strict=True))
    batches = list(batch_pairs(pairs, translator.src_tokenizer, translator.tgt_tokenizer, trained.batches.max_tokens))
    hypotheses = [translation.text for translation in translations]
    report = score(
        hypotheses,
        references,
        lang,
        unfinished=sum(not translation.finished for translation in translations),
        perplexity=None if len(checkpoints) > 1 or not batches else math.exp(min(mean_loss(translator.models[0], batches, dtype), 100.0)),
        seconds=seconds,
        precision=str(dtype).removeprefix("torch."),
    )
    return report, hypotheses


def _test_data(config: EvaluateConfig, data: DataConfig) -> tuple[list[str], list[list[str]], str]:
    """Sources, one or several references of each, and the target language; the sides are of equal length."""
    src_lang, tgt_lang = config.src_lang or data.src_lang, config.tgt_lang or data.tgt_lang
    if config.testset:
        sources, references = test_set(config.testset, src_lang, tgt_lang)
        return sources, references, tgt_lang
    if config.split:
        items = data.test if config.split == "test" else data.valid
        if not items:
            raise ConfigError(f"split={config.split}: data.{config.split}=[] of {data.name} names no text; give src= and ref=")
        files = [] if data.path else find_files(items, data)
        _spare([path for paths in files for path in paths], _evaluate_outputs(config))
        sources, reference = map(list, zip(*read_pairs(items, data), strict=True))
        return sources, [reference], tgt_lang
    assert config.src and config.ref
    texts = [list(read_lines(path)) for path in (config.src, *config.ref)]
    check_lengths(texts, (config.src, *config.ref))
    return texts[0], texts[1:], tgt_lang


def _translator(checkpoints: Sequence[Checkpoint], decode: dict[str, Any], run: MachineConfig) -> Translator:
    """The checkpoints' models, with the first one's decoding settings but for those that are given."""
    return Translator.of(checkpoints, prepare_machine(run), _decode_config(checkpoints[0], decode))


def _decode_config(checkpoint: Checkpoint, decode: dict[str, Any]) -> DecodeConfig:
    given = {name: value for name, value in decode.items() if value is not None}
    return load(DecodeConfig, dataclasses.asdict(checkpoint.config.decode) | given, "decode.")


def _shared_rows(config: TranslateConfig, checkpoints: Sequence[Checkpoint], lines: Iterator[str]) -> Generator[str, None, None]:
    """Rows of output from several processes, in the order of the lines, a chunk of them at a time."""
    size = _decode_config(checkpoints[0], config.decode).batch_size
    chunks = numbered_chunks(lines, size, SHARED_BATCHES * size)
    with sharing(config.workers, functools.partial(_row_maker, config)) as share:
        for rows in share(chunks):
            yield from rows


def _row_maker(config: TranslateConfig) -> Callable[[Sequence[tuple[int, str]]], list[str]]:
    """What one of several processes does with numbered lines."""
    run = dataclasses.replace(config.run, threads=config.run.threads or 1)
    translator = _translator(load_checkpoints(config.checkpoint), config.decode, run)
    return lambda lines: [_row(translation, config.format) for translation in translator.translate_chunk(lines, config.nbest)]


def _row(translation: Translation, form: str) -> str:
    return (json.dumps(to_json(translation), ensure_ascii=False) if form == "jsonl" else translation.text) + "\n"


def _count(path: str | None) -> int | None:
    """How many lines there are to be done, for the progress bar; None where it does not show, or they cannot be read twice."""
    return sum(1 for _ in read_lines(path)) if path and Path(path).is_file() and sys.stderr.isatty() else None


def _begun(lines: Iterator[str]) -> Iterator[str]:
    """The same lines, the first of them read: a file that is missing or is no text is found out before the model is loaded."""
    first = list(itertools.islice(lines, 1))
    return itertools.chain(first, lines)


def _output(config: TranslateConfig) -> AbstractContextManager[BinaryIO]:
    if config.output is None:
        return nullcontext(_standard(sys.stdout, "output"))
    return packing((streaming if config.stream else writing)(config.output), config.output)


def _standard(stream: TextIO | None, name: str) -> BinaryIO:
    """The bytes of standard input or output, which a shell may have closed."""
    if stream is None:
        raise DataError(f"standard {name} is closed: give {name}=FILE")
    return stream.buffer
