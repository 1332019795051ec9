"""Random pairwise scores, easy and hard, brute force, and the check that every solver must pass."""

import math

import torch

KINDS = ["easy", "strong", "balanced", "negative", "integers", "zero", "sparse", "huge", "tiny", "mixed"]
SUPERMODULAR = ["balanced", "zero", "sparse-balanced"]


def complete(n):
    return torch.triu_indices(n, n, 1).T.contiguous()


def grid(height, width):
    index = torch.arange(height * width).view(height, width)
    across = torch.stack([index[:, :-1].flatten(), index[:, 1:].flatten()], 1)
    down = torch.stack([index[:-1].flatten(), index[1:].flatten()], 1)
    return torch.cat([across, down])


def balance_scores(couplings, unary, edges):
    """Shift unary scores so that neither all zeros nor all ones is a trivial best z."""
    half = couplings / 2
    return unary - torch.zeros_like(unary).index_add(1, edges[:, 0], half).index_add(1, edges[:, 1], half)


def problem(kind, n, batch, seed=0, dtype=torch.float64):
    """Return unary `[B, n]`, couplings `[B, E]` and edges `[E, 2]` of random problems."""
    generator = torch.Generator().manual_seed(1000 * n + KINDS.index(kind.removeprefix("sparse-")) + 17 * seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    edges = complete(n)
    if kind.startswith("sparse"):
        edges = edges[torch.rand(len(edges), generator=generator) < max(0.2, 3 / n)]
        edges = torch.where(
            torch.rand(len(edges), 1, generator=generator) < 0.5, edges, edges.flip(1)
        )  # in either direction
    unary, couplings = normal(batch, n), 0.3 * normal(batch, len(edges))
    if kind == "strong":
        couplings = 5 * couplings
    elif kind in ("balanced", "sparse-balanced"):
        couplings = torch.nn.functional.softplus(couplings)
        unary = balance_scores(couplings, unary * math.sqrt(n) / 2, edges)
    elif kind == "negative":
        couplings = -torch.nn.functional.softplus(couplings)
        unary = balance_scores(couplings, unary * math.sqrt(n) / 2, edges)
    elif kind == "integers":  # many ties
        unary = torch.randint(-3, 4, unary.shape, generator=generator).double()
        couplings = torch.randint(-2, 3, couplings.shape, generator=generator).double()
    elif kind == "zero":
        unary[:, ::3] = 0
        couplings = torch.zeros_like(couplings)
    elif kind == "huge":
        unary, couplings = 1e30 * unary, 1e30 * couplings
    elif kind == "tiny":
        unary, couplings = 1e-30 * unary, 1e-30 * couplings
    elif kind == "mixed":  # scores of very different size in one problem
        couplings = couplings * 10 ** (6 * torch.rand(couplings.shape, generator=generator, dtype=torch.float64))
    return unary.to(dtype), couplings.to(dtype), edges


def evaluate(z, unary, couplings, edges):
    z = z.double()
    return (unary.double() * z).sum(-1) + (couplings.double() * z[..., edges[:, 0]] * z[..., edges[:, 1]]).sum(-1)


def scale(unary, couplings):
    return unary.double().abs().sum(-1) + couplings.double().abs().sum(-1)


def brute_force(unary, couplings, edges):
    """Return the best value of each example: the values of all codes of k + 1 bits follow from those of k bits."""
    batch, n = unary.shape
    weights = torch.zeros(batch, n, n, dtype=torch.float64)
    weights[:, edges[:, 0], edges[:, 1]] = couplings.double()
    weights[:, edges[:, 1], edges[:, 0]] = couplings.double()
    best = []
    for a, w in zip(unary.double().split(32), weights.split(32), strict=True):
        values = torch.zeros(len(a), 1, dtype=torch.float64)
        for bit in range(n):
            field = a[:, bit : bit + 1]
            for other in range(bit):
                field = torch.cat([field, field + w[:, other, bit : bit + 1]], 1)
            values = torch.cat([values, values + field], 1)
        best.append(values.amax(1))
    return torch.cat(best)


def assert_valid(solution, unary, couplings, edges, optimum, *, exact=True, tolerance=1e-9):
    """Check that z has bits, value is its score, and value <= optimum <= bound; with `exact`, all three are equal."""
    within = tolerance * scale(unary, couplings)
    assert solution.z.shape == unary.shape
    assert solution.z.dtype == unary.dtype
    assert ((solution.z == 0) | (solution.z == 1)).all()
    error = (solution.value - evaluate(solution.z, unary, couplings, edges)).abs()
    assert (error <= within).all(), "value is not that of z"
    assert (solution.value <= optimum + within).all(), "value above the optimum"
    assert (solution.bound >= optimum - within).all(), "bound below the optimum"
    assert (solution.bound >= solution.value).all()
    if exact:
        assert solution.is_exact, f"gap {solution.gap.max()}"
        assert (solution.value >= optimum - within).all(), "not the best z"
