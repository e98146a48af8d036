"""Pictures of attention: a target word a row, a source word a column, as in Bahdanau et al. (2015), figure 3."""

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nmt.alignment import DRAWN, END, WordAttention, clip, word_attention
from nmt.files import writing
from nmt.translation import Translation

if TYPE_CHECKING:  # slow to import, and only drawing needs it
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

MANY = 1000  # pictures, after which a word of warning is due
DPI = 120
FONT = 10  # points
CELL = 0.3  # inches, as all that follow
EDGE = 0.15
BAR = 0.9  # room for the colour bar and its numbers
SLOPE = 60  # degrees of the source words
# Fonts for what DejaVu Sans, which comes with matplotlib, does not have; those that are installed are used.
FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "Noto Sans JP", "Source Han Sans", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "IPAexGothic", "IPAGothic", "Hiragino Sans", "PingFang SC", "Heiti SC", "Yu Gothic", "MS Gothic",
    "Microsoft YaHei", "SimHei", "Malgun Gothic", "NanumGothic", "Noto Sans KR", "Noto Sans Thai", "Noto Sans Devanagari", "Unifont",
)  # fmt: skip


def draw(attention: WordAttention) -> "Figure":
    """A figure that grows with the number of words, of which the first 40 of each side are shown."""
    from matplotlib.figure import Figure

    attention = clip(attention)
    src_labels, tgt_labels = ([_label(word) for word in words] for words in ((*attention.src_words, END), attention.tgt_words))
    width, height = CELL * len(src_labels), CELL * max(len(tgt_labels), 3)
    tilt = np.deg2rad(SLOPE)
    src_lengths, tgt_lengths = _lengths(src_labels), _lengths(tgt_labels)
    left = max(tgt_lengths, default=0.0) + 2 * EDGE
    above = max(src_lengths) * np.sin(tilt) + 2 * EDGE
    beyond = max(length * np.cos(tilt) - CELL * place for place, length in enumerate(reversed(src_lengths)))
    size = np.array((left + width + max(BAR, beyond), above + height + EDGE))
    figure = Figure(figsize=tuple(size), dpi=DPI)

    def box(x: float, y: float, wide: float, high: float) -> tuple[float, float, float, float]:  # inches from the top left corner
        return x / size[0], 1 - (y + high) / size[1], wide / size[0], high / size[1]

    axes = figure.add_axes(box(left, above, width, CELL * max(len(tgt_labels), 1)))
    weights = attention.weights if tgt_labels else np.zeros((1, len(src_labels)), np.float32)
    cells = axes.pcolormesh(weights, vmin=0, vmax=1, cmap="Blues", edgecolors="0.88", linewidth=0.5)
    axes.invert_yaxis()
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    style: dict[str, Any] = {"parse_math": False, "fontsize": FONT, "fontfamily": list(_families())}
    axes.set_xticks(np.arange(len(src_labels)) + 0.5, src_labels, rotation=SLOPE, ha="left", rotation_mode="anchor", **style)
    axes.set_yticks(np.arange(len(tgt_labels)) + 0.5, tgt_labels, **style)
    bar = figure.colorbar(cells, cax=figure.add_axes(box(left + width + 0.25, above, 0.14, min(height, 3.0))), ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT - 2, length=2)
    return figure


def save_picture(path: Path, attention: WordAttention) -> None:
    """Write a picture in the format that the name ends with, .png or .svg; the same attention gives the same bytes.

    Raises:
        DataError: the file cannot be written.
    """
    import matplotlib

    form = path.suffix.removeprefix(".")
    metadata = {"Date": None} if form == "svg" else {}
    with writing(path) as file, matplotlib.rc_context({"svg.hashsalt": "nmt"}), _boxes_told_once():
        draw(attention).savefig(file, format=form, dpi=DPI, metadata=metadata)


def pixels(attention: WordAttention) -> NDArray[np.uint8]:
    """A picture as (height, width, 3) red, green and blue, 0 to 255."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with _boxes_told_once():
        canvas = FigureCanvasAgg(draw(attention))
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_each(translations: Iterable[Translation], folder: Path, form: str) -> Iterator[Translation]:
    """Pass translations on, and save a picture of each that is not of a blank line: folder/0007.png for the seventh line."""
    drawn = 0
    for number, translation in enumerate(translations, 1):
        if translation.parts:
            save_picture(folder / f"{number:04}.{form}", word_attention(translation.parts[:DRAWN]))
            drawn += 1
            if drawn == MANY + 1:
                log.warning("attention=%s holds more than %s pictures now, one for each line", folder, f"{MANY:,}")
        yield translation


def _label(word: str) -> str:
    """A word as it can be drawn: at most 24 characters, and a dot for each that does not show."""
    shown = "".join(character if character.isprintable() else "·" for character in word)
    return shown if len(shown) <= 24 else f"{shown[:23]}…"


def _lengths(labels: list[str]) -> list[float]:
    """How long each label will be, in inches."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer, font = RendererAgg(1, 1, 72), FontProperties(family=list(_families()), size=FONT)
    return [renderer.get_text_width_height_descent(label, font, False)[0] / 72 for label in labels]


@cache
def _families() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return "DejaVu Sans", *(name for name in FALLBACKS if name in installed)


@contextmanager
def _boxes_told_once() -> Iterator[None]:
    """One line of warning, once, in place of matplotlib's warning for each character that no font has."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph")
        yield
    if any("Glyph" in str(warning.message) for warning in caught):
        _tell_of_boxes()


@cache
def _tell_of_boxes() -> None:
    log.warning("no installed font has all characters of the pictures: boxes stand for some; install a font, such as Noto Sans CJK")
