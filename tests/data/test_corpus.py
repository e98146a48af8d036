"""Reading text: what ends a line, what is refused and how it is named, and every form of aligned text."""

import bz2
import gzip
import io
import json
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import DataConfig
from nmt.data.corpus import find_files, read_lines, read_pairs
from nmt.errors import ConfigError, DataError

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
HUB = dict.fromkeys(("path", "config", "revision", "field"))
TEXT = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


def data_config(**changes: Any) -> DataConfig:
    values: dict[str, Any] = {"name": "tiny", "src_lang": "en", "tgt_lang": "de", "train": [], "valid": [], "test": []}
    return DataConfig(**(values | {"src_field": None, "tgt_field": None, "folder": "data"} | HUB | changes))


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


@pytest.mark.parametrize("content", [b"\0\0\0\0\n", b"\0\n" * 9, b"a\0\0b\0\0\n", b"\0" * 999 + b"a"])
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


@pytest.mark.parametrize("packing", PACKERS)
def test_prefix(tmp_path: Path, packing: str) -> None:
    write(tmp_path / f"a.b.en{packing}", PACKERS[packing](b"one\n\n two \n"))
    write(tmp_path / "a.b.de", "eins\nzwei\n\n")
    assert list(read_pairs([str(tmp_path / "a.b")], data_config())) == [("one", "eins"), ("", "zwei"), (" two ", "")]


def test_every_kind_of_item_in_one_list(tmp_path: Path) -> None:
    write(tmp_path / "p.en", "1\n")
    write(tmp_path / "p.de", "eins\n")
    tsv = write(tmp_path / "t.tsv.gz", gzip.compress(b"2\tzwei\n"))
    rows = write(tmp_path / "j.jsonl", json.dumps({"de": "drei", "en": "3"}) + "\n")
    pair = [write(tmp_path / "any name, really.txt", "4\n"), write(tmp_path / "ziel=.xz", lzma.compress(b"vier\n"))]
    items = [str(tmp_path / "p"), tsv, rows, pair]
    assert list(read_pairs(items, data_config())) == [("1", "eins"), ("2", "zwei"), ("3", "drei"), ("4", "vier")]
    assert [len(files) for files in find_files(items, data_config())] == [2, 1, 1, 2]


def test_missing_prefix_names_what_was_looked_for(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "x\n")
    write(tmp_path / "train.dee", "x\n")
    with pytest.raises(DataError) as caught:
        find_files([str(tmp_path / "train")], data_config())
    message = str(caught.value)
    assert all(part in message for part in ("train.de ", "train.de.gz", "train.de.bz2", "train.de.xz", "did you mean", "train.dee"))
    with pytest.raises(DataError, match="is a file, but neither .tsv nor .jsonl"):
        find_files([str(tmp_path / "train.en")], data_config())
    with pytest.raises(DataError, match=r"no file .*nothing\.tsv"):
        find_files([str(tmp_path / "nothing.tsv")], data_config())


@pytest.mark.parametrize("item", ["", 3, None, ["one"], ["a", "b", "c"], ["a", None], {"en": "a"}])
def test_no_item(item: Any) -> None:
    with pytest.raises(ConfigError, match="an item is"):
        find_files([item], data_config())


@pytest.mark.parametrize(("src_lines", "tgt_lines"), [(200, 199), (199, 200), (1, 0), (3, 10)])
def test_different_lengths_name_both_files_and_counts(tmp_path: Path, src_lines: int, tgt_lines: int) -> None:
    write(tmp_path / "c.en", "x\n" * src_lines)
    write(tmp_path / "c.de", "y\n" * tgt_lines)
    with pytest.raises(DataError, match=rf"c\.en has {src_lines} lines but \S*c\.de has {tgt_lines};"):
        list(read_pairs([str(tmp_path / "c")], data_config()))


def test_different_lengths_name_the_suspicious_line(tmp_path: Path) -> None:
    write(tmp_path / "c.en", "x\nx\nx\nx\n")
    write(tmp_path / "c.de", "y\ny\u2028y\ny\ry\n")
    with pytest.raises(DataError, match=r"line 2 of \S*c\.de holds U\+2028"):
        list(read_pairs([str(tmp_path / "c")], data_config()))


@pytest.mark.parametrize("name", ["e.en", "e.tsv", "e.jsonl"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    write(tmp_path / "e.de", "")
    path = write(tmp_path / name, "")
    with pytest.raises(DataError, match=r"no line of text"):
        list(read_pairs([path if name != "e.en" else str(tmp_path / "e")], data_config()))


@pytest.mark.parametrize(
    ("fields", "pairs"),
    [
        ((None, None), [("id", "en"), ("1", "dog")]),
        ((2, 3), [("en", "de"), ("dog", "Hund")]),
        (("de", "en"), [("Hund", "dog")]),
        (("en", 3), [("dog", "Hund")]),
    ],
)
def test_tsv_fields(tmp_path: Path, fields: tuple[Any, Any], pairs: list[tuple[str, str]]) -> None:
    path = write(tmp_path / "t.tsv", "id\ten\tde\r\n1\tdog\tHund\r\n")
    assert list(read_pairs([path], data_config(src_field=fields[0], tgt_field=fields[1]))) == pairs


def test_both_texts_inside_one_key(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", json.dumps({"id": 1, "translation": {"en": "dog", "deu": "Hund"}}) + "\n")
    assert list(read_pairs([path], data_config(field="translation", tgt_field="deu"))) == [("dog", "Hund")]
    with pytest.raises(DataError, match=r"no key 'translations\.en', but 'id', 'translation'; name the keys by data\.field"):
        list(read_pairs([path], data_config(field="translations")))
    with pytest.raises(ConfigError, match=r"data\.field=translation: the rows of .*t\.tsv have no keys"):
        list(read_pairs([write(tmp_path / "t.tsv", "dog\tHund\n")], data_config(field="translation")))


def test_tsv_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "en\tde\ndog\tHund\ncat\n")
    with pytest.raises(DataError, match=r"t\.tsv, line 3: there is no column 2, the line has 1"):
        list(read_pairs([path], data_config()))
    with pytest.raises(DataError, match=r"t\.tsv, line 1: there is no column 'fr' in the header, which names 'en', 'de'"):
        list(read_pairs([path], data_config(src_field="en", tgt_field="fr")))
    with pytest.raises(ConfigError, match="counted from 1"):
        list(read_pairs([path], data_config(src_field=0, tgt_field=1)))


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"en": "dog", "de": "Hund", "id": 3}, (None, None)),
        ({"translation": {"en": "dog", "de": "Hund"}}, ("translation.en", "translation.de")),
        ({"translation.en": "dog", "x": {"y": {"z": "Hund"}}}, ("translation.en", "x.y.z")),
    ],
)
def test_jsonl_fields(tmp_path: Path, row: dict[str, Any], fields: tuple[Any, Any]) -> None:
    path = write(tmp_path / "j.jsonl", json.dumps(row) + "\n")
    assert list(read_pairs([path], data_config(src_field=fields[0], tgt_field=fields[1]))) == [("dog", "Hund")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "is not JSON"),
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["dog", "Hund"]', "no key 'en'"),
        ('{"en": "dog"}', "no key 'de'"),
        ('{"en": "dog", "de": null}', "'de' is null, not a string"),
        ('{"en": "dog", "de": ["Hund"]}', "not a string"),
        ('{"en": "dog\\ncat", "de": "Hund"}', "'en' holds a newline"),
        ('{"en": "dog", "de": "\\ud83d"}', "surrogate"),
    ],
)
def test_jsonl_errors(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path / "j.jsonl", '{"en": "a\\u2028b", "de": "\\ud83d\\ude00"}\n' + line + "\n")
    pairs = read_pairs([path], data_config())
    assert next(pairs) == ("a\u2028b", "😀")
    with pytest.raises(DataError) as caught:
        next(pairs)
    assert f"{path}, line 2" in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1), st.data())
@settings(deadline=None, max_examples=50)
def test_pairs_never_shift(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], chance: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    pairs = [("first", "erste"), *pairs]
    packing = {lang: chance.draw(st.sampled_from(sorted(PACKERS))) for lang in ("en", "de")}
    for side, (lang, ending) in enumerate(packing.items()):
        write(folder / f"p.{lang}{ending}", PACKERS[ending]("".join(pair[side] + "\n" for pair in pairs).encode()))
    expected = [(src.removesuffix("\r"), tgt.removesuffix("\r")) for src, tgt in pairs]
    assert list(read_pairs([str(folder / "p")], data_config())) == expected
