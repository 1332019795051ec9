"""Compare every method that a space offers with enumeration of its members."""

import torch
from torch import Tensor

from hardmax.spaces import AbstractSpace
from hardmax.testing.gradients import FALSE_ALARM

_BATCH = 5


def assert_space(
    space: AbstractSpace,
    *,
    scores: Tensor | None = None,
    draws: int = 20_000,
    tolerance: float = 1e-9,
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
) -> None:
    r"""Assert that every method that a space offers agrees with enumeration of its members.

    `argmax` must return the best member. The other methods are tested if the space offers them:

    - `log_prob`, `entropy`, `kl` and `marginals` are those of
      $q(z) = \exp(\langle \mathrm{scores}, \mathrm{statistics}(z) \rangle) / Z$;
    - `draw` samples from q (chi-square test);
    - `change` reaches distinct members, and `parts` gives each of them its gain (without `additive_changes`, the gain
      of an additive f);
    - `relax` converges to the arg max as tau falls.

    Args:
        space: a small space that offers `enumerate`.
        scores: `[B, *score]`, float64; None draws them.
        draws: number of samples for the chi-square test.
        tolerance: largest absolute difference of deterministic results.
        false_alarm: probability that a correct space fails.
        seed: seed of all randomness.

    Raises:
        AssertionError: a method disagrees; the message names it, and by how much it differs.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.testing import assert_space
        >>> assert_space(hm.Categorical(3, 2))
    """
    generator = torch.Generator().manual_seed(seed)
    if scores is None:
        scores = torch.randn(_BATCH, *space.score_shape, generator=generator, dtype=torch.float64)
    members = space.enumerate(dtype=torch.float64)
    distinct = len(members.flatten(1).unique(dim=0))
    if members.shape[1:] != space.event_shape or not len(members) == distinct == space.size:
        raise AssertionError(
            f"enumerate: shape {list(members.shape)} with {distinct} distinct members, expected {space.size} of "
            f"shape {list(space.event_shape)}"
        )

    values = scores.flatten(1) @ space.statistics(members).flatten(1).mT
    log_q = values.log_softmax(-1)
    q = log_q.exp()
    best = space.argmax(scores)
    _check_equal("argmax", space.dot(scores, space.statistics(best)), values.amax(-1), tolerance)

    if space.offers("log_prob"):
        spread = members[:, None].expand(-1, len(scores), *space.event_shape)
        _check_equal("log_prob", space.log_prob(scores, spread).mT, log_q, tolerance)
    if space.offers("entropy"):
        _check_equal("entropy", space.entropy(scores), -(q * log_q).sum(-1), tolerance)
    if space.offers("kl"):
        _check_equal(
            "kl to the uniform", space.kl(scores), (q * log_q).sum(-1) + values.new_tensor(space.size).log(), tolerance
        )
        prior = scores.roll(1, 0)
        _check_equal("kl to a prior", space.kl(scores, prior), (q * (log_q - log_q.roll(1, 0))).sum(-1), tolerance)
    if space.offers("marginals"):
        expected = (q @ space.statistics(members).flatten(1)).view_as(scores)
        _check_equal("marginals", space.marginals(scores), expected, tolerance)
    if space.offers("relax"):
        _check_equal("relax at tau = 1e-4", space.relax(scores, 1e-4), best, 1e-3)
    if space.offers("draw"):
        z = space.sample(scores, draws, generator=generator)
        _check_frequencies(z, members, q, false_alarm)
    if space.offers("change"):
        _check_changes(space, members, generator, tolerance)


def _check_changes(space: AbstractSpace, members: Tensor, generator: torch.Generator, tolerance: float) -> None:
    """Check every neighbour of every member, and that `parts` reproduces gains.

    The gains are arbitrary if the space has `additive_changes`, otherwise those of an additive f.
    """
    neighbours = space.neighbours(members)  # [M, size, *event]
    flat_members = members.flatten(1)
    for z, others in zip(flat_members, neighbours.transpose(0, 1).flatten(2), strict=True):
        all_members = (others[:, None] == flat_members).all(-1).any(-1).all()
        if not all_members or len(torch.cat([z[None], others]).unique(dim=0)) != 1 + len(others):
            raise AssertionError(
                f"change: the neighbours of {z.tolist()} are not distinct other members: {others.tolist()}"
            )
    differences = space.statistics(neighbours) - space.statistics(members)
    if space.additive_changes:
        gains = torch.randn(neighbours.shape[:2], generator=generator, dtype=torch.float64)
    else:
        worth = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
        gains = space.dot(worth.expand_as(differences), differences)
    parts = space.parts(members, gains)
    _check_equal("parts", space.dot(parts.expand_as(differences), differences), gains, tolerance)


def _check_frequencies(z: Tensor, members: Tensor, q: Tensor, false_alarm: float) -> None:
    """Compare samples `[S, B, *event]` with q `[B, M]`, by a chi-square test per example; rare members are pooled."""
    for row, p in zip(z.transpose(0, 1).flatten(2), q, strict=True):
        hits = (row[:, None] == members.flatten(1)).all(-1)
        if not hits.any(-1).all():
            raise AssertionError("draw: a sample is not a member of the space")
        observed, expected = hits.double().sum(0), p * len(row)
        common = expected >= 5
        if expected[~common].sum() < 5:  # too few for a bin of their own
            common &= expected > expected[common].min()
        observed = torch.cat([observed[common], observed[~common].sum().view(1)])
        expected = torch.cat([expected[common], expected[~common].sum().view(1)])
        chi2 = (observed - expected).square() / expected
        freedom = max(len(chi2) - 1, 1)
        chance = torch.special.gammaincc(chi2.new_tensor(freedom / 2), chi2.sum() / 2)
        if not chance >= false_alarm / len(q):
            raise AssertionError(
                f"draw: frequencies do not match q: chi-square {chi2.sum():.1f} with {freedom} degrees of freedom; "
                f"observed {observed.tolist()}, expected {expected.tolist()}"
            )


def _check_equal(name: str, actual: Tensor, expected: Tensor, tolerance: float) -> None:
    if actual.shape != expected.shape:
        raise AssertionError(f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}")
    largest = float((actual - expected).abs().max()) if actual.numel() else 0.0
    if not largest <= tolerance:
        raise AssertionError(f"{name}: off by up to {largest:.3g}; got {actual.tolist()}, expected {expected.tolist()}")
