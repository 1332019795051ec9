"""What is read of a completion model's run."""

from dataclasses import dataclass

from hardmax.models import CompletionModel
from hardmax.report.run import MeasuredVAE, Run
from hardmax.training.completion.config import CompletionConfig
from hardmax.training.completion.pictures import Holed


@dataclass(frozen=True)
class CompletionMeasured(MeasuredVAE):
    """A row of a completion model; `nll`, `psnr` and `components` are not measured for train."""

    psnr: float | None
    components: float | None


CompletionRun = Run[CompletionConfig, CompletionModel, CompletionMeasured, Holed]
