"""Quantizer: gradients against closed forms and enumeration, usage, placement and revival, dtypes, shapes, copies."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

import hardmax as hm
from hardmax.data import binarize, load_images
from hardmax.metrics.codes import measure_alive
from hardmax.nn import Quantizer
from hardmax.random import make_generator

SAMPLERS = (hm.ReinMax(), hm.StraightThrough(), hm.GumbelSoftmax(0.5), hm.GumbelSoftmax(hard=True), hm.GumbelRao(3))
CASES = pytest.mark.parametrize("estimator", ["nearest", "rotate", *SAMPLERS], ids=str)
LEARNING = pytest.mark.parametrize("learning", ["gradient", "average", "linear"])


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=make_generator(seed, "test"), dtype=dtype)


def build(*arguments, **options):
    torch.manual_seed(0)
    return Quantizer(*arguments, generator=make_generator(1), **options)


@LEARNING
def test_straight_through_gradient(learning):
    """The closed form: that of the code, and the distances."""
    quantizer = build(3, 5, learning=learning, commitment=0.7, maintain=False).double()
    x, g = random(4, 6, 3).requires_grad_(), random(4, 6, 3, seed=1)
    out = quantizer(x)
    ((out.quantized * g).sum() + 2 * out.loss).backward()
    codes = quantizer.codebooks[0].compute_codes().detach()
    index = torch.cdist(x.detach().flatten(0, 1), codes).argmin(-1).view(4, 6)
    shift, scale = x.detach() - codes[index], 2 / (24 * 3)
    assert torch.equal(out.quantized, codes[index])
    assert torch.equal(out.indices, index)
    torch.testing.assert_close(x.grad, g + 2 * 0.7 * scale * shift)
    value = shift.square().mean()
    assert out.loss.item() == pytest.approx(float((0.7 + (learning != "average")) * value))
    if learning == "average":
        assert set(out.terms) == {"commitment"}
        return
    of_codes = torch.zeros(5, 3, dtype=torch.float64).index_add(0, index.flatten(), -2 * scale * shift.flatten(0, 1))
    book = quantizer.codebooks[0]
    if learning == "gradient":
        torch.testing.assert_close(book.vectors.grad, of_codes)
    else:
        torch.testing.assert_close(book.linear.weight.grad, of_codes.T @ book.vectors)
        torch.testing.assert_close(book.linear.bias.grad, of_codes.sum(0))
    torch.testing.assert_close(out.terms["commitment"], shift.square().sum(-1))
    torch.testing.assert_close(out.terms["codebook"], shift.square().sum(-1))


def test_rotated_gradient():
    """The matrix of the rotation, written out for each vector."""
    quantizer = build(3, 5, estimator="rotate", commitment=0.0).double()
    quantizer.eval()
    x, g = random(20, 3).requires_grad_(), random(20, 3, seed=1)
    out = quantizer(x)
    (out.quantized * g).sum().backward()
    assert torch.equal(out.quantized, quantizer.codebooks[0].vectors[out.indices])
    for vector, code, slope, gradient in zip(x.detach(), out.quantized.detach(), g, x.grad, strict=True):
        a, b = vector / vector.norm(), code / code.norm()
        r = (a + b) / (a + b).norm()
        rotation = torch.eye(3, dtype=torch.float64) - 2 * torch.outer(r, r) + 2 * torch.outer(b, a)
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(3, dtype=torch.float64))
        assert torch.linalg.det(rotation) == pytest.approx(1)
        torch.testing.assert_close(rotation @ vector * code.norm() / vector.norm(), code)
        torch.testing.assert_close(gradient, code.norm() / vector.norm() * rotation.T @ slope)
        assert (gradient - slope).abs().max() > 1e-3  # not straight-through


def test_rotation_of_vectors_without_a_direction():
    """Zero gets the gradient of straight-through; opposite and equal directions give finite ones."""
    quantizer = build(2, 2, estimator="rotate", commitment=0.0, learning="gradient").double().eval()
    with torch.no_grad():
        quantizer.codebooks[0].vectors.copy_(torch.tensor([[1.0, 0.0], [-3.0, 0.0]]))
    x = torch.tensor([[0.0, 0.0], [-0.5, 0.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    out = quantizer(x)
    assert out.indices.tolist() == [0, 0, 0]
    (out.quantized * torch.tensor([0.3, 0.8])).sum().backward()
    assert x.grad[0].tolist() == pytest.approx([0.3, 0.8])
    assert x.grad[1].norm() == pytest.approx(2 * math.hypot(0.3, 0.8))
    assert x.grad[2].tolist() == pytest.approx([0.3, 0.8])


@pytest.mark.parametrize(("estimator", "degree"), [(hm.StraightThrough(), 1), (hm.ReinMax(), 2)], ids=str)
def test_gradients_of_samples(estimator, degree):
    """Unbiased for a loss of this degree: for x, the codes and the scale, by enumeration and a z-test."""
    quantizer = build(2, 4, estimator=estimator, maintain=False, kl_weight=0.3).double()
    book = quantizer.codebooks[0]
    with torch.no_grad():
        book.vectors.copy_(random(4, 2, seed=3))
        book.log_scale.fill_(-0.5)
    target, parameters = random(2, seed=2), [random(2).requires_grad_(), book.vectors, book.log_scale]

    def loss(value):
        return (value * target).sum(-1) if degree == 1 else (value - target).square().sum(-1)

    q = (-book.log_scale.exp() * (parameters[0] - book.vectors).square().sum(-1)).softmax(-1)
    exact = (q * loss(book.vectors)).sum() + 0.3 * (q * (4 * q).log()).sum()
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(exact, parameters)])
    gradients = []
    for _ in range(400):
        out = quantizer(parameters[0].expand(60, 2))
        slopes = torch.autograd.grad(loss(out.quantized).mean() + out.loss, parameters)
        gradients.append(torch.cat([g.flatten() for g in slopes]))
    estimates = torch.stack(gradients)
    error = (estimates.std(0) / math.sqrt(len(estimates))).clamp_min(1e-9)  # some have no variance
    assert ((estimates.mean(0) - wanted) / error).abs().max() < 5.5
    assert ((estimates.mean(0) - 1.2 * wanted) / error).abs().max() > 5.5  # the test detects a wrong gradient


@pytest.mark.parametrize("groups", [1, 2])
def test_estimators_with_values_of_the_loss(groups):
    """`scores` and `look_up` with hm.elbo: exact gradients equal those of enumeration."""
    quantizer = build(4, 3, groups=groups, learning="gradient", maintain=False).double()
    x, target = random(5, 4).requires_grad_(), random(5, 4, seed=1)

    def f(z):
        return -(quantizer.look_up(z) - target).square().sum(-1).exp()

    scores = quantizer.scores(x)
    out = hm.elbo(f, scores, quantizer.space, hm.Exact())
    out.value.sum().backward()
    x2 = x.detach().clone().requires_grad_()
    books = [book.vectors for book in quantizer.codebooks]
    members = torch.cartesian_prod(*(torch.arange(3) for _ in books)).view(-1, groups)
    codes = torch.cat([book[members[:, part]] for part, book in enumerate(books)], -1)
    scales = [book.log_scale.exp() for book in quantizer.codebooks]
    log_q = sum(
        (-scale * (part[:, None] - book).square().sum(-1)).log_softmax(-1)[:, members[:, number]]
        for number, (scale, book, part) in enumerate(zip(scales, books, x2.chunk(groups, -1), strict=True))
    )
    values = -(codes - target[:, None]).square().sum(-1).exp()
    exact = (log_q.exp() * (values - log_q - groups * math.log(3))).sum(-1)
    torch.testing.assert_close(out.value, exact)
    parameters = list(quantizer.parameters())
    of_all = torch.autograd.grad(exact.sum(), [x2, *parameters])
    for left, right in zip([x.grad, *(each.grad for each in parameters)], of_all, strict=True):
        torch.testing.assert_close(left, right)
        assert left.any()
    direct = hm.elbo(f, quantizer.scores(x), quantizer.space, hm.Direct())
    direct.value.sum().backward()
    assert x.grad.isfinite().all()


@CASES
@pytest.mark.parametrize(("groups", "residual"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_parts(estimator, groups, residual):
    """The numbers decode to the output, and each stage replaces what the earlier ones left."""
    quantizer = build(6, 7, groups=groups, residual=residual, estimator=estimator, learning="gradient").double()
    x, count = random(5, 4, 6).requires_grad_(), groups * residual
    out = quantizer(x)
    (out.quantized.square().sum() + out.loss).backward()
    assert x.grad.any()
    shape = (5, 4) if count == 1 else (5, 4, count)
    assert out.indices.shape == shape
    parts = () if count == 1 else (count,)
    assert out.usage.share.shape == (*parts, 7)
    assert out.usage.perplexity.shape == out.usage.in_use.shape == out.usage.dead.shape == parts
    if not isinstance(estimator, hm.GumbelSoftmax) or estimator.hard:
        torch.testing.assert_close(quantizer.decode(out.indices), out.quantized)
    out = quantizer.eval()(x)
    torch.testing.assert_close(quantizer.decode(out.indices), out.quantized)
    numbers = out.indices.view(5, 4, groups, residual)
    for group, part in enumerate(x.detach().chunk(groups, -1)):
        for stage in range(residual):
            codes = quantizer.codebooks[group * residual + stage].compute_codes().detach()
            assert torch.equal(numbers[..., group, stage], torch.cdist(part, codes.expand(5, -1, -1)).argmin(-1))
            part = part - codes[numbers[..., group, stage]]


def test_scores_place_and_count_as_calls_do():
    x, quantizers = (
        random(90, 4),
        [build(4, 6, groups=2, learning="gradient", revive_every=2).double() for _ in range(2)],
    )
    for _ in range(3):
        quantizers[0](x)
        quantizers[1].scores(x)
    for left, right in zip(*(quantizer.state_dict().items() for quantizer in quantizers), strict=True):
        assert torch.equal(left[1], right[1]), left[0]
    assert quantizers[1].codebooks[1].used.sum() == 90


def test_more_stages_have_less_error():
    x = random(400, 8)
    errors = [(build(8, 32, residual=stages).double()(x).quantized - x).square().mean() for stages in (1, 2, 4)]
    assert errors[0] > 1.3 * errors[1] > 1.69 * errors[2]


def test_usage():
    quantizer = build(1, 4, learning="gradient", maintain=False).eval()
    with torch.no_grad():
        quantizer.codebooks[0].vectors.copy_(torch.tensor([[0.0], [1.0], [2.0], [9.0]]))
    usage = quantizer(torch.tensor([[0.1], [0.2], [1.1], [2.1]])).usage
    assert usage.share.tolist() == [0.5, 0.25, 0.25, 0.0]
    assert usage.perplexity.item() == pytest.approx(math.exp(0.5 * math.log(2) + 0.5 * math.log(4)))
    assert usage.in_use == 0.75
    assert usage.dead == usage.revived == 0


def make_clusters(count, each):
    centres = 20 * torch.eye(count)
    return (centres[:, None] + 0.1 * random(count, each, count, dtype=torch.float32)).flatten(0, 1), centres


@LEARNING
@pytest.mark.parametrize("batch", [3, 7, 160])
def test_codes_are_placed_also_by_batches_smaller_than_the_codebook(learning, batch):
    points, centres = make_clusters(8, 20)
    points = points[torch.randperm(160, generator=make_generator(0))]
    quantizer = build(8, 16, learning=learning)
    for part in points.split(batch)[: math.ceil(16 / batch)]:
        quantizer(part)
    assert quantizer.placed == 16
    if learning != "linear":
        distance = torch.cdist(points, quantizer.codebooks[0].vectors.detach()).amin(0)
        assert distance.max() < 2  # every code is where there are vectors
    if batch == 160 and learning != "linear":
        assert torch.cdist(centres, quantizer.codebooks[0].vectors.detach()).amin(1).max() < 1


@CASES
def test_unused_codes_are_revived_on_schedule(estimator):
    points, centres = make_clusters(4, 40)
    quantizer = build(4, 4, estimator=estimator, revive_every=5)
    book = quantizer.codebooks[0]
    quantizer(points)
    with torch.no_grad():
        book.vectors.copy_(centres)
        book.vectors[2] = 500.0
    book.used.zero_()
    for call in range(1, 7):
        usage = quantizer(points).usage
        assert usage.revived == (call == 5)
        assert usage.dead == (call < 5)
    assert (book.vectors[2] - centres[2]).norm() < 1


def test_no_revival_where_counts_are_small():
    """With less than ten vectors per code, a count of zero may be chance."""
    quantizer = build(2, 50, revive_every=2)
    for call in range(20):
        assert quantizer(random(20, 2, seed=call, dtype=torch.float32)).usage.revived == 0
    still = build(2, 50, revive_every=1, revive_below=0.0)
    for _ in range(30):
        assert still(random(500, 2, dtype=torch.float32)).usage.revived == 0


@CASES
def test_a_frozen_codebook_does_not_change(estimator):
    x = random(100, 4, dtype=torch.float32)
    for quantizer in (build(4, 8, estimator=estimator).eval(), build(4, 8, estimator=estimator, maintain=False)):
        before = copy.deepcopy(quantizer.state_dict())
        quantizer(x)
        assert all(torch.equal(value, before[name]) for name, value in quantizer.state_dict().items())


def train_autoencoder(codes, steps=250, **options):
    """Return the share of codes in use, by the strict count, of an autoencoder as a newcomer writes it."""
    torch.manual_seed(0)
    images = load_images("sample")
    x, test = binarize(images.train[:2000], "none"), binarize(images.test, "none")
    quantizer = Quantizer(16, codes, **options)
    encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1))
    decoder = nn.Sequential(nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *quantizer.parameters()], lr=2e-3)
    for step in range(steps):
        batch = x[(40 * step) % 2000 :][:40]
        out = quantizer(encoder(batch).movedim(1, -1))
        loss = (decoder(out.quantized.movedim(-1, 1)) - batch).square().mean() + out.loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        usage = quantizer.eval()(encoder(test).movedim(1, -1)).usage
    return measure_alive(usage.share)


@pytest.mark.parametrize(
    ("codes", "options"),
    [
        (64, {}),
        pytest.param(64, {"estimator": "rotate"}, marks=pytest.mark.slow),
        pytest.param(64, {"learning": "gradient"}, marks=pytest.mark.slow),
        pytest.param(1024, {"steps": 600}, marks=pytest.mark.slow),
        pytest.param(1024, {"steps": 600, "estimator": "rotate"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_naive_use_keeps_the_codes_alive(codes, options):
    assert train_autoencoder(codes, **options) > 0.9


def test_without_maintenance_most_codes_die():
    assert train_autoencoder(64, steps=100, maintain=False, learning="gradient") < 0.2


@CASES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_dtypes(estimator, dtype):
    quantizer = build(6, 5, estimator=estimator, residual=2).to(dtype)
    x = random(50, 6).to(dtype).requires_grad_()
    for _ in range(3):
        out = quantizer(x)
    assert out.quantized.dtype == dtype
    assert out.loss.dtype == torch.promote_types(dtype, torch.float32)
    (out.quantized.float().square().sum() + out.loss).backward()
    assert x.grad.dtype == dtype
    assert x.grad.isfinite().all()
    assert (x.grad != 0).any()
    book = quantizer.codebooks[0]
    assert book.used.sum() == 150
    if book.mass is not None:
        assert book.vectors.dtype == book.mass.dtype == torch.promote_types(dtype, torch.float32)


@CASES
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 1)], ids=str)
def test_batches(estimator, shape):
    quantizer = build(6, 5, estimator=estimator, groups=2)
    x = random(*shape, 6, dtype=torch.float32).requires_grad_()
    out = quantizer(x)
    assert out.quantized.shape == (*shape, 6)
    assert out.indices.shape == (*shape, 2)
    assert out.loss.isfinite()
    assert all(term.shape == shape for term in out.terms.values())
    (out.quantized.sum() + out.loss).backward()
    assert x.grad.shape == x.shape
    assert quantizer.decode(out.indices).shape == x.shape
    if 0 in shape:
        assert out.loss == 0
        assert not out.usage.share.any()
        assert out.usage.perplexity.eq(0).all()
        assert quantizer.calls == quantizer.placed == 0


@CASES
def test_copies(estimator):
    quantizer, x = build(6, 5, estimator=estimator, residual=2), random(70, 6, dtype=torch.float32)
    quantizer(x)
    twins = [
        copy.deepcopy(quantizer),
        pickle.loads(pickle.dumps(quantizer)),
        Quantizer(6, 5, estimator=estimator, residual=2),
    ]
    twins[2].load_state_dict(quantizer.state_dict())
    for twin in twins:
        assert twin.generator is None
        assert twin.calls == 1
        assert torch.equal(twin.eval()(x).quantized, quantizer.eval()(x).quantized)
        before = quantizer.codebooks[0].vectors.clone()
        twin.train()(x)
        assert torch.equal(quantizer.codebooks[0].vectors, before)
        assert quantizer.calls == 1
    assert repr(build(6, 5, residual=2)).startswith("Quantizer(\n  6, codes=5, estimator=nearest, residual=2\n")


@CASES
def test_same_generator_same_result(estimator):
    x = random(200, 4, dtype=torch.float32)
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(0)
        quantizer = Quantizer(4, 16, estimator=estimator, generator=make_generator(seed), revive_every=2)
        torch.manual_seed(seed + len(results))  # the global generator plays no role
        results.append(torch.stack([quantizer(x).quantized.detach() for _ in range(5)]))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
