"""The completion model: its likelihood against quadrature, gradients, and that visible pixels are unchanged."""

import math

import pytest
import torch
from mixed_models import largest_z

import hardmax as hm
from hardmax.applications.completion import CompletionModel
from hardmax.applications.completion.masks import draw_masks
from hardmax.random import make_generator

SHAPES = [(1, 8, 8), (3, 16, 12)]


def make_model(shape=(1, 8, 8), **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options = {"components": 3, "latent": 4, "hidden": 16, **options}
        if shape[0] == 3:
            options |= {"architecture": "conv", "likelihood": "gaussian"}
        return CompletionModel.build(shape, **options)


def make_images(shape=(1, 8, 8), count=5):
    x = torch.rand(count, *shape, generator=make_generator(0, "x"))
    return x, draw_masks("rectangles", count, shape[1:], make_generator(0, "mask"))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"components": 1}, {"components": 0}, {"components": 0, "latent": 0}])
def test_visible_pixels_are_unchanged_and_hidden_pixels_not_used(shape, options):
    model, (x, hidden) = make_model(shape, **options), make_images(shape)
    completions = model.complete(x, hidden, count=4, generator=make_generator(0))
    assert completions.images.shape == (4, *x.shape)
    all_hidden = hidden.expand(4, *x.shape)
    assert (completions.images == x)[~all_hidden].all()
    assert ((completions.images >= 0) & (completions.images <= 1)).all()
    other = x.where(~hidden, 0.123)
    same = model.complete(other, hidden, count=4, generator=make_generator(0))
    assert (completions.images[all_hidden] == same.images[all_hidden]).all()
    is_random = (completions.images[0] != completions.images[1])[hidden.expand(x.shape)].any()
    assert bool(is_random) == (options.get("latent") != 0)


def test_components_are_sampled_by_weight_or_as_given():
    model, (x, hidden) = make_model(), make_images()
    weights = model.encode_visible(x, hidden).mixture.log_weights.exp()
    completions = model.complete(x, hidden, count=4000, generator=make_generator(0))
    shares = torch.nn.functional.one_hot(completions.component, 3).double().mean(0)
    assert (shares - weights).abs().max() < 1.001 / 4000  # systematic samples differ by at most one
    assert torch.equal(
        completions.weight, weights.expand(4000, -1, -1).gather(-1, completions.component[..., None]).squeeze(-1)
    )
    assert (model.complete(x, hidden, count=2, component=1).component == 1).all()


@torch.no_grad()
def test_temperature_is_the_spread_within_a_component():
    model, (x, hidden) = make_model(), make_images()
    visible = model.encode_visible(x, hidden)
    middle = model.decode(x, hidden, visible, visible.mixture.mean[None, :, 1])
    own, half, least = (
        model.complete(x, hidden, count=3, component=1, temperature=t, generator=make_generator(0)).images
        for t in (1.0, 0.5, 1e-9)
    )
    torch.testing.assert_close(least, middle.expand_as(least))
    assert 0 < float((half - middle).abs().mean()) < float((own - middle).abs().mean())
    with pytest.raises(hm.ArgumentError, match="temperature must be above 0, got 0"):
        model.complete(x, hidden, temperature=0.0)


def make_wide_model():
    """Return a model with one dimension of z, whose q covers all components: importance weights have no heavy tail."""
    model = make_model(latent=1).double()
    with torch.no_grad():
        model.posterior.bias[1] = 3.0
    return model


@pytest.fixture(scope="module")
def exact():
    """A model with one dimension of z, images, and log p(hidden | visible) by quadrature."""
    model, (x, hidden) = make_wide_model(), make_images(count=3)
    x = x.double()
    with torch.no_grad():
        visible = model.encode_visible(x, hidden)
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
        bounds = model.bounds(*many, samples=1, generator=make_generator(0))
        return tuple(t.unflatten(0, (3000, 3)) for t in (bounds.elbo, bounds.reconstruction, bounds.kl))

    def test_the_mean_of_importance_weights(self, exact, single):
        assert largest_z((single[0] - exact[-1]).exp(), torch.ones(3)) < 5.5

    def test_wrong_weights_are_detected(self, exact, single):
        _, reconstruction, kl = single
        for planted in (reconstruction, reconstruction - 2 * kl):
            assert largest_z((planted - exact[-1]).exp(), torch.ones(3)) > 5.5

    def test_several_samples_exceed_the_bound(self, exact):
        model, x, hidden, log_p = exact
        bounds = model.bounds(x, hidden, samples=20, generator=make_generator(1))
        assert (bounds.elbo < bounds.log_likelihood).all()
        assert (bounds.elbo < log_p).all()
        torch.testing.assert_close(bounds.elbo, bounds.reconstruction - bounds.kl)

    @pytest.mark.parametrize("choice", ["mixture", "responsibility", "distance", "encoder"])
    def test_every_choice_is_a_lower_bound(self, choice, exact):
        model, x, hidden, log_p = exact
        many = (t.expand(300, *t.shape).flatten(0, 1) for t in (x, hidden))
        with torch.no_grad():
            out = model(*many, choice=choice, estimator=hm.Exact(), generator=make_generator(0))
            bound = out.value.unflatten(0, (300, 3))
        assert (bound.mean(0) - 5 * bound.std(0) / 300**0.5 < log_p).all()

    def test_only_hidden_pixels_count(self, exact):
        model, x, hidden, _ = exact
        visible = model.encode_visible(x, hidden)
        z = torch.zeros(1, 3, 1, dtype=torch.float64)
        brighter = x.where(hidden, 1.0)
        same = model.log_likelihood(x, hidden, visible, z)
        torch.testing.assert_close(model.log_likelihood(brighter, hidden, visible, z), same)
        assert (model.log_likelihood(1 - x, hidden, visible, z) != same).all()


@pytest.mark.parametrize("choice", ["mixture", "responsibility", "distance", "encoder"])
def test_gradients_reach_every_network(choice):
    model, (x, hidden) = make_model(), make_images()
    out = model(x, hidden, choice=choice, estimator=hm.Direct(), generator=make_generator(0))
    (-out.value.mean()).backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    chooser = {name for name, _ in model.named_parameters() if name.startswith("chooser")}
    assert without == (set() if choice == "encoder" else chooser)
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)


def test_beta_is_the_weight_of_the_divergence():
    model, (x, hidden) = make_model(), make_images()
    out = model(x, hidden, beta=0.25, noise=torch.zeros(1, 5, 4))
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl / 4)


def test_terms_of_the_max_operation_loss():
    """Computed by hand with noise of zero, so that both paths are at their means."""
    model, (x, hidden) = make_model(components=1), make_images()
    loss = model.max_operation_loss(x, hidden, noise=torch.zeros(1, 5, 4))
    visible = model.encode_visible(x, hidden)
    q, mixture = model.encode(x, visible), visible.mixture
    mean, log_variance = mixture.mean[:, 0], mixture.log_variance[:, 0]
    paths = [model.log_likelihood(x, hidden, visible, z[None])[0] for z in (q.mean, mean)]
    kl = hm.gaussian_kl(q.mean, q.log_variance) + hm.gaussian_kl(mean, log_variance, q.mean, q.log_variance)
    torch.testing.assert_close(loss, kl - sum(paths))


def test_deprecated_methods():
    model, (x, hidden) = make_model(), make_images()
    with pytest.warns(DeprecationWarning, match="use CompletionModel.encode_visible"):
        visible = model.look(x, hidden)
    assert torch.equal(visible.features, model.encode_visible(x, hidden).features)
    noise = torch.zeros(1, 5, 4)
    with pytest.warns(DeprecationWarning, match="use CompletionModel.max_operation_loss"):
        loss = model.max_operation(x, hidden, noise=noise)
    assert torch.equal(loss, model.max_operation_loss(x, hidden, noise=noise))
    mixture, component = visible.mixture, torch.eye(3)[[0] * 5]
    with pytest.warns(DeprecationWarning, match="use GaussianMixture.select_component"):
        mean, _ = mixture.pick(component)
    assert torch.equal(mean, mixture.select_component(component)[0])
    with pytest.warns(DeprecationWarning, match="use GaussianMixture.apply_temperature"):
        narrow = mixture.narrowed(0.5)
    assert torch.equal(narrow.log_variance, mixture.apply_temperature(0.5).log_variance)


@pytest.mark.parametrize("shape", SHAPES)
def test_saved_and_loaded(shape, tmp_path):
    model, (x, hidden) = make_model(shape, fill=0.0), make_images(shape)
    model.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert loaded.fill == 0.0
    first, second = (m.complete(x, hidden, count=2, generator=make_generator(0)).images for m in (model, loaded))
    assert torch.equal(first, second)
