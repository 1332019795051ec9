"""Commands that cannot write: --out is a file, is not writable, or the disk is full. One line says so, in each case."""

import os
import resource
import signal

import pytest
from e2e.commands import hardmax

COMMANDS = {
    "train": ["train", "--epochs", "1", "--hidden", "4"],
    "demo": ["demo", "--epochs", "1"],
    "reproduce runs": ["reproduce", "figure3", "--quick"],
    "reproduce measurements": ["reproduce", "gradient-quality", "--quick"],
}


def limit_files(size):
    """Return a function that limits the size of all files of a process, as a full disk does."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.fixture(params=["a file", "below a file", "not writable"])
def unusable(request, tmp_path):
    """Return a folder that cannot be written."""
    (tmp_path / "file").write_text("mine")
    if request.param == "not writable":
        return "/proc/hardmax"  # also root cannot write here
    return tmp_path / "file" if request.param == "a file" else tmp_path / "file" / "run"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_cannot_be_written(command, unusable, failing, tmp_path):
    message = failing(*COMMANDS[command], "--out", unusable)
    assert str(unusable) in message
    assert "--out" in message
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_read_only(command, failing, tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    assert "--out" in failing(*COMMANDS[command], "--out", tmp_path / "run")


@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(command, size, tmp_path):
    # A table whose runs have failed is still written, and the exit code says so.
    starts, code = ("12 runs failed: ", 1) if command == "reproduce runs" and size else ("cannot ", 2)
    error = hardmax(*COMMANDS[command], "--out", tmp_path / "run", check=code, preexec_fn=limit_files(size))
    lines = error.strip().splitlines()
    assert lines[-1].startswith(f"hardmax: error: {starts}")
    assert len(lines) == 1


def test_a_demo_replaces_only_an_earlier_demo(failing, tmp_path):
    (tmp_path / "exact").mkdir()
    (tmp_path / "exact" / "thesis.txt").write_text("mine")
    assert "holds no run and is not removed" in failing("demo", "--epochs", 1, "--out", tmp_path)
    assert (tmp_path / "exact" / "thesis.txt").read_text() == "mine"
