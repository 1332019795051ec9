"""torch.compile(fullgraph=True) and torch.func give the gradients of eager mode, for every estimator."""

import pytest
import torch
from cases import ESTIMATORS, Rows, Table, Toy, gradients

import hardmax as hm

STRUCTURED = [
    (hm.PairwiseBinary(3), hm.Direct(0.5)),
    (hm.PairwiseBinary(3), hm.Direct(0.5, full=True)),
    (hm.PairwiseBinary(3), hm.GibbsCovariance()),
    (hm.PairwiseBinary(3), hm.ConditionalGradient(roulette=True)),
    (hm.PairwiseBinary(3), hm.ConditionalGradient("gibbs")),
    (hm.PairwiseBinary(3), hm.GumbelSoftmax(0.5)),
    (hm.Binary(3), hm.ConditionalGradient()),
]
SPACES = [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)]
BATCH = 5


def problem(space, kind=Rows):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(BATCH, *space.score_shape, generator=generator, dtype=torch.float64)
    noise = space.noise((3, BATCH), generator=generator, dtype=torch.float64)
    return kind(space), scores, noise


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_compiled(space, estimator, chunk_size):
    f, scores, noise = problem(space)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size).value

    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    out, for_scores, for_weight = gradients(f, scores, space, estimator, noise=noise, chunk_size=chunk_size)
    leaf = scores.clone().requires_grad_()
    found = compiled(leaf, noise)
    torch.testing.assert_close(found, out.value)
    compiled_gradients = torch.autograd.grad(found.sum(), [leaf, f.weight])
    torch.testing.assert_close(compiled_gradients, (for_scores, for_weight))


@pytest.mark.parametrize(("space", "estimator"), STRUCTURED, ids=str)
def test_structured_compiles_and_vmaps(space, estimator):
    test_compiled(space, estimator, None)
    test_vmap_of_grad(space, estimator, None)


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(0.5), hm.LocalExpectation()], ids=str)
def test_compiled_with_a_table(estimator):
    space = hm.Categorical(4)
    f, scores, noise = problem(space, Table)
    torch._dynamo.reset()
    leaf = scores.clone().requires_grad_()
    compiled = torch.compile(
        lambda scores: hm.expectation(f, scores, space, estimator, noise=noise).value,
        fullgraph=True,
        backend="aot_eager",
    )
    f.shift = f.shift.expand(BATCH, 4)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(leaf).sum(), leaf)[0], gradients(f, scores, space, estimator, noise=noise)[1]
    )


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_vmap_of_grad(space, estimator, chunk_size):
    """Over examples; REINFORCE with the mean of all draws couples examples, and is vmapped over replicates below."""
    if estimator == hm.Reinforce("mean"):
        estimator = hm.Reinforce("none")
    f, scores, noise = problem(space)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size).value

    found = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    torch.testing.assert_close(found, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_vmap_over_replicates(space, estimator):
    f, scores, noise = problem(space)
    noises = torch.stack([noise, noise.flip(0) + 0.1])

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value.sum()

    found = torch.func.vmap(torch.func.grad(value), in_dims=(None, 0))(scores, noises)
    for row, noise in zip(found, noises, strict=True):
        torch.testing.assert_close(row, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize("estimator", [hm.GumbelSoftmax(0.5), hm.StraightThrough()], ids=str)
def test_sample_compiles_and_vmaps(estimator):
    space = hm.Binary(3)
    _, scores, noise = problem(space)
    torch._dynamo.reset()

    def total(scores, noise):
        return hm.sample(scores, space, estimator, noise=noise).pow(3).sum()

    expected = torch.func.grad(total)(scores, noise)
    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    leaf = scores.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(compiled(leaf, noise), leaf)[0], expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(total), in_dims=(0, 1))(scores, noise), expected)


def test_values_are_not_looked_at_while_compiling_or_under_vmap():
    """NaN scores raise in eager mode; where values cannot be read they pass through."""
    space, scores = hm.Categorical(3), torch.full((2, 3), float("nan"))
    f = Toy(space, dtype=torch.float32)
    noise = space.noise((1, 2))

    def value(scores, noise):
        return hm.expectation(f, scores, space, hm.Reinforce(), noise=noise).value

    with pytest.raises(hm.ArgumentError, match="finite"):
        value(scores, noise)
    torch._dynamo.reset()
    assert torch.compile(value, fullgraph=True, backend="aot_eager")(scores, noise).shape == (2,)
    assert torch.func.vmap(value, in_dims=(0, 1))(scores, noise).shape == (2,)
