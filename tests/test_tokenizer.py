"""Subwords: nothing is lost, special ids come from the model alone, and limits are named."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.errors import ConfigError, DataError
from nmt.tokenizer import Tokenizer, sample, train_tokenizers

CONFIG = TokenizerConfig(type="bpe", joint=True, vocab_size=300, character_coverage=1.0, byte_fallback=True, sample_lines=1000, seed=1)
SRC = [f"A {colour} dog sees {count} birds near the <s> house." for colour in ("red", "big", "old") for count in ("two", "ten", "no")] * 3
TGT = [f"Ein {farbe} Hund sieht {zahl} Vögel beim Haus < s > x 0 A." for farbe in ("roter", "alter") for zahl in ("zwei", "zehn")] * 3


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizers(SRC, TGT, replace(CONFIG, type=request.param))[0]


@given(st.lists(st.text(st.characters(exclude_characters="▁\n", exclude_categories=["Cs"]))))
@settings(deadline=None, max_examples=200)
def test_decode_gives_the_text_back(tokenizer: Tokenizer, lines: list[str]) -> None:
    assert tokenizer.decode(tokenizer.encode(lines)) == lines


@given(st.text() | st.lists(st.sampled_from(["<s>", "</s>", "<unk>", "<pad>", "▁", "\x00", " ", "<0x0A>", "dog", "\n"])).map("".join))
@settings(deadline=None, max_examples=200)
def test_no_text_gives_a_special_id(tokenizer: Tokenizer, line: str) -> None:
    ids = tokenizer.encode([line])
    assert not {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} & set(ids[0])
    assert tokenizer.decode(ids) == [line.replace("▁", " ").replace("\n", " ")]


SPACES = ["", " ", "  dog", "dog  ", "a   b", "\ttab\t", "dog\r"]
CONTROLS = ["\x00", "a\x00b", "\x7f\x1b", "\u2028", "x\u0085y\u2029", "\ufeffdog"]
SYMBOLS = ["😀 dog", "e\u0301é", "▅⁇", "<s>", "</s>", "<unk>", "<pad>", "<0x0A>", "<s>dog</s>"]


@pytest.mark.parametrize("line", [*SPACES, *CONTROLS, *SYMBOLS])
def test_odd_lines_survive(tokenizer: Tokenizer, line: str) -> None:
    ids = tokenizer.encode([line])
    assert tokenizer.decode(ids) == [line]
    assert not {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} & set(ids[0])


def test_special_ids_are_distinct_and_skipped_by_decode(tokenizer: Tokenizer) -> None:
    special = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id]
    assert special == [0, 1, 2, 3]
    dog = tokenizer.encode(["dog"])[0]
    assert tokenizer.decode([[tokenizer.bos_id, *dog, tokenizer.unk_id, tokenizer.eos_id, tokenizer.pad_id]]) == ["dog"]


def test_unknown_characters_without_byte_fallback() -> None:
    tokenizer = train_tokenizers(SRC, TGT, replace(CONFIG, byte_fallback=False, vocab_size=60))[0]
    assert tokenizer.unk_id in tokenizer.encode(["日"])[0]
    assert tokenizer.decode(tokenizer.encode(["dog 日"])) == ["dog "]


def test_resampled_ids_are_the_same_text_in_other_pieces(tokenizer: Tokenizer) -> None:
    lines = [*SRC, *TGT, "", "  two  spaces ", "日本 😀", "<s> a\tb"]
    ids = tokenizer.encode(lines)
    first, second = (tokenizer.resample(ids, 0.3, seed) for seed in (1, 2))
    assert tokenizer.decode(first) == tokenizer.decode(second) == lines
    assert first != second and first != ids
    assert not {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} & {i for line in first for i in line}
    assert [tokenizer.resample(ids, 0.3, seed) for seed in (2, 1)] == [second, first], "the seed alone decides"
    assert len({tuple(line) for line in tokenizer.resample(ids[:1] * 100, 0.3, 3)}) > 10, "each line by its own chance"


def test_alpha_says_how_much_is_cut_otherwise() -> None:
    bpe, unigram = (train_tokenizers(SRC, TGT, replace(CONFIG, type=kind))[0] for kind in ("bpe", "unigram"))
    ids = bpe.encode(SRC)
    counts = [sum(map(len, bpe.resample(ids, alpha, 1))) for alpha in (1e-6, 0.1, 0.4, 1.0)]
    assert counts[0] == sum(map(len, ids)) and counts == sorted(set(counts))
    assert counts[-1] == sum(len(line.replace(" ", "▁")) + 1 for line in SRC), "one piece a character"
    ids = unigram.encode(SRC)
    same = [sum(new == old for new, old in zip(unigram.resample(ids, alpha, 1), ids, strict=True)) for alpha in (0.1, 1.0)]
    assert same[0] < same[1]


def test_resampling_leaves_unknown_characters_where_they_are() -> None:
    tokenizer = train_tokenizers(SRC, TGT, replace(CONFIG, byte_fallback=False, vocab_size=60))[0]
    ids = tokenizer.encode(["A red dog sees 日 birds near the house."])
    for seed in range(5):
        sampled = tokenizer.resample(ids, 0.9, seed)
        before, after = (line[: line.index(tokenizer.unk_id)] for line in (ids[0], sampled[0]))
        assert (
            sampled != ids
            and tokenizer.decode(sampled) == tokenizer.decode(ids)
            and tokenizer.decode([before]) == tokenizer.decode([after])
        )


def test_lines_too_long_to_learn_from_are_said_to_be_that() -> None:
    with pytest.raises(ConfigError, match="lines of more than 100,000 bytes"):
        train_tokenizers([30_000 * "dog "], [30_000 * "Hund "], CONFIG)


def test_control_characters_are_forbidden() -> None:
    lines = SRC + ["bell\x07 bell\x07 tab\ttab", "del\x7f"] * 20
    tokenizer = train_tokenizers(lines, TGT, replace(CONFIG, vocab_size=340))[0]
    forbidden = tokenizer.pieces(tokenizer.forbidden_ids)
    assert {"<pad>", "<unk>", "<s>", "<0x0A>", "<0x0D>", "<0x00>", "<0x1F>", "<0x7F>", "\x07"} <= set(forbidden)
    assert not {"</s>", "<0x09>", "<0x20>", "<0x41>", "<0xE2>"} & set(forbidden)
    allowed = [i for i in range(tokenizer.vocab_size) if i not in tokenizer.forbidden_ids]
    text = "".join(tokenizer.decode([[i] for i in allowed]))
    assert not re.search("[\x00-\x08\x0a-\x1f\x7f]", text)


def test_decode_never_holds_a_newline(tokenizer: Tokenizer) -> None:
    newline = next(i for i in range(tokenizer.vocab_size) if tokenizer.pieces([i]) == ["<0x0A>"])
    assert "\n" not in tokenizer.decode([[newline, *tokenizer.encode(["dog"])[0]]])[0]


def test_joint_is_one_object_and_separate_are_two() -> None:
    src, tgt = train_tokenizers(SRC, TGT, CONFIG)
    assert src is tgt
    config = replace(CONFIG, joint=False, vocab_size=300)
    src, tgt = train_tokenizers(SRC, TGT, config)
    assert src.model != tgt.model
    assert len(src.encode(["red dog"])[0]) < len(tgt.encode(["red dog"])[0])
    with pytest.raises(ConfigError, match="too large for the target text"):
        train_tokenizers(SRC, ["Hund"], config)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_same_seed_same_model(kind: str) -> None:
    lines = [f"{line} {number}" for number, line in enumerate(SRC)]
    config = replace(CONFIG, type=kind, sample_lines=10)
    first, second = train_tokenizers(lines, TGT, config)[0], train_tokenizers(iter(lines), iter(TGT), config)[0]
    other = train_tokenizers(lines, TGT, replace(config, seed=2))[0]
    assert first.model == second.model != other.model


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("asked", [9, 100_000])
def test_the_limit_that_an_error_names_is_possible(kind: str, asked: int) -> None:
    config = replace(CONFIG, type=kind, vocab_size=asked)
    with pytest.raises(ConfigError, match=f"tokenizer.vocab_size={asked} .*(largest|smallest) possible is") as caught:
        train_tokenizers(SRC, TGT, config)
    limit = int(re.search(r"possible is (\d+)", str(caught.value))[1])
    assert "\n" not in str(caught.value)
    assert train_tokenizers(SRC, TGT, replace(config, vocab_size=limit))[0].vocab_size == limit
    beyond = limit - 1 if asked == 9 else limit + 1
    with pytest.raises(ConfigError):
        train_tokenizers(SRC, TGT, replace(config, vocab_size=beyond))


def test_no_text() -> None:
    with pytest.raises(DataError, match="the text holds nothing"):
        train_tokenizers([], [""], CONFIG)


def test_a_model_is_reloaded_from_its_bytes(tokenizer: Tokenizer) -> None:
    again = Tokenizer(tokenizer.model)
    assert again.vocab_size == tokenizer.vocab_size == 300
    assert again.encode(SRC) == tokenizer.encode(SRC)


@pytest.mark.parametrize("model", [b"", b"no model", b"\x00" * 100])
def test_bytes_that_are_no_model(model: bytes) -> None:
    with pytest.raises(DataError):
        Tokenizer(model)


def test_a_damaged_model_is_refused_or_works(tokenizer: Tokenizer) -> None:
    chance = random.Random(1)
    for _ in range(300):
        model = bytearray(tokenizer.model)
        for _ in range(chance.choice([1, 3, 20])):
            place = chance.randrange(len(model))
            model[place : place + chance.choice([0, 1, 1, 30])] = chance.randbytes(chance.choice([0, 1, 1, 5]))
        try:
            damaged = Tokenizer(bytes(model))
        except DataError as error:
            assert "\n" not in str(error)
            continue
        assert all(isinstance(text, str) for text in damaged.decode(damaged.encode(["A red dog 日", "<s>", ""])))
        assert len({damaged.pad_id, damaged.unk_id, damaged.bos_id, damaged.eos_id}) == 4


def test_a_piece_that_is_no_text_is_refused(tokenizer: Tokenizer) -> None:
    piece = next(piece for piece in tokenizer.pieces(range(4, tokenizer.vocab_size)) if piece.isascii() and piece.isalpha())
    begun = b"\x0a" + bytes([len(piece)]) + piece.encode()
    assert begun in tokenizer.model
    with pytest.raises(DataError, match="should be a SentencePiece model"):
        Tokenizer(tokenizer.model.replace(begun, begun[:2] + b"\xff" * len(piece), 1))


def test_sample_is_uniform_seeded_and_keeps_small_lists() -> None:
    assert sample(iter(range(5)), 5, seed=3) == [0, 1, 2, 3, 4]
    assert sample(range(1000), 10, seed=3) == sample(iter(range(1000)), 10, seed=3)
    drawn = [number for seed in range(300) for number in sample(range(20), 5, seed)]
    assert all(45 < drawn.count(number) < 110 for number in range(20))  # 75 expected, standard deviation 7.5
