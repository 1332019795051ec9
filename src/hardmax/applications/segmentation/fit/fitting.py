"""Fit of one scan to the atlas: position of the brain, intensities of its tissues, deformation from the mean shape.

A voxel at p in the scan is at `q = phi(A p)` in the atlas, A affine, `phi = exp(v)`. With f the atlas' probabilities
there, x the intensity and b whether the voxel is in the mask of the brain, the fit maximises

`sum_j log sum_m f_m(q_j) p(b_j | m) p(x_j | m)^{b_j} - smoothness * N * roughness(v)`,

the exact likelihood and the logarithm of a prior on deformations. Gaussians are fitted by EM, A and v by steps of Adam
on a random part of the voxels, alternately. Labels that look the same (one Gaussian) are summed first: the scan cannot
distinguish them.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    displacement,
    draw_indices,
    grid_points,
    rotation,
    roughness,
    sample_at,
    warp,
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
_ROTATIONS = ((0, 0, 0), (25, 0, 0), (-25, 0, 0), (0, 25, 0), (0, -25, 0), (0, 0, 25), (0, 0, -25))


@dataclass(frozen=True, eq=False)
class ScanFit:
    """Fit of a scan to the atlas.

    Attributes:
        place: affine map from the scan's world to the atlas.
        velocity: `[3, X, Y, Z]`, of the deformation after it; None for no deformation.
        velocity_grid: grid of the velocity.
        gaussians: Gaussians of the appearances, in standardised intensities.
        log_likelihood: per voxel of the mask and its margin, in nats.
    """

    place: Affine
    velocity: Float[Tensor, "3 X Y Z"] | None
    velocity_grid: Grid
    gaussians: Gaussians
    log_likelihood: float

    def find_displacement(self) -> Float[Tensor, "3 X Y Z"] | None:
        """Return the displacement of the deformation, or None: compute it once for all points."""
        return None if self.velocity is None else displacement(self.velocity, self.velocity_grid)

    def to_atlas(self, points: Float[Tensor, "N 3"], moved: Float[Tensor, "3 X Y Z"] | None) -> Float[Tensor, "N 3"]:
        """Return the atlas points of points in the scan's world; `moved` is the result of `find_displacement`."""
        reached = self.place(points)
        return reached if moved is None else warp(reached, moved, self.velocity_grid)


@dataclass(frozen=True, eq=False)
class Fitter:
    """The fit of one scan to one atlas.

    Args:
        observed: the scan.
        atlas: its labels summed by appearance.
        velocity_grid: grid of the deformation.
        generator: source of all randomness.
    """

    observed: Observation
    atlas: Appearances
    velocity_grid: Grid
    generator: torch.Generator

    def start(self, *, steps: int = 25, points: int = 5000) -> tuple[Affine, Gaussians]:
        """Try rotations of the head, each with Gaussians fitted for it; return the most likely one."""
        brain = self.atlas.probabilities[1:].sum(0).flatten()
        places = grid_points(self.atlas.grid)
        centre = (brain[:, None] * places).sum(0) / brain.sum()
        spread = _spread(places, brain, centre)
        inside = self.observed.points[self.observed.inside]
        inside_centre = inside.mean(0)
        scale = spread / _spread(inside, inside.new_ones(len(inside)), inside_centre)
        candidates = []
        for turn in _ROTATIONS:
            matrix = scale * rotation(turn)
            place = Affine(matrix, centre - matrix @ inside_centre)
            gaussians = self.gaussians(place, None, None, rounds=4, points=points)
            for _ in range(3):
                place = self.refine(place, gaussians, steps=steps // 3, points=points, rate=0.01)
                gaussians = self.gaussians(place, None, gaussians, rounds=3, points=points)
            candidates.append((self.likelihood(place, None, gaussians), place, gaussians))
        _, place, gaussians = max(candidates, key=lambda one: one[0])
        return place, gaussians

    def refine(
        self, place: Affine, gaussians: Gaussians, *, steps: int = 50, points: int = 10000, rate: float = 0.006
    ) -> Affine:
        """Return the affine map after steps of Adam, with fixed Gaussians."""
        change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.Adam([{"params": [change], "lr": rate}, {"params": [shift], "lr": 60 * rate}])
        decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.975)
        for _ in range(steps):
            loss = self._loss(place.adjust(change, shift), None, gaussians, points)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
        return place.adjust(change, shift).detach()

    def deform(
        self,
        place: Affine,
        gaussians: Gaussians,
        velocity: Float[Tensor, "3 X Y Z"] | None = None,
        *,
        smoothness: float,
        steps: int = 100,
        points: int = 15000,
        rate: float = 0.35,
        every: int = 20,
    ) -> tuple[Affine, Tensor, Gaussians]:
        """Return affine map, velocity and Gaussians after steps of Adam on the first two, with EM in between."""
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
            moved = displacement(field, self.velocity_grid)
            loss = self._loss(place.adjust(change, shift), moved, gaussians, points)
            optimizer.zero_grad()
            (loss + smoothness * roughness(field, spacing)).backward()
            optimizer.step()
            decay.step()
            if step % every == 0:
                moved = displacement(field.detach(), self.velocity_grid)
                gaussians = self.gaussians(place.adjust(change, shift).detach(), moved, gaussians, rounds=3)
        return place.adjust(change, shift).detach(), field.detach(), gaussians

    @torch.no_grad()
    def gaussians(
        self,
        place: Affine,
        moved: Tensor | None,
        before: Gaussians | None,
        *,
        rounds: int = 10,
        points: int = 20000,
    ) -> Gaussians:
        """Return the Gaussians after rounds of EM on a random part of the mask, from `before` or from the atlas."""
        inside = self.observed.inside.nonzero().squeeze(1)
        chosen = inside[draw_indices(len(inside), points, self.generator)]
        x = self.observed.x[chosen]
        prior = self._prior(place, moved, chosen)
        prior = condition_on_mask(prior)
        begin = start_from_prior(x, prior, self.atlas.mixing)
        count = _PSEUDO_COUNT * points
        pseudo = PseudoCounts(torch.full_like(begin.means, count), begin.means, begin.deviations)
        floor = deviation_floor(x)
        return fit_partial_volume(x, prior, before or begin, pseudo, floor=floor, rounds=rounds).gaussians

    @torch.no_grad()
    def likelihood(self, place: Affine, moved: Tensor | None, gaussians: Gaussians, *, every: int = 17) -> float:
        """Return the log-likelihood per voxel, estimated on every `every`-th voxel."""
        chosen = torch.arange(0, len(self.observed.x), every)
        return -float(self._mean_loss(place, moved, gaussians, chosen))

    def _loss(self, place: Affine, moved: Tensor | None, gaussians: Gaussians, points: int) -> Tensor:
        chosen = draw_indices(len(self.observed.x), points, self.generator)
        return self._mean_loss(place, moved, gaussians, chosen)

    def _mean_loss(self, place: Affine, moved: Tensor | None, gaussians: Gaussians, chosen: Tensor) -> Tensor:
        prior = self._prior(place, moved, chosen)
        log_likelihood = log_appearance(self.observed.x[chosen], self.observed.inside[chosen], gaussians, prior)
        return -(prior.log() + log_likelihood).logsumexp(0).mean()

    def _prior(self, place: Affine, moved: Tensor | None, chosen: Tensor) -> Tensor:
        reached = place(self.observed.points[chosen])
        if moved is not None:
            reached = warp(reached, moved, self.velocity_grid)
        return sample_at(self.atlas.probabilities, self.atlas.grid, reached) + _TINY


def _spread(points: Tensor, weights: Tensor, centre: Tensor) -> float:
    return math.sqrt(float((weights * (points - centre).square().sum(1)).sum() / weights.sum()))


def fit_affine(fitter: Fitter) -> ScanFit:
    """Return the fit without a deformation: rotation of the head, then affine map, with Gaussians fitted in between."""
    place, gaussians = fitter.start()
    place = fitter.refine(place, gaussians)
    gaussians = fitter.gaussians(place, None, gaussians)
    place = fitter.refine(place, gaussians, steps=25, rate=0.003)
    gaussians = fitter.gaussians(place, None, gaussians, points=40000)
    return ScanFit(place, None, fitter.velocity_grid, gaussians, fitter.likelihood(place, None, gaussians))


def fit_deformation(fitter: Fitter, begun: ScanFit, *, steps: int = 100, rate: float = 0.35) -> ScanFit:
    """Return the fit with a deformation, starting from a fit without one or with a coarser one."""
    place, velocity, gaussians = fitter.deform(
        begun.place, begun.gaussians, begun.velocity, smoothness=_SMOOTHNESS, steps=steps, rate=rate
    )
    moved = displacement(velocity, fitter.velocity_grid)
    gaussians = fitter.gaussians(place, moved, gaussians, points=40000)
    likelihood = fitter.likelihood(place, moved, gaussians)
    return ScanFit(place, velocity, fitter.velocity_grid, gaussians, likelihood)
