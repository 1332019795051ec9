"""Examples of a decision problem as the losses take them: features, true costs and best decisions."""

from typing import final

import torch
from torch import Tensor

from hardmax.data import Decisions
from hardmax.objectives.decisions import compute_hamming_costs
from hardmax.spaces import AbstractSpace


@final
class Examples:
    """The examples of a split, from which batches are taken by an index.

    Where the data have targets instead of costs, costs are computed for each batch: an image of 28 x 28 pixels has 784
    bits as its target, but 2,296 costs, most of them zero.

    Args:
        data: the data.
        split: "train", "validation" or "test".
        space: the space of decisions.
        device: device that the examples are moved to.
    """

    def __init__(
        self, data: Decisions, split: str, space: AbstractSpace, device: torch.device | str | None = None
    ) -> None:
        self.space = space
        self.features: Tensor = getattr(data, split).to(device)
        self.costs = data.costs[split].to(device) if data.costs else None
        if self.costs is None:
            self.best = data.targets[split].to(device)
        else:
            self.best = space.argmax(-self.costs.double()).to(self.costs.dtype)

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Tensor | slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return features `[N, *features]`, costs `[N, *score]` and best decisions `[N, *event]` of some examples."""
        features, best = self.features[index], self.best[index]
        if self.costs is not None:
            return features, self.costs[index], best
        best = best.to(features.dtype)
        return features, compute_hamming_costs(best, self.space), best


def solve_examples(data: Decisions, split: str, space: AbstractSpace) -> tuple[Tensor, Tensor, Tensor]:
    """Return features and costs of a split, and the best decisions for these costs."""
    return Examples(data, split, space)[:]
