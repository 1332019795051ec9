"""The objective for many copies of a batch equals f called for each copy, for every method of f."""

import pytest
import torch
from cases import Rows, Table, Toy

import hardmax as hm
from hardmax.diagnosis import RepeatedObjective

COPIES = 3
BATCHES = [(), (4,), (2, 3)]


class Everything(Table, Rows):
    """Toy, with every method but changes."""

    def pairs(self, z):
        return self.table()[..., : len(z)] if len(z) < self.space.size else self.table()


def likelihood(batch):
    """log p(x | z) of bits, with changes."""
    torch.manual_seed(0)
    space = hm.Binary(5)
    model = hm.DiscreteVAE.build(space, (1, 3, 3), hidden=7).double()
    x = torch.rand(*batch, 9, dtype=torch.float64).round()
    return space, hm.BernoulliLikelihood(model.decoder, x, batch_dims=len(batch))


def draws(space, *lead):
    noise = space.noise((2, *lead), torch.Generator().manual_seed(0), dtype=torch.float64)
    return space.argmax(noise)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)], ids=str)
def test_call(space, batch):
    f = Toy(space, batch)
    z = draws(space, COPIES, *batch)
    expected = torch.stack([f(z[:, d]) for d in range(COPIES)], 1)
    torch.testing.assert_close(RepeatedObjective(f, COPIES, batch)(z), expected)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_rows(batch):
    space = hm.Binary(3)
    f = Rows(space, batch)
    z = draws(space, COPIES, *batch)
    everywhere = RepeatedObjective(f, COPIES, batch)(z)[0].flatten()
    index = torch.randperm(everywhere.numel(), generator=torch.Generator().manual_seed(1))[:5]
    values = RepeatedObjective(f, COPIES, batch).rows(z[0].reshape(-1, 3)[index], index)
    torch.testing.assert_close(values, everywhere[index])


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_table_and_pairs(batch):
    f = Everything(hm.Categorical(4), batch)
    repeated = RepeatedObjective(f, COPIES, batch)
    for values in (repeated.table(), repeated.pairs(torch.eye(4, dtype=torch.float64))):
        assert values.shape == (COPIES, *batch, 4)
        for copy in values:
            torch.testing.assert_close(copy, f.table())


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_changes(batch):
    space, f = likelihood(batch)
    z = draws(space, COPIES, *batch)
    flips = RepeatedObjective(f, COPIES, batch).changes(z)
    wanted = torch.rand(z.shape, generator=torch.Generator().manual_seed(2)) < 0.5
    gains = torch.zeros_like(z)
    gains[wanted] = flips.gains(wanted)
    assert flips.bounds.shape == z.shape
    for d in range(COPIES):
        flips_of_copy = f.changes(z[:, d])
        torch.testing.assert_close(flips.bounds[:, d], flips_of_copy.bounds)
        torch.testing.assert_close(gains[:, d][wanted[:, d]], flips_of_copy.gains(wanted[:, d]))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_augment(batch):
    space = hm.Permutation(3)
    generator = torch.Generator().manual_seed(0)
    scores, weights = (torch.randn(*shape, *batch, 3, 3, generator=generator) for shape in ((2, COPIES), ()))
    f = hm.LinearObjective(weights, space)
    augmented = RepeatedObjective(f, COPIES, batch).augment(scores, 0.5)
    for d in range(COPIES):
        torch.testing.assert_close(augmented[:, d], f.augment(scores[:, d], 0.5))


def test_offers_what_f_offers():
    space = hm.Binary(3)
    for f, names in ((Toy(space), set()), (Rows(space), {"rows"}), (Everything(space), {"rows", "table", "pairs"})):
        offered = {name for name in ("rows", "table", "pairs", "changes") if hasattr(RepeatedObjective(f, 2, ()), name)}
        assert offered == names


@pytest.mark.parametrize(
    "estimator",
    [hm.LocalExpectation(roulette=True), hm.Direct(0.5), hm.GibbsCovariance(), hm.Exact(), hm.GumbelSoftmax(0.5)],
    ids=str,
)
def test_an_estimate_of_copies_is_an_estimate_of_each(estimator):
    """Estimators use changes, rows and pairs of a likelihood, and count the same evaluations."""
    batch = (4,)
    space, f = likelihood(batch)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(*batch, 5, generator=generator, dtype=torch.float64)
    noise = space.noise((2, COPIES, *batch), generator, dtype=torch.float64)

    def gradient(f, scores, noise):
        scores = scores.clone().requires_grad_()
        out = hm.expectation(f, scores, space, estimator, noise=noise)
        return torch.autograd.grad(out.value.sum(), scores)[0], out.evaluations

    together, evaluations = gradient(RepeatedObjective(f, COPIES, batch), scores.expand(COPIES, 4, 5), noise)
    separate = [gradient(f, scores, noise[:, d]) for d in range(COPIES)]
    torch.testing.assert_close(together, torch.stack([estimate for estimate, _ in separate]))
    assert evaluations == pytest.approx(sum(count for _, count in separate) / COPIES)
