"""Label maps brought to one place: recovered turns, affine maps and deformations."""

import numpy as np
import pytest
import torch
from applications.segmentation.heads import rotation as turn

from hardmax.applications.segmentation.atlas.alignment import (
    Shape,
    SoftMap,
    deform,
    measure_shape,
    place_by_centroids,
    pool_grid,
    refine_affine,
    soft_map,
)
from hardmax.applications.segmentation.atlas.atlas import (
    VELOCITIES,
    Atlas,
    align_maps,
    build_atlas,
    select_labels,
    smooth_volumes,
)
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    centred_grid,
    displacement,
    grid_points,
    rotation,
    sample_at,
    warp,
)
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.errors import DataError

GRID = centred_grid((24, 28, 24), 6.0)


def head(points):
    """Return probabilities `[5, N]` at points of a head that is the same left and right, and not front and back."""
    x, y, z = points.unbind(1)

    def ball(centre, sides):
        away = sum(((p - c) / s) ** 2 for p, c, s in zip((x.abs(), y, z), centre, sides, strict=True))
        return torch.sigmoid(6 * (1 - away.sqrt()))

    white, ventricle = ball((0, 0, 0), (45, 55, 42)), ball((8, 5, 8), (7, 25, 12))
    stem, core = ball((0, -15, -38), (14, 14, 20)), ball((25, 5, -5), (9, 18, 10))
    inside = torch.stack([ventricle, stem, core])
    left = white * (1 - inside.sum(0).clamp_max(1))
    return torch.cat([(1 - left - inside.sum(0)).clamp_min(0)[None], left[None], inside])


FINE = centred_grid((48, 56, 48), 3.0)


def a_map(way):
    """Return the map whose points x = way(y) look as the head does at y; labels are sure, blocks of them are not."""
    labels = head(way(grid_points(FINE))).argmax(0).view(FINE.shape).numpy()
    return soft_map(labels, FINE, range(5), spacing=6.0)


def undone(way):
    return a_map(way.inverse())


def a_template():
    one = undone(Affine(torch.eye(3), torch.zeros(3)))
    return SoftMap(smooth_volumes(one.probabilities.float()), one.grid)


def test_blocks_of_labels():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (7, 6, 5))
    found = soft_map(labels, Grid((7, 6, 5), np.diag([0.7, 1.0, 2.0, 1.0])), [0, 1, 3])
    assert found.probabilities.shape == (3, 2, 3, 5)
    block = labels[3:6, 2:4, 4]
    expected = [np.isin(block, [0, 2]).mean(), (block == 1).mean(), (block == 3).mean()]
    np.testing.assert_allclose(found.probabilities[:, 1, 1, 4].numpy(), expected, atol=1e-3)
    # The middle of a block is the mean of its voxels' places.
    np.testing.assert_allclose(found.grid.to_world(np.array([[1.0, 1.0, 4.0]]))[0], [4 * 0.7, 2.5, 8.0])


def test_pooled_grids_cover_the_same_place():
    grid = Grid((8, 8, 8), np.diag([1.0, 2.0, 3.0, 1.0]))
    np.testing.assert_allclose(pool_grid(grid, (2, 4, 1)).centre, grid.centre)


def test_turns_from_centroids():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(16, 3)) * [0.0, 30.0, 25.0]  # the structures lie between left and right
    tilts = [(5.0, 4.0, -6.0), (-12.0, 0.0, 3.0), (20.0, -4.0, 2.0)]
    sizes = [0.9, 1.0, 1.2]
    shapes = [
        Shape(rng.normal(size=3) * 20, 50.0 * size, size * flat @ turn(*tilt).T)
        for tilt, size in zip(tilts, sizes, strict=True)
    ]
    found = place_by_centroids(shapes)
    for i, place in enumerate(found):
        for j, other in enumerate(found):
            between = place.after(other.inverse()).matrix.numpy()
            np.testing.assert_allclose(between, sizes[i] / sizes[j] * turn(*tilts[i]) @ turn(*tilts[j]).T, atol=1e-4)
    # All structures at x = 0 in the template, and its front to the front of the headers.
    placed = found[0].inverse()(torch.tensor(shapes[0].centroids + shapes[0].centre, dtype=torch.float32))
    assert placed[:, 0].abs().max() < 1e-3
    for place in found:
        assert place.matrix[1, 1] > 0.8 * place.matrix[:, 1].norm()


def test_a_known_affine_map_is_found():
    true = Affine(1.1 * rotation([6.0, -5.0, 8.0]), torch.tensor([6.0, -4.0, 5.0]))
    one, template = undone(true), a_template()
    start = Affine(torch.eye(3), torch.zeros(3))
    found = refine_affine(one, template, start, steps=150, generator=torch.Generator().manual_seed(0))

    def loss(way):
        brought = sample_at(one.probabilities.float(), one.grid, way(grid_points(GRID)))
        return float(-(brought * (template.probabilities.flatten(1) + 1e-3).log()).sum(0).mean())

    # A head is nearly round: about some axes it turns at no cost. As good as the true way is what can be asked.
    assert loss(found) < loss(true) + 0.1 * (loss(start) - loss(true))
    torch.testing.assert_close(found.shift, true.shift, atol=0.8, rtol=0)
    scale = torch.linalg.det(found.matrix) ** (1 / 3)
    assert scale == pytest.approx(1.1, abs=0.03)


def test_a_known_deformation_is_found():
    velocities = centred_grid((14, 16, 14), 12.0)
    true = torch.zeros(3, *velocities.shape)
    true[1] = 10 * torch.exp(-grid_points(velocities).square().sum(1) / 2 / 30**2).view(velocities.shape)
    template = a_template()
    # The map at phi(y) is the head at y.
    one = a_map(lambda points: warp(points, displacement(-true, velocities), velocities))
    place = Affine(torch.eye(3), torch.zeros(3))
    generator = torch.Generator().manual_seed(0)
    found = deform(one, template, place, torch.zeros_like(true), velocities, smoothness=0.01, generator=generator)

    exact = undone(place).probabilities.float()

    def apart(velocity):
        reached = warp(grid_points(GRID), displacement(velocity, velocities), velocities)
        brought = sample_at(one.probabilities.float(), GRID, reached).view(5, *GRID.shape)
        return float((brought - exact).abs().mean())

    assert apart(found) < 0.8 * apart(torch.zeros_like(true))
    assert apart(-found) > 1.5 * apart(torch.zeros_like(true))


@pytest.mark.slow
def test_an_atlas_of_turned_heads():
    tilts = [(0.0, 0.0, 0.0), (14.0, 3.0, -5.0), (-9.0, -6.0, 4.0)]
    maps = [undone(Affine(rotation(tilt), torch.tensor([2.0 * tilt[0], -5.0, 3.0]))) for tilt in tilts]
    said = []
    aligned = align_maps(maps, lambda part, doing: said.append(part))
    atlas = build_atlas(aligned, STRUCTURES, select_labels(STRUCTURES)[:5])
    assert said == sorted(said)
    assert 0.9 < said[-1] <= 1
    sure = atlas.probabilities.max(0).values
    unaligned = torch.stack([one.probabilities.float().flatten(1) for one in maps]).mean(0).max(0).values
    assert sure.mean() > unaligned.mean()
    torch.testing.assert_close(atlas.probabilities, atlas.probabilities.flip(1))
    first, second = atlas.maps[0], atlas.maps[1]
    inside = first > 0
    assert (first == second)[inside].float().mean() > 0.9


def test_too_few_maps():
    with pytest.raises(DataError, match="at least 2 label maps, got 1"):
        align_maps([undone(Affine(torch.eye(3), torch.zeros(3)))])


def test_saved_and_loaded(tmp_path):
    generator = torch.Generator().manual_seed(0)
    grid = centred_grid((6, 4, 6), 2.0)
    probabilities = torch.rand(3, 6, 4, 6, generator=generator).softmax(0)
    maps = torch.randint(3, (5, 6, 4, 6), generator=generator).to(torch.uint8)
    velocities = 3 * torch.randn(5, 3, *VELOCITIES.shape, generator=generator)
    velocities[0, 0, 0, 0, 0] = 100.0  # more than can be kept
    Atlas(probabilities, grid, STRUCTURES, (0, 1, 7), maps, velocities).save_pretrained(tmp_path)
    found = Atlas.from_pretrained(tmp_path)
    assert (found.maps == maps).all()
    assert found.kept == (0, 1, 7)
    assert found.grid.same_as(grid)
    assert (found.probabilities - probabilities).abs().max() < 0.01
    assert (found.velocities - velocities.clamp(-12.8, 12.7)).abs().max() < 0.0501
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot read the atlas"):
        Atlas.from_pretrained(tmp_path)


def test_where_structures_are():
    found = measure_shape(undone(Affine(torch.eye(3), torch.tensor([3.0, 0.0, 0.0]))))
    assert found.centre[0] == pytest.approx(3, abs=0.3)
    assert found.centroids[2, 2] == pytest.approx(-38 - found.centre[2], abs=2)
