"""The sequence GAN: a generator of tokens, and the discriminator that teaches it."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.data.sequences import written
from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.models.sequence_discriminator import SequenceDiscriminator
from hardmax.models.sequence_generator import SequenceGenerator


@final
class SequenceGAN(AbstractModel):
    """An LSTM that writes, and a GRU that tells what is written from what is real.

    Args:
        generator: draws sequences.
        discriminator: judges every prefix of them.
        symbols: what each token is called.
        between: what is written between two tokens.

    Example:
        >>> import torch, hardmax as hm
        >>> model = hm.SequenceGAN.build(["", "a", "cat", "sleeps"], length=3)
        >>> z = model.generator.draw(10)
        >>> model.discriminator(z).shape, len(model.texts(z))
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
        """Return a model with networks of our own.

        Args:
            symbols: what each token is called, all different; "" is what stands after the end of a sentence.
            length: T, of all sequences.
            hidden: width of the generator's LSTM.
            discriminator_hidden: width of the discriminator's GRU.
            between: what is written between two tokens.

        Raises:
            ArgumentError: fewer than two symbols, or one twice; a length below one.
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
        """Draw so many sequences; return them as texts and as tokens `[count, T]`."""
        z = self.generator.draw(count, generator=generator)
        return self.texts(z), z.argmax(-1)

    def texts(self, z: Float[Tensor, "N T K"]) -> list[str]:
        """Return sequences as a reader wants them."""
        return [written(tokens, self.symbols, self.between) for tokens in z.argmax(-1).tolist()]

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "SequenceGAN":
        return cls.build(
            config["symbols"],
            config["length"],
            hidden=config["hidden"],
            discriminator_hidden=config["discriminator_hidden"],
            between=config["between"],
        )
