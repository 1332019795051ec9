"""A studio with runs of every application: those that are saved in tests/compatibility, and two new ones."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train

SAVED = Path(__file__).parents[2] / "compatibility" / "saved"
SMALL = DiscreteConfig(epochs=3, batch_size=500, hidden=8, evaluate_images=50, estimator="exact", categories=4)


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Return a folder of runs; data of the saved ones are given by paths that are relative to it."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    shutil.copytree(SAVED, folder)
    assert train(replace(SMALL, out=str(folder / "first")))
    assert train(replace(SMALL, out=str(folder / "b, <b>second</b>"), estimator="direct", epsilon=0.5))
    return folder


@pytest.fixture(scope="session")
def address(runs, start_studio):
    """The address of a studio with these runs, which is started in their folder."""
    return start_studio(runs, folder=runs).address
