"""Small runs of every kind, each trained once."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from squares import save_squares

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.runs import read_run, render_report, train
from hardmax.applications.tokens.config import DvaeConfig

SMALL = DiscreteConfig(epochs=2, batch_size=500, hidden=16, evaluate_images=100, estimator="exact")
MIXED = MixedConfig(epochs=2, batch_size=200, lr=3e-3, evaluate_images=100, head_epochs=1, continuous=4)
HASHING = HashingConfig(epochs=2, bits=12, hidden=30, batch_size=500, evaluate_images=100)
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
    "classes": MIXED,
    "unlabelled": replace(MIXED, labels=0, categories=24, epochs=1, seed=1),
    "attributes": replace(MIXED, attributes="red,on_the_right", labels=40, batch_size=50, binarize="none"),
    "dvae": DvaeConfig(epochs=2, batch_size=500, codes=12, width=4, dimensions=4, evaluate_images=60),
    "rgb-dvae": DvaeConfig(
        epochs=1, batch_size=10, codes=9, width=4, dimensions=2, grid=3, quantize="nearest", evaluate_images=60
    ),
    "codes": HASHING,
    "codes-rgb": replace(HASHING, pairs="distorted", augment="shift", batch_size=10, epochs=1),
    "rgb-categorical": replace(SMALL, categories=4, binarize="stochastic", batch_size=10, epochs=1),
}


@pytest.fixture(scope="session")
def colours(tmp_path_factory):
    """Return a folder of small RGB images."""
    folder = tmp_path_factory.mktemp("colours")
    values = np.random.default_rng(0).integers(0, 256, (40, 8, 10, 3), dtype=np.uint8)
    for i, pixels in enumerate(values):
        Image.fromarray(pixels).save(folder / f"{i:02}.png")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory, colours):
    """Return a function from the name of a kind of run to its folder."""
    folder = tmp_path_factory.mktemp("runs")
    sets = {
        "rgb": colours,
        "codes-rgb": colours,
        "rgb-categorical": colours,
        "rgb-dvae": colours,
        "attributes": save_squares(folder.with_suffix(".npz")),
    }

    def train_kind(kind):
        out = folder / kind
        if not out.exists():
            assert train(replace(KINDS[kind], out=str(out), data=str(sets.get(kind, "sample"))))
        return out

    return train_kind


@pytest.fixture(scope="session")
def page(trained):
    """Return a function from names of kinds to the page about such runs."""
    return functools.cache(lambda *kinds: render_report([read_run(trained(kind)) for kind in kinds]))
