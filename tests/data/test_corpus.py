"""Reading pairs: every form of aligned text, and how what is wrong with it is named."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import DataConfig
from nmt.data.corpus import find_files, read_pairs, sources
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


def test_rows_have_numbers_and_reading_can_go_on_after_errors(tmp_path: Path) -> None:
    write(tmp_path / "p.en", "1\n2\n3\n")
    write(tmp_path / "p.de", "eins\n")
    tsv = write(tmp_path / "t.tsv", "de\ten\nvier\t4\nalone\nfünf\t5\n")
    errors: list[DataError] = []
    found = [
        (names, list(rows))
        for names, rows in sources([str(tmp_path / "p"), tsv], data_config(src_field="en", tgt_field="de"), refuse=errors.append)
    ]
    assert found == [
        ((str(tmp_path / "p.en"), str(tmp_path / "p.de")), [(1, "1", "eins"), (2, "2", None), (3, "3", None)]),
        ((tsv,), [(2, "4", "vier"), (4, "5", "fünf")]),
    ]
    assert ["3 lines but" in str(errors[0]), "line 3: there is no column 2" in str(errors[1])] == [True, True] and len(errors) == 2


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
