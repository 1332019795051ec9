"""The completion model: its likelihood against quadrature, what gradients reach what, and what stays as it was."""

import math

import pytest
import torch
from mixed_models import largest_z

import hardmax as hm
from hardmax.applications.completion import CompletionModel
from hardmax.applications.completion.masks import draw_masks
from hardmax.random import stream

SHAPES = [(1, 8, 8), (3, 16, 12)]


def made(shape=(1, 8, 8), **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options = {"components": 3, "latent": 4, "hidden": 16, **options}
        if shape[0] == 3:
            options |= {"architecture": "conv", "likelihood": "gaussian"}
        return CompletionModel.build(shape, **options)


def pictures(shape=(1, 8, 8), count=5):
    x = torch.rand(count, *shape, generator=stream(0, "x"))
    return x, draw_masks("rectangles", count, shape[1:], stream(0, "mask"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"components": 1}, {"components": 0}, {"components": 0, "latent": 0}])
def test_visible_pixels_are_untouched_and_hidden_ones_not_looked_at(shape, options):
    model, (x, hidden) = made(shape, **options), pictures(shape)
    found = model.complete(x, hidden, count=4, generator=stream(0))
    assert found.pictures.shape == (4, *x.shape)
    everywhere = hidden.expand(4, *x.shape)
    assert (found.pictures == x)[~everywhere].all()
    assert ((found.pictures >= 0) & (found.pictures <= 1)).all()
    other = x.where(~hidden, 0.123)
    same = model.complete(other, hidden, count=4, generator=stream(0))
    assert (found.pictures[everywhere] == same.pictures[everywhere]).all()
    several = (found.pictures[0] != found.pictures[1])[hidden.expand(x.shape)].any()
    assert bool(several) == (options.get("latent") != 0)


def test_a_component_is_drawn_by_its_weight_or_as_told():
    model, (x, hidden) = made(), pictures()
    weights = model.look(x, hidden).mixture.log_weights.exp()
    found = model.complete(x, hidden, count=4000, generator=stream(0))
    shares = torch.nn.functional.one_hot(found.component, 3).double().mean(0)
    assert (shares - weights).abs().max() < 1.001 / 4000  # systematic: by one draw at most
    assert torch.equal(found.weight, weights.expand(4000, -1, -1).gather(-1, found.component[..., None]).squeeze(-1))
    assert (model.complete(x, hidden, count=2, component=1).component == 1).all()


@torch.no_grad()
def test_temperature_is_the_spread_within_a_component():
    model, (x, hidden) = made(), pictures()
    visible = model.look(x, hidden)
    middle = model.decode(x, hidden, visible, visible.mixture.mean[None, :, 1])
    own, half, least = (
        model.complete(x, hidden, count=3, component=1, temperature=t, generator=stream(0)).pictures
        for t in (1.0, 0.5, 1e-9)
    )
    torch.testing.assert_close(least, middle.expand_as(least))
    assert 0 < float((half - middle).abs().mean()) < float((own - middle).abs().mean())
    with pytest.raises(hm.ArgumentError, match="temperature must be above 0, got 0"):
        model.complete(x, hidden, temperature=0.0)


def wide():
    """Return a model of one dimension of z, whose q reaches all components: weights without a heavy tail."""
    model = made(latent=1).double()
    with torch.no_grad():
        model.posterior.bias[1] = 3.0
    return model


@pytest.fixture(scope="module")
def exact():
    """A model of one dimension of z, pictures, and log p(hidden | visible) by quadrature."""
    model, (x, hidden) = wide(), pictures(count=3)
    x = x.double()
    with torch.no_grad():
        visible = model.look(x, hidden)
        z = torch.linspace(-30, 30, 6001, dtype=torch.float64)[:, None, None].expand(-1, 3, 1)
        values = model.log_likelihood(x, hidden, visible, z) + visible.mixture.log_prob(z)
    return model, x, hidden, values.logsumexp(0) + math.log(60 / 6000)


class TestLikelihood:
    """Against log p(hidden | visible) by quadrature."""

    @pytest.fixture
    def single(self, exact):
        """Bounds of many single samples, `[draws, B]`: the logarithms of importance weights, and their terms."""
        model, x, hidden, _ = exact
        many = (t.expand(3000, *t.shape).flatten(0, 1) for t in (x, hidden))
        found = model.bounds(*many, samples=1, generator=stream(0))
        return tuple(t.unflatten(0, (3000, 3)) for t in (found.elbo, found.reconstruction, found.kl))

    def test_importance_weights_have_it_as_their_mean(self, exact, single):
        assert largest_z((single[0] - exact[-1]).exp(), torch.ones(3)) < 5.5

    def test_other_weights_are_caught(self, exact, single):
        _, reconstruction, kl = single
        for planted in (reconstruction, reconstruction - 2 * kl):
            assert largest_z((planted - exact[-1]).exp(), torch.ones(3)) > 5.5

    def test_several_samples_rise_from_the_bound(self, exact):
        model, x, hidden, log_p = exact
        found = model.bounds(x, hidden, samples=20, generator=stream(1))
        assert (found.elbo < found.log_likelihood).all()
        assert (found.elbo < log_p).all()
        torch.testing.assert_close(found.elbo, found.reconstruction - found.kl)

    @pytest.mark.parametrize("choice", ["mixture", "responsibility", "distance", "encoder"])
    def test_every_choice_is_below_it(self, choice, exact):
        model, x, hidden, log_p = exact
        many = (t.expand(300, *t.shape).flatten(0, 1) for t in (x, hidden))
        with torch.no_grad():
            found = model(*many, choice=choice, estimator=hm.Exact(), generator=stream(0)).value.unflatten(0, (300, 3))
        assert (found.mean(0) - 5 * found.std(0) / 300**0.5 < log_p).all()

    def test_only_hidden_pixels_count(self, exact):
        model, x, hidden, _ = exact
        visible = model.look(x, hidden)
        z = torch.zeros(1, 3, 1, dtype=torch.float64)
        brighter = x.where(hidden, 1.0)
        same = model.log_likelihood(x, hidden, visible, z)
        torch.testing.assert_close(model.log_likelihood(brighter, hidden, visible, z), same)
        assert (model.log_likelihood(1 - x, hidden, visible, z) != same).all()


@pytest.mark.parametrize("choice", ["mixture", "responsibility", "distance", "encoder"])
def test_gradients_reach_every_network(choice):
    model, (x, hidden) = made(), pictures()
    out = model(x, hidden, choice=choice, estimator=hm.Direct(), generator=stream(0))
    (-out.value.mean()).backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    chooser = {name for name, _ in model.named_parameters() if name.startswith("chooser")}
    assert without == (set() if choice == "encoder" else chooser)
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)


def test_warming_up_weighs_the_divergence():
    model, (x, hidden) = made(), pictures()
    out = model(x, hidden, beta=0.25, noise=torch.zeros(1, 5, 4))
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl / 4)


def test_the_documents_loss_is_its_terms():
    """By hand, with noise of zero: both paths at their means."""
    model, (x, hidden) = made(components=1), pictures()
    found = model.max_operation(x, hidden, noise=torch.zeros(1, 5, 4))
    visible = model.look(x, hidden)
    q, mixture = model.encode(x, visible), visible.mixture
    mean, log_variance = mixture.mean[:, 0], mixture.log_variance[:, 0]
    paths = [model.log_likelihood(x, hidden, visible, z[None])[0] for z in (q.mean, mean)]
    kl = hm.gaussian_kl(q.mean, q.log_variance) + hm.gaussian_kl(mean, log_variance, q.mean, q.log_variance)
    torch.testing.assert_close(found, kl - sum(paths))


@pytest.mark.parametrize("shape", SHAPES)
def test_saved_and_loaded(shape, tmp_path):
    model, (x, hidden) = made(shape, fill=0.0), pictures(shape)
    model.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert loaded.fill == 0.0
    first, second = (m.complete(x, hidden, count=2, generator=stream(0)).pictures for m in (model, loaded))
    assert torch.equal(first, second)
