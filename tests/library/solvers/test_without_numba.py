"""Solvers without Numba, in pure torch: exact, or with a reported gap."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from library.solvers.problems import KINDS, SUPERMODULAR, assert_valid, brute_force, complete, grid, problem, scale
from ortools.graph.python.max_flow import SimpleMaxFlow

from hardmax.errors import MissingExtraError, NotExactError
from hardmax.solvers import pairwise_argmax, solve_pairwise

COMPILED = ["_compilation", "min_cut", "min_cut_sparse", "branch_and_bound", "tabu"]


@pytest.fixture(autouse=True)
def _without_numba(monkeypatch):
    import hardmax.solvers

    monkeypatch.setitem(sys.modules, "numba", None)
    for name in COMPILED:
        monkeypatch.delitem(sys.modules, f"hardmax.solvers.{name}", raising=False)
        monkeypatch.delattr(hardmax.solvers, name, raising=False)


@pytest.mark.parametrize("kind", [*KINDS, "sparse-balanced"])
@pytest.mark.parametrize("n", [1, 2, 5, 9, 14])
def test_equals_brute_force(n, kind):
    instance = problem(kind, n, 128)
    solution = solve_pairwise(*instance, supermodular=kind in SUPERMODULAR)
    expected = "push-relabel" if kind in SUPERMODULAR or not (instance[1] < 0).any() else "reduced-enumeration"
    assert solution.solver == expected or instance[1].numel() == 0
    assert_valid(solution, *instance, brute_force(*instance))


def test_larger_problems():
    instance = problem("balanced", 60, 10)
    other = solve_pairwise(*instance, supermodular=True, solver="max-flow")
    assert_valid(solve_pairwise(*instance, supermodular=True), *instance, other.value)
    unary, couplings, edges = problem("balanced", 400, 2)
    assert solve_pairwise(unary, couplings, edges, supermodular=True).solver == "max-flow"


def test_without_ortools_either(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.graph.python.max_flow", None)
    edges = grid(25, 25)
    generator = torch.Generator().manual_seed(0)
    unary = torch.randn(3, 625, generator=generator).double()
    couplings = torch.rand(3, len(edges), generator=generator).double()
    solution = solve_pairwise(unary - 0.9, couplings, edges, supermodular=True)
    assert solution.solver == "dual"
    assert (solution.gap <= 1e-4 * scale(unary, couplings)).all()
    with pytest.raises(MissingExtraError, match=r"pip install 'hardmax\[solvers\]'"):
        solve_pairwise(unary, couplings, edges, supermodular=True, solver="max-flow")


def test_too_many_bits_are_reported():
    generator = torch.Generator().manual_seed(0)
    hard = torch.zeros(2, 40), torch.randn(2, 780, generator=generator), complete(40)
    solution = solve_pairwise(*hard, supermodular=False)
    assert solution.solver == "reduced-enumeration, heuristic"
    assert (solution.gap > 0).all()
    with pytest.raises(NotExactError, match=r"pip install 'hardmax\[solvers\]'"):
        pairwise_argmax(*hard, False)


@pytest.mark.parametrize("solver", ["min-cut", "min-cut-sparse", "branch-and-bound"])
def test_named_solvers_name_the_extra(solver):
    with pytest.raises(MissingExtraError, match=r"pip install 'hardmax\[solvers\]'"):
        solve_pairwise(*problem("balanced", 5, 2), supermodular=True, solver=solver)


class Graph:
    """The part of PyMaxflow's graph that hardmax uses, built on OR-tools: PyMaxflow is under the GPL, not installed."""

    def __class_getitem__(cls, kind):
        assert kind is float
        return cls

    def __init__(self, nodes, edges):
        self.tails, self.heads, self.capacities = [], [], []

    def add_grid_nodes(self, count):
        self.count = count
        return np.arange(count)

    def add_edges(self, left, right, forward, backward):
        self._add(left, right, forward)
        self._add(right, left, backward)

    def add_grid_tedges(self, nodes, from_source, to_sink):
        self._add(np.full_like(nodes, self.count), nodes, from_source)
        self._add(nodes, np.full_like(nodes, self.count + 1), to_sink)

    def _add(self, tails, heads, capacities):
        self.tails.append(tails)
        self.heads.append(heads)
        self.capacities.append(capacities)

    def maxflow(self):
        self.flow = SimpleMaxFlow()
        arcs = (np.concatenate(part) for part in (self.tails, self.heads))
        capacities = np.rint(np.concatenate(self.capacities) * 2**40).astype(np.int64)
        self.flow.add_arcs_with_capacity(*(arc.astype(np.int32) for arc in arcs), capacities)
        assert self.flow.solve(self.count, self.count + 1) == self.flow.OPTIMAL
        return self.flow.optimal_flow() / 2**40

    def get_grid_segments(self, nodes):
        return np.isin(nodes, self.flow.get_sink_side_min_cut())


def test_pymaxflow_is_called_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "maxflow", SimpleNamespace(Graph=Graph))
    instance = problem("balanced", 10, 20)
    solution = solve_pairwise(*instance, supermodular=True, solver="pymaxflow")
    assert solution.solver == "pymaxflow"
    assert_valid(solution, *instance, brute_force(*instance))


def test_pymaxflow_is_never_required(monkeypatch):
    monkeypatch.setitem(sys.modules, "maxflow", None)
    with pytest.raises(MissingExtraError, match="pip install PyMaxflow"):
        solve_pairwise(*problem("balanced", 5, 2), supermodular=True, solver="pymaxflow")
