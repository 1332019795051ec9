"""Joins: how a discrete and a Gaussian latent are combined into the decoder's input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError
from hardmax.nn import count_decoder_inputs, index_decoder_variables, make_decoder_input
from hardmax.random import choose_noise_dtype
from hardmax.spaces import AbstractSpace


@dataclass(frozen=True)
class AbstractJoin(ABC):
    """How a discrete latent z_d and Gaussian latents z_c are combined into the input of a decoder.

    z_d is in a space; each z_c has c dimensions. `w = make_decoder_input(z_d)` is z_d as a vector of D values: for
    one-hot z_d it is z_d, for bits it is $[1 - z_d, z_d]$.

    Args:
        space: the space of z_d.
        c: number of dimensions of each Gaussian, at least 1.

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
    def sum_used_rows(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the sum over the Gaussians that z_d uses: `[..., *event]` and `[..., rows]` (broadcast) `-> [...]`.

        If `per_row` is the divergence of each Gaussian, the sum is the divergence of z_c given z_d. The sum is linear
        in w, so its value at the mean of z_d is its mean.
        """

    used = RenamedMember("sum_used_rows")

    @property
    @abstractmethod
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """Index of the draw from the prior for each Gaussian, `[rows]`; those never used together share one."""

    def sample_prior(
        self,
        count: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "R N c"]:
        """Draw the Gaussians from the prior, `[count, rows, c]`; values of z_d share as many draws as possible."""
        index = self.draw_of_row
        shape = (count, int(index.max()) + 1, self.c)
        draws = torch.randn(shape, generator=generator, dtype=choose_noise_dtype(dtype), device=device).to(dtype)
        return draws[:, index.to(device)]

    def weights(self, z_d: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return w: `[..., *event] -> [..., D]`."""
        event = self.space.event_shape
        lead = z_d.shape[: z_d.dim() - len(event)]
        flat = make_decoder_input(z_d.reshape(lead.numel(), *event), self.space)
        return flat.reshape(*lead, count_decoder_inputs(self.space))


@final
@dataclass(frozen=True)
class GaussianRows(AbstractJoin):
    r"""A Gaussian for each entry of w, masked where the entry is zero: $\operatorname{diag}(w) \, z_c$.

    The decoder's input has D rows of c values, and $\mathrm{KL}(z_d) = \sum_d w_d \mathrm{KL}_d$: a masked row follows
    the prior. Each category, or each value of an attribute, therefore has its own continuous latent, with its own
    meaning.

    Args:
        space: the space of z_d.
        c: number of dimensions of each Gaussian, at least 1.

    Raises:
        ArgumentError: c < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import GaussianRows
        >>> join = GaussianRows(hm.Categorical(2), 3)
        >>> join.join(torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        tensor([0., 0., 0., 4., 5., 6.])
        >>> join.sum_used_rows(torch.tensor([0.0, 1.0]), torch.tensor([7.0, 8.0]))
        tensor(8.)

    References:
        Lorberbom et al., 2019, section 5.3.
    """

    @property
    def rows(self) -> int:
        """D."""
        return count_decoder_inputs(self.space)

    @property
    def width(self) -> int:
        """D c."""
        return self.rows * self.c

    def join(self, z_d: Float[Tensor, "..."], z_c: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the rows, concatenated."""
        return (self.weights(z_d)[..., None] * z_c).flatten(-2)

    def sum_used_rows(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\sum_d w_d \, \mathrm{per\_row}_d$."""
        return (self.weights(z_d) * per_row).sum(-1)

    @property
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """One draw for each variable of z_d: only one row of a variable is unmasked, so its rows share a draw."""
        return index_decoder_variables(self.space)


@final
@dataclass(frozen=True)
class SharedGaussian(AbstractJoin):
    """One Gaussian that all values of z_d share, concatenated with w: $[w, z_c]$.

    The KL does not depend on z_d. The Gaussian has the same meaning for every z_d, so that a change of z_d changes only
    the properties that z_d encodes: attributes that are turned on and off.

    Args:
        space: the space of z_d.
        c: number of dimensions of the Gaussian, at least 1.

    Raises:
        ArgumentError: c < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import SharedGaussian
        >>> join = SharedGaussian(hm.Binary(2), 3)
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
        return count_decoder_inputs(self.space) + self.c

    def join(self, z_d: Float[Tensor, "..."], z_c: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return w and the Gaussian, concatenated."""
        w = self.weights(z_d)
        return torch.cat([w, z_c.squeeze(-2).expand(*w.shape[:-1], self.c)], -1)

    def sum_used_rows(self, z_d: Float[Tensor, "..."], per_row: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the value of the one Gaussian."""
        return per_row.squeeze(-1).expand(z_d.shape[: z_d.dim() - len(self.space.event_shape)])

    @property
    def draw_of_row(self) -> Int64[Tensor, "N"]:
        """Index 0: there is one Gaussian."""
        return torch.zeros(1, dtype=torch.long)
