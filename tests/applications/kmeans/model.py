"""k-means with a hard assignment, whose expected distance is differentiated exactly."""

from typing import Any

import torch
from torch import Tensor, nn

import hardmax as hm
from hardmax.models import AbstractModel


class KMeans(AbstractModel):
    """k-means with centres c `[K, D]`: an image x belongs to cluster k with probability softmax(-|x - c|^2)_k."""

    kind = "k-means"

    def __init__(self, clusters: int, size: int) -> None:
        super().__init__()
        self._config = {"architecture": "centres", "clusters": clusters, "size": size}
        self.space = hm.Categorical(clusters)
        self.centres = nn.Parameter(torch.rand(clusters, size))

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "KMeans":
        return cls(config["clusters"], config["size"])

    def scores(self, x: Tensor) -> Tensor:
        """Return minus the squared distances of images `[B, *shape]` to the centres, `[B, K]`."""
        return -(x.flatten(1)[:, None] - self.centres).square().sum(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the expected squared distance of each image to its centre, `[B]`, with its exact gradient."""
        pixels = x.flatten(1)
        distance = hm.expectation(
            lambda z: (pixels - z @ self.centres).square().sum(-1), self.scores(x), self.space, hm.Exact()
        )
        return distance.value
