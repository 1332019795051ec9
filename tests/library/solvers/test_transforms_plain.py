"""torch.compile(fullgraph=True) and torch.func work around the solvers."""

from dataclasses import replace

import pytest
import torch

from hardmax.solvers import pairwise_argmax
from hardmax.solvers.knapsack import knapsack_argmax, prepare_constraints

pytestmark = pytest.mark.plain  # without shape checks

N = 5
EDGES = torch.triu_indices(N, N, 1).T.contiguous()
GENERATOR = torch.Generator().manual_seed(0)
UNARY = torch.randn(7, N, generator=GENERATOR, dtype=torch.float64)
COUPLINGS = torch.randn(7, len(EDGES), generator=GENERATOR, dtype=torch.float64)
CASES = pytest.mark.parametrize("supermodular", [False, True])


def scores(supermodular):
    return UNARY, COUPLINGS.abs() if supermodular else COUPLINGS


@CASES
@pytest.mark.parametrize("solver", ["auto", "enumeration", "heuristic"])
def test_compiled(supermodular, solver):
    def best(unary, couplings):
        z = pairwise_argmax(unary, couplings, EDGES, supermodular, solver)
        return (z * unary).sum() + (z[..., EDGES[:, 0]] * z[..., EDGES[:, 1]] * couplings).sum()

    torch._dynamo.reset()
    compiled = torch.compile(best, fullgraph=True, backend="aot_eager")
    leaves = [tensor.clone().requires_grad_() for tensor in scores(supermodular)]
    value, expected = compiled(*leaves), best(*leaves)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, leaves), torch.autograd.grad(expected, leaves))


@CASES
def test_compiled_with_a_start(supermodular):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda unary, couplings, start: pairwise_argmax(unary, couplings, EDGES, supermodular, "auto", start),
        fullgraph=True,
        backend="aot_eager",
    )
    z = pairwise_argmax(*scores(supermodular), EDGES, supermodular)
    assert torch.equal(compiled(*scores(supermodular), z), z)


@CASES
def test_vmap(supermodular):
    unary, couplings = scores(supermodular)
    expected = pairwise_argmax(unary, couplings, EDGES, supermodular)

    def best(unary, couplings, start=None):
        return pairwise_argmax(unary, couplings, EDGES, supermodular, "auto", start)

    vmap = torch.func.vmap
    assert torch.equal(vmap(best)(unary, couplings), expected)
    assert torch.equal(vmap(best, in_dims=(1, 1))(unary.T, couplings.T), expected)
    assert torch.equal(vmap(best)(unary, couplings, expected), expected)
    assert torch.equal(vmap(best, in_dims=(0, None))(unary, couplings[0])[0], expected[0])
    both = vmap(vmap(best))(unary.expand(2, -1, -1), couplings.expand(2, -1, -1))
    assert torch.equal(both, expected.expand(2, -1, -1))


@CASES
def test_grad_and_vmap_of_grad(supermodular):
    unary, couplings = scores(supermodular)

    def best(unary, couplings):
        z = pairwise_argmax(unary, couplings, EDGES, supermodular)
        return (z * unary).sum() + (z[..., EDGES[:, 0]] * z[..., EDGES[:, 1]] * couplings).sum()

    z = pairwise_argmax(unary, couplings, EDGES, supermodular)
    assert torch.equal(torch.func.grad(best)(unary, couplings), z)
    assert torch.equal(torch.func.vmap(torch.func.grad(best))(unary, couplings), z)
    # The value is linear around z: no second derivative.
    curvature = torch.func.jacrev(torch.func.grad(best))(unary[0], couplings[0])
    assert torch.equal(curvature, torch.zeros(N, N, dtype=torch.float64))


def test_the_operator_is_registered_properly():
    unary, couplings = scores(False)
    torch.library.opcheck(torch.ops.hardmax.pairwise_argmax.default, (unary, couplings, EDGES, False, "auto"))


def test_nan_passes_through():
    """Callers check values where they can read them; compiled code must not hang or raise."""
    unary = UNARY.clone()
    unary[2, 1] = float("nan")
    best = torch.compile(
        lambda unary: pairwise_argmax(unary, COUPLINGS, EDGES, False), fullgraph=True, backend="aot_eager"
    )
    assert best(unary).shape == unary.shape


# ------------------------------------------------------------------------------- knapsacks without a decision diagram
CONSTRAINTS = replace(prepare_constraints(((2, 3, 1, 2, 4), (1, 1, 2, 3, 1)), (6, 4)), diagram=None)


def test_knapsack_compiles_and_vmaps():
    z = knapsack_argmax(UNARY, CONSTRAINTS)
    torch._dynamo.reset()
    best = torch.compile(lambda scores: knapsack_argmax(scores, CONSTRAINTS), fullgraph=True, backend="aot_eager")
    assert torch.equal(best(UNARY), z)
    assert torch.equal(torch.func.vmap(lambda scores: knapsack_argmax(scores, CONSTRAINTS))(UNARY), z)
    by_column = torch.func.vmap(lambda scores: knapsack_argmax(scores, CONSTRAINTS), in_dims=1)(UNARY.mT)
    assert torch.equal(by_column, z)
    arguments = UNARY, CONSTRAINTS.weights, CONSTRAINTS.capacities, "branch-and-bound"
    torch.library.opcheck(torch.ops.hardmax.knapsack_argmax.default, arguments)
