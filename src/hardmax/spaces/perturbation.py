"""Noise for perturbed arg maxes: its distribution, how it changes scores, and the derivative of its log-density."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.random import choose_noise_dtype, draw_gumbel


@final
@dataclass(frozen=True)
class Perturbation:
    r"""The noise that a space adds to scores, or multiplies them by, before it solves the arg max.

    | kind | noise g | perturbed scores |
    |---|---|---|
    | `"gumbel"` | $\mathrm{scale} \cdot \mathrm{Gumbel}(0, 1)$ | $\mathrm{scores} + g$ |
    | `"normal"` | $\mathcal{N}(0, \mathrm{scale}^2)$ | $\mathrm{scores} + g$ |
    | `"multiplicative"` | $\mathcal{N}(-\mathrm{scale}^2 / 2, \mathrm{scale}^2)$ | $\mathrm{scores} \cdot e^g$ |

    Multiplicative noise keeps the sign of every score, for solvers that need costs of one sign (Dijkstra), and the
    mean of the perturbed scores is the scores.

    Args:
        kind: the distribution, and how it is applied.
        scale: size of the noise, > 0. Additive noise of scale c is the same as scores divided by c.

    Raises:
        ArgumentError: an unknown kind, or scale <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> noise = hm.Perturbation("multiplicative", scale=0.5)
        >>> scores = torch.tensor([-1.0, -4.0])
        >>> bool((noise.apply(scores, noise.draw((1000, 2))) < 0).all())
        True

    References:
        Berthet, Blondel, Teboul, Cuturi, Vert & Bach, "Learning with differentiable perturbed optimizers", 2020;
        multiplicative: Dalle, Baty, Bouvier & Parmentier, "Learning with combinatorial optimization layers", 2022.
    """

    kind: Literal["gumbel", "normal", "multiplicative"] = "gumbel"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("gumbel", "normal", "multiplicative"):
            raise ArgumentError(f"kind must be 'gumbel', 'normal' or 'multiplicative', got {self.kind!r}")
        if not self.scale > 0:
            raise ArgumentError(f"scale must be above zero, got {self.scale}")

    def draw(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Draw noise of this shape, in float32 or wider."""
        if self.kind == "gumbel":
            noise = draw_gumbel(shape, generator=generator, dtype=dtype, device=device)
            return noise if self.scale == 1 else noise * self.scale
        noise = torch.randn(shape, generator=generator, dtype=choose_noise_dtype(dtype), device=device)
        return noise * self.scale - (self.scale**2 / 2 if self.kind == "multiplicative" else 0.0)

    def apply(self, scores: Tensor, noise: Tensor) -> Tensor:
        """Return the perturbed scores, `[*B, *score]` and `[S, *B, *score] -> [S, *B, *score]`."""
        return scores * noise.exp() if self.kind == "multiplicative" else scores + noise

    def pull_back(self, gradient: Tensor, noise: Tensor) -> Tensor:
        """Return the gradient for scores, given that for the perturbed scores: `[S, *B, *score]` twice."""
        return gradient * noise.exp() if self.kind == "multiplicative" else gradient

    def slope(self, scores: Tensor, noise: Tensor) -> Tensor:
        r"""Return $\nabla_{\mathrm{scores}} \log p(\mathrm{perturbed} \mid \mathrm{scores})$ at the perturbed scores.

        `[*B, *score]` and `[S, *B, *score] -> [S, *B, *score]`, detached. Its product with z, in the mean over the
        noise, is the derivative of the mean of z. Zero where a score is zero and the noise multiplicative.
        """
        if self.kind == "gumbel":
            return -(-noise / self.scale).expm1() / self.scale
        if self.kind == "normal":
            return noise / self.scale**2
        centred = (noise + self.scale**2 / 2) / self.scale**2
        return torch.where(scores == 0, 0.0, centred / scores.detach())

    def to_uniform(self, noise: Tensor) -> Tensor:
        """Return uniform numbers on [0, 1] from noise, by its distribution function."""
        if self.kind == "gumbel":
            return (-(-noise / self.scale).exp()).exp()
        mean = -(self.scale**2) / 2 if self.kind == "multiplicative" else 0.0
        return torch.special.ndtr((noise - mean) / self.scale)

    def log_cdf(self, noise: Tensor) -> Tensor:
        """Return the logarithm of the CDF of the noise: that of uniform numbers, of the same shape."""
        if self.kind == "gumbel":
            return -(-noise / self.scale).exp()
        mean = -(self.scale**2) / 2 if self.kind == "multiplicative" else 0.0
        return torch.special.log_ndtr((noise - mean) / self.scale)
