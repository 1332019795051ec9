"""Scans of synthetic heads, and `hardmax segment` with stand-ins for the segmenter and the training."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import WorldSegmenter, make_anatomy, make_head, save_volume, world_points

from hardmax.errors import DataError


@pytest.fixture
def stand_ins(monkeypatch, tmp_path):
    """Replace the segmenter, the atlas and the training by stand-ins, and do not use the user's cache."""
    state = SimpleNamespace(segmenter=WorldSegmenter(), calls=[])

    def build_prior(maps, out, progress):
        state.calls.append((maps, out))
        progress(0.5, "aligning")
        (out / "atlas").write_text("{}")
        if len(maps) == 1:
            raise DataError("one map is too few")

    def train_encoder(scans, prior, out, *, align, mixing, pretraining, steps, seed, progress):
        state.calls.append((scans, prior, align, mixing, pretraining, steps, seed))
        for number in range(pretraining):
            progress(number + 1, pretraining, 1.0)
        for number in range(steps):
            progress(number + 1, steps, 1.0)
        (out / "encoder").write_text("{}")

    state.segmenter.align, state.segmenter.mixing = "align", "mixing"
    modules = {
        "segmenter": SimpleNamespace(Segmenter=SimpleNamespace(load=lambda folder: state.segmenter)),
        "atlas.atlas": SimpleNamespace(build_prior=build_prior),
        "vae.pca": SimpleNamespace(prepare_vae=lambda prior, out: prior),
        "vae.encoder_training": SimpleNamespace(train_encoder=train_encoder),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, f"hardmax.applications.segmentation.{name}", module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return state


@pytest.fixture
def folder(tmp_path):
    """Two scans, the second tilted; a label map of the first; a model."""
    scans = tmp_path / "scans"
    scans.mkdir()
    (tmp_path / "model").mkdir()
    values, affine = make_head()
    save_volume(scans / "1_t1.nii.gz", values, affine)
    save_volume(
        scans / "1_labels.nii.gz", make_anatomy(world_points(values.shape, affine), values.astype(np.float32)), affine
    )
    save_volume(scans / "2_t1.mgz", *make_head(tilt=(10, 0, 20)), kind=nibabel.MGHImage)
    return scans


@pytest.fixture
def start_command(tmp_path):
    """Return a function that starts `hardmax segment run` with a stand-in for the segmenter, also in its processes."""
    tests = Path(__file__).parents[2]
    place = tmp_path / "site"
    place.mkdir()
    (tmp_path / "model").mkdir()
    stand_in = Path(__file__).with_name("stand_in_segmenter.py")
    (place / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # tests in the background would ignore it
        "from importlib.util import spec_from_file_location\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'hardmax.applications.segmentation.segmenter':\n"
        f"            return spec_from_file_location(name, {str(stand_in)!r})\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    path = os.pathsep.join([str(place), str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    def start(*arguments):
        words = [sys.executable, "-m", "hardmax.cli.main", "segment", "run", *map(str, arguments)]
        return subprocess.Popen(
            [*words, "--model", str(tmp_path / "model")],
            cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


@pytest.fixture
def run_command(start_command):
    """Return a function that runs `hardmax segment run` like `start_command`: exit code, output and errors."""

    def run(*arguments):
        process = start_command(*arguments)
        output, errors = process.communicate(timeout=300)
        assert "Traceback" not in output + errors, output + errors
        return process.returncode, output, errors

    return run
