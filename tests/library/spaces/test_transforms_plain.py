"""Structured spaces under torch.compile(fullgraph=True) and torch.func: the values and gradients of eager mode."""

import pytest
import torch
from cases import Toy, gradients

import hardmax as hm

pytestmark = pytest.mark.plain  # without shape checks

SPACES = [hm.Subset(4, 2), hm.Permutation(3), hm.Chain(3, 2), hm.SpanningTree(4), hm.GridPath(2, 2, on="nodes")]
METHODS = ["argmax", "log_partition", "entropy", "kl", "marginals", "relax", "draw", "log_prob"]
ESTIMATORS = [hm.Exact(), hm.Direct(0.5), hm.Reinforce("leave-one-out"), hm.GumbelSoftmax(0.5, hard=True)]
BATCH = 4


def problem(space):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(BATCH, *space.score_shape, generator=generator, dtype=torch.float64)
    return scores, space.noise((3, BATCH), generator, dtype=torch.float64)


def call(space, method):
    """Return a function of scores and noise, `[B, ...] -> [B, ...]` or `[S, B, ...]`."""
    if method == "draw":
        return space.draw
    if method == "log_prob":
        return lambda scores, noise: space.log_prob(scores, space.draw(scores, noise))
    if method == "relax":
        return lambda scores, noise: space.relax(scores, 0.3)
    return lambda scores, noise: getattr(space, method)(scores)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_sums_compile(space):
    """The other methods are compiled with the estimators that use them, below."""
    scores, noise = problem(space)
    methods = ("log_partition", "entropy", "marginals")

    def everything(scores, noise):
        return {method: call(space, method)(scores, noise) for method in methods}

    torch._dynamo.reset()
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    expected = everything(leaf, noise)
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")(other, noise)
    for method in methods:
        torch.testing.assert_close(compiled[method], expected[method])
        of_compiled, of_expected = (
            torch.autograd.grad(values[method].pow(3).sum(), scores, retain_graph=True)
            for values, scores in ((compiled, other), (expected, leaf))
        )
        torch.testing.assert_close(of_compiled, of_expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_methods_under_vmap_and_grad(space, method):
    scores, noise = problem(space)
    function = call(space, method)
    out_dim = 1 if method in ("draw", "log_prob") else 0
    by_example = torch.func.vmap(function, in_dims=(0, 1), out_dims=out_dim)(scores, noise)
    torch.testing.assert_close(by_example, function(scores, noise))
    if method in ("argmax", "draw"):
        return

    def total(scores, noise):
        return function(scores, noise).pow(3).sum()

    gradient = torch.func.vmap(torch.func.grad(total), in_dims=(0, 1))(scores, noise)
    leaf = scores.clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(total(leaf, noise), leaf)[0])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_estimators_compile_and_vmap(space, estimator):
    if isinstance(estimator, hm.Direct) and not space.offers("change"):
        return
    scores, noise = problem(space)
    f = Toy(space)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value

    expected = gradients(f, scores, space, estimator, noise=noise)[1]
    torch._dynamo.reset()
    leaf = scores.clone().requires_grad_()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(leaf, noise).sum(), leaf)[0], expected)
    by_example = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    torch.testing.assert_close(by_example, expected)


@pytest.mark.parametrize("space", [hm.Subset(4, 2), hm.Permutation(3), hm.Chain(3, 2)], ids=str)
def test_changes_compile_and_vmap(space):
    scores, _ = problem(space)
    z = space.argmax(scores)
    gains = torch.linspace(-1, 1, space.changes * BATCH, dtype=torch.float64).view(-1, BATCH)

    def both(z, gains):
        return space.neighbours(z), space.parts(z, gains)

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(both, fullgraph=True, backend="aot_eager")(z, gains), both(z, gains))
    by_example = torch.func.vmap(both, in_dims=(0, 1), out_dims=(1, 0))(z, gains)
    torch.testing.assert_close(by_example, both(z, gains))


def test_shape_errors_without_the_hook():
    for space in SPACES:
        wrong = torch.zeros(*space.score_shape[:-1], space.score_shape[-1] + 1)
        for method in ("argmax", "log_partition", "entropy", "kl", "marginals"):
            with pytest.raises(hm.ShapeError, match="needs"):
                getattr(space, method)(wrong)
        with pytest.raises(hm.ShapeError, match="needs"):
            space.relax(wrong, 1.0)
        with pytest.raises(hm.ShapeError, match="needs"):
            space.draw(wrong, wrong)
