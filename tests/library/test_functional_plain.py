"""Drop-in functions compiled, vectorised and under autocast; the failures that users of torch's function report."""

import pytest
import torch
from torch.nn import functional as F

import hardmax as hm

pytestmark = pytest.mark.plain  # without shape checks
INF = float("inf")

FUNCTIONS = {
    "gumbel_softmax": lambda x: hm.gumbel_softmax(x, 0.5),
    "gumbel_softmax hard": lambda x: hm.gumbel_softmax(x, 0.5, hard=True),
    "argmax": lambda x: hm.argmax(x).z,
    "argmax of a mask": lambda x: hm.argmax(x, mask=torch.arange(4) < 3).z,
    "topk": lambda x: hm.topk(x, 2).z,
    "sort": lambda x: hm.sort(x).values,
    "rank": lambda x: hm.rank(x),
}


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["gumbel_softmax hard", "argmax of a mask", "topk", "rank"])
def test_functions_compile_as_one_graph(name):
    torch._dynamo.reset()
    function, scores = FUNCTIONS[name], torch.randn(50, 4, requires_grad=True)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    result = compiled(scores)
    assert result.shape == function(scores).shape
    assert not torch.equal(result, compiled(scores))  # new noise in each call
    (gradient,) = torch.autograd.grad((result * torch.arange(4.0)).sum(), scores)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_vectorise(name):
    function, scores = FUNCTIONS[name], torch.linspace(0, 0.1, 4).repeat(100, 1)
    torch.manual_seed(0)
    result = torch.func.vmap(function, randomness="different")(scores)
    assert result.shape == (100, 4)
    assert len(result.unique(dim=0)) > 2  # other noise for each slice
    total = lambda x: (function(x) * torch.arange(4.0)).sum()  # noqa: E731
    gradient = torch.func.vmap(torch.func.grad(total), randomness="different")(scores)
    assert gradient.isfinite().all()
    assert (gradient != 0).any()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_functions_under_autocast(name, dtype):
    layer = torch.nn.Linear(8, 4)
    with torch.autocast("cpu", dtype):
        scores = layer(torch.randn(50, 8))
        assert scores.dtype == dtype
        result = FUNCTIONS[name](scores)
        loss = (result * torch.arange(4.0)).square().sum()
    loss.backward()
    assert result.isfinite().all()
    assert layer.weight.grad.isfinite().all()


# ----------------------------------------------------------------------------------- reports about torch's function
def test_two_draws_of_zero(monkeypatch):
    """pytorch#22442, #22586, #20179, #101620: exponential_ returned zeros; two in one row are inf - inf, NaN.

    Fixed upstream on the CPU; here every third number is as small as the generator's interval allows.
    """
    draws = {name: getattr(torch.Tensor, name) for name in ("exponential_", "uniform_")}

    def draw_exponential(tensor, *args, **kwargs):
        draws["exponential_"](tensor, *args, **kwargs).view(-1)[::3] = 0.0
        return tensor

    def draw_uniform(tensor, low=0.0, high=1.0, **kwargs):
        draws["uniform_"](tensor, low, high, **kwargs).view(-1)[::3] = low
        return tensor

    monkeypatch.setattr(torch.Tensor, "exponential_", draw_exponential)
    monkeypatch.setattr(torch.Tensor, "uniform_", draw_uniform)
    logits = torch.zeros(30, 4)
    assert F.gumbel_softmax(logits).isnan().any()
    for hard in (False, True):
        assert hm.gumbel_softmax(logits, hard=hard).isfinite().all()
    assert hm.argmax(logits).z.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """pytorch#41663, #34372: in half precision exponential noise rounds to zero, and logits / tau overflows."""
    logits, torch_fails = torch.randn(2000, 512, generator=torch.Generator().manual_seed(0)).to(dtype), False
    for scale, tau in ((1.0, 1.0), (100.0, 1e-3)):
        for seed in range(3):
            torch.manual_seed(seed)
            torch_fails |= bool(F.gumbel_softmax(scale * logits, tau).isnan().any())
            assert hm.gumbel_softmax(scale * logits, tau).isfinite().all()
    assert torch_fails == (dtype == torch.float16)  # bfloat16 has the range of float32


def test_large_logits():
    """pytorch#103459: logits of +-255. Fixed upstream since; 3e38 is the limit of float32."""
    torch.manual_seed(0)
    logits = 255 * (2 * torch.rand(20, 512) - 1)
    for scale in (1.0, 1e4):
        assert hm.gumbel_softmax(scale * logits, tau=1e-3).isfinite().all()


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_by_inductor():
    """pytorch#127749: NaN from compiled code that draws zeros. Here the noise is bounded before its logarithm."""
    torch._dynamo.reset()
    logits = torch.zeros(64, 320, requires_grad=True)
    compiled = torch.compile(lambda x: hm.gumbel_softmax(x, 0.5, hard=True), fullgraph=True)
    for _ in range(20):
        z = compiled(logits)
        (gradient,) = torch.autograd.grad(z.square().sum(), logits)
        assert z.isfinite().all()
        assert (z.sum(-1) == 1).all()
        assert gradient.isfinite().all()


def test_temperature_of_zero():
    """pytorch#184031: tau = 0 gives NaN in torch without a word; here an error."""
    assert F.gumbel_softmax(torch.randn(2, 8), tau=0.0).isnan().any()
    with pytest.raises(hm.ArgumentError, match=r"tau must be a positive number, got 0.0"):
        hm.gumbel_softmax(torch.randn(2, 8), tau=0.0)


def test_hard_is_exactly_one_hot():
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        z = hm.gumbel_softmax(torch.randn(1000, 32).to(dtype), hard=True)
        assert ((z == 0) | (z == 1)).all()
        assert (z.sum(-1) == 1).all()


def test_masked_logits_at_a_small_temperature():
    """A row with one allowed value; the gradient of torch's is NaN where a logit is -inf and tau carries a gradient."""
    logits = torch.tensor([[0.0, -INF, -INF], [1.0, 2.0, -INF]], requires_grad=True)
    for function in (F.gumbel_softmax, hm.gumbel_softmax):
        tau = torch.tensor(1e-3, requires_grad=True)
        z = function(logits, tau=tau)
        gradients = torch.autograd.grad((z * torch.arange(3.0)).sum(), (logits, tau))
        assert z.isfinite().all()
        assert gradients[0].isfinite().all()
        assert gradients[1].isfinite() == (function is hm.gumbel_softmax)


# ----------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("function", [hm.gumbel_softmax, hm.argmax, lambda x: hm.topk(x, 1)])
def test_nan_and_empty_choices(function):
    with pytest.raises(hm.ArgumentError, match=r"got nan at index \[1, 2\]"):
        function(torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, float("nan")]]))
    with pytest.raises(hm.ArgumentError, match=r"got inf at index \[0, 1\]"):
        function(torch.tensor([[0.0, INF, 2.0], [0.0, 1.0, 0.0]]))
    with pytest.raises(hm.ArgumentError, match=r"\[1\]"):
        function(torch.tensor([[0.0, 1.0, 2.0], [-INF, -INF, -INF]]))
    with pytest.raises(hm.DtypeError, match="float"):
        function(torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(hm.DtypeError, match="got list"):
        function([0.0, 1.0])


def test_wrong_arguments():
    scores = torch.randn(2, 5)
    with pytest.raises(hm.ArgumentError, match=r"between none and all of n=5 items, got k=6"):
        hm.topk(scores, 6)
    with pytest.raises(hm.ArgumentError, match="leave no z of Subset"):
        hm.topk(scores, 3, mask=torch.tensor([True, True, False, False, False]))
    with pytest.raises(IndexError, match="Dimension out of range"):
        hm.argmax(scores, dim=2)
    with pytest.raises(hm.DtypeError, match=r"mask must be boolean.*got torch.int64; pass mask.bool"):
        hm.argmax(scores, mask=torch.ones(5, dtype=torch.long))
    with pytest.raises(hm.ArgumentError, match=r"Direct.* gives no z with a gradient"):
        hm.argmax(scores, estimator=hm.Direct())
    with pytest.raises(hm.NotExactError, match="independent"):
        hm.topk(scores, 2, estimator=hm.ReinMax())
    with pytest.raises(hm.ArgumentError, match="scores must be finite"):
        hm.sort(torch.tensor([0.0, -INF, 1.0]))
    with pytest.raises(hm.ArgumentError, match="tau must be a positive number, got -1"):
        hm.gumbel_softmax(scores, -1)
