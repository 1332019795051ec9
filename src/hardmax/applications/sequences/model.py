"""The sequence GAN: a generator of token sequences, and the discriminator that trains it."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.data.sequences import format_tokens
from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.nn import build_leaky_relu
from hardmax.spaces import Categorical

State = tuple[Tensor, Tensor]


@final
class SequenceGenerator(nn.Module):
    r"""An LSTM that samples sequences: it draws each token given the tokens before it.

    $$ q(x) = \prod_t \mathrm{softmax}(\mathrm{scores}_t(x_{<t}))[x_t], \qquad
       x_t = \arg\max_k \,(\mathrm{scores}_{tk} + g_{tk}) $$

    With Gumbel noise g the sequence is a function $G(g)$ of the noise, in which the arg max has no derivative. For
    training, `sequence_expectation` replaces this derivative by an estimator of the gradient.

    Args:
        tokens: K, the number of different tokens.
        length: T, the length of all sequences; shorter ones are padded with a separate token.
        hidden: width of the LSTM.

    Example:
        >>> import torch
        >>> from hardmax.applications.sequences import SequenceGenerator
        >>> generator = SequenceGenerator(tokens=5, length=8)
        >>> z = generator.draw(100)
        >>> z.shape, generator.log_prob(z).shape
        (torch.Size([100, 8, 5]), torch.Size([100]))

    References:
        Hochreiter & Schmidhuber, "Long short-term memory", 1997; Yu et al., "SeqGAN", 2017.
    """

    def __init__(self, tokens: int, length: int, hidden: int = 64) -> None:
        super().__init__()
        self.space, self.length = Categorical(tokens), length
        self.cell = nn.LSTMCell(tokens, hidden)  # reads one-hot tokens: its weights contain the embedding
        self.head = nn.Linear(hidden, tokens)

    def begin(self, count: int) -> tuple[Float[Tensor, "N K"], State]:
        """Return zeros, the input before the first token of `count` sequences, and the initial state."""
        weight = self.head.weight
        state = weight.new_zeros(count, self.cell.hidden_size)
        return weight.new_zeros(count, self.space.k), (state, state)

    def step(self, z: Float[Tensor, "N K"], state: State) -> tuple[Float[Tensor, "N K"], State]:
        """Read a token `[N, K]`; return the scores of the next one `[N, K]`, and the new state."""
        state = self.cell(z, state)
        return self.head(state[0]), state

    def scores(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
        """Return the scores of every token of sequences, given the tokens before it."""
        before, state = self.begin(len(z))
        outputs = []
        for token in z.unbind(1):
            scores, state = self.step(before, state)
            outputs.append(scores)
            before = token
        return torch.stack(outputs, 1)

    def log_prob(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N"]:
        r"""Return $\log q(x)$ of sequences."""
        return self.space.log_prob(self.scores(z), z).sum(-1)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Float[Tensor, "*_ T K"]:
        """Draw the Gumbel noise of sequences, `[*shape, T, K]`."""
        weight = self.head.weight
        return self.space.noise((*shape, self.length), generator, dtype=weight.dtype, device=weight.device)

    @torch.no_grad()
    def draw(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "N T K"]:
        """Draw `count` sequences, one-hot."""
        return self.draw_from_noise(self.noise((count,), generator))

    @torch.no_grad()
    def draw_from_noise(self, noise: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
        """Return the sequences that the noise determines, one-hot."""
        z, state = self.begin(len(noise))
        tokens = []
        for token_noise in noise.unbind(1):
            scores, state = self.step(z, state)
            z = self.space.draw(scores, token_noise[None])[0]
            tokens.append(z)
        return torch.stack(tokens, 1)

    at = RenamedMember("draw_from_noise")


@final
class SequenceDiscriminator(nn.Module):
    r"""A GRU that returns, for every prefix of a sequence, the logit that a real sequence begins with it.

    The optimal discriminator gives the prefix $x_1, \ldots, x_t$ the logit

    $$ \log \frac{p(x_1, \ldots, x_t)}{q(x_1, \ldots, x_t)}. $$

    The logits show at which token a sequence goes wrong. To evaluate another token at a position costs one step of the
    GRU.

    Args:
        tokens: K, the number of different tokens.
        hidden: width of the GRU.

    Example:
        >>> import torch
        >>> from hardmax.applications.sequences import SequenceDiscriminator
        >>> SequenceDiscriminator(tokens=5)(torch.zeros(100, 8, 5)).shape
        torch.Size([100, 8])

    References:
        Logits of every prefix: de Masson d'Autume et al., "Training language GANs from scratch", 2019.
    """

    def __init__(self, tokens: int, hidden: int = 64) -> None:
        super().__init__()
        self.cell = nn.GRUCell(tokens, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), build_leaky_relu(), nn.Linear(hidden, 1))

    def begin(self, count: int) -> Float[Tensor, "N H"]:
        """Return the state before the first token of `count` sequences."""
        return self.cell.weight_hh.new_zeros(count, self.cell.hidden_size)

    def step(self, z: Float[Tensor, "N K"], state: Float[Tensor, "N H"]) -> tuple[Tensor, Tensor]:
        """Read a token `[N, K]`; return the logits of the prefixes that end with it `[N]`, and the new state."""
        state = self.cell(z, state)
        return self.head(state).squeeze(-1), state

    def forward(self, z: Float[Tensor, "N T K"]) -> Float[Tensor, "N T"]:
        """Return the logits of all prefixes of sequences."""
        state = self.begin(len(z))
        logits = []
        for token in z.unbind(1):
            logit, state = self.step(token, state)
            logits.append(logit)
        return torch.stack(logits, 1)


@final
class SequenceGAN(AbstractModel):
    """A generative adversarial network: an LSTM generates sequences, and a GRU distinguishes them from real ones.

    Args:
        generator: samples sequences.
        discriminator: returns a logit for every prefix of a sequence.
        symbols: the text of each token.
        between: separator between two tokens.

    Example:
        >>> import torch
        >>> from hardmax.applications.sequences import SequenceGAN
        >>> model = SequenceGAN.build(["", "a", "cat", "sleeps"], length=3)
        >>> z = model.generator.draw(10)
        >>> model.discriminator(z).shape, len(model.to_texts(z))
        (torch.Size([10, 3]), 10)

    References:
        Goodfellow et al., "Generative adversarial nets", 2014; Yu et al., "SeqGAN", 2017.
    """

    kind = "sequence-gan"

    def __init__(
        self,
        generator: SequenceGenerator,
        discriminator: SequenceDiscriminator,
        symbols: Sequence[str],
        between: str = " ",
    ) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        self.symbols, self.between = tuple(symbols), between

    @classmethod
    def build(
        cls,
        symbols: Sequence[str],
        length: int,
        *,
        hidden: int = 64,
        discriminator_hidden: int = 64,
        between: str = " ",
    ) -> "SequenceGAN":
        """Return a model with the built-in networks.

        Args:
            symbols: the text of each token, all different; "" is the padding after the end of a sentence.
            length: T, the length of all sequences.
            hidden: width of the generator's LSTM.
            discriminator_hidden: width of the discriminator's GRU.
            between: separator between two tokens.

        Raises:
            ArgumentError: there are fewer than two symbols, or duplicates, or the length is below 1.
        """
        if len(set(symbols)) < max(len(symbols), 2):
            raise ArgumentError(f"symbols must be two or more, all different, got {list(symbols)}")
        if length < 1:
            raise ArgumentError(f"length must be at least 1, got {length}")
        model = cls(
            SequenceGenerator(len(symbols), length, hidden),
            SequenceDiscriminator(len(symbols), discriminator_hidden),
            symbols,
            between,
        )
        model._config = {
            "architecture": "recurrent",
            "symbols": list(symbols),
            "length": length,
            "hidden": hidden,
            "discriminator_hidden": discriminator_hidden,
            "between": between,
        }
        return model

    def sample(self, count: int, *, generator: torch.Generator | None = None) -> tuple[list[str], Int64[Tensor, "N T"]]:
        """Draw `count` sequences; return them as texts and as tokens `[count, T]`."""
        z = self.generator.draw(count, generator=generator)
        return self.to_texts(z), z.argmax(-1)

    def to_texts(self, z: Float[Tensor, "N T K"]) -> list[str]:
        """Return sequences as readable texts."""
        return [format_tokens(tokens, self.symbols, self.between) for tokens in z.argmax(-1).tolist()]

    texts = RenamedMember("to_texts")

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "SequenceGAN":
        return cls.build(
            config["symbols"],
            config["length"],
            hidden=config["hidden"],
            discriminator_hidden=config["discriminator_hidden"],
            between=config["between"],
        )
