"""Reading lines: what ends a line, what is refused and how it is named."""

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.lines import read_lines
from nmt.errors import DataError

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXT = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


def write(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


def refused(source: Any, *parts: str) -> None:
    """Reading fails with one line that holds all the parts."""
    with pytest.raises(DataError) as caught:
        list(read_lines(source))
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


@given(st.lists(TEXT), st.booleans())
@example(["\x00", "a\x00b"], True)
@example(["\x00", "a\x00b"], True)
@settings(deadline=None, max_examples=200)
def test_lines_come_back(lines: list[str], last_newline: bool) -> None:
    lines = ["first", *lines, "last"]
    content = "\n".join(lines) + ("\n" if last_newline else "")
    expected = [line.removesuffix("\r") for line in lines]
    assert list(read_lines(io.BytesIO(content.encode()))) == expected


@pytest.mark.parametrize("packing", PACKERS)
def test_only_newline_ends_a_line(tmp_path: Path, packing: str) -> None:
    lines = ["a\u2028b\u2029c", "d\u0085e", "f\x0bg\x0ch", "i\x1cj\x1dk\x1el", "m\rn", "", " "]
    path = write(tmp_path / f"text{packing}", PACKERS[packing]("\n".join([*lines, ""]).encode()))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\nb\r\r\n", ["a", "b\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", [""]),
        (b"nul \x00 and \x01\n", ["nul \x00 and \x01"]),
        (b"BZh is how bzip2 files start\n", ["BZh is how bzip2 files start"]),
    ],
)
def test_starts_and_ends(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "text", content))) == lines


def test_a_pipe_gives_each_line_as_it_comes() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        lines = read_lines(source)
        for text in ("first", "second"):
            sink.write(f"{text}\n".encode())
            got: list[str] = []
            reader = threading.Thread(target=lambda got=got: got.append(next(lines)), daemon=True)
            reader.start()
            reader.join(timeout=20)
            assert got == [text]


def test_invalid_utf8_is_named_by_line_and_byte(tmp_path: Path) -> None:
    refused(write(tmp_path / "latin1.de", b"gut\r\n\xc3\xb6 M\xe4nner\n"), "latin1.de, line 2, byte 5 of the line", "0xe4")
    refused(write(tmp_path / "cut.de", b"a\n\xe2\x82"), "cut.de, line 2, byte 1", "0xe2")
    refused(write(tmp_path / "surrogate.de", b"\xed\xa0\x80\n"), "line 1, byte 1", "0xed")
    refused(io.BytesIO(b"ok\nok\n\xff\n"), "stdin, line 3, byte 1", "0xff")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_utf16(tmp_path: Path, encoding: str) -> None:
    refused(write(tmp_path / "wide.en", "A man.\nTwo men.\n".encode(encoding)), "wide.en", "UTF-16")


@pytest.mark.parametrize("content", [b"\0\0\0\0\n", b"\0\n" * 9, b"a\0\0b\0\0\n", b"\0" * 999 + b"a", b"\0 \0\n", b"a\0b\0\n"])
def test_nuls_are_no_utf16(tmp_path: Path, content: bytes) -> None:
    assert "\n".join(read_lines(write(tmp_path / "nul.en", content))).encode() == content.removesuffix(b"\n")


@pytest.mark.parametrize(("packing", "kind"), [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz")])
def test_packed_under_a_text_name_and_the_reverse(tmp_path: Path, packing: str, kind: str) -> None:
    packed = PACKERS[packing](b"A man.\n" * 10_000)
    refused(write(tmp_path / "text.en", packed), "text.en", f"{kind}-compressed")
    refused(write(tmp_path / f"cut{packing}", packed[: len(packed) // 2]), f"cut{packing}", "cut off")
    refused(write(tmp_path / f"plain{packing}", "A man.\n"), f"plain{packing}", "another format")


def test_zip_and_zstd(tmp_path: Path) -> None:
    refused(write(tmp_path / "a.en", b"PK\x03\x04rest\n"), "zip-compressed")
    refused(write(tmp_path / "b.en", b"\x28\xb5\x2f\xfdrest\n"), "zstd-compressed")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.english", "x\n")
    refused(tmp_path / "train.englsh", "there is no file", "train.englsh", "did you mean", "train.english?")
    refused(tmp_path / "nowhere" / "train.en", "there is no folder")
    refused(tmp_path, "is a folder")
    refused(write(tmp_path / "train.english", "x\n") + "/below", "train.english/below")
