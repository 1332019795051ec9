"""A run that tests of checkpoints continue or damage."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """Return the configuration of a run of two epochs, the second of which is the best."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 2, (4, 6, 6))
    np.save(folder / "images.npy", (patterns[generator.integers(0, 4, 200)] * 255).astype(np.uint8))
    config = DiscreteConfig(
        data=str(folder / "images.npy"), out=str(folder / "run"), epochs=2, hidden=4, batch_size=40, lr=0.01,
        estimator="rebar", lr_schedule="constant",
    )  # fmt: skip
    assert train(config)
    return config


@pytest.fixture
def config(finished_run, tmp_path):
    """Return the configuration of a copy of the run, with one more epoch to train."""
    return replace(finished_run, out=str(shutil.copytree(finished_run.out, tmp_path / "run")), resume=True, epochs=3)
