"""What is read of a sequence GAN's run."""

from dataclasses import dataclass

from torch import Tensor

from hardmax.models import SequenceGAN
from hardmax.report.run import Bounded, Run
from hardmax.training.sequence_gan.config import SequenceGANConfig


@dataclass(frozen=True)
class SequenceGANMeasured(Bounded):
    """A row of a sequence GAN; of train only the game is measured, of the other splits all else."""

    validity: float | None
    coverage: float | None
    entropy: float | None
    divergence: float | None
    distinct: float | None
    reward: float | None
    discriminator_loss: float | None


# The test sequences are `[N, T]`.
SequenceGANRun = Run[SequenceGANConfig, SequenceGAN, SequenceGANMeasured, Tensor]
