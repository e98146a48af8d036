"""Lines in, lines out: order, blank and endless input, batches, long lines, n-best lists and alignment, with a small random model."""

import copy
import dataclasses
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from toy_corpus import Composer, sentences

from nmt.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from nmt.config import DecodeConfig, ModelConfig, TokenizerConfig
from nmt.data.batches import make_batch
from nmt.errors import CheckpointError, ConfigError
from nmt.model.seq2seq import Seq2Seq
from nmt.schema import complete
from nmt.search import Found, beam_search
from nmt.tokenizer import Tokenizer, train_tokenizers
from nmt.translation import Part, Translation, to_json
from nmt.translator import Translator, build_model

DECODE = DecodeConfig(
    **complete(
        DecodeConfig,
        {
            "beam_size": 3,
            "length_penalty": 1.0,
            "max_length_ratio": 1.0,
            "max_length_extra": 3,
            "max_source_pieces": 20,
            "temperature": 0.0,
            "top_k": 0,
            "seed": 1,
            "batch_size": 4,
            "precision": "fp32",
        },
    )
)
MODEL = ModelConfig(
    **complete(
        ModelConfig,
        {
            "embedding_size": 24,
            "encoder_size": 24,
            "decoder_size": 32,
            "attention": "additive",
            "attention_size": 24,
            "initial_state": "backward",
            "readout": "maxout",
            "readout_size": 24,
            "initialization": "uniform",
            "init_scale": 0.1,
            "dropout": 0.1,
        },
    )
)
LINES = [source for source, _ in sentences(12, seed=5)]
Build = Callable[..., Translator]


@pytest.fixture(scope="module")
def build() -> Build:
    """Translators with one model that has begun to learn, so that texts differ and some end while others are cut off."""
    torch.manual_seed(0)
    pairs = sentences(100, seed=4)
    src, tgt = train_tokenizers(*zip(*pairs, strict=True), TokenizerConfig("bpe", False, 340, 1.0, True, 1000, 1))
    model = Seq2Seq(MODEL, src.vocab_size, tgt.vocab_size, src.pad_id, tgt.pad_id)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    ids = list(zip(src.encode([pair[0] for pair in pairs]), tgt.encode([pair[1] for pair in pairs]), strict=True))
    batches = [make_batch(*zip(*ids[start : start + 20], strict=True), src, tgt) for start in range(0, 100, 20)]
    for batch in batches * 30:
        loss, _ = model.loss(batch.src, batch.src_lengths, batch.tgt_in, batch.tgt_out, 0.0)
        optimizer.zero_grad()
        (loss / batch.tokens).backward()
        optimizer.step()

    def make(lang: str = "de", **changes: Any) -> Translator:
        return Translator([model], src, tgt, dataclasses.replace(DECODE, **changes), lang, torch.device("cpu"))

    return make


def own_vocabulary(translator: Translator) -> nn.Linear:
    """The last layer of a copy of the model, which the translator has for itself from now on."""
    translator.models = [copy.deepcopy(model).requires_grad_(False) for model in translator.models]
    translator.renew()
    return translator.models[0].decoder.vocabulary


def test_the_model_is_good_enough_to_test_with(build: Build) -> None:
    found = list(build().hypotheses(LINES))
    assert len({one.text for one in found}) > 6
    assert any(one.finished for one in found) and not all(one.finished for one in found)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.sampled_from([*LINES, "", " ", "\u3000\t", "\x00", "dog\u2028cat", "😀 " * 15]), max_size=14),
    batch_size=st.integers(1, 5),
)
def test_order_and_texts_whatever_the_batch_size(build: Build, lines: list[str], batch_size: int) -> None:
    together = list(build(batch_size=batch_size).hypotheses(lines))
    alone = [next(build(batch_size=1).hypotheses([line])) for line in lines]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4)
    assert [one.alignment for one in together] == [one.alignment for one in alone]


def test_changed_parameters_count_after_renewal(build: Build) -> None:
    translator = build()
    vocabulary = own_vocabulary(translator)
    before = next(translator.hypotheses(LINES[:1]))
    vocabulary.bias[translator.tgt_tokenizer.eos_id] += 100
    translator.renew()
    assert next(translator.hypotheses(LINES[:1])).text == "" != before.text


def test_a_line_is_what_the_search_finds_for_it(build: Build) -> None:
    translator = build()
    src, tgt, model = translator.src_tokenizer, translator.tgt_tokenizer, translator.models[0].eval()
    ids = src.encode([LINES[0]])[0]
    with torch.no_grad():
        state = model.start(torch.tensor([[*ids, src.eos_id]]), torch.tensor([len(ids) + 1]))
        best = beam_search(
            model.step,
            state,
            batch_size=1,
            max_lengths=torch.tensor([len(ids) + 4]),
            bos_id=tgt.bos_id,
            eos_id=tgt.eos_id,
            forbidden_ids=tgt.forbidden_ids,
            beam_size=3,
            length_penalty=1.0,
        )[0][0]
    found = next(translator.hypotheses(LINES[:1]))
    assert found.text == tgt.decode([best.tokens])[0] == translator.translate(LINES[:1])[0]
    assert found.tokens == tgt.pieces(best.tokens)
    assert (found.score, found.log_prob) == (pytest.approx(best.score), pytest.approx(best.log_prob))
    assert torch.allclose(found.parts[0].weights, best.weights) and found.parts[0].src_pieces == tuple(src.pieces(ids))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_coverage_is_counted_over_real_source_pieces(build: Build, temperature: float) -> None:
    for one in build(coverage_penalty=0.7, temperature=temperature, batch_size=8).hypotheses(["dog", *LINES]):
        (part,) = one.parts
        looked = part.weights.sum(0).clamp(max=1).log().sum()
        assert one.score == pytest.approx(one.log_prob / len(part.weights) + 0.7 * float(looked), abs=1e-4)


def test_coverage_needs_attention(build: Build) -> None:
    translator = build()
    model = Seq2Seq(dataclasses.replace(MODEL, attention="none"), 9, 9, 0, 0)
    decode = dataclasses.replace(DECODE, coverage_penalty=0.2)
    with pytest.raises(ConfigError, match=r"decode.coverage_penalty=0.2 is for models with attention"):
        Translator([model], translator.src_tokenizer, translator.tgt_tokenizer, decode, "de", torch.device("cpu"))


def test_blank_lines_never_reach_the_model(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = build()
    monkeypatch.setattr(translator, "models", None)
    assert translator.translate(["", " ", "\t\u00a0\u2003", "\n", "\ufeff", "\u200b \u200f", "\0"]) == 7 * [""]
    nothing = {"src_tokens": [], "tokens": [], "alignment": [], "nbest": []}
    assert to_json(next(translator.hypotheses([" "]))) == {"text": "", "score": 0.0, "log_prob": 0.0, "finished": True} | nothing


def test_the_end_of_a_line_is_no_part_of_it(build: Build) -> None:
    assert build().translate([f"{LINES[0]}\n", f"{LINES[1]}\r\n"]) == build().translate(LINES[:2])


def test_endless_input_is_read_as_it_is_needed(build: Build) -> None:
    read = []

    def endless() -> Iterator[str]:
        for number in itertools.count():
            read.append(number)
            yield LINES[number % 3]

    hypotheses = build(batch_size=2, beam_size=1).hypotheses(endless())
    next(hypotheses)
    assert len(read) == 2, "the first translation waits for one batch only"
    assert [one.text for one in itertools.islice(hypotheses, 5)] == build(beam_size=1).translate([LINES[n % 3] for n in range(1, 6)])
    for _ in range(300):
        next(hypotheses)
    assert len(read) < 306 + 2 * 16 * 2, "memory is flat"


def test_one_string_is_not_a_list_of_lines(build: Build) -> None:
    with pytest.raises(TypeError, match="a list of lines is expected"):
        build().translate("The dog")
    with pytest.raises(TypeError, match="lines of text are expected; number 2 is 7"):
        build().translate(["The dog", 7])  # type: ignore[list-item]


LONG = "The dog sees the big cat. The cat likes the old tree. The man finds the red car."


def test_a_line_that_is_too_long_is_translated_in_parts(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    translator = build(max_source_pieces=20)
    single = ["The dog sees the big cat.", "The cat likes the old tree.", "The man finds the red car."]
    with caplog.at_level(logging.WARNING):
        first, long, last = translator.hypotheses([LINES[0], LONG, LINES[1]])
    pieces = len(translator.src_tokenizer.encode([LONG])[0])
    message = f"line 2 has {pieces} pieces, more than decode.max_source_pieces=20: translated in 3 parts"
    assert [record.getMessage() for record in caplog.records] == [message]
    parts = list(translator.hypotheses(single))
    assert long.text == " ".join(part.text for part in parts) and all(part.text for part in parts)
    assert [first.text, last.text] == translator.translate(LINES[:2])
    assert long.tokens == [token for part in parts for token in part.tokens]
    assert long.score == pytest.approx(sum(part.score for part in parts) / 3, abs=1e-5)
    assert long.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    assert long.finished == all(part.finished for part in parts)
    shift = (len(parts[0].tokens), len(parts[0].parts[0].src_pieces))
    second = [(tgt + shift[0], src + shift[1]) for tgt, src in parts[1].alignment]
    assert long.alignment[len(parts[0].alignment) :][: len(second)] == second


@pytest.mark.parametrize(("lang", "separator"), [("de", " "), ("ja", ""), ("zh-TW", "")])
def test_parts_are_joined_as_the_language_writes(build: Build, lang: str, separator: str) -> None:
    translator = build(lang, max_source_pieces=20)
    texts = translator.translate(LONG.replace(". ", ".\n").split("\n"))
    assert translator.translate([LONG]) == [separator.join(texts)]


def test_a_line_without_spaces_is_cut_too(build: Build) -> None:
    one = next(build(max_source_pieces=10).hypotheses(["x" * 95]))
    assert len(one.parts) >= 10 and all(len(part.src_pieces) <= 10 for part in one.parts)


def test_many_words_in_one_line(build: Build) -> None:
    translator = build(beam_size=1, batch_size=256, max_length_extra=0, max_length_ratio=0.2, max_source_pieces=100)
    assert len(list(translator.hypotheses(["the dog sees the cat " * 2000, LINES[0]]))) == 2


@pytest.mark.parametrize("limit", [20, 8])
def test_nbest_lists(build: Build, limit: int) -> None:
    translator = build(beam_size=6, max_source_pieces=limit, max_length_extra=30)
    for one, alone in zip(translator.hypotheses(LINES, nbest=6), translator.hypotheses(LINES), strict=True):
        texts, scores = zip(*one.nbest, strict=True)
        assert (texts[0], scores[0]) == (one.text, one.score) == (alone.text, pytest.approx(alone.score))
        assert len(set(texts)) == len(texts) <= 6
        assert list(scores) == sorted(scores, reverse=True)
        assert one.alignment == alone.alignment and one.tokens == alone.tokens


def test_an_nbest_list_has_no_text_twice_though_its_pieces_differ(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = build(beam_size=6)
    monkeypatch.setattr(translator.tgt_tokenizer.__class__, "decode", lambda self, ids: ["same"] * len(ids))
    best = next(translator.hypotheses(LINES[:1])).score
    assert next(translator.hypotheses(LINES[:1], nbest=6)).nbest == (("same", pytest.approx(best)),)


def test_an_nbest_list_holds_nothing_that_is_cut_off_where_anything_is_finished(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = build()
    cut_off = Found((9, 9), -1.0, -0.5, False, torch.ones(2, 9))
    for found, count in (([Found((8,), -4.0, -2.0, True, torch.ones(2, 9)), cut_off], 1), ([cut_off], 1)):
        monkeypatch.setattr(translator, "_search_batch", lambda sources, nbest, found=found: [found])
        one = next(translator.hypotheses(LINES[:1], nbest=2))
        assert (len(one.nbest), one.score, one.finished) == (count, found[0].score, found[0].finished)


def test_samples_that_are_cut_off_are_samples_too(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = build(temperature=1.0, batch_size=8)
    cut_off = Found((9, 9), -1.0, -0.5, False, torch.ones(2, 9))
    finished, rows = Found((8,), -4.0, -2.0, True, torch.ones(2, 9)), []

    def found(sources: list[list[int]], nbest: int) -> list[list[Found]]:
        rows.append(len(sources))
        return [[cut_off, finished] for _ in sources]

    monkeypatch.setattr(translator, "_search_batch", found)
    for one in translator.hypotheses(LINES[:1] * 7, nbest=3):
        assert len(one.nbest) == 2 and not one.finished and not to_json(one)["finished"]
    assert max(rows) == 2  # paths in memory: not more than a search of one has


def test_nbest_beyond_the_beam(build: Build) -> None:
    with pytest.raises(ConfigError, match="nbest = 4 is more than decode.beam_size = 3"):
        list(build(beam_size=3).hypotheses(LINES, nbest=4))


def test_alignment_follows_the_weights_and_leaves_the_end_symbol_out() -> None:
    weights = torch.tensor([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.9, 0.0, 0.1], [0.0, 0.0, 1.0]])
    part = Part(("▁a", "▁b"), ("▁x", "▁y", "▁z"), weights)  # the last column and the last row are the end symbols'
    cut_off = Part(("▁c",), ("▁w",), torch.tensor([[0.6, 0.4]]))
    translation = Translation("x y z w", -1.0, -5.0, False, (part, cut_off), (("x y z w", -1.0),))
    assert translation.alignment == [(0, 1), (2, 0), (3, 2)]
    row = to_json(translation)
    assert row["alignment"] == [[0, 1], [2, 0], [3, 2]] and (row["log_prob"], row["finished"]) == (-5.0, False)
    assert row["src_tokens"] == ["▁a", "▁b", "▁c"] and row["tokens"] == ["▁x", "▁y", "▁z", "▁w"]


def test_given_translations_are_aligned_as_the_models_own_are(build: Build) -> None:
    translator = build(batch_size=3, max_length_ratio=3.0, max_length_extra=30)
    lines, tgt = ["dog", *LINES], translator.tgt_tokenizer
    own = [(line, one.text, one.parts[0]) for line, one in zip(lines, translator.hypotheses(lines), strict=True) if one.finished]
    same = [row for row in own if tuple(tgt.pieces(tgt.encode([row[1]])[0])) == row[2].tgt_pieces]
    assert len(same) > 4
    for part, (_, _, expected) in zip(translator.align([row[:2] for row in same]), same, strict=True):
        assert (part.src_pieces, part.tgt_pieces) == (expected.src_pieces, expected.tgt_pieces)
        assert torch.allclose(part.weights, expected.weights, atol=1e-5)
    assert translator.align([]) == [] and translator.align([("dog", "")])[0].weights.shape[0] == 1


def test_weights_are_without_padding(build: Build) -> None:
    for one in build(batch_size=8).hypotheses(["dog", *LINES]):
        (part,) = one.parts
        assert part.weights.shape == (len(part.tgt_pieces) + one.finished, len(part.src_pieces) + 1)
        assert torch.allclose(part.weights.sum(1), torch.ones(len(part.weights)), atol=1e-5)


def test_json_rows(build: Build) -> None:
    row = json.loads(json.dumps(to_json(next(build().hypotheses(LINES, nbest=2)))))
    assert list(row) == ["text", "score", "log_prob", "finished", "src_tokens", "tokens", "alignment", "nbest"]
    assert row["nbest"][0] == {"text": row["text"], "score": row["score"]}
    assert all(0 <= tgt < len(row["tokens"]) and src >= 0 for tgt, src in row["alignment"])


def test_what_reaches_the_length_limit_is_marked(build: Build) -> None:
    translator = build(max_length_ratio=0.5, max_length_extra=1)
    own_vocabulary(translator).bias[translator.tgt_tokenizer.eos_id] = -1e9
    for one, ids in zip(translator.hypotheses(LINES), translator.src_tokenizer.encode(LINES), strict=True):
        assert not one.finished and len(one.tokens) == -(-len(ids) // 2) + 2


def test_a_line_end_is_never_generated(build: Build) -> None:
    translator = build()
    pieces = translator.tgt_tokenizer.pieces(range(translator.tgt_tokenizer.vocab_size))
    own_vocabulary(translator).bias[[pieces.index("<0x0A>"), pieces.index("<0x0D>")]] += 100
    assert not any("\n" in text or "\r" in text for text in translator.translate(LINES))


def test_a_model_in_training_stays_in_training_and_is_evaluated_without_dropout(build: Build) -> None:
    translator = build()
    (model,) = translator.models
    model.train()
    assert translator.translate(LINES) == translator.translate(LINES)
    assert model.training
    model.eval()
    translator.translate(LINES)
    assert not model.training


def test_a_diverged_model_is_an_error(build: Build) -> None:
    translator = build()
    own_vocabulary(translator).weight.fill_(float("nan"))
    with pytest.raises(CheckpointError, match=r"no numbers \(NaN\)"):
        translator.translate(LINES)


def test_one_matrix_for_both_languages_needs_one_vocabulary(build: Build) -> None:
    config, src, tgt = dataclasses.replace(MODEL, tie="all"), build().src_tokenizer, build().tgt_tokenizer
    with pytest.raises(ConfigError, match=r"model\.tie=all needs one vocabulary .*: give tokenizer\.joint=true, or use model\.tie=target"):
        build_model(config, src, tgt)
    build_model(dataclasses.replace(config, tie="target"), src, tgt)
    build_model(config, Tokenizer(tgt.model), tgt)


def test_low_precision(build: Build) -> None:
    scores = [one.score for one in build(precision="bf16", beam_size=1).hypotheses(LINES)]
    assert scores != [one.score for one in build(beam_size=1).hypotheses(LINES)]


@pytest.fixture
def checkpoint(build: Build, composed: Composer, tmp_path: Path) -> Path:
    translator, config = build(), composed()
    config = dataclasses.replace(config, model=MODEL, decode=DECODE)
    src, tgt = translator.src_tokenizer, translator.tgt_tokenizer
    save_checkpoint(tmp_path / "best.pt", Checkpoint(config, src, tgt, translator.models[0].state_dict(), {}))
    return tmp_path / "best.pt"


def test_a_translator_from_a_checkpoint(build: Build, checkpoint: Path) -> None:
    translator = Translator.load(checkpoint, device="cpu")
    assert translator.translate(LINES) == build().translate(LINES)
    assert (translator.decode, translator.tgt_lang) == (DECODE, "de")


def test_settings_in_place_of_the_checkpoint(build: Build, checkpoint: Path) -> None:
    translator = Translator.load(checkpoint, beam_size=1, length_penalty=0)
    assert translator.decode == dataclasses.replace(DECODE, beam_size=1, length_penalty=0.0)
    assert translator.translate(LINES) == build(beam_size=1).translate(LINES)
    with pytest.raises(ConfigError, match=r"decode.beam_sise; did you mean decode.beam_size\?"):
        Translator.load(checkpoint, beam_sise=1)
    with pytest.raises(ConfigError, match="decode.beam_size = 0"):
        Translator.load(checkpoint, beam_size=0)


def test_a_model_twice_is_the_model_once(build: Build) -> None:
    once, twice = build(), build()
    twice.models.append(copy.deepcopy(twice.models[0].eval()).train())
    for one, two in zip(once.hypotheses(LINES, nbest=3), twice.hypotheses(LINES, nbest=3), strict=True):
        assert (two.text, two.tokens, two.alignment) == (one.text, one.tokens, one.alignment)
        assert dict(two.nbest) == pytest.approx(dict(one.nbest), abs=1e-5)
        torch.testing.assert_close(two.parts[0].weights, one.parts[0].weights)
    pairs = [(LINES[0], "Der Hund"), (LINES[1], "")]
    for one, two in zip(once.align(pairs), twice.align(pairs), strict=True):
        torch.testing.assert_close(two.weights, one.weights)
    assert [model.training for model in twice.models] == [False, True]


def test_an_ensemble_from_checkpoints(build: Build, checkpoint: Path) -> None:
    content = load_checkpoint(checkpoint)
    model = {name: tensor + 0.3 * torch.randn(tensor.shape) for name, tensor in content.model.items()}
    decode = dataclasses.replace(DECODE, beam_size=1)
    other = dataclasses.replace(content, model=model, config=dataclasses.replace(content.config, decode=decode))
    save_checkpoint(checkpoint.parent / "other.pt", other)
    together = Translator.load([checkpoint, checkpoint.parent / "other.pt"], device="cpu")
    assert together.decode == DECODE and len(together.models) == 2
    texts = together.translate(LINES)
    assert texts != build().translate(LINES) and texts != Translator.load(checkpoint.parent / "other.pt").translate(LINES)
    swapped = Translator.load([checkpoint.parent / "other.pt", checkpoint], device="cpu", beam_size=3)
    assert swapped.translate(LINES) == texts
