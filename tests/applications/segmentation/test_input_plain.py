"""Bad input to geometry, labels and metrics raises our errors."""

import numpy as np
import pytest

from hardmax.applications.segmentation.volumes.agreement import compare_maps, dice, surface_distance
from hardmax.applications.segmentation.volumes.geometry import Grid, Reorientation, resample, resample_labels
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, Label, LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.applications.segmentation.volumes.writing import write_labels, write_posterior
from hardmax.errors import ArgumentError, DataError, ShapeError

pytestmark = pytest.mark.plain  # without shape checks

GRID = Grid((3, 4, 5), np.eye(4))


@pytest.mark.parametrize(
    ("shape", "affine", "error", "words"),
    [
        ((3, 4, 0), np.eye(4), ShapeError, "three axes"),
        ((3, 4), np.eye(4), ShapeError, "three axes"),
        ((3, 4, 5), np.eye(3), ShapeError, r"4x4 matrix, got the shape \(3, 3\)"),
        ((3, 4, 5), np.diag([1.0, 1.0, 0.0, 1.0]), ArgumentError, "no inverse"),
        ((3, 4, 5), np.diag([1.0, np.nan, 1.0, 1.0]), ArgumentError, "finite"),
        ((3, 4, 5), np.diag([1.0, 1.0, 1.0, 2.0]), ArgumentError, "last row"),
    ],
)
def test_grids_that_cannot_be(shape, affine, error, words):
    with pytest.raises(error, match=words):
        Grid(shape, affine)


def test_values_of_another_shape(tmp_path):
    with pytest.raises(ShapeError, match=r"expected values of the grid's shape \[3, 4, 5\], got \[3, 4, 4\]"):
        resample(np.zeros((3, 4, 4)), GRID, GRID)
    with pytest.raises(ShapeError, match=r"got \[2, 3, 4, 5\]"):
        resample_labels(np.zeros((2, 3, 4, 5), int), GRID, GRID)
    with pytest.raises(ShapeError, match=r"\[\.\.\., 3, 4, 5\], got \[5, 4, 3\]"):
        Reorientation(GRID).forward(np.zeros((5, 4, 3)))
    with pytest.raises(ArgumentError, match="positive, got 0"):
        GRID.at_spacing(0)
    scan = Volume(np.ones((3, 4, 5), np.float32), GRID)
    with pytest.raises(ShapeError, match=r"the scan's own voxels, \[3, 4, 5\], got \[5, 4, 3\]"):
        write_labels(tmp_path / "a.nii.gz", np.zeros((5, 4, 3), int), scan)
    with pytest.raises(ShapeError, match=r"\[M, X, Y, Z\], got \[3, 4, 5\]"):
        write_posterior(tmp_path / "a.nii.gz", np.zeros((3, 4, 5)), scan)
    assert not list(tmp_path.iterdir())


def test_maps_that_cannot_be_compared():
    with pytest.raises(ShapeError, match=r"got the shapes \[1, 2, 2\] and \[1, 1, 2\]"):
        dice(np.zeros((1, 2, 2), int), np.zeros((1, 1, 2), int), 2)
    with pytest.raises(ShapeError, match="resample one"):
        compare_maps(np.zeros((3, 4, 5), int), np.zeros((3, 4, 4), int), GRID, STRUCTURES)
    mask = np.ones((2, 2, 2), bool)
    with pytest.raises(ArgumentError, match="spacing must be positive"):
        surface_distance(mask, mask, np.array([1.0, 0.0, 1.0]))
    with pytest.raises(ArgumentError, match="percentile"):
        surface_distance(mask, mask, np.ones(3), 101.0)


def test_tables_that_cannot_be():
    background = Label(0, "background", (0, 0, 0), ("background",))
    with pytest.raises(ArgumentError, match=r"the number of a label must be unique, got 3"):
        LabelTable((background, Label(3, "a", (1, 2, 3), ("grey",)), Label(3, "b", (1, 2, 3), ("grey",))))
    with pytest.raises(ArgumentError, match="first label must be the background"):
        LabelTable((Label(3, "a", (1, 2, 3), ("grey",)),))
    with pytest.raises(ArgumentError, match=r"the tissues of a are \('muscle',\)"):
        LabelTable((background, Label(3, "a", (1, 2, 3), ("muscle",))))
    with pytest.raises(ArgumentError, match="0 to 0, got 4"):
        LabelTable((background,), other=4)
    with pytest.raises(ArgumentError, match="no label is called 'hipocampus'"):
        STRUCTURES.index("hipocampus")
    for text in ("", "[]", "{}", '{"labels": [{"number": 1}], "other": 0}', '{"labels": 3, "other": 0}'):
        with pytest.raises(DataError, match="not a table of labels"):
            LabelTable.from_json(text)
