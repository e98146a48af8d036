"""Layer normalisation."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Norm(nn.Module):
    """Shifts and scales each vector to mean 0 and deviation 1, then by what is learnt (Ba et al. 2016, section 3); at least float32.

    Gain and offset have the shape given, of which the last dimension is that of the vectors.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor, roll: int = 0) -> Tensor:
        """x (…, N) normalised. Its elements may be rolled (Tensor.roll) against those of gain and offset."""
        normal = functional.layer_norm(x.to(torch.promote_types(x.dtype, torch.float32)), x.shape[-1:])
        return torch.addcmul(self.bias.roll(roll, -1), normal, self.weight.roll(roll, -1))


def make_norm(wanted: bool, *shape: int) -> Norm | nn.Identity:
    """A normalisation, or what leaves everything as it is."""
    return Norm(*shape) if wanted else nn.Identity()
