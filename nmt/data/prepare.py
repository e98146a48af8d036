"""From text files to a prepared corpus: read, check, clean, learn subwords, store ids; once, and whole or not at all."""

import hashlib
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from nmt.config import DataConfig, PrepareConfig, TokenizerConfig
from nmt.data import hub
from nmt.data.corpus import absolute, find_files, read_pairs
from nmt.data.dataset import PairWriter, PreparedCorpus, read_manifest, write_manifest, write_tokenizers, write_valid
from nmt.data.filters import FilterCounts, Overlap, TextFilter, fits, nothing_left, processed_warnings
from nmt.data.scan import TextScan
from nmt.errors import ConfigError, DataError
from nmt.files import locked
from nmt.tokenizer import Tokenizer, sample, train_tokenizers

CHUNK_PAIRS = 10_000
CHECKED_LINES = 100_000  # of the sample, for signs of tokenised text

Kept = NDArray[np.bool_]
TextPairs = list[tuple[str, str]]
Tokenizers = tuple[Tokenizer, Tokenizer]  # of source and target
Inputs = dict[str, list[dict[str, Any]]]  # for each split the path, size, mtime_ns and, once read, sha256 of its files


def prepare(config: PrepareConfig, tokenizers: Tokenizers | None = None) -> PreparedCorpus:
    """Prepare a corpus, or open it where nothing changed since it was prepared.

    It lies in data.folder/data.name/<tokenizer type>-<vocab_size>-<hash of the configuration>. All is written to a folder beside it that
    is renamed at the end, so that what a killed run leaves is never taken for a corpus; of several processes one prepares, and the others
    wait. The counts of the filters and all warnings go to stderr.

    Args:
        config: where the text is, what is dropped, and how pieces are learned.
        tokenizers: of source and target, to cut the text with in place of such as are learned from it.

    Raises:
        ConfigError: data.name is no folder name, data.train or data.valid is empty, or the vocabulary does not suit the text.
        DataError: a file is missing, is not text, is empty or not aligned; every pair was filtered; or the folder cannot be written.
    """
    folder = prepared_folder(config, tokenizers)
    splits = {"train": config.data.train, "valid": config.data.valid, "test": config.data.test}
    inputs = {split: [_stat(path) for files in find_files(items, config.data) for path in files] for split, items in splits.items()}
    if (corpus := _unchanged(folder, config, tokenizers, inputs)) is not None:
        return corpus
    for items in splits.values():
        next(read_pairs(items, config.data), None)  # so that a split that cannot be had leaves no folder behind
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent, lambda: print(f"waiting for another process that prepares data in {folder.parent}", file=sys.stderr)):
            if (corpus := _unchanged(folder, config, tokenizers, inputs)) is not None:
                return corpus
            with _replacing(folder) as temporary:
                _write(temporary, config, tokenizers, inputs)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}; give another data.folder=") from error
    return PreparedCorpus.open(folder)


def prepared_folder(config: PrepareConfig, tokenizers: Tokenizers | None = None) -> Path:
    """Where a configuration's prepared corpus lies; raises ConfigError where data.name is no folder name or data has no text."""
    data = config.data
    if data.name in ("", ".", "..") or any(char in data.name for char in "/\\\0") or len(os.fsencode(data.name)) > 200:
        raise ConfigError(f"data.name={data.name!r} is no folder name: it may not be empty, . or .., hold a slash, or be very long")
    for key, items in (("train", data.train), ("valid", data.valid)):
        if not items:
            raise ConfigError(f"data.{key} is empty: name at least one prefix, .tsv or .jsonl file, pair [src_file, tgt_file], or split")
    if data.path is None and (data.config is not None or data.revision is not None):
        raise ConfigError("data.config and data.revision belong to data.path=, which is not set: give data=hub data.path=…")
    digest = hashlib.sha256(json.dumps(_identity(config, tokenizers), ensure_ascii=False).encode(errors="surrogatepass")).hexdigest()
    return Path(data.folder).expanduser() / data.name / f"{config.tokenizer.type}-{config.tokenizer.vocab_size}-{digest[:8]}"


def _identity(config: PrepareConfig, tokenizers: Tokenizers | None) -> dict[str, Any]:
    """What decides on a prepared corpus apart from what is in its files."""
    data = {key: value for key, value in asdict(absolute(config.data)).items() if key not in ("name", "folder")}
    for split in ("train", "valid", "test") if config.data.path is None else ():
        files = find_files(data[split], config.data)
        data[split] = [[str(path.absolute()) for path in paths] for paths in files]
    pieces = [hashlib.sha256(tokenizer.model).hexdigest() for tokenizer in tokenizers] if tokenizers else asdict(config.tokenizer)
    return {"data": data, "filter": asdict(config.filter), "tokenizer": pieces}


def _stat(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(f"{path} is no regular file (a pipe, perhaps), and preparing reads it more than once: save the text first")
    stat = path.stat()
    return {"path": str(path.absolute()), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _sha256(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _unchanged(folder: Path, config: PrepareConfig, tokenizers: Tokenizers | None, inputs: Inputs) -> PreparedCorpus | None:
    """The corpus of the folder if it is whole and of the same configuration and inputs. Only files of another date are hashed."""
    try:
        corpus, manifest = PreparedCorpus.open(folder), read_manifest(folder)
    except DataError:
        return None
    if manifest["configuration"] != _identity(config, tokenizers):
        return None
    before = {file["path"]: file for files in manifest["inputs"].values() for file in files}
    now = {file["path"]: file for files in inputs.values() for file in files}
    touched = [path for path, file in now.items() if path not in before or file["mtime_ns"] != before[path]["mtime_ns"]]
    if before.keys() != now.keys() or any(file["size"] != before[path]["size"] for path, file in now.items()):
        return None
    if any(_sha256(path) != before[path]["sha256"] for path in touched):
        return None
    if touched:
        for files in manifest["inputs"].values():
            for file in files:
                file["mtime_ns"] = now[file["path"]]["mtime_ns"]
        write_manifest(folder, manifest)
    return corpus


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of `folder` at the end; under the lock, so whatever lies there from before is a leftover."""
    for leftover in folder.parent.glob(".*"):
        if leftover.suffix in (".part", ".old"):
            shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(folder.parent.stat().st_mode)
        old = temporary.with_suffix(".old")
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(folder: Path, config: PrepareConfig, given: Tokenizers | None, inputs: Inputs) -> None:
    data = config.data
    for file in itertools.chain(*inputs.values()):
        file["sha256"] = _sha256(file["path"])
    held_out = {split: list(read_pairs(items, data)) for split, items in (("valid", data.valid), ("test", data.test)) if items}
    text_filter, overlap, scan = TextFilter(config.filter), Overlap(held_out), TextScan(data.src_lang, data.tgt_lang)
    training = sample(_cleaned(data, text_filter, overlap, scan), config.tokenizer.sample_lines, config.tokenizer.seed)
    kept, counts = text_filter.finish()
    if not kept.any():
        raise nothing_left(counts)
    tokenizers = given or _learned(training, config.tokenizer)
    shifted = [f"train: the sides look shifted against each other: {shift}" for shift in scan.shifts()]
    warnings = shifted + overlap.warnings() + _processed({"train": training[:CHECKED_LINES], **held_out}, data)
    del training
    with PairWriter(folder, tokenizers[0].vocab_size, tokenizers[1].vocab_size) as writer:
        _encode(config, kept, counts, tokenizers, writer)
    if not writer.pairs:
        raise nothing_left(counts)
    write_tokenizers(folder, *tokenizers)
    write_valid(folder, held_out["valid"])
    statistics = writer.statistics() | {
        "valid_pairs": len(held_out["valid"]),
        "filtered": asdict(counts),
        "overlap": overlap.counts(),
        "warnings": warnings,
        "revision": hub.revision(data),
    }
    _refuse_changed(inputs)
    hashes = [file["sha256"] for file in inputs["train"]] or [_text_hash(data)]  # what is on the hub has no files here
    identity = _identity(config, given)
    manifest = {"digest": _digest(config, identity, hashes), "configuration": identity, "inputs": inputs, "statistics": statistics}
    write_manifest(folder, manifest)
    told = (counts.table(config.filter), f"odd lines of it: {scan.summary()}", *(f"warning: {warning}" for warning in warnings))
    print(*told, sep="\n", file=sys.stderr)


def _learned(training: TextPairs, config: TokenizerConfig) -> Tokenizers:
    print(f"learning {config.vocab_size:,} pieces from {len(training):,} pairs of lines", file=sys.stderr)
    return train_tokenizers((src for src, _ in training), (tgt for _, tgt in training), config)


def _cleaned(data: DataConfig, text_filter: TextFilter, overlap: Overlap, scan: TextScan) -> Iterator[tuple[str, str]]:
    pairs = tqdm(read_pairs(data.train, data), desc="reading", unit=" pairs", unit_scale=True, disable=None)
    for number, (src, tgt) in enumerate(pairs, start=1):
        scan.see(number, src, tgt)
        if text_filter.accept(src, tgt):
            overlap.see(src, tgt)
            yield src, tgt


def _encode(config: PrepareConfig, kept: Kept, counts: FilterCounts, tokenizers: Tokenizers, writer: PairWriter) -> None:
    numbered = zip(itertools.count(1), read_pairs(config.data.train, config.data), kept.tolist(), strict=False)
    cleaned = ((number, pair) for number, pair, keep in numbered if keep)
    with tqdm(total=int(kept.sum()), desc="encoding", unit=" pairs", unit_scale=True, disable=None) as progress:
        while chunk := list(itertools.islice(cleaned, CHUNK_PAIRS)):
            src, tgt = (tokenizer.encode([pair[side] for _, pair in chunk]) for side, tokenizer in enumerate(tokenizers))
            src_lengths, tgt_lengths = np.fromiter(map(len, src), np.int64), np.fromiter(map(len, tgt), np.int64)
            rows = np.flatnonzero(fits(src_lengths, tgt_lengths, config.filter, counts)).tolist()
            writer.add([src[i] for i in rows], [tgt[i] for i in rows], [chunk[i][0] for i in rows])
            progress.update(len(chunk))


def _processed(splits: dict[str, TextPairs], data: DataConfig) -> list[str]:
    return [
        warning
        for split, pairs in splits.items()
        for side, lang in enumerate((data.src_lang, data.tgt_lang))
        for warning in processed_warnings(f"{split}.{lang}", [pair[side] for pair in pairs])
    ]


def _refuse_changed(inputs: Inputs) -> None:
    for file in itertools.chain(*inputs.values()):
        if _stat(Path(file["path"])) != {key: file[key] for key in ("path", "size", "mtime_ns")}:
            raise DataError(f"{file['path']} was changed while it was being read: prepare again")


def _text_hash(data: DataConfig) -> str:
    sha = hashlib.sha256()
    for src, tgt in read_pairs(data.train, data):
        sha.update(f"{src}\n{tgt}\n".encode())
    return sha.hexdigest()


def _digest(config: PrepareConfig, identity: dict[str, Any], hashes: list[str]) -> str:
    """A hash of the training text and of all that decides on its ids, but not of where its files lie."""
    decides = {key: identity["data"][key] for key in ("src_lang", "tgt_lang", "src_field", "tgt_field")}
    if config.data.field is not None:
        decides["field"] = config.data.field
    if config.data.path is not None:
        decides["splits"] = config.data.train
    return hashlib.sha256(json.dumps([decides, identity["filter"], identity["tokenizer"], hashes]).encode()).hexdigest()
