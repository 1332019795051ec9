"""Where a run stands."""

from dataclasses import dataclass, field


@dataclass
class Progress:
    """Where a run stands: what a checkpoint keeps beside weights.

    Attributes:
        epoch: epochs finished.
        position: steps done of the epoch after them.
        step: steps done in all.
        best: best value of the task's criterion on the validation pictures, and the epoch it was reached after.
        totals: sums over the unfinished epoch, for its row in `metrics.jsonl`.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    totals: list[float] = field(default_factory=list)
