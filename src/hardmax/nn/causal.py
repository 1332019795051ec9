"""A small transformer that predicts each token of a sequence from those before it."""

from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from hardmax.errors import ArgumentError


@final
class CausalTransformer(nn.Module):
    """Scores of every token given those before it, for sequences of one length.

    Args:
        tokens: K, values of a token.
        length: n.
        width: of the vectors in between; a multiple of heads.
        layers: how many.
        heads: of each layer.

    Raises:
        ArgumentError: width is no multiple of heads, or a number is below 1.

    Example:
        >>> import torch
        >>> network = CausalTransformer(tokens=128, length=49, width=64, layers=2, heads=2)
        >>> network(torch.zeros(5, 49, dtype=torch.long)).shape
        torch.Size([5, 49, 128])

    References:
        Radford et al., "Language models are unsupervised multitask learners", 2019.
    """

    def __init__(self, tokens: int, length: int, width: int = 128, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        if min(tokens, length, width, layers, heads) < 1 or width % heads:
            raise ArgumentError(
                f"a transformer needs numbers of at least 1 and a width that is a multiple of heads, got {tokens=}, "
                f"{length=}, {width=}, {layers=}, {heads=}"
            )
        self.tokens = nn.Embedding(tokens, width)
        self.start = nn.Parameter(0.02 * torch.randn(width))
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, tokens))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Int64[Tensor, "B m"]) -> Float[Tensor, "B m_or_n K"]:
        """Return the scores of each token given those before it, the first from none.

        A sequence of m < n tokens gets m + 1 scores: those of its own tokens, and of the one that comes next.
        """
        shifted = torch.cat([self.start.expand(len(tokens), 1, -1), self.tokens(tokens)], 1)[:, : len(self.places)]
        return self.scores(self.blocks(shifted + self.places[: shifted.shape[1]]))


@final
class _Block(nn.Module):
    """What came before is looked at, then thought about; both are added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.thought = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        split = self.before(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(*split, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.mixed(seen)
        return x + self.thought(self.norms[1](x))
