"""Shapes, dtypes, errors, warm starts, threads, and a child process after a fork."""

import subprocess
import sys
import threading

import pytest
import torch
from library.solvers.problems import assert_valid, brute_force, complete, problem

from hardmax.errors import ArgumentError
from hardmax.solvers import pairwise_argmax, solve_pairwise
from hardmax.solvers._compilation import solve_in_threads

SOLVERS = ["auto", "enumeration", "branch-and-bound", "heuristic", "dual"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_dtypes(solver, dtype):
    instance = problem("strong", 6, 20, dtype=dtype)
    solution = solve_pairwise(*instance, supermodular=False, solver=solver)
    assert_valid(solution, *instance, brute_force(*instance), exact=solver not in ("heuristic", "dual"))
    assert pairwise_argmax(*instance, False).dtype == dtype


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (2, 0), (2, 1, 3)])
def test_batch_shapes(solver, shape):
    generator = torch.Generator().manual_seed(0)
    unary, couplings = torch.randn(*shape, 4, generator=generator), torch.randn(*shape, 6, generator=generator)
    solution = solve_pairwise(unary, couplings, complete(4), supermodular=False, solver=solver)
    assert solution.z.shape == (*shape, 4)
    assert solution.value.shape == solution.bound.shape == solution.gap.shape == shape
    z = pairwise_argmax(unary, couplings, complete(4), False, solver)
    assert torch.equal(z, solution.z)


def test_no_edges():
    unary = torch.tensor([[1.0, -1.0, 0.5]])
    solution = solve_pairwise(unary, torch.zeros(1, 0), torch.zeros(0, 2, dtype=torch.long), supermodular=True)
    assert solution.z.tolist() == [[1.0, 0.0, 1.0]]
    assert solution.value.item() == 1.5
    assert solution.is_exact


def test_parts_of_one_tensor_and_scores_with_gradients():
    """Scores come as one tensor, unary scores first: its parts are not contiguous, and they need gradients."""
    unary, couplings, edges = problem("strong", 7, 10, dtype=torch.float32)
    scores = torch.cat([unary, couplings], 1).requires_grad_()
    z = pairwise_argmax(scores[:, :7], scores[:, 7:], edges, False)
    assert not z.requires_grad
    assert torch.equal(z, solve_pairwise(scores[:, :7], scores[:, 7:], edges, supermodular=False).z)
    assert torch.equal(z, pairwise_argmax(unary, couplings, edges, False))


def test_negative_couplings_despite_the_promise():
    unary, couplings, edges = torch.zeros(2, 3, 4), torch.ones(2, 3, 6), complete(4)
    couplings[1, 2, 4] = -0.25
    with pytest.raises(ArgumentError, match=r"example \[1, 2\], edge 4 \(1, 3\) is -0.25"):
        pairwise_argmax(unary, couplings, edges, True)
    for solver in ("min-cut", "min-cut-sparse", "max-flow", "pymaxflow", "push-relabel"):
        with pytest.raises(ArgumentError, match=f"solver='{solver}' needs couplings >= 0"):
            solve_pairwise(unary, couplings, edges, supermodular=False, solver=solver)


def test_unknown_solver():
    with pytest.raises(ArgumentError, match="there is no solver 'simplex'; there are: auto, "):
        pairwise_argmax(*problem("easy", 4, 2), False, "simplex")


def test_min_cut_is_taken_where_no_coupling_happens_to_be_negative():
    unary, couplings, edges = problem("strong", 6, 10)
    assert solve_pairwise(unary, couplings.abs(), edges, supermodular=False).solver == "min-cut"
    assert solve_pairwise(unary, couplings, edges, supermodular=False).solver == "branch-and-bound"


@pytest.mark.parametrize("solver", ["auto", "heuristic"])
def test_a_warm_start_is_used(solver):
    unary, couplings, edges = problem("strong", 12, 50)
    best = solve_pairwise(unary, couplings, edges, supermodular=False)
    again = solve_pairwise(unary, couplings, edges, supermodular=False, solver=solver, start=best.z, node_limit=1)
    torch.testing.assert_close(again.value, best.value)
    worst = solve_pairwise(unary, couplings, edges, supermodular=False, start=1 - best.z)
    torch.testing.assert_close(worst.value, best.value)


# ------------------------------------------------------------------------------- threads
@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_a_batch_is_split_without_loss():
    indices, lock = [], threading.Lock()

    def solve(part):
        with lock:
            indices.extend(range(103)[part])

    solve_in_threads(solve, 103, 1.0)
    assert sorted(indices) == list(range(103))


@pytest.mark.usefixtures("_two_threads")
def test_an_error_in_a_thread_is_not_lost():
    def solve(part):
        raise ValueError("in a thread")

    with pytest.raises(ValueError, match="in a thread"):
        solve_in_threads(solve, 100, 1.0)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("kind", ["strong", "balanced"])
def test_threads_find_the_same(kind):
    """Also when several Python threads solve at once."""
    instance = problem(kind, 14, 2000)
    torch.set_num_threads(1)
    expected = pairwise_argmax(*instance, False)
    torch.set_num_threads(2)
    results = {}
    callers = [
        threading.Thread(target=lambda k=k: results.update({k: pairwise_argmax(*instance, False)})) for k in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 3
    assert all(torch.equal(z, expected) for z in results.values())


FORK = """
import os, torch
from hardmax.solvers import pairwise_argmax
torch.set_num_threads(2)
unary, couplings = torch.randn(400, 12), torch.randn(400, 66)  # too few for torch's threads: those hang after a fork
edges = torch.triu_indices(12, 12, 1).T.contiguous()
expected = pairwise_argmax(unary, couplings, edges, False)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(pairwise_argmax(unary, couplings, edges, False), expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert torch.equal(pairwise_argmax(unary, couplings, edges, False), expected)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_fork():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=120)
