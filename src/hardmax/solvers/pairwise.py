"""Arg max of bits under pairwise scores: chooses an algorithm and runs it."""

from importlib.util import find_spec
from typing import Literal, NoReturn, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.solvers.enumeration import enumerate_pairwise, enumerate_reduced
from hardmax.solvers.heuristic import evaluate_bits, solve_dual, solve_heuristic
from hardmax.solvers.max_flow import solve_max_flow, solve_pymaxflow
from hardmax.solvers.push_relabel import solve_push_relabel
from hardmax.solvers.solution import Solution, note_solver
from hardmax.solvers.wide_range import cap_scores, find_wide_ranges, may_have_wide_ranges, solve_wide_range
from hardmax.tracing import has_numba, is_eager

Solver = Literal[
    "auto",
    "enumeration",
    "min-cut",
    "min-cut-sparse",
    "max-flow",
    "pymaxflow",
    "push-relabel",
    "dual",
    "branch-and-bound",
    "heuristic",
]
SOLVERS = get_args(Solver)
UNPROVED_SOLVERS = ("heuristic", "dual")  # may return, without an error, a z that is not proved best
SUPERMODULAR_SOLVERS = ("min-cut", "min-cut-sparse", "max-flow", "pymaxflow", "push-relabel")
NODE_LIMIT = 100_000  # about a second at n = 50
MAX_BITS_TO_BRANCH = 200  # the search keeps an n x n matrix per level
MAX_BITS_DENSE = 200  # for dense matrices in torch
SPARSE_RATIO = 16  # a graph with fewer than n^2 / 16 edges is sparse


def solve_pairwise(
    unary: Float[Tensor, "*B n"],
    couplings: Float[Tensor, "*B E"],
    edges: Int64[Tensor, "E 2"],
    *,
    supermodular: bool,
    solver: str = "auto",
    node_limit: int = NODE_LIMIT,
    start: Float[Tensor, "*B n"] | None = None,
) -> Solution:
    r"""Maximise a function h of bits z with pairwise terms, with a certificate.

    $$ h(z) = \sum_i a_i z_i + \sum_{(i, j) \in \mathrm{edges}} w_{ij} \, z_i z_j $$

    Exact if no coupling is negative, at any size, and for couplings of any sign up to about 50 bits, more where
    the unary scores dominate. A z that is not proved best has a bound above its value.

    | solver | couplings | | needs |
    |---|---|---|---|
    | `"min-cut"`, `"min-cut-sparse"` | >= 0 | exact; sparse is used where the graph is | Numba |
    | `"branch-and-bound"` | any | exact within `node_limit` | Numba |
    | `"max-flow"`, `"pymaxflow"` | >= 0 | exact, one example after the other | OR-tools; PyMaxflow |
    | `"push-relabel"` | >= 0 | exact, dense | |
    | `"enumeration"` | any | exact, n <= 24 | |
    | `"dual"` | any | gap that closes with time if couplings >= 0 | |
    | `"heuristic"` | any | gap, usually; fast | |

    `"auto"` uses min-cut if no coupling of the batch is negative, else branch and bound; without Numba push-relabel,
    and enumeration of the bits that persistency leaves, if at most 20; for larger problems the heuristic. All compute
    in float64 on the CPU: a batch from another device is moved once. The first call of a solver that needs Numba takes
    some seconds to compile; the compiled code is cached on disk.

    Args:
        unary: `[*B, n]`, the scores a of the single bits.
        couplings: `[*B, E]`, the scores w of pairs.
        edges: `[E, 2]` on the CPU, each pair of different bits at most once.
        supermodular: promise that no coupling is negative; it is checked.
        solver: one of the above.
        node_limit: maximal number of nodes of branch and bound, per example.
        start: `[*B, n]`, a z to begin from, such as the best one for similar scores.

    Returns:
        A `Solution`; z has the dtype and device of the unary scores.

    Raises:
        ArgumentError: a negative coupling despite the promise, or for a solver that allows none; an unknown solver.
        NotExactError: too many bits for the solver named.
        MissingExtraError: the solver named needs a library that is not installed.

    Example:
        >>> import torch
        >>> edges = torch.tensor([[0, 1], [1, 2]])
        >>> best = solve_pairwise(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([-3.0, -3.0]), edges, supermodular=False)
        >>> best.z, best.value.item(), best.is_exact
        (tensor([1., 0., 1.]), 2.0, True)

    References:
        See the file of each algorithm.
    """
    start = None if start is None else start.detach()
    solution = _solve(unary.detach(), couplings.detach(), edges, supermodular, solver, node_limit, start, give_up=False)
    batch = unary.shape[:-1]
    return Solution(
        _restore_shape(solution.z, unary), solution.value.reshape(batch), solution.bound.reshape(batch), solution.solver
    )


def pairwise_argmax(
    unary: Tensor,
    couplings: Tensor,
    edges: Tensor,
    supermodular: bool,
    solver: str = "auto",
    start: Tensor | None = None,
) -> Tensor:
    """Return only the z of `solve_pairwise`, proved best: for training loops.

    It composes with `torch.compile` and `torch.func`, and has no gradient.

    Args:
        unary: `[*B, n]`.
        couplings: `[*B, E]`.
        edges: `[E, 2]` on the CPU.
        supermodular: promise that no coupling is negative; it is checked.
        solver: see `solve_pairwise`. Only `"heuristic"` and `"dual"` may return a z that is not proved best.
        start: `[*B, n]`, a z to begin from, or None.

    Returns:
        `[*B, n]`, zeros and ones in the dtype of the unary scores.

    Raises:
        NotExactError: the best z could not be proved within the limit, or at this size.
        ArgumentError: as for `solve_pairwise`.

    Example:
        >>> import torch
        >>> pairwise_argmax(torch.tensor([-1.0, -1.0]), torch.tensor([3.0]), torch.tensor([[0, 1]]), True)
        tensor([1., 1.])
    """
    arguments = (
        unary.detach(),
        couplings.detach(),
        edges,
        supermodular,
        solver,
        None if start is None else start.detach(),
    )
    # Calling the operator costs as much as the rest of a call.
    return _solve_proved(*arguments) if is_eager(unary) else _argmax(*arguments)


def _solve_proved(
    unary: Tensor, couplings: Tensor, edges: Tensor, supermodular: bool, solver: str, start: Tensor | None
) -> Tensor:
    solution = _solve(unary, couplings, edges, supermodular, solver, NODE_LIMIT, start, give_up=True)
    if solver not in UNPROVED_SOLVERS and (solution.bound.numpy() > solution.value.numpy()).any():
        _raise_not_exact(solution, unary.shape[-1])
    return _restore_shape(solution.z, unary)


# ------------------------------------------------------------------------------- one operator for torch
@torch.library.custom_op("hardmax::pairwise_argmax", mutates_args=())
def _argmax(
    unary: Tensor, couplings: Tensor, edges: Tensor, supermodular: bool, solver: str, start: Tensor | None = None
) -> Tensor:
    return _solve_proved(unary, couplings, edges, supermodular, solver, start)


@_argmax.register_fake
def _(unary, couplings, edges, supermodular, solver, start=None):
    return torch.empty_like(unary, memory_format=torch.contiguous_format)


@_argmax.register_vmap
def _(info, in_dims, unary, couplings, edges, supermodular, solver, start=None):
    def move_to_front(tensor: Tensor, dim: int | None) -> Tensor:
        return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

    if in_dims[2] is not None:
        raise ArgumentError("edges are the same for all examples: they cannot be a mapped argument of vmap")
    start = None if start is None else move_to_front(start, in_dims[5])
    return _argmax(
        move_to_front(unary, in_dims[0]), move_to_front(couplings, in_dims[1]), edges, supermodular, solver, start
    ), 0


# ------------------------------------------------------------------------------- which algorithm
def _solve(
    unary: Tensor,
    couplings: Tensor,
    edges: Tensor,
    supermodular: bool,
    solver: str,
    node_limit: int,
    start: Tensor | None,
    give_up: bool,
) -> Solution:
    """Solve a batch of any shape; the solution is flat, in float64, on the CPU."""
    a, w = _flatten(unary), _flatten(couplings)
    if solver not in SOLVERS:
        raise ArgumentError(f"there is no solver {solver!r}; there are: {', '.join(SOLVERS)}")
    least = float(w.numpy().min()) if w.numel() else 0.0
    if least < 0 and (supermodular or solver in SUPERMODULAR_SOLVERS):
        _raise_negative(couplings, edges, supermodular, solver)
    if w.numel() == 0:
        value = a.clamp_min(0).sum(1)
        solution = Solution((a > 0).double(), value, value, "separate bits")
    else:
        solution = _solve_flat(
            a, w, edges, least >= 0, solver, node_limit, None if start is None else _flatten(start), give_up
        )
    note_solver(solution.solver)
    return solution


def _flatten(tensor: Tensor) -> Tensor:
    """Return `[*B, k]` as `[B, k]`, in float64 on the CPU, contiguous."""
    tensor = tensor.to("cpu", torch.float64) if tensor.device.type != "cpu" else tensor.to(torch.float64)
    flat = tensor if tensor.dim() == 2 else tensor.reshape(tensor.shape[:-1].numel(), tensor.shape[-1])
    return flat.contiguous()


def _restore_shape(z: Tensor, unary: Tensor) -> Tensor:
    """Return `[B, n]` with the shape, dtype and device of the unary scores."""
    z = z.to(unary.dtype) if unary.device.type == "cpu" else z.to(unary.device, unary.dtype)
    return z if unary.dim() == 2 else z.reshape(unary.shape)


def _solve_flat(
    a: Tensor,
    w: Tensor,
    edges: Tensor,
    positive: bool,
    solver: str,
    node_limit: int,
    start: Tensor | None,
    give_up: bool,
) -> Solution:
    """Solve a flat batch on the CPU; examples that float64 cannot represent are solved one by one."""
    wide = find_wide_ranges(a, w) if may_have_wide_ranges(a, w) else None
    if wide is None or not wide.any():
        return _run_solver(a, w, edges, positive, solver, node_limit, start, give_up)

    def solve(unary: Tensor, couplings: Tensor, pairs: Tensor, begin: Tensor | None) -> Solution:
        return _run_solver(unary, couplings, pairs, positive, solver, node_limit, begin, give_up)

    capped = cap_scores(a[wide], w[wide], edges)
    unary, couplings = a.masked_scatter(wide[:, None], capped[0]), w.masked_scatter(wide[:, None], capped[1])
    still_wide = find_wide_ranges(unary, couplings)
    parts: list[tuple[Tensor, Solution]] = []
    if len(rest := (~still_wide).nonzero().squeeze(1)):
        solution = solve(unary[rest], couplings[rest], edges, None if start is None else start[rest])
        value = evaluate_bits(solution.z, a[rest], w[rest], edges)
        # A small gap above a value of 1e30 is lost in their sum, but the z is still not proved.
        above = torch.maximum(value + solution.gap, value.nextafter(torch.tensor(torch.inf, dtype=value.dtype)))
        bound = torch.where(solution.gap > 0, above, value)
        parts.append((rest, Solution(solution.z, value, bound, solution.solver)))
    for at in still_wide.nonzero():
        begin = None if start is None else start[at]
        exact = solver not in UNPROVED_SOLVERS
        parts.append((at, solve_wide_range(a[at], w[at], edges, begin, solve, exact=exact)))
    z, value, bound = torch.empty_like(a), a.new_empty(len(a)), a.new_empty(len(a))
    for at, solution in parts:
        z[at], value[at], bound[at] = solution.z, solution.value, solution.bound
    names = dict.fromkeys(name for _, solution in parts for name in solution.solver.split(", "))
    return Solution(z, value, bound, ", ".join(names))


def _run_solver(
    a: Tensor,
    w: Tensor,
    edges: Tensor,
    positive: bool,
    solver: str,
    node_limit: int,
    start: Tensor | None,
    give_up: bool,
) -> Solution:
    """Solve a flat batch on the CPU; `positive` means that no coupling is negative."""
    n = a.shape[1]
    sparse = SPARSE_RATIO * len(edges) < n * n
    if solver == "auto":
        solver = choose_solver(n, positive)
    match solver:
        case "min-cut" if not (sparse and n > 64):
            from hardmax.solvers.min_cut import solve_min_cut

            return solve_min_cut(a, w, edges)
        case "min-cut" | "min-cut-sparse":
            from hardmax.solvers.min_cut_sparse import solve_min_cut_sparse

            return solve_min_cut_sparse(a, w, edges)
        case "branch-and-bound":
            from hardmax.solvers.branch_and_bound import solve_branch_and_bound

            return solve_branch_and_bound(a, w, edges, node_limit=node_limit, start=start, give_up=give_up)
        case "max-flow":
            return solve_max_flow(a, w, edges)
        case "pymaxflow":
            return solve_pymaxflow(a, w, edges)
        case "dual":
            return solve_dual(a, w, edges)
        case "push-relabel":
            return solve_push_relabel(a, build_matrix(a, w, edges))
        case "enumeration":
            return enumerate_pairwise(a, build_matrix(a, w, edges))
        case "reduced-enumeration":
            return solve_reduced(a, w, edges, start)
        case _:
            return solve_heuristic(a, w, edges, start)


def choose_solver(n: int, positive: bool) -> str:
    """Return the solver that `"auto"` uses for n bits; `positive` means that no coupling is negative."""
    if has_numba():
        if positive:
            return "min-cut"
        return "branch-and-bound" if n <= MAX_BITS_TO_BRANCH else "heuristic"
    if n > MAX_BITS_DENSE:
        if positive:
            return "max-flow" if find_spec("ortools") is not None else "dual"
        return "heuristic"
    return "push-relabel" if positive else "reduced-enumeration"


def solve_reduced(a: Tensor, w: Tensor, edges: Tensor, start: Tensor | None) -> Solution:
    """Enumerate the bits that persistency leaves; examples with more than 20 such bits go to the heuristic."""
    z, proved = enumerate_reduced(a, build_matrix(a, w, edges))
    value = evaluate_bits(z, a, w, edges)
    if proved.all():
        return Solution(z, value, value, "reduced-enumeration")
    rest = (~proved).nonzero().squeeze(1)
    other = solve_heuristic(a[rest], w[rest], edges, None if start is None else start[rest])
    bound = value.clone()
    z[rest], value[rest], bound[rest] = other.z, other.value, other.bound
    return Solution(z, value, bound, "reduced-enumeration, heuristic")


def build_matrix(a: Tensor, w: Tensor, edges: Tensor) -> Tensor:
    """Return the symmetric matrix of couplings, `[B, n, n]`."""
    weights = a.new_zeros(len(a), a.shape[1], a.shape[1])
    weights[:, edges[:, 0], edges[:, 1]] = w
    weights[:, edges[:, 1], edges[:, 0]] = w
    return weights


# ------------------------------------------------------------------------------- errors
def _raise_negative(couplings: Tensor, edges: Tensor, supermodular: bool, solver: str) -> NoReturn:
    *example, edge = (couplings < 0).nonzero()[0].tolist()
    why = "supermodular=True promises couplings >= 0" if supermodular else f"solver={solver!r} needs couplings >= 0"
    raise ArgumentError(
        f"{why}, but the coupling of example {example}, edge {edge} {tuple(edges[edge].tolist())} is "
        f"{couplings[(*example, edge)].item():g}; map them through softplus, or use supermodular=False and "
        f"solver='auto'"
    )


def _raise_not_exact(solution: Solution, n: int) -> NoReturn:
    unproved = solution.gap > 0
    tried = unproved & solution.gap.isfinite()
    gap = float(solution.gap[tried].max()) if tried.any() else float("inf")
    raise NotExactError(
        f"the best of 2^{n} codes was not proved: {solution.solver} (n = {n}) stopped at a gap of {gap:.3g}; use "
        f"solver='heuristic' if a good z is enough, a larger node_limit (space.solve, or solve_pairwise), or "
        f"couplings >= 0 (supermodular=True), which are solved exactly at any size"
        + ("" if has_numba() else "; pip install 'hardmax[solvers]' brings branch and bound")
    )
