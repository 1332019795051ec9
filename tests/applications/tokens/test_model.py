"""The dVAE against enumeration: its bound, its tokens, and what vector quantization teaches whom."""

import math

import pytest
import torch

import hardmax as hm
from hardmax.applications.tokens import TokenVAE

CODES, PLACES = 3, 4
SPACE = hm.Categorical(CODES, PLACES)


@pytest.fixture(params=["gaussian", "bernoulli"])
def small(request):
    """A model of 2 x 2 tokens of three codes, in float64, and pictures: 81 codes in all."""
    torch.manual_seed(0)
    model = TokenVAE.build((1, 4, 4), CODES, dimensions=4, longest=2, width=4, likelihood=request.param).double()
    x = torch.rand(5, 1, 4, 4, dtype=torch.float64)
    model.codebook.place(model.vectors(x), torch.Generator().manual_seed(0))
    if model.log_variance is not None:
        torch.nn.init.constant_(model.log_variance, -1.0)
    return model, x


def enumerated(model, x):
    """log p(x | z) of every z, by hand: `[B, M]`; and q(z)."""
    members = SPACE.enumerate(dtype=x.dtype)
    drawn = model.decoder.pixels(members @ model.codebook.vectors)
    if model.log_variance is None:
        values = torch.distributions.Bernoulli(logits=drawn, validate_args=False).log_prob(x[:, None])
    else:
        values = torch.distributions.Normal(drawn, (model.log_variance / 2).exp()).log_prob(x[:, None])
    log_q = model.scores(x).log_softmax(-1)
    return values.sum((-1, -2, -3)), torch.einsum("mnk,bnk->bm", members, log_q).exp()


def test_the_bound_against_enumeration(small):
    model, x = small
    values, q = enumerated(model, x)
    kl = (q * (q.log() + PLACES * math.log(CODES))).sum(1)
    wanted = (q * values).sum(1) - kl
    exact = hm.exact_bounds(model.likelihood(x), model.scores(x), SPACE)
    torch.testing.assert_close(exact.elbo, wanted)
    count = 4000
    draws = model.bounds(x.repeat_interleave(count, 0), generator=torch.Generator().manual_seed(0))
    found = draws.elbo.view(5, count)
    error = found.std(1) / math.sqrt(count)
    assert (((found.mean(1) - wanted) / error).abs() < 5).all()
    assert (((found.mean(1) - wanted - 0.1 * kl) / error).abs() > 5).any()  # a KL of the wrong size would have shown
    torch.testing.assert_close(draws.kl.view(5, count)[:, 0], kl)


def test_the_bound_of_tokens_is_one(small):
    model, x = small
    values, _ = enumerated(model, x)
    log_p = (values - PLACES * math.log(CODES)).logsumexp(1)
    found = model.token_bounds(x)
    best = (values == found.reconstruction[:, None]) | ((values - found.reconstruction[:, None]).abs() < 1e-9)
    assert best.any(1).all()
    assert (found.elbo <= log_p).all()
    torch.testing.assert_close(found.kl, torch.full_like(found.kl, PLACES * math.log(CODES)))


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
    """Of the encoder too, whose scores share the codebook with the decoder: a z-test against autograd."""
    model, x = small
    values, q = enumerated(model, x[:1])
    exact = (q * (values - q.log())).sum()
    parameters = list(model.parameters())
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(exact, parameters)])
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(100):
        out = model(x[:1].expand(40, -1, -1, -1), estimator=hm.LocalExpectation(), generator=generator)
        slopes = torch.autograd.grad(out.value.mean(), parameters)
        found.append(torch.cat([g.flatten() for g in slopes]))
    found = torch.stack(found)
    error = (found.std(0) / math.sqrt(len(found))).clamp_min(1e-9)
    z = (found.mean(0) - wanted) / error
    assert z.abs().max() < 6
    assert ((found.mean(0) - 1.2 * wanted) / error).abs().max() > 6  # would have shown


def test_tokens_are_the_nearest_codes_and_are_drawn_as_such(small):
    model, x = small
    tokens = model.tokenize(x)
    assert tokens.shape == (5, 2, 2)
    assert tokens.dtype == torch.int64
    nearest = torch.cdist(model.vectors(x), model.codebook.vectors.expand(5, -1, -1)).argmin(-1)
    assert torch.equal(tokens.flatten(1), nearest)
    torch.testing.assert_close(model.detokenize(tokens), model.decode(model.predict(x)))


def test_quantization_teaches_each_its_own(small):
    """The reconstruction teaches encoder and decoder past the arg max, distances one side each."""
    model, x = small
    book, encoder = model.codebook.vectors, next(model.encoder.parameters())
    out = model.quantized(x)
    assert torch.equal(out.z, model.predict(x))
    torch.testing.assert_close(out.reconstruction.detach(), model.token_bounds(x).reconstruction)
    torch.testing.assert_close(out.distance, out.commitment)

    def taught(value):
        slopes = torch.autograd.grad(value.sum(), [book, encoder], retain_graph=True, allow_unused=True)
        return [slope is not None and bool(slope.any()) for slope in slopes]

    assert taught(out.reconstruction) == [False, True]
    assert taught(out.distance) == [True, False]
    assert taught(out.commitment) == [False, True]


def test_the_gradient_past_the_arg_max_is_that_of_the_code(small):
    model, x = small
    e = model.vectors(x).detach().requires_grad_()
    model.vectors = lambda _: e
    (past,) = torch.autograd.grad(model.quantized(x).reconstruction.sum(), e)
    codes = model.codebook.look_up(model.space.argmax(model.codebook.scores(e))).detach().requires_grad_()
    (of_code,) = torch.autograd.grad(model._likelihood(model.decoder.pixels, x)(codes[None]).sum(), codes)
    torch.testing.assert_close(past, of_code)


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


@pytest.mark.parametrize("wrong", [{"codes": 1}, {"dimensions": 0}, {"longest": 0}])
def test_numbers_that_make_no_codebook(wrong):
    with pytest.raises(hm.ArgumentError, match="at least 2 codes"):
        TokenVAE.build((1, 4, 4), **wrong)
