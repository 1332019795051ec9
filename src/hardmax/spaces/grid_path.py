"""Space of the paths of a grid from the top left cell to the bottom right one."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.solvers.dijkstra import Arcs, find_shortest_paths
from hardmax.spaces.abstract import AbstractSpace, prepare_scores, widen_dtype
from hardmax.spaces.perturbation import Perturbation
from hardmax.spaces.shortest_path import ShortestPath
from hardmax.tracing import can_read_values

_SUMS = ("draw", "log_prob", "entropy", "kl", "marginals", "relax", "enumerate")  # need a graph without cycles


@final
@dataclass(frozen=True)
class GridPath(AbstractSpace):
    r"""A path of a grid from the top left cell to the bottom right one, with scores for its edges or its cells.

    $$ q(z) = \exp\Big(\sum_i \mathrm{scores}_i \, z_i\Big) / Z $$

    Larger scores are better, as in all spaces: for the *shortest* path under costs, pass `scores = -costs`.

    | | scores and z | z is one for |
    |---|---|---|
    | `on="edges"` | `[*B, E]` | the edges of the path, in the order of `edges` |
    | `on="nodes"` | `[*B, height, width]` | the cells of the path, including the first and the last |

    With `monotone=True` a step leads right or down, or with `connectivity=8` also right and down at once. This graph
    has no cycles, scores may have any sign, and everything of `ShortestPath` is offered: Z, marginals, samples,
    entropy, enumeration. The cells of a path determine the path.

    With `monotone=False` a step leads to any of the 4 or 8 neighbours. Only the arg max is offered, by Dijkstra's
    algorithm: scores are at most zero (costs at least zero), else an error names the score. An edge between two cells
    has one score for both directions. Of equally good paths, one with the fewest steps is returned. Noise is
    multiplicative, which keeps the signs. Estimators that move scores along a slope (`ImplicitMLE`, `Blackbox`) may
    move them above zero: `augment` then sets them to zero, as Vlastelica et al. do.

    Args:
        height: number of rows, at least 1.
        width: number of columns, at least 1; there are at least two cells.
        connectivity: 4 or 8, the number of neighbours of a cell; 8 includes the diagonals.
        monotone: whether steps lead only right and down.
        on: what has scores: "edges" or "nodes" (cells).
        perturbation: the noise of perturb-and-MAP; None is `Perturbation()` for a monotone grid and
            `Perturbation("multiplicative")` for others.

    Raises:
        ArgumentError: fewer than two cells, another connectivity or `on`, or additive noise for a grid with cycles.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.GridPath(5, 5)
        >>> len(space.edges), space.size
        (40, 70)
        >>> space.edges[:6]  # right from row 0, then down from it; cells are counted row by row
        ((0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (1, 6))
        >>> costs = torch.tensor([[1.0, 9.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 1.0]])
        >>> hm.GridPath(3, 3, connectivity=8, monotone=False, on="nodes").argmax(-costs)
        tensor([[1., 0., 0.],
                [1., 0., 0.],
                [0., 1., 1.]])

    References:
        Elmachtoub & Grigas, "Smart predict, then optimize", 2022 (monotone, edges of a 5 x 5 grid); Vlastelica, Paulus,
        Musil, Martius & Rolinek, "Differentiation of blackbox combinatorial solvers", 2020 (8 neighbours, cells of a
        12 x 12 grid); Dijkstra, 1959.
    """

    height: int
    width: int
    _: KW_ONLY
    connectivity: Literal[4, 8] = 4
    monotone: bool = True
    on: Literal["edges", "nodes"] = "edges"
    perturbation: Perturbation | None = None  # pyright: ignore[reportIncompatibleVariableOverride]  # set on construction
    _edges: tuple[tuple[int, int], ...] = field(init=False, compare=False)
    _heads: Tensor = field(init=False, compare=False)  # [E], the cell that each edge leads to
    _paths: ShortestPath | None = field(init=False, compare=False)  # of a monotone grid
    _arcs: Arcs | None = field(init=False, compare=False)  # of a grid with cycles

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self._cells < 2:
            raise ArgumentError(f"GridPath needs at least two cells, got {self.height} x {self.width}")
        if self.connectivity not in (4, 8):
            raise ArgumentError(f"connectivity must be 4 or 8, got {self.connectivity!r}")
        if self.on not in ("edges", "nodes"):
            raise ArgumentError(f"on must be 'edges' or 'nodes', got {self.on!r}")
        kind = self.perturbation.kind if self.perturbation is not None else "multiplicative"
        if not self.monotone and kind != "multiplicative":
            raise ArgumentError(
                f"the scores of a grid with cycles must stay at most zero, but {kind} noise is added to them; use "
                f"perturbation=Perturbation('multiplicative'), or monotone=True"
            )
        edges = _list_edges(self.height, self.width, diagonal=self.connectivity == 8, monotone=self.monotone)
        noise = self.perturbation or Perturbation("gumbel" if self.monotone else "multiplicative")
        values = {
            "perturbation": noise,
            "_edges": edges,
            "_heads": torch.tensor([head for _, head in edges], device="cpu"),
            "_paths": ShortestPath(edges, 0, self._cells - 1, perturbation=noise) if self.monotone else None,
            "_arcs": None if self.monotone else _list_arcs(edges, self._cells, on_edges=self.on == "edges"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        options = f"connectivity={self.connectivity}, monotone={self.monotone}, on={self.on!r}"
        return f"GridPath({self.height}, {self.width}, {options})"

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The pairs of cells that have an edge, in the order of the scores; cells are counted row by row.

        For each row: the edges to the right from left to right, then the edges down, then the diagonals right and down,
        and, unless monotone, the diagonals left and down.
        """
        return self._edges

    @property
    def _cells(self) -> int:
        return self.height * self.width

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[E]`, or `[height, width]` for scores of cells."""
        return (len(self.edges),) if self.on == "edges" else (self.height, self.width)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of the scores."""
        return self.score_shape

    @property
    def size(self) -> int:
        """Number of paths; `NotExactError` unless monotone."""
        return self._get_paths("number of paths").size

    @property
    def has_constant_sum(self) -> bool:
        """Whether all paths have the same number of steps."""
        return self._paths is not None and self._paths.has_constant_sum

    def offers(self, name: str) -> bool:
        """Return whether this space has a method; those that sum over paths are offered for monotone grids."""
        return super().offers(name) and (self.monotone or name not in _SUMS)

    def _get_paths(self, what: str) -> ShortestPath:
        """Return the space of the edges of the paths, or raise `NotExactError` if the grid has cycles."""
        if self._paths is None:
            raise NotExactError(f"{self} offers no exact {what}: its graph has cycles; use monotone=True")
        return self._paths

    # ------------------------------------------------------------------------------- arg max
    def argmax(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the path with the largest sum of scores."""
        if self._paths is not None and self.on == "edges":
            return self._paths.argmax(scores)
        self.batch_shape(scores)
        scores = scores.detach()
        if self._arcs is None:
            paths = self._get_paths("arg max")
            return self._to_cells(paths.argmax(self._to_edges(prepare_scores(scores))[0])).to(scores.dtype)
        if can_read_values():
            self.check_values(scores)
        if self.on == "edges":
            return find_shortest_paths(scores, self._arcs, 0, self._cells - 1)
        z = find_shortest_paths(self._remove_ends(scores), self._arcs, 0, self._cells - 1)
        return torch.cat([torch.ones_like(z[..., :1]), z[..., 1:]], -1).unflatten(-1, self.score_shape)

    def statistics(self, z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return z."""
        return z

    def augment(self, scores: Float[Tensor, "..."], values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return scores plus values; in a grid with cycles at most zero, so that costs stay at least zero."""
        return scores + values if self.monotone else (scores + values).clamp_max(0)

    def check_values(self, scores: Tensor) -> None:
        """Raise `ArgumentError` for scores above zero in a grid with cycles."""
        if self.monotone or not scores.numel() or scores.amax() <= 0:
            return
        index = (~(scores <= 0)).nonzero()[0].tolist()
        lead = scores.dim() - len(self.score_shape)
        place = f"cell {tuple(index[lead:])}" if self.on == "nodes" else f"edge {self.edges[index[-1]]}"
        raise ArgumentError(
            f"scores of {self} are minus costs, at most zero, got {scores[tuple(index)].item():.4g} for {place} of "
            f"example {index[:lead]}; pass -costs, or the output of a network through -softplus"
        )

    # ------------------------------------------------------------------------------- sums over monotone paths
    def log_partition(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\log Z$: `[*B, *score] -> [*B]`, differentiable; its gradient is `marginals`."""
        self.batch_shape(scores)
        edges, constant = self._to_edges(prepare_scores(scores))
        return (self._get_paths("log Z").log_partition(edges) + constant).to(scores.dtype)

    def log_prob(self, scores: Float[Tensor, "..."], z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\log q(z)$."""
        if self.on == "edges":
            return self._get_paths("log_prob").log_prob(scores, z)
        self.batch_shape(scores)
        wide = prepare_scores(scores)
        return (self.dot(wide, z.to(wide.dtype)) - self.log_partition(wide)).to(scores.dtype)

    def entropy(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the entropy of q in nats."""
        self.batch_shape(scores)
        return self._get_paths("entropy").entropy(self._to_edges(prepare_scores(scores))[0]).to(scores.dtype)

    def kl(self, scores: Float[Tensor, "..."], prior: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$; p is given by its scores, or uniform over the paths."""
        self.batch_shape(scores)
        if prior is not None:
            self.batch_shape(prior)
            prior = self._to_edges(prior)[0]
        edges, _ = self._to_edges(prepare_scores(scores))
        return self._get_paths("KL divergence").kl(edges, prior).to(scores.dtype)

    def marginals(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the probabilities of the edges or cells."""
        self.batch_shape(scores)
        edges, _ = self._to_edges(prepare_scores(scores))
        return self._to_cells(self._get_paths("marginals").marginals(edges)).to(scores.dtype)

    def relax(self, scores: Float[Tensor, "..."], tau: float) -> Float[Tensor, "..."]:
        """Return the marginals of `scores / tau`."""
        self.batch_shape(scores)
        return self.marginals(widen_dtype(scores) / tau).to(scores.dtype)

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[D]`, one uniform number for each choice of a path, or `[D, 1]` for scores of cells."""
        if not self.monotone:
            return self.score_shape
        decisions = self._get_paths("samples of q").draw_shape
        return decisions if self.on == "edges" else (*decisions, 1)

    def draw(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Draw each step given the cell that the path has reached.

        The noise is uniform, `[*SB, *draw_shape]`, or that of `noise`, of which the first D numbers are used.
        """
        self.batch_shape(scores)
        paths = self._get_paths("samples of q")
        if self.on == "nodes":
            is_uniform = noise.shape[-1] == 1 and self.width > 1
            noise = noise.flatten(-2)
            if not is_uniform:
                noise = paths.perturbation.log_cdf(widen_dtype(noise)[..., : paths.draw_shape[0]]).exp()
        return self._to_cells(paths.draw(self._to_edges(prepare_scores(scores))[0], noise)).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "..."]:
        """Return all paths of a monotone grid."""
        return self._to_cells(self._get_paths("enumeration").enumerate(dtype=dtype, device=device))

    # ------------------------------------------------------------------------------- cells and edges
    def _remove_ends(self, scores: Tensor) -> Tensor:
        """Return the scores of cells `[*B, cells]`, zero for the first and the last cell, which are on all paths.

        A large one, such as a mask of -1e30, would swallow the others.
        """
        inner = scores.flatten(-2)[..., 1:-1]
        return torch.nn.functional.pad(inner, (1, 1))

    def _to_edges(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of the edges `[*B, E]`, those of the cells that they lead to, and a constant of all paths."""
        if self.on == "edges":
            return scores, torch.zeros_like(scores[..., 0])
        heads = self._heads.to(scores.device)
        return self._remove_ends(scores).index_select(-1, heads), scores[..., 0, 0] + scores[..., -1, -1]

    def _to_cells(self, values: Tensor) -> Tensor:
        """Return the sum of values `[*L, E]` over the edges into each cell, `[*L, height, width]`; the first gets 1."""
        if self.on == "edges":
            return values
        first = torch.ones_like(values[..., :1])
        zeros = torch.zeros_like(first).expand(*values.shape[:-1], self._cells - 1)
        cells = torch.cat([first, zeros.index_add(-1, self._heads.to(values.device) - 1, values)], -1)
        return cells.unflatten(-1, self.score_shape)


def _list_edges(height: int, width: int, *, diagonal: bool, monotone: bool) -> tuple[tuple[int, int], ...]:
    """Return the pairs of neighbouring cells.

    For each row: the edges to the right from left to right, then the edges down, then with `diagonal` those right and
    down, and unless `monotone` those left and down.

    Example:
        >>> _list_edges(2, 2, diagonal=True, monotone=False)
        ((0, 1), (0, 2), (1, 3), (0, 3), (1, 2), (2, 3))
    """
    edges = []
    for row in range(height):
        cells = range(row * width, (row + 1) * width)
        edges += [(cell, cell + 1) for cell in cells[:-1]]
        if row + 1 < height:
            edges += [(cell, cell + width) for cell in cells]
            if diagonal:
                edges += [(cell, cell + width + 1) for cell in cells[:-1]]
            if diagonal and not monotone:
                edges += [(cell, cell + width - 1) for cell in cells[1:]]
    return tuple(edges)


def _list_arcs(edges: tuple[tuple[int, int], ...], cells: int, *, on_edges: bool) -> Arcs:
    """Return both directions of every edge, with the score of the edge or of the cell that the arc leads to."""
    arcs = []
    for edge, (first, second) in enumerate(edges):
        arcs += [(first, second, edge if on_edges else second), (second, first, edge if on_edges else first)]
    return Arcs.from_triples(cells, arcs)
