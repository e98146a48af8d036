"""Pieces to words, links and their error rate by hand-made examples, and the matrix on the terminal."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_corpus import sentences

from nmt.alignment import (
    WordAttention,
    alignment_error_rate,
    clip,
    join_pieces,
    links,
    read_links,
    render,
    word_attention,
)
from nmt.config import TokenizerConfig
from nmt.errors import DataError
from nmt.tokenizer import Tokenizer, train_tokenizers
from nmt.translation import Part, Translation


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    sources, targets = zip(*sentences(100, seed=4), strict=True)
    return train_tokenizers(sources, targets, TokenizerConfig("bpe", True, 340, 1.0, True, 1000, 1))[0]


@pytest.mark.parametrize(
    ("pieces", "words", "starts"),
    [
        ((), [], []),
        (("▁The", "▁do", "g", "."), ["The", "dog."], [0, 1]),
        (("▁", "x", "y", "▁z"), ["xy", "z"], [0, 3]),
        (("▁", "▁a", "▁", "▁", "▁b", "▁"), ["a", "b"], [0, 2]),  # two spaces, three, and one at the end
        (("▁", "▁"), [], []),
        (("▁caf", "<0xC3>", "<0xA9>", "s", "▁<0x41>"), ["cafés", "<0x41>"], [0, 4]),
        (("▁a", "<0xFF>"), ["a\ufffd"], [0]),
        (("▁", "我们", "用", "GP", "U", "。", "▁好"), ["我们", "用", "GPU", "。", "好"], [0, 2, 3, 5, 6]),
        (("▁", "<0xE6>", "<0x97>", "<0xA5>", "本"), ["日", "本"], [0, 4]),
        (("▁안", "녕", "▁세계"), ["안녕", "세계"], [0, 2]),  # Korean has spaces
    ],
)
def test_pieces_join_to_words(pieces: tuple[str, ...], words: list[str], starts: list[int]) -> None:
    assert join_pieces(pieces) == (words, starts)


@settings(deadline=None, max_examples=60)
@given(line=st.text(st.sampled_from("dogTh .,é\t😀ß  "), max_size=20))
def test_words_are_those_of_the_text(tokenizer: Tokenizer, line: str) -> None:
    words, starts = join_pieces(tokenizer.pieces(tokenizer.encode([line])[0]))
    assert words == [word for word in line.split(" ") if word]
    assert starts == sorted(set(starts)) and len(starts) == len(words)


def part(src: str, tgt: str, weights: list[list[float]]) -> Part:
    return Part(tuple(src.split()), tuple(tgt.split()), torch.tensor(weights))


FIRST = part("▁a b ▁c", "▁x ▁y z", [[0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.2, 0.0], [0.1, 0.1, 0.8, 0.0], [0.0, 0.0, 0.0, 1.0]])


def test_sums_over_source_pieces_and_means_over_target_pieces() -> None:
    attention = word_attention([FIRST])
    assert (attention.src_words, attention.tgt_words) == (("ab", "c"), ("x", "yz"))
    np.testing.assert_allclose(attention.weights, [[0.3, 0.3, 0.4], [0.5, 0.5, 0.0]], atol=1e-6)


def test_the_parts_of_a_long_line_look_at_their_own_source_and_share_the_end() -> None:
    attention = word_attention([FIRST, part("▁d", "▁w", [[0.6, 0.4]])])  # the second was cut off before its end symbol
    assert (attention.src_words, attention.tgt_words) == (("ab", "c", "d"), ("x", "yz", "w"))
    np.testing.assert_allclose(attention.weights, [[0.3, 0.3, 0, 0.4], [0.5, 0.5, 0, 0], [0, 0, 0.6, 0.4]], atol=1e-6)


def test_an_empty_translation_has_no_rows() -> None:
    for tgt, weights in (("", [[0.2, 0.8]]), ("▁", [[0.2, 0.8], [0.0, 1.0]])):
        attention = word_attention([part("▁a", tgt, weights)])
        assert attention.tgt_words == () and attention.weights.shape == (0, 2)
        assert links(attention) == links(attention, mutual=True) == frozenset()
    assert word_attention([]).weights.shape == (0, 1)


@settings(deadline=None, max_examples=40)
@given(src=st.lists(st.sampled_from(["▁a", "b", "▁", "日"]), max_size=9), tgt=st.lists(st.sampled_from(["▁a", "b", "▁"]), max_size=9))
def test_rows_are_distributions_clipped_or_not(src: list[str], tgt: list[str]) -> None:
    src = ["▁a", *src]
    weights = torch.rand(len(tgt) + 1, len(src) + 1, generator=torch.Generator().manual_seed(len(src))).softmax(1)
    attention = word_attention([Part(tuple(src), tuple(tgt), weights)])
    for one in (attention, clip(attention, 3)):
        assert one.weights.shape == (len(one.tgt_words), len(one.src_words) + 1)
        np.testing.assert_allclose(one.weights.sum(1), 1, atol=1e-5)
        assert (one.weights >= 0).all()


def attention_of(weights: list[list[float]]) -> WordAttention:
    rows = np.array(weights, np.float32)
    src, tgt = (tuple(f"{side}{i}" for i in range(count)) for side, count in (("s", rows.shape[1] - 1), ("t", rows.shape[0])))
    return WordAttention(src, tgt, rows)


def test_clipping_pools_what_is_beyond() -> None:
    clipped = clip(attention_of([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0], [0.5, 0.3, 0.2, 0.0]]), 2)
    assert (clipped.src_words, clipped.tgt_words) == (("s0", "…"), ("t0", "…"))
    np.testing.assert_allclose(clipped.weights, [[0.1, 0.5, 0.4], [0.25, 0.25, 0.5]], atol=1e-6)
    same = attention_of([[0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
    assert clip(same, 2).src_words == same.src_words and (clip(same, 2).weights == same.weights).all()


def test_links_follow_the_largest_weight_but_not_to_the_end_symbol() -> None:
    attention = attention_of([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.8, 0.1, 0.1]])
    assert links(attention) == {(0, 0), (0, 2)}
    assert links(attention, mutual=True) == {(0, 2)}
    assert links(attention) == {(0, 0), (0, 2)}


def test_alignment_error_rate_by_hand() -> None:
    found = [frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 1)})]
    sure = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)})]
    assert alignment_error_rate(found, sure) == pytest.approx(1 - (2 + 2) / (4 + 3))
    possible = [frozenset({(2, 2)}), frozenset({(0, 1)})]
    assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - (2 + 4) / (4 + 3))
    assert alignment_error_rate(sure, sure) == alignment_error_rate([], []) == 0
    assert alignment_error_rate([frozenset()], [frozenset({(0, 0)})]) == 1
    with pytest.raises(DataError, match="links of 2 pairs cannot be compared with gold links of 1 pairs"):
        alignment_error_rate(found, sure[:1])


def test_links_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "test.align"
    path.write_text("0-0 1-2\n\n12-3  0-1\n")
    assert list(read_links(path)) == [{(0, 0), (1, 2)}, frozenset(), {(12, 3), (0, 1)}]


@pytest.mark.parametrize("bad", ["0:1", "1-", "-1-2", "1-2-3", "a-b", "1?2", "٣-١"])
def test_what_is_no_link_is_named_with_its_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "test.align"
    path.write_text(f"0-0\n1-1 {bad}\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"test.align, line 2: '{bad.replace('?', '.')}' is no link"):
        list(read_links(path))


def test_the_matrix_on_the_terminal() -> None:
    attention = WordAttention(("the", "dog"), ("der", "犬"), np.array([[0.9, 0.06, 0.04], [0.25, 0.5, 0.25]], np.float32))
    assert render(attention).split("\n") == [
        "     the",
        "     │  dog",
        "     │  │  </s>",
        "der  ██ ░░ ·",
        "犬   ▒▒ ▓▓ ▒▒",
    ]
    assert "…" in render(attention, limit=1)


def test_without_attention_there_are_no_links() -> None:
    assert links(attention_of([[0.0, 0.0, 0.0], [0.2, 0.7, 0.1]])) == {(1, 1)}
    blind = part("▁a ▁b", "▁x ▁y", [[0.0] * 3] * 3)
    assert Translation("x y", 0.0, 0.0, True, (blind,), ()).alignment == []
