"""The bias field, a smooth change of brightness: receive coils make one side of a scan brighter than the other.

`x_j = exp(b(r_j)) * tissue`, with b a polynomial of the position r. In log intensity, `y = log x`, the field is
additive. If the Gaussians are those of y, the best coefficients for given responsibilities solve one small system of
linear equations. A constant in b cannot be distinguished from a shift of all means, so b has mean zero over the voxels
of its scan.
"""

from dataclasses import dataclass, replace
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.em import Expectation, Fit, PseudoCounts, e_step, em_objective, m_step
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class BiasField:
    r"""A bias field in log intensity, a polynomial of the position.

    `b(r) = sum_p a_p (phi_p(r) - offset_p)`, where the phi are products of Legendre polynomials up to a total degree.

    Args:
        order: the total degree, at least 1.
        centre: `[D]`, centre of the box in which coordinates run from -1 to 1.
        half_size: `[D]`, half the sides of the box; points outside are moved to its border, since polynomials grow
            quickly beyond it.
        offset: `[P]`, the mean of each phi over the voxels of the scan.
        coefficients: `[P]`, a.

    Example:
        >>> import torch
        >>> points = torch.rand(100, 3)
        >>> field = make_zero_field(points, order=3)
        >>> field.coefficients.shape, float(field(points).abs().max())
        (torch.Size([19]), 0.0)
    """

    order: int
    centre: Float[Tensor, " D"]
    half_size: Float[Tensor, " D"]
    offset: Float[Tensor, " P"]
    coefficients: Float[Tensor, " P"]

    def basis(self, points: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """Return `phi_p - offset_p` at points; it is the same in all rounds of EM."""
        return _legendre(points, self.order, self.centre, self.half_size) - self.offset

    def __call__(self, points: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        """Return b, the logarithm of the field, at any points: `x * exp(-b)` is the corrected scan."""
        return self.basis(points) @ self.coefficients


def make_zero_field(
    points: Float[Tensor, "N D"], weights: Float[Tensor, " N"] | None = None, *, order: int = 3
) -> BiasField:
    """Return a bias field that is zero everywhere, for a scan with these voxels.

    Args:
        points: `[N, D]`, positions of the voxels, in mm.
        weights: `[N]`, weights of the voxels; None means one each. The weighted mean of the field is zero, also after
            fitting.
        order: total degree of the polynomial.

    Raises:
        ArgumentError: order < 1, or no points.
    """
    if order < 1 or not len(points):
        raise ArgumentError(f"a bias field needs order >= 1 and voxels, got order={order} and {len(points)} voxels")
    low, high = points.amin(0), points.amax(0)
    centre, half_size = (low + high) / 2, ((high - low) / 2).clamp_min(1e-6)
    phi = _legendre(points, order, centre, half_size)
    weights = phi.new_ones(len(phi)) if weights is None else weights
    offset = (weights @ phi) / weights.sum()
    return BiasField(order, centre, half_size, offset, torch.zeros_like(offset))


def log_intensity(x: Float[Tensor, "*S"], lowest: float) -> Float[Tensor, "*S"]:
    """Return `log max(x, lowest)`: without a floor, air and noise near zero would dominate."""
    if not lowest > 0:
        raise ArgumentError(f"lowest must be positive, got {lowest}; about a fiftieth of the scan's median will do")
    return x.clamp_min(lowest).log()


def bias_step(
    y: Float[Tensor, " N"],
    expectation: Expectation,
    gaussians: Gaussians,
    field: BiasField,
    basis: Float[Tensor, "N P"],
    *,
    weights: Float[Tensor, " N"] | None = None,
    ridge: float = 1.0,
) -> BiasField:
    r"""Return the field with the best coefficients for given responsibilities, in closed form.

    Minimises `sum_jk c_j r_jk (y_j - b_j - mu_k)^2 / (2 sigma_k^2) + ridge/2 |a|^2`: weighted least squares of the
    residuals `y_j - sum_k r_jk mu_k / sigma_k^2 / sum_k r_jk / sigma_k^2`. It is the M-step of the coefficients, so it
    never lowers the log-likelihood of y plus `-ridge/2 |a|^2`, a normal prior on them.

    Args:
        y: `[N]`, log intensities.
        expectation: result of an E-step of `y - b`.
        gaussians: Gaussians of `y - b`.
        field: current field.
        basis: `[N, P]`, `field.basis(points)`.
        weights: `[N]`, weights of the voxels; None means one each.
        ridge: one over the variance of a coefficient; 1 is weak, and enough for a unique solution.

    References:
        Van Leemput et al., "Automated model-based bias field correction of MR images of the brain", 1999, eq. 6.
    """
    precision = expectation.responsibilities / gaussians.deviations.square()[:, None]
    if weights is not None:
        precision = precision * weights
    each = precision.sum(0)
    residual = each * y - gaussians.means @ precision
    matrix = (basis.T @ (each[:, None] * basis)).double()
    matrix.diagonal().add_(ridge)
    return replace(field, coefficients=torch.linalg.solve(matrix, (residual @ basis).double()).to(basis))


@torch.no_grad()
def fit_with_bias(
    y: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    start: Gaussians,
    field: BiasField,
    points: Float[Tensor, "N D"],
    *,
    weights: Float[Tensor, " N"] | None = None,
    pseudo: PseudoCounts | None = None,
    floor: float = 0.0,
    ridge: float = 1.0,
    rounds: int = 20,
) -> tuple[Fit, BiasField]:
    r"""Fit the Gaussians and the bias field of a scan together, in log intensity.

    Each round is one E-step and two M-steps: first the Gaussians for the current field, then the field for the new
    Gaussians (ECM). It never lowers `log p(y | Gaussians, b) + log prior of the Gaussians - ridge/2 |a|^2`. It does not
    guarantee that the likelihood of Gaussians in x, instead of log x, rises.

    Args:
        y: `[N]`, log intensities.
        prior: `[M, N]`, f.
        start: initial Gaussians of `y - b`.
        field: initial field; see `make_zero_field`.
        points: `[N, D]`, positions of the voxels, in mm.
        weights: `[N]`, weights of the voxels; None means one each.
        pseudo: pseudo-voxels.
        floor: smallest allowed deviation.
        ridge: see `bias_step`.
        rounds: number of rounds of EM.

    Returns:
        The Gaussians with the objective before every round and after the last, and the field.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.initialization import start_from_prior
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> generator = torch.Generator().manual_seed(0)
        >>> points = torch.rand(2000, 2, generator=generator)
        >>> label = torch.rand(2000, generator=generator) < 0.5
        >>> prior = torch.stack([0.1 + 0.8 * ~label, 0.1 + 0.8 * label])
        >>> y = 2.0 * label + points[:, 0] + 0.1 * torch.randn(2000, generator=generator)
        >>> start = start_from_prior(y, prior, mixing_matrix([0, 1]))
        >>> fit, field = fit_with_bias(y, prior, start, make_zero_field(points), points)
        >>> round(float(field(torch.tensor([[1.0, 0.5]])) - field(torch.tensor([[0.0, 0.5]]))), 1)
        1.0

    References:
        Meng & Rubin, "Maximum likelihood estimation via the ECM algorithm", 1993.
    """
    basis = field.basis(points)
    gaussians, objectives = start, []
    for _ in range(rounds):
        expectation = e_step(y - basis @ field.coefficients, prior, gaussians, weights)
        objectives.append(em_objective(expectation, gaussians, weights, pseudo) - _penalty(field, ridge))
        corrected = y - basis @ field.coefficients
        gaussians = m_step(corrected, expectation, gaussians, weights=weights, pseudo=pseudo, floor=floor)
        field = bias_step(y, expectation, gaussians, field, basis, weights=weights, ridge=ridge)
    expectation = e_step(y - basis @ field.coefficients, prior, gaussians, weights)
    objectives.append(em_objective(expectation, gaussians, weights, pseudo) - _penalty(field, ridge))
    return Fit(gaussians, objectives), field


def _penalty(field: BiasField, ridge: float) -> float:
    return 0.5 * ridge * float(field.coefficients.square().sum())


def _legendre(points: Tensor, order: int, centre: Tensor, half_size: Tensor) -> Tensor:
    """Return products of Legendre polynomials of total degree 1 to order, `[N, D] -> [N, P]`."""
    scaled = ((points - centre) / half_size).clamp(-1, 1)
    polynomials = [torch.ones_like(scaled), scaled]
    for n in range(1, order):
        polynomials.append(((2 * n + 1) * scaled * polynomials[n] - n * polynomials[n - 1]) / (n + 1))
    terms = []
    for degrees in product(range(order + 1), repeat=points.shape[1]):
        if 1 <= sum(degrees) <= order:
            term = polynomials[degrees[0]][:, 0]
            for axis, degree in enumerate(degrees[1:], 1):
                term = term * polynomials[degree][:, axis]
            terms.append(term)
    return torch.stack(terms, 1)
