"""`hardmax segment run --workers N`, in processes as users start them."""

import csv
import os
import signal
import time

import pytest
from applications.segmentation.heads import make_head, run_failing, save_volume

from hardmax.cli.main import main


@pytest.fixture
def scans(tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for number, name in enumerate(("a_late", "b", "c", "d")):
        save_volume(folder / f"{name}_t1.nii.gz", *make_head(tilt=(5 * number, 0, 0)))
    return folder


def read_files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.nii.gz")}


@pytest.mark.usefixtures("stand_ins")
def test_the_results_are_those_of_one_process_and_a_lost_process_costs_its_scan(scans, tmp_path, run_command):
    assert main(["segment", "run", str(scans), "--out", "one", "--posteriors", "--model", "model"]) == 0
    (scans / "broken_t1.nii.gz").write_bytes(b"text")
    save_volume(scans / "c_killed_t1.nii.gz", *make_head())
    code, output, errors = run_command(scans, "--out", "two", "--posteriors", "--workers", "2")
    assert code == 1
    assert "hardmax: error: 2 of 6 scans failed" in errors
    assert "6 of 6: " in errors  # the progress
    names = [line.split("  ")[0] for line in output.splitlines()[1:7]]
    assert names == ["a_late_t1", "b_t1", "broken_t1", "c_killed_t1", "c_t1", "d_t1"]  # not as they were done
    assert "broken_t1: " in output
    assert "c_killed_t1: its process was ended by signal 9, perhaps because memory ran out" in output
    assert read_files(tmp_path / "two") == read_files(tmp_path / "one")
    with (tmp_path / "two" / "volumes.csv").open() as file:
        flags = {row["scan"]: row["flag"] for row in csv.DictReader(file)}
    assert [name for name, flag in flags.items() if flag.startswith("failed: ")] == ["broken_t1", "c_killed_t1"]
    assert "6 scans" in (tmp_path / "two" / "index.html").read_text()


def list_children(process):
    """Return the processes that a process has started, and those that they have started."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    out = {process}
    while more := {child for child, parent in parents.items() if parent in out} - out:
        out |= more
    return out - {process}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_ctrl_c_ends_all_processes_and_keeps_what_is_done(scans, tmp_path, start_command):
    for letter in "bcd":
        (scans / f"{letter}_t1.nii.gz").rename(scans / f"{letter}_slow_t1.nii.gz")
    process = start_command(scans, "--out", "out", "--workers", "2")
    out = tmp_path / "out"
    deadline = time.monotonic() + 120
    while not (out / "volumes.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    children = list_children(process.pid)
    assert len(children) >= 2
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, output + errors
    assert errors.splitlines()[-1] == "hardmax: error: interrupted"
    assert "Traceback" not in errors
    while any(os.path.exists(f"/proc/{child}") for child in children) and time.monotonic() < deadline:
        time.sleep(0.1)  # one belongs to Python, and ends after the command
    assert not [child for child in children if os.path.exists(f"/proc/{child}")]
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert files == ["a_late_t1_labels.nii.gz", "colours.txt", "index.html", "qc/a_late_t1.json", "qc/a_late_t1.png",
                     "volumes.csv"]  # fmt: skip
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["qc"]


def test_the_number_of_processes(capsys):
    assert "workers must be at least 1, got 0" in run_failing(capsys, "run", "scan.nii.gz", "--workers", "0")
