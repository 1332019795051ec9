"""Space of spanning trees of a complete graph."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.solvers.spanning_tree import find_maximum_spanning_tree
from hardmax.spaces._compiled_sums import CompiledFunction
from hardmax.spaces.abstract import log_add, prepare_scores, widen_dtype
from hardmax.spaces.gibbs import AbstractGibbs
from hardmax.tracing import can_run_compiled


@final
@dataclass(frozen=True)
class SpanningTree(AbstractGibbs):
    r"""An undirected tree that joins n nodes; z is `[*B, n (n - 1) / 2]`, one bit for every edge of the complete graph.

    $$ q(z) = \exp\Big(\sum_e \mathrm{scores}_e \, z_e\Big) / Z $$

    with scores `[*B, n (n - 1) / 2]` for the edges (0, 1), (0, 2), ..., (1, 2), ... Prim's algorithm computes the arg
    max. By the matrix-tree theorem Z is a minor of the Laplacian of the weights $w = \exp(\mathrm{scores})$, and the
    marginals are $w_e$ times the effective resistance of edge e. Both are computed by eliminating the nodes one after
    another. Eliminating node k changes the weights between the remaining nodes to

    $$ w_{ij} + w_{ik} w_{jk} / d_k, \qquad d_k = \sum_j w_{jk} $$

    and $Z = \prod_k d_k$. That is elimination in the Laplacian without a subtraction, so it can use logarithms and is
    accurate for scores of any size, while a determinant in float64 is meaningless once they differ by 100 (by 30 in a
    graph of clusters). The compiled code (Numba) uses the weights themselves unless they underflow. Restoring the nodes
    gives samples (`draw`). All take $O(n^3)$ time, with n sequential steps.

    Perturb-and-MAP, the best tree under `scores + noise`, is another distribution. With zero scores q is uniform; the
    best tree of random weights is not: for n = 4 it is a star with probability 4/15, and with 1/4 under q. For
    `SpanningTree(5)` and standard normal scores the two are 0.08 apart in total variation.

    There are no changes of a single variable, because the tree determines which edges may replace another. Use
    `Direct(full=True)` where all trees can be enumerated.

    Args:
        n: number of nodes, at least 2.

    Raises:
        ArgumentError: n < 2.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.SpanningTree(3)  # edges (0, 1), (0, 2), (1, 2)
        >>> space.argmax(torch.tensor([1.0, 3.0, 2.0]))
        tensor([0., 1., 1.])
        >>> space.marginals(torch.zeros(3))
        tensor([0.6667, 0.6667, 0.6667])
        >>> hm.SpanningTree(6).size  # Cayley: n^(n - 2)
        1296

    References:
        Kirchhoff, 1847; Grassmann, Taksar & Heyman, "Regenerative analysis and steady state distributions for Markov
        chains", 1985 (no subtractions). Perturb-and-MAP: Paulus et al., "Gradient estimation with stochastic softmax
        tricks", 2020.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ArgumentError(f"SpanningTree needs at least two nodes, got n={self.n}")

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n (n - 1) / 2]`."""
        return (self.n * (self.n - 1) // 2,)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[n (n - 1) / 2]`."""
        return self.score_shape

    @property
    def size(self) -> int:
        """$n^{n - 2}$."""
        return self.n ** (self.n - 2)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The edges (i, j), i < j, in the order of the scores."""
        return tuple((i, j) for i in range(self.n) for j in range(i + 1, self.n))

    def argmax(self, scores: Float[Tensor, "*B E"]) -> Float[Tensor, "*B E"]:
        """Return the tree with the largest total score."""
        self.batch_shape(scores)
        scores = scores.detach()
        if can_run_compiled(scores):
            from hardmax.solvers._compiled_tree import find_best_trees

            return find_best_trees(scores, self.n)
        neighbour = find_maximum_spanning_tree(self._to_matrix(scores))
        return self._encode_tree(neighbour, scores.dtype)

    def statistics(self, z: Float[Tensor, "*L E"]) -> Float[Tensor, "*L E"]:
        """Return z."""
        return z

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def log_partition(self, scores: Float[Tensor, "*B E"]) -> Float[Tensor, "*B"]:
        """Return the logarithm of the sum over trees of the product of their weights."""
        self.batch_shape(scores)
        return self._log_z(prepare_scores(scores))[..., 0].to(scores.dtype)

    def _log_z(self, scores: Tensor) -> Tensor:
        """Return log Z, `[*B, 1]`."""
        return self._sum_trees(scores)[0] if can_run_compiled(scores) else _sum_log_degrees(self._eliminate(scores))

    def _sum_trees(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, E]`."""
        if not can_run_compiled(scores):
            return self._sum_in_logarithms(scores)
        return CompiledFunction.apply(scores, self._run_compiled, self._sum_in_logarithms, self._differentiate)

    def _run_compiled(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        from hardmax.solvers._compiled_tree import sum_trees

        flat = scores.reshape(scores.shape[:-1].numel(), *self.score_shape)
        log_z, marginals, is_accurate = sum_trees(flat, self.n)
        if not is_accurate.all():
            sums, rest = self._sum_in_logarithms(flat[~is_accurate].double())
            log_z[~is_accurate], marginals[~is_accurate] = sums[:, 0].to(flat.dtype), rest.to(flat.dtype)
        return log_z.view(*scores.shape[:-1], 1), marginals.view(scores.shape)

    def _differentiate(
        self, scores: Tensor, values: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
    ) -> Tensor | None:
        """Return the gradient for scores: the marginals for log Z, and the symmetric Jacobian of the marginals."""
        from hardmax.solvers._compiled_tree import differentiate_marginals

        of_log_z, of_marginals = gradients
        total = torch.zeros_like(scores) if of_log_z is None else of_log_z * values[1]
        if of_marginals is None:
            return total
        flat = scores.reshape(scores.shape[:-1].numel(), *self.score_shape)
        gradient, is_accurate = differentiate_marginals(flat, of_marginals.reshape(flat.shape), self.n)
        return total + gradient.view(scores.shape) if is_accurate.all() else None

    def _eliminate(self, scores: Tensor) -> list[Tensor]:
        """Return the log-weights of the graph, then of the graphs left by repeatedly eliminating the last node.

        Each is symmetric, `[*B, m, m]` for m = n ... 2; its diagonal has no meaning.
        """
        graphs = [self._to_matrix(scores)]
        for k in range(self.n - 1, 1, -1):
            graph, row = graphs[-1][..., :k, :k], graphs[-1][..., k, :k]
            graphs.append(log_add(graph, _compute_fill_in(row)))
        return graphs

    def _normalise(self, scores: Tensor) -> Tensor:
        return scores - self._log_z(scores) / (self.n - 1)

    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        log_z, marginals = self._sum_trees(scores)
        return scores - log_z / (self.n - 1), marginals

    def _sum_in_logarithms(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, E]`, for scores of any size and differentiable.

        The marginals are the derivative of log Z, propagated from the last graph back to the first.
        """
        graphs = self._eliminate(scores)
        edges = torch.ones_like(graphs[-1]) - torch.eye(2, dtype=scores.dtype, device=scores.device)
        for smaller, graph in zip(graphs[:0:-1], graphs[-2::-1], strict=True):
            row = graph[..., -1, :-1]
            # Edges of the smaller graph that stand for a path through the eliminated node.
            through = edges * (_compute_fill_in(row) - smaller).exp()
            direct = edges * (graph[..., :-1, :-1] - smaller).exp()
            passes = through.sum(-1)
            last = row.softmax(-1) * (1 - passes.sum(-1, keepdim=True) / 2) + passes
            edges = torch.cat([torch.cat([direct, last[..., None]], -1), _append_zero(last)[..., None, :]], -2)
        first, second = self._edge_ends(scores.device)
        return _sum_log_degrees(graphs), edges[..., first, second]

    def draw(self, scores: Float[Tensor, "*B E"], noise: Float[Tensor, "*SB E"]) -> Float[Tensor, "*SB E"]:
        """Restore the nodes one after another; each edge uses one number of the noise.

        The tree of the smaller graph has its root at node 0, and every other node i points to a parent j. When node k
        is restored, a path through k replaces each such edge with probability $w_{ik} w_{jk} / (d_k w'_{ij})$:
        then i points to k. And k points to a node of the part that is still joined to the root, in proportion to its
        weights.
        """
        # Why this is right: let r nodes point to k, which cuts the smaller tree into r + 1 parts; W(C) are the weights
        # between k and part C. The earlier connections of the parts are marginalised: Cayley's formula with
        # weights gives prod_i w_ik W(C_root) d_k^(r - 1) / d_k^r. Times the d_k of Z, that is the weight of the new
        # edges of k, summed over its parent.
        self.batch_shape(scores)
        graphs = self._eliminate(prepare_scores(scores.detach()))[::-1]  # of 2 ... n nodes
        level = self.perturbation.log_cdf(widen_dtype(noise.detach()))
        place = self._edge_index(scores.device)
        parent = torch.zeros_like(level[..., :1], dtype=torch.int64)
        for k, graph in enumerate(graphs, 1):
            row, levels = graph[..., -1, :-1], level[..., place[:k, k]]
            nodes = torch.arange(k, device=scores.device)
            joined = torch.ones_like(parent, dtype=torch.bool)
            if k > 1:
                chance = (_compute_fill_in(row) - graphs[k - 2]).expand(*levels.shape, k).gather(-1, parent[..., None])
                cut = (levels < chance[..., 0]) & (nodes > 0)
                root = torch.where(cut, nodes, parent)
                for _ in range((k - 1).bit_length()):  # each pass doubles the number of parents followed
                    root = root.gather(-1, root)
                joined = root == 0
                parent = torch.where(cut, k, parent)
            parent = torch.cat([parent, _sample_node(row, joined, levels[..., :1].exp())], -1)
        return self._encode_tree(parent, scores.dtype)

    def relax(self, scores: Float[Tensor, "*L E"], tau: float) -> Float[Tensor, "*L E"]:
        """Return the marginals of `scores / tau`: in the spanning tree polytope, with sum n - 1."""
        return self.marginals(widen_dtype(scores) / tau).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M E"]:
        """Return all $n^{n - 2}$ trees, in the order of their Pruefer sequences, counting up."""
        self.check_enumerable()
        nodes = torch.arange(self.n, device=device)
        power = self.n ** torch.arange(self.n - 3, -1, -1, device=device)
        sequence = torch.arange(self.size, device=device)[:, None] // power % self.n  # [M, n - 2]
        degree = 1 + (sequence[..., None] == nodes).sum(-2)
        ends = []
        for joint in sequence[..., None].unbind(-2):
            leaf = (degree == 1).to(torch.int8).argmax(-1, keepdim=True)  # the first of them
            ends.append((leaf, joint))
            degree = degree - (nodes == leaf).long() - (nodes == joint).long()
        last = (degree == 1).long()
        ends.append((last.argmax(-1, keepdim=True), self.n - 1 - last.flip(-1).argmax(-1, keepdim=True)))
        place = self._edge_index(nodes.device)
        used = torch.cat([place[first, second] for first, second in ends], -1)
        return torch.zeros(self.size, *self.score_shape, dtype=dtype, device=device).scatter(-1, used, 1.0)

    # ------------------------------------------------------------------------------- edges and nodes
    def _edge_ends(self, device: torch.device) -> tuple[Tensor, Tensor]:
        first, second = torch.triu_indices(self.n, self.n, 1, device=device).unbind()
        return first, second

    def _edge_index(self, device: torch.device) -> Tensor:
        """Return the index of the score of edge (i, j), `[n, n]`; arbitrary on the diagonal."""
        nodes = torch.arange(self.n, device=device)
        low, high = torch.minimum(nodes, nodes[:, None]), torch.maximum(nodes, nodes[:, None])
        place = low * (2 * self.n - low - 1) // 2 + high - low - 1
        return torch.where(low < high, place, 0)

    def _to_matrix(self, scores: Tensor) -> Tensor:
        return scores[..., self._edge_index(scores.device)]

    def _encode_tree(self, parent: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the bits of the edges `(i, parent_i)`, i >= 1."""
        nodes = torch.arange(1, self.n, device=parent.device)
        used = self._edge_index(parent.device)[nodes, parent[..., 1:]]
        zeros = torch.zeros((*parent.shape[:-1], *self.score_shape), dtype=dtype, device=parent.device)
        return zeros.scatter(-1, used, 1.0)


def _sum_log_degrees(graphs: list[Tensor]) -> Tensor:
    """Return log Z, `[*B, 1]`: the sum of the log-weights of the eliminated nodes."""
    return torch.stack([graph[..., -1, :-1].logsumexp(-1, keepdim=True) for graph in graphs]).sum(0)


def _compute_fill_in(row: Tensor) -> Tensor:
    """Return the log-weights that eliminating a node with log-weights `row` adds to the pairs of its neighbours."""
    return row[..., :, None] + row[..., None, :] - row.logsumexp(-1)[..., None, None]


def _append_zero(row: Tensor) -> Tensor:
    return torch.cat([row, torch.zeros_like(row[..., :1])], -1)


def _sample_node(row: Tensor, allowed: Tensor, uniform: Tensor) -> Tensor:
    """Sample a node in proportion to its weight, by inverting the distribution function: `[*L, 1]`."""
    below = torch.where(allowed, row, -math.inf).softmax(-1).cumsum(-1)
    reached = below / below[..., -1:] > uniform
    return reached.to(torch.int8).argmax(-1, keepdim=True)
