"""Options of the training of a sequence GAN. Imports no torch."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, EstimatorName


@dataclass(frozen=True)
class SequenceGANConfig(EstimatorConfig):
    """Train a GAN of token sequences: an LSTM generates them, a discriminator distinguishes them from real ones.

    Example: hardmax train --model sequence-gan --data agreement --epochs 20 --out runs/sentences
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("length",),
        "model": ("hidden", "discriminator_hidden"),
        "estimator": ("credit",),
        "optimisation": (
            "loss", "discriminator_steps", "discriminator_rate", "penalty", "momentum", "pretrain_epochs",
        ),
        "run": ("evaluate_draws",),
    }  # fmt: skip

    model: Literal["sequence-gan"] = "sequence-gan"
    data: str = "agreement"
    """Language with a known grammar (agreement, brackets), text by character (constitution), or the path of a grammar
    (.grammar) or text file of your own."""
    length: int | None = None
    """Number of tokens of the longest sentence, or of a piece of a text; default: 5 for agreement, 8 for brackets and
    your own grammar, 16 for texts."""
    epochs: int = 20
    """Number of passes over the training set."""
    estimator: EstimatorName = "averaged-direct"
    """Estimator of the generator's gradient. Sample-style estimators (gumbel-softmax, straight-through, reinmax, ...)
    differentiate through the tokens; all others are applied at each position, given the tokens before it."""
    credit: Literal["prefix", "rollout"] = "prefix"
    """Reward of a token, for estimators that are applied at each position. prefix: that of the prefix that ends with
    the token. rollout: the sum over all prefixes from there on, with the rest of the sequence sampled after it."""
    loss: Literal["log-ratio", "non-saturating", "saturating"] = "log-ratio"
    """Reward of the generator: log D / (1 - D) (log-ratio), log D (non-saturating), or -log(1 - D) (saturating)."""
    discriminator_steps: int = 1
    """Number of updates of the discriminator for each update of the generator."""
    discriminator_rate: float = 1.0
    """Learning rate of the discriminator, as a multiple of the learning rate of the generator."""
    penalty: float = 0.3
    """Weight of the R1 penalty, the squared gradient norm of the discriminator at real sequences, which lets training
    converge; 0: no penalty."""
    momentum: float = 0.5
    """First beta of Adam; a low value damps the oscillations of adversarial training."""
    pretrain_epochs: int = 0
    """Number of first epochs in which the generator is trained by maximum likelihood; the discriminator is trained as
    usual. 0: the GAN is trained from scratch."""
    hidden: int = 64
    """Width of the LSTM of the generator."""
    discriminator_hidden: int = 64
    """Width of the GRU of the discriminator."""
    evaluate_draws: int = 1000
    """Number of sequences to sample after each epoch, for the metrics that are not computed exactly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("length", "discriminator_steps", "hidden", "discriminator_hidden", "evaluate_draws")
        self.need_positive("discriminator_rate")
        for name in ("penalty", "pretrain_epochs"):
            if getattr(self, name) < 0:
                raise ArgumentError(f"{name.replace('_', '-')} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"momentum must be at least 0 and below 1, got {self.momentum}")

    def list_data_names(self) -> Collection[str]:
        """Return the names of the languages and texts that come with hardmax."""
        from hardmax.data.sequences import LANGUAGES, TEXTS

        return {*LANGUAGES, *TEXTS}

    @property
    def learning_rate(self) -> float:
        """The learning rate; 4e-3 by default."""
        return 4e-3 if self.lr is None else self.lr
