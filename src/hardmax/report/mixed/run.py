"""What is read of a mixed VAE's run."""

from dataclasses import dataclass

from hardmax.models import MixedVAE
from hardmax.report.run import Bounded, Run
from hardmax.training.mixed.config import MixedConfig
from hardmax.training.mixed.pictures import Seen


@dataclass(frozen=True)
class MixedMeasured(Bounded):
    """A row of a mixed VAE; `nll` and accuracies are not measured for train, nor is the bound in its first epochs."""

    accuracy: float | None
    accuracy_sampled: float | None


MixedRun = Run[MixedConfig, MixedVAE, MixedMeasured, Seen]
