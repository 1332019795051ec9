"""Drop-in functions: what they return, their gradients, dimensions, masks and dtypes."""

import itertools

import pytest
import torch
from torch.nn import functional as F

import hardmax as hm

INF = float("inf")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


# ----------------------------------------------------------------------------------- gumbel_softmax
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_along_any_dimension(dim, hard):
    logits = randn(3, 4, 5).requires_grad_()
    z = hm.gumbel_softmax(logits, 0.7, hard, dim, generator=seeded())
    torch.testing.assert_close(z.sum(dim), torch.ones_like(z.sum(dim)))
    assert ((z == 0) | (z == 1)).all() == hard
    weights = randn(3, 4, 5, seed=1)
    (gradient,) = torch.autograd.grad((z * weights).sum(), logits)
    soft = hm.gumbel_softmax(logits, 0.7, False, dim, generator=seeded())
    # The derivative of a softmax with temperature, by hand.
    expected = soft * (weights - (weights * soft).sum(dim, keepdim=True)) / 0.7
    torch.testing.assert_close(gradient, expected)


def test_gumbel_softmax_is_the_estimator():
    logits = randn(50, 4)
    for hard in (False, True):
        noise = hm.Categorical(4).noise((50,), seeded(), dtype=torch.float64)
        expected = hm.sample(logits, hm.Categorical(4), hm.GumbelSoftmax(0.3, hard), noise=noise[None])[0]
        torch.testing.assert_close(hm.gumbel_softmax(logits, 0.3, hard, generator=seeded()), expected)


def test_gumbel_softmax_has_the_distribution_of_torch():
    """Frequencies of the arg max, and mean and mean square of the relaxed z, by a z-test with torch's own samples."""
    logits, draws = torch.tensor([1.0, 0.0, -2.0]), 40_000
    torch.manual_seed(0)
    theirs = F.gumbel_softmax(logits.expand(draws, 3), tau=0.5)
    ours = hm.gumbel_softmax(logits.expand(draws, 3), tau=0.5, generator=seeded())
    for statistic in (lambda z: z, torch.square, lambda z: F.one_hot(z.argmax(-1), 3).float()):
        a, b = statistic(ours), statistic(theirs)
        error = (a.var(0) / draws + b.var(0) / draws).sqrt()
        assert ((a.mean(0) - b.mean(0)).abs() < 5 * error).all()
    index = hm.gumbel_softmax(logits.expand(draws, 3), hard=True, generator=seeded()).mean(0)
    p = logits.softmax(-1)
    assert ((index - p).abs() < 5 * (p * (1 - p) / draws).sqrt()).all()


def test_gumbel_softmax_temperature_may_be_learned():
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: hm.gumbel_softmax(randn(3, 4), t, generator=seeded()), (tau,))
    torch.testing.assert_close(
        hm.gumbel_softmax(randn(3, 4), tau, generator=seeded()), hm.gumbel_softmax(randn(3, 4), 0.7, generator=seeded())
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("tau", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_is_finite(dtype, tau, hard):
    logits = torch.tensor([[1e4, -1e4, 0.0, -INF], [0.0, 1e-3, -INF, -INF], [-1e4, -1e4, -1e4, -1e4]], dtype=dtype)
    logits = logits.repeat(200, 1).requires_grad_()
    z = hm.gumbel_softmax(logits, tau, hard, generator=seeded())
    assert z.dtype == dtype
    assert z.isfinite().all()
    assert (z[logits.isneginf()] == 0).all()
    (gradient,) = torch.autograd.grad((z * torch.arange(4, dtype=dtype)).sum(), logits)
    assert gradient.isfinite().all()
    assert (gradient[logits.isneginf()] == 0).all()


# ----------------------------------------------------------------------------------- argmax, topk
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("samples", [None, 1, 4])
def test_argmax_and_topk_along_any_dimension(dim, samples):
    scores = randn(3, 4, 5).requires_grad_()
    lead = () if samples is None else (samples,)
    z, index = hm.argmax(scores, dim, samples=samples, generator=seeded())
    assert z.shape == (*lead, 3, 4, 5)
    position = dim % 3 + len(lead)
    assert index.shape == z.select(position, 0).shape
    assert torch.equal(z.argmax(position), index)
    assert (z.sum(position) == 1).all()
    top, indices = hm.topk(scores, 2, dim, samples=samples, generator=seeded())
    assert top.shape == z.shape
    assert indices.shape == (*z.shape[:position], 2, *z.shape[position + 1 :])
    assert torch.equal(torch.zeros_like(top).scatter(position, indices, 1.0), top.detach())
    chosen = scores.expand_as(top).gather(position, indices).movedim(position, -1)
    assert (chosen[..., 0] >= chosen[..., 1]).all()
    for result in (z, top):
        (gradient,) = torch.autograd.grad((result * randn(3, 4, 5, seed=1)).sum(), scores)
        assert gradient.isfinite().all()
        assert (gradient != 0).any()


def test_argmax_and_topk_are_samples():
    scores, seeds = randn(6, 5), (seeded(4), seeded(4))
    expected = hm.sample(scores, hm.Categorical(5), hm.ReinMax(), samples=3, generator=seeds[0])
    assert torch.equal(hm.argmax(scores, samples=3, generator=seeds[1]).z, expected)
    estimator = hm.ImplicitMLE()
    expected = hm.sample(scores, hm.Subset(5, 3), estimator, generator=seeds[0])
    assert torch.equal(hm.topk(scores, 3, estimator=estimator, generator=seeds[1]).z, expected)


def test_gradient_of_argmax_is_unbiased_for_quadratic_losses():
    """The default estimator, against enumeration; a planted error, the gradient of a straight-through, is caught."""
    scores = randn(4).requires_grad_()
    table = randn(4, 4, seed=2)
    f = lambda z: ((z @ table) * z).sum(-1) + (z.mean(-1) - z[..., 0] ** 2)  # noqa: E731
    exact = torch.autograd.grad((scores.softmax(-1) * f(torch.eye(4, dtype=torch.float64))).sum(), scores)[0]

    def measure(**options):
        leaf = scores.detach().expand(40_000, 4).clone().requires_grad_()
        f(hm.argmax(leaf, generator=seeded(), **options).z).sum().backward()
        return ((leaf.grad.mean(0) - exact) / (leaf.grad.std(0) / 200)).abs().max()

    assert measure() < 5
    assert measure(estimator=hm.StraightThrough()) > 10


def test_gradient_of_topk_is_unbiased_for_linear_losses():
    scores, weights = randn(5).requires_grad_(), randn(5, seed=2)
    members = hm.Subset(5, 2).enumerate(dtype=torch.float64)
    exact = torch.autograd.grad((members @ scores).softmax(-1) @ (members @ weights), scores)[0]
    leaf = scores.detach().expand(3, 5).clone().requires_grad_()
    (hm.topk(leaf, 2, generator=seeded()).z @ weights).sum().backward()
    torch.testing.assert_close(leaf.grad, exact.expand(3, 5))  # without variance, also


@pytest.mark.parametrize("training", [False, True])
def test_masks(training):
    scores = randn(200, 6).requires_grad_()
    mask = torch.rand(200, 6, generator=seeded()) < 0.6
    mask[:, :2] = True
    for z, indices in (
        hm.argmax(scores, mask=mask, training=training, generator=seeded()),
        hm.topk(scores, 2, mask=mask, training=training, generator=seeded()),
    ):
        assert not (z.detach().bool() & ~mask).any()
        assert mask.gather(-1, indices.view(200, -1)).all()
        if training:
            (gradient,) = torch.autograd.grad(z.square().sum() + z[..., 0].sum(), scores)
            assert gradient.isfinite().all()
            assert (gradient[~mask] == 0).all()
            assert (gradient[mask] != 0).any()
    by_minus_infinity = hm.argmax(scores.detach().masked_fill(~mask, -INF), generator=seeded()).z
    assert torch.equal(hm.argmax(scores, mask=mask, generator=seeded()).z, by_minus_infinity)


def test_without_training_there_is_no_noise():
    scores = randn(3, 7)
    assert torch.equal(hm.argmax(scores, training=False).indices, scores.argmax(-1))
    assert torch.equal(hm.topk(scores, 3, training=False).indices, scores.topk(3).indices)
    assert torch.equal(hm.sort(scores, training=False).indices, scores.argsort())
    assert torch.equal(hm.sort(scores, 0, True, training=False).values, scores.sort(0, descending=True).values)
    assert hm.argmax(scores, training=False, samples=2).z.shape == (2, 3, 7)
    assert not hm.argmax(scores.requires_grad_(), training=False).z.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_dtypes(dtype):
    scores = randn(4, 6, dtype=dtype).requires_grad_()
    for result in (
        hm.argmax(scores, generator=seeded()).z,
        hm.topk(scores, 2, generator=seeded()).z,
        hm.sort(scores, generator=seeded()).values,
        hm.rank(scores, generator=seeded()),
    ):
        assert result.dtype == dtype
        (gradient,) = torch.autograd.grad((result * torch.arange(6, dtype=dtype)).sum(), scores)
        assert gradient.dtype == dtype
        assert gradient.isfinite().all()


def test_empty_batches_and_all_of_k():
    scores = torch.zeros(0, 5)
    assert hm.argmax(scores).z.shape == (0, 5)
    assert hm.topk(scores, 2).indices.shape == (0, 2)
    assert hm.gumbel_softmax(scores).shape == (0, 5)
    assert hm.sort(scores).values.shape == hm.rank(scores).shape == (0, 5)
    assert (hm.topk(torch.randn(3, 5), 5).z == 1).all()
    assert (hm.topk(torch.randn(3, 5), 0).z == 0).all()
    assert hm.argmax(torch.randn(3, 1)).z.eq(1).all()


# ----------------------------------------------------------------------------------- sort, rank
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sort_and_rank_without_noise_equal_torch(descending, dim):
    scores = randn(5, 6)
    values, indices = hm.sort(scores, dim, descending, training=False)
    expected = scores.sort(dim, descending)
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)
    rank = hm.rank(scores, dim, descending, training=False)
    assert torch.equal(rank, expected.indices.argsort(dim).to(scores.dtype))


def test_sort_and_rank_with_noise_belong_together():
    scores = randn(4, 5).requires_grad_()
    values, indices = hm.sort(scores, samples=3, generator=seeded())
    rank = hm.rank(scores, samples=3, generator=seeded())
    assert values.shape == indices.shape == rank.shape == (3, 4, 5)
    assert torch.equal(indices.sort(-1).values, torch.arange(5).expand(3, 4, 5))
    assert torch.equal(scores.expand(3, 4, 5).gather(-1, indices), values)
    assert torch.equal(rank.long().gather(-1, indices), torch.arange(5).expand(3, 4, 5))
    assert (hm.sort(400 * scores, generator=seeded()).values == (400 * scores).sort().values).all()  # little noise


def test_gradient_of_rank_against_enumeration():
    """E[<w, rank>] under perturb-and-MAP, by finite differences with the same noise, and an unbiased estimator."""
    scores, weights = randn(3), randn(3, seed=1)
    space, places = hm.Permutation(3), torch.arange(3.0, dtype=torch.float64)
    noise = space.noise((400_000,), seeded(), dtype=torch.float64).flatten(1)
    members = space.enumerate(dtype=torch.float64)
    values = members @ places @ weights

    def expect(x):
        totals = (noise + (x[:, None] * places).flatten()) @ members.flatten(1).mT
        return values[totals.argmax(-1)].mean()

    steps = 0.1 * torch.eye(3, dtype=torch.float64)
    exact = torch.stack([(expect(scores + step) - expect(scores - step)) / 0.2 for step in steps])
    leaf = scores.expand(400, 3).clone().requires_grad_()
    ranks = hm.rank(leaf, estimator=hm.PerturbedOptimizer(), samples=100, generator=seeded(1))
    (ranks.mean(0) @ weights).sum().backward()
    mean, tolerance = leaf.grad.mean(0), 5 * leaf.grad.std(0) / 20 + 0.01
    assert ((mean - exact).abs() < tolerance).all()
    assert ((mean + exact).abs() > tolerance).any()  # the wrong sign is caught


def test_rank_learns_an_order():
    """Scores that are trained through their ranks alone end in the order that the loss asks for."""
    target = torch.tensor([3.0, 0.0, 4.0, 1.0, 2.0])
    scores = torch.zeros(5, requires_grad=True)
    optimizer, generator = torch.optim.Adam([scores], lr=0.1), seeded()
    for _ in range(150):
        loss = (hm.rank(scores, samples=8, generator=generator) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(hm.rank(scores, training=False), target)


def test_exact_frequencies_of_topk():
    scores = randn(4)
    z = hm.topk(scores.expand(20_000, 4), 2, generator=seeded()).z
    for pair in itertools.combinations(range(4), 2):
        member = F.one_hot(torch.tensor(pair), 4).sum(0)
        p = hm.Subset(4, 2).log_prob(scores, member.double()).exp()
        assert abs((z == member).all(-1).double().mean() - p) < 5 * (p * (1 - p) / 20_000).sqrt()
