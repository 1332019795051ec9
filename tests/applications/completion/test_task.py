"""Training of the completion model: it learns the odds of known modes; stopping or sharing a run changes nothing."""

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


def make_config(data, out, **options):
    small = {"components": 4, "latent": 2, "hidden": 32, "epochs": 7, "warm_up": 4, "lr": 3e-3, "batch_size": 50}
    return CompletionConfig(data=data, out=str(out), **{**small, "mask": "half", **options})


def complete_toy(config):
    """Return the nearest bottom of each of many completions, its distance, the component, and the mixture."""
    model = load_run(config.out, "latest", kind=CompletionModel).model
    x = torch.from_numpy(np.concatenate([TOP, 0 * TOP])).float()[None, None]
    completions = model.complete(
        x, draw_masks("half", 1, (8, 8)), count=4000, generator=torch.Generator().manual_seed(0)
    )
    low = completions.images[:, 0, 0, 4:]
    distances = torch.stack([(low - torch.from_numpy(bottom)).abs().mean((1, 2)) for bottom in BOTTOMS], 1)
    mixture = model.encode_visible(x, draw_masks("half", 1, (8, 8))).mixture
    return distances.argmin(1), distances.amin(1), completions.component[:, 0], mixture


@pytest.mark.parametrize("options", [
    {"choice": "mixture"},
    {"choice": "responsibility"},
    {"choice": "encoder", "estimator": "direct"},
    {"choice": "distance", "loss": "corrected"},
    pytest.param({"choice": "distance"}, marks=pytest.mark.slow),
    pytest.param({"choice": "encoder", "estimator": "gumbel-softmax", "tau": 0.5}, marks=pytest.mark.slow),
], ids=lambda options: "-".join(map(str, options.values())))  # fmt: skip
def test_both_modes_with_their_odds(options, toy, tmp_path):
    config = make_config(toy, tmp_path / "run", **options)
    rows = []
    assert train(config, Observer(on_epoch=rows.append))
    which, distance, component, mixture = complete_toy(config)
    assert distance.median() < 0.05
    assert (distance < 0.2).float().mean() > 0.98  # nothing in between
    assert which.float().mean() == pytest.approx(ODDS, abs=0.05)
    # Each component in use completes one of the two, and the weights of those of the second are its odds.
    weights, second = mixture.log_weights.detach().exp()[0].tolist(), 0.0
    for j in range(4):
        if weights[j] > 0.02:
            share = which[component == j].float().mean()
            assert min(share, 1 - share) < 0.05
            second += weights[j] * round(float(share))
    assert second == pytest.approx(ODDS, abs=0.05)
    if "loss" not in options:
        assert rows[-1][2]["nll"] == pytest.approx(ENTROPY, abs=0.15)  # only the odds are unknown


def test_the_published_loss_diverges(toy, tmp_path):
    config = make_config(toy, tmp_path / "run", choice="distance", loss="published")
    messages, rows = [], []
    train(config, Observer(on_message=messages.append, on_epoch=rows.append))
    assert any("expect this to diverge" in line for line in messages)
    losses = [row[0]["loss"] for row in rows]
    last = losses[-1]
    assert last is None or not math.isfinite(last) or last < -1e3  # it falls without end
    bound = rows[-1][2]["elbo"]
    assert math.isnan(bound) or -bound > 50 * ENTROPY
    if math.isfinite(bound):
        which, distance, _, _ = complete_toy(config)
        shares = [float(((which == i) & (distance < 0.2)).float().mean()) for i in (0, 1)]
        assert min(shares) < 0.1  # at most one bottom is completed well


def test_without_a_latent_completions_are_the_mean(toy, tmp_path):
    config = make_config(toy, tmp_path / "run", components=0, latent=0)
    rows = []
    assert train(config, Observer(on_epoch=rows.append))
    model = load_run(config.out, kind=CompletionModel).model
    metrics = evaluate(model, prepare_masked_split(config, CompletionTask.load_data(config), "test"))
    assert metrics["kl"] == 0
    mean = torch.from_numpy((1 - ODDS) * BOTTOMS[0] + ODDS * BOTTOMS[1])
    x = torch.from_numpy(np.concatenate([TOP, 0 * TOP])).float()[None, None]
    completion = model.complete(x, draw_masks("half", 1, (8, 8)), count=1).images[0, 0, 0, 4:]
    assert (completion - mean).abs().max() < 0.1
    different_pixels = int((BOTTOMS[0] != BOTTOMS[1]).sum())
    assert metrics["nll"] == pytest.approx(different_pixels * ENTROPY, rel=0.1)


def test_a_run_that_is_stopped_and_resumed_is_the_same(toy, tmp_path):
    options = {"epochs": 2, "warm_up": 1, "mask": "any", "choice": "encoder", "adversarial": 0.5}
    config = replace(make_config(toy, tmp_path / "whole"), **options)
    train(config)
    calls = 0

    def stop():
        nonlocal calls
        calls += 1
        return calls == 20

    resumed = replace(config, out=str(tmp_path / "resumed"))
    assert not train(resumed, Observer(should_stop=stop))
    assert train(replace(resumed, resume=True))
    expected, rows = (read_rows(tmp_path / name / "metrics.jsonl") for name in ("whole", "resumed"))
    assert rows == expected
    assert rows[0]["critic_loss"] is not None


@pytest.mark.parametrize("options", [
    {"augment": "flip"}, {"choice": "encoder", "estimator": "direct"}, {"loss": "corrected", "choice": "distance"},
])  # fmt: skip
def test_two_processes_add_up_to_one(options, toy, tmp_path):
    config = make_config(toy, tmp_path / "run", mask="any", warm_up=0, **options)
    images = CompletionTask.load_data(config)
    index = torch.arange(7)

    def gradients(*groups):
        total = []
        for group in groups:
            task = CompletionTask.build(config, images, 0, group)
            for generator in task.generators.values():
                generator.manual_seed(1)
            task.add_gradients(index, 1, 0)
            total.append([p.grad if p.grad is not None else torch.zeros_like(p) for p in task.model.parameters()])
        return [sum(parts) for parts in zip(*total, strict=True)]

    expected, shared = gradients(Group()), gradients(Group(0, 2, 2), Group(1, 2, 2))
    for gradient, sum_of_parts in zip(expected, shared, strict=True):
        torch.testing.assert_close(sum_of_parts, gradient, rtol=1e-4, atol=1e-5)


def test_the_critic_and_the_decoder_get_gradients(toy, tmp_path):
    config = make_config(toy, tmp_path / "run", adversarial=1.0)
    task = CompletionTask.build(config, CompletionTask.load_data(config))
    assert len(task.extra_parameters) > 0
    without = CompletionTask.build(replace(config, adversarial=0.0), CompletionTask.load_data(config))
    for each in (task, without):
        for generator in each.generators.values():
            generator.manual_seed(1)
        each.add_gradients(torch.arange(50), 0, 0)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in task.extra_parameters[:2])
    first, second = (next(each.model.decoder.parameters()).grad for each in (task, without))
    assert not torch.equal(first, second)
