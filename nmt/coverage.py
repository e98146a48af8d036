"""How much of the source hypotheses have looked at, and what their scores lose for the rest."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class Coverage:
    """Attention that has fallen on each source position so far, for K hypotheses of each of B sentences.

    Attributes:
        penalty: β, above 0.
        mask: (B, S) bool, True at real source positions.
        seen: (B, K, S) float32, Σ_i α_ij.
    """

    penalty: float
    mask: Tensor
    seen: Tensor

    @classmethod
    def start(cls, penalty: float, mask: Tensor) -> "Coverage | None":
        """Before the first step, with K = 1; None where the penalty is 0 and nothing need be known."""
        return cls(penalty, mask, torch.zeros(mask.shape, device=mask.device).unsqueeze(1)) if penalty > 0 else None

    def add(self, weights: Tensor) -> "Coverage":
        """After attention of these weights (B, K, S)."""
        return replace(self, seen=self.seen + weights)

    def scores(self) -> Tensor:
        """cp = β Σ_j log min(Σ_i α_ij, 1) over real source positions, (B, K) ≤ 0 (Wu et al. 2016, equation 14).

        A position that was never looked at counts as one that got the smallest number there is, so that the sum is finite.
        """
        counted = self.seen.masked_fill(~self.mask.unsqueeze(1), 1.0)
        return self.penalty * counted.clamp(TINY, 1.0).log().sum(2)

    def select(self, sentences: Tensor | None, beams: Tensor) -> "Coverage":
        """Keep the sentences with these indices (B',), or all where None, then of each the hypotheses `beams` (B', K')."""
        mask, seen = (self.mask, self.seen) if sentences is None else (self.mask[sentences], self.seen[sentences])
        return Coverage(self.penalty, mask, seen.gather(1, beams.unsqueeze(2).expand(-1, -1, seen.shape[2])))
