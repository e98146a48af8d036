"""Files that appear whole or not at all, and those that others read while they are written."""

import fcntl
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import ConfigError, DataError


@contextmanager
def writing(path: str | Path, before: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file to be written in binary that replaces `path` only when the block ends without an exception.

    The bytes go to a temporary file in the same folder, are flushed to the disk, and the file is renamed. What is no regular
    file (/dev/stdout, a named pipe) is written directly, since a rename would replace it. What is replaced is called `before` from then
    on, where that is given.

    Raises:
        DataError: the folder does not exist or cannot be written, or the disk is full.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))  # a link stays a link: the file that it points to is replaced
    with _blaming(path):
        direct = path.exists() and not path.is_file()
    if direct:
        with streaming(path) as file:
            yield file
        return
    with _blaming(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:50]}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with _Blamed.open(descriptor, path) as file:
            yield file
            file.flush()
            with _blaming(path):
                os.fsync(file.fileno())
        with _blaming(path):
            temporary.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
            if before is not None:
                _keep(target, before)
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Say which file cannot be written; a reader of it that has gone stays a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        folder = Path(os.path.realpath(path)).parent
        reason = (error.strerror or str(error)).lower() if folder.is_dir() else f"there is no folder {folder}"
        raise DataError(f"cannot write {path}: {reason}") from error


class _Blamed(io.FileIO):
    """A file that says its name where it cannot be written; errors of whatever else is done meanwhile are not its own."""

    path: Path

    @classmethod
    def open(cls, file: int | Path, path: Path) -> BinaryIO:
        raw = cls(file, "wb")
        raw.path = path
        return io.BufferedWriter(raw)

    def write(self, data: Any) -> int:
        with _blaming(self.path):
            return super().write(data)


@contextmanager
def locked(folder: Path, busy: Callable[[], object]) -> Iterator[None]:
    """Hold a folder for this process alone, until the block or the process ends, however it ends.

    Args:
        folder: one that exists.
        busy: called where another process holds it, which is then waited for.
    """
    with (folder / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def held(folder: Path, advice: str) -> Iterator[None]:
    """Hold a folder as `locked` does, or refuse to where another process holds it; what a killed one left is removed.

    Args:
        folder: one that exists.
        advice: the end of the message of an error.

    Raises:
        ConfigError: another process holds it.
    """

    def refuse() -> None:
        raise ConfigError(f"another process is at work in {folder}: {advice}")

    with locked(folder, refuse):
        for leftover in folder.glob(".*.part"):
            leftover.unlink(missing_ok=True)
        yield


@contextmanager
def streaming(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to be written in binary where it lies, as a shell's `>` does: what is flushed is there at once, and stays there.

    Raises:
        DataError: it is a folder, its folder does not exist, or it cannot be written. A reader that has gone is a BrokenPipeError.
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder: name a file to write")
    with _blaming(path):
        file = _Blamed.open(path, path)
    with file:
        yield file


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether both name one regular file, by whatever links."""
    try:
        return Path(other).is_file() and Path(one).samefile(other)
    except OSError:  # one of them does not exist
        return False


def make_folder(path: str | Path, advice: str) -> Path:
    """The folder, made where it is missing.

    Args:
        advice: the end of the message of an error, such as "give another run.folder=".

    Raises:
        DataError: it cannot be made or written to.
    """
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {(error.strerror or str(error)).lower()}; {advice}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"cannot write to the folder {folder}; {advice}")
    return folder


def write_text(path: str | Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8, whole or not at all; raises DataError as `writing` does."""
    with writing(path) as file:
        file.write(text.encode("utf-8"))


def _keep(path: Path, copy: Path) -> None:
    """Give the file a second name, in place of what had that name, or copy it; where there is no file or no room, do nothing."""
    temporary = copy.with_name(f".{copy.name}.part")
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        try:
            _link_or_copy(path, temporary)
            temporary.replace(copy)
        finally:
            temporary.unlink(missing_ok=True)  # what a full disk leaves of a copy


def _link_or_copy(path: Path, other: Path) -> None:
    try:
        other.hardlink_to(path)
    except OSError:  # not every file system has hard links
        shutil.copyfile(path, other)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
