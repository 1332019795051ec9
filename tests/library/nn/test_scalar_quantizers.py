"""Finite scalar and lookup-free quantization: codes, gradients and entropies against enumeration."""

import copy
import math
from itertools import product

import pytest
import torch

import hardmax as hm
from hardmax.nn import FiniteScalarQuantizer, LookupFreeQuantizer
from hardmax.nn.finite_scalar import choose_levels
from hardmax.random import make_generator


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=make_generator(seed, "test"), dtype=dtype)


QUANTIZERS = {
    "finite": lambda: FiniteScalarQuantizer((8, 5, 4)),
    "lookup-free": lambda: LookupFreeQuantizer(3),
}
CASES = pytest.mark.parametrize("name", QUANTIZERS)


@pytest.mark.parametrize("levels", [(3,), (4,), (8, 5, 3), (4, 4, 7, 6)], ids=str)
def test_finite_scalar_codes(levels):
    """All codes of the grid occur, their numbers are unique, and an entry is rounded to the nearest level."""
    quantizer = FiniteScalarQuantizer(levels)
    assert quantizer.codes == math.prod(levels)
    grid = {
        tuple((i - n // 2) / (n // 2) for i, n in zip(index, levels, strict=True))
        for index in product(*map(range, levels))
    }
    assert {tuple(code) for code in quantizer.compute_codes().tolist()} == grid
    x = 3 * random(3000, len(levels))
    out = quantizer(x)
    assert torch.equal(quantizer.decode(out.indices).double(), out.quantized) or torch.allclose(
        quantizer.decode(out.indices).double(), out.quantized, atol=1e-6
    )
    assert set(quantizer(torch.tensor([[-50.0], [50.0]]).expand(2, len(levels))).indices.tolist()) == {
        0,
        quantizer.codes - 1,
    }
    for entry, n in enumerate(levels):
        half, offset = (n - 1) * 1.001 / 2, 0.5 * (n % 2 == 0)
        bounded = half * (x[:, entry] + math.atanh(offset / half)).tanh() - offset
        assert torch.allclose(out.quantized[:, entry], bounded.round() / (n // 2))
        assert len(out.quantized[:, entry].unique()) == n
    assert not FiniteScalarQuantizer(levels)(torch.zeros(1, len(levels))).quantized.any()
    assert out.loss == 0
    assert not out.terms


def test_finite_scalar_gradient():
    """That of the bounded entries, whatever they are rounded to."""
    quantizer = FiniteScalarQuantizer((5, 4))
    x, g = random(40, 2).requires_grad_(), random(40, 2, seed=1)
    (quantizer(x).quantized * g).sum().backward()
    for entry, n in enumerate((5, 4)):
        half, offset = (n - 1) * 1.001 / 2, 0.5 * (n % 2 == 0)
        slope = half * (1 - (x[:, entry].detach() + math.atanh(offset / half)).tanh().square()) / (n // 2)
        torch.testing.assert_close(x.grad[:, entry], g[:, entry] * slope)


def test_scores_agree_with_the_codes():
    x = random(200, 3)
    finite = FiniteScalarQuantizer((8, 5, 4))
    assert torch.equal(finite.scores(x).argmax(-1), finite(x).indices)
    torch.testing.assert_close(finite.look_up(finite.space.argmax(finite.scores(x))), finite(x).quantized)
    bits = LookupFreeQuantizer(3, temperature=0.7)
    torch.testing.assert_close(bits.look_up(bits.space.argmax(bits.scores(x))), bits(x).quantized)
    codes = torch.tensor(list(product((-1.0, 1.0), repeat=3)), dtype=torch.float64)
    q = (-(x[:, None] - codes).square().sum(-1) / 0.7).softmax(-1)
    mean = torch.einsum("nk,kd->nd", q, codes)
    torch.testing.assert_close(bits.look_up(bits.space.marginals(bits.scores(x))), mean)


def test_lookup_free_codes_and_gradient():
    quantizer = LookupFreeQuantizer(10, entropy_weight=0.0, commitment=0.4)
    x, g = random(50, 10).requires_grad_(), random(50, 10, seed=1)
    out = quantizer(x)
    assert torch.equal(out.quantized, x.detach().sign())
    assert torch.equal(out.indices, sum((x.detach()[:, i] > 0).long() * 2**i for i in range(10)))
    assert torch.equal(quantizer.decode(out.indices).double(), out.quantized.detach())
    ((out.quantized * g).sum() + out.loss).backward()
    torch.testing.assert_close(x.grad, g + 0.4 * 2 * (x.detach() - x.detach().sign()) / 500)


def test_entropies_by_enumeration():
    """Value and gradient of the loss, from the distribution over all codes; beyond 8 bits blocks are summed."""
    bits, weight, temperature = 5, 0.6, 1.7
    quantizer = LookupFreeQuantizer(bits, entropy_weight=weight, commitment=0.0, temperature=temperature)
    x = random(7, bits).requires_grad_()
    out = quantizer(x)
    codes = torch.tensor(list(product((-1.0, 1.0), repeat=bits)), dtype=torch.float64)
    q = (-(x[:, None] - codes).square().sum(-1) / temperature).softmax(-1)
    entropy, mean = torch.special.entr(q).sum(-1), q.mean(0)
    exact = weight * (entropy.mean() - torch.special.entr(mean).sum())
    torch.testing.assert_close(out.loss, exact)
    torch.testing.assert_close(out.terms["entropy"], entropy)
    torch.testing.assert_close(*(torch.autograd.grad(value, x)[0] for value in (out.loss, exact)))
    wide = random(20, 11)
    parts = [
        LookupFreeQuantizer(size)(part).terms["diversity"]
        for size, part in zip((8, 3), wide.split([8, 3], -1), strict=True)
    ]
    torch.testing.assert_close(LookupFreeQuantizer(11)(wide).terms["diversity"], sum(parts))


def test_the_entropies_bring_all_codes_into_use():
    torch.manual_seed(0)
    x, linear = torch.randn(400, 6) * torch.tensor([5.0, 1, 1, 1, 1, 1]) + 2, torch.nn.Linear(6, 4)
    quantizer, optimizer = LookupFreeQuantizer(4), torch.optim.Adam(linear.parameters(), lr=0.05)
    before = quantizer(linear(x)).usage.in_use
    for _ in range(200):
        optimizer.zero_grad()
        quantizer(linear(x)).loss.backward()
        optimizer.step()
    assert before < 0.9
    assert quantizer(linear(x)).usage.in_use == 1


@CASES
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_dtypes_and_shapes(name, dtype):
    quantizer = QUANTIZERS[name]().to(dtype)
    for shape in ((), (0,), (3, 0), (2, 3)):
        x = random(*shape, 3).to(dtype).requires_grad_()
        out = quantizer(x)
        assert out.quantized.shape == x.shape
        assert out.quantized.dtype == dtype
        assert out.indices.shape == shape
        assert out.loss.isfinite()
        assert torch.equal(QUANTIZERS[name]()(x.double()).indices, out.indices) or dtype.itemsize == 2
        assert torch.allclose(quantizer.decode(out.indices).to(dtype), out.quantized, atol=1e-2)
        (out.quantized.float().sum() + out.loss).backward()
        assert x.grad.isfinite().all()
        twin = copy.deepcopy(quantizer)
        assert torch.equal(twin(x).quantized, out.quantized)
    assert not quantizer.state_dict()


def test_choose_levels():
    for codes in (8, 60, 64, 128, 240, 256, 1000, 1024, 4096, 2**16):
        levels = choose_levels(codes)
        assert math.prod(levels) == codes
        assert all(3 <= level <= 8 for level in levels)
    for codes in (0, 1, 2, 11, 14 * 11):
        with pytest.raises(hm.ArgumentError, match=f"a product of levels from 3 to 8, such as 1,000; got {codes}"):
            choose_levels(codes)
