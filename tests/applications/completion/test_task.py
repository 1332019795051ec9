"""Training of the completion model: a toy with known modes, whose odds the weights must learn; one run however cut."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.evaluation import evaluate
from hardmax.applications.completion.masks import draw_masks, prepare_masked_split
from hardmax.applications.completion.model import CompletionModel
from hardmax.applications.completion.task import CompletionTask
from hardmax.applications.runs import load_run, train
from hardmax.training.loop import Observer
from hardmax.training.processes import Group
from hardmax.training.run_folder import read_rows

TOP = np.random.default_rng(0).integers(0, 2, (4, 8))
BOTTOMS = np.random.default_rng(1).integers(0, 2, (2, 4, 8))
ODDS = 0.7  # of the second bottom
ENTROPY = -ODDS * math.log(ODDS) - (1 - ODDS) * math.log(1 - ODDS)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The same upper half always, and one of two lower halves, with known odds."""
    which = (np.arange(2400) % 10 < 10 * ODDS).astype(int)
    images = np.concatenate([np.broadcast_to(TOP, (2400, 4, 8)), BOTTOMS[which]], 1) * 255
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(path, images=images.astype(np.uint8), labels=which)
    return str(path)


def config_of(data, out, **options):
    small = {"components": 4, "latent": 2, "hidden": 32, "epochs": 7, "warm_up": 4, "lr": 3e-3, "batch_size": 50}
    return CompletionConfig(data=data, out=str(out), **{**small, "mask": "half", **options})


def completed(config):
    """Return which bottom each of many completions is, how far it is from it, and its component."""
    model = load_run(config.out, "latest", kind=CompletionModel).model
    x = torch.from_numpy(np.concatenate([TOP, 0 * TOP])).float()[None, None]
    found = model.complete(x, draw_masks("half", 1, (8, 8)), count=4000, generator=torch.Generator().manual_seed(0))
    low = found.pictures[:, 0, 0, 4:]
    far = torch.stack([(low - torch.from_numpy(bottom)).abs().mean((1, 2)) for bottom in BOTTOMS], 1)
    return far.argmin(1), far.amin(1), found.component[:, 0], model.look(x, draw_masks("half", 1, (8, 8))).mixture


@pytest.mark.parametrize("options", [
    {"choice": "mixture"},
    {"choice": "responsibility"},
    {"choice": "encoder", "estimator": "direct"},
    {"choice": "distance", "loss": "corrected"},
    pytest.param({"choice": "distance"}, marks=pytest.mark.slow),
    pytest.param({"choice": "encoder", "estimator": "gumbel-softmax", "tau": 0.5}, marks=pytest.mark.slow),
], ids=lambda options: "-".join(map(str, options.values())))  # fmt: skip
def test_both_modes_with_their_odds(options, toy, tmp_path):
    config = config_of(toy, tmp_path / "run", **options)
    rows = []
    assert train(config, Observer(rows=rows.append))
    which, far, component, mixture = completed(config)
    assert far.median() < 0.05
    assert (far < 0.2).float().mean() > 0.98  # nothing in between
    assert which.float().mean() == pytest.approx(ODDS, abs=0.05)
    # Each component in use draws one of the two, and the weights of those that draw the second are its odds.
    weights, second = mixture.log_weights.detach().exp()[0].tolist(), 0.0
    for j in range(4):
        if weights[j] > 0.02:
            share = which[component == j].float().mean()
            assert min(share, 1 - share) < 0.05
            second += weights[j] * round(float(share))
    assert second == pytest.approx(ODDS, abs=0.05)
    if "loss" not in options:
        assert rows[-1][2]["nll"] == pytest.approx(ENTROPY, abs=0.15)  # nothing is left but the odds


def test_the_published_loss_diverges(toy, tmp_path):
    config = config_of(toy, tmp_path / "run", choice="distance", loss="published")
    said = []
    rows = []
    train(config, Observer(say=said.append, rows=rows.append))
    assert any("expect this to diverge" in line for line in said)
    losses = [row[0]["loss"] for row in rows]
    last = losses[-1]
    assert last is None or not math.isfinite(last) or last < -1e3  # it falls without end
    bound = rows[-1][2]["elbo"]
    assert math.isnan(bound) or -bound > 50 * ENTROPY
    if math.isfinite(bound):
        which, far, _, _ = completed(config)
        both = min(float(((which == i) & (far < 0.2)).float().mean()) for i in (0, 1))
        assert both < 0.1  # one bottom at most is ever drawn well


def test_without_a_latent_it_draws_the_mean(toy, tmp_path):
    config = config_of(toy, tmp_path / "run", components=0, latent=0)
    rows = []
    assert train(config, Observer(rows=rows.append))
    model = load_run(config.out, kind=CompletionModel).model
    found = evaluate(model, prepare_masked_split(config, CompletionTask.load(config), "test"))
    assert found["kl"] == 0
    mean = torch.from_numpy((1 - ODDS) * BOTTOMS[0] + ODDS * BOTTOMS[1])
    x = torch.from_numpy(np.concatenate([TOP, 0 * TOP])).float()[None, None]
    drawn = model.complete(x, draw_masks("half", 1, (8, 8)), count=1).pictures[0, 0, 0, 4:]
    assert (drawn - mean).abs().max() < 0.1
    unlike = int((BOTTOMS[0] != BOTTOMS[1]).sum())
    assert found["nll"] == pytest.approx(unlike * ENTROPY, rel=0.1)


def test_a_run_that_goes_on_is_the_run_that_never_stopped(toy, tmp_path):
    options = {"epochs": 2, "warm_up": 1, "mask": "any", "choice": "encoder", "adversarial": 0.5}
    config = replace(config_of(toy, tmp_path / "whole"), **options)
    train(config)
    asked = 0

    def stop():
        nonlocal asked
        asked += 1
        return asked == 20

    cut = replace(config, out=str(tmp_path / "cut"))
    assert not train(cut, Observer(stop=stop))
    assert train(replace(cut, resume=True))
    whole, both = (read_rows(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut"))
    assert whole == both
    assert whole[0]["critic_loss"] is not None


@pytest.mark.parametrize("options", [
    {"augment": "flip"}, {"choice": "encoder", "estimator": "direct"}, {"loss": "corrected", "choice": "distance"},
])  # fmt: skip
def test_two_processes_add_up_to_one(options, toy, tmp_path):
    config = config_of(toy, tmp_path / "run", mask="any", warm_up=0, **options)
    images = CompletionTask.load(config)
    index = torch.arange(7)

    def gradients(*groups):
        total = []
        for group in groups:
            task = CompletionTask.start(config, images, 0, group)
            for generator in task.generators.values():
                generator.manual_seed(1)
            task.add_gradients(index, 1, 0)
            total.append([p.grad if p.grad is not None else torch.zeros_like(p) for p in task.model.parameters()])
        return [sum(parts) for parts in zip(*total, strict=True)]

    alone, shared = gradients(Group()), gradients(Group(0, 2, 2), Group(1, 2, 2))
    for one, two in zip(alone, shared, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_a_critic_learns_and_is_deceived(toy, tmp_path):
    config = config_of(toy, tmp_path / "run", adversarial=1.0)
    task = CompletionTask.start(config, CompletionTask.load(config))
    assert len(task.learned) > 0
    plain = CompletionTask.start(replace(config, adversarial=0.0), CompletionTask.load(config))
    for one in (task, plain):
        for generator in one.generators.values():
            generator.manual_seed(1)
        one.add_gradients(torch.arange(50), 0, 0)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in task.learned[:2])
    (first, second) = (next(one.model.decoder.parameters()).grad for one in (task, plain))
    assert not torch.equal(first, second)
