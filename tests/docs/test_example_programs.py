"""Every program in examples/ runs, from any folder and without a warning, and prints something."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAMS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_programs():
    assert PROGRAMS


@pytest.fixture(scope="module")
def mixture():
    return runpy.run_path(str(PROGRAMS[0].parent / "mixture_of_experts.py"))


def test_passes_through_experts_are_counted(mixture):
    """A forward pass of a token through an expert counts once, a backward pass twice."""
    x, y = torch.randn(200, 1, 28, 28), torch.randint(10, (200,))
    for name, method in mixture["METHODS"].items():
        model, counted = mixture["ImageClassifier"](method, seed=0), 0

        def count(expert, inputs, output):
            nonlocal counted
            counted += len(output) * (3 if output.requires_grad else 1)

        for expert in model.mixture.experts:
            expert.register_forward_hook(count)
        mixture["compute_loss"](model, method, x, y).backward()
        assert counted == 200 * method.count_passes(k=1), name


def test_rows_of_the_mixture_are_made_once(mixture, tmp_path):
    path, kind = tmp_path / "rows.jsonl", mixture["ImageClassifier"]
    kind.steps, load = 6, kind.load
    kind.load = staticmethod(lambda quick: load(quick=True))
    run = lambda names: mixture["run_missing"](path, ["images"], names, [0])  # noqa: E731
    rows = run(["softmax", "dense"])
    assert [(row["method"], row["equal"], row["steps"], row["passes"]) for row in rows] == [
        *(("softmax", "passes", 6, 18), ("softmax", "steps", 6, 18)),
        *(("dense", "passes", 2, 20), ("dense", "steps", 6, 60)),
    ]
    text = path.read_text()
    assert run(["softmax", "dense"]) == rows == [json.loads(line) for line in text.splitlines()]
    assert path.read_text() == text
    path.write_text("".join(text.splitlines(keepends=True)[:2]))
    again = run(["softmax", "dense"])
    assert [{**row, "seconds": 0} for row in again] == [{**row, "seconds": 0} for row in rows]
