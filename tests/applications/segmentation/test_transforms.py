"""Affine maps, interpolation and deformations against closed forms."""

import numpy as np
import pytest
import torch

from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    grid_points,
    integrate_velocity,
    make_centred_grid,
    rotation_matrix,
    roughness,
    sample_at,
    warp_points,
)
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.errors import ArgumentError, ShapeError


def random_affine(seed=0):
    generator = torch.Generator().manual_seed(seed)
    change = 0.2 * torch.randn(3, 3, generator=generator, dtype=torch.float64)
    return Affine(torch.eye(3, dtype=torch.float64) + change, torch.randn(3, generator=generator, dtype=torch.float64))


def random_velocity(grid, size=3.0, seed=0):
    """Return a smooth velocity field that vanishes at the border of its grid."""
    generator = torch.Generator().manual_seed(seed)
    points = grid_points(grid).double()
    half = torch.from_numpy(grid.corners().max(0))
    bump = torch.cos(torch.pi / 2 * points / half).prod(1)
    waves = torch.randn(3, 3, generator=generator, dtype=torch.float64) / half
    phases = torch.randn(3, generator=generator, dtype=torch.float64)
    return (size * bump * torch.sin(waves @ points.T * 2 + phases[:, None])).view(3, *grid.shape)


class TestAffine:
    def test_inverse_and_composition(self):
        a, b, points = random_affine(1), random_affine(2), torch.randn(7, 3, dtype=torch.float64)
        torch.testing.assert_close(a.inverse()(a(points)), points)
        torch.testing.assert_close(a.compose(b)(points), a(b(points)))
        assert not torch.allclose(b.compose(a)(points), a(b(points)))

    def test_a_step(self):
        a, points = random_affine(), torch.randn(5, 3, dtype=torch.float64)
        change, shift = 0.1 * torch.randn(3, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
        expected = (points + points @ change.T) @ a.matrix.T + a.shift + shift
        torch.testing.assert_close(a.adjust(change, shift)(points), expected)

    def test_rotations_keep_lengths_and_handedness(self):
        matrix = rotation_matrix([20, -35, 50])
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(3), atol=1e-6, rtol=0)
        assert torch.linalg.det(matrix) == pytest.approx(1)
        torch.testing.assert_close(rotation_matrix([90, 0, 0])[:, 1], torch.tensor([0.0, 0.0, 1.0]), atol=1e-6, rtol=0)


class TestSampling:
    def test_linear_functions_are_exact_on_an_oblique_grid(self):
        affine = np.eye(4)
        affine[:3, :3] = rotation_matrix([10, 20, 30]).numpy() * [2.0, -1.5, 1.0]
        affine[:3, 3] = [5, -3, 2]
        grid = Grid((6, 7, 8), affine)
        slope = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.1, 4.0]], dtype=torch.float64)
        volume = (slope @ torch.from_numpy(grid.points()).T).view(2, *grid.shape)
        inside = torch.from_numpy(grid.to_world(np.random.default_rng(0).uniform(0, [5, 6, 7], (50, 3))))
        torch.testing.assert_close(sample_at(volume, grid, inside), slope @ inside.T)

    def test_beyond_the_border_is_the_border(self):
        grid = make_centred_grid((3, 3, 3), 2.0)
        volume = torch.arange(27.0).view(1, 3, 3, 3)
        assert sample_at(volume, grid, torch.tensor([[100.0, 100.0, 100.0]])).item() == 26

    def test_gradients(self):
        grid = make_centred_grid((4, 5, 4), 2.0)
        volume = torch.randn(2, 4, 5, 4, dtype=torch.float64, requires_grad=True)
        points = (torch.rand(6, 3, dtype=torch.float64) * 4 - 2.1).requires_grad_(True)
        assert torch.autograd.gradcheck(lambda v, p: sample_at(v, grid, p), (volume, points))

    def test_a_volume_of_another_shape(self):
        with pytest.raises(ShapeError, match=r"\[C, 3, 3, 3\], got \[1, 3, 3, 4\]"):
            sample_at(torch.zeros(1, 3, 3, 4), make_centred_grid((3, 3, 3), 1.0), torch.zeros(1, 3))


class TestDeformations:
    grid = make_centred_grid((40, 40, 40), 2.0)

    def points(self):
        return torch.rand(300, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 40 - 20

    def test_squaring_is_the_flow_in_small_steps(self):
        velocity, points = random_velocity(self.grid), self.points()
        flowed = points.clone()
        for _ in range(256):
            flowed = flowed + sample_at(velocity, self.grid, flowed).T / 256
        moved = warp_points(points, integrate_velocity(velocity, self.grid, squarings=6), self.grid)
        assert (flowed - points).norm(dim=1).max() > 1.5
        assert (moved - flowed).norm(dim=1).max() < 0.06
        # The velocity itself, instead of its flow, is another displacement.
        assert (warp_points(points, velocity, self.grid) - flowed).norm(dim=1).max() > 0.15

    def test_minus_the_velocity_gives_the_inverse(self):
        velocity, points = random_velocity(self.grid), self.points()
        forward = warp_points(points, integrate_velocity(velocity, self.grid), self.grid)
        back = warp_points(forward, integrate_velocity(-velocity, self.grid), self.grid)
        assert (back - points).norm(dim=1).max() < 0.08

    def test_halves_compose_to_the_whole(self):
        velocity, points = random_velocity(self.grid), self.points()
        half = integrate_velocity(velocity / 2, self.grid)
        full = warp_points(points, integrate_velocity(velocity, self.grid), self.grid)
        assert (warp_points(warp_points(points, half, self.grid), half, self.grid) - full).norm(dim=1).max() < 0.05

    def test_gradients_go_through_the_flow(self):
        grid = make_centred_grid((4, 4, 4), 8.0)
        velocity = torch.randn(3, 4, 4, 4, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda v: integrate_velocity(v, grid, squarings=2), velocity)

    def test_roughness_of_a_square_and_a_slope(self):
        # v_x = c x^2: the second difference is 2 c h^2, and is scaled to a grid of 8 mm.
        for spacing in (4.0, 8.0):
            grid = make_centred_grid((6, 6, 6), spacing)
            points = grid_points(grid)
            square = torch.zeros(3, 6, 6, 6)
            square[0] = (0.01 * points[:, 0] ** 2).view(6, 6, 6)
            first = square.diff(dim=1).square().mean() * (8 / spacing) ** 2
            expected = (2 * 0.01 * 8**2) ** 2 / 3 + 0.1 * float(first)
            assert roughness(square, spacing).item() == pytest.approx(expected, rel=1e-4)
        slope = points[:, :1].T.expand(3, -1).view(3, 6, 6, 6) * 0.1
        assert roughness(slope, 8.0).item() == pytest.approx(0.1 * 0.8**2, rel=1e-4)

    def test_negative_squarings(self):
        with pytest.raises(ArgumentError, match="negative"):
            integrate_velocity(torch.zeros(3, 4, 4, 4), make_centred_grid((4, 4, 4), 8.0), squarings=-1)
