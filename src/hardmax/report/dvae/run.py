"""What is read of a dVAE's run."""

from dataclasses import dataclass

from torch import Tensor

from hardmax.models import TokenVAE
from hardmax.report.run import MeasuredVAE, Run
from hardmax.training.dvae.config import DvaeConfig


@dataclass(frozen=True)
class DvaeMeasured(MeasuredVAE):
    """A row of a dVAE; `nll` and what is told of tokens are not measured for train."""

    mse: float | None
    perplexity: float | None
    alive: float | None


# The test pictures are `[N, channels, H, W]`.
DvaeRun = Run[DvaeConfig, TokenVAE, DvaeMeasured, Tensor]
