"""Aligned pairs of lines: from files side by side, .tsv, .jsonl or a data set of splits."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config import DataConfig
from nmt.data import hub
from nmt.data.lines import OPENERS, OTHER_SEPARATORS, did_you_mean, line_content, raw_lines, read_lines
from nmt.errors import ConfigError, DataError

Row = tuple[int, str | None, str | None]
Lines = Callable[[Path], Iterator[str]]
Refuse = Callable[[DataError], None]


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


def _raise(error: DataError) -> None:
    raise error


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
    for names, rows in sources(items, data):
        empty = True
        for _, src, tgt in rows:
            empty = False
            if src is not None and tgt is not None:  # otherwise an error follows
                yield src, tgt
        if empty:
            raise nothing_in(names)


def sources(
    items: Sequence[str | Sequence[str]], data: DataConfig, lines: Lines = read_lines, refuse: Refuse = _raise
) -> Iterator[tuple[tuple[str, ...], Iterator[Row]]]:
    """Yield what each item is read from (two files, or one, or a split) and its rows: a number from 1, the source, the target.

    Args:
        items: see `find_files`.
        data: see `read_pairs`.
        lines: reads a file.
        refuse: is given the error of each row that is none, and of files of different lengths. Where it returns, reading goes on: without
            the row, and with None for the lines that the shorter file lacks.

    Raises:
        ConfigError, DataError: as `read_pairs`, but that an empty item is no error.
    """
    if data.path is not None:
        for split in items:
            name = f"data.path={data.path}, split {split}"
            rows = enumerate(hub.rows(split, data), start=1)  # type: ignore[arg-type]
            yield (name,), _parsed(rows, functools.partial(_texts, keys=_keys(data), name=f"{name}, row"), refuse)
        return
    for files in find_files(items, data):
        yield tuple(map(str, files)), _rows_of(files, data, lines, refuse)


def nothing_in(names: Sequence[str]) -> DataError:
    """The error about an item without a row."""
    return DataError(f"{' and '.join(names)}: there is no line of text")


def _rows_of(files: tuple[Path, ...], data: DataConfig, lines: Lines, refuse: Refuse) -> Iterator[Row]:
    if len(files) == 2:
        yield from _side_by_side(files[0], files[1], lines, refuse)
        return
    path, numbered = files[0], enumerate(lines(files[0]), start=1)
    if _format(path) == ".tsv":
        yield from _parsed(numbered, functools.partial(_cells, columns=_columns(numbered, path, data), path=path), refuse)
    else:
        yield from _parsed(numbered, functools.partial(_json_texts, keys=_keys(data), name=f"{path}, line"), refuse)


def _parsed(numbered: Iterator[tuple[int, Any]], parse: Callable[[int, Any], tuple[str, str]], refuse: Refuse) -> Iterator[Row]:
    for number, row in numbered:
        try:
            src, tgt = parse(number, row)
        except DataError as error:
            refuse(error)
        else:
            yield number, src, tgt


def _side_by_side(src_file: Path, tgt_file: Path, lines: Lines, refuse: Refuse) -> Iterator[Row]:
    number, shorter = 0, 0
    for number, (src, tgt) in enumerate(itertools.zip_longest(lines(src_file), lines(tgt_file)), start=1):
        yield number, src, tgt
        shorter += src is not None and tgt is not None
    if shorter < number:
        src_lines, tgt_lines = (shorter, number) if src is None else (number, shorter)
        counts = f"{src_file} has {src_lines:,} lines but {tgt_file} has {tgt_lines:,}"
        refuse(DataError(f"{counts}; they must match line by line{_separator_hint(src_file) or _separator_hint(tgt_file)}"))


def _separator_hint(path: Path) -> str:
    """The end of an error: the first line that other programs take for several."""
    separators = [(ord(char), char.encode()) for char in OTHER_SEPARATORS]
    for number, raw in enumerate(raw_lines(path, str(path)) if path.is_file() else (), start=1):
        if found := next((code for code, char in separators if char in line_content(raw, number)), None):
            return f"; line {number} of {path} holds U+{found:04X}, which some programs take for the end of a line"
    return ""


def _columns(numbered: Iterator[tuple[int, str]], path: Path, data: DataConfig) -> tuple[int, int]:
    """The columns of source and target from 0; takes the header off where there is one."""
    if data.field is not None:
        raise ConfigError(
            f"data.field={data.field}: the rows of {path} have no keys; name its columns by data.src_field and data.tgt_field"
        )
    fields = (data.src_field if data.src_field is not None else 1, data.tgt_field if data.tgt_field is not None else 2)
    header = next(numbered, (1, ""))[1].split("\t") if any(isinstance(field, str) for field in fields) else []
    return _column(fields[0], header, path), _column(fields[1], header, path)


def _cells(number: int, line: str, columns: tuple[int, int], path: Path) -> tuple[str, str]:
    cells, last = line.split("\t"), max(columns)
    if len(cells) <= last:
        raise DataError(f"{path}, line {number}: there is no column {last + 1}, the line has {len(cells)} (columns end at tabs)")
    return cells[columns[0]], cells[columns[1]]


def _column(field: str | int, header: list[str], path: Path) -> int:
    if isinstance(field, int):
        if field < 1:
            raise ConfigError(f"data.src_field or data.tgt_field is {field}: the columns of a .tsv file are counted from 1")
        return field - 1
    if field not in header:
        raise DataError(f"{path}, line 1: there is no column {field!r} in the header, which names {', '.join(map(repr, header))}")
    return header.index(field)


def _json_texts(number: int, line: str, keys: tuple[str, str], name: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} {number} is not JSON: {error}") from error
    return _texts(number, row, keys, name)


def _texts(number: int, row: Any, keys: tuple[str, str], name: str) -> tuple[str, str]:
    src, tgt = (_value(row, key, f"{name} {number}") for key in keys)
    return src, tgt


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
