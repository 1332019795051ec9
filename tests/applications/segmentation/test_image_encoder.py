"""The image encoder on phantoms: its bound, sampled segmentations, and training without labels."""

import json

import pytest
import torch
from applications.segmentation.phantoms import dice, ellipse_labels, ellipse_maps, one_hot

import hardmax as hm
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, jensen_bound, log_likelihood, mixing_matrix
from hardmax.applications.segmentation.vae.encoder_training import adapt_encoder, pretrain_encoder, train_encoder
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder, scan_elbo, segment_with_encoder
from hardmax.applications.segmentation.vae.label_training import train_label_vae
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.vae.pca import initialize_with_pca
from hardmax.applications.segmentation.vae.synthesis import synthesise_scan
from hardmax.applications.segmentation.vae.voxel_scores import ExactLikelihood, JensenBound, SampledSegmentation
from hardmax.errors import ArgumentError, DataError

SHAPE = (24, 24)
MIXING = mixing_matrix([0, 1, 2, 1])  # the core looks like the shell: only anatomy distinguishes them


def z_value(draws, exact):
    return abs(float((draws.mean() - exact) / (draws.std() / len(draws) ** 0.5)))


@pytest.fixture(scope="module")
def prior():
    maps = ellipse_maps(80, SHAPE)
    torch.manual_seed(0)
    vae = LabelVAE(maps.mean(0), latents=6)
    initialize_with_pca(vae, maps)
    train_label_vae(vae, maps, steps=80, rate=1e-2, batch=2)
    return vae, maps


def scans(number, seed, contrast=None):
    """Return scans with their masks and labels."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(number):
        labels = ellipse_labels(SHAPE, generator=generator)
        scan = synthesise_scan(one_hot(labels), MIXING, generator=generator)
        x = scan.x if contrast is None else contrast[labels] + 0.06 * torch.randn(SHAPE, generator=generator)
        out.append((torch.where(scan.mask, x, 0.0), scan.mask, labels))
    return out


def anatomy_dice(vae, encoder, cases):
    """Return the mean Dice of the arg max of f at the mean of q(z | x), no intensities used."""
    with torch.no_grad():
        predicted = [vae.log_prior(encoder(x[None], mask[None])[0])[0].argmax(0) for x, mask, _ in cases]
    pairs = zip(predicted, (labels for _, _, labels in cases), strict=True)
    return sum(dice(anatomy, labels, (1, 2, 3)) for anatomy, labels in pairs) / len(cases)


# ------------------------------------------------------------------------------------------- the mathematics
def make_small_model():
    """Return a VAE, an encoder, a scan and Gaussians in float64."""
    torch.manual_seed(0)
    vae = LabelVAE(torch.rand(3, 4, 4), latents=1).double()
    with torch.no_grad():
        vae.decoder.weight += torch.randn_like(vae.decoder.weight)
    encoder = ImageEncoder((4, 4), 1, width=4).double()
    with torch.no_grad():
        encoder.network.layers[-1].bias.copy_(torch.tensor([0.4, -0.7]))
    gaussians = Gaussians(
        torch.tensor([0.0, 1.0, 2.0]).double(), torch.tensor([0.3, 0.5, 1.0]).double(), torch.eye(3).double()
    )
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[0, :2] = False
    return vae, encoder, 2 * torch.rand(4, 4, dtype=torch.float64), mask, gaussians


def scores_of(score, x, mask, log_f, gaussians):
    """Return the sum over voxels for each row of `[R, M, *S]`."""
    inside = log_f[:, :, mask].movedim(0, 1)
    return score(x[mask].expand(inside.shape[1:]), inside, gaussians).sum(1)


@pytest.mark.parametrize("score", [ExactLikelihood(), JensenBound()], ids=str)
def test_bound_against_quadrature(score):
    vae, encoder, x, mask, gaussians = make_small_model()
    with torch.no_grad():
        mean, log_variance = (t[0, 0] for t in encoder(x[None], mask[None]))
        q = torch.distributions.Normal(mean, (log_variance / 2).exp())
        steps = torch.linspace(-8, 8, 1001, dtype=torch.float64)
        weight = torch.distributions.Normal(0.0, 1.0).log_prob(steps).exp() * float(steps[1] - steps[0])
        log_f = vae.log_prior((mean + steps * q.scale)[:, None])
        values = scores_of(score, x, mask, log_f, gaussians)
        kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0))
        generator = torch.Generator().manual_seed(0)
        out = scan_elbo(vae, encoder, x, mask, gaussians, score=score, samples=1000, generator=generator)
        z = out.z[:, 0]
        each = scores_of(score, x, mask, vae.log_prior(z), gaussians)
    assert z_value(each, (weight * values).sum()) < 5
    torch.testing.assert_close(out.reconstruction[0], each.mean())
    torch.testing.assert_close(out.kl[0], kl)
    torch.testing.assert_close(out.value, out.reconstruction - out.kl)


def test_bound_is_below_the_evidence():
    vae, encoder, x, mask, gaussians = make_small_model()
    z = torch.linspace(-9, 9, 2001, dtype=torch.float64)
    with torch.no_grad():
        log_x = scores_of(log_likelihood, x, mask, vae.log_prior(z[:, None]), gaussians)
        evidence = (log_x + torch.distributions.Normal(0.0, 1.0).log_prob(z)).logsumexp(0) + (z[1] - z[0]).log()
        bounds = [
            scan_elbo(
                vae, encoder, x, mask, gaussians, score=score, samples=1000, generator=torch.Generator().manual_seed(1)
            )
            for score in (ExactLikelihood(), JensenBound())
        ]
    assert float(bounds[1].value) < float(bounds[0].value) < float(evidence)


def test_voxels_outside_the_mask_do_not_count():
    vae, encoder, x, mask, gaussians = make_small_model()
    other = torch.where(mask, x, 99.0)
    values = [
        scan_elbo(vae, encoder, image, mask, gaussians, generator=torch.Generator().manual_seed(0)).value
        for image in (x, other)
    ]
    torch.testing.assert_close(*values)


def test_brightness_and_scale_do_not_count():
    encoder = ImageEncoder((8, 8), 2)
    x, mask = torch.rand(2, 8, 8), torch.rand(2, 8, 8) < 0.7
    torch.testing.assert_close(encoder(x, mask)[0], encoder(500 * x - 3, mask)[0], atol=1e-4, rtol=1e-3)


# ------------------------------------------------------------------------------------------- draws of segmentations
def draw_scores(score, draws=40_000):
    """Return values `[draws]` and gradients `[draws, M]` of one voxel's score, and the same of Jensen's bound."""
    gaussians = Gaussians(
        torch.tensor([0.0, 1.0, 3.0]).double(), torch.tensor([0.5, 1.0, 0.7]).double(), torch.eye(3).double()
    )
    x, scores = torch.tensor(0.8).double(), torch.tensor([0.3, -0.5, 0.1]).double()
    many = scores[:, None].expand(3, draws).clone().requires_grad_()
    values = score(x.expand(draws), many.log_softmax(0), gaussians)
    (gradient,) = torch.autograd.grad(values.sum(), many)
    single = scores[:, None].clone().requires_grad_()
    bound = jensen_bound(x[None], single.log_softmax(0), gaussians)
    (exact,) = torch.autograd.grad(bound.sum(), single)
    return values.detach(), gradient.T, float(bound.detach()), exact[:, 0]


@pytest.mark.parametrize("estimator", [hm.StraightThrough(), hm.GumbelSoftmax(tau=0.5, hard=True)], ids=str)
def test_drawn_segmentations_have_the_mean_of_jensen(estimator):
    values, _, bound, _ = draw_scores(SampledSegmentation(estimator, torch.Generator().manual_seed(0)))
    assert z_value(values, bound) < 5
    assert len(values.unique()) == 3  # hard: the score of one label


def test_straight_through_has_the_gradient_of_jensen():
    """The score is linear in the segmentation, where straight-through has no bias."""
    _, gradient, _, exact = draw_scores(SampledSegmentation(hm.StraightThrough(), torch.Generator().manual_seed(0)))
    torch.testing.assert_close(gradient, exact.expand_as(gradient))
    _, gradient, _, _ = draw_scores(SampledSegmentation(hm.StraightThrough(tau=2.0), torch.Generator().manual_seed(0)))
    with pytest.raises(AssertionError):  # planted: another temperature is another gradient
        torch.testing.assert_close(gradient.mean(0), exact, atol=1e-3, rtol=0)


def test_bias_of_gumbel_softmax_falls_with_tau():
    errors = []
    for tau in (1.0, 0.3, 0.1):
        estimator = hm.GumbelSoftmax(tau=tau, hard=True)
        _, gradient, _, exact = draw_scores(SampledSegmentation(estimator, torch.Generator().manual_seed(0)), 400_000)
        errors.append(float((gradient.mean(0) - exact).norm() / exact.norm()))
    assert errors[0] > 2 * errors[1]
    assert errors[2] < 0.05


# ------------------------------------------------------------------------------------------- synthesis
def test_synthetic_scans_have_their_gaussians():
    labels = torch.randint(3, (60, 60), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    everywhere = torch.ones(60, 60, dtype=torch.bool)
    scan = synthesise_scan(
        one_hot(labels, 3), torch.eye(3), mask=everywhere, blur=0.0, bias=0.0, noise=0.0, generator=generator
    )
    for label in range(3):
        intensities = scan.x[labels == label]
        mean, deviation = scan.gaussians.means[label], scan.gaussians.deviations[label]
        if mean > 4 * deviation:  # else intensities are cut at zero
            assert z_value(intensities, mean) < 5
            assert abs(intensities.std() / deviation - 1) < 0.1


def test_synthetic_scans_have_every_contrast():
    generator = torch.Generator().manual_seed(0)
    means = torch.stack(
        [
            synthesise_scan(
                one_hot(ellipse_labels(SHAPE, generator=generator)), MIXING, generator=generator
            ).gaussians.means
            for _ in range(60)
        ]
    )
    orders = {tuple(row.argsort().tolist()) for row in means}
    assert len(orders) == 6


# ------------------------------------------------------------------------------------------- learning
@pytest.fixture(scope="module")
def trained(prior):
    vae, maps = prior
    torch.manual_seed(0)
    encoder = ImageEncoder(SHAPE, 6, width=8)
    fresh = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    losses = pretrain_encoder(vae, encoder, maps, MIXING, steps=200, rate=3e-3, batch=3)
    return encoder, fresh, losses


def copy_of(state):
    encoder = ImageEncoder(SHAPE, 6, width=8)
    encoder.load_state_dict(state)
    return encoder


def test_pretraining_finds_the_anatomy_in_any_contrast(prior, trained):
    vae, _ = prior
    encoder, fresh, losses = trained
    cases = scans(30, seed=5)
    before, after = anatomy_dice(vae, copy_of(fresh), cases), anatomy_dice(vae, encoder, cases)
    assert sum(losses[-20:]) < sum(losses[:20])
    assert after > before + 0.02
    assert all(parameter.requires_grad for parameter in vae.parameters())


def mean_bound_of(vae, encoder, score, cases):
    """Return the mean bound of scans per voxel, their Gaussians fitted."""
    values = []
    with torch.no_grad():
        for x, mask, _ in cases:
            prior, gaussians = vae.log_prior(encoder(x[None], mask[None])[0])[0][:, mask].exp(), None
            for _ in range(5):
                gaussians = score.fit(x[mask], prior, MIXING, gaussians)
            generator = torch.Generator().manual_seed(0)
            out = scan_elbo(vae, encoder, x, mask, gaussians, score=score, samples=20, generator=generator)
            values.append(float(out.value) / int(mask.sum()))
    return sum(values) / len(values)


def test_unlabelled_scans_teach_the_anatomy(prior, trained):
    """On scans of one contrast, without labels; Jensen's bound rises too, but towards another anatomy."""
    vae, _ = prior
    cases = scans(12, seed=7, contrast=torch.tensor([0.1, 0.5, 0.9, 0.5]))
    weights = vae.decoder.weight.clone()
    before = anatomy_dice(vae, copy_of(trained[1]), cases)
    after = {}
    for score in (ExactLikelihood(), JensenBound()):
        encoder = copy_of(trained[1])
        low = mean_bound_of(vae, encoder, score, cases)
        adapt_encoder(vae, encoder, [(x, mask) for x, mask, _ in cases], MIXING, score=score, steps=150, rate=3e-3)
        assert mean_bound_of(vae, encoder, score, cases) > low + 0.05
        after[type(score)] = anatomy_dice(vae, encoder, cases)
    assert torch.equal(weights, vae.decoder.weight)
    assert after[ExactLikelihood] > before + 0.03
    assert after[ExactLikelihood] > after[JensenBound] + 0.05


def test_drawn_segmentations_train_as_jensen_does(prior, trained):
    """Here straight-through has exactly the gradient of the bound; Gumbel-softmax has a noisy one."""
    vae, _ = prior
    cases = scans(4, seed=7, contrast=torch.tensor([0.1, 0.5, 0.9, 0.5]))
    ends = []
    for score in (JensenBound(), SampledSegmentation(hm.StraightThrough(), torch.Generator().manual_seed(1))):
        encoder = copy_of(trained[1])
        adapt_encoder(vae, encoder, [(x, mask) for x, mask, _ in cases], MIXING, score=score, steps=20, rate=1e-3)
        ends.append(encoder.network.layers[-1].weight.detach())
    torch.testing.assert_close(*ends, atol=1e-4, rtol=1e-3)
    score, encoder = SampledSegmentation(generator=torch.Generator().manual_seed(1)), copy_of(trained[1])
    low = mean_bound_of(vae, encoder, JensenBound(), cases)
    adapt_encoder(vae, encoder, [(x, mask) for x, mask, _ in cases], MIXING, score=score, steps=60, rate=3e-3)
    assert mean_bound_of(vae, encoder, JensenBound(), cases) > low + 0.02


def test_posterior_beats_anatomy_only(prior, trained):
    vae, _ = prior
    cases = scans(12, seed=9, contrast=torch.tensor([0.1, 0.5, 0.9, 0.5]))
    anatomy_only = anatomy_dice(vae, trained[0], cases)
    scores, means = [], []
    for x, mask, labels in cases:
        after, gaussians = segment_with_encoder(vae, trained[0], x, mask, MIXING)
        torch.testing.assert_close(after.sum(0), torch.ones(SHAPE))
        means.append(gaussians.means)
        scores.append(dice(after.argmax(0), labels, (1, 2, 3)))
    assert sum(scores) / len(scores) > max(anatomy_only, 0.93)
    torch.testing.assert_close(torch.stack(means).median(0).values[1:], torch.tensor([0.5, 0.9]), atol=0.03, rtol=0)


def test_gaussians_of_a_scan_are_the_same_each_time(prior):
    vae, _ = prior
    x, mask, _ = scans(1, seed=3)[0]
    prior_ = vae.log_prior(torch.zeros(1, 6))[0].detach()[:, mask].exp()
    first, second = (ExactLikelihood().fit(x[mask], prior_, MIXING) for _ in range(2))
    assert torch.equal(first.means, second.means)
    again = ExactLikelihood().fit(x[mask], prior_, MIXING, first)
    torch.testing.assert_close(again.means, first.means, atol=0.02, rtol=0)


# ------------------------------------------------------------------------------------------- files
def test_training_from_files(prior, tmp_path):
    vae, _ = prior
    cases = dict(zip(("a", "b"), scans(2, seed=1), strict=True))
    paths = [tmp_path / name for name in cases]

    def align(path):
        return cases[path.name][:2]

    model = tmp_path / "model"
    train_encoder(paths, vae, model, align=align, mixing=MIXING, pretraining=3, steps=3)
    names = {f"{part}/{name}" for part in ("vae", "encoder") for name in ("config.json", "model.safetensors")}
    assert {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()} == names
    assert {path.name for path in model.iterdir()} == {"vae", "encoder"}
    encoder, prior_again = hm.load_model(model / "encoder"), hm.load_model(model / "vae")
    assert isinstance(encoder, ImageEncoder)
    assert isinstance(prior_again, LabelVAE)
    assert all(p.requires_grad for p in vae.parameters())
    for name, tensor in vae.state_dict().items():
        assert torch.equal(prior_again.state_dict()[name], tensor)
    x, mask = align(paths[0])
    assert segment_with_encoder(prior_again, encoder, x, mask, MIXING)[0].isfinite().all()
    config = json.loads((model / "encoder" / "config.json").read_text())
    (model / "encoder" / "config.json").write_text(json.dumps(config | {"latents": 3}))
    with pytest.raises(DataError, match="do not fit the model"):
        ImageEncoder.from_pretrained(model / "encoder")


def test_bad_scans(prior):
    vae, _ = prior
    encoder = ImageEncoder(SHAPE, 6)
    with pytest.raises(ArgumentError, match="no scans"):
        adapt_encoder(vae, encoder, [], MIXING)
    x, mask, _ = scans(1, seed=1)[0]
    for wrong in ((x[:20], mask[:20]), (x, torch.zeros_like(mask)), (x * torch.nan, mask)):
        with pytest.raises(ArgumentError, match="scan 1 must be finite on the prior's grid"):
            adapt_encoder(vae, encoder, [(x, mask), wrong], MIXING)
