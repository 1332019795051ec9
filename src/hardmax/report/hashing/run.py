"""What is read of a hash encoder's run."""

from dataclasses import dataclass

from torch import Tensor

from hardmax.models import HashEncoder
from hardmax.report.run import Measured, Run
from hardmax.training.hashing.config import HashingConfig


@dataclass(frozen=True)
class HashingMeasured(Measured):
    """A row of a hash encoder; only `objective` is measured for train."""

    objective: float | None
    precision: float | None
    balance: float | None
    correlation: float | None

    @property
    def loss(self) -> float | None:
        """What training minimises."""
        return None if self.objective is None else -self.objective


# The test pictures are `[N, channels, H, W]`.
HashingRun = Run[HashingConfig, HashEncoder, HashingMeasured, Tensor]
