"""Space of the paths of a directed acyclic graph from a source to a target."""

from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from hardmax.solvers.acyclic_graph import AcyclicGraph, Edges
from hardmax.solvers.acyclic_path import add_values, find_best_path, maximise, pad_scores, remove_bridges, walk
from hardmax.spaces._compiled_sums import CompiledFunction
from hardmax.spaces.abstract import invert_cdf, prepare_scores, widen_dtype
from hardmax.spaces.gibbs import AbstractGibbs
from hardmax.spaces.perturbation import Perturbation
from hardmax.tracing import can_run_compiled


@final
@dataclass(frozen=True)
class ShortestPath(AbstractGibbs):
    r"""A path of a directed acyclic graph; z is `[*B, E]`, one bit for every edge, with one score per edge, `[*B, E]`.

    $$ q(z) = \exp\Big(\sum_e \mathrm{scores}_e \, z_e\Big) / Z $$

    over all paths from the source to the target. Larger scores are better, as in all spaces: for the *shortest* path
    under costs, pass `scores = -costs`. Scores may have any sign, because the graph has no cycles. Edges that lie on
    no path from the source to the target are allowed; their bits are always zero.

    Dynamic programming from the target to the source computes the arg max in O(E). Z, marginals and samples (`draw`)
    come from a sum over the same steps, in a form that is accurate for scores of any size: with m(v) the best sum from
    node v to the target, an edge from u to v counts as

    $$ \mathrm{scores}_{uv} + m(v) - m(u) \le 0, $$

    which adds the same constant to the score of every path. Large scores cancel there, edge by edge, and the best path
    has the weight one. A sample starts at the source and draws each edge given the node it has reached.

    Perturb-and-MAP, the best path under perturbed scores, is another distribution: paths that share an edge share its
    noise. For the monotone paths of a 4 x 4 grid and standard normal scores the two are 0.19 apart in total variation.

    There are no changes of a single variable, because which edges may replace another depends on the path. Use
    `Direct(full=True)` where all paths can be enumerated.

    Args:
        edges: pairs (from, to) of node numbers, each pair once; also a tensor `[E, 2]`. They are stored as a tuple.
        source: first node of all paths; None is the only node without incoming edges.
        target: last node of all paths; None is the only node without outgoing edges.
        perturbation: the noise of perturb-and-MAP.

    Raises:
        ArgumentError: edges that are empty, repeated, negative or from a node to itself; a cycle; no path from source
            to target; a source or target that is not given and not unique.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.ShortestPath([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
        >>> costs = torch.tensor([1.0, 2.0, 1.0, 3.0, 2.5])
        >>> space.argmax(-costs)
        tensor([1., 0., 1., 0., 0.])
        >>> space.size
        3
        >>> space.marginals(torch.zeros(5))
        tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333])

    References:
        Bellman, "On a routing problem", 1958. Sums over paths: Mohri, "Semiring frameworks and algorithms for
        shortest-distance problems", 2002. Perturb-and-MAP: Berthet, Blondel, Teboul, Cuturi, Vert & Bach, "Learning
        with differentiable perturbed optimizers", 2020.
    """

    edges: Edges
    source: int | None = None
    target: int | None = None
    perturbation: Perturbation = field(default=Perturbation(), kw_only=True)
    _graph: AcyclicGraph = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        graph = AcyclicGraph(self.edges, self.source, self.target)
        values = {"edges": graph.edges, "source": graph.source, "target": graph.target, "_graph": graph}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"ShortestPath({len(self.edges)} edges, {self.source} -> {self.target})"

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[E]`."""
        return (len(self.edges),)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[E]`."""
        return (len(self.edges),)

    @property
    def size(self) -> int:
        """Number of paths."""
        return self._graph.counts[-1]

    @property
    def has_constant_sum(self) -> bool:
        """Whether all paths have the same number of edges."""
        return self._graph.shortest == self._graph.longest

    def argmax(self, scores: Float[Tensor, "*B E"]) -> Float[Tensor, "*B E"]:
        """Return the path with the largest sum of scores; of equally good edges out of a node, the first."""
        self.batch_shape(scores)
        return find_best_path(prepare_scores(scores), self._graph).to(scores.dtype)

    def statistics(self, z: Float[Tensor, "*L E"]) -> Float[Tensor, "*L E"]:
        """Return z."""
        return z

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def log_partition(self, scores: Float[Tensor, "*B E"]) -> Float[Tensor, "*B"]:
        """Return the logarithm of the sum over paths of the exponential of their score."""
        self.batch_shape(scores)
        shifted, offset = self._shift(prepare_scores(scores))
        return (self._sum_paths(shifted)[0][..., 0] + offset).to(scores.dtype)

    def _normalise(self, scores: Tensor) -> Tensor:
        shifted, _ = self._shift(scores)
        return self._divide_by_z(shifted, self._sum_paths(shifted)[0])

    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        shifted, _ = self._shift(scores)
        log_z, marginals = self._sum_paths(shifted)
        return self._divide_by_z(shifted, log_z), marginals

    def _divide_by_z(self, shifted: Tensor, log_z: Tensor) -> Tensor:
        """Subtract log Z from the edges out of the source, one of which is on every path."""
        return torch.where(self._graph.is_first.to(shifted.device), shifted - log_z, shifted)

    def _shift(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return shifted scores of the same q, and the difference of log Z, `[*B]` in float64.

        The shift has no derivative, because it adds the same constant to the score of every path.
        """
        graph, fixed = self._graph, scores.detach()
        free = remove_bridges(fixed, graph)
        if can_run_compiled(scores):
            from hardmax.solvers._compiled_paths import shift_scores

            shifted, offset = shift_scores(free.reshape(scores.shape[:-1].numel(), *self.score_shape), graph)
            shifted, offset = shifted.view(scores.shape), offset.view(scores.shape[:-1])
        else:
            wide = free.double()
            values, _ = maximise(wide, graph)
            tails, heads = graph.edge_tails.to(scores.device), graph.edge_heads[:-1].to(scores.device)
            moved = wide + (values.index_select(-1, heads) - values.index_select(-1, tails))
            shifted = moved.masked_fill(~graph.is_used.to(scores.device), 0.0).to(scores.dtype)
            offset = values[..., -1]
        if graph.has_bridges:
            offset = offset + (fixed - free).double().sum(-1)
        return shifted + (scores - fixed), offset

    def _sum_paths(self, shifted: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, E]` of shifted scores."""
        if not can_run_compiled(shifted):
            return self._sum_in_logarithms(shifted)
        return CompiledFunction.apply(shifted, self._run_compiled, self._sum_in_logarithms, self._differentiate)

    def _run_compiled(self, shifted: Tensor) -> tuple[Tensor, Tensor]:
        from hardmax.solvers._compiled_paths import sum_paths

        flat = shifted.reshape(shifted.shape[:-1].numel(), *self.score_shape)
        log_z, marginals, is_finite = sum_paths(flat, self._graph)
        if not is_finite.all():
            sums, rest = self._sum_in_logarithms(flat[~is_finite])
            log_z[~is_finite], marginals[~is_finite] = sums[:, 0], rest
        return log_z.view(*shifted.shape[:-1], 1), marginals.view(shifted.shape)

    def _differentiate(
        self, shifted: Tensor, values: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
    ) -> Tensor:
        """Return the gradient for scores: the marginals for log Z, and covariances for the marginals."""
        from hardmax.solvers._compiled_paths import compute_covariances

        (_, marginals), (of_log_z, of_marginals) = values, gradients
        total = torch.zeros_like(shifted) if of_log_z is None else of_log_z * marginals
        if of_marginals is None:
            return total
        shape = (shifted.shape[:-1].numel(), *self.score_shape)
        covariances = compute_covariances(marginals.reshape(shape), of_marginals.reshape(shape), self._graph)
        return total + covariances.view(shifted.shape)

    def _sum_backward(self, shifted: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the log-weight of all paths from each position, and the probabilities of the edges out of each node.

        `[*B, N]`, and `[*B, n, degree]` for each step.
        """
        padded, values = pad_scores(shifted), torch.zeros_like(shifted[..., :1])
        probabilities = []
        for step in self._graph.steps:
            sums = add_values(padded, values, step)
            values = torch.cat([values, sums.logsumexp(-1)], -1)
            probabilities.append(sums.softmax(-1))
        return values, probabilities

    def _sum_in_logarithms(self, shifted: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, E]`, differentiable and for any number of paths."""
        values, probabilities = self._sum_backward(shifted)
        mass = torch.cat([torch.zeros_like(values[..., :-1]), torch.ones_like(values[..., :1])], -1)
        marginals = torch.zeros_like(pad(shifted, (0, 1)))
        for step, p in zip(reversed(self._graph.steps), reversed(probabilities), strict=True):
            passing = (mass[..., step.positions, None] * p).flatten(-2)
            mass = mass.index_add(-1, step.heads.to(shifted.device), passing)
            marginals = marginals.index_add(-1, step.edges.to(shifted.device), passing)
        return values[..., -1:], marginals[..., :-1]

    # ------------------------------------------------------------------------------- samples and members
    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[D]`: one uniform number for each choice of a path, at most one for each edge of the longest path."""
        return (self._graph.decisions,)

    def draw(self, scores: Float[Tensor, "*B E"], noise: Float[Tensor, "*SB _"]) -> Float[Tensor, "*SB E"]:
        """Draw each edge given the node that the path has reached, by the inverse of the distribution function.

        The noise is uniform, `[*SB, D]`, or that of `noise`, `[*SB, E]`, of which the first D numbers are used.
        """
        batch, scores, noise = self.batch_shape(scores), scores.detach(), noise.detach()
        if noise.shape[-1] == self.score_shape[0]:
            noise = self.perturbation.log_cdf(widen_dtype(noise)[..., : self._graph.decisions]).exp()
        lead = noise.shape[: noise.dim() - 1 - len(batch)]
        shifted, _ = self._shift(prepare_scores(scores))
        if not can_run_compiled(shifted) or noise.shape[len(lead) : -1] != batch:
            return self._draw_in_logarithms(shifted, noise).to(scores.dtype)
        from hardmax.solvers._compiled_paths import draw_paths

        flat = shifted.reshape(torch.Size(batch).numel(), *self.score_shape)
        uniform = noise.reshape(torch.Size(lead).numel(), len(flat), self._graph.decisions)
        z, is_finite = draw_paths(flat, uniform, self._graph)
        if not is_finite.all():
            z[:, ~is_finite] = self._draw_in_logarithms(flat[~is_finite], uniform[:, ~is_finite])
        return z.view(*lead, *scores.shape).to(scores.dtype)

    def _draw_in_logarithms(self, shifted: Tensor, uniform: Tensor) -> Tensor:
        table, numbers = self._graph.table.to(shifted.device), self._graph.numbers.to(shifted.device)
        p = torch.zeros_like(pad(shifted, (0, 1)))
        for step, probabilities in zip(self._graph.steps, self._sum_backward(shifted)[1], strict=True):
            p = p.index_add(-1, step.edges.to(shifted.device), probabilities.flatten(-2))
        p = p.expand(*uniform.shape[:-1], p.shape[-1])
        levels = pad(uniform, (0, 1)).to(p.dtype)  # a choice between one edge, after all others, has a number too

        def choose(position: Tensor) -> Tensor:
            cdf = p.gather(-1, table[position[..., 0]]).cumsum(-1)
            return invert_cdf(cdf, levels.gather(-1, numbers[position])).clamp_max(table.shape[1] - 1)

        return walk(self._graph, uniform.shape[:-1], choose, shifted)

    def relax(self, scores: Float[Tensor, "*L E"], tau: float) -> Float[Tensor, "*L E"]:
        """Return the marginals of `scores / tau`: a flow of size one from the source to the target."""
        return self.marginals(widen_dtype(scores) / tau).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M E"]:
        """Return all paths; those that begin with the first edges come first."""
        self.check_enumerable()
        graph, number = self._graph, torch.arange(self.size, device=device)[:, None]
        table, heads = graph.table.to(number.device), graph.edge_heads.to(number.device)
        # Only edges on paths have heads that count; the columns of missing edges add nothing.
        counts = torch.tensor(graph.counts, device=number.device)[heads]
        counts[-1] = 0

        def choose(position: Tensor) -> Tensor:
            nonlocal number
            sums = counts[table[position[..., 0]]].cumsum(-1)
            column = (sums <= number).sum(-1, keepdim=True).clamp_max(table.shape[1] - 1)
            number = number - torch.cat([torch.zeros_like(number), sums], -1).gather(-1, column)
            return column

        return walk(graph, (self.size,), choose, torch.empty(0, dtype=dtype, device=device))
