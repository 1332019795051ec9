"""The mixed VAE as a module: its networks, the labelled term, sampling, editing, saving."""

import json

import pytest
import torch
from mixed_models import JOINS, Small
from torch import nn

import hardmax as hm
from hardmax.applications.mixed_vae import GaussianRows, MixedObjective, MixedVAE
from hardmax.applications.mixed_vae.networks import build_classifier

SPACES = [hm.Categorical(5), hm.Categorical(3, 2), hm.Binary(3)]


def build(space=SPACES[0], **options):
    return MixedVAE.build(space, (1, 6, 6), hidden=12, continuous=2, **options)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("join", ["rows", "beside"])
@pytest.mark.parametrize(
    ("architecture", "shape"),
    [("mlp", (1, 9, 7)), ("conv", (3, 17, 33)), ("conv", (1, 8, 8)), ("conv-classifier", (1, 9, 7))],
)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_part_gets_a_gradient(space, architecture, shape, join, likelihood):
    model = MixedVAE.build(
        space,
        shape,
        architecture=architecture,
        join=join,
        continuous=3,
        hidden=20,
        prior="learned",
        likelihood=likelihood,
    )
    x = torch.rand(4, *shape)
    out = model(x)
    (-out.value.mean()).backward()
    assert out.value.shape == (4,)
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
    images, z_d, z_c = model.sample(3)
    assert images.shape == (3, *shape)
    assert z_d.shape == (3, *space.event_shape)
    assert z_c.shape == (3, model.join.rows, 3)
    assert model.edit(x, z_d[:1].expand(4, *space.event_shape)).shape == x.shape
    bounds = model.bounds(x, samples=3)
    torch.testing.assert_close(bounds.elbo, bounds.reconstruction - bounds.kl)


def test_the_paper_s_networks():
    model = MixedVAE.build(hm.Categorical(10), (1, 28, 28))

    def widths(module):
        return [(layer.in_features, layer.out_features) for layer in module.modules() if isinstance(layer, nn.Linear)]

    assert widths(model.trunk) == [(784, 400), (400, 200)]
    assert widths(model.discrete) == [(200, 100), (100, 10)]
    assert widths(model.continuous) == [(200, 1000), (100, 66), (66, 40)]
    assert widths(model.decoder) == [(200, 400), (400, 784)]


def test_a_convolutional_classifier_shares_nothing_with_the_auto_encoder():
    space, shape = hm.Categorical(10), (1, 28, 28)
    plain, model = (MixedVAE.build(space, shape, architecture=name) for name in ("mlp", "conv-classifier"))
    convolutions = [layer for layer in model.discrete.modules() if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels) for layer in convolutions] == [(1, 32), (32, 64), (64, 128)]
    assert model.scores(torch.zeros(2, *shape)).shape == (2, 10)
    gaussians = sum(p.numel() for part in (plain.trunk, plain.continuous) for p in part.parameters())
    assert sum(p.numel() for p in model.continuous.parameters()) == gaussians
    assert not list(model.trunk.parameters())
    encoded = model.encode(torch.rand(2, *shape))
    (encoded.mean.sum() + encoded.log_variance.sum()).backward()
    assert all(parameter.grad is None for parameter in model.discrete.parameters())


@pytest.mark.parametrize(("shape", "count"), [((1, 28, 28), 3), ((3, 9, 20), 3), ((2, 4, 3), 0)])
def test_a_convolutional_classifier_treats_each_image_alone(shape, count):
    """Images of any size; the features of an image do not depend on the other images of the batch."""
    classifier = build_classifier(shape, 11)
    assert sum(isinstance(layer, nn.Conv2d) for layer in classifier) == count
    x = torch.rand(6, *shape)
    features = classifier(x)
    assert features.shape == (6, 11)
    torch.testing.assert_close(classifier(x[4:5]), features[4:5])


def test_attributes_of_faces():
    model = MixedVAE.build(
        hm.Binary(2), (3, 64, 64), architecture="conv", join="beside", continuous=64, likelihood="gaussian"
    )
    x = torch.rand(2, 3, 64, 64)
    encoded = model.encode(x)
    assert encoded.scores.shape == (2, 2)
    assert encoded.mean.shape == encoded.log_variance.shape == (2, 1, 64)
    assert model.decode(model.predict(x), encoded.mean).shape == (2, 3, 64, 64)


@pytest.mark.parametrize("space", [hm.Binary(40), hm.PairwiseBinary(3), hm.Subset(4, 2), hm.Permutation(3)], ids=str)
def test_other_spaces(space, tmp_path):
    model, x = build(space), torch.rand(4, 1, 6, 6).round()
    (-model(x).value.mean()).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model.bounds(x, samples=5).elbo.shape == (4,)
    assert model.sample(3)[1].shape == (3, *space.event_shape)
    model.save_pretrained(tmp_path)
    assert MixedVAE.from_pretrained(tmp_path).space == space


# ---------------------------------------------------------------------------------------------------------------- terms
class TestEncoded:
    model = build()
    x = torch.rand(6, 1, 6, 6).round()

    def test_encoding_once_gives_the_same_bounds(self):
        encoded = self.model.encode(self.x)
        seeded = [torch.Generator().manual_seed(0) for _ in range(4)]
        torch.testing.assert_close(
            self.model(self.x[2:], encoded=encoded[2:], generator=seeded[0]).value,
            self.model(self.x[2:], generator=seeded[1]).value,
        )
        label = torch.eye(5)[:2]
        torch.testing.assert_close(
            self.model.labelled_bound(self.x[:2], label, encoded=encoded[:2], generator=seeded[2]),
            self.model.labelled_bound(self.x[:2], label, generator=seeded[3]),
        )
        torch.testing.assert_close(encoded.scores, self.model.scores(self.x))

    def test_the_encoder_may_see_another_form_of_the_image(self):
        grey = self.model.encode(self.x * 0.9)
        noise = {"noise": torch.zeros(1, 6, 5), "continuous_noise": torch.zeros(6, 5, 2)}
        assert not torch.equal(self.model(self.x, encoded=grey, **noise).value, self.model(self.x, **noise).value)

    def test_the_same_noise_gives_the_same_bound(self):
        noise = torch.randn(2, 6, 5), torch.randn(6, 5, 2)
        first, second = (self.model(self.x, noise=noise[0], continuous_noise=noise[1]) for _ in range(2))
        assert torch.equal(first.value, second.value)
        assert first.z.shape == (2, 6, 5)


# ------------------------------------------------------------------------------------------------------------- labelled
class Constant(nn.Module):
    """Returns the same output for every image."""

    def __init__(self, *tensors):
        super().__init__()
        self.tensors = tensors

    def forward(self, h):
        outputs = tuple(tensor.expand(len(h), *tensor.shape) for tensor in self.tensors)
        return outputs if len(outputs) > 1 else outputs[0]


def make_model(small):
    model = MixedVAE(
        nn.Identity(),
        Constant(small.scores),
        Constant(small.mean, small.log_variance),
        small.decoder,
        small.join,
        prior="learned",
    )
    model.prior = nn.Parameter(small.prior.detach())
    return model


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_labelled_against_enumeration(join):
    """Value, and gradients of mean, log-variance, decoder and prior, for every label; none for the scores."""
    small = Small(join)
    model, count = make_model(small), len(small.members)
    noise = small.noise.expand(count, *small.noise.shape)
    bound = model.labelled_bound(small.x.expand(count, 5), small.members, continuous_noise=noise)
    expected = small.values() + small.log_p()
    torch.testing.assert_close(bound, expected, rtol=1e-10, atol=1e-10)
    assert model.prior is not None
    ours = [model.prior, small.mean, small.log_variance, *small.decoder.parameters()]
    theirs = [small.prior, *ours[1:]]
    weight = torch.arange(1.0, count + 1, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(weight @ bound, ours, retain_graph=True),
        torch.autograd.grad(weight @ expected, theirs),
        rtol=1e-9,
        atol=1e-9,
    )
    assert torch.autograd.grad(bound.sum(), small.scores, allow_unused=True) == (None,)
    # Planted error: without log p(z) the value differs, and the prior gets no gradient.
    with pytest.raises(AssertionError):
        torch.testing.assert_close(bound - small.log_p(), expected)


def test_labelled_is_deprecated():
    model, x = build(hm.Categorical(5)), torch.rand(3, 1, 6, 6).round()
    noise, label = torch.zeros(3, 5, 2), torch.eye(5)[:3]
    with pytest.warns(DeprecationWarning, match="use MixedVAE.labelled_bound"):
        bound = model.labelled(x, label, continuous_noise=noise)
    assert torch.equal(bound, model.labelled_bound(x, label, continuous_noise=noise))


def test_a_uniform_prior_counts_too():
    model, x = build(hm.Categorical(5)), torch.rand(3, 1, 6, 6).round()
    noise, label = torch.zeros(3, 5, 2), torch.eye(5)[:3]
    encoded = model.encode(x)
    f = MixedObjective(model.likelihood(x), model.join, encoded.mean, encoded.log_variance, noise=noise)
    expected = f(label[None])[0] - torch.tensor(5.0).log()
    torch.testing.assert_close(model.labelled_bound(x, label, continuous_noise=noise), expected)


# ------------------------------------------------------------------------------------------------------------- images
class TestImages:
    def test_the_same_draw_with_another_category(self):
        model = build()
        _, _, z_c = model.sample(4, generator=torch.Generator().manual_seed(0))
        rows = [model.sample(4, z_d=torch.eye(5)[k].expand(4, 5), z_c=z_c)[0] for k in range(5)]
        again = model.sample(4, z_d=torch.eye(5)[0].expand(4, 5), z_c=z_c)[0]
        assert torch.equal(rows[0], again)
        assert not torch.equal(rows[0], rows[1])

    def test_edit_with_the_predicted_z_reconstructs(self):
        model = build(hm.Binary(3), join="beside")
        x = torch.rand(4, 1, 6, 6).round()
        z_d = model.predict(x)
        assert torch.equal(z_d, (model.scores(x) > 0).float())
        z_c = model.encode(x).mean
        assert torch.equal(model.edit(x, z_d), model.decode(z_d, z_c))
        assert torch.equal(model.edit(x, 1 - z_d), model.decode(1 - z_d, z_c))

    def test_masked_rows_have_no_effect(self):
        model = build()
        z_d, z_c = torch.eye(5)[:1], torch.randn(1, 5, 2)
        other = z_c.clone()
        other[:, 1:] = 7
        assert torch.equal(model.decode(z_d, z_c), model.decode(z_d, other))

    def test_seeds(self):
        model = build()
        first, again, other = (model.sample(4, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
        assert not torch.equal(first[0], other[0])


# --------------------------------------------------------------------------------------------------------------- errors
class TestErrors:
    x = torch.rand(4, 1, 6, 6).round()

    @pytest.mark.parametrize("z_d", [torch.zeros(4), torch.zeros(3, 5), torch.zeros(4, 6)], ids=lambda z: str(z.shape))
    def test_labels(self, z_d):
        with pytest.raises(hm.ShapeError, match=r"4 images.*need \[4, 5\].*not its number"):
            build().labelled_bound(self.x, z_d)

    def test_latents(self):
        model = build()
        for z_d, z_c in ((4, 3), (3, 4)):
            with pytest.raises(hm.ShapeError, match=r"need.*\[R, 5\] and \[R, 5, 2\]"):
                model.decode(torch.eye(5)[:z_d], torch.zeros(z_c, 5, 2))
        with pytest.raises(hm.ShapeError, match=r"\[4, 2\]"):
            model.sample(4, z_c=torch.zeros(4, 2))

    def test_encoded_of_other_images(self):
        model = build()
        with pytest.raises(hm.ShapeError, match=r"mean has shape \[3, 5, 2\]"):
            model(self.x, encoded=model.encode(self.x[:3]))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"join": "above"}, "join"),
            ({"architecture": "transformer"}, "architecture"),
            ({"prior": "flat"}, "prior"),
            ({"likelihood": "poisson"}, "likelihood"),
        ],
    )
    def test_names(self, options, message):
        with pytest.raises(Exception, match=message):
            build(**options)

    def test_no_continuous_dimensions(self):
        with pytest.raises(hm.ArgumentError, match="c=0"):
            MixedVAE.build(hm.Categorical(5), (1, 6, 6), continuous=0)


# --------------------------------------------------------------------------------------------------------------- saving
class TestSaving:
    @pytest.mark.parametrize("join", ["rows", "beside"])
    @pytest.mark.parametrize("architecture", ["mlp", "conv", "conv-classifier"])
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_round_trip(self, space, architecture, join, tmp_path):
        model = build(space, architecture=architecture, join=join, prior="learned", likelihood="gaussian")
        model.save_pretrained(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
        before = torch.get_rng_state()
        loaded = MixedVAE.from_pretrained(tmp_path)
        assert torch.equal(torch.get_rng_state(), before)
        assert loaded.join == model.join
        for (name, a), (_, b) in zip(model.state_dict().items(), loaded.state_dict().items(), strict=True):
            assert torch.equal(a, b), name

    def test_another_configuration(self, tmp_path):
        build().save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        for changed, message in (
            ({"join": "beside"}, "do not fit"),
            ({"join": "above"}, "not hold the configuration"),
            ({"continuous": "many"}, "not hold the configuration"),
        ):
            (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
            with pytest.raises(hm.DataError, match=message):
                MixedVAE.from_pretrained(tmp_path)

    def test_own_networks(self, tmp_path):
        def make():
            networks = nn.Flatten(), nn.Linear(36, 5), nn.Bilinear(36, 36, 2), nn.Linear(10, 36)
            return MixedVAE(*networks, GaussianRows(hm.Categorical(5), 2))

        model = make()
        model.save_pretrained(tmp_path)
        with pytest.raises(hm.DataError, match="networks of your own"):
            MixedVAE.from_pretrained(tmp_path)
        x = torch.rand(2, 1, 6, 6)
        assert torch.equal(MixedVAE.from_pretrained(tmp_path, make()).scores(x), model.scores(x))
