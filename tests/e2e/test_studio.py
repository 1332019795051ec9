"""The command `hardmax studio`: what it says, and how it ends."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from e2e.commands import hardmax


def test_it_serves_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "hardmax.cli.main", "studio", str(tmp_path), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert str(tmp_path) in answer.read().decode()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Traceback" not in rest + errors
    assert os.listdir(tmp_path) == []  # nothing is written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-folder"], "no-such-folder is not a folder"),
        (["--host", "no such host"], "--host no such host is not an address"),
        (["--port", "many"], "--port must be a whole number"),
        (["--port", "70000"], "--port must be between 0 and 65535"),
    ],
)
def test_invalid_arguments_are_one_line(arguments, message):
    error = hardmax("studio", *arguments, check=2)
    assert message in error
    assert len(error.splitlines()) == 1


def test_without_nicegui_the_error_names_the_extra(tmp_path):
    (tmp_path / "nicegui.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    assert "pip install 'hardmax[studio]'" in hardmax("studio", check=2, environment={"PYTHONPATH": path})
