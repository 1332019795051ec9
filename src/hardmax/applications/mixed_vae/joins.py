"""Joins: how a discrete and a Gaussian latent are combined into the decoder's input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.nn import decoder_input, decoder_variables, decoder_width
from hardmax.random import noise_dtype
from hardmax.spaces import AbstractSpace


@dataclass(frozen=True)
class AbstractJoin(ABC):
    """A discrete z_d of a space together with Gaussians z_c of c dimensions; `w = decoder_input(z_d)`, D wide.

    One-hot z_d are their own w; bits become `[1 - z_d, z_d]`.

    Args:
        space: of the discrete part.
        c: dimensions of each Gaussian, at least 1.

    Raises:
        ArgumentError: c < 1.
    """

    space: AbstractSpace
    c: int

    def __post_init__(self) -> None:
        if self.c < 1:
            raise ArgumentError(f"{type(self).__name__} needs at least one continuous dimension, got c={self.c}")

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of Gaussians."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of the decoder's input."""

    @abstractmethod
    def join(self, z_d: Float[Tensor, "..."], z_c: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the decoder's input: `[..., *event]` and `[..., rows, c]` (broadcast) `-> [..., width]`."""

    @abstractmethod
    def used(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the sum over the Gaussians that z_d uses: `[..., *event]` and `[..., rows]` (broadcast) `-> [...]`.

        For a divergence per Gaussian, it is the divergence of all of them given z_d. It is linear in w, so at the mean
        of z_d it is the mean.
        """

    @property
    @abstractmethod
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """Which draw of the prior each Gaussian takes, `[rows]`; those that are never used together may share one."""

    def sample_prior(
        self,
        count: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "R N c"]:
        """Draw the Gaussians a priori, `[count, rows, c]`, so that another z_d keeps as much of them as it can."""
        index = self.draw_of_row
        shape = (count, int(index.max()) + 1, self.c)
        draws = torch.randn(shape, generator=generator, dtype=noise_dtype(dtype), device=device).to(dtype)
        return draws[:, index.to(device)]

    def weights(self, z_d: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return w: `[..., *event] -> [..., D]`."""
        event = self.space.event_shape
        lead = z_d.shape[: z_d.dim() - len(event)]
        return decoder_input(z_d.reshape(lead.numel(), *event), self.space).reshape(*lead, decoder_width(self.space))


@final
@dataclass(frozen=True)
class GaussianRows(AbstractJoin):
    """A Gaussian for every entry of w, masked where the entry is zero: `diag(w) z_c`.

    The decoder's input is D rows of c, and `KL(z_d) = sum_d w_d KL_d`: a masked row follows the prior.
    So a category, or the value of an attribute, has a continuous latent of its own, with a meaning of its own.

    Args:
        space: of the discrete part.
        c: dimensions of each Gaussian, at least 1.

    Raises:
        ArgumentError: c < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import GaussianRows
        >>> join = GaussianRows(hm.Categorical(2), 3)
        >>> join.join(torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        tensor([0., 0., 0., 4., 5., 6.])
        >>> join.used(torch.tensor([0.0, 1.0]), torch.tensor([7.0, 8.0]))
        tensor(8.)

    References:
        Lorberbom et al., 2019, section 5.3.
    """

    @property
    def rows(self) -> int:
        """D."""
        return decoder_width(self.space)

    @property
    def width(self) -> int:
        """D c."""
        return self.rows * self.c

    def join(self, z_d: Float[Tensor, "..."], z_c: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the rows, one after the other."""
        return (self.weights(z_d)[..., None] * z_c).flatten(-2)

    def used(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return `sum_d w_d per_row_d`."""
        return (self.weights(z_d) * per_row).sum(-1)

    @property
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """One for each variable of z_d: only one of its rows is unmasked, so they may be the same."""
        return decoder_variables(self.space)


@final
@dataclass(frozen=True)
class GaussianBeside(AbstractJoin):
    """One Gaussian in addition to w, whatever z_d is: `[w, z_c]`.

    The KL does not depend on z_d. The Gaussian has the same meaning for every z_d, so that another z_d changes only
    the properties that z_d encodes: attributes that are turned on and off.

    Args:
        space: of the discrete part.
        c: dimensions of the Gaussian, at least 1.

    Raises:
        ArgumentError: c < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import GaussianBeside
        >>> join = GaussianBeside(hm.Binary(2), 3)
        >>> join.join(torch.tensor([0.0, 1.0]), torch.tensor([[4.0, 5.0, 6.0]]))
        tensor([1., 0., 0., 1., 4., 5., 6.])

    References:
        Kingma, Mohamed, Rezende & Welling, "Semi-supervised learning with deep generative models", 2014.
    """

    @property
    def rows(self) -> int:
        """1."""
        return 1

    @property
    def width(self) -> int:
        """D + c."""
        return decoder_width(self.space) + self.c

    def join(self, z_d: Float[Tensor, "..."], z_c: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return w and the Gaussian, one after the other."""
        w = self.weights(z_d)
        return torch.cat([w, z_c.squeeze(-2).expand(*w.shape[:-1], self.c)], -1)

    def used(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the value of the one Gaussian."""
        return per_row.squeeze(-1).expand(z_d.shape[: z_d.dim() - len(self.space.event_shape)])

    @property
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """The one draw of the one Gaussian."""
        return torch.zeros(1, dtype=torch.long)
