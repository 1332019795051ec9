"""Rows for the cost of many variables and many categories: single changes against incremental code, and slopes."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

import hardmax as hm
from benchmarks.speed.comparison import Call, Comparison, Growth

PIXELS = 784
GROUP = "Single changes of several variables"
GROWTH = "Growth"


def make_problem(batch: int, *shape: int, hidden: int | None = None) -> tuple[nn.Sequential, Tensor, Tensor]:
    """Return a decoder (linear, or with a hidden layer), images and scores."""
    torch.manual_seed(0)
    entries = torch.Size(shape).numel()
    layers = (
        [nn.Linear(entries, PIXELS)]
        if hidden is None
        else [nn.Linear(entries, hidden), nn.ReLU(), nn.Linear(hidden, PIXELS)]
    )
    x = torch.rand(batch, PIXELS).round()
    return nn.Sequential(nn.Flatten(), *layers), x, torch.randn(batch, *shape, requires_grad=True)


def make_our_estimate(space: hm.AbstractSpace, estimator: hm.AbstractEstimator, batch: int, hidden: int | None) -> Call:
    decoder, x, scores = make_problem(batch, *space.score_shape, hidden=hidden)

    def step() -> None:
        out = hm.expectation(hm.BernoulliLikelihood(decoder, x), scores, space, estimator)
        out.value.sum().backward()

    return step


def make_incremental_bits(batch: int, n: int) -> Call:
    """Return LocalExpectation of bits with a linear decoder: a flip adds one row of weights to the logits."""
    decoder, x, scores = make_problem(batch, n)
    linear = decoder[1]

    def step() -> None:
        with torch.no_grad():
            q = scores.sigmoid()
            z = torch.bernoulli(q)
        logits = linear(z)
        values = (x * logits).sum(-1) - softplus(logits).sum(-1)
        with torch.no_grad():
            sign = 1 - 2 * z
            gains = sign * (x @ linear.weight)
            at_z = softplus(logits).sum(-1)
            for b in range(batch):
                flipped = torch.addcmul(logits[b], sign[b, :, None], linear.weight.T)
                gains[b] -= softplus(flipped).sum(-1) - at_z[b]
            gradient = q * (1 - q) * sign * gains
        (values.sum() + (gradient * scores).sum()).backward()

    return step


def make_incremental_categories(batch: int, n: int, k: int) -> Call:
    """Return LocalExpectation of categories with one hidden layer: a change adds two rows of weights."""
    decoder, x, scores = make_problem(batch, n, k, hidden=300)
    first, last = decoder[1], decoder[3]

    def step() -> None:
        with torch.no_grad():
            q = scores.softmax(-1)
            index = torch.multinomial(q.view(-1, k), 1).view(batch, n)
        z = torch.zeros(batch, n, k).scatter_(-1, index[..., None], 1.0)
        before = first(z.view(batch, -1))
        active = before.relu()
        logits = last(active)
        values = (x * logits).sum(-1) - softplus(logits).sum(-1)
        with torch.no_grad():
            rows = first.weight.T.contiguous().view(n, k, -1)  # [n, k, H]
            by_pixel = x @ last.weight  # [B, H]
            at_each = torch.empty(batch, n, k)
            for b in range(batch):
                base = before[b] - rows[torch.arange(n), index[b]]  # [n, H]
                hidden = (base[:, None] + rows).relu_().reshape(n * k, -1)
                at_each[b] = (hidden @ by_pixel[b] - softplus(last(hidden)).sum(-1)).view(n, k)
            gradient = q * (at_each - (q * at_each).sum(-1, keepdim=True))
        (values.sum() + (gradient * scores).sum()).backward()

    return step


def make_growth(estimator: hm.AbstractEstimator, n: int | None, k: int | None) -> Growth:
    """Return the row of an estimator where n or k grows, whichever is None."""
    name = type(estimator).__name__
    what = f"{name}, n = {n}, k grows" if k is None else f"{name}, k = {k}, n grows"

    def make(size: int) -> Call:
        return make_our_estimate(hm.Categorical(k or size, n or size), estimator, 20, None)

    return Growth(GROWTH, what, (10, 30, 100, 300, 1000), make, 1.1, rounds=3)


def make_debiased(k: int) -> Call:
    decoder, x, scores = make_problem(100, k)

    def step() -> None:
        out = hm.expectation(hm.BernoulliLikelihood(decoder, x), scores, hm.Categorical(k), hm.DebiasedDirect())
        out.value.sum().backward()

    return step


def list_rows() -> list[Comparison | Growth]:
    """Return the rows: against incremental hand-written code, and slopes in n and k."""
    local = hm.LocalExpectation()
    return [
        Comparison(
            GROUP,
            "LocalExpectation, 20 x 10, one hidden layer, batch 100, over incremental code",
            lambda: (
                make_our_estimate(hm.Categorical(10, 20), local, 100, 300),
                make_incremental_categories(100, 20, 10),
            ),
            1.15,
            memory_goal=1.3,
            rounds=7,
        ),
        Comparison(
            GROUP,
            "LocalExpectation, 200 bits, linear decoder, batch 100, over incremental code",
            lambda: (make_our_estimate(hm.Binary(200), local, 100, None), make_incremental_bits(100, 200)),
            1.15,
            memory_goal=1.3,
            rounds=15,
        ),
        *(make_growth(estimator, *sizes) for estimator in (local, hm.Direct()) for sizes in ((8, None), (None, 10))),
        Growth(GROWTH, "DebiasedDirect, one variable, k grows", (10, 100, 1000, 10_000), make_debiased, 1.1, rounds=3),
    ]
