"""From the file of a scan to its results: the same labels whatever the header; tables, flags and notes."""

import csv
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import (
    ORIENTATIONS,
    WorldSegmenter,
    make_anatomy,
    make_head,
    reorder_voxels,
    save_volume,
    world_points,
)
from PIL import Image

from hardmax.applications.segmentation.results.layouts import PlainFolder
from hardmax.applications.segmentation.results.outputs import OutputOptions, segment_scan
from hardmax.applications.segmentation.results.tables import (
    Result,
    list_doubts,
    summarise_agreement,
    write_dice,
    write_volumes,
)
from hardmax.applications.segmentation.volumes.agreement import Agreement
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.errors import DataError


def segment(path, out, segmenter=None, **options):
    options = {"options": OutputOptions(), **options}
    scan = Scan(path, path.name.split(".")[0])
    return segment_scan(segmenter or WorldSegmenter(), scan, PlainFolder(out), STRUCTURES, **options)


@pytest.mark.parametrize("tilt", [(0, 0, 0), (14, -9, 21)], ids=["upright", "tilted"])
def test_the_same_labels_whatever_the_header(tilt, tmp_path, monkeypatch):
    """All 48 ways to store one scan: each voxel of each result has the label of its world point."""
    monkeypatch.setattr(
        "hardmax.applications.segmentation.results.outputs.write_quality_image", lambda *_, **__: None
    )  # tested on its own
    values, affine = make_head(tilt=tilt)
    values = values.astype(np.float32)
    expected = make_anatomy(world_points(values.shape, affine), values)
    assert len(np.unique(expected)) == 17
    counts = set()
    for order, flips in ORIENTATIONS:
        stored, header = reorder_voxels(values, affine, order, flips)
        result = segment(save_volume(tmp_path / "scan.nii.gz", stored, header), tmp_path / "out")
        written = nibabel.load(result.files[0])
        assert np.allclose(written.affine, header, atol=1e-4)
        assert np.array_equal(np.asarray(written.dataobj), reorder_voxels(expected, affine, order, flips)[0])
        counts.add(tuple(np.round(result.volumes, 3)))
    assert len(counts) == 1


def test_a_segmenter_that_trusts_the_axes_is_detected(tmp_path, monkeypatch):
    """The planted error: labels by voxel index, without a look at the header."""
    monkeypatch.setattr("hardmax.applications.segmentation.results.outputs.write_quality_image", lambda *_, **__: None)
    values, affine = make_head()

    class Blind(WorldSegmenter):
        def segment(self, volume, *, posterior=False, progress=None):
            return SimpleNamespace(
                labels=make_anatomy(world_points(volume.values.shape, affine), volume.values),
                posterior=None, log_likelihood=-2.0, seconds=0.0, doubts=[],
            )  # fmt: skip

    expected = make_anatomy(world_points(values.shape, affine), values.astype(np.float32))
    stored, header = reorder_voxels(values, affine, (0, 1, 2), (-1, 1, 1))
    result = segment(save_volume(tmp_path / "scan.nii.gz", stored, header), tmp_path / "out", Blind())
    assert not np.array_equal(np.asarray(nibabel.load(result.files[0]).dataobj)[::-1], expected)


@pytest.mark.parametrize("callable_posterior", [False, True])
def test_what_is_written(tmp_path, callable_posterior):
    values, affine = make_head()

    class Lazy(WorldSegmenter):
        def segment(self, volume, *, posterior=False, progress=None):
            segmentation = super().segment(volume, posterior=posterior, progress=progress)
            soft = segmentation.posterior
            segmentation.posterior = (lambda: soft) if callable_posterior and soft is not None else soft
            segmentation.doubts.append("a doubt of the segmenter")
            return segmentation

    calls = []
    values[0, 0, 0] = np.nan
    path = save_volume(tmp_path / "scan.nii.gz", values, affine)
    result = segment(
        path,
        tmp_path / "out",
        Lazy(),
        options=OutputOptions(posteriors=True),
        progress=lambda *call: calls.append(call),
    )
    assert calls == [(0.5, "half of it")]
    assert [file.name for file in result.files] == ["scan_labels.nii.gz", "scan_posteriors.nii.gz"]
    soft = nibabel.load(result.files[1])
    assert soft.shape == (*values.shape, 19)
    assert np.array_equal(soft.get_fdata().argmax(-1), np.asarray(nibabel.load(result.files[0]).dataobj))
    assert result.image == tmp_path / "out" / "qc" / "scan.png"
    with Image.open(result.image) as image:
        assert image.format == "PNG"
    assert result.notes[0].startswith("1 voxels")
    assert result.flags[-1] == "a doubt of the segmenter"
    assert result.volumes.sum() == pytest.approx(values.size * 2.0 * 1.5 * 1.8)
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_smoothing_removes_single_voxels(tmp_path):
    values, affine = make_head((12, 12, 12))

    class Noisy(WorldSegmenter):
        def segment(self, volume, *, posterior=False, progress=None):
            assert posterior
            labels = np.ones(volume.grid.shape, int)
            labels[6, 6, 6] = 2
            soft = 0.6 * (labels == np.arange(19)[:, None, None, None]) + 0.4 / 19
            return SimpleNamespace(labels=labels, posterior=soft, log_likelihood=-2.0, seconds=0.0, doubts=[])

    path = save_volume(tmp_path / "scan.nii.gz", values, affine)
    result = segment(path, tmp_path / "out", Noisy(), options=OutputOptions(smooth=2.0))
    assert np.asarray(nibabel.load(result.files[0]).dataobj)[6, 6, 6] == 1
    assert result.volumes[2] == 0


class TestComparing:
    def truth(self, tmp_path, order=(0, 1, 2), flips=(1, 1, 1), **options):
        values, affine = make_head(**options)
        labels = make_anatomy(world_points(values.shape, affine), values.astype(np.float32))
        stored, header = reorder_voxels(labels, affine, order, flips)
        return save_volume(tmp_path / "scan_labels.nii.gz", stored, header, dtype=np.uint8)

    @pytest.fixture
    def scan(self, tmp_path):
        return save_volume(tmp_path / "scan.nii.gz", *make_head())

    @pytest.mark.parametrize(("order", "flips"), [((0, 1, 2), (1, 1, 1)), ((2, 0, 1), (-1, 1, -1))])
    def test_the_truth_may_be_stored_in_another_order(self, order, flips, scan, tmp_path):
        agreement = segment(scan, tmp_path / "out", truth=self.truth(tmp_path, order, flips)).agreement
        assert agreement.mean_dice == 1
        assert agreement.mean_distance == 0

    def test_a_truth_of_other_voxels_is_resampled(self, scan, tmp_path):
        result = segment(
            scan, tmp_path / "out", truth=self.truth(tmp_path, shape=(44, 40, 44), spacing=(1.0, 1.0, 1.0))
        )
        assert 0.8 < result.agreement.mean_dice < 1
        assert any("resampled to the scan's" in note for note in result.notes)

    def test_a_truth_elsewhere(self, scan, tmp_path):
        moved = np.eye(4)
        moved[:3, 3] = 500
        truth = save_volume(tmp_path / "far_labels.nii.gz", np.ones((4, 4, 4)), moved)
        result = segment(scan, tmp_path / "out", truth=truth)
        assert result.agreement.mean_dice == 0
        assert any("none of its labels falls on the scan" in note for note in result.notes)

    def test_a_broken_truth_stops_before_any_file(self, scan, tmp_path):
        (tmp_path / "broken.nii.gz").write_bytes(b"text")
        with pytest.raises(DataError, match=r"broken\.nii\.gz"):
            segment(scan, tmp_path / "out", truth=tmp_path / "broken.nii.gz")
        assert not (tmp_path / "out").exists()


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    path = save_volume(tmp_path / "scan.nii.gz", *make_head())

    def fail(self, stream):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nibabel.Nifti1Image, "to_stream", fail)
    with pytest.raises(DataError, match=r"cannot write .*scan_labels\.nii\.gz: No space left"):
        segment(path, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.nii*"))


def test_tables(tmp_path):
    values, affine = make_head()
    path = save_volume(tmp_path / "a.nii.gz", values, affine)
    truth = TestComparing().truth(tmp_path)
    results = [segment(path, tmp_path, truth=truth), Result(Scan(path, "b, c"), error='it is "broken"')]
    write_volumes(tmp_path / "volumes.csv", results, STRUCTURES)
    with (tmp_path / "volumes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["scan"] for row in rows] == ["a", "b, c"]
    assert float(rows[0]["putamen"]) == pytest.approx(results[0].volumes[8], abs=0.06)
    assert rows[0]["flag"].startswith("The brain has")
    assert rows[1]["putamen"] == ""
    assert rows[1]["flag"] == 'failed: it is "broken"'
    write_dice(tmp_path / "dice.csv", results)
    with (tmp_path / "dice.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 17
    assert rows[-1] == {
        "scan": "a", "structure": "mean", "dice": "1.0000", "distance_95_mm": "0.000", "volume_mm3": "",
        "true_volume_mm3": "",
    }  # fmt: skip


def test_summary_names_the_worst():
    def result(name, dice):
        sizes = np.ones(2)
        agreement = Agreement(["x", "y"], np.array(dice), np.array([1.0, np.nan]), sizes, sizes, ())
        return Result(Scan(Path(name), name), agreement=agreement)

    x, y, mean = summarise_agreement([result("a", [0.5, 0.9]), result("b", [0.7, np.nan]), result("c", [0.9, 0.8])])
    assert (x.dice, x.worst, x.worst_scan) == (pytest.approx(0.7), 0.5, "a")
    assert (y.dice, y.worst, y.worst_scan) == (pytest.approx(0.85), 0.8, "c")
    assert np.isnan(y.distance)
    assert (mean.name, mean.worst, mean.worst_scan) == ("mean", 0.7, "a")
    assert summarise_agreement([Result(Scan(Path("a"), "a"))]) == []


class TestDoubts:
    SIZES = np.full(19, 70_000.0)

    def test_nothing(self):
        assert list_doubts(self.SIZES, STRUCTURES, -2.0, -3.0) == ()
        assert list_doubts(self.SIZES, STRUCTURES, -20.0, None) == ()

    def test_likelihood(self):
        (doubt,) = list_doubts(self.SIZES, STRUCTURES, -3.1, -3.0)
        assert doubt.startswith("Low likelihood (-3.10 per voxel, expected at least -3.00)")
        assert list_doubts(self.SIZES, STRUCTURES, float("nan"), None)[0].startswith("Low likelihood (nan")

    @pytest.mark.parametrize("factor", [0.1, 3])
    def test_size(self, factor):
        (doubt,) = list_doubts(factor * self.SIZES, STRUCTURES, -2.0, -3.0)
        assert doubt == f"The brain has {16 * 70 * factor:,.0f} ml, expected 500 to 2,200."

    def test_missing_structures(self):
        sizes = self.SIZES.copy()
        sizes[3:7] = 0
        assert list_doubts(sizes, STRUCTURES, -2.0, -3.0) == ()
        sizes[7] = 0
        (doubt,) = list_doubts(sizes, STRUCTURES, -2.0, -3.0)
        assert doubt.startswith("5 of 16 structures were not found: lateral_ventricle")
