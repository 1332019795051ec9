"""Space of subsets of k out of n items."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from hardmax.errors import ArgumentError
from hardmax.spaces._compiled_sums import CompiledFunction
from hardmax.spaces.abstract import IMPOSSIBLE, log_add, prepare_scores, widen_dtype
from hardmax.spaces.gibbs import AbstractGibbs
from hardmax.tracing import can_run_compiled


@final
@dataclass(frozen=True)
class Subset(AbstractGibbs):
    r"""Subsets of k of n items; z is `[*B, n]`, k ones and n - k zeros, with one score per item, `[*B, n]`.

    $$ q(z) = \exp\Big(\sum_i \mathrm{scores}_i \, z_i\Big) / Z $$

    over all z with k ones: independent bits, given that k of them are ones. Z is the elementary symmetric polynomial of
    degree k in `exp(scores)`, computed item by item in $O(n k)$. So are the marginals and samples (`draw`), which
    include one item after the other with its conditional probability.

    Perturb-and-MAP, the k best of `scores + noise`, is another distribution: Plackett-Luce, which draws one item after
    the other without replacement, in proportion to `exp(scores)`. Good items are chosen more often: if two items are
    chosen from three with `exp(scores) = 3, 1, 1`, the first is chosen with probability 0.9, and with 6/7 under q. For
    k = 1 the two are the same.

    A change swaps one item for another. The gains of swaps need not be sums over items, so `parts` is the best additive
    fit (least squares over all swaps), exact where f is additive, where k = 1 and where k = n - 1.

    Args:
        n: number of items, at least 1.
        k: number of items chosen, 0 to n.

    Raises:
        ArgumentError: n < 1, or k outside 0 ... n.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.Subset(4, 2)
        >>> space.argmax(torch.tensor([0.5, -1.0, 2.0, 0.0]))
        tensor([1., 0., 1., 0.])
        >>> hm.Subset(3, 2).marginals(torch.tensor([3.0, 1.0, 1.0]).log())
        tensor([0.8571, 0.5714, 0.5714])
        >>> space.neighbours(torch.tensor([1.0, 0.0, 1.0, 0.0]))
        tensor([[0., 1., 1., 0.],
                [0., 0., 1., 1.],
                [1., 1., 0., 0.],
                [1., 0., 0., 1.]])

    References:
        Chen, Dempster & Liu, "Weighted finite population sampling to maximize entropy", 1994. Perturb-and-MAP: Kool,
        van Hoof & Welling, "Stochastic beams and where to find them", 2019.
    """

    n: int
    k: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ArgumentError(f"Subset needs at least one item, got n={self.n}")
        if not 0 <= self.k <= self.n:
            raise ArgumentError(f"Subset chooses between none and all of n={self.n} items, got k={self.k}")

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def size(self) -> int:
        r"""$n! / (k! \, (n - k)!)$."""
        return math.comb(self.n, self.k)

    @property
    def additive_changes(self) -> bool:
        """False: the gains of swaps need not be sums over items."""
        return False

    def argmax(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the k items with the largest scores."""
        self.batch_shape(scores)
        best = scores.detach().topk(self.k).indices
        return torch.zeros_like(scores.detach()).scatter(-1, best, 1.0)

    def statistics(self, z: Float[Tensor, "*L {self.n}"]) -> Float[Tensor, "*L {self.n}"]:
        """Return z."""
        return z

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def log_partition(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B"]:
        """Return the logarithm of the elementary symmetric polynomial of degree k in `exp(scores)`."""
        self.batch_shape(scores)
        return self._log_z(prepare_scores(scores))[..., 0].to(scores.dtype)

    def _log_z(self, scores: Tensor) -> Tensor:
        """Return log Z, `[*B, 1]`."""
        if self.k and can_run_compiled(scores):
            return self._sum_subsets(scores)[0]
        limited, offset = self._limit_range(scores)
        return self._sum_choices(limited)[-1][..., -1:] + offset

    def _limit_range(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of the same q that differ from the k-th largest by less than numbers underflow, and an offset.

        The offset `[*B, 1]` is the difference of log Z. An item that exceeds the k-th largest score by c is left out
        with a probability below $n e^{-c}$, and one that falls short of it by c is chosen with at most that. Without
        the limit, a mask of -1e30 on an item that has to be chosen would swallow all other scores.
        """
        if self.k == 0:
            return scores, torch.zeros_like(scores[..., :1])
        pivot = scores.detach().topk(self.k, -1).values[..., -1:]
        limit = 800.0 if scores.dtype == torch.float64 else 120.0
        centred = scores - pivot
        limited = centred.clamp(-limit, limit)
        return limited, self.k * pivot + (centred - limited).clamp_min(0).sum(-1, keepdim=True)

    def _sum_subsets(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, n]`."""
        if not can_run_compiled(scores):
            return self._sum_in_logarithms(scores)
        return CompiledFunction.apply(scores, self._run_compiled, self._sum_in_logarithms, None)

    def _run_compiled(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        from hardmax.solvers._compiled_subset import sum_subsets

        flat = scores.reshape(scores.shape[:-1].numel(), self.n)
        log_z, marginals, is_accurate = sum_subsets(flat, self.k)
        if not is_accurate.all():
            sums, rest = self._sum_in_logarithms(flat[~is_accurate].double())
            log_z[~is_accurate], marginals[~is_accurate] = sums[:, 0].to(flat.dtype), rest.to(flat.dtype)
        return log_z.view(*scores.shape[:-1], 1), marginals.view(scores.shape)

    def _sum_choices(self, scores: Tensor) -> list[Tensor]:
        """Return the log-weight of all choices of 0 ... k of the first i items: `[*B, k + 1]` for i = 0 ... n."""
        start = pad(torch.zeros_like(scores[..., :1]), (0, self.k), value=IMPOSSIBLE)
        choices = [start]
        for score in scores.split(1, -1):
            with_item = pad(choices[-1][..., :-1] + score, (1, 0), value=IMPOSSIBLE)
            choices.append(log_add(choices[-1], with_item))
        return choices

    def _sum_remaining_choices(self, scores: Tensor) -> list[Tensor]:
        """Return the log-weight of all choices of 0 ... k of the items i ... n - 1: `[*B, k + 1]` for i = 0 ... n."""
        return self._sum_choices(scores.flip(-1))[::-1]

    def _normalise(self, scores: Tensor) -> Tensor:
        return scores - self._log_z(scores) / max(self.k, 1)

    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        if self.k == 0:
            return scores, torch.zeros_like(scores)
        log_z, marginals = self._sum_subsets(scores)
        return scores - log_z / self.k, marginals

    def marginals(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the probability that each item is chosen."""
        self.batch_shape(scores)
        return self._sum_subsets(prepare_scores(scores))[1].to(scores.dtype) if self.k else torch.zeros_like(scores)

    def _sum_in_logarithms(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Z `[*B, 1]` and the marginals `[*B, n]`, for scores of any size and differentiable."""
        scores, offset = self._limit_range(scores)
        before, after = self._sum_choices(scores), self._sum_remaining_choices(scores)
        # Item i is chosen with j items before it and k - 1 - j after it.
        pairs = torch.stack(before[:-1], -2)[..., : self.k] + torch.stack(after[1:], -2)[..., : self.k].flip(-1)
        # The weights sum to k Z. A softmax divides by their computed sum, so the result sums to k however Z is rounded.
        return before[-1][..., -1:] + offset, self.k * (scores + pairs.logsumexp(-1)).softmax(-1)

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[k]`: one uniform number for each chosen item."""
        return (self.k,)

    def draw(
        self, scores: Float[Tensor, "*B {self.n}"], noise: Float[Tensor, "*SB _"]
    ) -> Float[Tensor, "*SB {self.n}"]:
        """Include each item with its probability given the earlier ones.

        Each number of Gumbel noise `[*SB, n]` decides for an item; each of uniform noise `[*SB, k]` picks the next one.
        """
        batch, scores, noise = self.batch_shape(scores), scores.detach(), noise.detach()
        lead = noise.shape[: noise.dim() - 1 - len(batch)]
        is_uniform = 0 < noise.shape[-1] < self.n
        if not is_uniform or not can_run_compiled(scores) or noise.shape[len(lead) : -1] != batch:
            return self._draw_in_logarithms(scores, noise)
        from hardmax.solvers._compiled_subset import draw_subsets

        flat = scores.reshape(math.prod(batch), self.n)
        uniform = noise.reshape(math.prod(lead), len(flat), self.k)
        z, is_accurate = draw_subsets(flat, uniform)
        if not is_accurate.all():
            z[:, ~is_accurate] = self._draw_in_logarithms(flat[~is_accurate], uniform[:, ~is_accurate])
        return z.view(*lead, *batch, self.n)

    def _draw_in_logarithms(self, scores: Tensor, noise: Tensor) -> Tensor:
        wide, _ = self._limit_range(prepare_scores(scores))
        rest = self._sum_remaining_choices(wide)
        missing = torch.full((*noise.shape[:-1], 1), self.k, device=noise.device)
        is_gumbel = noise.shape[-1] == self.n
        if is_gumbel:
            levels = self.perturbation.log_cdf(widen_dtype(noise))
        else:
            levels = torch.nn.functional.pad(noise.double(), (0, 1))
        later = 1.0  # probability that the next chosen item is none of those seen
        bits = []
        for item in range(self.n):
            with_it = wide[..., item : item + 1] + _look_up(rest[item + 1], missing - 1)
            chance = with_it - _look_up(rest[item], missing)
            if is_gumbel:
                accepted = levels[..., item : item + 1] < chance
            else:
                # The inverse of the CDF of the next item's index: the first with `1 - CDF < 1 - level`.
                later = later * (1 - chance.double().exp())
                accepted = later < 1 - levels.gather(-1, self.k - missing)
                later = torch.where(accepted, 1.0, later)
            # Regardless of rounding: accept all remaining items if all are needed, and none if k are chosen.
            accepted = (accepted | (missing == self.n - item)) & (missing > 0)
            missing = missing - accepted.long()
            bits.append(accepted)
        return torch.cat(bits, -1).to(scores.dtype)

    def relax(self, scores: Float[Tensor, "*L {self.n}"], tau: float) -> Float[Tensor, "*L {self.n}"]:
        """Return the marginals of `scores / tau`: between zero and one, with sum k."""
        self.batch_shape(scores)
        return self.marginals(widen_dtype(scores) / tau).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M {self.n}"]:
        """Return all subsets; those with the first items come first."""
        self.check_enumerable()
        # The number of a choice determines, item by item, whether it contains the item.
        number = torch.arange(self.size, device=device)
        missing = torch.full_like(number, self.k)
        bits = []
        for left in range(self.n - 1, -1, -1):
            counts = [0, *(min(math.comb(left, j), self.size) for j in range(self.k))]
            having = torch.tensor(counts, device=device)[missing]
            accepted = number < having
            number, missing = torch.where(accepted, number, number - having), missing - accepted.long()
            bits.append(accepted)
        return torch.stack(bits, -1).to(dtype or torch.get_default_dtype())

    # ------------------------------------------------------------------------------- swaps
    @property
    def changes(self) -> int:
        """$k (n - k)$ swaps."""
        return self.k * (self.n - self.k)

    def change(self, z: Float[Tensor, "*L {self.n}"], index: Tensor) -> Float[Tensor, "*L {self.n}"]:
        """Remove chosen item number `index // (n - k)`, and add the other item number `index % (n - k)`."""
        others = max(self.n - self.k, 1)
        chosen, rank = _ranks(z)
        moves = torch.where(chosen, rank == (index // others)[..., None], rank == (index % others)[..., None])
        return torch.where(moves, 1 - z, z)

    def parts(self, z: Float[Tensor, "*L {self.n}"], gains: Float[Tensor, "M *L"]) -> Float[Tensor, "*L {self.n}"]:
        """Return v with $v_b - v_a$ as close as possible to the gain of swapping a for b: the two-way fit of means."""
        if self.changes == 0:
            return torch.zeros_like(z)
        table = gains.movedim(0, -1).unflatten(-1, (self.k, self.n - self.k))
        losses = -table.mean(-1)
        wins = table.mean(-2) - table.mean((-2, -1))[..., None]
        chosen, rank = _ranks(z)
        of_chosen = losses.gather(-1, rank.clamp_max(self.k - 1))
        of_others = wins.gather(-1, rank.clamp_max(self.n - self.k - 1))
        return torch.where(chosen, of_chosen, of_others)


def _ranks(z: Tensor) -> tuple[Tensor, Tensor]:
    """Return which items are chosen, and the index of each item among the chosen or among the remaining ones."""
    chosen = z > 0.5
    return chosen, torch.where(chosen, chosen.cumsum(-1), (~chosen).cumsum(-1)) - 1


def _look_up(choices: Tensor, count: Tensor) -> Tensor:
    """Return the entries of `[*B, k + 1]` at the indices `count` `[*S, *B, 1]`; the first for negative indices."""
    return choices.expand(*count.shape[:-1], choices.shape[-1]).gather(-1, count.clamp_min(0))
