"""The lines of a file or stream: packed or not, UTF-8, ended by "\\n" alone; and what is said where they are not to be had."""

import bz2
import difflib
import gzip
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from nmt.errors import DataError

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
    name = name or (str(source) if isinstance(source, str | Path) else "stdin")
    for number, raw in enumerate(raw_lines(source, name), start=1):
        yield decode_line(raw, number, name)


def raw_lines(source: str | Path | BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the unpacked lines of a file or binary stream, with all that `decode_line` takes off.

    Raises:
        DataError: as `read_lines`, but for lines that are not UTF-8.
    """
    if not isinstance(source, str | Path):
        try:
            yield from _checked(source, name)
        except OSError as error:
            raise DataError(f"cannot read {name}: {error.strerror or error}") from error
        return
    path = Path(source)
    opener = OPENERS.get(path.suffix, open)
    try:
        with cast(BinaryIO, opener(path, "rb")) as stream:
            yield from _checked(stream, name)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        _refuse(path, name, error)


def decode_line(raw: bytes, number: int, name: str) -> str:
    """The text of one raw line.

    Args:
        raw: the bytes, with the end of the line.
        number: the line's, from 1.
        name: what errors call the source.

    Raises:
        DataError: the line is not UTF-8.
    """
    try:
        return line_content(raw, number).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}, byte {error.start + 1} of the line: 0x{error.object[error.start]:02x} is not valid UTF-8; "
            "convert the file to UTF-8, for example with iconv"
        ) from error


def line_content(raw: bytes, number: int) -> bytes:
    """A raw line without its end and, where it is the first, without a byte order mark."""
    if number == 1:
        raw = raw.removeprefix(BOM)
    return raw[:-1].removesuffix(b"\r") if raw.endswith(b"\n") else raw


def _checked(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a stream whose first one looks like text."""
    for first in itertools.islice(stream, 1):
        _check_start(first, name)
        yield first
    yield from stream


def _check_start(raw: bytes, name: str) -> None:
    for kind, magic, offset in MAGIC:
        if raw.startswith(magic, offset):
            raise DataError(f"{name} holds {kind}-compressed bytes, not text: unpack it, or give it the ending of how it is packed")
    start = raw[:1000]
    fewer, more = sorted((start[0::2].count(0), start[1::2].count(0)))  # as many in both are NULs in a text
    letters = sum(chr(byte).isalnum() for byte in start)  # fewer than three of them with NULs between may be a text's own
    wide = letters > 2 and more >= 0.4 * len(start) and more - fewer >= 0.2 * len(start)
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


@contextmanager
def packing(file: AbstractContextManager[BinaryIO], name: str | Path) -> Iterator[BinaryIO]:
    """The file that is being written, packed as its name says by the endings that are unpacked in reading."""
    opener = OPENERS.get(Path(name).suffix)
    with file as plain:
        if opener is None:
            yield plain
        else:
            with opener(plain, "wb") as packed:
                yield packed


def ending(path: str | Path) -> str:
    """How a file's name ends, without the dot and but for how it is packed: "de" for "test.de.gz"."""
    name = Path(path)
    return Path(name.stem if name.suffix in OPENERS else name).suffix.removeprefix(".")


def did_you_mean(path: Path) -> str:
    """The end of an error about a missing file: the most similar names of its folder, or what is wrong with the name."""
    opened = next((part for part in (path, *path.parents) if part.name.startswith("[")), None)
    if opened and not opened.exists() and "]" not in str(path):
        return "; the list is not closed by ]"
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f" (there is no folder {path.parent})" if not path.parent.is_dir() else ""
    similar = difflib.get_close_matches(path.name, names, n=3)
    return f"; did you mean {' or '.join(str(path.parent / name) for name in similar)}?" if similar else ""
