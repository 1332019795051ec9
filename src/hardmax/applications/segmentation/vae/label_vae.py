r"""The anatomical prior: a variational auto-encoder of label maps, learned without any scan.

`p(s) = \int N(z; 0, I) prod_j f_{j, s_j}(z) dz`, `f_j(z) = softmax(logits_j(z) + log p_loc,j)`. The location prior
p_loc, the frequency of each label at a voxel, is all that is known at z = 0. The logits describe how one anatomy
differs from the average. Shape varies smoothly, so the logits are defined on a coarse grid and interpolated.
"""

from collections.abc import Callable
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from hardmax.applications.segmentation.vae.label_networks import ConvDecoder, ConvEncoder, LinearDecoder, LinearEncoder
from hardmax.errors import ArgumentError, ShapeError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import gaussian_elbo
from hardmax.objectives.elbo import Elbo

Network = Literal["linear", "convolutional"]
_FLOOR = 0.02  # added to a smoothed frequency before the logarithm of a feature
_POOL: dict[int, Callable[..., Tensor]] = {2: functional.avg_pool2d, 3: functional.avg_pool3d}
_CONVOLVE: dict[int, Callable[..., Tensor]] = {2: functional.conv2d, 3: functional.conv3d}
_UPSAMPLE = {2: "bilinear", 3: "trilinear"}


@final
class LabelVAE(AbstractModel):
    r"""A VAE of label maps on a grid of slices (2-D) or volumes (3-D).

    The bound of a map s is

    $$ \mathbb{E}_q\Big[\sum_j \log f_{j, s_j}(z)\Big] - \mathrm{KL}(q(z \mid s) \,\|\, N(0, I)). $$

    A map may also hold probabilities (partial volume), and then the first term is minus a cross-entropy. Bias of its
    estimate: none; variance: that of one reparameterized sample of z.

    Args:
        location: `[M, *S]`, $p_\mathrm{loc}$; it is floored and renormalised, so that no label is impossible anywhere.
        latents: L, the number of latents.
        factor: side of a voxel of the coarse grid, on which the logits are defined, in voxels; a coarse voxel covers
            $\mathrm{factor}^D$ voxels and has the same centre.
        network: "linear" (initialise it with `initialize_with_pca`) or "convolutional".
        width: channels of convolutional networks.
        floor: smallest frequency of a label.

    Raises:
        ArgumentError: a grid that is neither 2-D nor 3-D or not divisible by factor, or an unknown network.

    Example:
        >>> import torch
        >>> vae = LabelVAE(torch.rand(3, 8, 8), latents=2)
        >>> maps = torch.nn.functional.one_hot(torch.randint(3, (5, 8, 8)), 3).movedim(-1, 1).float()
        >>> out = vae(maps)
        >>> (-out.value.mean()).backward()
        >>> vae.log_prior(torch.zeros(4, 2)).shape
        torch.Size([4, 3, 8, 8])

    References:
        Dalca, Guttag & Sabuncu, "Anatomical priors in convolutional networks for unsupervised biomedical segmentation",
        2018, sections 3 and 4.1.
    """

    kind = "label-vae"
    log_location: Tensor
    reference: Tensor

    def __init__(
        self,
        location: Float[Tensor, "M *S"],
        *,
        latents: int = 32,
        factor: int = 2,
        network: Network = "linear",
        width: int = 16,
        floor: float = 1e-4,
    ) -> None:
        super().__init__()
        labels, *shape = location.shape
        if len(shape) not in (2, 3) or factor < 1 or any(side % factor for side in shape):
            raise ArgumentError(
                f"the location prior must be [M, X, Y] or [M, X, Y, Z] with sides divisible by factor={factor}, got "
                f"{list(location.shape)}; crop or pad it"
            )
        if network not in ("linear", "convolutional"):
            raise ArgumentError(f"network must be 'linear' or 'convolutional', got {network!r}")
        coarse = tuple(side // factor for side in shape)
        self.labels, self.shape, self.coarse, self.latents = labels, tuple(shape), coarse, latents
        self.factor = factor
        self._config = {
            "labels": labels,
            "shape": list(shape),
            "latents": latents,
            "factor": factor,
            "network": network,
            "width": width,
        }
        self.register_buffer("log_location", log_location(location, floor))
        self.register_buffer("reference", torch.zeros(labels, *coarse))
        self.reference.copy_(self._smooth_frequencies(self.log_location.exp()[None])[0])
        if network == "linear":
            self.encoder: nn.Module = LinearEncoder(labels, coarse, latents)
            self.decoder: nn.Module = LinearDecoder(labels, coarse, latents)
        else:
            self.encoder = ConvEncoder(labels, coarse, latents, width)
            self.decoder = ConvDecoder(labels, coarse, latents, width)

    def features(self, maps: Float[Tensor, "B M *S"]) -> Float[Tensor, "B M *C"]:
        """Return the log-ratios of the smoothed frequencies of maps and location prior, on the coarse grid."""
        if tuple(maps.shape[1:]) != (self.labels, *self.shape):
            raise ShapeError(
                f"maps must be [B, {self.labels}, {', '.join(map(str, self.shape))}], got {list(maps.shape)}; "
                f"resample them"
            )
        return self._smooth_frequencies(maps) - self.reference

    def encode(self, maps: Float[Tensor, "B M *S"]) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]]:
        r"""Return mean and log-variance of $q(z \mid s)$."""
        return self.encoder(self.features(maps))

    def logits(self, z: Float[Tensor, "R L"]) -> Float[Tensor, "R M *C"]:
        """Return the logits on the coarse grid, without the location prior."""
        return self.decoder(z)

    def log_prior(self, z: Float[Tensor, "R L"]) -> Float[Tensor, "R M *S"]:
        r"""Return $\log f(z)$ at every voxel, normalised over labels."""
        return (self.upsample(self.logits(z)) + self.log_location).log_softmax(1)

    def upsample(self, coarse: Float[Tensor, "R M *C"]) -> Float[Tensor, "R M *S"]:
        """Interpolate logits of the coarse grid to the voxels."""
        return functional.interpolate(coarse, self.shape, mode=_UPSAMPLE[len(self.shape)], align_corners=False)

    def likelihood(self, maps: Float[Tensor, "B M *S"]) -> Callable[[Tensor], Tensor]:
        r"""Return $\log p(s \mid z)$ as an objective: it maps z `[C, B, L]` to `[C, B]`."""

        def log_probability(z: Tensor) -> Tensor:
            log_f = self.log_prior(z.flatten(0, 1)).unflatten(0, z.shape[:2])
            return (maps * log_f).flatten(2).sum(2)

        return log_probability

    def forward(
        self, maps: Float[Tensor, "B M *S"], *, samples: int = 1, generator: torch.Generator | None = None
    ) -> Elbo:
        """Estimate the bound of maps, one-hot or probabilities; for training, minimise `-value.mean()`."""
        mean, log_variance = self.encode(maps)
        return gaussian_elbo(self.likelihood(maps), mean, log_variance, samples=samples, generator=generator)

    @torch.no_grad()
    def sample(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "count M *S"]:
        """Draw anatomies from the prior; return the probabilities of their labels."""
        z = torch.randn(count, self.latents, generator=generator, dtype=self.log_location.dtype)
        return self.log_prior(z.to(self.log_location.device)).exp()

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "LabelVAE":
        options = {name: config[name] for name in ("latents", "factor", "network", "width")}
        return cls(torch.ones(config["labels"], *config["shape"]), **options)

    def _smooth_frequencies(self, maps: Tensor) -> Tensor:
        """Return `log(frequency + floor)` on the coarse grid, smoothed by [1 2 1] / 4 along every axis."""
        dims = len(self.shape)
        x = _POOL[dims](maps, self.factor)
        kernel = torch.tensor([0.25, 0.5, 0.25], dtype=maps.dtype, device=maps.device)
        for axis in range(dims):
            shape = [self.labels, 1, *[3 if other == axis else 1 for other in range(dims)]]
            pad = [side for other in reversed(range(dims)) for side in ((1, 1) if other == axis else (0, 0))]
            weight = kernel.view(1, 1, *shape[2:]).expand(shape)
            x = _CONVOLVE[dims](functional.pad(x, pad, mode="replicate"), weight, groups=self.labels)
        return (x + _FLOOR).log()


def log_location(frequencies: Float[Tensor, "M *S"], floor: float) -> Float[Tensor, "M *S"]:
    """Return `log p_loc`, the log of frequencies that are floored and then renormalised.

    Example:
        >>> import torch
        >>> log_location(torch.tensor([[1.0], [0.0]]), 0.25).exp()
        tensor([[0.8000],
                [0.2000]])
    """
    normalised = frequencies.clamp_min(0) / frequencies.clamp_min(0).sum(0, keepdim=True).clamp_min(1e-12)
    floored = normalised.clamp_min(floor)
    return (floored / floored.sum(0, keepdim=True)).log()
