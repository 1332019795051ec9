"""Options of k-means. No torch here."""

from dataclasses import dataclass
from typing import Literal

from hardmax.training.config import PictureConfig


@dataclass(frozen=True)
class KMeansConfig(PictureConfig):
    """Train centres of clusters.

    Example: hardmax train --model k-means --clusters 4 --out runs/k-means
    """

    model: Literal["k-means"] = "k-means"
    """What is trained."""
    clusters: int = 4
    """Number of clusters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("clusters")
