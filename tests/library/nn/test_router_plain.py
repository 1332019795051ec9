"""TopKRouter under torch.compile and vmap; bad arguments and bad input."""

import pytest
import torch

import hardmax as hm
from hardmax.nn import TopKRouter, mix_experts

pytestmark = [
    pytest.mark.plain,
    # torch.compile itself instantiates custom autograd functions.
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated"),
]
ESTIMATORS = (
    *("softmax", "dense", "score-function", hm.StraightThrough(), hm.ReinMax()),
    *(hm.GumbelSoftmax(hard=True), hm.ImplicitMLE(), hm.IdentityBackward()),
)
CASES = pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)


QUICK = ("softmax", hm.StraightThrough(), hm.ReinMax(), hm.ImplicitMLE())
COMPILED = [
    *(pytest.param(each, 2, marks=() if each in QUICK else pytest.mark.slow) for each in ESTIMATORS),
    *(pytest.param(each, 1, marks=pytest.mark.slow) for each in ("score-function", hm.ReinMax())),
]


@pytest.mark.parametrize(("estimator", "k"), COMPILED, ids=str)
def test_compiled_gives_the_same(estimator, k):
    torch._dynamo.reset()
    torch.manual_seed(0)
    router = TopKRouter(6, 5, k, estimator=estimator, balance="bias", bias_step=0.1)
    x, slope = torch.randn(7, 6), torch.randn(7, 5)
    results = []
    for run in (router, torch.compile(router, fullgraph=True, backend="aot_eager")):
        router.zero_grad()
        router.bias.zero_()
        torch.manual_seed(1)
        out = run(x)
        loss = (out.z * slope).sum() + out.loss
        (loss if out.log_prob is None else loss + out.log_prob.sum()).backward()
        results.append([out.z.detach(), out.indices, out.load.share, router.bias.clone(), router.linear.weight.grad])
    for left, right in zip(*results, strict=True):
        assert torch.allclose(left, right, atol=1e-6)
    assert results[0][3].any()
    assert results[0][4].any()


@CASES
def test_vmap(estimator):
    """Each slice has its own load and balance loss."""
    router = TopKRouter(None, 5, 2, estimator=estimator, balance="loss", validate=False)
    x = torch.randn(3, 7, 5)

    def route(x):
        out = router(x)
        return out.z, out.indices, out.loss, out.load.share

    z, indices, loss, share = torch.func.vmap(route, randomness="same")(x)
    assert z.shape == (3, 7, 5)
    assert torch.equal(z.gather(-1, indices) > 0, torch.ones(3, 7, 2, dtype=torch.bool))
    chosen = (z > 0).float()
    assert torch.allclose(share, chosen.mean(1) / 2)
    assert torch.allclose(loss, 0.01 * 5 * (share * x.softmax(-1).mean(1)).sum(-1))
    gradient = torch.func.vmap(torch.func.grad(lambda x: route(x)[2]), randomness="same")(x)
    assert gradient.shape == x.shape
    assert gradient.any()
    router.eval()
    assert torch.equal(torch.func.vmap(lambda x: router(x).z)(x), router(x).z)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be between 1 and the number of experts, 4; got 0"),
        ({"k": 5}, "k must be between 1 and the number of experts, 4; got 5"),
        ({"experts": 0}, "experts must be at least 1, got 0"),
        ({"dim": 0}, "dim must be at least 1, or None"),
        ({"balance": "switch"}, "balance must be None, 'loss' or 'bias', got 'switch'"),
        ({"noise": -1.0}, "noise must be a finite number, at least 0; got -1.0"),
        ({"noise": float("nan")}, "noise must be a finite number"),
        ({"loss_weight": float("inf")}, "loss_weight must be a finite number"),
        ({"bias_step": 0.0}, "bias_step must be a positive number, got 0.0"),
        ({"capacity": 0.0}, "capacity must be a positive number"),
        ({"estimator": "sparsemixer"}, "estimator must be 'softmax', 'dense', 'score-function', or a sample-style"),
        ({"estimator": hm.Reinforce()}, "need estimator='score-function' and Routing.log_prob"),
        ({"estimator": hm.GumbelSoftmax(0.7)}, r"use GumbelSoftmax\(tau=0.7, hard=True\)"),
        ({"normalise": True}, "gives the router no gradient"),
    ],
    ids=str,
)
def test_bad_arguments(options, message):
    arguments = {"dim": 6, "experts": 4, "k": 1, **options}
    with pytest.raises(hm.ArgumentError, match=message):
        TopKRouter(arguments.pop("dim"), arguments.pop("experts"), arguments.pop("k"), **arguments)


@CASES
def test_bad_logits(estimator):
    router = TopKRouter(None, 4, 2, estimator=estimator)
    for bad in (float("nan"), float("inf"), -float("inf")):
        logits = torch.zeros(3, 4)
        logits[1, 2] = bad
        with pytest.raises(hm.ArgumentError, match=rf"logits must be finite, got {bad} at index \[1, 2\] \(1 of 12"):
            router(logits)
    assert router(torch.full((3, 4), 3e38)).z.isfinite().all()  # their sum is not finite, in float32


def test_bad_shapes():
    with pytest.raises(hm.ShapeError, match=r"tokens \[\*B, dim\] whose last dimension is 6, got shape \[3, 4\]"):
        TopKRouter(6, 4)(torch.zeros(3, 4))
    with pytest.raises(hm.ShapeError, match=r"logits \[\*B, experts\] whose last dimension is 4, got shape \[\]"):
        TopKRouter(None, 4)(torch.tensor(1.0))
    with pytest.raises(hm.errors.DtypeError, match=r"x must be floating point, got torch\.int64"):
        TopKRouter(None, 4)(torch.zeros(3, 4, dtype=torch.int64))


def test_bad_masks():
    router, logits = TopKRouter(None, 4, 2), torch.randn(3, 4)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1, 1:] = False
    with pytest.raises(hm.ArgumentError, match=r"leaves 1 experts to the token at index \[1\], but k=2 .*\(1 of 3"):
        router(logits, mask=mask)
    mask[1] = False
    with pytest.raises(hm.ArgumentError, match=r"leaves 0 experts to the token at index \[1\]"):
        router(logits, mask=mask)
    with pytest.raises(hm.ShapeError, match=r"mask has shape \[3\], .*for a mask of tokens, route x\[mask\]"):
        router(logits, mask=mask[:, 0])
    with pytest.raises(hm.errors.DtypeError, match="mask must be of dtype bool"):
        router(logits, mask=mask.float())


def test_wrong_experts():
    router, x = TopKRouter(6, 4, 2), torch.randn(3, 6)
    with pytest.raises(hm.ShapeError, match=r"there are 3 experts, but the routing has shape \[3, 4\]"):
        mix_experts([torch.nn.Linear(6, 6)] * 3, x, router(x))
    with pytest.raises(hm.ShapeError, match=r"x has shape \[2, 6\] and there are 4 experts"):
        mix_experts([torch.nn.Linear(6, 6)] * 4, x[:2], router(x))
    with pytest.raises(hm.ShapeError, match=r"outputs have shape \[3, 2, 6\], .* needs outputs of all experts, \[3, 4"):
        router(x).combine(torch.zeros(3, 2, 6))
