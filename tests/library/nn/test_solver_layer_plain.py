"""SolverLayer under torch.compile and vmap; bad arguments."""

import numpy as np
import pytest
import torch
from torch import nn

import hardmax as hm

pytestmark = [
    pytest.mark.plain,
    # torch.compile itself instantiates custom autograd functions.
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated"),
]


def choose_three(costs):
    z = np.zeros(8)
    z[np.argsort(costs)[:3]] = 1
    return z


SPACE = hm.SolverSpace(choose_three, (8,), sense="min")


@pytest.mark.parametrize("estimator", [hm.Blackbox(2.0), hm.IdentityBackward(), hm.ImplicitMLE()], ids=str)
def test_compiled_gives_the_same(estimator):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), hm.nn.SolverLayer(SPACE, estimator))
    x, weight = torch.randn(4, 5), torch.randn(8)
    results = []
    for run in (model, torch.compile(model, fullgraph=True, backend="aot_eager")):
        model.zero_grad()
        torch.manual_seed(1)
        z = run(x)
        (z @ weight).sum().backward()
        results.append((z.detach(), model[0].weight.grad.clone()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1])
    assert results[0][1].abs().sum() > 0
    compiled = torch.compile(model.eval(), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), model(x))


def test_vmap():
    scores = torch.randn(3, 4, 8)
    assert torch.equal(torch.func.vmap(SPACE.argmax)(scores), SPACE.argmax(scores))


def test_the_losses_compile():
    scores, costs = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)

    def loss(scores, costs):
        return hm.spo_plus_loss(scores, costs, SPACE).sum()

    eager = torch.autograd.grad(loss(scores, costs), scores)[0]
    compiled = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(scores, costs), scores)[0]
    assert torch.allclose(eager, compiled)


def test_bad_arguments():
    with pytest.raises(hm.ArgumentError, match="gives no z with a gradient"):
        hm.nn.SolverLayer(hm.Subset(4, 2), hm.Direct())
    for options, message in (
        ({"sense": "minimum"}, "sense must be one of 'max', 'min', got 'minimum'"),
        ({"backend": "gpu"}, "backend must be"),
        ({"arrays": "jax"}, "arrays must be"),
    ):
        with pytest.raises(hm.ArgumentError, match=message):
            hm.SolverSpace(choose_three, (8,), **options)
    with pytest.raises(hm.ArgumentError, match="solve must be a function"):
        hm.SolverSpace(np.zeros(3), (8,))
    with pytest.raises(hm.ArgumentError, match="score_shape must be positive"):
        hm.SolverSpace(choose_three, (0,))
    with pytest.raises(hm.ArgumentError, match="kind must be 'gumbel'"):
        hm.Perturbation("uniform")
    with pytest.raises(hm.ArgumentError, match="loss must be 'hamming'"):
        hm.direct_loss(torch.zeros(8), torch.zeros(8), SPACE, loss="regret")
