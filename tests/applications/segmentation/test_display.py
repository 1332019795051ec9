"""Scans for display: slices of any orientation look the same, and clicks lead to the voxel that is shown."""

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import (
    ORIENTATIONS,
    make_anatomy,
    make_head,
    reorder_voxels,
    save_volume,
    world_points,
)

from hardmax.applications.segmentation.results.records import QUALITY, find_result_folders
from hardmax.applications.segmentation.results.slices import (
    PLANES,
    colour_labels,
    cut_slice,
    find_centre,
    find_voxel,
    load_display_scan,
    load_other_labels,
    locate_in_slice,
    mark_differences,
    measure_aspect,
)
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.errors import DataError


@pytest.fixture(scope="module")
def head():
    """Values, labels and affine of a head whose voxels are not cubes."""
    values, affine = make_head(shape=(12, 16, 14))
    return values, make_anatomy(world_points(values.shape, affine), values).astype(np.uint8), affine


def save_head(folder, head, order=(0, 1, 2), flips=(1, 1, 1)):
    values, labels, affine = head
    stored, new_affine = reorder_voxels(values, affine, order, flips)
    stored_labels, _ = reorder_voxels(labels, affine, order, flips)
    scan = save_volume(folder / "scan.nii.gz", stored, new_affine)
    return scan, save_volume(folder / "scan_labels.nii.gz", stored_labels, new_affine, dtype=np.uint8)


@pytest.mark.parametrize(("order", "flips"), ORIENTATIONS[::5])
def test_slices_do_not_depend_on_the_order_of_voxels(tmp_path, head, order, flips):
    upright = load_display_scan(*save_head(tmp_path, head))
    stored = load_display_scan(*save_head(tmp_path, head, order, flips))
    assert stored.grid.axes == "RAS"
    assert np.array_equal(stored.grey, upright.grey)
    assert np.array_equal(stored.labels, upright.labels)


def test_sides_of_the_slices(tmp_path, head):
    """The ball is brighter on its right side; the labels differ in front and behind, above and below."""
    scan = load_display_scan(*save_head(tmp_path, head))
    x, y, z = (side // 2 for side in scan.grid.shape)
    for plane in PLANES:
        grey = cut_slice(scan.grey, plane, (x, y, z)[plane.axis])
        rows, columns = grey.shape
        points = {}
        places = ((rows // 2, 1), (rows // 2, columns - 2), (rows - 2, columns // 2), (1, columns // 2))
        for letter, (row, column) in zip(plane.letters, places, strict=True):
            voxel = find_voxel(plane, row, column, (x, y, z), scan.grid.shape)
            assert locate_in_slice(plane, voxel, scan.grid.shape) == (row, column)
            assert grey[row, column] == scan.grey[voxel]
            points[letter] = scan.grid.to_world(np.array([voxel], float))[0]
        for letter, axis, sign in (("R", 0, 1), ("L", 0, -1), ("A", 1, 1), ("P", 1, -1), ("S", 2, 1), ("I", 2, -1)):
            if letter in points:
                assert sign * points[letter][axis] > 3
    across = 12 * 2.0
    assert measure_aspect(PLANES[1], scan.grid) == pytest.approx(across / (14 * 1.8))


def test_brightness_is_monotone_and_uses_the_range(tmp_path, head):
    scan = load_display_scan(*save_head(tmp_path, head))
    values = head[0]
    order = np.argsort(values.ravel())
    assert (np.diff(scan.grey.ravel()[order].astype(int)) >= 0).all()
    assert scan.grey.dtype == np.uint8
    assert scan.grey.min() == 0
    assert 180 <= scan.grey.max() <= 255


def test_labels_alone_and_a_second_map(tmp_path, head):
    scan, labels = save_head(tmp_path, head)
    alone = load_display_scan(None, labels)
    assert alone.grey is None
    shown = load_display_scan(scan, labels)
    assert np.array_equal(alone.labels, shown.labels)
    _, other, affine = head
    changed = other.copy()
    changed[6, 8, 7] = 17  # does not count in comparisons
    changed[6, 8, 6] = 5 if other[6, 8, 6] != 5 else 4
    stored, new_affine = reorder_voxels(changed, affine, (2, 0, 1), (-1, 1, -1))
    second = load_other_labels(save_volume(tmp_path / "b.nii.gz", stored, new_affine, dtype=np.uint8), shown)
    assert np.array_equal(second, changed)
    alphas = np.asarray(
        mark_differences(cut_slice(shown.labels, PLANES[0], 6), cut_slice(second, PLANES[0], 6), STRUCTURES)
    )[..., 3]
    row, column = locate_in_slice(PLANES[0], (6, 8, 6), shown.grid.shape)
    assert alphas[row, column] == 255
    seven = locate_in_slice(PLANES[0], (6, 8, 7), shown.grid.shape)
    assert (alphas[seven] == 255) == bool(other[6, 8, 7])
    only = mark_differences(shown.labels[6], second[6], STRUCTURES, only=18)
    assert not np.asarray(only)[..., 3].any()
    far = affine.copy()
    far[:3, 3] += 500
    with pytest.raises(DataError, match="does not overlap the scan"):
        load_other_labels(save_volume(tmp_path / "far.nii.gz", other, far, dtype=np.uint8), shown)


def test_colours_of_labels():
    image = np.asarray(colour_labels(np.array([[0, 1, 2]]), STRUCTURES))
    assert image[0, 0, 3] == 0
    assert tuple(image[0, 2]) == (*STRUCTURES.labels[2].colour, 255)
    faint = np.asarray(colour_labels(np.array([[0, 1, 2]]), STRUCTURES, only=2))
    assert faint[0, 1, 3] < faint[0, 2, 3] == 255


def test_the_centre_of_a_structure_is_inside_of_it():
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[1:8, 1:8, 4] = 3
    labels[2:7, 2:7, 4] = 0  # a ring, whose mean is not in it
    assert labels[find_centre(labels, 3)] == 3
    assert find_centre(labels, 4) is None


def test_a_scan_that_is_too_large_is_refused(tmp_path, head, monkeypatch):
    monkeypatch.setattr("hardmax.applications.segmentation.results.slices._MOST_VOXELS", 100)
    scan, labels = save_head(tmp_path, head)
    for arguments in ((scan, labels), (None, labels)):
        with pytest.raises(DataError, match="12 x 16 x 14 voxels, and at most 100 are shown"):
            load_display_scan(*arguments)


def test_missing_and_broken_files(tmp_path, head):
    scan, _ = save_head(tmp_path, head)
    with pytest.raises(DataError, match="does not exist"):
        load_display_scan(scan, tmp_path / "none.nii.gz")
    (tmp_path / "broken.nii.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read as a scan"):
        load_display_scan(scan, tmp_path / "broken.nii.gz")


def test_a_map_of_other_voxels_is_resampled(tmp_path, head):
    scan, _ = save_head(tmp_path, head)
    values, labels, affine = head
    fine = affine.copy()
    fine[:3, :3] /= 2
    fine[:3, 3] -= fine[:3, :3] @ (np.ones(3) / 2)
    double = labels.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    shown = load_display_scan(scan, save_volume(tmp_path / "fine.nii.gz", double, fine, dtype=np.uint8))
    assert shown.labels.shape == values.shape
    assert any("other voxels than the scan" in note for note in shown.notes)
    assert nibabel.load(scan).shape == values.shape


def test_folders_of_results(tmp_path):
    for name in ("a", "b/c", "b/c/d/e/f", ".hidden", "other"):
        (tmp_path / name / QUALITY).mkdir(parents=True)
        if name != "other":
            (tmp_path / name / QUALITY / "x.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert find_result_folders(tmp_path) == [tmp_path / "a", tmp_path / "b/c"]
    assert find_result_folders(tmp_path / "a") == [tmp_path / "a"]
    with pytest.raises(DataError, match="cannot read"):
        find_result_folders(tmp_path / "none")
