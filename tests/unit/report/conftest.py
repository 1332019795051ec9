"""Runs to report on, trained once: tiny, but of every kind."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from hardmax.report.page import render
from hardmax.report.run import read_run
from hardmax.training.config import TrainConfig
from hardmax.training.loop import train

SMALL = TrainConfig(epochs=2, batch_size=500, hidden=16, evaluate_images=100, estimator="exact")
KINDS = {
    "categorical": SMALL,
    "direct": replace(SMALL, estimator="direct", epsilon=0.5, seed=1, prior="learned"),
    "variables": replace(SMALL, categories=3, variables=4, estimator="gumbel-softmax"),
    "bits": replace(SMALL, space="binary", variables=6),
    "pairwise": replace(SMALL, space="pairwise", variables=5, estimator="gibbs-covariance"),
    "supermodular": replace(SMALL, space="pairwise", variables=4, graph="chain", supermodular=True),
    "many": replace(SMALL, space="pairwise", variables=22, graph="chain", estimator="auto", epochs=1),
    "subset": replace(SMALL, space="subset", variables=5, chosen=2),
    "chain": replace(SMALL, space="chain", variables=4, categories=3),
    "permutation": replace(SMALL, space="permutation", variables=4),
    "tree": replace(SMALL, space="spanning-tree", variables=4),
    "gaussian": replace(SMALL, likelihood="gaussian", binarize="none", categories=120),
    "rgb": replace(SMALL, space="binary", variables=3, binarize="none", batch_size=10, epochs=1),
    "rgb-categorical": replace(SMALL, categories=4, binarize="stochastic", batch_size=10, epochs=1),
}


@pytest.fixture(scope="session")
def colours(tmp_path_factory):
    """Return a folder of small RGB pictures."""
    folder = tmp_path_factory.mktemp("colours")
    values = np.random.default_rng(0).integers(0, 256, (40, 8, 10, 3), dtype=np.uint8)
    for i, pixels in enumerate(values):
        Image.fromarray(pixels).save(folder / f"{i:02}.png")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory, colours):
    """Return a function from the name of a kind of run to its folder."""
    folder = tmp_path_factory.mktemp("runs")

    def one(kind):
        out = folder / kind
        if not out.exists():
            data = str(colours) if kind.startswith("rgb") else "sample"
            assert train(replace(KINDS[kind], out=str(out), data=data))
        return out

    return one


@pytest.fixture(scope="session")
def page(trained):
    """Return a function from names of kinds to the page about such runs."""
    return functools.cache(lambda *kinds: render([read_run(trained(kind)) for kind in kinds]))
