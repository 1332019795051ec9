"""Denoising: noisy images, the layout of costs and scores, the structured hinge loss, and training."""

import json

import pytest
import torch

import hardmax as hm
from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.denoising import NETWORKS, GridScores
from hardmax.applications.decisions.losses import LOSSES, LossSetting, check_loss
from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.cli.main import main
from hardmax.data import load_images, make_noisy_images
from hardmax.data.noisy_images import add_noise
from hardmax.errors import ArgumentError, DataError
from hardmax.objectives.decisions import compute_hamming_costs
from hardmax.training.state import State

SIZES = {"train": 40, "validation": 10, "test": 20}
SMALL = {"data": "denoising", "examples": 96, "validation_examples": 8, "test_examples": 32, "hidden": 4}


@pytest.fixture(scope="module")
def images():
    return load_images("sample")


# ------------------------------------------------------------------------------------------------------------- data
def test_noise_has_the_given_rate_and_block():
    clean = torch.zeros(2000, 1, 28, 28)
    generator = torch.Generator().manual_seed(0)
    assert abs(float(add_noise(clean, 0.2, 0, generator).mean()) - 0.2) < 0.005
    noisy = add_noise(clean, 0.0, 7, generator)[:, 0]
    assert abs(float(noisy.mean()) - 0.5 * 49 / 784) < 0.001
    for any_row in (noisy.any(1), noisy.any(2)):  # where the block has ones: at most 8 columns, or rows
        first, last = any_row.int().argmax(-1), 27 - any_row.flip(-1).int().argmax(-1)
        assert (last - first).max() == 7
    assert noisy.any(0).float().mean() > 0.98  # blocks are everywhere, though seldom in a corner


def test_examples(images):
    data = make_noisy_images(images, SIZES, seed=3)
    assert data.train.shape == (40, 1, 28, 28)
    assert data.targets["train"].shape == (40, 784)
    assert not data.costs
    assert data.facts == {"shape": [1, 28, 28], "targets": [784], "parameters": {"grid": [28, 28]}}
    wrong = (data.train.flatten(1) != data.targets["train"]).double().mean()
    assert 0.13 < wrong < 0.22
    again, other = (make_noisy_images(images, SIZES | {"test": 5}, seed=seed) for seed in (3, 4))
    assert again.train.equal(data.train)
    assert not other.train.equal(data.train)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"flips": 0.6}, ArgumentError, "flips must be between 0 and 0.5, got 0.6"),
        ({"occlusion": 28}, ArgumentError, "occlusion must be from 0 to 27 pixels, got 28"),
        ({"sizes": SIZES | {"test": 1001}}, DataError, "sample has 1,000 test images, but 1,001 examples"),
    ],
)
def test_wrong_options(images, options, error, match):
    with pytest.raises(error, match=match):
        make_noisy_images(images, **{"sizes": SIZES} | options)


def test_images_in_colour_are_refused(images):
    colour = hm.data.Images("colour", "test", *(torch.zeros(50, 3, 8, 8, dtype=torch.uint8),) * 3)
    with pytest.raises(DataError, match="takes grey images, but colour has 3 channels"):
        make_noisy_images(colour, SIZES)


# ----------------------------------------------------------------------------------------------------------- layouts
def test_the_regret_of_the_costs_is_the_hamming_distance():
    space = hm.PairwiseBinary.grid(4, 5, supermodular=True)
    z, y = torch.randint(2, (2, 100, 20), generator=torch.Generator().manual_seed(0)).double()
    costs = compute_hamming_costs(y, space)
    regret = space.dot(costs, space.statistics(z) - space.statistics(y))
    torch.testing.assert_close(regret, (z != y).double().sum(-1))
    assert not costs[:, 20:].any()
    assert space.argmax(-costs).equal(y)


class Constant(torch.nn.Module):
    """A network that returns the same maps for all images."""

    def __init__(self, maps):
        super().__init__()
        self.maps = maps

    def forward(self, x):
        return self.maps


def test_the_scores_are_those_of_attracting_neighbours():
    """The layout equals the formula of the class, for every image of 3 x 4 pixels, up to one constant."""
    generator = torch.Generator().manual_seed(0)
    maps, x = torch.randn(1, 3, 3, 4, generator=generator), torch.randint(2, (1, 1, 3, 4), generator=generator).float()
    model = GridScores(Constant(maps), has_couplings=True)
    space = hm.PairwiseBinary.grid(3, 4, supermodular=True)
    z = space.enumerate()
    ours = space.dot(model(x)[0], space.statistics(z))
    grid = z.view(-1, 3, 4)
    c = torch.nn.functional.softplus(maps[0] - 2)
    expected = ((maps[0, 0] + 2 * x[0, 0] - 1) * grid).sum((1, 2))
    expected += (c[1, :, :-1] * (grid[:, :, 1:] == grid[:, :, :-1])).sum((1, 2))
    expected += (c[2, :-1] * (grid[:, 1:] == grid[:, :-1])).sum((1, 2))
    difference = ours - expected
    torch.testing.assert_close(difference, difference[:1].expand_as(difference), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    model = DecisionModel("denoising", {"grid": [28, 28]}, [1, 28, 28], network=name)
    x = torch.randint(2, (3, 1, 28, 28), generator=torch.Generator().manual_seed(0)).float()
    scores = model(x)
    assert scores.shape == (3, 784 + 1512)
    assert scores[:, 784:].any() == name.endswith("-couplings")
    assert (scores[:, 784:] >= 0).all()
    assert sum(weight.numel() for weight in model.parameters()) < 6000
    assert model.decide(x).shape == (3, 784)


def test_unknown_networks():
    with pytest.raises(ArgumentError, match="denoising has no network 'deep'; there are: conv-couplings"):
        DecisionModel("denoising", {"grid": [28, 28]}, [1, 28, 28], network="deep")
    with pytest.raises(ArgumentError, match="path has no network 'conv'; it has only one"):
        DecisionModel("path", {"grid": [5, 5]}, [5], network="conv")
    with pytest.raises(ArgumentError, match="network is for denoising, got conv for path"):
        DecisionsConfig(network="conv")


# ------------------------------------------------------------------------------------------------------------ losses
def enumerate_hinge(space, scores, y, *, margin=1.0):
    """Return the structured hinge loss from its definition."""
    z = space.enumerate(dtype=scores.dtype)
    distance = margin * (z[None] != y[:, None]).double().sum(-1)
    best = (scores @ space.statistics(z).mT + distance).amax(-1)
    return best - (scores * space.statistics(y)).sum(-1)


def test_hinge_equals_enumeration():
    space, generator = hm.PairwiseBinary.grid(2, 3, supermodular=True), torch.Generator().manual_seed(0)
    scores = torch.randn(200, 13, generator=generator, dtype=torch.float64)
    scores[:, 6:] = scores[:, 6:].abs()
    scores.requires_grad_()
    y = torch.randint(2, (200, 6), generator=generator).double()
    values = LOSSES["hinge"](scores, compute_hamming_costs(y, space), y, LossSetting(space)).values
    exact = enumerate_hinge(space, scores, y)
    torch.testing.assert_close(values, exact)
    gradients = [torch.autograd.grad(loss.sum(), scores)[0] for loss in (values, exact)]
    torch.testing.assert_close(*gradients)
    distance = (space.argmax(scores.detach()) != y).double().sum(-1)
    assert (values >= distance - 1e-9).all()  # a bound of the number of wrong bits
    for margin in (-1.0, 0.0, 2.0):  # planted errors are noticed
        assert (enumerate_hinge(space, scores, y, margin=margin) - values).abs().max() > 0.1


def test_pseudo_likelihood_without_couplings_is_the_cross_entropy():
    space, generator = hm.PairwiseBinary.grid(3, 3, supermodular=True), torch.Generator().manual_seed(0)
    scores = torch.nn.functional.pad(torch.randn(5, 9, generator=generator), (0, 12))
    y = torch.randint(2, (5, 9), generator=generator).float()
    values = LOSSES["pseudo-likelihood"](scores, scores, y, LossSetting(space)).values
    expected = torch.nn.functional.binary_cross_entropy_with_logits(scores[:, :9], y, reduction="none").sum(-1)
    torch.testing.assert_close(values, expected)
    with pytest.raises(ArgumentError, match=r"needs probabilities of single bits .* does not offer"):
        check_loss("pseudo-likelihood", hm.GridPath(3, 3))


METHODS = {
    "cross-entropy": {"loss": "pseudo-likelihood", "network": "conv"},
    "hinge": {"loss": "hinge"},
    "hinge, U-Net": {"loss": "hinge", "network": "u-net-couplings"},
    "SPO+": {"loss": "spo-plus"},
    "Fenchel-Young": {"loss": "fenchel-young", "samples": 1},
    "I-MLE": {"loss": "implicit-mle", "samples": 1, "step": 7840.0},
    "direct, towards": {"loss": "direct", "towards": True, "epsilon": 10.0},
    "direct, towards, noise": {"loss": "direct", "towards": True, "epsilon": 10.0, "samples": 1},
    "hinge, then direct": {"loss": "direct", "samples": 1, "warmup": 3},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_loss_reduces_the_error(method):
    config = DecisionsConfig(**SMALL, **METHODS[method], epochs=5, batch_size=8, lr=1e-2)
    state = State(DecisionsTask.build(config, DecisionsTask.load_data(config)))
    before = state.task.evaluate("test")["regret"]
    assert 0.1 < before < 0.25
    while state.progress.epoch < config.epochs:
        for index in state.begin_epoch():
            state.make_step(index)
        state.progress.epoch += 1
    assert state.task.evaluate("test")["regret"] < 0.8 * before


# -------------------------------------------------------------------------------------------------------- command line
def test_command_line(tmp_path, capsys):
    run = tmp_path / "run"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert main(["train", "--model", "decisions", *options, "--loss", "hinge", "--epochs", "1", "--out", str(run)]) == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {row["split"] for row in rows} == {"train", "validation", "test"}
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 0
    assert "share of wrong pixels" in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(run)]) == 0
    assert "noisy" in (run / "report.html").read_text()
