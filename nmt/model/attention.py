"""Where to look: a decoder state and the annotations of a sentence give weights over its positions, and their average."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.errors import ConfigError
from nmt.model.norm import make_norm

MASKED = -1e9  # finite, so that no row can become NaN; exp(MASKED) is exactly 0


@dataclass(frozen=True)
class Memory:
    """What the decoder looks at: made once per sentence, shared by all its decoder states.

    Attributes:
        annotations: (B, S, 2H), h_j = [→h_j ; ←h_j], zero at padding; for none (B, 1, 2H), the one vector of the sentence.
        keys: what the attention precomputes of them, in at least float32: (B, S, A) for additive, (B, S, D) for dot and general;
            empty for none.
        mask: (B, S) bool, True at real tokens; at least one in each row.
    """

    annotations: Tensor
    keys: Tensor
    mask: Tensor

    def select(self, sentences: Tensor) -> "Memory":
        """The memory of some sentences, (B',) int64, in that order."""
        return Memory(*(x.index_select(0, sentences) for x in (self.annotations, self.keys, self.mask)))

    def project(self, product: Callable[[Tensor], Tensor]) -> "Memory":
        """The same with a linear map of the annotations, (…, 2H) to (…, N), in their place: averages come out mapped."""
        return Memory(product(self.annotations), self.keys, self.mask)


def attend(energies: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """α_ij = exp(e_ij) / Σ_k exp(e_ik) over source positions, c_i = Σ_j α_ij h_j (Bahdanau et al. 2015, equations 5 and 6).

    Args:
        energies: (B, K, S), at least float32.
        memory: annotations (B, S, 2H), mask (B, S).

    Returns:
        context (B, K, 2H) and weights (B, K, S); each row of weights sums to 1 and is exactly 0 at padding.
    """
    weights = energies.masked_fill(~memory.mask.unsqueeze(1), MASKED).softmax(-1)
    return torch.bmm(weights.to(memory.annotations.dtype), memory.annotations), weights


class Additive(nn.Module):
    """e_ij = v·tanh(W_a s_{i−1} + U_a h_j) (Bahdanau et al. 2015, appendix A.1.2).

    tanh is the slowest function on a CPU. tanh(x) = 2σ(2x) − 1, and softmax ignores a constant, so the energies are
    2v·σ(2W_a s + 2U_a h): the same weights. Keys are stored doubled, 2U_a h_j. With layer normalisation both products are normalised.
    """

    def __init__(self, state_size: int, annotation_size: int, attention_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(state_size, attention_size, bias=False)
        self.key = nn.Linear(annotation_size, attention_size, bias=False)
        self.energy = nn.Parameter(torch.empty(attention_size))
        self.norm_query, self.norm_key = make_norm(layer_norm, attention_size), make_norm(layer_norm, attention_size)

    def memory(self, annotations: Tensor, mask: Tensor) -> Memory:
        return Memory(annotations, _full(2 * self.norm_key(self.key(annotations))), mask)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Weighted average of the annotations as seen from K decoder states of each sentence.

        Args:
            state: (B, K, D), s_{i-1}, the states before this target token.
            memory: as `memory` made it.

        Returns:
            context (B, K, 2H) and weights (B, K, S), as `attend` returns them. The same in the other classes of this file.
        """
        return self.look(_full(2 * self.norm_query(self.query(state))), memory)

    def look(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """`forward` from the doubled query 2W_a s_{i−1}, (B, K, A), normalised."""
        with torch.autocast(query.device.type, enabled=False):
            energies = (query.unsqueeze(2) + memory.keys.unsqueeze(1)).sigmoid_() @ (2 * self.energy)
        return attend(energies, memory)


class Dot(nn.Module):
    """e_ij = s_{i−1}·h_j (Luong et al. 2015, section 3.1); states and annotations have the same size."""

    def memory(self, annotations: Tensor, mask: Tensor) -> Memory:
        return Memory(annotations, _full(annotations), mask)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        return attend(_products(state, memory.keys), memory)


class General(nn.Module):
    """e_ij = s_{i−1}·W_a h_j (Luong et al. 2015, section 3.1)."""

    def __init__(self, state_size: int, annotation_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation_size, state_size, bias=False)

    def memory(self, annotations: Tensor, mask: Tensor) -> Memory:
        return Memory(annotations, _full(self.key(annotations)), mask)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        return attend(_products(state, memory.keys), memory)


class NoAttention(nn.Module):
    """c_i = [→h_S ; ←h_1] for every i: the encoder-decoder with one fixed vector that attention replaced (Cho et al. 2014).

    There is no alignment: its weights are zero everywhere.
    """

    def memory(self, annotations: Tensor, mask: Tensor) -> Memory:
        rows = torch.arange(mask.shape[0], device=mask.device)
        rightward, leftward = annotations.chunk(2, -1)
        last = torch.cat((rightward[rows, mask.sum(1) - 1], leftward[:, 0]), -1)
        return Memory(last.unsqueeze(1), _full(last[:, :0]), mask)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        weights = memory.keys.new_zeros(*state.shape[:2], memory.mask.shape[1])
        return memory.annotations.expand(-1, state.shape[1], -1), weights


Attention = Additive | Dot | General | NoAttention


def make_attention(config: ModelConfig) -> Attention:
    """The attention that the configuration names.

    Raises:
        ConfigError: for dot, when the decoder's state has another size than an annotation.
    """
    annotation_size = 2 * config.encoder_size
    if config.attention == "additive":
        return Additive(config.decoder_size, annotation_size, config.attention_size, config.layer_norm)
    if config.attention == "general":
        return General(config.decoder_size, annotation_size)
    if config.attention == "none":
        return NoAttention()
    if config.decoder_size != annotation_size:
        raise ConfigError(
            f"model.attention=dot needs model.decoder_size = 2 x model.encoder_size = {annotation_size}, not {config.decoder_size}: "
            f"set model.decoder_size={annotation_size}, or use model.attention=general"
        )
    return Dot()


def _full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _products(state: Tensor, keys: Tensor) -> Tensor:
    with torch.autocast(state.device.type, enabled=False):
        return torch.bmm(_full(state), keys.transpose(1, 2))
