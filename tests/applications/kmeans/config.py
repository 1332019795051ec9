"""Options of runs that train k-means. Imports no torch."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from hardmax.training.config import ImageConfig


@dataclass(frozen=True)
class KMeansConfig(ImageConfig):
    """Train a k-means model: cluster images, each cluster with a centre.

    Example: hardmax train --model k-means --clusters 4 --out runs/k-means
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {"model": ("clusters",)}

    model: Literal["k-means"] = "k-means"
    clusters: int = 4
    """Number of clusters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("clusters")
