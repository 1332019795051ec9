"""What is read of the run of a prior over tokens."""

from dataclasses import dataclass

from torch import Tensor

from hardmax.models import TokenPrior
from hardmax.report.run import MeasuredVAE, Run
from hardmax.training.token_prior.config import TokenPriorConfig


@dataclass(frozen=True)
class TokenPriorMeasured(MeasuredVAE):
    """A row of a prior over tokens; of train `kl` alone is measured."""

    bits: float | None


# The test pictures are `[N, channels, H, W]`.
TokenPriorRun = Run[TokenPriorConfig, TokenPrior, TokenPriorMeasured, Tensor]
