"""Whole heads: their atlas, whether a scan has its skull, and the brain mask, on scans synthesised from the atlas."""

import json
from dataclasses import replace

import nibabel
import numpy as np
import pytest
import torch

from hardmax.applications.segmentation.atlas.head import (
    HEAD_PARTS,
    HeadAtlas,
    HeadMap,
    build_head_atlas,
    find_head_parts,
    read_head_map,
)
from hardmax.applications.segmentation.atlas.transforms import Affine, make_centred_grid, rotation_matrix
from hardmax.applications.segmentation.fit.extraction import extract_brain, find_skull
from hardmax.applications.segmentation.fit.head import (
    HeadStart,
    find_head,
    has_skull,
    make_head_appearances,
    observe_head,
)
from hardmax.applications.segmentation.model_folder import HEAD, find_model, load_part
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError

# Brightness of the parts, in their order, in a T1-weighted scan.
MEANS = (0.0, 0.75, 0.52, 0.18, 0.62, 0.7, 0.18, 0.1, 0.6, 0.8, 0.5, 0.35, 0.4, 0.2, 0.68)
IN_BRAIN = np.array([part.in_brain for part in HEAD_PARTS])


@pytest.fixture(scope="module")
def atlas():
    return load_part(HeadAtlas, find_model(None), HEAD)


def synthesise_head(atlas, *, stripped=False, tilt=(0, 0, 0), shift=(0.0, 0.0, 0.0), inverted=False):
    """Return a scan of 3 mm of the mean head, tilted by its header, and which of its voxels are brain."""
    parts = atlas.probabilities.argmax(0).numpy()
    brain = IN_BRAIN[parts]
    means = np.array(MEANS)
    x = (np.where(parts > 0, 1 - means[parts], 0) if inverted else means[parts]) + 0.03 * np.random.default_rng(
        0
    ).standard_normal(parts.shape)
    x = np.where(brain, np.maximum(x, 0.01), 0) if stripped else np.abs(x)
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = rotation_matrix(tilt).numpy(), shift
    return Volume((500 * x).astype(np.float32), Grid(parts.shape, affine @ atlas.grid.affine)), brain


def overlap(a, b):
    return 2 * (a & b).sum() / (a.sum() + b.sum())


def test_parts_of_a_head():
    numbers = np.array([[[0, 41, 3, 14], [24, 515, 511, 507], [16, 13, 999, 530]]])
    names = [HEAD_PARTS[index].name for index in find_head_parts(numbers).ravel()]
    assert names == [
        *("air", "white_matter", "grey_matter", "ventricle", "fluid", "skull", "skin", "soft_tissue", "brain_stem"),
        *("deep_grey_matter", "soft_tissue", "cavity"),
    ]


def test_only_maps_with_their_skull_are_heads(tmp_path):
    affine = np.diag([-1.0, 1.0, 1.0, 1.0])
    numbers = np.array([0, 2, 24, 515, 511, 511], np.int16).reshape(6, 1, 1)
    nibabel.save(nibabel.Nifti1Image(numbers, affine), tmp_path / "head.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.where(numbers > 500, 0, numbers), affine), tmp_path / "brain.nii.gz")
    head = read_head_map(tmp_path / "head.nii.gz")
    assert head is not None
    assert head.grid.axes == "RAS"
    assert head.parts[:, 0, 0].tolist() == [9, 9, 7, 6, 1, 0]
    assert read_head_map(tmp_path / "brain.nii.gz") is None


def test_mean_of_heads():
    # Two heads of skin over the whole box, one of them cut 20 mm below the middle of the brain.
    grids = [make_centred_grid((50, 50, 50), 8.0), Grid((50, 50, 28), make_centred_grid((50, 50, 50), 8.0).affine)]
    grids[1] = Grid((50, 50, 28), grids[1].affine @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 22], [0, 0, 0, 1]]))
    parts = [np.full(grids[0].shape, 9, np.uint8), np.full(grids[1].shape, 1, np.uint8)]
    parts[1][25:] = 0  # white matter on the left, air on the right
    velocity_grid = make_centred_grid((4, 4, 4), 60.0)
    identity = Affine(torch.eye(3), torch.zeros(3))
    maps = [HeadMap(part, grid) for part, grid in zip(parts, grids, strict=True)]
    atlas = build_head_atlas(maps, [identity] * 2, torch.zeros(2, 3, *velocity_grid.shape), velocity_grid)
    values = atlas.probabilities
    assert torch.allclose(values.sum(0), torch.ones(()))
    top, bottom = values[..., -20], values[..., 0]
    assert top[9].unique().tolist() == [0.5]
    assert top[1].unique().tolist() == top[0].unique().tolist() == [0.25]  # left and right are averaged
    assert bottom[9].unique().tolist() == [1.0]  # what the second map does not show is not air


def test_saved_and_loaded(atlas, tmp_path):
    atlas.save_pretrained(tmp_path)
    again = HeadAtlas.from_pretrained(tmp_path)
    assert (again.probabilities - atlas.probabilities).abs().max() < 2 / 255
    assert again.grid.same_as(atlas.grid)
    config = json.loads((tmp_path / "config.json").read_text())
    config["parts"][1] = "tumour"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"does not hold an atlas of heads: its parts are .*tumour"):
        HeadAtlas.from_pretrained(tmp_path)


def test_the_likelier_explanation_counts():
    def start(likelihood):
        tissues = Gaussians(torch.zeros(1), torch.ones(1), torch.ones(1, 1))
        return HeadStart(Affine(torch.eye(3), torch.zeros(3)), tissues, likelihood)

    assert has_skull(start(0.1), start(-1.0))
    assert not has_skull(start(1.0), start(1.2))
    assert not has_skull(start(1.05), start(1.0))  # without a skull both explain a scan


def test_without_an_atlas_of_heads(atlas):
    segmenter = Segmenter.load(find_model(None))
    segmenter.head = None
    scan, _ = synthesise_head(atlas)
    with pytest.raises(DataError, match="no atlas of the head"):
        segmenter.segment(scan, skull="on")


def test_a_scan_of_one_value():
    with pytest.raises(DataError, match="nearly everywhere"):
        observe_head(Volume(np.full((20, 20, 20), 3.0, np.float32), make_centred_grid((20, 20, 20), 8.0)))


@pytest.mark.slow
def test_position_of_a_tilted_head(atlas):
    tilt, shift = (20, 0, 15), (30.0, -20.0, 40.0)
    scan, _ = synthesise_head(atlas, tilt=tilt, shift=shift)
    start = find_head(observe_head(scan).observation, make_head_appearances(atlas))
    middle = start.affine.inverse().shift.numpy()
    np.testing.assert_allclose(middle, shift, atol=8)
    rotation = start.affine.matrix @ rotation_matrix(tilt)
    assert torch.linalg.matrix_norm(rotation - torch.eye(3)) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("inverted", [False, True])
def test_the_brain_is_extracted(atlas, inverted):
    scan, brain = synthesise_head(atlas, inverted=inverted, tilt=(-10, 0, 5))
    is_whole, head, start = find_skull(scan, atlas)
    assert is_whole
    extraction = extract_brain(scan, atlas, head, start)
    assert overlap(extraction.mask, brain) > 0.93
    assert extraction.coverage > 0.99
    assert extraction.doubts == ()


@pytest.mark.slow
def test_a_stripped_scan_has_no_skull(atlas):
    scan, _ = synthesise_head(atlas, stripped=True)
    assert not find_skull(scan, atlas)[0]


@pytest.mark.slow
def test_fields_of_view(atlas):
    scan, _ = synthesise_head(atlas)
    middle = int((0.0 - atlas.grid.affine[2, 3]) / atlas.grid.spacing[2])
    lower = replace(scan, values=scan.values[..., :middle], grid=Grid((62, 83, middle), scan.grid.affine))
    _, head, start = find_skull(lower, atlas)
    assert "inside the field of view" in extract_brain(lower, atlas, head, start).doubts[0]
    neck = replace(scan, values=scan.values[..., :20], grid=Grid((62, 83, 20), scan.grid.affine))
    _, head, start = find_skull(neck, atlas)
    with pytest.raises(DataError, match="there is no brain in the scan"):
        extract_brain(neck, atlas, head, start)
