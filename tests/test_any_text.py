"""Any text through `nmt translate`: a line out for each line in, in order, each the same whatever stands beside it."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt import pipeline, translator
from nmt.config import DecodeConfig, MachineConfig, TranslateConfig
from nmt.data.batches import Batch
from nmt.errors import ConfigError, DataError
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "▁", "▁▁", "<0x0A>", "<0x00>", "</s></s>", "<s> dog </s>", "⁇"]
ODD = [
    *SPECIAL,
    *("", " ", "\t", "\u3000", "\x1c", "\r", "a\rb", "\x00", "\x00\x00\x00", "a\x00b", "\x1b[31m", "\x7f", "\u2028", "a\u2029b\x85c\x0bd"),
    *("\ufeff", "dog\ufeff", "\u200b", "\u202e\u05d0\u05d1 1", "שלום עולם", "مرحبا", "\u0301\u0301", "e\u0301\u0323", "Z\u0351\u0352" * 9),
    *("😀", "👩‍👩‍👧‍👦🇩🇪", "\ue000\uf8ff\U0010fffd", "\u0378\U000e0080\uffff\U0010ffff", "...", "?!;:—“”«»", ". " * 9),
    *("日本語。" * 3, "The dog sees the cat."),
]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)
FAST: dict[str, Any] = {"beam_size": 1, "max_length_ratio": 0.5, "max_length_extra": 2}


def translate(checkpoint: Path, source: Path | None, target: Path, **changes: Any) -> None:
    """`nmt translate` behind the command line."""
    decode = dict.fromkeys(field.name for field in dataclasses.fields(DecodeConfig)) | FAST | changes.pop("decode", {})
    values = {"checkpoint": [str(checkpoint)], "input": source and str(source), "output": str(target), "stream": False, "format": "text"}
    values |= {"nbest": 1, "attention": None, "attention_format": "png", "workers": 1, "decode": decode, "run": MachineConfig(1, "cpu")}
    pipeline.translate(TranslateConfig(**values | changes))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(TEXT | st.sampled_from(ODD), max_size=12),
    batch_size=st.integers(1, 9),
    limit=st.integers(1, 30),
    stream=st.booleans(),
    last_newline=st.booleans(),
)
def test_a_line_for_each_line(
    untrained: Path, tmp_path: Path, lines: list[str], batch_size: int, limit: int, stream: bool, last_newline: bool
) -> None:
    lines = ["The dog sees the cat.", *lines, "end"]
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes("\n".join(lines).encode() + b"\n" * last_newline)
    translate(untrained, source, target, stream=stream, decode={"batch_size": batch_size, "max_source_pieces": limit})
    out = target.read_bytes().decode("utf-8")
    assert out.count("\n") == len(lines) and out.endswith("\n")
    one = Translator.load(untrained, device="cpu", **FAST, max_source_pieces=limit, batch_size=1)
    assert out.split("\n")[:-1] == [one.translate([line])[0] for line in lines]
    assert not any(text for line, text in zip(lines, out.split("\n"), strict=False) if not line.strip())


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(TEXT | st.sampled_from(ODD), max_size=6), limit=st.integers(1, 30))
def test_no_text_becomes_a_control_symbol(untrained: Path, lines: list[str], limit: int) -> None:
    read: list[list[int]] = []

    def watched(src: Sequence[list[int]], tgt: Sequence[Sequence[int]], *tokenizers: Tokenizer) -> Batch:
        read.extend(src)
        return make_batch(src, tgt, *tokenizers)

    one, make_batch = Translator.load(untrained, device="cpu", **FAST, max_source_pieces=limit), translator.make_batch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "make_batch", watched)
        one.translate([*lines, *SPECIAL])
    tokenizer = one.src_tokenizer
    assert not {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} & {i for ids in read for i in ids}
    assert all(0 < len(ids) <= limit for ids in read)
    assert tokenizer.decode(tokenizer.encode(SPECIAL)) == [text.replace("▁", " ") for text in SPECIAL]


MEGABYTE = 1_000_000
LONG = {
    "a megabyte of letters": "x" * MEGABYTE,
    "a hundred thousand words": "The dog sees 日本 " * 25_000,
    "punctuation": '."!?…' * 20_000,
    "spaces between two words": "dog" + " " * 100_000 + "cat",
    "emoji": "😀👩‍👩‍👧‍👦" * 4_000,
    "combining marks": "e" + "\u0301" * 100_000,
    "special tokens": "<s></s><unk><pad>" * 4_000,
    "NULs": "\x00" * 100_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_line_of_any_length(name: str, untrained: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(f"dog\n{LONG[name]}\n\ncat\n".encode())
    decode = {"max_length_ratio": 0.01, "max_length_extra": 0, "max_source_pieces": 500, "batch_size": 256}
    translate(untrained, source, target, decode=decode)
    first, _, blank, last = target.read_bytes().decode().split("\n")[:-1]
    assert [first, blank, last] == Translator.load(untrained, device="cpu", **FAST | decode).translate(["dog", "", "cat"])


def test_a_long_line_as_json_and_as_a_picture(untrained: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("The dog sees the cat. " * 1000 + "\n")
    decode = {"max_length_ratio": 0.3, "max_source_pieces": 50, "batch_size": 256}
    translate(untrained, source, target, format="jsonl", attention=str(tmp_path), decode=decode)
    (row,) = map(json.loads, target.read_text().splitlines())
    assert len(row["tokens"]) > 500 and (tmp_path / "0001.png").stat().st_size > 1000


@pytest.mark.parametrize("stream", [False, True])
def test_lines_before_a_mistake_are_there_only_in_a_stream(untrained: Path, tmp_path: Path, stream: bool) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"dog\n" * 40 + b"\xff\n")
    target.write_text("before\n")
    with pytest.raises(DataError, match="line 41, byte 1 of the line: 0xff is not valid UTF-8"):
        translate(untrained, source, target, stream=stream, decode={"batch_size": 1})
    left = target.read_text()
    assert ("before" not in left and left.count("\n") > 20) if stream else left == "before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_stream_can_be_followed(untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, seen = tmp_path / "out", list[int]()

    def follow() -> Iterator[bytes]:
        for _ in range(9):
            seen.append(target.read_bytes().count(b"\n"))
            yield b"dog\n"

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=follow()))
    translate(untrained, None, target, stream=True, decode={"batch_size": 1})
    assert seen[:2] == [0, 1] and seen == sorted(seen)


def test_a_file_is_not_replaced_by_its_translation(untrained: Path, tmp_path: Path) -> None:
    source, link = tmp_path / "in", tmp_path / "link"
    source.write_text("The dog sees the cat.\n")
    link.symlink_to(source)
    with pytest.raises(ConfigError, match="link would be written over .*in, which is read"):
        translate(untrained, source, link)
    assert source.read_text() == "The dog sees the cat.\n"
