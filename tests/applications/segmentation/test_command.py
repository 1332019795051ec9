"""`hardmax segment`, with stand-ins for the segmenter and the training."""

import csv
import os
import subprocess
import sys

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import WorldSegmenter, make_head, run_failing, save_volume

from hardmax.cli.main import main

pytestmark = pytest.mark.usefixtures("stand_ins")


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestRun:
    def test_one_scan(self, folder, tmp_path, capsys):
        out = tmp_path / "out"
        assert main(["segment", "run", str(folder / "1_t1.nii.gz"), "--out", str(out), "--model", "model"]) == 0
        assert names(out) == [
            "1_t1_labels.nii.gz", "colours.txt", "index.html", "qc/1_t1.json", "qc/1_t1.png", "volumes.csv",
        ]  # fmt: skip
        output = capsys.readouterr().out
        assert f"the results are in {out}: 1_t1_labels.nii.gz, volumes.csv, index.html, qc/, colours.txt" in output
        assert "doubtful" in output  # the synthetic head is far too small
        assert "1_t1: The brain has" in output

    def test_a_folder_with_a_truth_for_one(self, folder, tmp_path, capsys):
        out = tmp_path / "out"
        arguments = ["segment", "run", str(folder), "--out", str(out), "--model", "model", "--compare", str(folder)]
        assert main(arguments) == 0
        output = capsys.readouterr().out
        assert "1 of 2 scans have no true map" in output
        lines = {line.split("  ")[0]: line.split() for line in output.splitlines()}
        assert lines["mean"][1:] == ["1.000", "0.00"]
        assert lines["hippocampus"][1:] == ["1.000", "0.00"]
        with (out / "dice.csv").open() as file:
            assert len(list(csv.DictReader(file))) == 17
        with (out / "volumes.csv").open() as file:
            assert [row["scan"] for row in csv.DictReader(file)] == ["1_t1", "2_t1"]
        assert "2 scans" in (out / "index.html").read_text()
        assert main(arguments) == 0  # its own results are overwritten

    def test_posteriors(self, folder, tmp_path):
        main(["segment", "run", str(folder / "2_t1.mgz"), "--out", "out", "--model", "model", "--posteriors"])
        assert nibabel.load(tmp_path / "out" / "2_t1_posteriors.nii.gz").shape == (22, 26, 24, 19)

    def test_low_likelihood_is_flagged(self, folder, stand_ins, tmp_path, capsys):
        stand_ins.segmenter.log_likelihood = -8.0
        assert main(["segment", "run", str(folder), "--out", "out", "--model", "model"]) == 0
        assert "Low likelihood (-8.00 per voxel" in capsys.readouterr().out
        assert "Low likelihood (-8.00 per voxel" in (tmp_path / "out" / "index.html").read_text()
        assert "Low likelihood (-8.00 per voxel" in (tmp_path / "out" / "volumes.csv").read_text()

    def test_one_broken_scan_of_several(self, folder, tmp_path, capsys):
        (folder / "3_t1.nii.gz").write_bytes(b"text")
        assert main(["segment", "run", str(folder), "--out", "out", "--model", "model"]) == 1
        output = capsys.readouterr()
        assert "hardmax: error: 1 of 3 scans failed" in output.err
        assert "3 of 3: 3_t1, failed" in output.err
        assert "not compressed by gzip" in output.out
        assert "2 label maps" in output.out
        assert "failed" in (tmp_path / "out" / "volumes.csv").read_text()
        assert "3_t1_labels.nii.gz" not in names(tmp_path / "out")

    def test_ctrl_c_leaves_complete_files(self, folder, stand_ins, tmp_path):
        class Interrupted(WorldSegmenter):
            def segment(self, volume, **options):
                if volume.path.name == "2_t1.mgz":
                    raise KeyboardInterrupt
                return super().segment(volume, **options)

        stand_ins.segmenter = Interrupted()
        assert main(["segment", "run", str(folder), "--out", "out", "--model", "model"]) == 130
        assert names(tmp_path / "out") == [
            "1_t1_labels.nii.gz", "colours.txt", "index.html", "qc/1_t1.json", "qc/1_t1.png", "volumes.csv",
        ]  # fmt: skip

    def test_the_default_model(self, folder, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("hardmax.applications.segmentation.model_folder._SHIPPED", tmp_path / "none")
        error = run_failing(capsys, "run", folder)
        assert "there is no model yet; make one from label maps" in error
        save_volume(tmp_path / "a_labels.nii.gz", np.ones((3, 3, 3)), np.eye(4))
        main(["segment", "prior", str(folder), str(tmp_path / "a_labels.nii.gz")])
        assert main(["segment", "run", str(folder), "--out", "out"]) == 0

    def test_what_cannot_be(self, folder, tmp_path, capsys):
        def bad(*arguments):
            return run_failing(capsys, "run", *arguments, "--out", "out", *(["--model", "model"]))

        assert "hardmax segment run needs SCANS" in bad()
        assert "does not exist" in bad("none.nii.gz")
        (tmp_path / "empty").mkdir()
        assert "holds no scans" in bad("empty")
        assert "would both be written as" in bad(
            folder / "1_t1.nii.gz", save_volume(tmp_path / "1_t1.nii", *make_head())
        )
        assert "no label map for any" in bad(folder, "--compare", "empty")
        assert "smooth must be at least 0" in bad(folder, "--smooth", "-1")
        broken = tmp_path / "broken.nii.gz"
        broken.write_bytes(b"text")
        assert "not compressed by gzip" in bad(broken)
        save_volume(tmp_path / "four.nii.gz", np.ones((3, 3, 3, 5)), np.eye(4))
        assert "has 5 volumes" in bad("four.nii.gz")
        save_volume(tmp_path / "zero.nii.gz", np.zeros((3, 3, 3)), np.eye(4))
        assert "is empty" in bad("zero.nii.gz")
        assert names(tmp_path / "out") == []
        (tmp_path / "file").touch()
        scan = folder / "1_t1.nii.gz"
        assert "cannot write to the folder" in run_failing(capsys, "run", scan, "--out", "file", "--model", "model")
        assert "not a folder with a model" in run_failing(capsys, "run", scan, "--model", "none")

    def test_a_label_map_of_another_origin_is_not_overwritten(self, folder, capsys):
        save_volume(folder / "1.nii.gz", *make_head())
        before = (folder / "1_labels.nii.gz").read_bytes()
        error = run_failing(capsys, "run", folder / "1.nii.gz", "--out", folder, "--model", "model")
        assert "was not made by hardmax segment" in error
        assert (folder / "1_labels.nii.gz").read_bytes() == before


class TestPrior:
    def test_a_folder_of_someone_else_is_not_removed(self, folder, tmp_path):
        save_volume(tmp_path / "a.nii.gz", np.ones((3, 3, 3)), np.eye(4))
        (tmp_path / "prior.tmp").mkdir()
        (tmp_path / "prior.tmp" / "thesis.txt").write_text("years of work")
        assert main(["segment", "prior", str(folder), "a.nii.gz", "--out", "prior"]) == 0
        assert (tmp_path / "prior.tmp" / "thesis.txt").read_text() == "years of work"

    def test_it_is_made(self, folder, stand_ins, tmp_path, capsys):
        save_volume(tmp_path / "a.nii.gz", np.ones((3, 3, 3)), np.eye(4))
        assert main(["segment", "prior", str(folder), "a.nii.gz", "--out", "prior"]) == 0
        assert [path.name for path in stand_ins.calls[0][0]] == ["1_labels.nii.gz", "a.nii.gz"]
        assert names(tmp_path / "prior") == ["atlas"]
        assert "the prior of 2 label maps is in prior" in capsys.readouterr().out
        assert "exists and is not overwritten" in run_failing(capsys, "prior", folder, "--out", "prior")

    def test_a_failure_leaves_nothing(self, folder, tmp_path, capsys):
        assert "one map is too few" in run_failing(capsys, "prior", folder, "--out", "prior")
        assert not list(tmp_path.glob("prior*"))
        assert "hardmax segment prior needs MAPS" in run_failing(capsys, "prior")


class TestTrain:
    def test_train(self, folder, stand_ins, tmp_path, capsys):
        arguments = ["--prior", "model", "--out", "trained", "--steps", "3", "--pretraining", "2", "--seed", "5"]
        assert main(["segment", "train", str(folder), *arguments]) == 0
        scans, prior, *others = stand_ins.calls[0]
        assert [path.name for path in scans] == ["1_t1.nii.gz", "2_t1.mgz"]
        assert prior.name == "model"
        assert others == ["align", "mixing", 2, 3, 5]
        assert names(tmp_path / "trained") == ["encoder"]
        assert "--model trained" in capsys.readouterr().out

    def test_what_cannot_be(self, folder, capsys):
        assert "steps must be at least 1, got 0" in run_failing(capsys, "train", folder, "--steps", "0")
        assert "hardmax segment train needs SCANS" in run_failing(capsys, "train", "--prior", "model")


def test_no_such_command(capsys):
    assert "no command 'segment rum'; did you mean run?" in run_failing(capsys, "rum")
    assert "no command 'segment xyz'; there are: run, prior, train" in run_failing(capsys, "xyz")
    assert main(["segment"]) == 2


@pytest.mark.parametrize("command", [[], ["run"], ["prior"], ["train"]], ids=str)
def test_help_is_quick_and_imports_no_torch(command):
    code = (
        "import sys\nfrom hardmax.cli.main import main\n"
        f"try: main(['segment', *{command}, '--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'nibabel', 'scipy', 'matplotlib'} & set(sys.modules)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert "xample" in done.stdout
