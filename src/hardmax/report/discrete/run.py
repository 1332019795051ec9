"""What is read of a discrete VAE's run."""

from dataclasses import dataclass

from torch import Tensor

from hardmax.models import DiscreteVAE
from hardmax.report.run import Bounded, Run
from hardmax.training.discrete.config import DiscreteConfig


@dataclass(frozen=True)
class DiscreteMeasured(Bounded):
    """A row of a discrete VAE; `nll` and `active` are not measured for train."""

    active: int | None

    @property
    def gap(self) -> float | None:
        """How far the bound lies below log p(x)."""
        return None if self.bound is None or self.nll is None else self.bound - self.nll


# The test pictures are `[N, channels, H, W]`.
DiscreteRun = Run[DiscreteConfig, DiscreteVAE, DiscreteMeasured, Tensor]
