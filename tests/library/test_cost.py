"""Estimate.evaluations and Estimate.solves are correct, f is called as often as documented, and chunks limit memory."""

import math

import pytest
import torch
from cases import SMALL_SPACES, Counted, Network, Rows, Table, Toy, pairs, samples_for

import hardmax as hm
import hardmax.estimators

B, S = 4, 3


def run(f, space, estimator, **kwargs):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(B, *space.score_shape, generator=generator, dtype=torch.float64, requires_grad=True)
    samples = samples_for(space, estimator, at_most=S)
    return hm.expectation(f, scores, space, estimator, samples=samples, generator=generator, **kwargs)


@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize(
    ("kind", "space", "estimator"),
    [(Rows, *pair) for pair in pairs(SMALL_SPACES)]
    + [(Table, *pair) for pair in pairs([space for space in SMALL_SPACES if space.categories])],
    ids=str,
)
def test_evaluations_are_what_was_counted(space, estimator, kind, chunk_size):
    f = Counted(kind(space, (B,)))
    assert run(f, space, estimator, chunk_size=chunk_size).evaluations == f.evaluations / B


@pytest.mark.parametrize(("space", "estimator"), pairs([hm.Categorical(3, 2), hm.Binary(3)]), ids=str)
def test_solves_are_what_was_counted(space, estimator, monkeypatch):
    """Including those of the backward pass."""
    solve, solved = type(space).argmax, []

    def argmax(self, scores):
        solved.append(scores.numel() / (B * math.prod(space.score_shape)))
        return solve(self, scores)

    monkeypatch.setattr(type(space), "argmax", argmax)
    out = run(Rows(space, (B,)), space, estimator)
    out.value.sum().backward()
    # Stick breaking, sorted lists and inverted CDFs need no arg max; there the draws are counted.
    drawn = {hm.DisArmCategorical: 2 * S, hm.ShortlistDirect: S}
    assert out.solves == (S if estimator.only_draws else drawn.get(type(estimator), sum(solved)))


@pytest.mark.parametrize("two_sided", [False, True])
def test_direct_evaluates_every_category_once_in_one_call(two_sided):
    f = Counted(Toy(hm.Categorical(4), (B,)))
    out = run(f, hm.Categorical(4), hm.Direct(two_sided=two_sided))
    assert f.calls == [("f", 4 * B)]  # for all S samples together
    assert out.solves == S * (3 if two_sided else 2)


@pytest.mark.parametrize(("space", "changes"), [(hm.Categorical(3, 2), 4), (hm.Binary(5), 5)], ids=str)
@pytest.mark.parametrize("estimator", [hm.Direct(), hm.LocalExpectation()], ids=str)
def test_several_variables_cost_z_once_and_its_single_changes(space, changes, estimator):
    f = Counted(Toy(space, (B,)))
    run(f, space, estimator)
    assert f.calls == [("f", S * B), ("f", S * changes * B)]


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(), hm.LocalExpectation()], ids=str)
def test_a_table_is_asked_once(estimator):
    f = Counted(Table(hm.Categorical(4), (B,)))
    assert run(f, hm.Categorical(4), estimator).evaluations == 4
    assert f.calls == [("table", 4 * B)]


def test_sampling_estimators_cost_one_evaluation_per_sample():
    space = hm.Binary(3)
    for estimator in (
        hm.Reinforce(),
        hm.StraightThrough(),
        hm.GumbelSoftmax(),
        hm.ReinMax(),
        hm.GumbelRao(),
        hm.ReinMaxRao(),
        hm.ReinMaxCV(),
        hm.GappedStraightThrough(),
        hm.IdentityBackward(),
        hm.PerturbedOptimizer(),
        hm.Relax(Network(space)),
        hm.UnorderedSet(),
        hm.DoubleControlVariates(),
        hm.Rodeo(),
    ):
        f = Counted(Toy(space, (B,)))
        out = run(f, space, estimator)
        assert (out.evaluations, out.solves) == (S, S)


def test_roulette_evaluates_few_of_many_almost_certain_bits():
    space = hm.Binary(40)
    f = Counted(Rows(space, (B,)))
    scores = torch.full((B, 40), 8.0, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    out = hm.expectation(f, scores, space, hm.LocalExpectation(roulette=True), generator=generator)
    assert out.evaluations == f.evaluations / B
    assert out.evaluations < 1 + 40 * 0.15


@pytest.mark.parametrize(
    ("space", "estimator"), pairs([hm.Categorical(6), hm.Categorical(3, 4), hm.Binary(6)]), ids=str
)
def test_no_call_exceeds_the_chunk(space, estimator):
    f = Counted(Rows(space, (B,)))
    run(f, space, estimator, chunk_size=2).value.sum().backward()
    assert max(count for _, count in f.calls) <= 2 * B


class Hungry:
    """An f with a large intermediate result; `peak` is the largest batch in its backward pass."""

    def __init__(self):
        self.weight = torch.ones(1000, requires_grad=True)
        self.peak = 0

    def __call__(self, z):
        hidden = (z.sum(-1, keepdim=True) * self.weight).sigmoid()
        if hidden.requires_grad:
            hidden.register_hook(self._update_peak)
        return hidden.sum(-1)

    def _update_peak(self, gradient):
        self.peak = max(self.peak, gradient.shape[0])


@pytest.mark.parametrize("chunk_size", [4, 16])
def test_backward_keeps_no_more_than_a_chunk(chunk_size):
    """The backward pass of Exact over 64 codes keeps the tensors of one chunk, measured by torch's own hooks."""
    space, f = hm.Binary(6), Hungry()
    saved = []

    def pack(tensor):
        if tensor.shape[-1:] == (1000,) and tensor.dim() > 1:
            saved.append(tensor.shape[0])
        return tensor

    scores = torch.zeros(2, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        unchunked = hm.expectation(f, scores, space, hm.Exact())
    assert max(saved) == 64
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        chunked = hm.expectation(f, scores, space, hm.Exact(), chunk_size=chunk_size)
    assert saved == []
    first = torch.autograd.grad(unchunked.value.sum(), [scores, f.weight])
    f.peak = 0
    second = torch.autograd.grad(chunked.value.sum(), [scores, f.weight])
    assert f.peak == chunk_size
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize(("categories", "rows"), [(6, [6]), (40, [40, 4])])
def test_many_categories_are_not_differentiated_for_few_examples(categories, rows):
    """A decoder evaluates K rows with their graph, or K without it and one per example: the gradient is the same."""
    batch_sizes = []

    class Decoder(torch.nn.Linear):
        def forward(self, z):
            batch_sizes.append(len(z))
            return super().forward(z)

    torch.manual_seed(0)
    decoder, x = Decoder(categories, 9).double(), torch.rand(4, 9, dtype=torch.float64)
    scores = torch.randn(4, categories, dtype=torch.float64, requires_grad=True)
    space = hm.Categorical(categories)
    noise = space.noise((1, 4), dtype=torch.float64)
    out = hm.elbo(hm.BernoulliLikelihood(decoder, x), scores, space, hm.Direct(), noise=noise)
    assert batch_sizes == rows
    gradient = torch.autograd.grad(out.value.sum(), [scores, *decoder.parameters()])
    each = hm.BernoulliLikelihood(decoder, x)
    plain = hm.elbo(lambda z: each(z), scores, space, hm.Direct(), noise=noise)
    torch.testing.assert_close(gradient, torch.autograd.grad(plain.value.sum(), [scores, *decoder.parameters()]))


@pytest.mark.parametrize("space", [hm.PairwiseBinary(4), hm.Subset(5, 2), hm.Chain(3, 3), hm.Permutation(3)], ids=str)
def test_gibbs_covariance_evaluates_the_same_z_of_an_example_once(space):
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(B, *space.score_shape, generator=generator, dtype=torch.float64)
    noise = space.noise((20, B), generator=generator, dtype=torch.float64)
    results = []
    for f in (Counted(Rows(space, (B,))), Counted(Toy(space, (B,)))):
        leaf = scores.clone().requires_grad_()
        out = hm.expectation(f, leaf, space, hm.GibbsCovariance(), noise=noise)
        slopes = torch.autograd.grad(out.value.sum(), [leaf, f.f.weight])
        results.append((out.value, slopes))
        assert out.evaluations == f.evaluations / B
    torch.testing.assert_close(results[0], results[1])
    distinct = sum(len(out.z[:, example].unique(dim=0)) for example in range(B))
    assert distinct < 20 * B
    once = hm.expectation(Rows(space, (B,)), scores, space, hm.GibbsCovariance(), noise=noise)
    assert once.evaluations == distinct / B


def test_former_names_of_the_evaluator_warn():
    space = hm.Categorical(3)
    f, z = hm.Evaluator(lambda z: z.sum(-1), torch.zeros(2, 3), space), torch.eye(3)[:, None].expand(3, 2, 3)
    with pytest.warns(DeprecationWarning, match="use Evaluator.evaluate_plain"):
        assert torch.equal(f.plain(z), f.evaluate_plain(z))
    with pytest.warns(DeprecationWarning, match="use Evaluator.evaluate_distinct"):
        assert torch.equal(f.distinct(z), f.evaluate_distinct(z))


def test_former_name_of_attach_gradient_warns():
    with pytest.warns(DeprecationWarning, match=r"use hardmax\.estimators\.attach_gradient"):
        assert hm.estimators.carry is hm.estimators.attach_gradient
