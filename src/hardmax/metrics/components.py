"""Principal components of pictures: features that know nothing of attributes, for how alike two pictures are."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Components:
    """The directions in which pictures differ most, each divided by how much they do.

    Of faces these are the eigenfaces, by which people were first told apart automatically.

    Attributes:
        mean: `[D]`, the mean picture.
        directions: `[D, P]`.

    References:
        Turk & Pentland, "Eigenfaces for recognition", 1991.
    """

    mean: Float[Tensor, "D"]
    directions: Float[Tensor, "D P"]

    @classmethod
    def of(cls, pictures: Float[Tensor, "N channels H W"], count: int = 50) -> "Components":
        """Find them.

        Args:
            pictures: `[N, channels, H, W]`, at least two.
            count: how many; of few pictures fewer.
        """
        flat = pictures.flatten(1)
        mean = flat.mean(0)
        centred = (flat - mean) / (len(flat) - 1) ** 0.5
        few = len(flat) < flat.shape[1]
        # The products of pictures have the same eigenvalues as those of pixels; whatever is fewer is quick.
        values, vectors = torch.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
        count = min(count, len(flat) - 1, flat.shape[1])
        values, vectors = values[-count:].flip(0), vectors[:, -count:].flip(1)
        directions = torch.nn.functional.normalize(centred.T @ vectors, dim=0) if few else vectors
        return cls(mean, directions / values.clamp_min(1e-6 * float(values[0])).sqrt())

    def distance(
        self, first: Float[Tensor, "N channels H W"], second: Float[Tensor, "N channels H W"]
    ) -> Float[Tensor, "N"]:
        """Return how far apart pictures are, pair by pair; between two real ones it is about sqrt(2 P)."""
        return ((first.flatten(1) - second.flatten(1)) @ self.directions).norm(dim=1)
