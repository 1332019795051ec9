"""A network that tells real sequences from generated ones, after every token of them."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.nn import leaky


@final
class SequenceDiscriminator(nn.Module):
    """A GRU that judges every prefix of a sequence: the logit of its being the beginning of a real one.

    The best one gives the prefix `x_1..x_t` the logit `log p(x_1..x_t) / q(x_1..x_t)`. It says at which token a
    sequence goes wrong, and costs one step more for every token that might stand there instead.

    Args:
        tokens: K, how many there are.
        hidden: width of the GRU.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.SequenceDiscriminator(tokens=5)(torch.zeros(100, 8, 5)).shape
        torch.Size([100, 8])

    References:
        Judging every prefix: de Masson d'Autume et al., "Training language GANs from scratch", 2019.
    """

    def __init__(self, tokens: int, hidden: int = 64) -> None:
        super().__init__()
        self.cell = nn.GRUCell(tokens, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), leaky(), nn.Linear(hidden, 1))

    def begin(self, count: int) -> Float[Tensor, "N H"]:
        """Return the state before the first token of so many sequences."""
        return self.cell.weight_hh.new_zeros(count, self.cell.hidden_size)

    def step(self, z: Float[Tensor, "N K"], state: Float[Tensor, "N H"]) -> tuple[Tensor, Tensor]:
        """Read a token `[N, K]`; return the logits of the prefixes that end with it `[N]`, and the state there."""
        state = self.cell(z, state)
        return self.head(state).squeeze(-1), state

    def forward(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N T"]:
        """Return the logits of all prefixes of sequences."""
        state = self.begin(len(z))
        logits = []
        for token in z.unbind(1):
            found, state = self.step(token, state)
            logits.append(found)
        return torch.stack(logits, 1)
