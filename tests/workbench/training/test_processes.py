"""Groups of processes, without starting any: slices of a batch add up to the entire batch, or raise an error."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.task import DiscreteTask, evaluate
from hardmax.applications.runs import train
from hardmax.data import load_images
from hardmax.errors import ArgumentError
from hardmax.experiments.rows import identify_run
from hardmax.spaces.registry import make_space
from hardmax.training.config import EstimatorName
from hardmax.training.estimators import choose_estimator
from hardmax.training.processes import Group, Message
from hardmax.training.state import State

NAMES = get_args(EstimatorName)
COUPLED = {"adaptive-direct", "adaptive-implicit-mle", "reinforce"}
AT_LEAST_TWO = {"unordered-set", "double-control-variates", "rodeo"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "images.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (60, 6, 6), dtype=np.uint8))
    return str(path)


def config_of(images, name, **options):
    return DiscreteConfig(
        data=images,
        estimator=name,
        space="categorical" if name in ("arsm", "auto", "shortlist-direct") else "binary",
        categories=3,
        variables=4,
        samples=2 if name in AT_LEAST_TWO else None,
        hidden=8,
        **options,
    )


def in_parts(config, size, count=7):
    """Return the gradients and sums of a step with `count` images, added up over `size` processes."""
    gradients, sums = [], []
    for rank in range(size):
        task = DiscreteTask.build(config, load_images(config.data), 0, Group(rank, size))
        for parameter in task.model.parameters():  # so that z matters, as it does later in training
            parameter.data.mul_(3)
        index = State(task).begin_epoch()[0][:count]
        sums.append(task.add_gradients(index, 0, 0))
        parameters = [*task.model.parameters(), *task.extra_parameters]
        gradients.append(
            torch.cat([torch.zeros_like(p).view(-1) if p.grad is None else p.grad.view(-1) for p in parameters])
        )
    return torch.stack(gradients).sum(0), torch.stack(sums).sum(0)


def couples_examples(config):
    return choose_estimator(config, make_space(config), 0, 0).couples_examples


def same(config, size, count=7):
    return all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(in_parts(config, 1, count), in_parts(config, size, count), strict=True)
    )


@pytest.mark.parametrize("name", sorted(set(NAMES) - COUPLED))
def test_parts_add_up_to_the_whole(name, images):
    config = config_of(images, name, binarize="stochastic", prior="learned")
    assert not couples_examples(config)
    assert same(config, 2)
    assert same(config, 3)


@pytest.mark.parametrize("options", [
    {"space": "pairwise", "variables": 5},
    {"space": "pairwise", "variables": 25},
    {"space": "chain", "variables": 3, "categories": 3},
    {"categories": 3, "likelihood": "gaussian", "binarize": "none"},
    {"categories": 3, "architecture": "conv"},
    {"categories": 3, "epochs": 2, "direct_epochs": 0},
    {"estimator": "reinforce", "baseline": "leave-one-out", "samples": 3},
    {"estimator": "reinforce", "baseline": "none"},
], ids=str)  # fmt: skip
def test_parts_of_other_models_add_up_too(options, images):
    assert same(DiscreteConfig(data=images, hidden=8, **options), 2)


@pytest.mark.parametrize("name", sorted(COUPLED))
def test_what_is_refused_does_not_add_up(name, images):
    config = config_of(images, name)
    assert couples_examples(config)
    assert not same(config, 2)
    with pytest.raises(ArgumentError, match="depends on other images in it"):
        Group(0, 2).check_config(config, couples_examples=True)


def test_fewer_images_than_processes(images):
    for name in ("direct", "rebar", "local-expectation"):
        assert same(config_of(images, name), 3, count=2)


@pytest.mark.parametrize("mistake", ["_draw_noise", "_load_batch", "own_slice"])
def test_a_mistake_is_detected(mistake, images, monkeypatch):
    """Noise or pixels drawn only for the slice, and slices that overlap, do not add up to the entire batch."""
    config = config_of(images, "direct", binarize="stochastic")
    original = getattr(DiscreteTask, mistake, None)
    if mistake == "_draw_noise":
        monkeypatch.setattr(DiscreteTask, "_draw_noise", lambda self, estimator, count, part: original(
            self, estimator, part.stop - part.start, slice(None)
        ))  # fmt: skip
    elif mistake == "_load_batch":
        monkeypatch.setattr(DiscreteTask, "_load_batch", lambda self, index, part: original(
            self, index[part], slice(None)
        ))  # fmt: skip
    else:
        monkeypatch.setattr(Group, "own_slice", lambda self, count: slice(0, count))
    assert not same(config, 2)


def test_parts_are_a_partition():
    for count in range(12):
        for size in range(1, 6):
            parts = [range(count)[Group(rank, size).own_slice(count)] for rank in range(size)]
            assert [i for part in parts for i in part] == list(range(count))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_message_holds_the_gradients_and_the_sums(monkeypatch):
    """Two processes with the same gradients: added up they are doubled, in place and step after step."""
    monkeypatch.setattr(Group, "all_reduce", lambda self, tensor: tensor.mul_(self.size))
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    message = Message(Group(0, 2), list(model.parameters()), sums=2)
    x = torch.randn(5, 3)
    for stop in (False, True, False):
        single = torch.autograd.grad(model(x).sum(), list(model.parameters()))
        message.clear(optimizer)
        model(x).sum().backward()
        sums, stopped = message.exchange(torch.tensor([1.5, 2.0]), stop)
        assert all(torch.equal(p.grad, 2 * g) for p, g in zip(model.parameters(), single, strict=True))
        assert sums.tolist() == [3.0, 4.0]
        assert stopped is stop
        optimizer.step()


def test_evaluation_in_parts(monkeypatch):
    model = hm.DiscreteVAE.build(hm.Categorical(5), (1, 6, 6), hidden=8)
    many = hm.DiscreteVAE.build(hm.Binary(30), (1, 6, 6), hidden=8)
    images = torch.rand(11, 1, 6, 6).round()
    for candidate in (model, many):
        expected, tensors = evaluate(candidate, images, samples=10), []
        monkeypatch.setattr(Group, "all_reduce", lambda self, tensor: tensors.append(tensor))  # noqa: B023
        for rank in range(3):
            evaluate(candidate, images, samples=10, group=Group(rank, 3))
        monkeypatch.undo()
        assert (sum(tensors[::2]) / 11)[0].item() == pytest.approx(expected["elbo"], rel=1e-6)


@pytest.mark.parametrize(
    ("options", "group", "message"),
    [
        ({"devices": 2}, Group(), "devices is 2, but the number of processes is 1"),
        ({"devices": 3}, Group(0, 2, 2), "devices is 3, but the number of processes is 2"),
        ({"batch_size": 1}, Group(0, 2, 2), "batch-size must be at least 2"),
        ({"device": "cuda:1"}, Group(0, 2, 2), "not on 'cuda:1'"),
        ({"device": "mps"}, Group(0, 2, 2), "not on 'mps'"),
        ({"device": "cuda"}, Group(0, 99, 99), "need a GPU each"),
    ],
    ids=str,
)
def test_refusals(options, group, message):
    with pytest.raises(ArgumentError, match=message):
        group.check_config(DiscreteConfig(**options), couples_examples=False)


def test_from_python_it_is_one_process(tmp_path):
    with pytest.raises(ArgumentError, match="run hardmax train --devices 2"):
        train(DiscreteConfig(devices=2, out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_the_number_of_processes_does_not_identify_a_run():
    config = DiscreteConfig()
    assert identify_run(replace(config, devices=2)) == identify_run(config)
    with pytest.raises(ArgumentError, match="devices must be at least 1, got 0"):
        DiscreteConfig(devices=0)
