"""What the tests are a cross product of: spaces, estimators, and an objective with all its optional methods."""

from functools import partial

import torch
from torch import Tensor

import hardmax as hm

SMALL_SPACES = [hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2), hm.Binary(1), hm.Binary(3)]
EDGE_SPACES = [hm.Categorical(1), hm.Categorical(1, 2)]

UNBIASED = [
    (hm.Reinforce("none"), 1),
    (hm.Reinforce("mean"), 1),
    (hm.Reinforce("mean"), 3),
    (hm.Reinforce("leave-one-out"), 2),
    (hm.LocalExpectation(), 1),
    (hm.LocalExpectation(), 3),
]
VALUE_STYLE = [
    hm.Exact(),
    hm.Direct(0.5),
    hm.Direct(0.5, two_sided=True),
    hm.Reinforce("none"),
    hm.Reinforce("mean"),
    hm.Reinforce("leave-one-out"),
    hm.LocalExpectation(),
    hm.LocalExpectation(roulette=True),
]
SAMPLE_STYLE = [hm.GumbelSoftmax(0.5), hm.GumbelSoftmax(0.5, hard=True), hm.StraightThrough()]
ESTIMATORS = VALUE_STYLE + SAMPLE_STYLE


class Toy:
    """A smooth non-linear f with a weight of its own, differing between examples.

    f(z) = sin(u) + u^2, u = <weight + shift_b, z>.
    """

    def __init__(
        self, space: hm.AbstractSpace, batch: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
    ) -> None:
        generator = torch.Generator().manual_seed(1)
        self.event = tuple(range(-len(space.event_shape), 0))
        self.weight = (
            torch.randn(space.event_shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        )
        self.shift = torch.randn(*batch, *space.event_shape, generator=generator, dtype=torch.float64).to(dtype)
        self.space = space

    def __call__(self, z: Tensor) -> Tensor:
        return self._at(z, self.shift)

    def _at(self, z: Tensor, shift: Tensor) -> Tensor:
        u = (z * (self.weight + shift)).sum(self.event)
        return u.sin() + u.square()


class Rows(Toy):
    """Toy, with rows()."""

    def rows(self, z: Tensor, index: Tensor) -> Tensor:
        shift = self.shift.view(-1, *self.space.event_shape)
        return self._at(z, shift[index] if len(shift) > 1 else shift)


class Table(Toy):
    """Toy, with table(), for a single categorical."""

    def table(self) -> Tensor:
        members = self.space.enumerate(dtype=self.shift.dtype)
        lead = self.shift.dim() - len(self.space.event_shape)
        return self._at(members.view(-1, *(1 for _ in range(lead)), *self.space.event_shape), self.shift).movedim(0, -1)


class Counted:
    """Another f, and how often it was evaluated: (method, evaluations) of every call."""

    def __init__(self, f: Toy) -> None:
        self.f = f
        self.calls: list[tuple[str, int]] = []
        for name in ("rows", "table"):
            if hasattr(f, name):
                setattr(self, name, partial(self._counted, name))

    def __call__(self, z: Tensor) -> Tensor:
        return self._counted("f", z)

    def _counted(self, name: str, *arguments: Tensor) -> Tensor:
        values = (self.f if name == "f" else getattr(self.f, name))(*arguments)
        self.calls.append((name, values.numel()))
        return values

    @property
    def evaluations(self) -> int:
        return sum(count for _, count in self.calls)


def gradients(
    f: Toy, scores: Tensor, space: hm.AbstractSpace, estimator, **kwargs
) -> tuple[hm.Estimate, Tensor, Tensor]:
    """Return the estimate and the gradients of its summed value for scores and for f's weight."""
    scores = scores.detach().requires_grad_()
    out = hm.expectation(f, scores, space, estimator, **kwargs)
    for_scores, for_weight = torch.autograd.grad(
        out.value.sum(), [scores, f.weight], allow_unused=True, materialize_grads=True
    )
    return out, for_scores, for_weight
