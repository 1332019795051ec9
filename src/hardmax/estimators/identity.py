"""The arg max as the identity in the backward pass."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.linearised import AbstractLinearised
from hardmax.spaces import AbstractSpace, Categorical

Projection = Literal["none", "plane", "sphere", "both"]


@final
@dataclass(frozen=True)
class IdentityBackward(AbstractLinearised):
    """The slope of f at z, taken for the gradient of the scores as if the arg max were not there.

    With `z = argmax(scores + noise)`, `gradient = slope`, laid out like scores. A projection takes out of it what does
    not change the arg max, since `argmax(P(scores + noise)) = z`, and the gradient goes through P:

    - `"plane"`: less the mean, for spaces whose z all have equally many ones;
    - `"sphere"`: over the Euclidean norm, for all spaces;
    - `"both"`: less the mean, then over the norm.

    Means and norms are over the scores of one example, of one variable for `Categorical`.

    Bias: always, in direction and in size: nothing of how likely z is to change enters. For f linear in z it is an
    ascent direction of the expectation without a projection or with the plane, though not a steep one: its cosine to
    the gradient is 0.84 for four categorical variables of eight values, 0.48 for permutations of four items. Variance:
    none for f linear in z without the sphere. Cost: one evaluation of f per sample, and its derivative in z; one arg
    max: the cheapest there is, with no step to choose, where arg maxes are dear.

    Args:
        project: what is projected out.

    Raises:
        ArgumentError: an unknown projection.
        NotExactError: the plane for bits, where adding a constant to the scores changes the arg max.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(3, requires_grad=True)
        >>> z = hm.sample(scores, hm.Categorical(3), hm.IdentityBackward("plane"))
        >>> (z @ torch.tensor([1.0, 2.0, 6.0])).sum().backward()
        >>> scores.grad
        tensor([-2., -1.,  3.])

    References:
        Sahoo, Paulus, Vlastelica, Musil, Kuleshov & Martius, "Backpropagation through combinatorial algorithms:
        identity with projection works", 2023 (there costs are minimised, and the identity is negative).
    """

    project: Projection = "none"

    perturbs = True

    def __post_init__(self) -> None:
        if self.project not in ("none", "plane", "sphere", "both"):
            raise ArgumentError(f"project must be 'none', 'plane', 'sphere' or 'both', got {self.project!r}")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to take the mean away where it decides."""
        super().check(space, samples)
        if self.project in ("plane", "both") and space.offers("fields"):
            raise NotExactError(
                f"{self} takes the mean off the scores, which changes the arg max of {space}; use project='sphere'"
            )

    def start(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the perturbed scores, projected."""
        perturbed = space.perturb(scores, noise)
        dims = (-1,) if isinstance(space, Categorical) else tuple(range(-len(space.score_shape), 0))
        if self.project in ("plane", "both"):
            perturbed = perturbed - perturbed.mean(dims, keepdim=True)
        if self.project in ("sphere", "both"):
            length = torch.linalg.vector_norm(perturbed, dim=dims, keepdim=True)
            perturbed = perturbed / length.clamp_min(torch.finfo(perturbed.dtype).tiny)
        return perturbed

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Return the slope."""
        return slope
