"""Space of linear chains: sequences of states, each of which depends on the previous one."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.solvers.viterbi import viterbi
from hardmax.spaces._compiled_sums import CompiledFunction
from hardmax.spaces.abstract import invert_cdf, make_one_hot, prepare_scores, widen_dtype
from hardmax.spaces.categorical import Categorical
from hardmax.spaces.gibbs import AbstractGibbs
from hardmax.tracing import can_run_compiled


@final
@dataclass(frozen=True)
class Chain(AbstractGibbs):
    r"""A sequence of states; z is `[*B, length, states]`, one-hot, and scores are `[*B, length - 1, states, states]`.

    $$ q(z) = \exp\Big(\sum_t \mathrm{scores}[t, c_t, c_{t+1}]\Big) / Z $$

    where $c_t$ is the state at place t: a Markov chain (a linear-chain conditional random field). A score for a state
    at place t is added to `scores[t - 1, :, state]`; one for the first state to `scores[0, state, :]`.

    The Viterbi algorithm computes the arg max. Z, marginals and samples (`draw`) come from one backward pass, which
    turns the scores into the chain's transition probabilities,

    $$ p(c_{t+1} \mid c_t) \propto \exp(\mathrm{scores}[t, c_t, c_{t+1}] + b_{t+1}(c_{t+1})) $$

    where b is the log-weight of all continuations. All take $O(\mathrm{length} \cdot \mathrm{states}^2)$ time, with
    `length` sequential steps.

    Perturb-and-MAP, the best path under `scores + noise`, is another distribution: paths that share a transition share
    its noise, while samples of q would need a Gumbel variable for every path. For `Chain(4, 3)` and standard normal
    scores the two are 0.11 apart in total variation; for length 2 they are the same.

    Args:
        length: number of places, at least 2.
        states: number of states, at least 1.

    Raises:
        ArgumentError: length < 2 or states < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.Chain(3, 2)
        >>> scores = torch.tensor([[[0.0, 2.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
        >>> space.argmax(scores)
        tensor([[1., 0.],
                [0., 1.],
                [0., 1.]])
        >>> space.marginals(scores).shape, space.relax(scores, tau=1.0).shape
        (torch.Size([2, 2, 2]), torch.Size([3, 2]))

    References:
        Viterbi, 1967; Rabiner, "A tutorial on hidden Markov models", 1989 (forward-backward).
    """

    length: int
    states: int

    def __post_init__(self) -> None:
        if self.length < 2 or self.states < 1:
            raise ArgumentError(
                f"Chain needs at least two places and one state, got length={self.length}, states={self.states}; "
                f"a single place is Categorical({self.states})"
            )

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[length - 1, states, states]`."""
        return (self.length - 1, self.states, self.states)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[length, states]`."""
        return (self.length, self.states)

    @property
    def size(self) -> int:
        r"""$\mathrm{states}^{\mathrm{length}}$."""
        return self.states**self.length

    @property
    def _places(self) -> Categorical:
        """The same z, as independent variables."""
        return Categorical(self.states, self.length)

    def argmax(self, scores: Float[Tensor, "*B T {self.states} {self.states}"]) -> Float[Tensor, "*B L {self.states}"]:
        """Return the best path."""
        self.batch_shape(scores)
        return self._one_hot(viterbi(scores), scores.dtype)

    def statistics(
        self, z: Float[Tensor, "*L length {self.states}"]
    ) -> Float[Tensor, "*L T {self.states} {self.states}"]:
        """Return the transitions of z."""
        return z[..., :-1, :, None] * z[..., 1:, None, :]

    def sum_statistics(
        self, weights: Float[Tensor, "S *B"], z: Float[Tensor, "S *B length {self.states}"]
    ) -> Float[Tensor, "*B T {self.states} {self.states}"]:
        """Return the weighted sum of the transitions of samples, one product of matrices for each place."""
        first, second = (weights[..., None, None] * z[..., :-1, :]).movedim(0, -1), z[..., 1:, :].movedim(0, -2)
        return first @ second

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def log_partition(self, scores: Float[Tensor, "*B T {self.states} {self.states}"]) -> Float[Tensor, "*B"]:
        """Return the log-weight of all paths together."""
        self.batch_shape(scores)
        messages, scale = self._compute_messages(prepare_scores(scores))
        return (messages[0].logsumexp(-1) + scale).to(scores.dtype)

    def _compute_messages(self, scores: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the log-weight of all continuations from each state, `[*B, states]` for places 0 ... length - 1.

        The largest entry is subtracted from each: otherwise they would grow with the length and lose their differences
        to rounding. The second result is the sum of the subtracted values, `[*B]`.
        """
        messages, scale = [torch.zeros_like(scores[..., 0, 0, :])], torch.zeros_like(scores[..., 0, 0, 0])
        for step in reversed(scores.unbind(-3)):
            message = (step + messages[-1][..., None, :]).logsumexp(-1)
            largest = message.detach().amax(-1, keepdim=True)
            messages.append(message - largest)
            scale = scale + largest[..., 0]
        return messages[::-1], scale

    def _normalise(self, scores: Tensor) -> Tensor:
        """Return the log-probabilities of the first two states, then of each state given the previous one."""
        messages, _ = self._compute_messages(scores)
        onwards = scores + torch.stack(messages[1:], -2)[..., None, :]
        first = onwards[..., :1, :, :].flatten(-2).log_softmax(-1).unflatten(-1, scores.shape[-2:])
        return torch.cat([first, onwards[..., 1:, :, :].log_softmax(-1)], -3)

    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        normalised = self._normalise(scores)
        first, *rest = normalised.exp().unbind(-3)
        joint = [first]
        for transition in rest:
            joint.append(joint[-1].sum(-2)[..., None] * transition)
        return normalised, torch.stack(joint, -3)

    def marginals(
        self, scores: Float[Tensor, "*B T {self.states} {self.states}"]
    ) -> Float[Tensor, "*B T {self.states} {self.states}"]:
        """Return the probabilities of the transitions."""
        self.batch_shape(scores)
        wide = prepare_scores(scores)
        if not can_run_compiled(wide):
            return super().marginals(scores)
        run_in_torch = lambda scores: self._moments(scores)[1:]  # noqa: E731
        return CompiledFunction.apply(wide, self._run_compiled, run_in_torch, self._differentiate)[0].to(scores.dtype)

    def _run_compiled(self, scores: Tensor) -> tuple[Tensor]:
        """Return the marginals."""
        from hardmax.solvers._compiled_chain import compute_marginals

        flat = scores.reshape(math.prod(scores.shape[:-3]), *self.score_shape)
        joint, is_accurate = compute_marginals(flat)
        if not is_accurate.all():
            joint[~is_accurate] = self._moments(flat[~is_accurate])[1]
        return (joint.view(scores.shape),)

    def _differentiate(
        self, scores: Tensor, values: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
    ) -> Tensor:
        """Return the gradient for scores from the marginals and their gradients."""
        from hardmax.solvers._compiled_chain import compute_covariances

        (joint,), (weights,) = values, gradients
        assert weights is not None
        shape = (math.prod(scores.shape[:-3]), *self.score_shape)
        return compute_covariances(joint.reshape(shape), weights.reshape(shape)).view(scores.shape)

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[length, 1, 1]`: one uniform number for each place."""
        return (self.length, 1, 1)

    def draw(
        self, scores: Float[Tensor, "*B T {self.states} {self.states}"], noise: Float[Tensor, "*SB _ _ _"]
    ) -> Float[Tensor, "*SB L {self.states}"]:
        """Draw each state given the previous one: uniform noise by the inverse of the CDF, Gumbel noise by an arg max.

        With Gumbel noise the first two states are drawn together.
        """
        batch, scores, noise = self.batch_shape(scores), scores.detach(), noise.detach()
        if noise.shape[-3:] == self.score_shape:
            return self._draw_by_argmax(scores, noise)
        lead = noise.shape[: noise.dim() - 3 - len(batch)]
        if not can_run_compiled(scores) or noise.shape[len(lead) : -3] != batch:
            return self._draw_by_cdf(scores, noise)
        from hardmax.solvers._compiled_chain import draw_paths

        flat = scores.reshape(math.prod(batch), *self.score_shape)
        uniform = noise.reshape(math.prod(lead), len(flat), self.length)
        z, is_accurate = draw_paths(flat, uniform)
        if not is_accurate.all():
            z[:, ~is_accurate] = self._draw_by_cdf(flat[~is_accurate], uniform[:, ~is_accurate, :, None, None])
        return z.view(*lead, *batch, *self.event_shape)

    def _draw_by_argmax(self, scores: Tensor, noise: Tensor) -> Tensor:
        perturbed = self._normalise(prepare_scores(scores)) + widen_dtype(noise)
        first, *rest = perturbed.unbind(-3)
        pair = first.flatten(-2).argmax(-1, keepdim=True)
        path = [pair // self.states, pair % self.states]
        for step in rest:
            here = path[-1][..., None].expand(*path[-1].shape, self.states)
            path.append(step.gather(-2, here).argmax(-1))
        return self._one_hot(torch.cat(path, -1), scores.dtype)

    def _draw_by_cdf(self, scores: Tensor, noise: Tensor) -> Tensor:
        p = self._normalise(prepare_scores(scores)).exp()
        first, *rest = p.unbind(-3)
        pairs = first.sum(-1)
        p = torch.stack([first / pairs.clamp_min(torch.finfo(p.dtype).tiny)[..., None], *rest], -3)
        cdf = p.cumsum(-1)
        uniform = noise.squeeze(-1).to(cdf.dtype)  # [*SB, length, 1]
        path = [invert_cdf(pairs.cumsum(-1), uniform[..., 0, :])]
        for t, step in enumerate(cdf.unbind(-3), 1):
            rows = step.expand(*path[-1].shape[:-1], *step.shape[-2:])
            here = path[-1][..., None].expand(*path[-1].shape, self.states)
            path.append(invert_cdf(rows.gather(-2, here).squeeze(-2), uniform[..., t, :]))
        return self._one_hot(torch.cat(path, -1), scores.dtype)

    def relax(
        self, scores: Float[Tensor, "*B T {self.states} {self.states}"], tau: float
    ) -> Float[Tensor, "*B L {self.states}"]:
        """Return the probabilities of the states at each place, for `scores / tau`."""
        joint = self.marginals(widen_dtype(scores) / tau)
        return torch.cat([joint[..., :1, :, :].sum(-1), joint.sum(-2)], -2).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M L {self.states}"]:
        r"""Return all $\mathrm{states}^{\mathrm{length}}$ paths, counting up, the last place fastest."""
        self.check_enumerable()
        return self._places.enumerate(dtype=dtype, device=device)

    # ------------------------------------------------------------------------------- changes of one state
    @property
    def changes(self) -> int:
        r"""$\mathrm{length} \cdot (\mathrm{states} - 1)$: every place to every other state."""
        return self._places.changes

    def change(
        self, z: Float[Tensor, "*L length {self.states}"], index: Tensor
    ) -> Float[Tensor, "*L length {self.states}"]:
        """Move place `index // (states - 1)` by `index % (states - 1) + 1` states, cyclically."""
        return self._places.change(z, index)

    def parts(
        self, z: Float[Tensor, "*L length {self.states}"], gains: Float[Tensor, "M *L"]
    ) -> Float[Tensor, "*L T {self.states} {self.states}"]:
        """Return the gain of each state at each place, on all transitions into it; for the first place, out of it."""
        values = self._places.parts(z, gains)
        into = values[..., 1:, None, :].expand(*values.shape[:-2], *self.score_shape)
        return torch.cat([into[..., :1, :, :] + values[..., :1, :, None], into[..., 1:, :, :]], -3)

    def _one_hot(self, path: Tensor, dtype: torch.dtype) -> Tensor:
        return make_one_hot(path[..., None], self.states, dtype)
