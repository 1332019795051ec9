"""Space of bits with pairwise interactions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from hardmax.errors import ArgumentError
from hardmax.random import draw_logistic
from hardmax.solvers.pairwise import NODE_LIMIT, Solver, choose_solver, pairwise_argmax, solve_pairwise
from hardmax.solvers.solution import Solution
from hardmax.spaces import _pairwise_gibbs as gibbs
from hardmax.spaces.abstract import AbstractSpace
from hardmax.spaces.binary import Binary

Edges = Sequence[Sequence[int]] | Tensor  # pairs

_MAX_ENUMERATED_BITS = 20  # up to this number all 2^n codes are enumerated
_ENUMERATING_METHODS = ("draw", "log_prob", "entropy", "kl", "marginals", "relax", "enumerate")


@final
@dataclass(frozen=True)
class PairwiseBinary(AbstractSpace):
    r"""n bits with pairwise interactions; z is `[*B, n]`, zeros and ones.

    $$ h(z) = \sum_i \mathrm{scores}_i \, z_i + \sum_e \mathrm{scores}_{n+e} \, z_{i(e)} z_{j(e)} $$

    Scores are one tensor `[*B, n + E]`, first the n unary scores, then one coupling per row of `edges` (for the
    complete graph `i < j`, lexicographic).

    These scores define two different distributions:

    - the Gibbs distribution $q(z) = \exp(h(z)) / Z$, for `draw`, `log_prob`, `entropy`, `kl` and `marginals`: all
      $2^n$ codes are enumerated, up to n = 20;
    - perturb-and-MAP, $\operatorname{argmax}_z \{h(z) + \sum_i \mathrm{noise}_i \, z_i\}$ with logistic noise: one arg
      max, at any n. Its probabilities have no formula; `log_prob_bound` is an upper bound of them. Without couplings
      the two are the same; on the complete graph of six bits with couplings of standard deviation 0.5 or 1 they are
      0.10 or 0.16 apart in total variation.

    The arg max is exact: min-cut if all couplings are at least zero (`supermodular`), else branch and bound. If
    optimality cannot be proved within a limit, `argmax` raises `NotExactError`, unless `solver="heuristic"` is set;
    `solve` returns the best z so far with the remaining gap.

    Args:
        n: number of bits, at least 1.
        edges: pairs (i, j); None is the complete graph.
        supermodular: promise that no coupling is negative; it is checked. An encoder ensures it by softplus with an
            offset: with plain softplus each of the n - 1 couplings of a bit starts at 0.7, and all bits are one.
        solver: "auto", or the name of a solver (see `hardmax.solvers`).

    Raises:
        ArgumentError: n < 1, or edges that are not pairs of different bits, or that occur twice.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.PairwiseBinary(3)
        >>> space.edges
        ((0, 1), (0, 2), (1, 2))
        >>> space.argmax(torch.tensor([-1.0, -1.0, 0.5, 3.0, 0.0, -1.0]))
        tensor([1., 1., 0.])
        >>> hm.PairwiseBinary.grid(100, 100, supermodular=True).score_shape
        (29800,)

    References:
        Lorberbom et al., 2019, section 4.1. Perturb-and-MAP: Papandreou & Yuille, 2011.
    """

    n: int
    edges: Edges | None = None  # pyright: ignore[reportIncompatibleMethodOverride]  # always pairs after construction
    supermodular: bool = False
    solver: Solver = "auto"

    takes_masks: ClassVar[bool] = False  # a coupling of minus infinity would rule out no bit

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ArgumentError(f"PairwiseBinary needs at least one bit, got n={self.n}")
        if self.solver not in get_args(Solver):
            raise ArgumentError(f"solver must be one of {', '.join(get_args(Solver))}, got {self.solver!r}")
        if self.edges is None:
            edges = tuple((i, j) for i in range(self.n) for j in range(i + 1, self.n))
        else:
            edges = _check_edges(self.n, self.edges)
        object.__setattr__(self, "edges", edges)

    @classmethod
    def grid(cls, height: int, width: int, *, supermodular: bool = False, solver: Solver = "auto") -> "PairwiseBinary":
        """Return the bits of an image, row by row, each joined to the one on its right and the one below."""
        if height < 1 or width < 1:
            raise ArgumentError(f"a grid has at least one row and one column, got {height} x {width}")
        place = [[row * width + column for column in range(width)] for row in range(height)]
        right = [(row[c], row[c + 1]) for row in place for c in range(width - 1)]
        below = [(up, down) for r in range(height - 1) for up, down in zip(place[r], place[r + 1], strict=True)]
        return cls(height * width, right + below, supermodular, solver)

    @staticmethod
    def reward_agreement(
        unary: Float[Tensor, "*B H W"], right: Float[Tensor, "*B H V"], below: Float[Tensor, "*B G W"]
    ) -> Float[Tensor, "*B D"]:
        r"""Return scores of `grid(height, width)` that reward equal neighbours and prefer neither zeros nor ones.

        They are those of

        $$ h(z) = \sum_i u_i z_i + \sum_{(i, j)} c_{ij} \, \mathbb{1}[z_i = z_j] $$

        up to a constant: $\mathbb{1}[z_i = z_j] = 1 - z_i - z_j + 2 z_i z_j$, so that each coupling is $2 c$, and c is
        subtracted from the unary scores of both pixels. For c at least zero, the arg max is a minimum cut.

        Args:
            unary: `[*B, H, W]`, u, the log-odds of a one at each pixel without its neighbours.
            right: `[*B, H, W - 1]`, c for each pixel and the one on its right.
            below: `[*B, H - 1, W]`, c for each pixel and the one below.

        Example:
            >>> import torch, hardmax as hm
            >>> unary = torch.tensor([[2.0, -0.5, 1.0]])
            >>> scores = hm.PairwiseBinary.reward_agreement(unary, torch.ones(1, 2), torch.ones(0, 3))
            >>> hm.PairwiseBinary.grid(1, 3, supermodular=True).argmax(scores)
            tensor([1., 1., 1.])
        """
        unary = unary - pad(right, (0, 1)) - pad(right, (1, 0)) - pad(below, (0, 0, 0, 1)) - pad(below, (0, 0, 1, 0))
        return torch.cat([unary.flatten(-2), 2 * right.flatten(-2), 2 * below.flatten(-2)], -1)

    def __repr__(self) -> str:
        complete = len(self._edges) == self.n * (self.n - 1) // 2
        edges = "" if complete else f", {len(self._edges)} edges"
        return f"PairwiseBinary({self.n}{edges}{', supermodular' if self.supermodular else ''})"

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n + E]`."""
        return (self.n + len(self._edges),)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def size(self) -> int:
        """$2^n$."""
        return 2**self.n

    @property
    def variables(self) -> int:
        """N, the number of bits."""
        return self.n

    @cached_property
    def chosen_solver(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Name of the solver of the arg max; general couplings may still be solved by min-cut if none is negative."""
        return choose_solver(self.n, self.supermodular) if self.solver == "auto" else self.solver

    def offers(self, name: str) -> bool:
        """Return whether this space has a method; those that enumerate all codes are offered up to n = 20."""
        return super().offers(name) and (self.n <= _MAX_ENUMERATED_BITS or name not in _ENUMERATING_METHODS)

    def check_values(self, scores: Tensor) -> None:
        """Raise `ArgumentError` for negative couplings if `supermodular`."""
        couplings = scores[..., self.n :].detach()
        if self.supermodular and couplings.numel() and not couplings.amin() >= 0:
            index = (couplings < 0).nonzero()[0].tolist()
            edge, value = self._edges[index[-1]], couplings[tuple(index)].item()
            raise ArgumentError(
                f"{self} was promised couplings of at least zero, got {value:.4g} for edge {edge} of example "
                f"{index[:-1]}; pass them through softplus, or leave supermodular out"
            )

    # ------------------------------------------------------------------------------- arg max and perturb-and-MAP
    def argmax(self, scores: Float[Tensor, "*B D"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the best z, proved optimal unless `solver="heuristic"`."""
        self.batch_shape(scores)
        unary, couplings = scores[..., : self.n], scores[..., self.n :]
        return pairwise_argmax(unary, couplings, self._edge_index, self.supermodular, self.solver)

    def solve(self, scores: Float[Tensor, "*B D"], *, node_limit: int = NODE_LIMIT) -> Solution:
        """Return the best z that the solver finds, with an upper bound of the score of any z and the solver's name."""
        self.batch_shape(scores)
        self.check_values(scores)
        return solve_pairwise(
            scores[..., : self.n].detach(),
            scores[..., self.n :].detach(),
            self._edge_index,
            supermodular=self.supermodular,
            solver=self.solver,
            node_limit=node_limit,
        )

    def statistics(self, z: Float[Tensor, "*L {self.n}"]) -> Float[Tensor, "*L D"]:
        """Return z and the products of its bits along the edges."""
        i, j = self._edge_ends(z.device)
        return torch.cat([z, z.index_select(-1, i) * z.index_select(-1, j)], -1)

    def noise(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "*shape D"]:
        """Draw logistic noise for the unary scores; the noise of the couplings is zero."""
        unary = draw_logistic((*shape, self.n), generator=generator, dtype=dtype, device=device)
        return pad(unary, (0, len(self._edges)))

    def noise_slope(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\tanh(g / 2)$, for logistic noise g; zero for couplings, which have no noise."""
        return (noise / 2).tanh()

    def fields(self, scores: Float[Tensor, "*B D"], z: Float[Tensor, "*LB {self.n}"]) -> Float[Tensor, "*LB {self.n}"]:
        r"""Return the log-odds of each bit given the rest, $\mathrm{scores}_i + \sum_j \alpha_{ij} z_j$."""
        i, j = self._edge_ends(z.device)
        couplings = scores[..., self.n :]
        fields = scores[..., : self.n].expand(z.shape)
        return fields.index_add(-1, i, couplings * z[..., j]).index_add(-1, j, couplings * z[..., i])

    def differential(
        self, z: Float[Tensor, "*L {self.n}"], step: Float[Tensor, "*L {self.n}"]
    ) -> Float[Tensor, "*L D"]:
        r"""Return how the statistics change when z moves by a small step.

        The change is $\mathrm{step}_i z_j + \mathrm{step}_j z_i$ for an edge.
        """
        i, j = self._edge_ends(z.device)
        return torch.cat([step, step[..., i] * z[..., j] + step[..., j] * z[..., i]], -1)

    def log_prob_bound(self, scores: Float[Tensor, "*B D"], z: Float[Tensor, "*LB {self.n}"]) -> Float[Tensor, "*LB"]:
        r"""Return the pseudo-likelihood, $\sum_i \log \operatorname{sigmoid}((2 z_i - 1) \, \mathrm{field}_i)$.

        If z is the arg max, then no single flip improves it, which means
        $(2 z_i - 1) (\mathrm{field}_i + \mathrm{noise}_i) \ge 0$ for every bit. The noises are independent, so the
        joint probability of these events is their product.
        """
        return logsigmoid((2 * z - 1) * self.fields(scores, z)).sum(-1)

    # ------------------------------------------------------------------------------- the Gibbs distribution, n <= 20
    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[2]`: one logistic number for each half of the bits."""
        return (2,)

    def draw_noise(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "*shape 2"]:
        """Draw two logistic numbers."""
        return draw_logistic((*shape, 2), generator=generator, dtype=dtype, device=device)

    def draw(self, scores: Float[Tensor, "*B D"], noise: Float[Tensor, "S *B _"]) -> Float[Tensor, "S *B {self.n}"]:
        """Turn noise into samples of q; of the noise of all bits, that of two bits is used."""
        return self.draw_with_log_prob(scores, noise)[0]

    def draw_with_log_prob(
        self, scores: Float[Tensor, "*B D"], noise: Float[Tensor, "S *B _"]
    ) -> tuple[Float[Tensor, "S *B {self.n}"], Float[Tensor, "S *B"]]:
        r"""Return samples of q and their $\log q$, from one sum over all codes."""
        flat, split = self._flatten_and_split(scores)
        if noise.shape[-1] != 2:
            noise = noise[..., [0, 0 if self.n == 1 else (self.n + 1) // 2]]
        uniform = noise.to(flat.dtype).sigmoid()
        first, second = uniform.reshape(len(noise), len(flat), 2).unbind(-1)
        z, log_z = gibbs.draw_samples(flat, first, second, split)
        z = z.view(*noise.shape[:-1], self.n).to(scores.dtype)
        return z, self.dot(scores, self.statistics(z)) - log_z.view(self.batch_shape(scores)).to(scores.dtype)

    def log_prob(self, scores: Float[Tensor, "*B D"], z: Float[Tensor, "*LB {self.n}"]) -> Float[Tensor, "*LB"]:
        r"""Return $h(z) - \log Z$."""
        return self.dot(scores, self.statistics(z)) - self.log_partition(scores)

    def log_partition(self, scores: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        r"""Return $\log Z = \log \sum_z \exp h(z)$."""
        flat, split = self._flatten_and_split(scores)
        return gibbs.log_partition(flat, split).view(self.batch_shape(scores)).to(scores.dtype)

    def marginals(self, scores: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the probabilities of the ones, and of both ends of every edge being one."""
        flat, split = self._flatten_and_split(scores)
        return gibbs.log_partition_and_marginals(flat, split)[1].view(scores.shape).to(scores.dtype)

    def entropy(self, scores: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        r"""Return the entropy of q, $\log Z - \mathbb{E}_q[h]$, in nats."""
        return self.n * math.log(2) - self.kl(scores)

    def kl(self, scores: Float[Tensor, "*B D"], prior: Float[Tensor, "..."] | None = None) -> Float[Tensor, "*B"]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$, p the Gibbs distribution of other scores, or uniform."""
        flat, split = self._flatten_and_split(scores)
        log_z, marginals = gibbs.log_partition_and_marginals(flat, split)
        batch = self.batch_shape(scores)
        marginals = marginals.view(scores.shape)
        if prior is None:
            difference, prior_log_z = scores, self.n * math.log(2)
        else:
            difference, prior_log_z = scores - prior, self.log_partition(prior)
        return (difference * marginals).sum(-1).to(scores.dtype) - log_z.view(batch).to(scores.dtype) + prior_log_z

    def relax(self, scores: Float[Tensor, "*L D"], tau: float) -> Float[Tensor, "*L {self.n}"]:
        """Return the mean of z under the Gibbs distribution of `scores / tau`."""
        return self.marginals(scores / tau)[..., : self.n]

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M {self.n}"]:
        """Return all $2^n$ codes, counting up, the last bit fastest."""
        return Binary(self.n).enumerate(dtype=dtype, device=device)

    # ------------------------------------------------------------------------------- single changes
    @property
    def changes(self) -> int:
        """N flips."""
        return self.n

    def change(self, z: Float[Tensor, "*L {self.n}"], index: Tensor) -> Float[Tensor, "*L {self.n}"]:
        """Flip bit `index`."""
        return Binary(self.n).change(z, index)

    def changes_between(
        self, z: Float[Tensor, "*L {self.n}"], other: Float[Tensor, "*L {self.n}"]
    ) -> Bool[Tensor, "*L {self.n}"]:
        """Return the bits that differ."""
        return Binary(self.n).changes_between(z, other)

    def parts(self, z: Float[Tensor, "*L {self.n}"], gains: Float[Tensor, "M *L"]) -> Float[Tensor, "*L D"]:
        """Return $f(z_i = 1) - f(z_i = 0)$ for every bit, and zero for every edge."""
        return pad(Binary(self.n).parts(z, gains), (0, len(self._edges)))

    # ------------------------------------------------------------------------------- the graph
    @property
    def _edges(self) -> tuple[tuple[int, int], ...]:
        return self.edges  # pyright: ignore[reportReturnType]

    @cached_property
    def _edge_index(self) -> Tensor:
        return torch.tensor(self._edges, dtype=torch.int64).view(-1, 2)

    @cached_property
    def _halves(self) -> gibbs.Halves:
        return gibbs.split_graph(self.n, self._edges)

    def _edge_ends(self, device: torch.device) -> tuple[Tensor, Tensor]:
        i, j = self._edge_index.to(device).unbind(1)
        return i, j

    def _flatten_and_split(self, scores: Tensor) -> tuple[Tensor, gibbs.Halves]:
        """Return scores `[prod(B), n + E]` in float32 or wider, and the graph in two halves."""
        if self.n > _MAX_ENUMERATED_BITS:
            raise self._not_exact(f"Gibbs distribution beyond n = {_MAX_ENUMERATED_BITS}")
        self.batch_shape(scores)
        dtype = torch.promote_types(scores.dtype, torch.float32)
        flat = scores.reshape(-1, self.score_shape[0]).to(dtype)
        return flat, self._halves.convert_like(flat)


def _check_edges(n: int, edges: Edges) -> tuple[tuple[int, int], ...]:
    """Return edges as pairs i < j; raise `ArgumentError` if they are invalid."""
    rows = edges.tolist() if isinstance(edges, Tensor) else edges
    row_of: dict[tuple[int, int], int] = {}
    for row, edge in enumerate(rows):
        try:
            i, j = (int(end) for end in edge)
        except (TypeError, ValueError):
            raise ArgumentError(f"edges must be pairs of bits, got {edge!r} in row {row}") from None
        if not (0 <= i < n and 0 <= j < n and i != j):
            raise ArgumentError(f"edge {row} is ({i}, {j}); an edge joins two different bits of 0 ... {n - 1}")
        pair = (min(i, j), max(i, j))
        if pair in row_of:
            raise ArgumentError(f"edges {row_of[pair]} and {row} are both {pair}; add their couplings and keep one")
        row_of[pair] = row
    return tuple(row_of)
