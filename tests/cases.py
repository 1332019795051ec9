"""Spaces, estimators and objectives that the tests combine in cross products."""

import sys
from functools import partial

import torch
from torch import Tensor, nn

import hardmax as hm
from hardmax.tracing import can_run_compiled

SMALL_SPACES = [hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2), hm.Binary(1), hm.Binary(3)]
# With an edge on all paths (3, 4), and one on no path (2, 5).
PATH = hm.ShortestPath([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (2, 5), (0, 3)], 0, 4)
EDGE_SPACES = [hm.Categorical(1), hm.Categorical(1, 2)]

UNBIASED = [
    (hm.Reinforce("none"), 1),
    (hm.Reinforce("mean"), 1),
    (hm.Reinforce("mean"), 3),
    (hm.Reinforce("leave-one-out"), 2),
    (hm.LocalExpectation(), 1),
    (hm.LocalExpectation(), 3),
]


class Network(nn.Module):
    """A control variate for scores of one space: smooth, with parameters, and with no relation to f."""

    def __init__(self, space: hm.AbstractSpace) -> None:
        super().__init__()
        self.dims = tuple(range(-len(space.score_shape), 0))
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.shift = nn.Parameter(torch.tensor(0.2))

    def forward(self, perturbed: Tensor) -> Tensor:
        return (self.scale * perturbed + self.shift).tanh().sum(self.dims)

    def __repr__(self) -> str:
        return "Network()"


def relax(space: hm.AbstractSpace) -> hm.Relax:
    """Return Relax with a network to train."""
    return hm.Relax(Network(space))


def fixed_relax(space: hm.AbstractSpace) -> hm.Relax:
    """Return Relax with a fixed network, in addition to f at the relaxed z."""
    return hm.Relax(Network(space).requires_grad_(False), hm.Rebar(0.5))


# A function in this list creates an estimator for each space.
VALUE_STYLE = [
    hm.Exact(),
    hm.Direct(0.5),
    hm.Direct(0.5, two_sided=True),
    hm.Reinforce("none"),
    hm.Reinforce("mean"),
    hm.Reinforce("leave-one-out"),
    hm.LocalExpectation(),
    hm.LocalExpectation(roulette=True),
    hm.AdaptiveDirect(),
    hm.AveragedDirect(0.5),
    hm.AveragedDirect(0.5, two_sided=True),
    hm.ShortlistDirect(0.5, size=2),
    hm.ShortlistDirect(0.5, size=3, variables=1),
    hm.DebiasedDirect(0.5, draws=2),
    hm.Antithetic(hm.Direct(0.5)),
    hm.Antithetic(hm.LocalExpectation()),
    hm.Rebar(0.5),
    hm.Rebar(0.5, learned=True),
    relax,
    fixed_relax,
    hm.Arm(),
    hm.Arsm(),
    hm.DisArm(),
    hm.DisArmCategorical(),
    hm.UnorderedSet(),
    hm.MuProp(),
    hm.MuProp("leave-one-out"),
    hm.DoubleControlVariates(),
    hm.Rodeo(),
    hm.PerturbedReinforce(),
]
SAMPLE_STYLE = [
    hm.GumbelSoftmax(0.5),
    hm.GumbelSoftmax(0.5, hard=True),
    hm.StraightThrough(),
    hm.StraightThrough(2.0),
    hm.ReinMax(),
    hm.ReinMax(2.0),
    hm.GumbelRao(draws=3),
    hm.ReinMaxRao(draws=3),
    hm.ReinMaxRao(draws=3, given_z=True),
    hm.ReinMaxCV(draws=3),
    hm.GappedStraightThrough(),
    hm.ImplicitMLE(),
    hm.ImplicitMLE(0.5, two_sided=True),
    hm.AdaptiveImplicitMLE(),
    hm.PerturbedOptimizer(),
    hm.PerturbedOptimizer(0.5),
    hm.Blackbox(),
    hm.IdentityBackward(),
    hm.IdentityBackward("sphere"),
    hm.IdentityBackward("both"),
]
ESTIMATORS = VALUE_STYLE + SAMPLE_STYLE
# Their baseline or step is shared by all examples of a call: the gradient of an example depends on the other examples.
COUPLES_EXAMPLES = (hm.Reinforce("mean"), hm.AdaptiveDirect(), hm.AdaptiveImplicitMLE())


def has_parameters(estimator: hm.AbstractEstimator) -> bool:
    """Return whether the estimator has parameters to train."""
    return isinstance(estimator, hm.AbstractControlled) and bool(estimator.parameters())


def pairs(spaces, estimators=ESTIMATORS):
    """Return `(space, estimator)`: every space with every estimator that supports it."""
    return [pair for pair in _product(spaces, estimators) if samples_for(*pair)]


def list_refused(spaces, estimators=ESTIMATORS):
    """Return `(space, estimator)`: every space with every estimator that does not support it."""
    return [pair for pair in _product(spaces, estimators) if not samples_for(*pair)]


def one_each(spaces, estimators=ESTIMATORS):
    """Return `(space, estimator)`: every estimator once, with the first space that it supports."""
    return [pairs(spaces, [estimator])[0] for estimator in estimators]


def _product(spaces, estimators):
    return [(space, item(space) if callable(item) else item) for space in spaces for item in estimators]


def samples_for(space: hm.AbstractSpace, estimator: hm.AbstractEstimator, at_most: int = 3) -> int:
    """Return the largest number of samples, at most `at_most`, that this estimator supports on the space; 0 if none."""
    for samples in range(at_most, 0, -1):
        try:
            estimator.check(space, samples)
        except hm.NotExactError:
            return 0
        except hm.ArgumentError:  # too many: a set drawn without replacement is no larger than the space
            continue
        return samples
    return 0


def noise_for(
    space: hm.AbstractSpace, estimator: hm.AbstractEstimator, batch: tuple[int, ...], generator, dtype=torch.float64
):
    """Return noise for the number of samples that `samples_for` returns."""
    samples = samples_for(space, estimator)
    return space.noise((samples * estimator.noises, *batch), generator=generator, dtype=dtype)


class Toy:
    """A smooth non-linear f with a weight, different for each example.

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
    """A wrapper of f that records (method, evaluations) of every call."""

    def __init__(self, f: Toy) -> None:
        self.f = f
        self.calls: list[tuple[str, int]] = []
        for name in ("rows", "table"):
            if hasattr(f, name):
                setattr(self, name, partial(self._call, name))

    def __call__(self, z: Tensor) -> Tensor:
        return self._call("f", z)

    def _call(self, name: str, *arguments: Tensor) -> Tensor:
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


def block_numba(monkeypatch) -> None:
    """Make Numba impossible to import, so that the torch code runs."""
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not can_run_compiled(torch.zeros(1))
