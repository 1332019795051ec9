"""A network that emits a sequence, token after token."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.spaces import Categorical

State = tuple[Tensor, Tensor]


@final
class SequenceGenerator(nn.Module):
    r"""An LSTM that draws each token given those before it.

    $$ q(x) = \prod_t \mathrm{softmax}(\mathrm{scores}_t(x_{<t}))[x_t], \qquad
       x_t = \arg\max_k \,(\mathrm{scores}_{tk} + g_{tk}) $$

    With Gumbel noise g the sequence is a function of the noise: `G(g)`, in which the arg max has no derivative. What
    stands in for it is chosen where it is trained, `hardmax.sequence_expectation`.

    Args:
        tokens: K, how many there are.
        length: T, of all sequences; shorter ones are filled up with a token of their own.
        hidden: width of the LSTM.

    Example:
        >>> import torch, hardmax as hm
        >>> generator = hm.SequenceGenerator(tokens=5, length=8)
        >>> z = generator.draw(100)
        >>> z.shape, generator.log_prob(z).shape
        (torch.Size([100, 8, 5]), torch.Size([100]))

    References:
        Hochreiter & Schmidhuber, "Long short-term memory", 1997; Yu et al., "SeqGAN", 2017.
    """

    def __init__(self, tokens: int, length: int, hidden: int = 64) -> None:
        super().__init__()
        self.space, self.length = Categorical(tokens), length
        self.cell = nn.LSTMCell(tokens, hidden)  # of one-hot tokens: their embedding is in its weights
        self.head = nn.Linear(hidden, tokens)

    def begin(self, count: int) -> tuple[Float[Tensor, "N K"], State]:
        """Return what stands before the first token of so many sequences, nothing, and the state there."""
        weight = self.head.weight
        state = weight.new_zeros(count, self.cell.hidden_size)
        return weight.new_zeros(count, self.space.k), (state, state)

    def step(self, z: Float[Tensor, "N K"], state: State) -> tuple[Float[Tensor, "N K"], State]:
        """Read a token `[N, K]`; return the scores of the one after it `[N, K]`, and the state there."""
        state = self.cell(z, state)
        return self.head(state[0]), state

    def scores(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
        """Return the scores of every token of sequences, given those before it."""
        before, state = self.begin(len(z))
        found = []
        for token in z.unbind(1):
            scores, state = self.step(before, state)
            found.append(scores)
            before = token
        return torch.stack(found, 1)

    def log_prob(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N"]:
        """Return `log q(x)` of sequences."""
        return self.space.log_prob(self.scores(z), z).sum(-1)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Float[Tensor, "*_ T K"]:
        """Draw the noise of sequences, `[*shape, T, K]`."""
        weight = self.head.weight
        return self.space.noise((*shape, self.length), generator, dtype=weight.dtype, device=weight.device)

    @torch.no_grad()
    def draw(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "N T K"]:
        """Draw so many sequences, one-hot."""
        return self.at(self.noise((count,), generator))

    @torch.no_grad()
    def at(self, noise: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
        """Return the sequences of some noise, one-hot."""
        z, state = self.begin(len(noise))
        drawn = []
        for own in noise.unbind(1):
            scores, state = self.step(z, state)
            z = self.space.draw(scores, own[None])[0]
            drawn.append(z)
        return torch.stack(drawn, 1)
