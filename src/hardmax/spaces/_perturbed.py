"""Base class of spaces whose noise is a `Perturbation`."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.spaces.abstract import AbstractSpace
from hardmax.spaces.perturbation import Perturbation


class AbstractPerturbed(AbstractSpace):
    """A space with a choice of noise, independent for every score."""

    @property
    @abstractmethod
    def _noise(self) -> Perturbation:
        """The noise."""

    def noise(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "..."]:
        """Draw the noise of the perturbation, independent for every score."""
        return self._noise.draw((*shape, *self.score_shape), generator, dtype=dtype, device=device)

    def perturb(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the perturbed scores: `[*B, *score]` and `[S, *B, *score] -> [S, *B, *score]`."""
        return self._noise.apply(scores, noise)

    def noise_slope(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the derivative of the log-density of the perturbed scores."""
        return self._noise.slope(scores, noise)
