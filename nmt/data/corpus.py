"""Raw text: lines of a file or stream, and aligned pairs of lines from files side by side, .tsv, .jsonl or a data set of splits."""

import bz2
import difflib
import gzip
import itertools
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from nmt.config import DataConfig
from nmt.data import hub
from nmt.errors import ConfigError, DataError

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BOM = b"\xef\xbb\xbf"
MAGIC = (
    ("gzip", b"\x1f\x8b", 0),
    ("bzip2", b"1AY&SY", 4),
    ("xz", b"\xfd7zXZ\x00", 0),
    ("zip", b"PK\x03\x04", 0),
    ("zstd", b"\x28\xb5\x2f\xfd", 0),
)
# What str.splitlines() and text-mode reading take for the end of a line, and we do not.
OTHER_SEPARATORS = "\r\u2028\u2029\x85\x0b\x0c"


def read_lines(source: str | Path | BinaryIO, name: str | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file (plain, .gz, .bz2 or .xz) or binary stream, each as soon as it is there.

    Only "\\n" ends a line, "\\r\\n" loses its one "\\r", a byte order mark at the start is dropped, and a last line counts without its
    "\\n". Control characters are text.

    Args:
        source: a path, or a binary stream such as `sys.stdin.buffer`, which is left open.
        name: what errors call the source; by default its path, or "stdin".

    Raises:
        DataError: the file is missing, a folder, unreadable, cut off, compressed under a plain name, UTF-16, or not UTF-8.
    """
    if not isinstance(source, str | Path):
        yield from _decoded(source, name or "stdin")
        return
    path = Path(source)
    opener = OPENERS.get(path.suffix, open)
    try:
        with cast(BinaryIO, opener(path, "rb")) as stream:
            yield from _decoded(stream, name or str(path))
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        _refuse(path, name or str(path), error)


def _decoded(stream: BinaryIO, name: str) -> Iterator[str]:
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            _check_start(raw, name)
            raw = raw.removeprefix(BOM)
        if raw.endswith(b"\n"):
            raw = raw[:-1].removesuffix(b"\r")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}, byte {error.start + 1} of the line: 0x{raw[error.start]:02x} is not valid UTF-8; "
                "convert the file to UTF-8, for example with iconv"
            ) from error


def _check_start(raw: bytes, name: str) -> None:
    for kind, magic, offset in MAGIC:
        if raw.startswith(magic, offset):
            raise DataError(f"{name} holds {kind}-compressed bytes, not text: unpack it, or give it the ending of how it is packed")
    start = raw[:1000]
    fewer, more = sorted((start[0::2].count(0), start[1::2].count(0)))  # as many in both are NULs in a text
    wide = len(start) >= 4 and more >= 0.4 * len(start) and more - fewer >= 0.2 * len(start)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or wide:
        raise DataError(f"{name} is UTF-16 or UTF-32 text, not UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8")


def _refuse(path: Path, name: str, error: Exception) -> NoReturn:
    """Turn what went wrong with a file into one line."""
    if isinstance(error, FileNotFoundError):
        raise DataError(f"there is no file {name}{did_you_mean(path)}") from error
    if isinstance(error, IsADirectoryError):
        raise DataError(f"{name} is a folder, not a text file") from error
    if path.suffix in OPENERS and getattr(error, "errno", None) is None:
        raise DataError(f"{name} cannot be unpacked as {path.suffix}; it is cut off, damaged or of another format: {error}") from error
    raise DataError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error


def did_you_mean(path: Path) -> str:
    """The end of an error about a missing file: the most similar names of its folder, or that there is no such folder."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f" (there is no folder {path.parent})" if not path.parent.is_dir() else ""
    similar = difflib.get_close_matches(path.name, names, n=3)
    return f"; did you mean {' or '.join(str(path.parent / name) for name in similar)}?" if similar else ""


def find_files(items: Sequence[str | Sequence[str]], data: DataConfig) -> list[tuple[Path, ...]]:
    """The files of each item of data.train, data.valid or data.test: one (.tsv, .jsonl) or two (source, target).

    An item is a prefix (PREFIX.src_lang and PREFIX.tgt_lang, the plain files before the packed ones), the path of a .tsv or .jsonl
    file, or a pair of paths; every file may be packed as .gz, .bz2 or .xz. Where data.path is set, an item is a split, which has the
    files of `hub.split_files`: any number in a local folder, none on the hub.

    Raises:
        ConfigError: an item is none of these.
        DataError: a file or a split does not exist, or a file is a folder.
    """
    if data.path is not None:
        return [hub.split_files(item, data) for item in items]  # type: ignore[arg-type]
    return [_files_of(item, data) for item in items]


def absolute(data: DataConfig) -> DataConfig:
    """The same configuration with every text file or folder as an absolute path, so that a checkpoint finds its data from anywhere."""

    def resolved(item: Any) -> Any:
        if isinstance(item, str) and item:
            return str(Path(item).expanduser().absolute())
        return [resolved(path) for path in item] if isinstance(item, list | tuple) else item

    if data.path is not None:
        folder = hub.local_folder(data)
        return replace(data, path=str(folder)) if folder else data
    return replace(data, train=resolved(data.train), valid=resolved(data.valid), test=resolved(data.test))


def _files_of(item: str | Sequence[str], data: DataConfig) -> tuple[Path, ...]:
    if isinstance(item, str) and item and _format(Path(item)) is not None:
        files: tuple[Path, ...] = (Path(item).expanduser(),)
    elif isinstance(item, str) and item:
        files = (_side(item, data.src_lang), _side(item, data.tgt_lang))
    elif isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(path, str) and path for path in item):
        files = (Path(item[0]).expanduser(), Path(item[1]).expanduser())
    else:
        raise ConfigError(
            f"{item!r} in data.train, data.valid or data.test: an item is a prefix, a .tsv or .jsonl file, or a pair [src_file, tgt_file]"
        )
    for path in files:
        if not path.exists():
            raise DataError(f"there is no file {path}{did_you_mean(path)}")
        if path.is_dir():
            raise DataError(f"{path} is a folder, not a text file")
    return files


def _side(prefix: str, lang: str) -> Path:
    plain = Path(f"{prefix}.{lang}").expanduser()
    candidates = [plain, *(plain.with_name(plain.name + ending) for ending in OPENERS)]
    found = next((path for path in candidates if path.exists()), None)
    if found is None:
        if Path(prefix).expanduser().is_dir():
            raise DataError(f"{prefix} is a folder: give the prefix of the files in it, such as {Path(prefix) / 'train'}")
        if Path(prefix).expanduser().is_file():
            raise DataError(f"{prefix} is a file, but neither .tsv nor .jsonl: give a pair [src_file, tgt_file], or the prefix of {plain}")
        others = ", ".join(path.name for path in candidates[1:])
        raise DataError(f"there is no file {plain} (nor {others}) for the prefix {prefix}{did_you_mean(plain)}")
    return found


def _format(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if path.suffix in OPENERS else path.suffix
    return suffix if suffix in (".tsv", ".jsonl") else None


def read_pairs(items: Sequence[str | Sequence[str]], data: DataConfig) -> Iterator[tuple[str, str]]:
    """Yield the (source, target) lines of every item, one after the other; see `find_files` for what an item is.

    In a .tsv file, data.src_field and data.tgt_field are column numbers from 1, or names from a header line; null means columns 1 and 2.
    In the rows of a .jsonl file or of a data set (data.path) they are keys, dotted where objects are nested ("translation.en"); null
    means the keys src_lang and tgt_lang. Where data.field is set, both are looked for inside of that key.

    Raises:
        ConfigError: an item or a field is of no known kind.
        DataError: a file is unreadable (see `read_lines`) or empty, two files differ in length, or a field is missing or not one line;
            a data set cannot be had (see `hub.rows`).
    """
    if data.path is not None:
        sources = [(f"data.path={data.path}, split {item}", _split(item, data)) for item in items]  # type: ignore[arg-type]
    else:
        sources = [(" and ".join(map(str, files)), _pairs_of(files, data)) for files in find_files(items, data)]
    for name, pairs in sources:
        pair = None
        for pair in pairs:
            yield pair
        if pair is None:
            raise DataError(f"{name}: there is no line of text")


def _split(split: str, data: DataConfig) -> Iterator[tuple[str, str]]:
    src_key, tgt_key = _keys(data)
    for number, row in enumerate(hub.rows(split, data), start=1):
        where = f"data.path={data.path}, split {split}, row {number}"
        yield _value(row, src_key, where), _value(row, tgt_key, where)


def _pairs_of(files: tuple[Path, ...], data: DataConfig) -> Iterator[tuple[str, str]]:
    if len(files) == 2:
        return _side_by_side(files[0], files[1])
    return _tsv(files[0], data) if _format(files[0]) == ".tsv" else _jsonl(files[0], data)


def _side_by_side(src_file: Path, tgt_file: Path) -> Iterator[tuple[str, str]]:
    for src, tgt in itertools.zip_longest(read_lines(src_file), read_lines(tgt_file)):
        if src is None or tgt is None:
            raise _different_lengths(src_file, tgt_file)
        yield src, tgt


def _different_lengths(src_file: Path, tgt_file: Path) -> DataError:
    counts, hint = [], ""
    for path in (src_file, tgt_file):
        count = 0
        for count, line in enumerate(read_lines(path), start=1):
            if not hint and (found := next((char for char in OTHER_SEPARATORS if char in line), None)):
                hint = f"; line {count} of {path} holds U+{ord(found):04X}, which some programs take for the end of a line"
        counts.append(count)
    return DataError(f"{src_file} has {counts[0]:,} lines but {tgt_file} has {counts[1]:,}; they must match line by line{hint}")


def _tsv(path: Path, data: DataConfig) -> Iterator[tuple[str, str]]:
    if data.field is not None:
        raise ConfigError(
            f"data.field={data.field}: the rows of {path} have no keys; name its columns by data.src_field and data.tgt_field"
        )
    fields = (data.src_field if data.src_field is not None else 1, data.tgt_field if data.tgt_field is not None else 2)
    rows = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1))
    header = next(rows, (1, []))[1] if any(isinstance(field, str) for field in fields) else []
    src, tgt = (_column(field, header, path) for field in fields)
    for number, row in rows:
        if len(row) <= max(src, tgt):
            raise DataError(f"{path}, line {number}: there is no column {max(src, tgt) + 1}, the line has {len(row)} (columns end at tabs)")
        yield row[src], row[tgt]


def _column(field: str | int, header: list[str], path: Path) -> int:
    if isinstance(field, int):
        if field < 1:
            raise ConfigError(f"data.src_field or data.tgt_field is {field}: the columns of a .tsv file are counted from 1")
        return field - 1
    if field not in header:
        raise DataError(f"{path}, line 1: there is no column {field!r} in the header, which names {', '.join(map(repr, header))}")
    return header.index(field)


def _jsonl(path: Path, data: DataConfig) -> Iterator[tuple[str, str]]:
    src_key, tgt_key = _keys(data)
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON: {error}") from error
        yield _value(row, src_key, where), _value(row, tgt_key, where)


def _keys(data: DataConfig) -> tuple[str, str]:
    inside = "" if data.field is None else f"{data.field}."
    src = data.src_lang if data.src_field is None else data.src_field
    tgt = data.tgt_lang if data.tgt_field is None else data.tgt_field
    return f"{inside}{src}", f"{inside}{tgt}"


def _value(row: Any, key: str, where: str) -> str:
    value = row
    for part in [key] if isinstance(row, dict) and key in row else key.split("."):
        if not isinstance(value, dict) or part not in value:
            others = f", but {', '.join(map(repr, value))[:200]}" if isinstance(value, dict) and value else ""
            raise DataError(f"{where}: there is no key {key!r}{others}; name the keys by data.field, data.src_field and data.tgt_field")
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{where}: the value of {key!r} is {json.dumps(value, default=str)[:50]}, not a string")
    if "\n" in value:
        raise DataError(f"{where}: the text of {key!r} holds a newline; a text must be one line")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: the text of {key!r} holds half of a surrogate pair, which is not Unicode text") from error
    return value
