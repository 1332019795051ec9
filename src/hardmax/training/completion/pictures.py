"""Pictures with holes, as a completion model is trained and evaluated on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hardmax.data import Images, binarize, draw_masks
from hardmax.random import stream
from hardmax.training.completion.config import CompletionConfig


@dataclass(frozen=True, eq=False)
class Holed:
    """Whole pictures, and which of their pixels are hidden.

    Attributes:
        x: `[N, *shape]`.
        hidden: `[N, 1, H, W]`, True where hidden.
        labels: `[N]`, of the classes; None where there are none.
    """

    x: Tensor
    hidden: Tensor
    labels: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor | slice) -> "Holed":
        return Holed(self.x[index], self.hidden[index], None if self.labels is None else self.labels[index])

    def split(self, size: int) -> list["Holed"]:
        """Return them in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: torch.device | str) -> "Holed":
        """Return them on a device."""
        return Holed(self.x.to(device), self.hidden.to(device), None if self.labels is None else self.labels.to(device))


def holed(config: CompletionConfig, images: Images, split: str) -> Holed:
    """Return the pictures of a split; masks and pixels that are drawn are always the same ones."""
    x = binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))
    hidden = draw_masks(config.mask, len(x), images.shape[1:], stream(config.seed, "mask", split))
    return Holed(x, hidden, None if images.labels is None else images.labels[split])
