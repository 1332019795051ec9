"""Solves per second of shortest paths on grids, compared with loops over common libraries, in one thread.

Two problems: monotone paths of a 5 x 5 grid with a cost for each of 40 edges (Elmachtoub and Grigas), and paths between
the cells of a 12 x 12 grid with 8 neighbours and a cost for each cell (the Warcraft maps of Vlastelica et al.). All
libraries get a graph that is built once; for each example only the costs change. networkx reads them through a weight
function, scipy as the data of a sparse matrix, and OR-tools, which has no shortest path, solves a flow of one unit with
integer costs. They solve some examples of a batch, and their time is scaled to all of them. In small batches the time
of a call itself counts, mostly, so the limits are for large ones.
"""

from collections.abc import Callable
from itertools import pairwise

import networkx
import numpy as np
import torch
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import hardmax as hm
from benchmarks.timing import measure_medians

SCALED_EXAMPLES = 32
PROBLEMS = {  # the space, and how much faster than networkx it has to be
    "5 x 5, monotone, costs of edges": (hm.GridPath(5, 5), 50.0),
    "12 x 12, 8 neighbours, costs of cells": (
        hm.GridPath(12, 12, connectivity=8, monotone=False, on="nodes"),
        20.0,
    ),
}


class Graph:
    """The arcs of a grid for the other libraries, and the index of the cost of each."""

    def __init__(self, space: hm.GridPath) -> None:
        arcs = [(tail, head, edge) for edge, (tail, head) in enumerate(space.edges)]
        if not space.monotone:
            arcs += [(head, tail, edge) for tail, head, edge in arcs]
        self.tails, self.heads, self.prices = np.array(sorted(arcs)).T
        if space.on == "nodes":
            self.prices = self.heads
        self.target = space.height * space.width - 1
        self.digraph = networkx.DiGraph()
        for arc in zip(self.tails.tolist(), self.heads.tolist(), self.prices.tolist(), strict=True):
            self.digraph.add_edge(*arc[:2], price=arc[2])
        starts = np.searchsorted(self.tails, np.arange(self.target + 2))
        shape = (self.target + 1, self.target + 1)
        self.matrix = csr_array((np.ones(len(self.heads)), self.heads, starts), shape=shape)

    def solve_with_networkx(self, costs: np.ndarray) -> list[float]:
        """Return the costs of the paths, by Dijkstra's algorithm from both ends."""
        values = []
        for example in costs.tolist():
            weight = lambda tail, head, data, example=example: example[data["price"]]  # noqa: E731
            path = networkx.shortest_path(self.digraph, 0, self.target, weight)
            values.append(sum(example[self.digraph[a][b]["price"]] for a, b in pairwise(path)))
        return values

    def solve_with_scipy(self, costs: np.ndarray) -> list[float]:
        values = []
        for example in costs:
            self.matrix.data = example[self.prices]
            distances, predecessors = dijkstra(self.matrix, indices=0, return_predecessors=True)
            path = [self.target]
            while path[-1] != 0:
                path.append(predecessors[path[-1]])
            values.append(float(distances[self.target]))
        return values

    def solve_with_ortools(self, costs: np.ndarray) -> list[float]:
        values, ones = [], np.ones(len(self.heads), np.int64)
        for example in np.rint(1e6 * costs).astype(np.int64):
            flow = SimpleMinCostFlow()
            flow.add_arcs_with_capacity_and_unit_cost(self.tails, self.heads, ones, example[self.prices])
            flow.set_node_supply(0, 1)
            flow.set_node_supply(self.target, -1)
            assert flow.solve() == flow.OPTIMAL
            values.append(flow.optimal_cost() / 1e6)
        return values


def check_costs(
    space: hm.GridPath, scores: torch.Tensor, solvers: dict[str, Callable[[np.ndarray], list[float]]]
) -> None:
    """Check that all libraries find paths of the same cost."""
    z = space.argmax(scores)
    if space.on == "nodes":
        z[..., 0, 0] = 0  # the others do not count the first cell
    costs = -space.dot(scores, z).numpy()
    for name, solve in solvers.items():
        assert np.allclose(solve(-scores.flatten(1).numpy()), costs, atol=1e-3), name


def main() -> bool:
    """Print the tables; return whether the limits hold."""
    within = True
    for title, (space, limit) in PROBLEMS.items():
        graph = Graph(space)
        others = {
            "networkx": graph.solve_with_networkx,
            "scipy": graph.solve_with_scipy,
            "OR-tools": graph.solve_with_ortools,
        }
        print(f"{title}: solves per second (limit: ours / networkx >= {limit:.0f} for a batch of 1,000)")
        ratios = "".join(f"{'ours/' + name:>15}" for name in others)
        print(f"{'batch':>7}{'ours':>12}" + "".join(f"{name:>12}" for name in others) + ratios)
        for batch in (32, 1000):
            scores = -torch.rand(batch, *space.score_shape, generator=torch.Generator().manual_seed(0))
            costs = -scores[:SCALED_EXAMPLES].flatten(1).double().numpy()
            check_costs(space, scores[:SCALED_EXAMPLES], others)
            functions = {"ours": lambda space=space, scores=scores: space.argmax(scores)}
            functions |= {name: lambda solve=solve, costs=costs: solve(costs) for name, solve in others.items()}
            seconds = measure_medians(functions, rounds=15, warm_up=2)
            rates = {name: (batch if name == "ours" else SCALED_EXAMPLES) / s for name, s in seconds.items()}
            quotients = {name: rates["ours"] / rates[name] for name in others}
            within &= batch < 1000 or quotients["networkx"] >= limit
            cells = "".join(f"{rate:12,.0f}" for rate in rates.values())
            print(f"{batch:7}{cells}" + "".join(f"{quotient:15.1f}" for quotient in quotients.values()))
        print()
    return within
