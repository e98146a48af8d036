"""Whether one side of a parallel text lost or gained a line somewhere, told from the lengths of its lines."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LAGS = 10  # in lines; also tried is the difference between the numbers of lines of the two sides
SURROUNDINGS = 25  # lines on either side
TURNS = 20  # that many stretches at most
MARGIN = 2.0  # standard errors, beyond what the best of all that is tried would have by chance

Relative = NDArray[np.float32]


@dataclass(frozen=True)
class Shift:
    """From line `first` to line `last` of the source, counted from 1, line n belongs to line n + lag of the target."""

    first: int
    last: int
    lag: int
    standard_errors: float

    def __str__(self) -> str:
        place = f"from about line {self.first:,} to {self.last:,}"
        return f"{place}, line n of the source belongs to line n{self.lag:+,} of the target ({self.standard_errors:.0f} standard errors)"


def find_shifts(src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> list[Shift]:
    """The stretches of a text whose sides fit clearly better when one of them is moved by some lines; in order, without overlap.

    Long lines have long translations. How long a line is, is log(1 + characters), compared with its surroundings, so that neither long
    and short documents nor sorted lines matter; how badly two lines fit is the difference d of that, at most 1. A line's gain from a
    lag k is g_i = d(i, i) − d(i, i + k), or 0 where a blank line takes part: negative on the average while the sides are aligned,
    positive once they have moved by k. The stretch with the largest Σ g is where k may hold (Page, 1954), and z = Σ g / √(Σ g²) says
    how surely: of symmetric terms z exceeds t with probability exp(−t²/2) at most, whatever their distribution (Efron, 1969), and the
    largest of m such sums is about √(2 log m). So a shift needs a hundred lines or two to show.

    Args:
        src_lengths: characters of each source line, 0 for a blank one.
        tgt_lengths: of each target line; as many, or not.
    """
    if not src_lengths or not tgt_lengths:
        return []
    src, tgt = _relative(src_lengths), _relative(tgt_lengths)
    common, difference = min(len(src), len(tgt)), len(tgt) - len(src)
    lags = [lag for lag in {*range(-LAGS, LAGS + 1), difference} if abs(lag) < common]
    enough = MARGIN + float(np.sqrt(2 * np.log(common * len(lags))))
    aligned = _misfits(src, tgt, 0)
    current, held = aligned.copy(), np.zeros(common, dtype=np.int64)
    for _ in range(TURNS):  # each over what the ones before found, so that lags share a stretch out
        gain, start, end, lag = max((*_best_stretch(current - _misfits(src, tgt, lag), enough), lag) for lag in lags)
        if gain == 0:
            break
        current[start:end], held[start:end] = _misfits(src, tgt, lag)[start:end], lag
    edges = [0, *(np.flatnonzero(np.diff(held)) + 1).tolist(), common]
    stretches = [(start, end, int(held[start])) for start, end in itertools.pairwise(edges) if held[start]]
    shifts = [Shift(start + 1, end, lag, _standard_errors((aligned - _misfits(src, tgt, lag))[start:end])) for start, end, lag in stretches]
    return [shift for shift in shifts if shift.standard_errors > enough]


def _relative(lengths: Sequence[int]) -> Relative:
    """How much longer each line is than the mean of its surroundings, as a logarithm; nan for a blank one."""
    text = np.asarray(lengths, dtype=np.float64)
    sums, counts = (np.concatenate(([0.0], np.cumsum(values))) for values in (np.log1p(text), text > 0))
    place = np.arange(len(text))
    low, high = np.maximum(place - SURROUNDINGS, 0), np.minimum(place + SURROUNDINGS + 1, len(text))
    means = (sums[high] - sums[low]) / np.maximum(counts[high] - counts[low], 1)
    return np.where(text > 0, np.log1p(text) - means, np.nan).astype(np.float32)


def _misfits(src: Relative, tgt: Relative, lag: int) -> Relative:
    """How badly each line of the source fits the one that the lag gives it; nan where there is none, or one of them is blank."""
    misfits = np.full(min(len(src), len(tgt)), np.nan, dtype=np.float32)
    start, end = max(0, -lag), min(len(misfits), len(tgt) - lag)
    misfits[start:end] = np.minimum(np.abs(src[start:end] - tgt[start + lag : end + lag]), 1)
    return misfits


def _best_stretch(gains: Relative, enough: float) -> tuple[float, int, int]:
    """The largest sum of a stretch of gains, its start and its end; 0 where that is not sure enough."""
    sums = np.concatenate(([0.0], np.cumsum(np.nan_to_num(gains), dtype=np.float64)))
    end = int(np.argmax(sums - np.minimum.accumulate(sums)))
    start = int(np.argmin(sums[: end + 1]))
    return (float(sums[end] - sums[start]), start, end) if _standard_errors(gains[start:end]) > enough else (0.0, 0, 0)


def _standard_errors(gains: Relative) -> float:
    return float(np.nansum(gains, dtype=np.float64) / max(1e-9, np.sqrt(np.nansum(gains**2, dtype=np.float64))))
