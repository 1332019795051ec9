"""`Linear` equals `nn.Linear` in values, first and second derivatives, by either library."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from hardmax.nn import linear as module
from hardmax.nn.linear import Linear, apply_linear
from hardmax.random import make_generator

LARGE, SMALL = (120, 150, 100), (4, 5, 3)  # rows, inputs, outputs; only the first are worth a call of oneDNN


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of products by oneDNN so far, as the length of a list."""
    products: list[int] = []
    original = module._OneDNNLinear.apply

    def apply(*inputs: Tensor) -> Tensor:
        products.append(1)
        return original(*inputs)

    monkeypatch.setattr(module._OneDNNLinear, "apply", apply)
    return products


def draw(sizes: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = make_generator(0)
    rows, inputs, outputs = sizes
    shapes = ((2, rows // 2, inputs), (outputs, inputs), (outputs,))
    return tuple(torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes)  # pyright: ignore


def differentiate(function: object, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the value, the gradients, and the gradients of a function of the gradients."""
    value = function(*tensors)  # pyright: ignore
    first = torch.autograd.grad(value.tanh().sum(), tensors, create_graph=True)
    return value, *first, *torch.autograd.grad(sum(part.square().sum() for part in first), tensors)  # pyright: ignore


@pytest.mark.parametrize("sizes", [LARGE, SMALL])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_derivatives(calls: list[int], sizes: tuple[int, int, int], with_bias: bool) -> None:
    tensors = draw(sizes) if with_bias else draw(sizes)[:2]
    exact = differentiate(linear, tuple(tensor.detach().double().requires_grad_() for tensor in tensors))
    for ours, theirs in zip(differentiate(apply_linear, tensors), exact, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item())
    fast = sizes == LARGE and module._has_fast_kernels()
    assert len(calls) >= 3 if fast else not calls


def test_strided_input_and_frozen_weights(calls: list[int]) -> None:
    x, weight, bias = draw(LARGE)
    x = x.detach().flatten(0, 1).T.contiguous().T.requires_grad_()
    output = apply_linear(x, weight.detach(), bias.detach())
    output.sum().backward()
    torch.testing.assert_close(output, linear(x, weight, bias))
    assert x.grad is not None
    torch.testing.assert_close(x.grad, weight.detach().sum(0).expand_as(x))
    assert len(calls) == 2 * module._has_fast_kernels()  # no gradient of the weight


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_use_torch(calls: list[int], dtype: torch.dtype) -> None:
    x, weight, bias = draw(LARGE, dtype)
    assert torch.equal(apply_linear(x, weight, bias), linear(x, weight, bias))
    assert not calls


def test_layer_has_the_initial_weights_and_state_of_torch() -> None:
    torch.manual_seed(0)
    ours = Linear(300, 200)
    torch.manual_seed(0)
    theirs = nn.Linear(300, 200)
    theirs.load_state_dict(ours.state_dict())
    x = draw((100, 300, 1))[0]
    torch.testing.assert_close(ours(x), theirs(x))
    assert torch.equal(ours.weight, theirs.weight)


def test_autocast_and_transforms(calls: list[int]) -> None:
    x, weight, bias = draw(LARGE)
    with torch.autocast("cpu", torch.bfloat16):
        assert apply_linear(x, weight, bias).dtype == torch.bfloat16
    mapped = torch.func.vmap(apply_linear, in_dims=(0, None, None))(x, weight, bias)
    torch.testing.assert_close(mapped, linear(x, weight, bias))
    gradient = torch.func.grad(lambda w: apply_linear(x, w, bias).square().sum())(weight)
    expected = torch.autograd.grad(linear(x, weight, bias).square().sum(), weight)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-2)
    assert not calls
