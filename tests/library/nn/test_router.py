"""TopKRouter: weights, load, balance, masks, dtypes, copies; and the sum of experts' outputs."""

import copy
import math
import pickle
from itertools import permutations

import pytest
import torch
from torch import nn

import hardmax as hm
from hardmax.nn import TopKRouter, mix_experts
from hardmax.random import make_generator

ONE = (hm.ReinMax(), hm.GumbelRao(3), hm.GappedStraightThrough())
SETS = (hm.StraightThrough(), hm.GumbelSoftmax(hard=True), hm.ImplicitMLE(), hm.IdentityBackward(), hm.Blackbox())
ESTIMATORS = ("softmax", "dense", "score-function", *ONE, *SETS)
CASES = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=make_generator(seed, "test"), dtype=dtype)


@CASES
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("normalise", [False, True])
def test_weights(estimator, k, normalise):
    if estimator == "softmax" and k == 1 and normalise:
        pytest.skip("refused")
    router = TopKRouter(None, 5, k, estimator=estimator, normalise=normalise)
    logits = random(3, 4, 5)
    for training in (True, False):
        out = router.train(training)(logits)
        chosen = torch.zeros(3, 4, 5).scatter(-1, out.indices, 1.0).double()
        assert chosen.sum(-1).eq(k).all()
        p = logits.softmax(-1)
        weights = chosen * p / ((chosen * p).sum(-1, keepdim=True) if normalise else 1)
        assert torch.allclose(out.z, weights)
        assert torch.equal(out.weights, out.z.gather(-1, out.indices))
        assert torch.equal(out.probabilities, p)
        assert (logits.gather(-1, out.indices).diff() <= 0).all()
        assert out.has_choice_gradient == (training and estimator not in ("softmax", "score-function"))
        assert (out.log_prob is not None) == (training and estimator == "score-function")
        if not training or estimator in ("softmax", "dense"):
            assert torch.equal(out.indices, logits.topk(k).indices)


def test_draws_in_sequence_are_without_replacement():
    """Their frequencies are those of Plackett and Luce."""
    logits = random(4)
    router = TopKRouter(None, 4, 2, estimator=hm.ReinMax(), generator=make_generator(1))
    n = 20_000
    z = router(logits.expand(n, 4)).indices.sort(-1).values
    p = logits.softmax(0)
    for pair in ((i, j) for i in range(4) for j in range(i + 1, 4)):
        exact = float(sum(p[a] * p[b] / (1 - p[a]) for a, b in permutations(pair)))
        measured = float((z == torch.tensor(pair)).all(-1).double().mean())
        assert abs(measured - exact) < 5.5 * math.sqrt(exact * (1 - exact) / n)


@CASES
def test_masks(estimator):
    """Masked experts are never chosen and get no gradient, also where exactly k others remain."""
    logits = random(50, 5).requires_grad_()
    mask = torch.ones(50, 5, dtype=torch.bool)
    mask[:, 1], mask[:20, 3:] = False, False
    slope = random(50, 5, seed=1)
    router = TopKRouter(None, 5, 2, estimator=estimator, balance="loss")
    out = router(logits, mask=mask)
    assert not out.z[~mask].any()
    assert mask.gather(-1, out.indices).all()
    total = (out.z * slope).sum() + out.loss
    (total if out.log_prob is None else total + out.log_prob.sum()).backward()
    assert logits.grad.isfinite().all()
    assert not logits.grad[~mask].any()
    assert logits.grad[mask].any()
    broadcast = router(logits, mask=mask[-1])
    assert not broadcast.z[:, 1].any()


@pytest.mark.parametrize("estimator", ["softmax", "dense", hm.Blackbox()], ids=str)
def test_masked_experts_do_not_count(estimator):
    """The others are chosen, and learn, as in a router of these alone."""
    left, slope, mask = [0, 2, 3], random(50, 5, seed=1), torch.tensor([True, False, True, True, False])
    logits, few = random(50, 5).requires_grad_(), random(50, 5)[:, left].requires_grad_()
    z = TopKRouter(None, 5, 2, estimator=estimator)(logits, mask=mask).z
    z_few = TopKRouter(None, 3, 2, estimator=estimator)(few).z
    assert torch.allclose(z[:, left], z_few)
    (z * slope).sum().backward()
    (z_few * slope[:, left]).sum().backward()
    assert torch.allclose(logits.grad[:, left], few.grad)


def test_load():
    """Shares, entropy and drop rate, against counting."""
    logits = torch.tensor([[3.0, 2, 1, 0], [3, 1, 2, 0], [3, 2, 0, 1], [2, 3, 1, 0], [3, 0, 1, 2]])
    load = TopKRouter(None, 4, 2, capacity=1.0)(logits).load
    counts = [5, 3, 1, 1]
    assert load.share.tolist() == pytest.approx([c / 10 for c in counts])
    assert load.entropy.item() == pytest.approx(-sum(c / 10 * math.log(c / 10) for c in counts))
    limit = 3  # ceil(1.0 * 5 * 2 / 4)
    assert load.drop_rate.item() == pytest.approx(sum(max(c - limit, 0) for c in counts) / 10)
    assert TopKRouter(None, 4, 2, capacity=2.0)(logits).load.drop_rate == 0
    even = TopKRouter(None, 4, 1)(10 * torch.eye(4)).load
    assert even.entropy.item() == pytest.approx(math.log(4))
    assert even.drop_rate == 0


def test_balance_loss():
    """Value and gradient, written out; 1 times its weight if all is even."""
    logits = random(6, 4).requires_grad_()
    out = TopKRouter(None, 4, 2, balance="loss", loss_weight=0.3)(logits)
    out.loss.backward()
    p = logits.detach().softmax(-1)
    counts = torch.zeros(4, dtype=torch.float64)
    for row in logits.detach():
        counts[row.topk(2).indices] += 1
    value, gradient = 0.0, torch.zeros_like(p)
    for e in range(4):
        value += 0.3 * 4 * counts[e] / 12 * p[:, e].mean()
        for j in range(4):  # d p_e / d logit_j = p_e (1[e = j] - p_j), and a mean over 6 tokens
            gradient[:, j] += 0.3 * 4 * counts[e] / 12 * p[:, e] * (float(e == j) - p[:, j]) / 6
    assert out.loss.item() == pytest.approx(float(value))
    assert torch.allclose(logits.grad, gradient)
    assert gradient.abs().max() > 1e-3
    assert TopKRouter(None, 4, 1, balance="loss", loss_weight=1.0)(torch.eye(4)).loss.item() == pytest.approx(1)
    off = TopKRouter(None, 4, 2)(logits).loss
    assert off == 0
    assert not off.requires_grad


def test_balance_by_bias():
    """The bias enters the choice but not the weights, and moves against the load, in training only."""
    logits = torch.tensor([[0.10, 0.0, -1.0], [0.15, 0.0, -1.0], [0.20, 0.0, -3.0]])
    router = TopKRouter(None, 3, 1, balance="bias", bias_step=0.06)
    assert router.eval()(logits).indices.flatten().tolist() == [0, 0, 0]
    assert not router.bias.any()
    router.train()
    expected = torch.zeros(3)
    for step in range(4):
        scores = logits + expected
        out = router(logits)
        chosen = scores.argmax(-1)
        assert torch.equal(out.indices.squeeze(-1), chosen)
        assert torch.allclose(out.weights.squeeze(-1), logits.softmax(-1).gather(-1, chosen[:, None]).squeeze(-1))
        assert torch.allclose(out.probabilities, logits.softmax(-1))
        for e in range(3):
            count = int((chosen == e).sum())
            expected[e] += 0.06 * ((count < 1) - (count > 1))
        assert torch.allclose(router.bias, expected), step
    assert router.eval()(logits).load.entropy > 0.6
    assert torch.allclose(router.bias, expected)
    twin = TopKRouter(None, 3, 1, balance="bias")
    twin.load_state_dict(router.state_dict())
    assert torch.equal(twin.bias, router.bias)
    assert set(TopKRouter(4, 3, balance="bias").state_dict()) == {"linear.weight", "bias"}
    assert set(TopKRouter(4, 3).state_dict()) == {"linear.weight"}


def test_bias_balances_a_skewed_router():
    router = TopKRouter(None, 8, 2, balance="bias", bias_step=0.02)
    logits = random(500, 8) + torch.arange(8) / 4
    before = router(logits).load
    for _ in range(300):
        after = router(logits).load
    assert before.drop_rate > 0.15
    assert after.drop_rate == 0
    assert after.entropy > 0.99 * math.log(8)


def test_noise():
    router = TopKRouter(None, 4, 2, noise=0.5, generator=make_generator(2))
    logits = random(4).expand(20_000, 4)
    p = router(logits).probabilities
    odds = p.log().sub(p.log().mean(-1, keepdim=True)).std(0)  # the mean of the logits does not enter p
    assert torch.allclose(odds, torch.full((4,), 0.5 * math.sqrt(3 / 4)).double(), rtol=0.03)
    assert router.eval()(logits).load.entropy == pytest.approx(math.log(2))


@CASES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_dtypes(estimator, dtype):
    router = TopKRouter(6, 5, 2, estimator=estimator, balance="bias", noise=0.1).to(dtype)
    x = random(7, 6).to(dtype).requires_grad_()
    out = router(x)
    assert out.weights.dtype == out.z.dtype == out.probabilities.dtype == dtype
    assert out.loss.dtype == out.load.share.dtype == torch.promote_types(dtype, torch.float32)
    assert router.bias.dtype == torch.promote_types(dtype, torch.float32)
    (out.z.sum() if out.log_prob is None else out.log_prob.sum()).backward()
    assert x.grad.isfinite().all()
    assert x.grad.dtype == dtype


@CASES
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)], ids=str)
def test_batches(estimator, shape):
    for balance in ("loss", "bias"):
        router = TopKRouter(6, 5, 2, estimator=estimator, balance=balance, normalise=True)
        x = random(*shape, 6, dtype=torch.float32).requires_grad_()
        out = router(x)
        assert out.weights.shape == out.indices.shape == (*shape, 2)
        assert out.z.shape == out.probabilities.shape == (*shape, 5)
        assert out.loss.isfinite()
        assert out.load.share.isfinite().all()
        (out.z.sum() + out.loss).backward()
        assert x.grad.shape == x.shape
        if 0 in shape:
            assert not out.load.share.any()
            assert out.loss == 0
            assert router.bias is None or not router.bias.any()


def test_copies():
    router = TopKRouter(6, 5, 2, estimator=hm.StraightThrough(), balance="bias", generator=make_generator(0))
    x = random(7, 6, dtype=torch.float32)
    router(x)
    for twin in (copy.deepcopy(router), pickle.loads(pickle.dumps(router))):
        assert twin.generator is None
        assert torch.equal(twin.eval()(x).z, router.eval()(x).z)
        assert torch.equal(twin.bias, router.bias)
        twin.train()(x)
        twin.bias += 1
        assert not torch.equal(twin.bias, router.bias)
    assert repr(router) == (
        "TopKRouter(\n  6, experts=5, k=2, estimator=StraightThrough(tau=1.0), balance=bias\n"
        "  (linear): Linear(in_features=6, out_features=5, bias=False)\n)"
    )


@CASES
def test_same_generator_same_choice(estimator):
    x = random(50, 5)
    choices = []
    for _ in range(2):
        router = TopKRouter(None, 5, 2, estimator=estimator, noise=0.3, generator=make_generator(3))
        choices.append(router(x).z)
    assert torch.equal(*choices)
    other = TopKRouter(None, 5, 2, estimator=estimator, noise=0.3, generator=make_generator(4))(x).z
    assert not torch.equal(choices[0], other)


class CountedExpert(nn.Linear):
    evaluations = 0
    with_graph = 0

    def forward(self, x):
        self.evaluations += len(x)
        self.with_graph += len(x) * torch.is_grad_enabled()
        return super().forward(x).tanh()


@CASES
def test_mix_experts_is_the_weighted_sum_of_all(estimator):
    """The value and all gradients, with as few evaluations as possible."""
    torch.manual_seed(0)
    router = TopKRouter(6, 5, 2, estimator=estimator).double()
    experts = nn.ModuleList(CountedExpert(6, 3) for _ in range(5)).double()
    results = []
    for way in ("combine", "mix"):
        x = random(4, 7, 6).requires_grad_()
        router.generator = make_generator(5)
        routing = router(x)
        for expert in experts:
            expert.evaluations = expert.with_graph = 0
        outputs = None if way == "mix" else torch.stack([expert(x) for expert in experts], -2)
        y = mix_experts(experts, x, routing) if outputs is None else routing.combine(outputs)
        leaves = [x, *router.parameters(), *experts.parameters()]
        results.append([y.detach(), *torch.autograd.grad((y * random(4, 7, 3, seed=1)).sum(), leaves)])
    for left, right in zip(*results, strict=True):
        assert torch.allclose(left, right)
        assert left.any()
    tokens = 28
    assert sum(expert.with_graph for expert in experts) == 2 * tokens
    needed = 5 if routing.has_choice_gradient else 2
    assert sum(expert.evaluations for expert in experts) == needed * tokens
    with torch.no_grad():
        assert torch.equal(mix_experts(experts, x, routing), y)


@pytest.mark.parametrize("estimator", [hm.StraightThrough(), hm.ReinMax()], ids=str)
def test_gradient_with_the_chosen_experts_alone(estimator):
    """The formulas in the docstring of mix_experts: `g grad q` and half of `g grad log q`."""
    logits = random(20, 4).requires_grad_()
    out = TopKRouter(None, 4, estimator=estimator, normalise=True)(logits)
    worth = random(4, seed=1)
    experts = [lambda x, w=w: w * torch.ones_like(x[:, :1]) for w in worth]
    y = mix_experts(experts, torch.ones(20, 2).double(), out, unchosen=False)
    (gradient,) = torch.autograd.grad(y.sum(), logits)
    index = out.indices
    q = logits.softmax(-1).gather(-1, index)
    surrogate = q if estimator == hm.StraightThrough() else q.log() / 2
    (expected,) = torch.autograd.grad((worth[index] * surrogate).sum(), logits)
    assert torch.allclose(gradient, expected)


def test_one_token():
    router = TopKRouter(3, 4, 2, estimator="dense")
    experts = [nn.Linear(3, 2) for _ in range(4)]
    assert mix_experts(experts, torch.ones(3), router(torch.ones(3))).shape == (2,)
    assert mix_experts(experts, torch.ones(5, 0, 3), router(torch.ones(5, 0, 3))).shape == (5, 0, 2)
