"""The tool that measures how much volumes change between two simulated scans of one head."""

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import save_volume
from measure_repeatability import FACTORS, format_tables, load_map, load_scan, percent_changes, simulate_scan
from scipy import ndimage


@pytest.fixture
def paths(tmp_path):
    """A label map of a ball in a ball, and a scan of it."""
    radius = np.linalg.norm(np.moveaxis(np.indices((50, 52, 54)), 0, -1) - [25, 27, 26], axis=-1)
    labels = np.where(radius < 12, 1, np.where(radius < 20, 2, 0))
    affine = nibabel.affines.from_matvec(np.diag([-1.0, 1.0, 1.0]), [10.0, 20.0, 30.0])
    values = np.array([0.0, 80.0, 50.0])[labels] + np.random.default_rng(0).normal(0, 2, labels.shape) * (labels > 0)
    return (
        save_volume(tmp_path / "ball_labels.nii.gz", labels, affine, dtype=np.uint8),
        save_volume(tmp_path / "ball_t1.nii.gz", values, affine),
    )


@pytest.mark.parametrize("number", [0, 1])
def test_one_factor_changes_at_a_time(paths, number, monkeypatch):
    monkeypatch.setattr("measure_repeatability.SIDES", (72, 76, 72))
    head = (load_map, load_scan)[number](paths[number])
    first, labels = simulate_scan(head, "first")
    again, _ = simulate_scan(head, "first")
    assert (first.values == again.values).all()
    volume = (first.values > 0).sum() * first.grid.voxel_volume
    assert volume == pytest.approx(4 / 3 * np.pi * 20**3, rel=0.02)
    if labels is not None:
        assert (labels == 1).sum() == pytest.approx(4 / 3 * np.pi * 12**3, rel=0.02)
    for factor in FACTORS:
        other, _ = simulate_scan(head, factor)
        assert (other.values != first.values).any()
        moved = np.subtract(ndimage.center_of_mass(first.values > 0), ndimage.center_of_mass(other.values > 0))
        assert (np.abs(moved).max() > 0.1) == (factor == "position")
        if factor == "noise":  # of two independent noises, not of one
            difference = (other.values - first.values)[ndimage.binary_erosion(first.values > 0, iterations=3)]
            assert difference.std() == pytest.approx(1000 * 0.03 * 2**0.5, rel=0.1)


def test_percent_changes_and_tables():
    rows = [
        {"kind": "real", "head": head, "change": change, "volumes": {"a": a, "b": 10.0}, "true": None}
        for head, change, a in (("1", "first", 90.0), ("1", "all", 110.0), ("2", "first", 50.0), ("2", "all", 50.0))
    ]
    changes = percent_changes(rows, "real", "all")
    assert changes["1"] == {"a": 20.0, "b": 0.0, "all together": pytest.approx(200 * 20 / 220)}
    lines = format_tables(rows).splitlines()
    assert "| a | 10.00 | 20.00 |" in lines
    assert "| **mean over structures** | 5.00 | 10.00 |" in lines
    assert lines[-1] == "| all | 2 | 5.00 | 10.00 |"
    assert percent_changes(rows[1:], "real", "all") == {"2": changes["2"]}  # without its first scan, a head has none
