"""Quantizers under torch.compile and vmap; bad arguments and bad input."""

import copy

import pytest
import torch

import hardmax as hm
from hardmax.nn import Codebook, FiniteScalarQuantizer, LookupFreeQuantizer, Quantizer

pytestmark = [
    pytest.mark.plain,
    # torch.compile itself instantiates custom autograd functions.
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated"),
]
OPTIONS = {
    "nearest": {},
    "rotate": {"estimator": "rotate", "learning": "gradient", "residual": 2},
    "linear": {"learning": "linear"},
    "ReinMax": {"estimator": hm.ReinMax()},
    "Gumbel": {"estimator": hm.GumbelSoftmax(0.5), "groups": 2},
}
CASES = pytest.mark.parametrize("name", OPTIONS)
COMPILED = [pytest.param(name, marks=() if name in ("nearest", "ReinMax") else pytest.mark.slow) for name in OPTIONS]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_gives_the_same(name):
    """Also the counts and the running means, in training, once the codes are placed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    quantizer = Quantizer(6, 9, **OPTIONS[name])
    quantizer(torch.randn(50, 6))
    twin, results = copy.deepcopy(quantizer), []
    x, g = torch.randn(7, 6), torch.randn(7, 6)
    for layer, run in ((quantizer, quantizer), (twin, torch.compile(twin, fullgraph=True, backend="aot_eager"))):
        for mode in (True, False):
            layer.train(mode)
            torch.manual_seed(1)
            leaf = x.clone().requires_grad_()
            out = run(leaf)
            ((out.quantized * g).sum() + out.loss).backward()
            results.append([out.quantized.detach(), out.indices, out.usage.share, out.loss.detach(), leaf.grad])
            results[-1] += [value.clone() for key, value in layer.state_dict().items() if key != "calls"]
    for left, right in zip(results[:2], results[2:], strict=True):
        for one, other in zip(left, right, strict=True):
            assert torch.allclose(one, other, atol=1e-6)
    assert quantizer.codebooks[0].used.sum() == 57


@pytest.mark.parametrize("build", [lambda: FiniteScalarQuantizer((8, 5, 4)), lambda: LookupFreeQuantizer(3)])
def test_layers_without_a_codebook_compiled_and_mapped(build):
    torch._dynamo.reset()
    quantizer, x = build(), torch.randn(4, 7, 3)
    compiled = torch.compile(quantizer, fullgraph=True, backend="aot_eager")
    for part in x:
        left, right = quantizer(part), compiled(part)
        assert torch.equal(left.quantized, right.quantized)
        assert torch.allclose(left.loss, right.loss)
    mapped = torch.func.vmap(lambda part: quantizer(part).quantized)(x)
    assert torch.equal(mapped, quantizer(x).quantized)
    losses = torch.func.vmap(lambda part: quantizer(part).loss)(x)
    assert torch.allclose(losses, torch.stack([quantizer(part).loss for part in x]))


@CASES
def test_vmap(name):
    """Each slice has its own loss and usage; the codebook does not change, also in training."""
    quantizer = Quantizer(6, 9, **OPTIONS[name])
    x = torch.randn(3, 7, 6)
    quantizer(x)
    before = copy.deepcopy(quantizer.state_dict())

    def run(x):
        out = quantizer(x)
        return out.quantized, out.indices, out.loss, out.usage.share

    quantized, _, loss, share = torch.func.vmap(run, randomness="same")(x)
    assert quantized.shape == x.shape
    assert loss.shape == (3,)
    assert torch.allclose(share.sum(-1), torch.ones(()))
    gradient = torch.func.vmap(torch.func.grad(lambda x: run(x)[2]), randomness="same")(x)
    assert gradient.shape == x.shape
    assert gradient.any()
    assert all(torch.equal(value, before[key]) for key, value in quantizer.state_dict().items())
    quantizer.eval()
    for slices, whole in zip(torch.func.vmap(run)(x), zip(*map(run, x), strict=True), strict=True):
        assert torch.allclose(slices, torch.stack(whole))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codes": 0}, "at least 2 codes and at least 1 dimension, got codes=0"),
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"groups": 4}, "dim must be a multiple of groups, got dim=6 and groups=4"),
        ({"residual": 0}, "residual must be at least 1, got 0"),
        ({"revive_every": 0}, "revive_every must be at least 1, got 0"),
        ({"commitment": -1.0}, "commitment must be a finite number, at least 0; got -1.0"),
        ({"kl_weight": float("nan")}, "kl_weight must be a finite number"),
        ({"revive_below": float("inf")}, "revive_below must be a finite number"),
        ({"decay": 1.0}, "decay must be at least 0 and below 1, got 1.0"),
        ({"learning": "ema"}, "learning must be 'gradient', 'average' or 'linear', got 'ema'"),
        ({"estimator": "vq"}, "estimator must be 'nearest', 'rotate', or a sample-style estimator"),
        ({"estimator": hm.Direct()}, r"Direct.* needs values of the loss.*quantizer.look_up\(z\)"),
        ({"estimator": hm.Reinforce()}, "needs values of the loss.*hm.elbo or hm.expectation"),
        ({"estimator": hm.ReinMax(), "learning": "average"}, "learning='average' needs the nearest codes"),
    ],
    ids=str,
)
def test_bad_arguments(options, message):
    arguments = {"dim": 6, "codes": 9, **options}
    with pytest.raises(hm.ArgumentError, match=message):
        Quantizer(arguments.pop("dim"), arguments.pop("codes"), **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Codebook(4, 0), "got codes=4, dimensions=0"),
        (lambda: FiniteScalarQuantizer(()), r"levels must be at least one number, each at least 3, got \[\]"),
        (lambda: FiniteScalarQuantizer((8, 2)), "for two levels use LookupFreeQuantizer"),
        (lambda: LookupFreeQuantizer(0), "bits must be from 1 to 24, got 0"),
        (lambda: LookupFreeQuantizer(40), "bits must be from 1 to 24, got 40"),
        (lambda: LookupFreeQuantizer(4, temperature=0.0), "temperature must be a positive number"),
        (lambda: LookupFreeQuantizer(4, entropy_weight=-1.0), "entropy_weight must be a finite number, at least 0"),
    ],
)
def test_bad_arguments_of_the_others(make, message):
    with pytest.raises(hm.ArgumentError, match=message):
        make()


QUANTIZERS = {
    "nearest": lambda: Quantizer(3, 5),
    "ReinMax": lambda: Quantizer(3, 5, estimator=hm.ReinMax()),
    "finite": lambda: FiniteScalarQuantizer((3, 4, 5)),
    "bits": lambda: LookupFreeQuantizer(3),
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_bad_input(name):
    quantizer = QUANTIZERS[name]()
    before = copy.deepcopy(quantizer.state_dict())
    for bad in (float("nan"), float("inf"), -float("inf")):
        x = torch.zeros(2, 3)
        x[1, 2] = bad
        with pytest.raises(hm.ArgumentError, match=rf"x must be finite, got {bad} at index \[1, 2\] \(1 of 6"):
            quantizer(x)
    with pytest.raises(hm.ShapeError, match=r"last dimension is 3, got shape \[2, 4\]; .*x.movedim\(1, -1\)"):
        quantizer(torch.zeros(2, 4))
    with pytest.raises(hm.ShapeError, match=r"last dimension is 3, got shape \[\]"):
        quantizer(torch.tensor(1.0))
    with pytest.raises(hm.errors.DtypeError, match=r"x must be floating point, got torch\.int64"):
        quantizer(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(hm.errors.DtypeError, match=r"indices must be whole numbers, got torch\.float32"):
        quantizer.decode(torch.zeros(3))
    with pytest.raises(hm.ArgumentError, match=rf"indices must be from 0 to {quantizer.codes - 1}, got -1 to 0"):
        quantizer.decode(torch.tensor([0, -1]))
    assert all(torch.equal(value, before[key]) for key, value in quantizer.state_dict().items())


def test_scores_of_running_means():
    quantizer = Quantizer(4, 5)
    with pytest.raises(hm.ArgumentError, match="create the quantizer with learning='gradient'"):
        quantizer.scores(torch.zeros(2, 4))
    assert quantizer.eval().scores(torch.zeros(2, 4)).shape == (2, 5)
    assert Quantizer(4, 5, maintain=False).scores(torch.zeros(2, 4)).shape == (2, 5)


def test_parts_need_a_dimension():
    quantizer = Quantizer(4, 5, residual=2, learning="gradient")
    with pytest.raises(hm.ShapeError, match=r"a last dimension of 2 parts, got shape \[3\]"):
        quantizer.decode(torch.zeros(3, dtype=torch.int64))
    for use in (lambda: quantizer.space, lambda: quantizer.scores(torch.zeros(2, 4)), lambda: quantizer.look_up(None)):
        with pytest.raises(hm.NotExactError, match="with residual=2, the scores of a codebook depend on the choice"):
            use()
