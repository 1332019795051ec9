"""SolverLayer: in a network, trained, copied, saved."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import hardmax as hm
from hardmax.random import make_generator


def choose_three(costs):
    z = np.zeros(8)
    z[np.argsort(costs)[:3]] = 1
    return z


def test_a_network_learns_the_scores_of_a_solver():
    """The decision depends on x through an unknown matrix; only the resulting decisions are observed."""
    torch.manual_seed(0)
    space = hm.SolverSpace(choose_three, (8,), sense="min")
    truth, x = torch.randn(5, 8), torch.randn(100, 5)
    target = space.argmax(-x @ truth)
    layer = hm.nn.SolverLayer(space, hm.ImplicitMLE(10.0), samples=4, generator=make_generator(0))
    model = nn.Sequential(nn.Linear(5, 8), layer)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    first = (model.eval()(x) - target).abs().sum(-1).mean()
    model.train()
    for _ in range(40):
        optimizer.zero_grad()
        (model(x) - target).square().sum(-1).mean().backward()
        optimizer.step()
    last = (model.eval()(x) - target).abs().sum(-1).mean()
    assert first > 1.5
    assert last < first / 3


def test_training_and_evaluation():
    layer = hm.nn.SolverLayer(hm.Subset(8, 3), hm.PerturbedOptimizer(0.5), samples=50)
    scores = torch.randn(4, 8, requires_grad=True)
    mean = layer(scores)
    assert mean.shape == (4, 8)
    assert mean.requires_grad
    assert torch.allclose(mean.sum(-1), torch.full((4,), 3.0))
    z = layer.eval()(scores)
    assert torch.equal(z, hm.Subset(8, 3).argmax(scores))
    assert not z.requires_grad


def test_copies_and_state():
    space = hm.SolverSpace(choose_three, (8,), sense="min", workers=2)
    model = nn.Sequential(nn.Linear(5, 8), hm.nn.SolverLayer(space, hm.Blackbox(), generator=make_generator(0)))
    x = torch.randn(3, 5)
    model(x)
    twin = copy.deepcopy(model)
    assert torch.equal(model.eval()(x), twin.eval()(x))
    assert set(model.state_dict()) == {"0.weight", "0.bias"}
    twin.load_state_dict(model.state_dict())
    assert "SolverSpace(choose_three" in repr(model)
    assert "Blackbox" in repr(model)


def test_errors():
    with pytest.raises(hm.ArgumentError, match="samples must be at least 1"):
        hm.nn.SolverLayer(hm.Subset(4, 2), samples=0)
    with pytest.raises(hm.NotExactError, match="relax"):
        hm.nn.SolverLayer(hm.SolverSpace(choose_three, (8,), sense="min"), hm.GumbelSoftmax())
