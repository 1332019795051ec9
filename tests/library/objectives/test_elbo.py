"""The evidence lower bound: its value, and each gradient against enumeration or its closed form."""

import pytest
import torch
from torch import nn

import hardmax as hm

SPACES = [hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2), hm.Binary(3)]
DRAWS = 200_000


def largest_z(draws, exact):
    """Return the largest |z| of the mean of draws `[draws, ...]`; above 5.5 is not chance (1e-6, 25 components)."""
    error = draws.std(0) / len(draws) ** 0.5
    return ((draws.mean(0) - exact) / error.clamp_min(1e-12)).abs().max().item()


class Model:
    """A decoder, images, scores and a prior, small enough to enumerate."""

    def __init__(self, space, batch=()):
        generator = torch.Generator().manual_seed(0)

        def random(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        width = len(space.enumerate()[0].flatten())
        self.space, self.batch = space, batch
        self.decoder = nn.Sequential(nn.Flatten(), nn.Linear(width, 3), nn.Tanh(), nn.Linear(3, 5)).double()
        with torch.no_grad():
            for parameter in self.decoder.parameters():
                parameter.copy_(random(*parameter.shape))
        self.x = random(*batch, 5).sigmoid().round()
        self.scores = random(*batch, *space.score_shape).requires_grad_()
        self.prior = random(*space.score_shape).requires_grad_()
        self.members = space.enumerate(dtype=torch.float64)

    def likelihood(self, draws=None):
        x = self.x if draws is None else self.x.expand(draws, *self.x.shape)
        return hm.BernoulliLikelihood(self.decoder, x, batch_dims=x.dim() - 1)

    def tables(self, prior=None):
        """Return log q(z) and log p(x, z) of every member, `[*B, M]`, from the definitions only."""
        statistics = self.space.statistics(self.members).flatten(1)
        log_q = (self.scores.flatten(len(self.batch)) @ statistics.mT).log_softmax(-1)
        prior = torch.zeros(self.space.score_shape, dtype=torch.float64) if prior is None else prior
        log_prior = (statistics @ prior.flatten()).log_softmax(-1)
        logits = self.decoder(self.members)
        log_likelihood = torch.distributions.Bernoulli(logits=logits).log_prob(self.x[..., None, :]).sum(-1)
        return log_q, log_prior + log_likelihood

    def bound(self, prior=None):
        log_q, log_joint = self.tables(prior)
        return (log_q.exp() * (log_joint - log_q)).sum(-1)

    def gradients(self, estimator, draws=DRAWS, **kwargs):
        """Return value and gradient for scores of independent estimates, `[draws]` and `[draws, *score]`."""
        scores = self.scores.detach().expand(draws, *self.space.score_shape).clone().requires_grad_()
        generator = torch.Generator().manual_seed(0)
        out = hm.elbo(self.likelihood(draws), scores, self.space, estimator, generator=generator, **kwargs)
        return out.value.detach(), torch.autograd.grad(out.value.sum(), scores)[0]

    def leaves(self):
        return [self.scores, self.prior, *self.decoder.parameters()]


# ------------------------------------------------------------------------------------------- values and the exact bound
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_exact_value_and_gradient(space, batch, prior):
    """For scores, the prior and the decoder, against autograd through the enumerated bound."""
    model = Model(space, batch)
    prior = model.prior if prior else None
    expected = model.bound(prior)
    out = hm.elbo(model.likelihood(), model.scores, space, hm.Exact(), prior=prior)
    torch.testing.assert_close(out.value, expected, rtol=1e-10, atol=1e-10)
    gradients, exact_gradients = (
        torch.autograd.grad(value.sum(), model.leaves(), materialize_grads=True, allow_unused=True)
        for value in (out.value, expected)
    )
    torch.testing.assert_close(gradients, exact_gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kl", ["auto", "beside", "none"])
@pytest.mark.parametrize(
    "estimator",
    [hm.Exact(), hm.Direct(0.3), hm.LocalExpectation(), hm.Reinforce("leave-one-out"), hm.StraightThrough(), "auto"],
    ids=str,
)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_value_is_reconstruction_minus_kl(space, estimator, kl):
    """Value and terms are the same, whichever terms have a gradient."""
    model = Model(space, (2, 3))
    generator = torch.Generator().manual_seed(0)
    out = hm.elbo(
        model.likelihood(),
        model.scores,
        space,
        estimator,
        prior=model.prior,
        kl=kl,
        samples=3,
        generator=generator,
    )
    assert out.value.shape == out.reconstruction.shape == out.kl.shape == (2, 3)
    assert out.z.shape == (3, 2, 3, *space.event_shape)
    assert out.value.requires_grad
    assert not any(t.requires_grad for t in (out.z, out.reconstruction, out.kl))
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)
    torch.testing.assert_close(out.kl, space.kl(model.scores, model.prior).detach())
    if estimator == hm.Exact() or (estimator == "auto" and space.categories):
        expected = hm.expectation(model.likelihood(), model.scores, space, hm.Exact()).value
    else:
        expected = model.likelihood()(out.z).mean(0)
    torch.testing.assert_close(out.reconstruction, expected.detach())


@pytest.mark.parametrize("estimator", [hm.Direct(0.3), hm.LocalExpectation(), hm.Reinforce()], ids=str)
def test_the_decoder_gets_the_gradient_of_its_samples(estimator):
    model = Model(hm.Categorical(4), (4,))
    parameters = list(model.decoder.parameters())
    out = hm.elbo(model.likelihood(), model.scores, model.space, estimator, samples=3)
    expected = model.likelihood()(out.z).mean(0)
    torch.testing.assert_close(
        torch.autograd.grad(out.value.sum(), parameters), torch.autograd.grad(expected.sum(), parameters)
    )


# ------------------------------------------------------------------------------------------- posterior direct
def posterior_direct(model, epsilon, prior=None):
    """Closed form for one categorical: (softmax((1 - e) log q + e log p(x, z)) - q) / e."""
    log_q, log_joint = (table.detach() for table in model.tables(prior))
    moved = ((1 - epsilon) * log_q + epsilon * log_joint).softmax(-1)
    return ((moved - log_q.exp()) / epsilon).view(model.space.score_shape)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Categorical(3, 1)], ids=str)
def test_posterior_direct_has_its_closed_form(space, epsilon, prior):
    model = Model(space)
    prior = model.prior.detach() if prior else None
    value, estimates = model.gradients(hm.Direct(epsilon), prior=prior)
    assert largest_z(value, model.bound(prior).detach()) < 5.5
    assert largest_z(estimates, posterior_direct(model, epsilon, prior)) < 5.5
    # The test would detect a forgotten prior, log q left out of the objective, and a forgotten 1/epsilon.
    if prior is not None:
        assert largest_z(estimates, posterior_direct(model, epsilon)) > 5.5
    assert largest_z(estimates, plain_direct(model, epsilon)) > 5.5
    if epsilon < 1:
        assert largest_z(estimates, epsilon * posterior_direct(model, epsilon, prior)) > 5.5


def test_at_epsilon_one_the_mean_gradient_is_posterior_minus_q():
    model = Model(hm.Categorical(4))
    log_q, log_joint = (table.detach() for table in model.tables())
    posterior = (log_joint - log_joint.logsumexp(-1)).exp()
    _, estimates = model.gradients(hm.Direct(1.0))
    assert largest_z(estimates, posterior - log_q.exp()) < 5.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_where_q_is_the_posterior_no_draw_has_a_gradient(epsilon):
    """There the integrand is log p(x) for every z, so both arg maxes agree; this does not hold for the plain form."""
    model = Model(hm.Categorical(4))
    model.scores = (model.tables(model.prior)[1] + 3.0).detach()
    prior = model.prior.detach()
    value, estimates = model.gradients(hm.Direct(epsilon), draws=2000, prior=prior)
    assert (estimates == 0).all()
    _, beside = model.gradients(hm.Direct(epsilon), draws=2000, prior=prior, kl="beside")
    assert (beside != 0).any()
    evidence = model.tables(prior)[1].logsumexp(-1).detach()
    assert largest_z(value, evidence) < 5.5


def test_the_fixed_point_is_the_posterior_at_any_epsilon():
    """Ascent along the closed-form mean gradient from a distant start leads to p(z | x)."""
    for epsilon in (0.1, 0.5, 1.0):
        model = Model(hm.Categorical(4))
        for _ in range(1000):
            model.scores = model.scores.detach() + posterior_direct(model, epsilon)
        log_q, log_joint = (table.detach() for table in model.tables())
        torch.testing.assert_close(log_q.exp(), log_joint.softmax(-1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_posterior_direct_on_several_bits_moves_one_at_a_time(epsilon):
    """Mean over z of [sigmoid((1 - e) l_i + e D_i(z)) - sigmoid(l_i)] / e, D_i the gain of bit i in log p(x, z)."""
    model = Model(hm.Binary(3))
    log_q, log_joint = (table.detach() for table in model.tables(model.prior))
    scores, members = model.scores.detach(), model.members
    place = torch.tensor([4, 2, 1])  # distance to the code with bit i set or cleared
    index = torch.arange(8)[:, None]
    one, zero = index + ((1 - members) * place).long(), index - (members * place).long()
    gain = log_joint[one] - log_joint[zero]
    each = (((1 - epsilon) * scores + epsilon * gain).sigmoid() - scores.sigmoid()) / epsilon
    value, estimates = model.gradients(hm.Direct(epsilon), prior=model.prior.detach())
    assert largest_z(value, model.bound(model.prior).detach()) < 5.5
    assert largest_z(estimates, log_q.exp() @ each) < 5.5


# ------------------------------------------------------------------------------------------- the KL added, or left out
def plain_direct(model, epsilon, kl=True):
    """Closed form for one categorical: (softmax(h + e log p(x | z)) - q) / e, minus the gradient of the KL."""
    log_q, log_likelihood = (table.detach() for table in model.tables())  # the uniform prior only shifts it
    gradient = ((log_q + epsilon * log_likelihood).softmax(-1) - log_q.exp()) / epsilon
    if kl:
        leaf = model.scores.detach().clone().requires_grad_()
        gradient = gradient - torch.autograd.grad(model.space.kl(leaf), leaf)[0].flatten()
    return gradient.view(model.space.score_shape)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_direct_with_the_kl_beside_has_its_closed_form(epsilon):
    model = Model(hm.Categorical(4))
    _, estimates = model.gradients(hm.Direct(epsilon), kl="beside")
    assert largest_z(estimates, plain_direct(model, epsilon)) < 5.5
    assert largest_z(estimates, plain_direct(model, epsilon, kl=False)) > 5.5
    _, estimates = model.gradients(hm.Direct(epsilon), kl="none")
    assert largest_z(estimates, plain_direct(model, epsilon, kl=False)) < 5.5


@pytest.mark.parametrize(
    "estimator", [hm.Exact(), hm.Direct(0.3), hm.LocalExpectation(), hm.Reinforce("mean"), hm.GumbelSoftmax()], ids=str
)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_beside_adds_the_gradient_of_the_kl_and_none_does_not(space, estimator):
    """Draw by draw; the prior's gradient is the KL's in both."""
    model = Model(space, (4,))
    noise = space.noise((2, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def gradients(value):
        return torch.autograd.grad(value.sum(), model.leaves(), allow_unused=True, materialize_grads=True)

    first = gradients(hm.expectation(model.likelihood(), model.scores, space, estimator, noise=noise).value)
    kl = gradients(space.kl(model.scores, model.prior))
    for name, for_scores in [("beside", first[0] - kl[0]), ("none", first[0])]:
        out = hm.elbo(model.likelihood(), model.scores, space, estimator, prior=model.prior, kl=name, noise=noise)
        torch.testing.assert_close(gradients(out.value), (for_scores, -kl[1], *first[2:]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "samples"), [(hm.LocalExpectation(), 1), (hm.Reinforce("leave-one-out"), 2), ("auto", 1)], ids=str
)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_unbiased_estimators_are_unbiased_for_the_bound(space, estimator, samples):
    model = Model(space)
    exact = model.bound(model.prior)
    gradient = torch.autograd.grad(exact, model.scores)[0]
    value, estimates = model.gradients(estimator, samples=samples, prior=model.prior.detach())
    assert largest_z(value, exact.detach()) < 5.5
    assert largest_z(estimates, gradient) < 5.5
    assert largest_z(1.2 * estimates, gradient) > 5.5  # this error would be detected
    _, estimates = model.gradients(estimator, samples=samples, prior=model.prior.detach(), kl="none")
    assert largest_z(estimates, gradient) > 5.5  # as would be a missing KL


# ------------------------------------------------------------------------------------------- a learned prior
@pytest.mark.parametrize("kl", ["auto", "beside", "none"])
@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(0.3), hm.LocalExpectation()], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_learned_prior_keeps_its_gradient(space, estimator, kl):
    """q - p in closed form, also where the complete integrand is the estimator's objective."""
    model = Model(space, (4,))
    out = hm.elbo(model.likelihood(), model.scores, space, estimator, prior=model.prior, kl=kl, samples=3)
    gradient = torch.autograd.grad(out.value.sum(), model.prior)[0]
    expected = (space.marginals(model.scores) - space.marginals(model.prior)).sum(0)
    torch.testing.assert_close(gradient, expected.detach(), rtol=1e-10, atol=1e-10)


# ------------------------------------------------------------------------------------------- what auto chooses
class Bare:
    """A likelihood without optional methods, or with the given ones only."""

    def __init__(self, likelihood, *names):
        self._likelihood = likelihood
        for name in names:
            setattr(self, name, getattr(likelihood, name))

    def __call__(self, z):
        return self._likelihood(z)


@pytest.mark.parametrize(
    ("space", "methods", "choice"),
    [
        (hm.Categorical(4), ("pairs",), hm.Exact()),
        (hm.Categorical(3, 1), ("pairs", "rows"), hm.Exact()),
        (hm.Categorical(4), (), hm.Direct()),
        (hm.Categorical(4), ("rows",), hm.Direct()),
        (hm.Categorical(3, 1), (), hm.Direct()),
        (hm.Binary(3), ("pairs", "rows"), hm.LocalExpectation(roulette=True)),
        (hm.Categorical(3, 2), ("rows",), hm.LocalExpectation(roulette=True)),
        (hm.Binary(3), (), hm.LocalExpectation()),
        (hm.Categorical(3, 2), ("pairs",), hm.LocalExpectation()),
    ],
    ids=str,
)
def test_auto(space, methods, choice):
    model = Model(space, (20,))
    f = Bare(model.likelihood(), *methods)
    noise = space.noise((1, 20), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    auto, by_name = (hm.elbo(f, model.scores, space, e, noise=noise) for e in ("auto", choice))
    assert auto.evaluations == by_name.evaluations
    first, second = (torch.autograd.grad(out.value.sum(), model.scores)[0] for out in (auto, by_name))
    assert torch.equal(first, second)
    others = [
        e for e in (hm.Exact(), hm.Direct(), hm.LocalExpectation(), hm.Reinforce()) if type(e) is not type(choice)
    ]
    for other in others:
        if space.categories and {type(choice), type(other)} == {hm.Exact, hm.LocalExpectation}:
            continue  # the same gradient for one variable
        out = hm.elbo(f, model.scores, space, other, noise=noise)
        assert not torch.allclose(torch.autograd.grad(out.value.sum(), model.scores)[0], first)


def test_table_serves_exact():
    space = hm.Categorical(4)
    torch.manual_seed(0)
    decoder, x = nn.Linear(4, 5), torch.rand(3, 5).round()
    f, scores = Bare(hm.BernoulliLikelihood(decoder, x), "table"), torch.randn(3, 4, requires_grad=True)
    out = hm.elbo(f, scores, space)
    assert out.evaluations == 4
    expected = hm.elbo(hm.BernoulliLikelihood(decoder, x), scores, space, hm.Exact())
    torch.testing.assert_close(out.value, expected.value)


@pytest.mark.parametrize("methods", [(), ("pairs",), ("rows",), ("pairs", "rows")], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_shortcuts_change_nothing_of_posterior_direct(space, methods):
    model = Model(space, (2, 3))
    noise = space.noise((2, 2, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out, expected = (
        hm.elbo(f, model.scores, space, hm.Direct(0.5), prior=model.prior, noise=noise)
        for f in (Bare(model.likelihood(), *methods), Bare(model.likelihood()))
    )
    torch.testing.assert_close(out.value, expected.value)
    torch.testing.assert_close(
        torch.autograd.grad(out.value.sum(), model.leaves()),
        torch.autograd.grad(expected.value.sum(), model.leaves()),
        rtol=1e-10,
        atol=1e-10,
    )


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(0.5), hm.LocalExpectation()], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_chunks_change_nothing_but_the_memory(space, estimator):
    model = Model(space, (4,))
    noise = space.noise((2, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole, parts = (
        hm.elbo(model.likelihood(), model.scores, space, estimator, prior=model.prior, noise=noise, chunk_size=size)
        for size in (None, 2)
    )
    torch.testing.assert_close(parts.value, whole.value)
    torch.testing.assert_close(
        torch.autograd.grad(parts.value.sum(), model.leaves()),
        torch.autograd.grad(whole.value.sum(), model.leaves()),
        rtol=1e-10,
        atol=1e-10,
    )


def test_generators():
    model = Model(hm.Categorical(4), (50,))
    before = torch.get_rng_state()
    first, again, other = (
        hm.elbo(
            model.likelihood(), model.scores, model.space, hm.Direct(), generator=torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.z, again.z)
    assert torch.equal(first.value, again.value)
    assert not torch.equal(first.z, other.z)


# ------------------------------------------------------------------------------------------- bad input
def test_nan_raises_unless_validation_is_off():
    space, scores = hm.Categorical(3), torch.zeros(4, 3)
    for estimator in (hm.Exact(), hm.Direct(), hm.Reinforce()):
        with pytest.raises(hm.ArgumentError, match="f returned nan for example"):
            hm.elbo(lambda z: z.sum(-1) * float("nan"), scores, space, estimator)
    scores[2, 1] = float("nan")
    with pytest.raises(hm.ArgumentError, match=r"finite.*\[2, 1\]"):
        hm.elbo(pytest.fail, scores, space, hm.Direct())
    out = hm.elbo(lambda z: z.sum(-1), scores, space, hm.Reinforce(), validate=False)
    assert out.value[2].isnan()


def test_a_space_too_large_for_exact():
    with pytest.raises(hm.NotExactError, match="LocalExpectation"):
        hm.elbo(pytest.fail, torch.zeros(40), hm.Binary(40), hm.Exact())


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_a_weight_of_the_kl_against_enumeration(weight):
    """Value and gradient, of scores and prior; the reported KL does not depend on the weight."""
    space, x = hm.Categorical(3, 2), torch.rand(4, 9, dtype=torch.float64)
    likelihood = hm.BernoulliLikelihood(nn.Sequential(nn.Flatten(), nn.Linear(6, 9, dtype=torch.float64)), x)
    scores = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    prior = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    out = hm.elbo(likelihood, scores, space, hm.Exact(), prior=prior, kl_weight=weight)
    bounds = hm.exact_bounds(likelihood, scores, space, prior=prior)
    expected = bounds.reconstruction - weight * bounds.kl
    torch.testing.assert_close(out.value, expected)
    torch.testing.assert_close(out.kl, bounds.kl.detach())
    gradients = torch.autograd.grad(out.value.sum(), [scores, prior])
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), [scores, prior]))


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_posterior_direct_with_a_weight_is_stationary_at_the_tempered_posterior(weight):
    """F is constant where q is proportional to p(z) p(x | z)^(1 / w), and nowhere else."""
    space, x = hm.Categorical(4), torch.rand(3, 9, dtype=torch.float64).round()
    likelihood = hm.BernoulliLikelihood(nn.Linear(4, 9, dtype=torch.float64), x)
    table = likelihood.table().detach()
    for power, is_stationary in ((1 / weight, True), (1.0, False)):
        scores = (power * table).requires_grad_()
        hm.elbo(likelihood, scores, space, hm.AveragedDirect(), kl_weight=weight).value.sum().backward()
        assert (scores.grad.abs().max() < 1e-9) == is_stationary
