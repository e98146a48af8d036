"""Layer normalisation: as a module, and with its backward pass for the fast loops."""

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5  # added to the variance, as torch does it
aten = torch.ops.aten


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


class Normalization:
    """Layer normalisation in every step of a loop, with what its backward pass needs; see `Norm`."""

    def __init__(self, gain: Tensor, offset: Tensor, *, keep: bool = True) -> None:
        """Take what normalised vectors are scaled and shifted by, and whether there will be a backward pass."""
        self._gain, self._offset, self._keep = gain, offset, keep
        self._steps: list[tuple[Tensor, Tensor]] = []
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """The next step: x (…, N), of which nothing is kept, normalised."""
        normal, _, scale = torch.native_layer_norm(x, x.shape[-1:], None, None, EPSILON)
        output = torch.addcmul(self._offset, normal, self._gain)
        if self._keep:
            self._steps.append((normal, scale))
            self.outputs.append(output)
        return output

    def start_backward(self) -> None:
        """Sets all gradients to zero, as room for the sums over steps."""
        normal, scale = self._steps[0]
        self._zero, self._one = torch.zeros_like(scale), torch.ones_like(scale)
        self._d_gain, self._d_offset = torch.zeros_like(normal), torch.zeros_like(normal)

    def backward(self, t: int, d_output: Tensor, out: Tensor) -> None:
        """From the gradient of the output of step t (…, N) that of its x, into out."""
        normal, scale = self._steps[t]
        self._d_gain.addcmul_(d_output, normal)
        self._d_offset.add_(d_output)
        d_normal, shape, mask = d_output * self._gain, normal.shape[-1:], [True, False, False]
        d_x = aten.native_layer_norm_backward(d_normal, normal, shape, self._zero, self._one, None, None, mask)[0]
        torch.mul(d_x, scale, out=out)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """Those of gain and offset."""
        return self._d_gain.sum_to_size(self._gain.shape), self._d_offset.sum_to_size(self._offset.shape)
