"""Maps: the network, each loss on a tiny instance, refused losses, the sheet of paths, and the command line."""

import json

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.decisions import DecisionModel
from hardmax.applications.decisions.config import LOSS_OPTIONS, DecisionsConfig
from hardmax.applications.decisions.losses import make_relative
from hardmax.applications.decisions.map_sheet import HEADS, draw_map_sheet, order_cells
from hardmax.applications.decisions.networks import LEAST_COST
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.cli.main import main
from hardmax.data import generate_maps
from hardmax.errors import ArgumentError

SIZES = {"examples": 60, "validation_examples": 4, "test_examples": 40}
SUMS = ("gibbs", "likelihood", "pseudo-likelihood")  # and other probabilities
OPTIONS = {
    "least-squares": {},
    "spo-plus": {},
    "hinge": {},
    "direct": {"epsilon": 0.1, "relative": True},
    "fenchel-young": {"relative": True},
    "implicit-mle": {"step": 20.0, "relative": True},
    "adaptive-implicit-mle": {"share": 0.9, "relative": True},
    "blackbox": {"step": 0.4},
    "identity": {"relative": True},
    "perturbed": {"samples": 20, "relative": True, "lr": 1e-3, "epochs": 40},
}


@pytest.fixture(scope="module")
def data():
    return generate_maps({"train": 60, "validation": 4, "test": 40}, cells=6)


def train(loss, data, **options):
    """Return the training regret before and after a few epochs."""
    merged = {"lr": 3e-3, "epochs": 20, **OPTIONS[loss], **options}
    config = DecisionsConfig(data="maps", cells=6, loss=loss, scale=0.3, hidden=16, **SIZES, **merged)
    task = DecisionsTask.build(config, data)
    task.generators["noise"].manual_seed(0)
    optimizer = torch.optim.Adam(task.model.parameters(), config.learning_rate)
    before = task.evaluate("train")["regret"]
    for epoch in range(config.epochs):
        for index in torch.arange(60).split(20):
            optimizer.zero_grad()
            task.add_gradients(index, epoch, 3 * epoch)
            optimizer.step()
    return before, task.evaluate("train")["regret"]


@pytest.mark.parametrize("loss", OPTIONS)
def test_each_loss_lowers_the_regret(loss, data):
    before, after = train(loss, data)
    assert after < 0.8 * before


def test_every_loss_is_tested_here():
    assert set(OPTIONS) | set(SUMS) == set(LOSS_OPTIONS)


def test_direct_towards_better_paths(data):
    before, after = train("direct", data, towards=True, relative=True)
    assert after < 0.5 * before


@pytest.mark.parametrize("loss", SUMS)
def test_losses_that_sum_over_paths_are_refused(loss, data):
    needs = "(sums over all decisions|probabilities)"
    with pytest.raises(ArgumentError, match=f"loss {loss} needs {needs} .* use one that needs only"):
        DecisionsTask.build(DecisionsConfig(data="maps", cells=6, loss=loss, **SIZES), data)


def test_network_has_scores_below_zero(data):
    model = DecisionModel("maps", data.parameters, data.shape)
    assert sum(weight.numel() for weight in model.parameters()) < 100_000
    scores = model(data.test)
    assert scores.shape == (40, 6, 6)
    assert (scores <= -LEAST_COST).all()
    assert torch.equal(model(data.test.float()), scores)  # features of the user are float32
    with pytest.raises(ArgumentError, match=r"maps of 6 x 6 cells .* \[3, 48, 48\], got \[3, 48, 40\]"):
        DecisionModel("maps", data.parameters, (3, 48, 40))


def test_relative_scores_keep_decisions():
    space = hm.GridPath(3, 3, connectivity=8, monotone=False, on="nodes")
    costs = 1 + torch.rand(5, 3, 3, generator=torch.Generator().manual_seed(0))
    best = space.argmax(-costs)
    relative = make_relative("fenchel-young", -7 * costs, best, space)
    assert torch.allclose(relative, make_relative("fenchel-young", -costs, best, space))
    assert torch.equal(space.argmax(relative), best)
    assert torch.allclose((relative * best).sum((1, 2)), -best.sum((1, 2)))


def test_relative_scores_of_identity_are_on_a_sphere():
    scores = make_relative("identity", -torch.rand(5, 3), torch.ones(5, 3), hm.Binary(3))
    assert torch.allclose(scores.square().mean(1), torch.ones(5))


def test_spo_plus_of_scores_that_change_sign():
    """Scores above zero are set to zero for the arg max; the gradient stays 2 (z - z*)."""
    space = hm.GridPath(3, 3, connectivity=8, monotone=False, on="nodes")
    costs = torch.tensor([[1.0, 9.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 1.0]])
    scores = torch.full((3, 3), -0.1, requires_grad=True)
    loss = hm.spo_plus_loss(scores, costs, space)
    loss.backward()
    assert loss >= 0
    assert scores.grad is not None
    assert torch.equal(scores.grad, 2 * (torch.eye(3) - space.argmax(-costs)))
    far = -10 * costs
    assert hm.spo_plus_loss(far, costs, space) == 0


def test_cells_of_a_path_in_order():
    space = hm.GridPath(6, 6, connectivity=8, monotone=False, on="nodes")
    for z in space.argmax(-torch.rand(20, 6, 6, generator=torch.Generator().manual_seed(0)) - 0.1):
        cells = order_cells(z)
        assert cells[0] == (0, 0)
        assert cells[-1] == (5, 5)
        assert len(cells) == z.sum()
        steps = np.abs(np.diff(np.array(cells), axis=0))
        assert (steps.max(1) == 1).all()


def test_sheet(data):
    model = DecisionModel("maps", data.parameters, data.shape)
    costs = data.costs["test"][:2]
    sheet = draw_map_sheet(model, data.test[:2], costs, model.space.argmax(-costs), [0, 20])
    assert sheet.width > 192 * len(HEADS)
    assert sheet.height > 192 * 2


def run_here(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_command_line(tmp_path, capsys):
    run = tmp_path / "run"
    sizes = [f"--{name.replace('_', '-')}={number}" for name, number in SIZES.items()]
    options = ["--model", "decisions", "--cells", 3, "--epochs", 1, "--hidden", 4, *sizes, "--out", run]
    output = run_here(capsys, "train", "--data", "maps", "--loss", "fenchel-young", "--relative", *options)
    assert "images of terrain of 5 kinds, 3 x 3 cells" in output
    assert "convolutional network, loss fenchel-young with 3 noise samples" in output
    numbers = json.loads(run_here(capsys, "evaluate", run, "--json"))
    assert numbers["regret"] >= 0
    run_here(capsys, "report", run)
    page = (run / "report.html").read_text()
    assert "A convolutional network predicts the scores of paths on maps" in page
    assert 'alt="4 test maps with predicted costs' in page


def test_published_maps_on_the_command_line(tmp_path, capsys):
    options = ["--model", "decisions", "--data", "warcraft", "--epochs", 1, "--hidden", 4, "--out", tmp_path / "run"]
    assert main([*map(str, ["train", *options])]) == 2
    assert "give the folder of the published files" in capsys.readouterr().err
    data = generate_maps({"train": 6, "validation": 2, "test": 3}, cells=3)
    for part, name in (("train", "train"), ("validation", "val"), ("test", "test")):
        np.save(tmp_path / f"{name}_maps.npy", getattr(data, part).movedim(1, -1).contiguous().numpy())
        np.save(tmp_path / f"{name}_vertex_weights.npy", data.costs[part].numpy().astype(np.float16))
    output = run_here(capsys, "train", *options, "--data-dir", tmp_path, "--examples", 5)
    assert "published images of a game, 3 x 3 cells" in output
    assert "3 test examples" in run_here(capsys, "evaluate", tmp_path / "run")
