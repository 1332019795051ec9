"""torch.compile(fullgraph=True) and torch.func give the gradients of eager mode, for every estimator."""

import pytest
import torch
from cases import (
    COUPLES_EXAMPLES,
    SAMPLE_STYLE,
    Network,
    Rows,
    Table,
    Toy,
    gradients,
    has_parameters,
    noise_for,
    pairs,
)

import hardmax as hm

# To trace an autograd function torch.compile creates an instance of it, against torch's own advice.
pytestmark = [
    pytest.mark.plain,
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated"),
]

STRUCTURED = [
    (hm.PairwiseBinary(3), hm.Direct(0.5)),
    (hm.PairwiseBinary(3), hm.Direct(0.5, full=True)),
    (hm.PairwiseBinary(3), hm.GibbsCovariance()),
    (hm.PairwiseBinary(3), hm.ConditionalGradient(roulette=True)),
    (hm.PairwiseBinary(3), hm.ConditionalGradient("gibbs")),
    (hm.PairwiseBinary(3), hm.GumbelSoftmax(0.5)),
    (hm.PairwiseBinary(3), hm.AdaptiveDirect()),
    (hm.PairwiseBinary(3), hm.ImplicitMLE()),
    (hm.Chain(3, 2), hm.AdaptiveImplicitMLE()),
    (hm.Permutation(3), hm.PerturbedOptimizer()),
    (hm.Subset(4, 2), hm.IdentityBackward("both")),
    (hm.Binary(3), hm.ConditionalGradient()),
]
SPACES = [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)]
PAIRS = [pair for pair in pairs(SPACES) if not has_parameters(pair[1])]
# All kinds of calls of f: a table, single changes, draws, z between the corners. The other estimators take a second
# each, so they are compiled without chunks, and only for several variables.
IN_CHUNKS = [
    hm.Exact(),
    hm.Direct(0.5),
    hm.Direct(0.5, two_sided=True),
    hm.Reinforce("none"),
    hm.Reinforce("mean"),
    hm.Reinforce("leave-one-out"),
    hm.LocalExpectation(),
    hm.LocalExpectation(roulette=True),
    hm.GumbelSoftmax(0.5),
    hm.GumbelSoftmax(0.5, hard=True),
    hm.StraightThrough(),
]
COMPILED = [(*pair, chunk_size) for pair in pairs(SPACES, IN_CHUNKS) for chunk_size in (None, 2)] + [
    (*pair, None) for pair in PAIRS if pair[0].categories is None and pair[1] not in IN_CHUNKS
]
BATCH = 5


def problem(space, estimator, kind=Rows):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(BATCH, *space.score_shape, generator=generator, dtype=torch.float64)
    return kind(space), scores, noise_for(space, estimator, (BATCH,), generator)


@pytest.mark.parametrize(("space", "estimator", "chunk_size"), COMPILED, ids=str)
def test_compiled(space, estimator, chunk_size):
    f, scores, noise = problem(space, estimator)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size).value

    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    out, for_scores, for_weight = gradients(f, scores, space, estimator, noise=noise, chunk_size=chunk_size)
    leaf = scores.clone().requires_grad_()
    compiled_value = compiled(leaf, noise)
    torch.testing.assert_close(compiled_value, out.value)
    compiled_gradients = torch.autograd.grad(compiled_value.sum(), [leaf, f.weight])
    torch.testing.assert_close(compiled_gradients, (for_scores, for_weight))


@pytest.mark.parametrize(("space", "estimator"), STRUCTURED, ids=str)
def test_structured_compiles_and_vmaps(space, estimator):
    test_compiled(space, estimator, None)
    if estimator in COUPLES_EXAMPLES:
        test_vmap_over_replicates(space, estimator)
    else:
        test_vmap_of_grad(space, estimator, None)


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(0.5), hm.LocalExpectation()], ids=str)
def test_compiled_with_a_table(estimator):
    space = hm.Categorical(4)
    f, scores, noise = problem(space, estimator, Table)
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


@pytest.mark.parametrize(("space", "estimator"), [pair for pair in PAIRS if pair[1] not in COUPLES_EXAMPLES], ids=str)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_vmap_of_grad(space, estimator, chunk_size):
    """vmap over examples; estimators that couple examples are tested with vmap over replicates below."""
    f, scores, noise = problem(space, estimator)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size).value

    by_example = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    torch.testing.assert_close(by_example, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize("estimator", COUPLES_EXAMPLES, ids=str)
def test_under_vmap_an_example_is_a_call_of_its_own(estimator):
    """An estimator that couples the examples of a call gives each the gradient of a separate call."""
    space = hm.Binary(3)
    f, scores, noise = problem(space, estimator)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value

    by_example = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    separate = [gradients(f, scores[i], space, estimator, noise=noise[:, i])[1] for i in range(BATCH)]
    torch.testing.assert_close(by_example, torch.stack(separate))
    assert not torch.allclose(by_example, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize(("space", "estimator"), PAIRS, ids=str)
def test_vmap_over_replicates(space, estimator):
    f, scores, noise = problem(space, estimator)
    noises = torch.stack([noise, noise.flip(0) + 0.1])

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value.sum()

    rows = torch.func.vmap(torch.func.grad(value), in_dims=(None, 0))(scores, noises)
    for row, noise in zip(rows, noises, strict=True):
        torch.testing.assert_close(row, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize("estimator", [hm.Rebar(learned=True), hm.Relax(Network(hm.Binary(3)))], ids=["rebar", "relax"])
def test_what_learns_says_that_it_cannot_here(estimator):
    """Training needs derivatives of second order; without training, or without gradients, it works."""
    space = hm.Binary(3)
    f, scores, noise = problem(space, estimator)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value

    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    message = r"parameters to train.*torch\.compile and torch\.func.*learned=False"
    with pytest.raises(torch._dynamo.exc.Unsupported, match=message):
        compiled(scores, noise)
    with pytest.raises(hm.ArgumentError, match=message):
        torch.func.grad(lambda scores: value(scores, noise).sum())(scores)
    with torch.no_grad():
        torch.testing.assert_close(compiled(scores, noise), value(scores, noise))


@pytest.mark.parametrize(
    "estimator", {type(estimator): estimator for estimator in reversed(SAMPLE_STYLE)}.values(), ids=str
)
def test_sample_compiles_and_vmaps(estimator):
    """One setting of each sample-style estimator."""
    space = hm.Binary(3)
    _, scores, noise = problem(space, estimator)
    torch._dynamo.reset()

    def total(scores, noise):
        return hm.sample(scores, space, estimator, noise=noise).pow(3).sum()

    expected = torch.func.grad(total)(scores, noise)
    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    leaf = scores.clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(compiled(leaf, noise), leaf)[0], expected)
    if estimator not in COUPLES_EXAMPLES:
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
