"""Finite scalar quantization: each entry of a vector is rounded to one of a few levels; there is no codebook."""

from math import atanh, ceil, log, prod
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import attach_gradient
from hardmax.nn.quantization import Quantization, check_indices, check_vectors, count_codes, measure_usage
from hardmax.spaces import Categorical
from hardmax.spaces.abstract import widen_dtype

_MARGIN = 1e-3  # the outermost levels are reached by finite numbers


@final
class FiniteScalarQuantizer(nn.Module):
    r"""Rounds each entry of a vector to one of L levels between -1 and 1 (FSQ); nothing is learned and no code dies.

    $$ b_i = h_i \tanh(x_i + \operatorname{atanh}(o_i / h_i)) - o_i, \qquad
       c_i = \frac{\operatorname{round}(b_i)}{\lfloor L_i / 2 \rfloor}, $$

    with $h_i$ slightly above $(L_i - 1) / 2$, and $o_i = 0$ for odd $L_i$, $1/2$ for even ones. The vectors that can
    result are a grid of $\prod_i L_i$ codes. The gradient bypasses the rounding, so that of $b_i$ is used
    (straight-through). There is no loss: nothing keeps x near its code, as tanh bounds it.

    Bias: rounding is treated as a shift, a bias that no parameter reduces. Variance: none, given the vectors.

    Half precision is computed in float32, and what is returned has the dtype of x. Works under `torch.compile` and
    `torch.func`, in training too.

    Args:
        levels: $L_i$ of each entry, each at least 3; for two levels use `LookupFreeQuantizer`. A vector has as many
            entries as there are levels, usually 3 to 6: put a linear layer before and after it.
        validate: check x for NaN and inf; never while compiling or under `torch.func`.

    Raises:
        ArgumentError: no levels, or one below 3.

    Example:
        >>> import torch, hardmax as hm
        >>> quantizer = hm.nn.FiniteScalarQuantizer((8, 5, 5, 5))
        >>> out = quantizer(torch.randn(7, 4))
        >>> out.quantized.shape, out.indices.shape, quantizer.codes
        (torch.Size([7, 4]), torch.Size([7]), 1000)
        >>> bool(torch.allclose(quantizer.decode(out.indices), out.quantized))
        True

    References:
        Mentzer, Minnen, Agustsson & Tschannen, "Finite scalar quantization: VQ-VAE made simple", 2023, appendix A.
    """

    _half: Tensor
    _offset: Tensor
    _shift: Tensor
    _unit: Tensor
    _place: Tensor

    # Deviation: the shift is atanh(o / h), for which x = 0 gives b = 0; the code of the paper has tan(o / h).

    def __init__(self, levels: tuple[int, ...] | list[int], *, validate: bool = True) -> None:
        super().__init__()
        if not levels or min(levels) < 3:
            raise ArgumentError(
                f"levels must be at least one number, each at least 3, got {list(levels)}; for two levels use "
                "LookupFreeQuantizer"
            )
        self.levels, self.validate = tuple(levels), validate
        self.dim, self.codes = len(self.levels), prod(self.levels)
        for name, values in {
            "_half": [(level - 1) * (1 + _MARGIN) / 2 for level in levels],
            "_offset": [0.5 * (level % 2 == 0) for level in levels],
            "_shift": [atanh((level % 2 == 0) / ((level - 1) * (1 + _MARGIN))) for level in levels],
            "_unit": [level // 2 for level in levels],
            "_place": [prod(levels[:i]) for i in range(len(levels))],
        }.items():
            dtype = torch.int64 if name in ("_unit", "_place") else torch.float64
            self.register_buffer(name, torch.tensor(values, dtype=dtype), persistent=False)

    @property
    def space(self) -> Categorical:
        """The space of z for one vector: one choice of all codes."""
        return Categorical(self.codes)

    def compute_codes(self) -> Float[Tensor, "K d"]:
        """Return all codes, `[K, dim]`, in float64; the first entry changes fastest."""
        return self._place_on_grid(torch.arange(self.codes, device=self._unit.device))

    def scores(self, x: Float[Tensor, "*B _"]) -> Float[Tensor, "*B K"]:
        r"""Return $-2 \, |b - \operatorname{round}|^2$ for each code, in steps of the levels: the arg max is the code.

        Then `hm.sample` and `hm.expectation` apply any estimator to the choice of a code.
        """
        bounded, unit = self._bound(widen_dtype(x)), self._unit
        codes = (self.compute_codes() * unit).to(bounded.dtype)
        return 4 * bounded @ codes.mT - 2 * codes.square().sum(-1)

    def look_up(self, z: Float[Tensor, "*B K"]) -> Float[Tensor, "*B d"]:
        """Return the codes of one-hot z, or mixtures of codes."""
        return z @ self.compute_codes().to(z.dtype)

    def decode(self, indices: Int64[Tensor, "*B"]) -> Float[Tensor, "*B d"]:
        """Return the codes with these numbers, in the default dtype.

        Raises:
            DtypeError: the indices are not integers.
            ArgumentError: an index is below 0, or the number of codes or more.
        """
        check_indices(indices, self.codes, 1, values=self.validate)
        return self._place_on_grid(indices).to(torch.get_default_dtype())

    def forward(self, x: Float[Tensor, "*B _"]) -> Quantization:
        """Round each entry.

        Args:
            x: `[*B, dim]`.

        Returns:
            The codes, their numbers, a loss of zero without terms, and how the codes are used.

        Raises:
            ShapeError: the last dimension of x is not the number of levels.
            ArgumentError: an entry of x is not finite.
        """
        check_vectors(x, self.dim, "the quantizer", values=self.validate)
        bounded = self._bound(widen_dtype(x))
        steps = bounded.detach().round()
        unit = self._unit.to(bounded.dtype)
        indices = ((steps.long() + self._unit) * self._place).sum(-1)
        quantized = attach_gradient(steps / unit, bounded / unit)
        usage = measure_usage(count_codes(indices, self.codes))
        return Quantization(quantized.to(x.dtype), indices, bounded.new_zeros(()), {}, usage)

    def _bound(self, x: Tensor) -> Tensor:
        """Return x between the lowest and the highest level, in steps of the levels."""
        half, offset, shift = (value.to(x.dtype) for value in (self._half, self._offset, self._shift))
        return half * (x + shift).tanh() - offset

    def _place_on_grid(self, indices: Tensor) -> Tensor:
        levels = torch.tensor(self.levels, device=indices.device)
        steps = indices[..., None] // self._place % levels - self._unit
        return steps / self._unit.double()

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"levels={self.levels}"


def choose_levels(codes: int) -> tuple[int, ...]:
    """Return levels for `FiniteScalarQuantizer` with this number of codes: few, and as equal as possible.

    Raises:
        ArgumentError: the number is not a product of numbers from 3 to 8.

    Example:
        >>> choose_levels(240), choose_levels(1000), choose_levels(128)
        ((8, 6, 5), (8, 5, 5, 5), (8, 4, 4))
    """

    def factorise(rest: int, count: int, largest: int) -> list[tuple[int, ...]]:
        if count == 0:
            return [()] if rest == 1 else []
        factors = (level for level in range(3, largest + 1) if rest % level == 0)
        return [(level, *others) for level in factors for others in factorise(rest // level, count - 1, level)]

    for count in range(max(1, ceil(log(max(codes, 2), 8) - 1e-9)), 1 + ceil(log(max(codes, 2), 3))):
        if choices := factorise(codes, count, 8):
            return min(choices, key=lambda levels: max(levels) - min(levels))
    raise ArgumentError(f"the number of codes must be a product of levels from 3 to 8, such as 1,000; got {codes}")
