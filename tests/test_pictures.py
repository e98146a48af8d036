"""Pictures: one file a sentence, of a size that grows with the words, from any text, and always the same bytes."""

import itertools
import logging
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt import pictures
from nmt.alignment import WordAttention
from nmt.errors import DataError
from nmt.journal import Journal, Validation
from nmt.pictures import draw, draw_each, pixels, save_picture
from nmt.progress import Progress
from nmt.translation import BLANK, Part, Translation


def attention_of(src: str, tgt: str) -> WordAttention:
    src_words, tgt_words = tuple(src.split()), tuple(tgt.split())
    weights = np.random.default_rng(1).dirichlet(np.full(len(src_words) + 1, 0.2), len(tgt_words))
    return WordAttention(src_words, tgt_words, weights.astype(np.float32).reshape(len(tgt_words), len(src_words) + 1))


def translation(text: str = "x y") -> Translation:
    pieces = tuple(f"▁{word}" for word in text.split())
    return Translation(text, -1.0, -2.0, True, (Part(("▁a", "b"), pieces, torch.full((len(pieces) + 1, 3), 1 / 3)),), ((text, -1.0),))


def test_words_are_on_the_axes_and_weights_in_the_cells() -> None:
    attention = attention_of("The $dog$ sees _it_", "Der Hund sieht")
    axes, bar = draw(attention).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["The", "$dog$", "sees", "_it_", "</s>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Der", "Hund", "sieht"]
    assert axes.yaxis_inverted() and axes.xaxis.get_tick_params()["labeltop"]
    (cells,) = axes.collections
    np.testing.assert_array_equal(cells.get_array(), attention.weights)
    assert cells.get_clim() == (0, 1) and bar.get_ylim() == (0, 1)


@pytest.mark.parametrize("word", ["Donaudampfschifffahrt", "W" * 30, "i"])
def test_every_word_lies_inside_and_beside_no_other(word: str) -> None:
    figure = draw(attention_of(f"{word} " * 40, f"{word} " * 40))
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    boxes = [label.get_window_extent() for label in (*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels())]
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
    rows = sorted(boxes[41:], key=lambda box: box.y0)
    assert len(rows) == 40 and all(low.y1 <= high.y0 for low, high in itertools.pairwise(rows))


def test_what_does_not_show_is_a_dot_and_long_words_are_cut() -> None:
    axes = draw(WordAttention(("a\tb\x00",), ("x" * 25, "x" * 24), np.full((2, 2), 0.5, np.float32))).axes[0]
    assert axes.get_xticklabels()[0].get_text() == "a·b·"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x" * 23 + "…", "x" * 24]


def test_the_size_grows_with_the_words_up_to_forty() -> None:
    small, large, larger = (pixels(attention_of("a " * words, "b " * words)).shape for words in (5, 40, 80))
    assert small[0] + 900 < large[0] < 1800 and small[1] + 900 < large[1] < 1800
    assert abs(larger[0] - large[0]) < 20 and abs(larger[1] - large[1]) < 20
    labels = [label.get_text() for label in draw(attention_of("a " * 41, "b")).axes[0].get_xticklabels()]
    assert len(labels) == 41 and labels[-2:] == ["…", "</s>"]


def test_pixels_are_of_a_picture() -> None:
    found = pixels(attention_of("The dog", "Der Hund"))
    assert found.dtype == np.uint8 and found.shape[2] == 3 and 50 < found.std() < 128


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_attention_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    for name in ("one", "two"):
        save_picture(tmp_path / f"{name}.{form}", attention_of("The dog", "Der Hund"))
    data = (tmp_path / f"one.{form}").read_bytes()
    assert data == (tmp_path / f"two.{form}").read_bytes() and b"date" not in data
    assert data.startswith(b"\x89PNG") if form == "png" else ElementTree.fromstring(data).tag.endswith("svg")


def test_any_text_can_be_drawn_with_one_word_of_warning(caplog: pytest.LogCaptureFixture) -> None:
    pictures._tell_of_boxes.cache_clear()
    words = "a\x00b\u2028\t $x^$ \\frac{ 日本 😀 \U0001f9ff नमस्ते مرحبا \ufffd " + "x" * 3000
    for _ in range(2):
        pixels(attention_of(words, words))
    assert sum("boxes stand for some" in record.getMessage() for record in caplog.records) <= 1
    assert not [record for record in caplog.records if record.name.startswith("matplotlib")]


@pytest.mark.parametrize("tgt", ["", "b"])
def test_the_smallest_pictures(tgt: str) -> None:
    assert pixels(attention_of("a", tgt)).std() > 0


def test_pictures_leave_pyplot_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    save_picture(tmp_path / "one.png", attention_of("a", "b"))
    assert "matplotlib.pyplot" not in sys.modules


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MANY", 2)


@pytest.mark.usefixtures("few_are_many")
def test_one_file_for_each_line_that_is_not_blank(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    every = [translation(), BLANK, translation(""), translation(), translation(), BLANK]
    assert list(draw_each(every, tmp_path, "svg")) == every
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.svg", "0003.svg", "0004.svg", "0005.svg"]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"attention={tmp_path} holds more than 2 pictures now, one for each line"
    ]


def test_a_folder_that_is_gone_is_an_error_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        list(draw_each([translation()], tmp_path / "gone", "png"))


def test_the_line_of_a_validation_shows_a_large_perplexity_shortly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "nmt"), Journal(tmp_path, Progress(), 0.0) as journal:
        journal.validation(7, Validation({"loss": 99.5, "perplexity": 1.6e43, "bleu": 1.0}), False, 61.0)
    assert caplog.messages[-1] == "update 7  1:01 min  loss 99.500  perplexity 1.6e+43  bleu 1.00"


def test_validation_pictures_are_in_tensorboard(tmp_path: Path) -> None:
    picture = pixels(attention_of("The dog", "Der Hund"))
    with Journal(tmp_path, Progress(), 0.0) as journal:
        journal.validation(7, Validation({"loss": 1.0}, pictures=(picture, picture)), True, 1.0)
    board = EventAccumulator(str(tmp_path))
    board.Reload()
    assert board.Tags()["images"] == ["attention 1", "attention 2"]
    (image,) = board.Images("attention 2")
    assert (image.step, image.height, image.width) == (7, *picture.shape[:2])
