"""hm.expectation and hm.sample: shapes, dtypes, randomness, and gradients of scores and f."""

import pytest
import torch
from cases import (
    EDGE_SPACES,
    SAMPLE_STYLE,
    SMALL_SPACES,
    Rows,
    Table,
    Toy,
    gradients,
    has_parameters,
    noise_for,
    pairs,
)

import hardmax as hm
from hardmax.estimators.unordered_set import compute_set_weights

BATCHES = [(), (4,), (2, 3), (0,), (3, 0)]
SMALL = pairs(SMALL_SPACES)
TWO = pairs([hm.Categorical(3, 2), hm.Binary(3)])


def problem(space, estimator, batch=(4,), dtype=torch.float64, kind=Rows):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64).to(dtype)
    return kind(space, batch, dtype), scores, noise_for(space, estimator, batch, generator, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize(("space", "estimator"), SMALL + pairs(EDGE_SPACES), ids=str)
def test_shapes_and_dtypes(space, estimator, batch, dtype):
    f, scores, noise = problem(space, estimator, batch, dtype)
    out, for_scores, for_weight = gradients(f, scores, space, estimator, noise=noise)
    samples = len(noise) // estimator.noises * (2 if isinstance(estimator, hm.Antithetic) else 1)  # a sample is a pair
    assert out.value.shape == batch
    assert out.z.shape == (samples, *batch, *space.event_shape)
    assert out.value.dtype == out.z.dtype == for_scores.dtype == dtype
    assert not out.z.requires_grad
    assert for_scores.shape == scores.shape
    assert for_scores.isfinite().all()
    assert for_weight.isfinite().all()
    assert ((out.z == 0) | (out.z == 1)).all()
    if has_parameters(estimator):
        assert out.auxiliary.shape == ()
        assert out.auxiliary.isfinite()
    else:
        assert out.auxiliary is None


@pytest.mark.parametrize(("space", "estimator"), pairs(EDGE_SPACES), ids=str)
def test_one_value_has_no_gradient(space, estimator):
    f, scores, noise = problem(space, estimator)
    out, for_scores, _ = gradients(f, scores, space, estimator, noise=noise)
    only = torch.ones(1, 4, *space.event_shape, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros_like(scores)
    if estimator == hm.IdentityBackward():  # it uses the slope of f, whether z can change or not
        expected = torch.autograd.grad(f(only).sum(), only)[0][0]
    torch.testing.assert_close(for_scores, expected)
    torch.testing.assert_close(out.value, f(only)[0])


class OneDtype(Rows):
    """Like a decoder in half precision, it accepts only z of its own dtype."""

    def _at(self, z, shift):
        assert z.dtype == shift.dtype
        return super()._at(z, shift)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_half_precision_scores(space, estimator, dtype):
    f, scores, noise = problem(space, estimator, dtype=dtype, kind=OneDtype)
    out, for_scores, _ = gradients(f, scores, space, estimator, noise=noise)
    assert noise.dtype == torch.float32
    assert out.value.dtype == out.z.dtype == for_scores.dtype == dtype
    assert for_scores.isfinite().all()


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_non_contiguous_tensors(space, estimator):
    f, scores, noise = problem(space, estimator)
    strided = torch.stack([scores, -scores], -1)[..., 0]
    noise_strided = torch.stack([noise, noise], -1)[..., 0]
    assert not strided.is_contiguous()
    assert not noise_strided.is_contiguous()
    torch.testing.assert_close(
        gradients(f, strided, space, estimator, noise=noise_strided)[1:],
        gradients(f, scores, space, estimator, noise=noise)[1:],
    )


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_batches_are_only_batches(space, estimator):
    """[2, 3] examples are the same as [6]."""
    f, scores, noise = problem(space, estimator, (2, 3))
    flat = Rows(space, (2, 3))
    flat.shift, flat.weight = f.shift.flatten(0, 1), f.weight
    nested = gradients(f, scores, space, estimator, noise=noise)
    level = gradients(flat, scores.flatten(0, 1), space, estimator, noise=noise.flatten(1, 2))
    torch.testing.assert_close(nested[0].value.flatten(), level[0].value)
    torch.testing.assert_close(nested[1].flatten(0, 1), level[1])
    torch.testing.assert_close(nested[2], level[2])


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_gradient_of_what_f_closes_over_is_the_ordinary_one(space, estimator):
    f, scores, noise = problem(space, estimator)
    out, _, for_weight = gradients(f, scores, space, estimator, noise=noise)
    if estimator == hm.Exact():
        z, weight = space.enumerate(dtype=torch.float64), hm.to_distribution(scores, space)
        z = z[:, None].expand(-1, 4, *space.event_shape)
        expected = (weight.log_prob(z).exp() * f(z)).sum(0)
    elif estimator == hm.GumbelSoftmax(0.5):
        expected = f(space.relax(scores + noise, 0.5)).mean(0)
    elif estimator == hm.UnorderedSet():  # a weighted mean: each z has its own weight
        weight, _ = compute_set_weights(space.log_prob(scores, out.z).exp().mT)
        expected = (weight.mT * f(out.z)).sum(0)
    else:
        expected = f(out.z).mean(0)
    torch.testing.assert_close(out.value, expected)
    torch.testing.assert_close(for_weight, torch.autograd.grad(expected.sum(), f.weight)[0])


@pytest.mark.parametrize(("space", "estimator"), TWO, ids=str)
def test_generators(space, estimator):
    f, scores, _ = problem(space, estimator, (50,))
    before = torch.get_rng_state()

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        return gradients(f, scores, space, estimator, samples=2, generator=generator)

    first, again, other = run(0), run(0), run(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0].z, again[0].z)
    assert torch.equal(first[1], again[1])
    if estimator == hm.Blackbox():  # it ignores the noise
        assert torch.equal(first[0].z, other[0].z)
    else:
        assert not torch.equal(first[0].z, other[0].z)
    if estimator not in (hm.Exact(), hm.Blackbox()):
        assert not torch.equal(first[1], other[1])


@pytest.mark.parametrize(("space", "estimator"), TWO, ids=str)
def test_noise_is_what_the_generator_would_draw(space, estimator):
    f, scores, _ = problem(space, estimator)
    noise = estimator.draw_noise(space, 2, (4,), torch.Generator().manual_seed(5), dtype=torch.float64)
    drawn = gradients(f, scores, space, estimator, samples=2, generator=torch.Generator().manual_seed(5))
    given = gradients(f, scores, space, estimator, noise=noise)
    assert torch.equal(drawn[1], given[1])
    assert torch.equal(drawn[0].value, given[0].value)


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_one_estimate_used_twice(space, estimator):
    f, scores, noise = problem(space, estimator)
    scores = scores.requires_grad_()
    out = hm.expectation(f, scores, space, estimator, noise=noise)
    once = torch.autograd.grad(out.value.sum(), scores, retain_graph=True)[0]
    twice = torch.autograd.grad(out.value.sum() + (2 * out.value).sum(), scores, retain_graph=True)[0]
    # An example with weight zero has no slope in the backward pass; this changes a step that all examples share.
    weight = torch.arange(4.0) + (estimator == hm.AdaptiveImplicitMLE())
    weighted = torch.autograd.grad((out.value * weight).sum(), scores)[0]
    torch.testing.assert_close(twice, 3 * once)
    torch.testing.assert_close(weighted, once * weight.view(-1, *(1 for _ in space.score_shape)))


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
def test_scores_without_a_gradient_leave_f_its_own(space, estimator):
    f, scores, noise = problem(space, estimator)
    expected = gradients(f, scores, space, estimator, noise=noise)
    out = hm.expectation(f, scores.detach(), space, estimator, noise=noise)
    torch.testing.assert_close(out.value, expected[0].value)
    torch.testing.assert_close(torch.autograd.grad(out.value.sum(), f.weight)[0], expected[2])
    f.weight.requires_grad_(False)
    value = hm.expectation(f, scores.detach(), space, estimator, noise=noise).value
    # Its value keeps the graph of the z at which it evaluated the slopes of f.
    assert value.requires_grad == (estimator == hm.DoubleControlVariates())


@pytest.mark.parametrize(("space", "estimator"), TWO, ids=str)
def test_no_grad(space, estimator):
    f, scores, noise = problem(space, estimator)
    with torch.no_grad():
        out = hm.expectation(f, scores.requires_grad_(), space, estimator, noise=noise, chunk_size=2)
    assert not out.value.requires_grad


@pytest.mark.parametrize(("space", "estimator"), pairs([hm.Categorical(4), hm.Categorical(3, 1)]), ids=str)
def test_a_table_changes_nothing_but_the_cost(space, estimator):
    plain, scores, noise = problem(space, estimator, (2, 3), kind=Toy)
    table, _, _ = problem(space, estimator, (2, 3), kind=Table)
    for expected, result in zip(
        gradients(plain, scores, space, estimator, noise=noise),
        gradients(table, scores, space, estimator, noise=noise),
        strict=True,
    ):
        if isinstance(expected, hm.Estimate):
            expected, result = expected.value, result.value
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("space", [hm.Categorical(4, 3), hm.Binary(5)], ids=str)
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)], ids=str)
def test_rows_change_nothing_but_the_cost(space, batch):
    estimator = hm.LocalExpectation(roulette=hm.Roulette(rate=2, floor=0.1))
    plain, scores, noise = problem(space, estimator, batch, kind=Toy)
    rows, _, _ = problem(space, estimator, batch, kind=Rows)
    with pytest.warns(UserWarning, match="rows"):
        dense = gradients(plain, scores, space, estimator, noise=noise)
    sparse = gradients(rows, scores, space, estimator, noise=noise)
    torch.testing.assert_close(sparse[1:], dense[1:], rtol=1e-12, atol=1e-12)
    assert sparse[0].evaluations < dense[0].evaluations or batch == (0,)


@pytest.mark.parametrize(("space", "estimator"), SMALL, ids=str)
@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_chunks_change_nothing_but_the_memory(space, estimator, chunk_size):
    f, scores, noise = problem(space, estimator)
    unchunked = gradients(f, scores, space, estimator, noise=noise)
    parts = gradients(f, scores, space, estimator, noise=noise, chunk_size=chunk_size)
    torch.testing.assert_close(parts[0].value, unchunked[0].value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts[1:], unchunked[1:], rtol=1e-12, atol=1e-12)


def test_auto_reports_an_expensive_choice(caplog):
    caplog.set_level("INFO", logger="hardmax")
    scores = torch.zeros(2, 64)
    out = hm.expectation(lambda z: z.sum(-1), scores, hm.Binary(64))
    assert out.evaluations == 16
    assert "LocalExpectation(roulette=False) would evaluate f 65 times per example" in caplog.text


def test_auto_with_a_likelihood():
    """Local expectation where the decoder shares work between changes of z, otherwise samples."""
    x = torch.rand(3, 9).round()
    linear, last = torch.nn.Linear(40, 9), torch.nn.Sequential(torch.nn.Linear(40, 9), torch.nn.BatchNorm1d(9))
    for decoder, most in ((linear, 41), (last, 16)):
        out = hm.elbo(hm.BernoulliLikelihood(decoder.eval(), x), torch.zeros(3, 40), hm.Binary(40))
        assert out.evaluations <= most
        assert out.z.shape[0] == (1 if most == 41 else 16)


def test_auto():
    """Only the space and the methods of f decide; "auto" gives the same gradient as the chosen estimator."""
    for space, kind, choice in [
        (hm.Categorical(4), Toy, hm.Exact()),
        (hm.Categorical(4), Table, hm.Exact()),
        (hm.Categorical(3, 1), Toy, hm.Exact()),
        (hm.Categorical(3, 2), Toy, hm.LocalExpectation()),
        (hm.Binary(3), Rows, hm.LocalExpectation(roulette=True)),
        (hm.Binary(19), Toy, hm.LocalExpectation()),
        (hm.Binary(20), Toy, hm.GibbsCovariance()),
        (hm.Categorical(11, 2), Rows, hm.GibbsCovariance()),
        (hm.Categorical(20), Toy, hm.Exact()),
        (hm.Categorical(21), Toy, hm.GibbsCovariance()),
        (hm.Categorical(21), Table, hm.Exact()),
    ]:
        f, scores, noise = problem(space, choice, kind=kind)
        by_name = gradients(f, scores, space, choice, noise=noise)
        auto = gradients(f, scores, space, "auto", noise=noise)
        assert torch.equal(auto[1], by_name[1])
        assert auto[0].evaluations == by_name[0].evaluations


@pytest.mark.parametrize(("space", "estimator"), pairs(SMALL_SPACES, SAMPLE_STYLE), ids=str)
def test_sample_carries_the_gradient_of_expectation(space, estimator):
    f, scores, noise = problem(space, estimator)
    _, expected, _ = gradients(f, scores, space, estimator, noise=noise)
    leaf = scores.clone().requires_grad_()
    z = hm.sample(leaf, space, estimator, noise=noise)
    assert z.shape == (3, *scores.shape)
    # The negative sum, a loss: some estimators step against the slope, by a step relative to its size.
    torch.testing.assert_close(torch.autograd.grad(-f(z).sum(), leaf)[0], -3 * expected)
    if estimator != hm.GumbelSoftmax(0.5):
        scale = {hm.Blackbox(): 0.0, hm.PerturbedOptimizer(0.5): 0.5}.get(estimator, 1.0)
        assert torch.equal(z.detach(), space.draw(scores, scale * noise[:: estimator.noises]))


def test_the_value_is_not_rounded_to_the_size_of_the_surrogate():
    """Scores of a million and a value of a third: adding and subtracting <g, scores> must not change the value."""
    scores = torch.tensor([[1e6, 1e6 + 1, 1e6 - 1]], requires_grad=True)
    out = hm.expectation(lambda z: torch.full(z.shape[:-1], 1 / 3), scores, hm.Categorical(3), hm.Direct(1e-3))
    assert out.value.item() == torch.tensor(1 / 3).item()


def test_estimate_is_frozen():
    out = hm.expectation(lambda z: z.sum(-1), torch.zeros(3), hm.Categorical(3))
    with pytest.raises(AttributeError):
        out.value = torch.zeros(())
