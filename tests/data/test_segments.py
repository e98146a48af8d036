"""Cutting lines that are too long: nothing is lost, no part is too long, and the time is linear."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.segments import cut, numbered_chunks, split_line, split_sentences
from nmt.tokenizer import Tokenizer, train_tokenizers

TEXT = ["The dog sees the cat. A man rides a bike!", "彼は行く。私は行かない。", '"Is it so?" he asked … nobody knew.'] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig("bpe", True, 360, 1.0, True, 1000, 1)
    return train_tokenizers(TEXT, TEXT, config)[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A dog. A cat! A bird? Yes", ["A dog.", "A cat!", "A bird?", "Yes"]),
        ('He said "No." Then he went.', ['He said "No."', "Then he went."]),
        ("Wait... What?! (Yes.) So", ["Wait...", "What?!", "(Yes.)", "So"]),
        ("At 3.5 km, see e.g. the map.", ["At 3.5 km, see e.g. the map."]),
        ("彼は行く。私は「行かない。」と言った。", ["彼は行く。", "私は「行かない。」", "と言った。"]),
        ("  Space.   Here.  ", ["Space.", "Here."]),
        ("no end", ["no end"]),
        ("", []),
        (" ", []),
    ],
)
def test_sentence_ends(line: str, expected: list[str]) -> None:
    assert list(split_sentences(line)) == expected


@settings(deadline=None)
@given(st.text(alphabet="aB.!?…。\"') \t漢", max_size=60))
def test_sentences_hold_all_of_the_text(line: str) -> None:
    assert "".join("".join(split_sentences(line)).split()) == "".join(line.split())


@settings(deadline=None)
@given(words=st.lists(st.integers(1, 9), max_size=40), max_pieces=st.integers(1, 12))
def test_cuts_lose_nothing_and_are_at_words_where_words_fit(words: list[int], max_pieces: int) -> None:
    pieces = [piece for length in words for piece in ["▁a", *"b" * (length - 1)]]
    ids = list(range(len(pieces)))
    parts = list(cut(ids, pieces, max_pieces))
    assert [i for part in parts for i in part] == ids
    assert all(0 < len(part) <= max_pieces for part in parts)
    if all(length <= max_pieces // 2 for length in words):
        assert all(pieces[part[0]] == "▁a" for part in parts)


def test_parts_are_of_like_length() -> None:
    assert [len(part) for part in cut(range(101), ["▁a"] * 101, 100)] == [51, 50]


@settings(deadline=None, max_examples=30)
@given(line=st.text(alphabet="abcdogThe .!。 彼😀\u2028", max_size=200), max_pieces=st.integers(1, 20))
def test_every_part_fits_and_together_they_are_the_line(tokenizer: Tokenizer, line: str, max_pieces: int) -> None:
    parts = split_line(line, tokenizer, max_pieces)
    assert all(0 < len(part) <= max_pieces for part in parts)
    together = tokenizer.decode([[i for part in parts for i in part]])[0]
    assert "".join(together.split()) == "".join(line.split())


@pytest.mark.parametrize("unit", ["The dog sees the cat. ", "word ", "x", ".", '."', ". ", "。", '"', "A.", "z. b. ", "😀"])
def test_a_megabyte_is_split_in_linear_time(tokenizer: Tokenizer, unit: str) -> None:
    line = unit * (300_000 // len(unit))
    started = time.process_time()
    parts = split_line(line, tokenizer, 100)
    assert time.process_time() - started < 5, "a quadratic split takes minutes"
    assert max(map(len, parts)) <= 100


def test_chunks_grow_and_are_read_as_they_are_needed() -> None:
    lines = iter([str(number) for number in range(1, 101)])
    chunks = numbered_chunks(lines, 2, 7)
    assert next(chunks) == [(1, "1"), (2, "2")] and next(lines) == "3"
    assert [len(chunk) for chunk in chunks] == [4, *[7] * 13, 2]
    assert list(numbered_chunks([], 2, 7)) == []


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("One. Two! Three? Four… (Five.) 3.5 z. b. so", 6),
        ("我们走吧。你好！「好。」再见｡", 4),
        ("वह जाता है। वह आता है॥ ठीक", 3),
        ("هل تذهب؟ نعم. لا! حسنا", 4),
        ("وہ جاتا ہے۔ وہ آتا ہے۔ ٹھیک", 3),
        ("သူသွားသည်။သူလာသည်။ ဟုတ်", 3),
        ("គាត់ទៅ។គាត់មក។ បាទ", 3),
        ("እሱ ሄደ። እሷ መጣች። እሺ", 3),
        ("Նա գնաց։ Նա եկավ։ Լավ", 3),
    ],
)
def test_a_sentence_ends_with_the_mark_of_its_script(line: str, parts: int) -> None:
    found = list(split_sentences(line))
    assert len(found) == parts, found
    assert "".join(found).replace(" ", "") == line.replace(" ", "")
