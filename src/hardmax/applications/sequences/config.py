"""Options of a sequence GAN's training. No torch here."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, EstimatorName


@dataclass(frozen=True)
class SequenceGANConfig(EstimatorConfig):
    """Train an LSTM that writes sequences against a discriminator that tells them from real ones.

    Example: hardmax train --model sequence-gan --data agreement --epochs 20 --out runs/sentences
    """

    model: Literal["sequence-gan"] = "sequence-gan"
    data: str = "agreement"
    """agreement, brackets: languages with a known grammar; constitution: a text, by character; or the path of a
    grammar (.grammar) or of any text of your own."""
    length: int | None = None
    """Tokens of the longest sentence, or of a piece of a text; default: 5 for agreement, 8 for brackets and your own
    grammar, 16 for texts."""
    epochs: int = 20
    """Number of passes over the training set."""
    estimator: EstimatorName = "averaged-direct"
    """What stands in for the derivative of the arg max: a sample-style estimator (gumbel-softmax, straight-through,
    reinmax, ...) goes back through the tokens; any other is asked at each position, given the tokens before."""
    credit: Literal["prefix", "rollout"] = "prefix"
    """What a token is worth to an estimator that is asked at each position: what the discriminator says of the prefix
    that ends with it, or of all prefixes to the end, the rest drawn after it."""
    loss: Literal["log-ratio", "non-saturating", "saturating"] = "log-ratio"
    """What the generator gains: log D / (1 - D), log D, or -log(1 - D)."""
    discriminator_steps: int = 1
    """Turns of the discriminator for each one of the generator."""
    discriminator_rate: float = 1.0
    """Learning rate of the discriminator, in that of the generator."""
    penalty: float = 0.3
    """Weight of the squared slope of the discriminator at real sequences (R1), which lets the game come to rest; 0:
    none."""
    momentum: float = 0.5
    """First beta of Adam; a game that goes round in circles wants little."""
    pretrain_epochs: int = 0
    """Epochs in which the generator is trained by likelihood first, while the discriminator looks on; then it is no
    GAN from scratch any more."""
    hidden: int = 64
    """Width of the generator's LSTM."""
    discriminator_hidden: int = 64
    """Width of the discriminator's GRU."""
    evaluate_draws: int = 1000
    """Sequences that are drawn after each epoch for what is not computed exactly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("length", "discriminator_steps", "hidden", "discriminator_hidden", "evaluate_draws")
        self.need_positive("discriminator_rate")
        for name in ("penalty", "pretrain_epochs"):
            if getattr(self, name) < 0:
                raise ArgumentError(f"{name.replace('_', '-')} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum must be at least 0 and below 1, got {self.momentum}")

    @property
    def learning_rate(self) -> float:
        """The learning rate; 4e-3 by default."""
        return 4e-3 if self.lr is None else self.lr
