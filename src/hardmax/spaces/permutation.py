"""Space of permutations of n items."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.solvers.assignment import solve_assignment
from hardmax.solvers.sinkhorn import compute_laplacian, solve_column_potentials
from hardmax.spaces._permanent import MAX_ITEMS, draw_columns, log_permanent, log_permanent_and_marginals
from hardmax.spaces.abstract import make_one_hot, prepare_scores, widen_dtype
from hardmax.spaces.gibbs import AbstractGibbs
from hardmax.tracing import is_eager

_SUM_METHODS = ("draw", "log_prob", "entropy", "kl", "marginals")


@final
@dataclass(frozen=True)
class Permutation(AbstractGibbs):
    r"""Permutations of n items; z is `[*B, n, n]`, a permutation matrix, and scores `[*B, n, n]` weigh its entries.

    $$ q(z) = \exp\Big(\sum_{ij} \mathrm{scores}_{ij} \, z_{ij}\Big) / Z $$

    where Z is the permanent of `exp(scores)`. The arg max is an assignment problem, solved by scipy on the CPU, at any
    n. Z, marginals and samples (`draw`) come from dynamic programming over the $2^n$ sets of columns, and are offered
    up to n = 12; for larger n they raise `NotExactError`.

    Perturb-and-MAP, the best assignment of `scores + noise`, is another distribution: a permutation's perturbation is a
    sum of n Gumbel variables, some of which it shares with other permutations. With zero scores both are uniform; for
    `Permutation(4)` and standard normal scores they are 0.12 apart in total variation.

    A change swaps the columns of two rows; `parts` puts half of the gain of a swap on each of the two entries it sets.

    Args:
        n: number of items, at least 1.

    Raises:
        ArgumentError: n < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.Permutation(3)
        >>> scores = torch.tensor([[1.0, 2.0, 1.0], [0.0, 3.0, 0.0], [1.0, 0.0, 0.0]])
        >>> space.argmax(scores)
        tensor([[0., 0., 1.],
                [0., 1., 0.],
                [1., 0., 0.]])
        >>> torch.allclose(space.relax(scores, tau=0.5).sum(0), torch.ones(3))
        True
        >>> hm.Permutation(20).offers("log_prob")
        False

    References:
        Mena, Belanger, Linderman & Snoek, "Learning latent permutations with Gumbel-Sinkhorn networks", 2018.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ArgumentError(f"Permutation needs at least one item, got n={self.n}")

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n, n]`."""
        return (self.n, self.n)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[n, n]`."""
        return (self.n, self.n)

    @property
    def size(self) -> int:
        """$n!$."""
        return math.factorial(self.n)

    def offers(self, name: str) -> bool:
        """Return whether this space has a method; those that sum over permutations are offered up to n = 12."""
        return super().offers(name) and (self.n <= MAX_ITEMS or name not in _SUM_METHODS)

    def argmax(self, scores: Float[Tensor, "*B {self.n} {self.n}"]) -> Float[Tensor, "*B {self.n} {self.n}"]:
        """Return the best assignment; the batch moves to the CPU and back once."""
        self.batch_shape(scores)
        return self._one_hot(solve_assignment(prepare_scores(scores)), scores.dtype)

    def statistics(self, z: Float[Tensor, "*L {self.n} {self.n}"]) -> Float[Tensor, "*L {self.n} {self.n}"]:
        """Return z."""
        return z

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def log_partition(self, scores: Float[Tensor, "*B {self.n} {self.n}"]) -> Float[Tensor, "*B"]:
        """Return the logarithm of the permanent of `exp(scores)`."""
        self.batch_shape(scores)
        self._check_size()
        return log_permanent(prepare_scores(scores)).to(scores.dtype)

    def _normalise(self, scores: Tensor) -> Tensor:
        self._check_size()
        return scores - log_permanent(scores)[..., None, None] / self.n

    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        self._check_size()
        log_z, marginals = log_permanent_and_marginals(scores)
        return scores - log_z[..., None, None] / self.n, marginals

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[n, 1]`: one uniform number for each row."""
        return (self.n, 1)

    def draw(
        self, scores: Float[Tensor, "*B {self.n} {self.n}"], noise: Float[Tensor, "*SB {self.n} _"]
    ) -> Float[Tensor, "*SB {self.n} {self.n}"]:
        """Draw a column for each row in turn, given the columns that are already used.

        Uniform noise is turned into columns by the inverse of the CDF, Gumbel noise by its arg max.
        """
        self.batch_shape(scores)
        self._check_size()
        columns = draw_columns(prepare_scores(scores.detach()), widen_dtype(noise.detach()))
        return self._one_hot(torch.cat(columns, -1), scores.dtype)

    def relax(self, scores: Float[Tensor, "*L {self.n} {self.n}"], tau: float) -> Float[Tensor, "*L {self.n} {self.n}"]:
        r"""Return the doubly stochastic matrix P of Gumbel-Sinkhorn, at any n.

        $$ P_{ij} = \exp(\mathrm{scores}_{ij} / \tau + u_i + v_j) $$

        It is the P with the largest $\langle \mathrm{scores}, P \rangle + \tau H(P)$, with the entropy $H(P)$ of its
        entries, not the marginals of q.

        Deviation: Mena et al. stop Sinkhorn's iteration after 20 rounds, which leaves column sums off by 1 or more at
        tau = 0.03. Here 10 rounds are followed by Newton steps where sums are off by more than 1e-10, in float64: rows
        sum to one, columns to within 1e-6, mostly 1e-10, and as tau falls the limit is the arg max. The gradient is
        that of the solution, the derivative of one more Newton step.
        """
        self.batch_shape(scores)
        logits = prepare_scores(scores).double() / tau
        v = solve_column_potentials(logits)
        p = (logits + v[..., None, :]).softmax(-1)
        if is_eager(logits) and not (logits.requires_grad and torch.is_grad_enabled()):
            return p.to(scores.dtype)
        step = torch.linalg.solve(compute_laplacian(p.detach()), 1 - p.sum(-2))
        return (logits + (v + step - step.detach())[..., None, :]).softmax(-1).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M {self.n} {self.n}"]:
        """Return all $n!$ matrices, in the lexicographic order of the rows' columns."""
        self.check_enumerable()
        number = torch.arange(self.size, device=device)
        free = torch.ones(self.size, self.n, dtype=torch.int64, device=device)
        rows = []
        for left in range(self.n - 1, -1, -1):
            # The digit counts the free columns to skip.
            digit = number // math.factorial(left) % (left + 1)
            chosen = (free.cumsum(-1) == digit[:, None] + 1) & (free == 1)
            free = free - chosen.long()
            rows.append(chosen)
        return torch.stack(rows, -2).to(dtype or torch.get_default_dtype())

    # ------------------------------------------------------------------------------- swaps
    @property
    def changes(self) -> int:
        """$n (n - 1) / 2$ swaps of two rows' columns."""
        return self.n * (self.n - 1) // 2

    def change(self, z: Float[Tensor, "*L {self.n} {self.n}"], index: Tensor) -> Float[Tensor, "*L {self.n} {self.n}"]:
        """Swap the two rows of pair `index`: (0, 1), (0, 2), ..., (1, 2), ..."""
        first, second = (rows[index][..., None] for rows in self._row_pairs(z.device))
        row = torch.arange(self.n, device=z.device)
        source = torch.where(row == first, second, torch.where(row == second, first, row))
        return z.gather(-2, source[..., None].expand(z.shape))

    def parts(
        self, z: Float[Tensor, "*L {self.n} {self.n}"], gains: Float[Tensor, "M *L"]
    ) -> Float[Tensor, "*L {self.n} {self.n}"]:
        """Return half the gain of swapping rows i and j at (i, column of j) and at (j, column of i); zero on z."""
        first, second = self._row_pairs(z.device)
        halves = torch.zeros(*gains.shape[1:], self.n * self.n, dtype=gains.dtype, device=gains.device)
        halves = halves.index_copy(-1, first * self.n + second, gains.movedim(0, -1) / 2).view(z.shape)
        # Column j of the symmetric table belongs to the column of row j: a product with z moves it there.
        return (halves + halves.mT) @ z

    def _row_pairs(self, device: torch.device) -> tuple[Tensor, Tensor]:
        first, second = torch.triu_indices(self.n, self.n, 1, device=device).unbind()
        return first, second

    def _one_hot(self, columns: Tensor, dtype: torch.dtype) -> Tensor:
        return make_one_hot(columns[..., None], self.n, dtype)

    def _check_size(self) -> None:
        if self.n > MAX_ITEMS:
            raise NotExactError(
                f"{self} sums over permutations up to n = {MAX_ITEMS} only, so it offers no log_prob, entropy, kl, "
                f"marginals or draw; use Direct() or GumbelSoftmax(), which need only the arg max"
            )
