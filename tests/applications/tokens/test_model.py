"""The dVAE against enumeration: its bound, its tokens, and the gradients of vector quantization."""

import math

import pytest
import torch

import hardmax as hm
from hardmax.applications.tokens import TokenVAE

CODES, PLACES = 3, 4
SPACE = hm.Categorical(CODES, PLACES)


@pytest.fixture(params=["gaussian", "bernoulli"])
def small(request):
    """A model of 2 x 2 tokens of three codes, in float64, and images: 81 values of z."""
    torch.manual_seed(0)
    model = TokenVAE.build((1, 4, 4), CODES, dimensions=4, longest=2, width=4, likelihood=request.param).double()
    x = torch.rand(5, 1, 4, 4, dtype=torch.float64)
    model.codebook.initialize(model.encode(x), torch.Generator().manual_seed(0))
    if model.log_variance is not None:
        torch.nn.init.constant_(model.log_variance, -1.0)
    return model, x


def enumerate_z(model, x):
    """Return log p(x | z) of every z, computed without the model's likelihood, `[B, M]`; and q(z)."""
    members = SPACE.enumerate(dtype=x.dtype)
    pixels = model.decoder.pixels(members @ model.codebook.vectors)
    if model.log_variance is None:
        values = torch.distributions.Bernoulli(logits=pixels, validate_args=False).log_prob(x[:, None])
    else:
        values = torch.distributions.Normal(pixels, (model.log_variance / 2).exp()).log_prob(x[:, None])
    log_q = model.scores(x).log_softmax(-1)
    return values.sum((-1, -2, -3)), torch.einsum("mnk,bnk->bm", members, log_q).exp()


def test_the_bound_against_enumeration(small):
    model, x = small
    values, q = enumerate_z(model, x)
    kl = (q * (q.log() + PLACES * math.log(CODES))).sum(1)
    wanted = (q * values).sum(1) - kl
    exact = hm.exact_bounds(model.likelihood(x), model.scores(x), SPACE)
    torch.testing.assert_close(exact.elbo, wanted)
    count = 4000
    draws = model.bounds(x.repeat_interleave(count, 0), generator=torch.Generator().manual_seed(0))
    estimates = draws.elbo.view(5, count)
    error = estimates.std(1) / math.sqrt(count)
    assert (((estimates.mean(1) - wanted) / error).abs() < 5).all()
    assert (((estimates.mean(1) - wanted - 0.1 * kl) / error).abs() > 5).any()  # the test detects a wrong KL
    torch.testing.assert_close(draws.kl.view(5, count)[:, 0], kl)


def test_the_bound_of_tokens_is_one(small):
    model, x = small
    values, _ = enumerate_z(model, x)
    log_p = (values - PLACES * math.log(CODES)).logsumexp(1)
    bounds = model.token_bounds(x)
    best = (values == bounds.reconstruction[:, None]) | ((values - bounds.reconstruction[:, None]).abs() < 1e-9)
    assert best.any(1).all()
    assert (bounds.elbo <= log_p).all()
    torch.testing.assert_close(bounds.kl, torch.full_like(bounds.kl, PLACES * math.log(CODES)))


@pytest.mark.parametrize(
    "estimator", [hm.GumbelSoftmax(), hm.StraightThrough(), hm.ReinMax(), hm.ShortlistDirect(1.0, 2, 2), hm.Direct()]
)
def test_any_estimator_teaches_all_of_it(small, estimator):
    model, x = small
    out = model(x, estimator=estimator, generator=torch.Generator().manual_seed(0))
    (-out.value.mean()).backward()
    torch.testing.assert_close(out.value, out.reconstruction - out.kl)
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_an_unbiased_gradient_is_that_of_the_bound(small):
    """Also for the encoder, whose scores share the codebook with the decoder: a z-test against autograd."""
    model, x = small
    values, q = enumerate_z(model, x[:1])
    exact = (q * (values - q.log())).sum()
    parameters = list(model.parameters())
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(exact, parameters)])
    generator, gradients = torch.Generator().manual_seed(0), []
    for _ in range(100):
        out = model(x[:1].expand(40, -1, -1, -1), estimator=hm.LocalExpectation(), generator=generator)
        slopes = torch.autograd.grad(out.value.mean(), parameters)
        gradients.append(torch.cat([g.flatten() for g in slopes]))
    estimates = torch.stack(gradients)
    error = (estimates.std(0) / math.sqrt(len(estimates))).clamp_min(1e-9)
    z = (estimates.mean(0) - wanted) / error
    assert z.abs().max() < 6
    assert ((estimates.mean(0) - 1.2 * wanted) / error).abs().max() > 6  # the test detects a wrong gradient


def test_tokens_are_the_nearest_codes_and_are_drawn_as_such(small):
    model, x = small
    tokens = model.tokenize(x)
    assert tokens.shape == (5, 2, 2)
    assert tokens.dtype == torch.int64
    nearest = torch.cdist(model.encode(x), model.codebook.vectors.expand(5, -1, -1)).argmin(-1)
    assert torch.equal(tokens.flatten(1), nearest)
    torch.testing.assert_close(model.detokenize(tokens), model.decode(model.predict(x)))


def test_quantization_teaches_each_its_own(small):
    """The gradient of the reconstruction bypasses the arg max; each distance has a gradient for one side only."""
    model, x = small
    book, encoder = model.codebook.vectors, next(model.encoder.parameters())
    out = model.quantize(x)
    assert torch.equal(out.z, model.predict(x))
    torch.testing.assert_close(out.reconstruction.detach(), model.token_bounds(x).reconstruction)
    torch.testing.assert_close(out.distance, out.commitment)

    def has_gradients(value):
        slopes = torch.autograd.grad(value.sum(), [book, encoder], retain_graph=True, allow_unused=True)
        return [slope is not None and bool(slope.any()) for slope in slopes]

    assert has_gradients(out.reconstruction) == [False, True]
    assert has_gradients(out.distance) == [True, False]
    assert has_gradients(out.commitment) == [False, True]


def test_the_gradient_past_the_arg_max_is_that_of_the_code(small):
    model, x = small
    e = model.encode(x).detach().requires_grad_()
    model.encode = lambda _: e
    (bypassed,) = torch.autograd.grad(model.quantize(x).reconstruction.sum(), e)
    codes = model.codebook.look_up(model.space.argmax(model.codebook.scores(e))).detach().requires_grad_()
    (of_code,) = torch.autograd.grad(model._likelihood(model.decoder.pixels, x)(codes[None]).sum(), codes)
    torch.testing.assert_close(bypassed, of_code)


def test_the_former_name_of_quantize_warns(small):
    model, x = small
    with pytest.deprecated_call(match="use TokenVAE.quantize"):
        out = model.quantized(x)
    assert torch.equal(out.z, model.quantize(x).z)


def test_saved_and_loaded(tmp_path):
    model = TokenVAE.build((3, 20, 12), 5, dimensions=3, longest=5, width=4)
    assert model.grid == (5, 3)
    assert model.shape == (3, 20, 12)
    model.codebook.used[2] = 7
    model.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    x = torch.rand(2, 3, 20, 12)
    assert torch.equal(loaded.tokenize(x), model.tokenize(x))
    assert loaded.codebook.used[2] == 7
    assert loaded.fingerprint == model.fingerprint
    with torch.no_grad():
        next(loaded.parameters()).add_(1e-3)
    assert loaded.fingerprint != model.fingerprint


@pytest.mark.parametrize("codebook", ["average", "linear", "finite"])
def test_other_codebooks(codebook, tmp_path):
    """They quantize to their nearest codes, are saved and loaded, and enter the fingerprint."""
    torch.manual_seed(0)
    model, x = (
        TokenVAE.build((1, 8, 8), 12, dimensions=3, longest=2, width=4, codebook=codebook),
        torch.rand(6, 1, 8, 8),
    )
    out = model.quantize(x)
    codes = model.codebook.compute_codes().float()
    vectors = out.e if codebook != "finite" else model.codebook(out.e).quantized
    assert torch.equal(out.z.argmax(-1), torch.cdist(vectors, codes.expand(6, -1, -1)).argmin(-1))
    assert torch.equal(out.z, model.predict(x))
    torch.testing.assert_close(out.reconstruction, model.token_bounds(x).reconstruction)
    if codebook == "finite":
        assert not out.distance.any()
    else:
        torch.testing.assert_close(out.distance, (codes[out.z.argmax(-1)] - out.e).square().sum((1, 2)))
    (out.distance + out.commitment - out.reconstruction).sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    assert next(model.encoder.parameters()).grad.any()
    model.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert torch.equal(loaded.tokenize(x), model.tokenize(x))
    assert loaded.shape == model.shape == (1, 8, 8)
    assert loaded.fingerprint == model.fingerprint
    if codebook != "finite":
        loaded.codebook.vectors += 1e-3
        assert loaded.fingerprint != model.fingerprint


@pytest.mark.parametrize("wrong", [{"codes": 1}, {"dimensions": 0}, {"longest": 0}])
def test_numbers_that_make_no_codebook(wrong):
    with pytest.raises(hm.ArgumentError, match="at least 2 codes"):
        TokenVAE.build((1, 4, 4), **wrong)
