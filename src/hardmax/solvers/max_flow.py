"""Min-cut by a max-flow library: OR-tools, or PyMaxflow if it is installed and the caller names it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax.errors import MissingExtraError, NotExactError
from hardmax.solvers.heuristic import evaluate_bits
from hardmax.solvers.solution import Solution, certify_solution

CAPACITY_BITS = 60  # the capacities of an example add up to less than 2^60, so that no sum leaves int64


def compute_fields(unary: Tensor, couplings: Tensor, edges: Tensor) -> np.ndarray:
    """Return the fields `a_i + sum_j w_ij / 2`, `[B, n]`: the source's arcs where positive, the sink's where negative.

    `w z_i z_j = w (z_i + z_j) / 2 - w |z_i - z_j| / 2`: the other half of each coupling is an edge's capacity.
    """
    half = couplings / 2
    return unary.index_add(1, edges[:, 0], half).index_add(1, edges[:, 1], half).numpy()


def solve_max_flow(unary: Tensor, couplings: Tensor, edges: Tensor) -> Solution:
    """Return the best z for couplings >= 0 by OR-tools' push-relabel, one example after the other.

    OR-tools needs int64 capacities, so an example's fields and couplings are multiplied by the power of two at which
    their sum is below 2^60, and rounded. Each of the n fields and E capacities is then off by at most 1/2, so that no z
    beats the result by more than `(n + E) / 2^power` in the original units. The bound includes this error, which is far
    below the rounding of float64 sums.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`.

    Raises:
        MissingExtraError: OR-tools is not installed.
        NotExactError: OR-tools returned no optimal flow.
    """
    try:
        from ortools.graph.python.max_flow import SimpleMaxFlow
    except ImportError as error:
        raise MissingExtraError(
            "solver='max-flow' is OR-tools, which is not installed; pip install 'hardmax[solvers]'"
        ) from error
    n, ends, nodes = unary.shape[1], edges.numpy().astype(np.int32), np.arange(unary.shape[1], dtype=np.int32)
    source, sink = np.full_like(nodes, n), np.full_like(nodes, n + 1)
    tails = np.concatenate([ends[:, 0], ends[:, 1], source, nodes])
    heads = np.concatenate([ends[:, 1], ends[:, 0], nodes, sink])
    scale = unary.abs().sum(1) + couplings.abs().sum(1)
    finite = scale.isfinite().numpy()
    power = CAPACITY_BITS - np.frexp(np.where(finite, scale.numpy(), 1.0))[1]
    field = _scale_to_integers(compute_fields(unary, couplings, edges), power)
    half = _scale_to_integers(couplings.numpy() / 2, power)
    capacities = np.concatenate([half, half, field.clip(min=0), (-field).clip(min=0)], 1)
    z = torch.ones_like(unary)
    for b in np.flatnonzero(finite):
        flow: Any = SimpleMaxFlow()
        flow.add_arcs_with_capacity(tails, heads, capacities[b])
        if flow.solve(n, n + 1) != flow.OPTIMAL:
            raise NotExactError(f"OR-tools found no maximum flow for example {b}; use solver='min-cut'")
        reaching = np.asarray(flow.get_sink_side_min_cut())  # nodes from which the sink can be reached: the zeros
        z[b, reaching[reaching < n]] = 0
    value = evaluate_bits(z, unary, couplings, edges)
    error = torch.from_numpy(np.ldexp(float(n + len(ends)), -power)) * (scale > 0)  # zeros are not rounded
    return certify_solution(z, value, value + error, scale, "max-flow")


def _scale_to_integers(numbers: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Return `[B, k]` times 2^power, rounded to int64; non-finite numbers become zero."""
    return np.nan_to_num(np.rint(np.ldexp(numbers, power[:, None])), posinf=0, neginf=0).astype(np.int64)


def solve_pymaxflow(unary: Tensor, couplings: Tensor, edges: Tensor) -> Solution:
    """Return the best z for couplings >= 0 by PyMaxflow: under the GPL, so never a dependency, used only when named.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`.

    Raises:
        MissingExtraError: PyMaxflow is not installed.
    """
    try:
        import maxflow  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError(
            "solver='pymaxflow' needs PyMaxflow, which is not installed and, being under the GPL, is in none of our "
            "extras; pip install PyMaxflow, or use solver='min-cut'"
        ) from error
    library: Any = maxflow
    field, half, ends = compute_fields(unary, couplings, edges), couplings.numpy() / 2, edges.numpy()
    z = torch.empty_like(unary)
    bound = torch.empty(len(unary), dtype=torch.float64)
    for b in range(len(unary)):
        graph = library.Graph[float](unary.shape[1], len(ends))
        nodes = graph.add_grid_nodes(unary.shape[1])
        if len(ends):
            graph.add_edges(nodes[ends[:, 0]], nodes[ends[:, 1]], half[b], half[b])
        graph.add_grid_tedges(nodes, field[b].clip(min=0), -field[b].clip(max=0))
        bound[b] = field[b].clip(min=0).sum() - graph.maxflow()
        z[b] = torch.from_numpy(~graph.get_grid_segments(nodes))  # False is the source's side
    scale = unary.abs().sum(1) + couplings.abs().sum(1)
    return certify_solution(z, evaluate_bits(z, unary, couplings, edges), bound, scale, "pymaxflow")
