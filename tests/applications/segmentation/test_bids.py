"""BIDS data sets: which scans are chosen, and the derivative that `hardmax segment run` writes."""

import csv
import json

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import make_anatomy, make_head, run_failing, save_volume, world_points

from hardmax.applications.segmentation.volumes.bids import (
    BidsName,
    find_bids_scans,
    find_bids_truths,
    is_bids_data_set,
)
from hardmax.cli.main import main
from hardmax.errors import DataError


def make_files(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def empty(tmp_path):
    """A data set whose files are empty."""
    root = tmp_path / "study"
    make_files(
        root,
        "sub-01/ses-1/anat/sub-01_ses-1_run-2_T1w.nii.gz",
        "sub-01/ses-1/anat/sub-01_ses-1_run-1_T1w.nii.gz",
        "sub-01/ses-1/anat/sub-01_ses-1_run-1_part-phase_T1w.nii.gz",
        "sub-01/ses-1/anat/sub-01_ses-1_T2w.nii.gz",
        "sub-01/ses-1/func/sub-01_ses-1_task-rest_bold.nii.gz",
        "sub-01/ses-2/anat/sub-01_ses-2_T1w.nii",
        "sub-01/ses-2/anat/sub-01_ses-2_space-MNI152Lin_T1w.nii.gz",
        "sub-01/ses-2/anat/notes_T1w.nii.gz",
        "sub-02/anat/sub-02_T1w.nii.gz",
        "sub-02/anat/sub-02_desc-brain_mask.nii.gz",
        "sub-03/anat/sub-03_FLAIR.nii.gz",
        "derivatives/other/sub-01/anat/sub-01_dseg.nii.gz",
    )
    return root


def list_names(scans):
    return [scan.name for scan in scans]


def test_which_folders_are_data_sets(empty, tmp_path):
    assert is_bids_data_set(empty)
    assert not is_bids_data_set(empty / "sub-01")
    assert not is_bids_data_set(empty / "sub-02" / "anat")
    make_files(tmp_path / "plain", "a.nii.gz", "sub-1/anat/sub-1_T1w.nii.gz")
    assert not is_bids_data_set(tmp_path / "plain")  # its own scans are meant
    (tmp_path / "plain" / "dataset_description.json").touch()
    assert is_bids_data_set(tmp_path / "plain")
    make_files(tmp_path / "others", "sub-1/scan.nii.gz")
    assert not is_bids_data_set(tmp_path / "others")


def test_which_scans(empty):
    scans, notes = find_bids_scans(empty)
    first = ["sub-01_ses-1_run-1_T1w", "sub-01_ses-1_run-2_T1w", "sub-01_ses-2_T1w"]
    assert list_names(scans) == [*first, "sub-02_T1w"]
    assert notes == ["sub-03 has no T1w scan"]
    assert list_names(find_bids_scans(empty, participants=["sub-02", "01"])[0]) == [*first, "sub-02_T1w"]
    assert list_names(find_bids_scans(empty, participants=["01"], sessions=["ses-2"])[0]) == first[2:]
    assert list_names(find_bids_scans(empty, suffixes=["T2w", "FLAIR"])[0]) == ["sub-01_ses-1_T2w", "sub-03_FLAIR"]
    with pytest.raises(DataError, match=r"there is no participant 07 in .*study; there are: 01, 02, 03$"):
        find_bids_scans(empty, participants=["07"])
    with pytest.raises(
        DataError, match=r"has no T1w scan: expected .*_T1w\.nii\.gz; it has FLAIR: choose with --suffix"
    ):
        find_bids_scans(empty, participants=["03"])
    with pytest.raises(DataError, match="has no T1w scan of the session 9"):
        find_bids_scans(empty, sessions=["9"])
    make_files(empty, "sub-02/anat/sub-02_T1w.nii")
    with pytest.raises(DataError, match="would both be written as"):
        find_bids_scans(empty)


def test_names():
    for name in ("sub-01", "sub-01_T1w.old", "01_T1w", "sub-01_ses_T1w", "sub-01/../x_T1w", "sub-_T1w", "sub-01_T1w\n"):
        assert BidsName.parse(name) is None, name
    name = BidsName.parse("sub-01_ses-a_acq-x_space-orig_desc-brain_T1w")
    assert str(name) == "sub-01_ses-a_acq-x_space-orig_desc-brain_T1w"
    assert str(name.change("dseg", desc="")) == "sub-01_ses-a_acq-x_space-orig_dseg"


def test_true_maps(empty, tmp_path):
    scans, _ = find_bids_scans(empty)
    manual = tmp_path / "manual"
    map_2 = "sub-01/ses-2/anat/sub-01_ses-2_desc-manual_dseg.nii.gz"
    make_files(manual, map_2, "sub-02/anat/sub-02_space-orig_dseg.nii.gz")
    make_files(manual, "sub-02/anat/sub-02_space-MNI152Lin_dseg.nii.gz")
    truths = find_bids_truths(scans, manual)
    assert {name: path.name for name, path in truths.items()} == {
        "sub-01_ses-2_T1w": "sub-01_ses-2_desc-manual_dseg.nii.gz",
        "sub-02_T1w": "sub-02_space-orig_dseg.nii.gz",
    }
    make_files(manual, "sub-02/anat/sub-02_dseg.nii.gz")
    with pytest.raises(DataError, match=r"has 2 label maps for sub-02_T1w\.nii\.gz"):
        find_bids_truths(scans, manual)
    with pytest.raises(DataError, match="has no label map for any"):
        find_bids_truths(scans[:1], manual)


@pytest.fixture
def study(tmp_path):
    """A data set with scans of synthetic heads, and a true map of one."""
    root = tmp_path / "study"
    for number, name in enumerate(
        ("sub-01/ses-1/anat/sub-01_ses-1", "sub-01/ses-2/anat/sub-01_ses-2", "sub-02/anat/sub-02")
    ):
        (root / name).parent.mkdir(parents=True)
        save_volume(root / f"{name}_T1w.nii.gz", *make_head(tilt=(0, 7 * number, 0)))
    save_volume(root / "sub-02/anat/sub-02_T2w.nii.gz", *make_head(tilt=(9, 0, 0)))
    (root / "dataset_description.json").write_text('{"Name": "A study", "BIDSVersion": "1.8.0", "DatasetDOI": "doi:1"}')
    values, affine = make_head(tilt=(0, 14, 0))
    truth = make_anatomy(world_points(values.shape, affine), values.astype(np.float32))
    (tmp_path / "manual/sub-02/anat").mkdir(parents=True)
    save_volume(tmp_path / "manual/sub-02/anat/sub-02_dseg.nii.gz", truth, affine, dtype=np.uint8)
    return root


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_a_derivative_through_the_command_line(study, run_command):
    out = study / "derivatives" / "hardmax"
    before = {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}
    code, output, _ = run_command(
        study, out, "participant", "--participant_label", "sub-01", "--workers", "2", "--posteriors"
    )
    assert code == 0, output
    scan = "sub-01/ses-1/anat/sub-01_ses-1_space-orig"
    described = [".bidsignore", "dataset_description.json", "dseg.tsv", "index.html", "volumes.json", "volumes.tsv"]
    assert set(list_files(out)) == {
        *described,
        *(f"qc/sub-01_ses-{ses}_T1w.{kind}" for ses in "12" for kind in ("json", "png")),
        *(
            f"{scan.replace('ses-1', f'ses-{ses}')}_{kind}"
            for ses in "12"
            for kind in ("dseg.json", "dseg.nii.gz", "probseg.json", "probseg.nii.gz")
        ),
    }
    description = json.loads((out / "dataset_description.json").read_text())
    assert description["Name"] == "hardmax segmentation of A study"
    assert (description["DatasetType"], description["GeneratedBy"][0]["Name"]) == ("derivative", "hardmax")
    assert description["DatasetLinks"] == {"raw": "../.."}
    assert description["SourceDatasets"] == [{"URL": "../..", "DOI": "doi:1"}]
    sidecar = json.loads((out / f"{scan}_dseg.json").read_text())
    assert sidecar["Sources"] == ["bids:raw:sub-01/ses-1/anat/sub-01_ses-1_T1w.nii.gz"]
    assert sidecar["SpatialReference"] == sidecar["Sources"][0]
    labels = nibabel.load(out / f"{scan}_dseg.nii.gz")
    assert labels.get_data_dtype() == np.uint8
    soft = nibabel.load(out / f"{scan}_probseg.nii.gz")
    frames = json.loads((out / f"{scan}_probseg.json").read_text())["LabelMap"]
    assert soft.shape[3] == len(frames)
    table = read_table(out / "dseg.tsv")
    assert set(np.unique(np.asarray(labels.dataobj))) <= {int(row["index"]) for row in table}
    assert table[2] == {"index": "2", "name": "cerebral_cortex", "color": "#cd3e4e"}
    assert [row["name"] for row in table] == frames
    rows = read_table(out / "volumes.tsv")
    assert [(row["participant_id"], row["session_id"]) for row in rows] == [("sub-01", "ses-1"), ("sub-01", "ses-2")]
    assert rows[0]["label_map"] == f"{scan}_dseg.nii.gz"
    counts = np.bincount(np.asarray(labels.dataobj).ravel(), minlength=19) * 2.0 * 1.5 * 1.8
    assert float(rows[0]["hippocampus"]) == pytest.approx(counts[13], abs=0.1)
    assert set(rows[0]) == set(json.loads((out / "volumes.json").read_text()))
    assert {path: path.read_bytes() for path in before} == before
    # A second call adds the other participant.
    code, output, _ = run_command(
        study, "--out", out, "--participant-label", "02", "--compare", study.parent / "manual"
    )
    assert code == 0, output
    assert "the tables and the page also list 2 scans of earlier calls" in output
    assert "sub-02/anat/sub-02_space-orig_dseg.nii.gz, volumes.tsv, dice.csv" in output
    assert [row["participant_id"] for row in read_table(out / "volumes.tsv")] == ["sub-01", "sub-01", "sub-02"]
    assert "sub-02_T1w,hippocampus,1.0000" in (out / "dice.csv").read_text()


@pytest.mark.usefixtures("stand_ins")
class TestCalls:
    """Calls in this process."""

    @pytest.fixture(autouse=True)
    def prepare(self, tmp_path, monkeypatch):
        (tmp_path / "model").mkdir()
        monkeypatch.setattr(
            "hardmax.applications.segmentation.results.outputs.write_quality_image", lambda *_, **__: None
        )  # slow, and tested on its own

    def run(self, *arguments):
        return main(["segment", "run", *map(str, arguments), "--model", "model"])

    def fail(self, capsys, *arguments):
        return run_failing(capsys, "run", *arguments, "--model", "model")

    def test_two_kinds_of_scans_of_one_session(self, study, tmp_path):
        assert self.run(study, "--suffix", "T1w", "T2w", "--out", "out") == 0
        (tmp_path / "out/sub-02/anat/sub-02_space-orig_desc-T2w_dseg.nii.gz").resolve(strict=True)
        assert [row["label_map"].rpartition("/")[2] for row in read_table(tmp_path / "out/volumes.tsv")[2:]] == [
            "sub-02_space-orig_dseg.nii.gz", "sub-02_space-orig_desc-T2w_dseg.nii.gz",
        ]  # fmt: skip
        link = json.loads((tmp_path / "out/dataset_description.json").read_text())["DatasetLinks"]["raw"]
        assert link == study.as_uri()

    def test_no_stale_files(self, study, tmp_path, capsys):
        out = tmp_path / "out"
        assert self.run(study, "--out", out, "--posteriors") == 0
        anat = out / "sub-02" / "anat"
        assert len(list(anat.iterdir())) == 4
        assert self.run(study, "--out", out, "--participant-label", "02") == 0
        assert sorted(path.name for path in anat.iterdir()) == [
            "sub-02_space-orig_dseg.json", "sub-02_space-orig_dseg.nii.gz",
        ]  # fmt: skip
        (study / "sub-02/anat/sub-02_T1w.nii.gz").write_bytes(b"text")
        assert self.run(study, "--out", out) == 1
        assert list(anat.iterdir()) == []
        row = read_table(out / "volumes.tsv")[2]
        assert (row["label_map"], row["hippocampus"], row["flag"][:7]) == ("n/a", "n/a", "failed:")
        assert "2 label maps" in capsys.readouterr().out

    def test_folders_that_are_refused(self, study, tmp_path, capsys):
        raw = (study / "dataset_description.json").read_bytes()
        assert "derivatives/hardmax" in self.fail(capsys, study, "--out", study)
        (study / "dataset_description.json").unlink()
        assert "cannot be written into the data set itself" in self.fail(capsys, study, "--out", study)
        (study / "dataset_description.json").write_bytes(raw)
        scan = study / "sub-02/anat/sub-02_T1w.nii.gz"
        assert self.run(scan, "--out", "plain") == 0
        assert "has results of single scans" in self.fail(capsys, study, "--out", "plain")
        assert self.run(study, "--out", "out", "--participant-label", "02") == 0
        assert "has the results of a BIDS data set" in self.fail(capsys, scan, "--out", "out")
        study.rename(tmp_path / "moved")
        assert "has the results of another data set" in self.fail(capsys, tmp_path / "moved", "--out", "out")

    def test_options(self, study, tmp_path, capsys):
        save_volume(tmp_path / "scan.nii.gz", *make_head())
        assert "is none: it has no folders" in self.fail(capsys, "scan.nii.gz", "--participant-label", "1")
        assert "is segmented alone, got 2 paths" in self.fail(capsys, study, "scan.nii.gz")
        assert "there is no group level" in self.fail(capsys, study, "out", "group")
        assert "two folders of results" in self.fail(capsys, study, "out", "participant", "--out", "other")
        assert "there is no participant 9" in self.fail(capsys, study, "--participant-label", "9")
