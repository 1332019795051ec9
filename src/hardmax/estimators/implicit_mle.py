"""Estimators that need only an arg max of the space: I-MLE, differentiation of blackbox solvers, and the identity."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators._linearization import AbstractLinearised, measure_movement
from hardmax.spaces import AbstractSpace, Categorical
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class ImplicitMLE(AbstractLinearised):
    r"""Implicit MLE (I-MLE): solves the arg max twice with the same noise, the second time moved along the slope of f.

    The gradient is the scaled difference of the two solutions. With
    $\mathrm{perturbed} = \mathrm{scores} + \mathrm{noise}$, $z = \operatorname{argmax}(\mathrm{perturbed})$ and the
    slope (derivative) of f at z in the layout of the scores,

    $$ \mathrm{gradient} = \frac{\mathrm{statistics}(\operatorname{argmax}(\mathrm{perturbed}
       + \mathrm{step} \cdot \mathrm{slope})) - \mathrm{statistics}(z)}{\mathrm{step}} $$

    (two-sided: minus
    $\mathrm{statistics}(\operatorname{argmax}(\mathrm{perturbed} - \mathrm{step} \cdot \mathrm{slope}))$, divided by
    $2 \, \mathrm{step}$). It is `Direct(epsilon=step)` with f replaced by its linearisation at z, so that one
    evaluation of f and its derivative replace all single changes, for any space with an arg max. The two are equal,
    draw by draw, where the linearisation is exact at the z' that `Direct` evaluates: for f linear in z with
    `Direct(step, full=True)`; for bits, categories and chains with `Direct(step)` also for f linear in each variable
    given the other variables, such as products of bits.

    In `hardmax.expectation` the step is relative to the slope of f only. In `hardmax.sample` it multiplies the slope of
    the loss without scaling, as in the paper, and z moves to where the loss is lower. A mean over samples or examples
    makes that slope small: choose a larger `step`, or use `AdaptiveImplicitMLE`.

    Bias: for f linear in z, $O(\mathrm{step})$, two-sided $O(\mathrm{step}^2)$, none in the limit. For other f the
    slope at a discrete z replaces differences between discrete z, and that bias remains. For a structured space the
    target is the expectation over perturb-and-MAP (the arg max of perturbed scores), not over q. Variance: grows as
    $1/\mathrm{step}$. Cost: one evaluation of f per sample, and its derivative in z; two arg maxes, three if two-sided.

    Args:
        step: how far the scores are moved along the slope, > 0 (the paper's lambda).
        two_sided: move them in both directions.

    Raises:
        ArgumentError: step <= 0.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 3, 3, requires_grad=True), torch.eye(3)
        >>> f = lambda z: (z * worth).sum((-2, -1))
        >>> out = hm.expectation(f, scores, hm.Permutation(3), hm.ImplicitMLE(step=2.0), samples=8)
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations, out.solves
        (torch.Size([5, 3, 3]), 8.0, 16.0)

    References:
        Niepert, Minervini & Franceschi, "Implicit MLE: backpropagating through discrete exponential family
        distributions", 2021, algorithm 1. Two-sided: Minervini, Franceschi & Niepert, 2023.
        Deviation: noise is the space's own, where the paper has sums of gammas for k-subsets.
    """

    step: float = 1.0
    two_sided: bool = False

    def __post_init__(self) -> None:
        check_positive("step", self.step)

    @property
    def solves(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of arg maxes: z, and one or two along the slope."""
        return 3 if self.two_sided else 2

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Solve again with the slope added."""
        return measure_movement(space, perturbed, z, slope, self.step, self.two_sided)


@final
@dataclass(frozen=True)
class Blackbox(AbstractLinearised):
    r"""Differentiation of blackbox solvers: the arg max without noise, with a useful gradient in the backward pass.

    The gradient is that of a piecewise affine interpolation of $f(\operatorname{argmax}(\mathrm{scores}))$. With
    $z = \operatorname{argmax}(\mathrm{scores})$ and the slope of f at z in the layout of the scores,

    $$ \mathrm{gradient} = \frac{\mathrm{statistics}(\operatorname{argmax}(\mathrm{scores}
       + \mathrm{step} \cdot \mathrm{slope})) - \mathrm{statistics}(z)}{\mathrm{step}}, $$

    which is `ImplicitMLE(step)` with zero noise. The noise is ignored: nothing is sampled, all S samples are the same,
    and the value is $f(\operatorname{argmax}(\mathrm{scores}))$, not an expectation. In the backward pass the
    interpolation joins the plateaus of f, linearised at z, by slopes of a width that grows with the step.

    Use it for a layer that solves a problem, such as a shortest path or a matching inside a network. To learn a
    distribution, use `ImplicitMLE`; its documentation also explains what `step` is relative to in `hardmax.expectation`
    and in `hardmax.sample`.

    Bias: compared to the gradient of the expectation there is a bias at any step; the gradient of
    $f(\operatorname{argmax}(\mathrm{scores}))$ itself is zero almost everywhere. The estimate is zero as long as the
    step moves no arg max. Variance: none. Cost: one evaluation of f per sample, and its derivative in z; two arg maxes.

    Args:
        step: how far the scores are moved along the slope, > 0 (the paper's lambda); a good size is the typical
            difference between scores divided by the size of the slope.

    Raises:
        ArgumentError: step <= 0.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
        >>> z = hm.sample(scores, hm.Categorical(3), hm.Blackbox(step=2.0))
        >>> loss = z @ torch.tensor([3.0, 2.0, 1.0])
        >>> loss.backward()
        >>> z.tolist(), scores.grad.tolist()
        ([1.0, 0.0, 0.0], [0.5, 0.0, -0.5])

    References:
        Vlastelica, Paulus, Musil, Martius & Rolinek, "Differentiation of blackbox combinatorial solvers", 2020,
        algorithm 1 (there costs are minimised; scores are minus costs).
    """

    step: float = 1.0

    perturbs = False
    solves = 2

    def __post_init__(self) -> None:
        check_positive("step", self.step)

    def perturb_scores(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the scores, once for each sample."""
        return scores.to(torch.promote_types(scores.dtype, noise.dtype)).expand(noise.shape)

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Solve again with the slope added."""
        return measure_movement(space, perturbed, z, slope, self.step, two_sided=False)


Projection = Literal["none", "plane", "sphere", "both"]


@final
@dataclass(frozen=True)
class IdentityBackward(AbstractLinearised):
    r"""Identity backward: use the derivative of f at z as the gradient of the scores, as if the arg max were identity.

    With $z = \operatorname{argmax}(\mathrm{scores} + \mathrm{noise})$, the gradient is the slope of f at z, in the
    layout of the scores. A projection P removes components of the scores that do not change the arg max,
    $\operatorname{argmax}(P(\mathrm{scores} + \mathrm{noise})) = z$, and the gradient goes through P:

    - `"plane"`: subtract the mean, for spaces whose z all have the same number of ones;
    - `"sphere"`: divide by the Euclidean norm, for all spaces;
    - `"both"`: subtract the mean, then divide by the norm.

    Means and norms are over the scores of one example, of one variable for `Categorical`.

    Bias: always, in direction and in size: the probability that z changes does not enter. For f linear in z, without a
    projection or with the plane, it is an ascent direction of the expectation, though not a steep one: its cosine to
    the gradient is 0.84 for four categorical variables of eight values, 0.48 for permutations of four items. Variance:
    none for f linear in z without the sphere. Cost: one evaluation of f per sample, and its derivative in z; one arg
    max. It is the cheapest estimator where arg maxes are expensive, and has no step to choose.

    Args:
        project: which components are projected out: "none", "plane", "sphere" or "both".

    Raises:
        ArgumentError: an unknown projection.
        NotExactError: "plane" or "both" for bits, and for paths of different lengths, where adding a constant to the
            scores changes the arg max.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(3, requires_grad=True)
        >>> z = hm.sample(scores, hm.Categorical(3), hm.IdentityBackward("plane"))
        >>> (z @ torch.tensor([1.0, 2.0, 6.0])).backward()
        >>> scores.grad
        tensor([-2., -1.,  3.])

    References:
        Sahoo, Paulus, Vlastelica, Musil, Kuleshov & Martius, "Backpropagation through combinatorial algorithms:
        identity with projection works", 2023 (there costs are minimised, and the identity is negative).
    """

    project: Projection = "none"

    def __post_init__(self) -> None:
        if self.project not in ("none", "plane", "sphere", "both"):
            raise ArgumentError(f"project must be 'none', 'plane', 'sphere' or 'both', got {self.project!r}")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to subtract the mean where that changes the arg max."""
        super().check(space, samples)
        if self.project in ("plane", "both") and not space.has_constant_sum:
            raise NotExactError(
                f"{self} subtracts the mean from the scores, which changes the arg max of {space}; use project='sphere'"
            )

    def perturb_scores(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the perturbed scores, projected."""
        perturbed = super().perturb_scores(scores, space, noise)
        dims = (-1,) if isinstance(space, Categorical) else tuple(range(-len(space.score_shape), 0))
        if self.project in ("plane", "both"):
            perturbed = perturbed - perturbed.mean(dims, keepdim=True)
        if self.project in ("sphere", "both"):
            norm = torch.linalg.vector_norm(perturbed, dim=dims, keepdim=True)
            perturbed = perturbed / norm.clamp_min(torch.finfo(perturbed.dtype).tiny)
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
