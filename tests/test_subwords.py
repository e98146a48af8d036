"""Cutting by chance: the distributions that the papers describe, and without chance SentencePiece's own pieces."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tokenizer import CONFIG, SRC, TGT

from nmt.subwords import Subwords, subwords
from nmt.tokenizer import Tokenizer, train_tokenizers

DRAWS = 20_000
SCORES = {"a": -3.0, "b": -2.5, "c": -3.5, "ab": -3.2, "bc": -4.0, "abc": -5.0, "ca": -4.5}


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train_tokenizers(SRC, TGT, CONFIG)[0]


def learnt(*pieces: str) -> Subwords:
    """A vocabulary of BPE: merges in the order in which they were learnt, then characters; the first id is no text."""
    return subwords([None, *pieces], [0.0, *(-float(rank) for rank in range(len(pieces)))])


def shares(cutter: Subwords, pieces: list[str], text: str, alpha: float) -> dict[str, float]:
    """How often the text is cut in each way."""
    rng = random.Random(5)
    ids = [1 + pieces.index(char) for char in text]
    ways = Counter(" ".join(pieces[i - 1] for i in cutter.cut(ids, alpha, rng)) for _ in range(DRAWS))
    return {way: count / DRAWS for way, count in ways.items()}


def assert_close(found: Mapping[str, float], expected: Mapping[str, float]) -> None:
    assert found.keys() <= expected.keys()
    for way, share in expected.items():
        assert abs(found.get(way, 0) - share) < 4.5 * math.sqrt(share * (1 - share) / DRAWS) + 1e-9, way


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_each_merge_is_left_out_with_probability_alpha(alpha: float) -> None:
    keep = 1 - alpha
    pieces = ["ab", "abc", "a", "b", "c"]
    expected = {"abc": keep**2, "ab c": keep * alpha, "a b c": alpha}
    assert_close(shares(learnt(*pieces), pieces, "abc", alpha), expected)
    pieces = ["ab", "bc", "a", "b", "c"]
    expected = {"ab c": keep, "a bc": alpha * keep, "a b c": alpha**2}
    assert_close(shares(learnt(*pieces), pieces, "abc", alpha), expected)
    pieces = ["aa", "a", "▁"]  # words are cut apart, and each with its own chance
    words = {"aa a": keep, "a aa": alpha * keep, "a a a": alpha**2}
    expected = {f"▁ {first} ▁ {second}": words[first] * words[second] for first, second in itertools.product(words, words)}
    assert_close(shares(learnt(*pieces), pieces, "▁aaa▁aaa", alpha), expected)


def all_ways(text: str) -> Iterator[list[str]]:
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in SCORES:
            yield from ([text[:end], *rest] for rest in all_ways(text[end:]))


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_a_segmentation_is_drawn_by_its_probability_to_the_power_of_alpha(alpha: float) -> None:
    weights = {" ".join(way): math.exp(alpha * sum(SCORES[piece] for piece in way)) for way in all_ways("abcab")}
    assert len(weights) == 10
    expected = {way: weight / sum(weights.values()) for way, weight in weights.items()}
    unigram = subwords([None, *SCORES], [0.0, *SCORES.values()])
    assert_close(shares(unigram, list(SCORES), "abcab", alpha), expected)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_texts_without_spaces_are_cut(kind: str) -> None:
    tokenizer = train_tokenizers(SRC, TGT, replace(CONFIG, type=kind))[0]
    text = "birdsnearhouse" * 500
    [ids] = tokenizer.resample(tokenizer.encode([text]), 1.0 if kind == "unigram" else 0.1, 1)
    assert tokenizer.decode([ids]) == [text] and len(ids) < len(text)


@given(st.lists(st.text(st.characters(exclude_characters="▁\n", exclude_categories=["Cs"])) | st.text("A red dogsbirV", max_size=60)))
@settings(deadline=None, max_examples=200)
def test_without_chance_bpe_is_sentencepieces(bpe: Tokenizer, lines: list[str]) -> None:
    ids = bpe.encode(lines)
    characters = bpe.resample(ids, 1.0, 1)
    assert sum(map(len, characters)) >= sum(map(len, ids))
    assert bpe.resample(characters, 0.0, 1) == bpe.resample(ids, 0.0, 1) == ids


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_as_much_is_cut_as_by_sentencepiece(kind: str, alpha: float) -> None:
    tokenizer = train_tokenizers(SRC, TGT, replace(CONFIG, type=kind))[0]
    lines = SRC * 60
    theirs = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    sampled = theirs.encode(lines, enable_sampling=True, nbest_size=-1, alpha=alpha)
    ours = tokenizer.resample(tokenizer.encode(lines), alpha, 1)
    assert sum(map(len, ours)) == pytest.approx(sum(map(len, sampled)), rel=0.03)  # ten standard deviations
