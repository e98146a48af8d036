"""How training speed changes with length, batch, vocabulary and hidden size, for scripts/benchmark.py: a table and a picture."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
from benchmark_training import build_system, random_batch, seconds
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nmt.config import TrainConfig
from nmt.files import writing

AXES: dict[str, Sequence[int]] = {
    "length": (10, 20, 40, 80),
    "batch": (16, 32, 64, 128),
    "vocabulary": (4000, 8000, 16000, 32000),
    "hidden": (128, 256, 512, 1024),
}
BASE = {"length": 20, "batch": 64, "vocabulary": 8000, "hidden": 512}
TITLES = {"length": "tokens of a sentence", "batch": "sentences of a batch", "vocabulary": "vocabulary", "hidden": "hidden size"}
SYSTEMS = {"fp32": "ours, fp32", "textbook": "textbook loop"}
COLORS = {"fp32": "C0", "textbook": "0.45"}
MOST_UPDATES = 5
ENOUGH_SECONDS = 3.0  # after which no further update is timed
DPI = 120  # as nmt/pictures.py

Scaling = dict[str, list[dict[str, Any]]]


def measure_scaling(config: TrainConfig, axes: Mapping[str, Sequence[int]] = AXES, base: Mapping[str, int] = BASE) -> Scaling:
    """Target tokens a second of ours and of the textbook, on random sentences of equal length; one axis varies, the others are at `base`.

    Returns:
        For each axis a list of {"value": …, "fp32": …, "textbook": …}.
    """
    known: dict[tuple[int, ...], dict[str, float]] = {}  # the base lies on all axes
    for axis, values in axes.items():
        for value in values:
            point = {**base, axis: value}
            if tuple(point.values()) not in known:
                print(f"{TITLES[axis]}: {value:,}", file=sys.stderr, flush=True)
                known[tuple(point.values())] = {name: _rate(name, config, **point) for name in SYSTEMS}
    return {axis: [{"value": value, **known[tuple({**base, axis: value}.values())]} for value in values] for axis, values in axes.items()}


def _rate(name: str, config: TrainConfig, length: int, batch: int, vocabulary: int, hidden: int) -> float:
    """The median rate of a few updates, in target tokens a second."""
    sizes = {"encoder_size": hidden, "decoder_size": hidden, "attention_size": hidden, "readout_size": hidden}
    system = build_system(name, replace(config, model=replace(config.model, **sizes)), vocabulary, 0)  # type: ignore[arg-type]
    sentences, taken = random_batch(batch, length, vocabulary), list[float]()
    system.update(sentences if name == "fp32" else random_batch(batch, 3, vocabulary))  # warms up
    while len(taken) < MOST_UPDATES and sum(taken) < ENOUGH_SECONDS:
        taken.append(seconds(lambda: system.update(sentences)))
    return sentences.tokens / statistics.median(taken)


def scaling_table(scaling: Scaling) -> str:
    """The figures to read, in target tokens a second."""
    lines = []
    for axis, points in scaling.items():
        lines += [f"{TITLES[axis]:<22}" + "".join(f"{point['value']:>9,}" for point in points)]
        lines += [f"  {told:<20}" + "".join(f"{point[name]:>9,.0f}" for point in points) for name, told in SYSTEMS.items()]
        lines += [f"  {'times faster':<20}" + "".join(f"{point['fp32'] / point['textbook']:>9.1f}" for point in points), ""]
    return "\n".join(lines[:-1])


def draw_scaling(path: Path, scaling: Scaling) -> None:
    """Write a picture, .png or .svg: an axis a panel; the same figures give the same bytes.

    Raises:
        DataError: the file cannot be written.
    """
    form = path.suffix.removeprefix(".")
    metadata = {"Date": None} if form == "svg" else {}
    with writing(path) as file, matplotlib.rc_context({"svg.hashsalt": "nmt"}):
        _figure(scaling).savefig(file, format=form, dpi=DPI, metadata=metadata)


def _figure(scaling: Scaling) -> Figure:
    """Both scales are logarithmic, so that equal distances are equal factors."""
    figure = Figure(figsize=(2.6 * len(scaling), 2.8), dpi=DPI, layout="constrained")
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}")
    panels = figure.subplots(1, len(scaling), sharey=True, squeeze=False)[0]
    for panel, (axis, points) in zip(panels, scaling.items(), strict=True):
        values = [point["value"] for point in points]
        for name, told in SYSTEMS.items():
            panel.plot(values, [point[name] for point in points], color=COLORS[name], marker="o", markersize=4, label=told)
        panel.set_xscale("log", base=2)
        panel.set_xticks(values)
        panel.xaxis.set_major_formatter(plain)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_yscale("log")
        panel.set_xlabel(TITLES[axis])
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.tick_params(labelsize=8)
        panel.grid(True, axis="y", color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].yaxis.set_major_formatter(plain)
    panels[0].set_ylabel("target tokens a second")
    panels[-1].legend(frameon=False, fontsize="small")
    return figure
