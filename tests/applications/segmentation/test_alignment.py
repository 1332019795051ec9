"""Alignment of label maps: known rotations, affine maps and deformations are recovered."""

import numpy as np
import pytest
import torch
from applications.segmentation.heads import rotation_matrix as head_rotation

from hardmax.applications.segmentation.atlas.alignment import (
    Shape,
    SoftMap,
    align_by_centroids,
    fit_velocity,
    make_soft_map,
    measure_shape,
    pool_grid,
    refine_affine,
)
from hardmax.applications.segmentation.atlas.atlas import (
    VELOCITY_GRID,
    Atlas,
    align_maps,
    build_atlas,
    select_labels,
    smooth_volumes,
)
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    grid_points,
    integrate_velocity,
    make_centred_grid,
    rotation_matrix,
    sample_at,
    warp_points,
)
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.errors import DataError

GRID = make_centred_grid((24, 28, 24), 6.0)


def make_head(points):
    """Return probabilities `[5, N]` at points of a head that is symmetric left and right, but not front and back."""
    x, y, z = points.unbind(1)

    def ball(centre, sides):
        square = sum(((p - c) / s) ** 2 for p, c, s in zip((x.abs(), y, z), centre, sides, strict=True))
        return torch.sigmoid(6 * (1 - square.sqrt()))

    white, ventricle = ball((0, 0, 0), (45, 55, 42)), ball((8, 5, 8), (7, 25, 12))
    stem, core = ball((0, -15, -38), (14, 14, 20)), ball((25, 5, -5), (9, 18, 10))
    inside = torch.stack([ventricle, stem, core])
    rest = white * (1 - inside.sum(0).clamp_max(1))
    return torch.cat([(1 - rest - inside.sum(0)).clamp_min(0)[None], rest[None], inside])


FINE = make_centred_grid((48, 56, 48), 3.0)


def make_map(transform):
    """Return the map of a head whose label at x is that of the head at `transform(x)`, as fractions of blocks."""
    labels = make_head(transform(grid_points(FINE))).argmax(0).view(FINE.shape).numpy()
    return make_soft_map(labels, FINE, range(5), spacing=6.0)


def move_head(affine):
    """Return the map of a head that an affine map has moved."""
    return make_map(affine.inverse())


def make_template():
    unmoved = move_head(Affine(torch.eye(3), torch.zeros(3)))
    return SoftMap(smooth_volumes(unmoved.probabilities.float()), unmoved.grid)


def test_blocks_of_labels():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (7, 6, 5))
    soft_map = make_soft_map(labels, Grid((7, 6, 5), np.diag([0.7, 1.0, 2.0, 1.0])), [0, 1, 3])
    assert soft_map.probabilities.shape == (3, 2, 3, 5)
    block = labels[3:6, 2:4, 4]
    expected = [np.isin(block, [0, 2]).mean(), (block == 1).mean(), (block == 3).mean()]
    np.testing.assert_allclose(soft_map.probabilities[:, 1, 1, 4].numpy(), expected, atol=1e-3)
    # The centre of a block is the mean of its voxels' positions.
    np.testing.assert_allclose(soft_map.grid.to_world(np.array([[1.0, 1.0, 4.0]]))[0], [4 * 0.7, 2.5, 8.0])


def test_pooled_grids_cover_the_same_place():
    grid = Grid((8, 8, 8), np.diag([1.0, 2.0, 3.0, 1.0]))
    np.testing.assert_allclose(pool_grid(grid, (2, 4, 1)).centre, grid.centre)


def test_rotations_from_centroids():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(16, 3)) * [0.0, 30.0, 25.0]  # the structures lie between left and right
    tilts = [(5.0, 4.0, -6.0), (-12.0, 0.0, 3.0), (20.0, -4.0, 2.0)]
    sizes = [0.9, 1.0, 1.2]
    shapes = [
        Shape(rng.normal(size=3) * 20, 50.0 * size, size * flat @ head_rotation(*tilt).T)
        for tilt, size in zip(tilts, sizes, strict=True)
    ]
    affines = align_by_centroids(shapes)
    for i, affine in enumerate(affines):
        for j, other in enumerate(affines):
            between = affine.compose(other.inverse()).matrix.numpy()
            np.testing.assert_allclose(
                between, sizes[i] / sizes[j] * head_rotation(*tilts[i]) @ head_rotation(*tilts[j]).T, atol=1e-4
            )
    # All structures at x = 0 in the template, and its front to the front of the headers.
    aligned = affines[0].inverse()(torch.tensor(shapes[0].centroids + shapes[0].centre, dtype=torch.float32))
    assert aligned[:, 0].abs().max() < 1e-3
    for affine in affines:
        assert affine.matrix[1, 1] > 0.8 * affine.matrix[:, 1].norm()


def test_a_known_affine_map_is_found():
    true = Affine(1.1 * rotation_matrix([6.0, -5.0, 8.0]), torch.tensor([6.0, -4.0, 5.0]))
    moved, template = move_head(true), make_template()
    start = Affine(torch.eye(3), torch.zeros(3))
    fitted = refine_affine(moved, template, start, steps=150, generator=torch.Generator().manual_seed(0))

    def loss(affine):
        sampled = sample_at(moved.probabilities.float(), moved.grid, affine(grid_points(GRID)))
        return float(-(sampled * (template.probabilities.flatten(1) + 1e-3).log()).sum(0).mean())

    # A head is nearly round, and rotates about some axes at no cost: the loss is compared, not the rotation.
    assert loss(fitted) < loss(true) + 0.1 * (loss(start) - loss(true))
    torch.testing.assert_close(fitted.shift, true.shift, atol=0.8, rtol=0)
    scale = torch.linalg.det(fitted.matrix) ** (1 / 3)
    assert scale == pytest.approx(1.1, abs=0.03)


def test_a_known_deformation_is_found():
    velocities = make_centred_grid((14, 16, 14), 12.0)
    true = torch.zeros(3, *velocities.shape)
    true[1] = 10 * torch.exp(-grid_points(velocities).square().sum(1) / 2 / 30**2).view(velocities.shape)
    template = make_template()
    # The map at phi(y) is the head at y.
    deformed = make_map(lambda points: warp_points(points, integrate_velocity(-true, velocities), velocities))
    identity = Affine(torch.eye(3), torch.zeros(3))
    generator = torch.Generator().manual_seed(0)
    fitted = fit_velocity(
        deformed, template, identity, torch.zeros_like(true), velocities, smoothness=0.01, generator=generator
    )

    exact = move_head(identity).probabilities.float()

    def difference(velocity):
        map_points = warp_points(grid_points(GRID), integrate_velocity(velocity, velocities), velocities)
        sampled = sample_at(deformed.probabilities.float(), GRID, map_points).view(5, *GRID.shape)
        return float((sampled - exact).abs().mean())

    assert difference(fitted) < 0.8 * difference(torch.zeros_like(true))
    assert difference(-fitted) > 1.5 * difference(torch.zeros_like(true))


@pytest.mark.slow
def test_an_atlas_of_tilted_heads():
    tilts = [(0.0, 0.0, 0.0), (14.0, 3.0, -5.0), (-9.0, -6.0, 4.0)]
    maps = [move_head(Affine(rotation_matrix(tilt), torch.tensor([2.0 * tilt[0], -5.0, 3.0]))) for tilt in tilts]
    fractions = []
    aligned = align_maps(maps, lambda part, doing: fractions.append(part))
    atlas = build_atlas(aligned, STRUCTURES, select_labels(STRUCTURES)[:5])
    assert fractions == sorted(fractions)
    assert 0.9 < fractions[-1] <= 1
    confidence = atlas.probabilities.max(0).values
    unaligned = torch.stack([soft_map.probabilities.float().flatten(1) for soft_map in maps]).mean(0).max(0).values
    assert confidence.mean() > unaligned.mean()
    torch.testing.assert_close(atlas.probabilities, atlas.probabilities.flip(1))
    first, second = atlas.maps[0], atlas.maps[1]
    inside = first > 0
    assert (first == second)[inside].float().mean() > 0.9


def test_too_few_maps():
    with pytest.raises(DataError, match="at least 2 label maps, got 1"):
        align_maps([move_head(Affine(torch.eye(3), torch.zeros(3)))])


def test_saved_and_loaded(tmp_path):
    generator = torch.Generator().manual_seed(0)
    grid = make_centred_grid((6, 4, 6), 2.0)
    probabilities = torch.rand(3, 6, 4, 6, generator=generator).softmax(0)
    maps = torch.randint(3, (5, 6, 4, 6), generator=generator).to(torch.uint8)
    velocities = 3 * torch.randn(5, 3, *VELOCITY_GRID.shape, generator=generator)
    velocities[0, 0, 0, 0, 0] = 100.0  # more than can be stored
    Atlas(probabilities, grid, STRUCTURES, (0, 1, 7), maps, velocities).save_pretrained(tmp_path)
    loaded = Atlas.from_pretrained(tmp_path)
    assert (loaded.maps == maps).all()
    assert loaded.kept == (0, 1, 7)
    assert loaded.grid.same_as(grid)
    assert (loaded.probabilities - probabilities).abs().max() < 0.01
    assert (loaded.velocities - velocities.clamp(-12.8, 12.7)).abs().max() < 0.0501
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot read the atlas"):
        Atlas.from_pretrained(tmp_path)


def test_where_structures_are():
    shape = measure_shape(move_head(Affine(torch.eye(3), torch.tensor([3.0, 0.0, 0.0]))))
    assert shape.centre[0] == pytest.approx(3, abs=0.3)
    assert shape.centroids[2, 2] == pytest.approx(-38 - shape.centre[2], abs=2)
