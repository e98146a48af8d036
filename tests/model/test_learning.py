"""Two hundred updates: the fast paths and half precision learn as the readable path in full precision does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.device import autocast
from nmt.model.encoder import Encoder
from nmt.model.seq2seq import Seq2Seq
from nmt.model.unroll import unroll_steps

Network = Callable[..., Seq2Seq]
UPDATES = 200


def batches() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Sentences of 1 to 6 words, whose translation is the same words from the last to the first."""
    chance = torch.Generator().manual_seed(8)
    made = []
    for _ in range(UPDATES):
        lengths = torch.randint(1, 7, (16,), generator=chance)
        words = torch.randint(4, 11, (16, 6), generator=chance)
        place = torch.arange(7)
        src = torch.where(place < lengths[:, None], torch.nn.functional.pad(words, (0, 1)), 0)
        src[torch.arange(16), lengths] = 3
        turned = (lengths[:, None] - 1 - place).clamp(min=0)
        tgt = torch.where(place < lengths[:, None], words.gather(1, turned.clamp(max=5)), 0)
        tgt[torch.arange(16), lengths] = 3
        tgt_in = torch.cat((torch.full((16, 1), 2), tgt[:, :-1]), 1)
        made.append((src, lengths + 1, tgt_in.masked_fill(tgt_in == 3, 0), tgt))
    return made


def losses(model: Seq2Seq, dtype: torch.dtype) -> list[float]:
    """Nats a token in each update."""
    optimizer, curve = torch.optim.Adam(model.parameters(), lr=0.01), []
    for batch in batches():
        with autocast(torch.device("cpu"), dtype):
            smoothed, nll = model.loss(*batch, 0.1)
        tokens = int((batch[3] != 0).sum())
        optimizer.zero_grad()
        torch.autograd.backward(smoothed / tokens)
        optimizer.step()
        curve.append(float(nll) / tokens)
    return curve


def test_the_fast_path_learns_as_the_readable_one(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = losses(network(), torch.float32)

    def states(_: Encoder, x: Tensor, reversed_x: Tensor, layer: Any, *__: Any) -> tuple[Tensor, Tensor]:
        return layer.rightward(x)[0], layer.leftward(reversed_x)[0]

    monkeypatch.setattr("nmt.model.seq2seq.unroll", unroll_steps)
    monkeypatch.setattr(Encoder, "_states", states)
    assert losses(network(), torch.float32) == pytest.approx(fast, abs=1e-7)
    assert fast[-1] < 0.6 * fast[0]


def test_half_precision_learns_as_full_does(network: Network) -> None:
    full, half = (losses(network().float(), dtype) for dtype in (torch.float32, torch.bfloat16))
    assert sum(half[-50:]) == pytest.approx(sum(full[-50:]), rel=0.03)
