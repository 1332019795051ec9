"""Fit of one scan to the atlas: position of the brain, intensities of its tissues, deformation from the mean shape.

A voxel at p in the scan is at `q = phi(A p)` in the atlas, with A affine and `phi = exp(v)`. Let f be the atlas'
probabilities at q, x the intensity, and b whether the voxel is in the brain mask. The fit maximises

`sum_j log sum_m f_m(q_j) p(b_j | m) p(x_j | m)^{b_j} - smoothness * N * roughness(v)`,

the exact log-likelihood plus the logarithm of a prior on deformations. EM fits the Gaussians, and steps of Adam on a
random part of the voxels fit A and v, alternately. Labels that look the same (one Gaussian) are summed first, since the
scan cannot distinguish them.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    draw_indices,
    grid_points,
    integrate_velocity,
    rotation_matrix,
    roughness,
    sample_at,
    warp_points,
)
from hardmax.applications.segmentation.fit.observation import Observation
from hardmax.applications.segmentation.tissues.classes import Appearances, condition_on_mask, log_appearance
from hardmax.applications.segmentation.tissues.em import PseudoCounts
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.applications.segmentation.tissues.initialization import deviation_floor, start_from_prior
from hardmax.applications.segmentation.tissues.partial_volume import fit_partial_volume
from hardmax.applications.segmentation.volumes.geometry import Grid

_TINY = 1e-6
# Weight of the roughness, in nats per voxel; chosen on scans synthesised from maps left out of the atlas.
_SMOOTHNESS = 0.25
_PSEUDO_COUNT = 1e-3  # pseudo-count of a Gaussian, as a fraction of the voxels
# Initial rotations of the head that are tried, in degrees about x, y and z.
_ROTATIONS = ((0, 0, 0), (25, 0, 0), (-25, 0, 0), (0, 25, 0), (0, -25, 0), (0, 0, 25), (0, 0, -25))


@dataclass(frozen=True, eq=False)
class ScanFit:
    """Fit of a scan to the atlas.

    Attributes:
        affine: affine map from the scan's world to the atlas.
        velocity: `[3, X, Y, Z]`, velocity of the deformation, which follows the affine map; None for no deformation.
        velocity_grid: grid of the velocity.
        gaussians: Gaussians of the appearances, in standardised intensities.
        log_likelihood: mean over the voxels of the mask and its margin, in nats.
    """

    affine: Affine
    velocity: Float[Tensor, "3 X Y Z"] | None
    velocity_grid: Grid
    gaussians: Gaussians
    log_likelihood: float

    def integrate_velocity(self) -> Float[Tensor, "3 X Y Z"] | None:
        """Return the displacement of the deformation, for `to_atlas`; None for no deformation."""
        return None if self.velocity is None else integrate_velocity(self.velocity, self.velocity_grid)

    def to_atlas(
        self, points: Float[Tensor, "N 3"], displacement: Float[Tensor, "3 X Y Z"] | None
    ) -> Float[Tensor, "N 3"]:
        """Return the atlas points of world points; `displacement` is the result of `integrate_velocity`."""
        aligned = self.affine(points)
        return aligned if displacement is None else warp_points(aligned, displacement, self.velocity_grid)


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits one scan to one atlas.

    Args:
        observation: the scan.
        atlas: the atlas, with its labels summed by appearance.
        velocity_grid: grid of the deformation.
        generator: source of all randomness.
    """

    observation: Observation
    atlas: Appearances
    velocity_grid: Grid
    generator: torch.Generator

    def find_start(self, *, steps: int = 25, points: int = 5000) -> tuple[Affine, Gaussians]:
        """Try several rotations of the head, each with its own Gaussians; return the most likely of them."""
        brain = self.atlas.probabilities[1:].sum(0).flatten()
        atlas_points = grid_points(self.atlas.grid)
        centre = (brain[:, None] * atlas_points).sum(0) / brain.sum()
        spread = _measure_spread(atlas_points, brain, centre)
        inside = self.observation.points[self.observation.inside]
        inside_centre = inside.mean(0)
        scale = spread / _measure_spread(inside, inside.new_ones(len(inside)), inside_centre)
        candidates = []
        for degrees in _ROTATIONS:
            matrix = scale * rotation_matrix(degrees)
            affine = Affine(matrix, centre - matrix @ inside_centre)
            gaussians = self.fit_gaussians(affine, None, None, rounds=4, points=points)
            for _ in range(3):
                affine = self.refine_affine(affine, gaussians, steps=steps // 3, points=points, rate=0.01)
                gaussians = self.fit_gaussians(affine, None, gaussians, rounds=3, points=points)
            candidates.append((self.log_likelihood(affine, None, gaussians), affine, gaussians))
        _, affine, gaussians = max(candidates, key=lambda candidate: candidate[0])
        return affine, gaussians

    def refine_affine(
        self, affine: Affine, gaussians: Gaussians, *, steps: int = 50, points: int = 10000, rate: float = 0.006
    ) -> Affine:
        """Return the affine map after steps of Adam; the Gaussians are fixed."""
        change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.Adam([{"params": [change], "lr": rate}, {"params": [shift], "lr": 60 * rate}])
        decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.975)
        for _ in range(steps):
            loss = self._loss(affine.adjust(change, shift), None, gaussians, points)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
        return affine.adjust(change, shift).detach()

    def refine_deformation(
        self,
        affine: Affine,
        gaussians: Gaussians,
        velocity: Float[Tensor, "3 X Y Z"] | None = None,
        *,
        smoothness: float,
        steps: int = 100,
        points: int = 15000,
        rate: float = 0.35,
        every: int = 20,
    ) -> tuple[Affine, Tensor, Gaussians]:
        """Return affine map, velocity and Gaussians after Adam on the first two, with EM every `every` steps."""
        spacing = float(self.velocity_grid.spacing[0])
        field = torch.zeros(3, *self.velocity_grid.shape) if velocity is None else velocity.clone()
        field.requires_grad_(True)
        change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.Adam(
            [{"params": [field], "lr": rate}, {"params": [change], "lr": 5e-4}, {"params": [shift], "lr": 0.03}]
        )
        half = steps // 2
        decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.97 ** max(0, step - half))
        for step in range(1, steps + 1):
            displacement = integrate_velocity(field, self.velocity_grid)
            loss = self._loss(affine.adjust(change, shift), displacement, gaussians, points)
            optimizer.zero_grad()
            (loss + smoothness * roughness(field, spacing)).backward()
            optimizer.step()
            decay.step()
            if step % every == 0:
                displacement = integrate_velocity(field.detach(), self.velocity_grid)
                gaussians = self.fit_gaussians(affine.adjust(change, shift).detach(), displacement, gaussians, rounds=3)
        return affine.adjust(change, shift).detach(), field.detach(), gaussians

    @torch.no_grad()
    def fit_gaussians(
        self,
        affine: Affine,
        displacement: Tensor | None,
        before: Gaussians | None,
        *,
        rounds: int = 10,
        points: int = 20000,
    ) -> Gaussians:
        """Return the Gaussians after rounds of EM on random voxels of the mask, from `before` or from the atlas."""
        inside = self.observation.inside.nonzero().squeeze(1)
        indices = inside[draw_indices(len(inside), points, self.generator)]
        x = self.observation.x[indices]
        prior = self._prior(affine, displacement, indices)
        prior = condition_on_mask(prior, self.atlas.in_mask)
        initial = start_from_prior(x, prior, self.atlas.mixing)
        count = _PSEUDO_COUNT * points
        pseudo = PseudoCounts(torch.full_like(initial.means, count), initial.means, initial.deviations)
        floor = deviation_floor(x)
        return fit_partial_volume(x, prior, before or initial, pseudo, floor=floor, rounds=rounds).gaussians

    @torch.no_grad()
    def log_likelihood(
        self, affine: Affine, displacement: Tensor | None, gaussians: Gaussians, *, every: int = 17
    ) -> float:
        """Return the log-likelihood per voxel, estimated from every `every`-th voxel."""
        indices = torch.arange(0, len(self.observation.x), every)
        return -float(self._mean_loss(affine, displacement, gaussians, indices))

    def _loss(self, affine: Affine, displacement: Tensor | None, gaussians: Gaussians, points: int) -> Tensor:
        indices = draw_indices(len(self.observation.x), points, self.generator)
        return self._mean_loss(affine, displacement, gaussians, indices)

    def _mean_loss(self, affine: Affine, displacement: Tensor | None, gaussians: Gaussians, indices: Tensor) -> Tensor:
        prior = self._prior(affine, displacement, indices)
        x, inside = self.observation.x[indices], self.observation.inside[indices]
        log_likelihood = log_appearance(x, inside, gaussians, prior, self.atlas.in_mask)
        return -(prior.log() + log_likelihood).logsumexp(0).mean()

    def _prior(self, affine: Affine, displacement: Tensor | None, indices: Tensor) -> Tensor:
        atlas_points = affine(self.observation.points[indices])
        if displacement is not None:
            atlas_points = warp_points(atlas_points, displacement, self.velocity_grid)
        return sample_at(self.atlas.probabilities, self.atlas.grid, atlas_points) + _TINY


def _measure_spread(points: Tensor, weights: Tensor, centre: Tensor) -> float:
    return math.sqrt(float((weights * (points - centre).square().sum(1)).sum() / weights.sum()))


def fit_affine(fitter: Fitter, start: Affine | None = None) -> ScanFit:
    """Return the fit without a deformation: rotation of the head, then affine map, with Gaussians fitted in between.

    Args:
        fitter: the scan and the atlas.
        start: the approximate affine map; None tries several rotations of the head.
    """
    if start is None:
        affine, gaussians = fitter.find_start()
    else:
        affine, gaussians = start, fitter.fit_gaussians(start, None, None)
    affine = fitter.refine_affine(affine, gaussians)
    gaussians = fitter.fit_gaussians(affine, None, gaussians)
    affine = fitter.refine_affine(affine, gaussians, steps=25, rate=0.003)
    gaussians = fitter.fit_gaussians(affine, None, gaussians, points=40000)
    return ScanFit(affine, None, fitter.velocity_grid, gaussians, fitter.log_likelihood(affine, None, gaussians))


def fit_deformation(fitter: Fitter, start: ScanFit, *, steps: int = 100, rate: float = 0.35) -> ScanFit:
    """Return the fit with a deformation, starting from a fit without one or with a coarser one."""
    affine, velocity, gaussians = fitter.refine_deformation(
        start.affine, start.gaussians, start.velocity, smoothness=_SMOOTHNESS, steps=steps, rate=rate
    )
    displacement = integrate_velocity(velocity, fitter.velocity_grid)
    gaussians = fitter.fit_gaussians(affine, displacement, gaussians, points=40000)
    likelihood = fitter.log_likelihood(affine, displacement, gaussians)
    return ScanFit(affine, velocity, fitter.velocity_grid, gaussians, likelihood)
