"""Many copies of a batch in one call of f: independent estimates for the price of a larger candidate dimension."""

from math import prod
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from hardmax.types import Flips, Objective


@final
class Repeated:
    """f for D copies of its batch: `[D, *B]` takes the place of `*B`, and f itself never knows.

    A copy is one more candidate of the same examples, so f gets `[C * D, *B, *event]` where it is called with
    `[C, D, *B, *event]`. The optional methods are there where f has them.

    Args:
        f: the objective, for examples `*B`.
        copies: D.
        batch_shape: `*B`.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.diagnosis import Repeated
        >>> worth = torch.randn(5, 3)  # of five examples
        >>> f = Repeated(lambda z: (z * worth).sum(-1), 1000, (5,))
        >>> hm.expectation(f, torch.zeros(1000, 5, 3), hm.Categorical(3)).value.shape
        torch.Size([1000, 5])
    """

    def __init__(self, f: Objective, copies: int, batch_shape: tuple[int, ...]) -> None:
        self._f = f
        self._copies = copies
        self._examples = prod(batch_shape)
        # An estimator asks with hasattr.
        for name in ("rows", "pairs", "table", "flips"):
            if hasattr(f, name):
                setattr(self, name, getattr(self, f"_{name}"))

    def __call__(self, z: Float[Tensor, "C D ..."]) -> Float[Tensor, "C D *B"]:
        """Evaluate f, `[C, D, *B, *event] -> [C, D, *B]`."""
        return self._f(z.flatten(0, 1)).unflatten(0, z.shape[:2])

    def _rows(self, z: Float[Tensor, "R ..."], index: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Evaluate f at chosen examples; index counts through `[D, *B]`, and copies of an example are the same to f."""
        return self._f.rows(z, index % self._examples)  # pyright: ignore[reportFunctionMemberAccess]

    def _pairs(self, z: Float[Tensor, "M ..."]) -> Float[Tensor, "D *B M"]:
        """Evaluate f at the same z for every example, once for all copies."""
        return self._spread(self._f.pairs(z))  # pyright: ignore[reportFunctionMemberAccess]

    def _table(self) -> Float[Tensor, "D *B K"]:
        """Evaluate f at every category, once for all copies."""
        return self._spread(self._f.table())  # pyright: ignore[reportFunctionMemberAccess]

    def _flips(self, z: Float[Tensor, "S D *B N"]) -> "RepeatedFlips":
        """Return the flips of the bits of z."""
        return RepeatedFlips(self._f.flips(z.flatten(0, 1)), tuple(z.shape[:2]))  # pyright: ignore[reportFunctionMemberAccess]

    def _spread(self, values: Tensor) -> Tensor:
        return values.expand(self._copies, *values.shape)


@final
class RepeatedFlips:
    """Flips of `[S * D, *B, N]`, laid out as `[S, D, *B, N]`."""

    def __init__(self, flips: Flips, lead: tuple[int, ...]) -> None:
        self._flips = flips
        self._lead = lead

    @property
    def bounds(self) -> Float[Tensor, "S D *B N"]:
        """No flip gains more than this."""
        return self._flips.bounds.unflatten(0, self._lead)

    def gains(self, wanted: Tensor) -> Float[Tensor, " R"]:
        """Return f(z with bit i flipped) - f(z) where wanted `[S, D, *B, N]`, a flat tensor in that order."""
        return self._flips.gains(wanted.flatten(0, 1))
