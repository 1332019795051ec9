"""Left and right: the tables, their maps, true maps with and without sides, and asymmetry."""

import csv
import json
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import WorldSegmenter, make_head, run_failing, save_volume

from hardmax.applications.segmentation.results.layouts import DerivativeFolder
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import read_volume
from hardmax.applications.segmentation.volumes.scans import Scan, find_masks
from hardmax.applications.segmentation.volumes.sides import (
    FREESURFER,
    PAIRS,
    find_right,
    measure_asymmetry,
    merge_sides,
    read_truth,
    split_posterior,
    split_sides,
)
from hardmax.cli.main import main
from hardmax.errors import DataError


def test_every_structure_has_a_number_of_freesurfer():
    pairs = {(FREESURFER.labels[left].number, FREESURFER.labels[right].number) for left, right in PAIRS}
    assert pairs == {(2, 41), (3, 42), (4, 43), (7, 46), (8, 47), (10, 49), (11, 50), (12, 51), (13, 52), (17, 53),
                     (18, 54), (26, 58), (28, 60)}  # fmt: skip
    named = dict(zip(FREESURFER.numbers.tolist(), FREESURFER.names, strict=True))
    assert (named[17], named[53], named[16], named[58]) == (
        "Left-Hippocampus", "Right-Hippocampus", "Brain-Stem", "Right-Accumbens-area"
    )  # fmt: skip
    assert len(FREESURFER.judged_indices) == 2 * len(PAIRS) + 3


def test_split_and_merged_again():
    labels = np.arange(len(STRUCTURES), dtype=np.uint8).reshape(1, 1, -1)
    for right in (False, True):
        split = split_sides(labels, np.full(labels.shape, right))
        assert (merge_sides(split) == labels).all()
        # The numbers mean the same structures to every reader of FreeSurfer's label maps.
        read, _ = STRUCTURES.to_indices(FREESURFER.to_numbers(split))
        assert (read == labels).all()
        assert find_right(FREESURFER.to_numbers(split)).sum() == (len(PAIRS) + 1) * right


def test_posteriors_of_the_own_side():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(len(STRUCTURES)), (3, 4, 5)).transpose(3, 0, 1, 2).astype(np.float32)
    right = rng.random((3, 4, 5)) < 0.5
    split = split_posterior(posterior, right)
    np.testing.assert_allclose(split.sum(0), 1, atol=1e-6)
    assert (split.argmax(0) == split_sides(posterior.argmax(0), right)).all()


def test_asymmetry():
    volumes = np.zeros(len(FREESURFER))
    volumes[FREESURFER.index("Right-Caudate")] = 3000
    asymmetry = measure_asymmetry(volumes)
    assert asymmetry["Caudate"] == -200
    assert np.isnan(asymmetry["Putamen"])


def save_map(path, numbers):
    nibabel.save(nibabel.Nifti1Image(np.array(numbers, np.int16).reshape(-1, 1, 1), np.eye(4)), path)
    return path


def test_true_maps_with_and_without_sides(tmp_path):
    sided, table = read_truth(save_map(tmp_path / "a.nii.gz", [0, 17, 53, 2012, 16, 24]), FREESURFER)
    assert table is FREESURFER
    assert FREESURFER.to_numbers(sided.labels).ravel().tolist() == [0, 17, 53, 42, 16, 24]
    assert sided.notes == ()
    merged, table = read_truth(save_map(tmp_path / "b.nii.gz", [0, 1, 6, 13, 18]), FREESURFER)
    assert table is STRUCTURES
    assert merged.labels.ravel().tolist() == [0, 1, 6, 13, 18]
    assert "were merged for the comparison" in merged.notes[0]
    both, table = read_truth(tmp_path / "a.nii.gz", STRUCTURES)
    assert table is STRUCTURES
    assert both.labels.ravel().tolist() == [0, 13, 13, 2, 12, 17]


class SidedSegmenter(WorldSegmenter):
    """Gives the voxels of positive x the right side, and takes a mask."""

    has_sides = True
    calls = ()

    def segment(self, volume, *, mask=None, skull="auto", **options):
        out = super().segment(volume, **options)
        out.mask = np.asarray(out.labels) > 0 if mask is None else mask
        out.right = volume.grid.points()[:, 0].reshape(volume.grid.shape) > 0
        self.calls = (*self.calls, (mask is not None, skull))
        return out


@pytest.fixture
def sided(stand_ins, tmp_path):
    (tmp_path / "model").mkdir()
    save_volume(tmp_path / "7_t1.nii.gz", *make_head())
    stand_ins.segmenter = SidedSegmenter()
    return SimpleNamespace(
        segmenter=stand_ins.segmenter,
        run=lambda *more: main(["segment", "run", "7_t1.nii.gz", "--model", "model", "--out", "out", *more]),
        folder=tmp_path,
    )


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestCommand:
    def test_freesurfer_by_default(self, sided):
        assert sided.run("--posteriors") == 0
        numbers = np.asarray(nibabel.load("out/7_t1_labels.nii.gz").dataobj)
        assert {2, 42} <= set(np.unique(numbers).tolist()) <= set(FREESURFER.numbers.tolist())
        mask = nibabel.load("out/7_t1_mask.nii.gz")
        assert ((np.asarray(mask.dataobj) == 1) == (numbers > 0)).all()
        assert nibabel.load("out/7_t1_posteriors.nii.gz").shape[-1] == len(FREESURFER)
        (row,) = read_rows(sided.folder / "out" / "volumes.csv")
        left, right = float(row["Left-Cerebral-White-Matter"]), float(row["Right-Cerebral-White-Matter"])
        assert float(row["asymmetry_Cerebral-White-Matter"]) == pytest.approx(
            200 * (left - right) / (left + right), abs=0.01
        )
        assert "53 Right-Hippocampus" in (sided.folder / "out" / "colours.txt").read_text()
        assert sided.segmenter.calls == ((False, "auto"),)

    def test_merged(self, sided, capsys):
        assert sided.run("--labels", "merged", "--skull", "off") == 0
        (row,) = read_rows(sided.folder / "out" / "volumes.csv")
        assert "hippocampus" in row
        assert not [name for name in row if "asymmetry" in name or "Left" in name]
        assert sided.segmenter.calls == ((False, "off"),)
        # Both kinds of labels do not fit into one table.
        assert "see --labels" in run_failing(capsys, "run", "7_t1.nii.gz", "--model", "model", "--out", "out")

    @pytest.mark.parametrize("merged", [False, True])
    def test_compared_with_true_maps_of_both_kinds(self, sided, merged):
        assert sided.run(*(("--labels", "merged") if merged else ())) == 0
        (sided.folder / "out" / "7_t1_labels.nii.gz").rename(sided.folder / "7_labels.nii.gz")
        assert sided.run("--compare", "7_labels.nii.gz", "--out", "again") == 0
        rows = read_rows(sided.folder / "again" / "dice.csv")
        assert ("hippocampus" in [row["structure"] for row in rows]) == merged
        assert {row["dice"] for row in rows} <= {"1.0000", ""}
        assert sided.run("--compare", "7_labels.nii.gz", "--out", "again") == 0  # its record can be read

    def test_a_mask_of_the_user(self, sided):
        values, affine = make_head()
        save_volume(sided.folder / "7_mask.nii.gz", (values > 100).astype(float), affine)
        assert sided.run("--mask", "7_mask.nii.gz") == 0
        assert sided.segmenter.calls == ((True, "auto"),)
        mask = np.asarray(nibabel.load("out/7_t1_mask.nii.gz").dataobj)
        assert (mask == (read_volume(sided.folder / "7_t1.nii.gz").values > 100)).all()

    def test_masks_that_do_not_fit(self, sided, capsys):
        values, affine = make_head()
        command = ("run", "7_t1.nii.gz", "--model", "model", "--out", "out", "--mask")
        affine[:3, 3] += 500  # beside the scan
        save_volume(sided.folder / "7_mask.nii.gz", values, affine)
        assert "no voxel above 0 in the scan" in run_failing(capsys, *command, "7_mask.nii.gz")
        (sided.folder / "masks").mkdir()
        error = run_failing(capsys, *command, "masks")
        assert "0 masks for 7_t1.nii.gz, expected one, such as 7_mask.nii.gz" in error


def test_masks_of_several_scans(tmp_path):
    for name in ("1_t1_mask", "2-brainmask", "2_t1"):
        (tmp_path / f"{name}.nii.gz").touch()
    scans = [Scan(tmp_path / "1_t1.nii.gz", "1_t1"), Scan(tmp_path / "2_t1.nii.gz", "2_t1")]
    masks = find_masks(scans, tmp_path)
    assert {name: path.name for name, path in masks.items()} == {
        "1_t1": "1_t1_mask.nii.gz",
        "2_t1": "2-brainmask.nii.gz",
    }
    with pytest.raises(DataError, match="give a folder of masks"):
        find_masks(scans, tmp_path / "1_t1_mask.nii.gz")


def test_masks_of_a_derivative(tmp_path):
    layout = DerivativeFolder(tmp_path, tmp_path / "study")
    scan = Scan(tmp_path / "study" / "sub-01_ses-2_T1w.nii.gz", "sub-01_ses-2_T1w")
    path = layout.mask_path(scan)
    expected = "sub-01/ses-2/anat/sub-01_ses-2_space-orig_desc-brain_mask.nii.gz"
    assert path.relative_to(tmp_path).as_posix() == expected
    layout.write_sidecar(path, scan, FREESURFER)
    content = json.loads(path.with_name(path.name.replace(".nii.gz", ".json")).read_text())
    assert content["Type"] == "Brain"
    assert content["Sources"] == ["bids:raw:sub-01/ses-2/anat/sub-01_ses-2_T1w.nii.gz"]
