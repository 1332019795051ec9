"""The label VAE: its bound against quadrature and enumeration, its initialisation, training and saving."""

import itertools
import json
import math

import pytest
import torch
from applications.segmentation.phantoms import ellipse_maps

import hardmax as hm
from hardmax.applications.segmentation.vae.label_networks import ConvDecoder, ConvEncoder, LinearDecoder, halve_sizes
from hardmax.applications.segmentation.vae.label_training import augment_maps, measure_bound, train_label_vae
from hardmax.applications.segmentation.vae.label_vae import LabelVAE, log_location
from hardmax.applications.segmentation.vae.pca import fisher_information, initialize_with_pca
from hardmax.errors import ArgumentError, DataError

NETWORKS = ["linear", "convolutional"]


def z_value(draws, exact):
    """Return how many standard errors the mean of draws is from a number."""
    return abs(float((draws.mean() - exact) / (draws.std() / len(draws) ** 0.5)))


def make_tiny_vae(network="linear", shape=(2, 2), labels=2, latents=1, seed=0):
    """Return a VAE of a few voxels with random weights, in float64."""
    torch.manual_seed(seed)
    vae = LabelVAE(torch.rand(labels, *shape), latents=latents, factor=1, network=network, width=4).double()
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
        if network == "linear":
            vae.encoder.projection.copy_(torch.randn_like(vae.encoder.projection))
    return vae


def all_maps(labels, shape):
    voxels = math.prod(shape)
    members = torch.tensor(list(itertools.product(range(labels), repeat=voxels))).view(-1, *shape)
    return torch.nn.functional.one_hot(members, labels).movedim(-1, 1).double()


# ------------------------------------------------------------------------------------------- the mathematics
@pytest.mark.parametrize("network", NETWORKS)
def test_probabilities_of_all_maps_sum_to_one(network):
    vae, maps = make_tiny_vae(network), all_maps(2, (2, 2))
    z = torch.randn(5, 1, 1, dtype=torch.float64).expand(5, len(maps), 1)
    torch.testing.assert_close(vae.likelihood(maps)(z).logsumexp(1), torch.zeros(5).double())


def quadrature(vae, maps):
    """Return `log p(s)` by integrating over the one latent on a fine grid."""
    z = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z)
    log_s = vae.likelihood(maps)(z[:, None, None].expand(-1, len(maps), 1))
    return (log_s + log_p[:, None]).logsumexp(0) + math.log(float(z[1] - z[0]))


def bound_by_quadrature(vae, maps):
    """Return reconstruction and KL of the bound by integrating over q on a grid."""
    mean, log_variance = vae.encode(maps)
    q = torch.distributions.Normal(mean, (log_variance / 2).exp())
    steps = torch.linspace(-8, 8, 2001, dtype=torch.float64)[:, None, None]
    z = mean + steps * q.scale
    weight = torch.distributions.Normal(0.0, 1.0).log_prob(steps[..., 0]).exp() * float(steps[1, 0, 0] - steps[0, 0, 0])
    kl = q.log_prob(z)[..., 0] - torch.distributions.Normal(0.0, 1.0).log_prob(z)[..., 0]
    return (weight * vae.likelihood(maps)(z)).sum(0), (weight * kl).sum(0)


def check_bound(bound):
    """Both terms of a bound against quadrature, by a z-test over draws; and it is a bound."""
    for network in NETWORKS:
        vae, maps = make_tiny_vae(network), all_maps(2, (2, 2))[[3, 5, 10]]
        with torch.no_grad():
            reconstruction, kl = bound_by_quadrature(vae, maps)
            truth = quadrature(vae, maps)
            assert (reconstruction - kl <= truth).all()
            generator = torch.Generator().manual_seed(0)
            many = maps.repeat_interleave(20_000, 0)
            values = bound(vae, many, generator).view(3, -1)
            for draws, exact in zip(values, reconstruction - kl, strict=True):
                assert z_value(draws, exact) < 5


def test_bound_against_quadrature():
    check_bound(lambda vae, maps, generator: vae(maps, generator=generator).value)


def kl_with_the_wrong_sign(vae, maps, generator):
    out = vae(maps, generator=generator)
    return out.reconstruction + out.kl


def without_log_location(vae, maps, generator):
    """The location prior multiplied in after the softmax and never normalised again."""
    out = vae(maps, generator=generator)
    return out.value + 0.05 * (maps * vae.log_location).sum((1, 2, 3))


@pytest.mark.parametrize("wrong", [kl_with_the_wrong_sign, without_log_location])
def test_wrong_bounds_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_bound(wrong)


def test_bounds_of_all_maps_are_below_a_distribution():
    """`log p(s)` of all maps sums to one, and each bound lies below its own."""
    vae, maps = make_tiny_vae(), all_maps(2, (2, 2))
    with torch.no_grad():
        truth = quadrature(vae, maps)
        torch.testing.assert_close(truth.logsumexp(0), torch.zeros(()).double(), atol=1e-9, rtol=0)
        reconstruction, kl = bound_by_quadrature(vae, maps)
    assert (reconstruction - kl < truth).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_probabilities_stand_for_their_mean(network):
    """A map of probabilities has the mean of the bounds of maps drawn from it: voxels are independent given z."""
    vae, maps = make_tiny_vae(network), all_maps(2, (2, 2))
    soft = torch.rand(1, 2, 2, 2, dtype=torch.float64)
    soft /= soft.sum(1, keepdim=True)
    chance = (soft * maps).sum(1).flatten(1).prod(1)
    z = torch.randn(1, 1, 1, dtype=torch.float64)
    each = vae.likelihood(maps)(z.expand(1, len(maps), 1))[0]
    torch.testing.assert_close(vae.likelihood(soft)(z)[0, 0], (chance * each).sum())


def test_untrained_is_the_location_prior():
    location = 0.1 + torch.rand(3, 8, 8, 4)
    vae = LabelVAE(location, latents=2)
    probabilities = vae.log_prior(torch.zeros(1, 2))[0].exp()
    torch.testing.assert_close(probabilities, location / location.sum(0))


def test_location_is_floored_and_normalised():
    frequencies = torch.tensor([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]])
    location = log_location(frequencies, 1e-3).exp()
    torch.testing.assert_close(location.sum(0), torch.ones(2))
    assert location.min() > 0.9e-3
    assert (LabelVAE(frequencies.view(3, 2, 1), factor=1).log_location.exp() > 0).all()


def test_coarse_voxels_lie_in_the_middle_of_theirs():
    """A linear ramp of logits is interpolated to the same ramp at the voxels' places."""
    vae = LabelVAE(torch.ones(2, 16, 8), latents=1, factor=4)
    with torch.no_grad():
        ramp = torch.arange(4.0)[:, None].expand(4, 2) * 4 + 1.5  # places of coarse voxels, in voxels
        vae.decoder.bias.copy_(torch.stack([ramp, torch.zeros(4, 2)]).flatten())
        log_f = vae.log_prior(torch.zeros(1, 1))[0]
    difference = (log_f[0] - log_f[1])[2:14]
    torch.testing.assert_close(difference, torch.arange(2.0, 14.0)[:, None].expand(12, 8))


# ------------------------------------------------------------------------------------------- networks
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("shape", [(12, 16), (8, 12, 10)])
def test_slices_and_volumes(network, shape):
    vae = LabelVAE(torch.rand(3, *shape), latents=4, network=network, width=4)
    maps = torch.softmax(torch.randn(2, 3, *shape), 1)
    (-vae(maps, samples=2).value.mean()).backward()
    for name, parameter in vae.named_parameters():
        assert parameter.grad is not None, name
    assert vae.sample(5).shape == (5, 3, *shape)
    torch.testing.assert_close(vae.sample(5).sum(1), torch.ones(5, *shape))


def test_sizes_of_networks():
    assert halve_sizes((20, 24, 20))[-1] == (3, 3, 3)
    for shape in [(3, 4), (5, 9), (5, 6, 7)]:
        assert ConvDecoder(2, shape, 3)(torch.zeros(1, 3)).shape == (1, 2, *shape)
        assert ConvEncoder(2, shape, 3)(torch.zeros(1, 2, *shape))[0].shape == (1, 3)
        assert LinearDecoder(2, shape, 3)(torch.zeros(1, 3)).shape == (1, 2, *shape)


# ------------------------------------------------------------------------------------------- start and training
def test_pca_start_is_probabilistic_pca():
    """The decoder's weights span the principal axes, and the encoder is the posterior of the linear Gaussian model."""
    maps = ellipse_maps(30, (16, 16)).double()
    vae = LabelVAE(maps.mean(0), latents=5).double()
    initialize_with_pca(vae, maps)
    features = vae.features(maps).flatten(1)
    centred = features - features.mean(0)
    values, axes = torch.linalg.svd(centred, full_matrices=False)[1:]
    values = values.square() / 30
    noise = values[5:].sum() / 25
    torch.testing.assert_close(vae.encoder.centre, features.mean(0))
    span = axes[:5]
    torch.testing.assert_close(vae.decoder.weight @ span.T @ span, vae.decoder.weight)
    weight = (values[:5] - noise).sqrt()[:, None] * span
    precision = weight @ weight.T / noise + torch.eye(5).double()
    mean = torch.linalg.solve(precision, weight @ centred.T / noise).T
    torch.testing.assert_close(vae.encode(maps)[0].abs(), mean.abs())
    gains = ((vae.decoder.weight * weight).sum(1) / weight.square().sum(1)).abs()  # axes have no sign of their own
    torch.testing.assert_close(gains, gains[:1].expand(5))
    torch.testing.assert_close(vae.decoder.bias, gains[0] * features.mean(0))


def test_information_is_the_curvature():
    """The second derivative of `-log p(s | z)` at z = 0; where logits are linear it is the same for all s."""
    vae = make_tiny_vae(shape=(4, 2), labels=3, latents=2)
    maps = torch.nn.functional.one_hot(torch.randint(3, (1, 4, 2)), 3).movedim(-1, 1).double()
    hessian = torch.autograd.functional.hessian(
        lambda z: vae.likelihood(maps)(z[None, None]).sum(), torch.zeros(2).double()
    )
    torch.testing.assert_close(fisher_information(vae), -hessian.diagonal())


def test_pca_start_raises_the_bound_and_training_more():
    maps, held = ellipse_maps(60, (24, 24)), ellipse_maps(20, (24, 24), seed=1)
    torch.manual_seed(0)
    vae = LabelVAE(maps.mean(0), latents=8)
    kept = initialize_with_pca(vae, maps)
    generator = torch.Generator().manual_seed(0)
    start, location = measure_bound(vae, held, generator=generator)
    train_label_vae(vae, maps, steps=60, rate=1e-2)
    trained, _ = measure_bound(vae, held, generator=generator)
    assert 0.5 < kept <= 1
    assert start > location + 0.05
    assert trained > start + 0.01


def test_convolutional_learns():
    maps, held = ellipse_maps(60, (24, 24)), ellipse_maps(20, (24, 24), seed=1)
    torch.manual_seed(0)
    vae = LabelVAE(maps.mean(0), latents=8, network="convolutional", width=8)
    losses = train_label_vae(vae, maps, steps=120, rate=1e-2, batch=3)
    bound, location = measure_bound(vae, held, generator=torch.Generator().manual_seed(0))
    assert sum(losses[-20:]) < sum(losses[:20])
    assert bound > location + 0.02


def test_more_latents_than_maps():
    maps = ellipse_maps(4, (16, 16))
    vae = LabelVAE(maps.mean(0), latents=10)
    assert initialize_with_pca(vae, maps.half()) == pytest.approx(1.0, abs=1e-3)
    assert (vae.decoder.weight[3:] == 0).all()
    assert vae(maps).value.isfinite().all()


def test_bank_holds_the_maps_then_deformed_ones():
    maps = ellipse_maps(3, (16, 16))
    generator = torch.Generator().manual_seed(0)
    bank = augment_maps(maps, 8, lambda one, generator: one.roll(1, 1), generator=generator)
    assert bank.dtype == torch.float16
    assert torch.equal(bank[:3].float(), maps)
    for one in bank[3:].float():
        assert any(torch.equal(one, other.roll(1, 1)) for other in maps)
    with pytest.raises(ArgumentError, match="count is 2"):
        augment_maps(maps, 2, lambda one, generator: one, generator=generator)


# ------------------------------------------------------------------------------------------- saving
@pytest.mark.parametrize("network", NETWORKS)
def test_save_and_load(network, tmp_path):
    vae = LabelVAE(torch.rand(3, 8, 8), latents=2, network=network, width=4)
    vae.save_pretrained(tmp_path / "prior")
    before = torch.get_rng_state()
    loaded = LabelVAE.from_pretrained(tmp_path / "prior")
    assert torch.equal(torch.get_rng_state(), before)
    z = torch.randn(2, 2)
    assert torch.equal(vae.log_prior(z), loaded.log_prior(z))
    assert sorted(path.name for path in (tmp_path / "prior").iterdir()) == ["config.json", "model.safetensors"]
    assert type(hm.load_model(tmp_path / "prior")) is LabelVAE


def test_broken_files(tmp_path):
    with pytest.raises(DataError, match="is missing"):
        LabelVAE.from_pretrained(tmp_path)
    LabelVAE(torch.rand(3, 8, 8), latents=2).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, words in (
        ({"latents": 5}, "do not fit the model"),
        ({"shape": 8}, "does not hold the configuration of a label-vae"),
        ({"network": "flow"}, "does not hold the configuration of a label-vae"),
        ({"model": "image-encoder"}, "'image-encoder', not 'label-vae'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(DataError, match=words):
            LabelVAE.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot read"):
        LabelVAE.from_pretrained(tmp_path)


def test_bad_input():
    with pytest.raises(ArgumentError, match="divisible by factor=4"):
        LabelVAE(torch.rand(3, 8, 9), factor=4)
    with pytest.raises(ArgumentError, match="two maps"):
        initialize_with_pca(LabelVAE(torch.rand(3, 8, 8)), torch.rand(1, 3, 8, 8))
