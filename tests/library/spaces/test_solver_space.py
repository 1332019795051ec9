"""Spaces that a user's solver defines: equal to our own, checked, cached, in threads and in processes."""

import copy
import pickle
import time

import numpy as np
import pytest
import torch
from torch import Tensor

import hardmax as hm
from hardmax.random import make_generator
from hardmax.solvers.solution_cache import SolutionCache

N, K = 6, 2
OURS = hm.Subset(N, K)
SCORES = torch.randn(8, N, generator=make_generator(0, "solver-space"), dtype=torch.float64)


def choose_best(scores):
    """Return the K items with the largest scores."""
    z = np.zeros(N)
    z[np.argsort(-scores)[:K]] = 1
    return z


def choose_cheapest(costs):
    return choose_best(-costs)


def choose_best_of_batch(scores: Tensor) -> Tensor:
    return OURS.argmax(scores)


def choose_with_bound(costs):
    z = choose_cheapest(costs)
    return z, float(costs @ z) - 0.5


def sleep_on_large(scores):
    if scores[0] > 100:
        time.sleep(30)
    return choose_best(scores)


def swap_items(z: Tensor) -> Tensor:
    return OURS.neighbours(z)


SPACES = {
    "max": hm.SolverSpace(choose_best, (N,)),
    "min": hm.SolverSpace(choose_cheapest, (N,), sense="min"),
    "batched tensors": hm.SolverSpace(choose_best_of_batch, (N,), batched=True),
    "threads": hm.SolverSpace(choose_best, (N,), workers=3),
    "bound": hm.SolverSpace(choose_with_bound, (N,), sense="min"),
    "list": hm.SolverSpace(lambda scores: choose_best(scores).astype(int).tolist(), N),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
class TestEqualToOurOwn:
    def test_argmax(self, space):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            scores = SCORES.to(dtype)
            z = space.argmax(scores)
            assert z.dtype == dtype
            assert torch.equal(z, OURS.argmax(scores))
        assert torch.equal(space.argmax(SCORES.view(2, 2, 2, N)), OURS.argmax(SCORES).view(2, 2, 2, N))
        assert space.argmax(SCORES[0]).shape == (N,)
        assert space.argmax(SCORES[:0]).shape == (0, N)

    @pytest.mark.parametrize(
        "estimator",
        [
            hm.ImplicitMLE(0.7),
            hm.ImplicitMLE(0.7, two_sided=True),
            hm.AdaptiveImplicitMLE(),
            hm.Blackbox(0.7),
            hm.IdentityBackward("sphere"),
            hm.PerturbedOptimizer(0.5),
        ],
        ids=str,
    )
    def test_estimators(self, space, estimator):
        noise = OURS.noise((3, 8), make_generator(1), dtype=torch.float64)
        worth = torch.linspace(-1, 1, N, dtype=torch.float64)
        gradients = []
        for each in (OURS, space):
            scores = SCORES.clone().requires_grad_()
            out = hm.expectation(lambda z: (z @ worth).square(), scores, each, estimator, noise=noise)
            out.value.sum().backward()
            gradients.append(scores.grad)
        assert torch.equal(*gradients)

    def test_losses(self, space):
        target, costs = OURS.argmax(SCORES.roll(1, 0)), -SCORES.roll(2, 0)
        noise = OURS.noise((3, 8), make_generator(1), dtype=torch.float64)
        for loss in (
            lambda scores, space: hm.fenchel_young_loss(scores, target, space, noise=noise),
            lambda scores, space: hm.spo_plus_loss(scores, costs, space),
            lambda scores, space: hm.direct_loss(scores, target, space, epsilon=2.0, noise=noise),
            lambda scores, space: hm.direct_loss(scores, target, space, loss=costs, epsilon=2.0, towards=True),
        ):
            results = []
            for each in (OURS, space):
                scores = SCORES.clone().requires_grad_()
                value = loss(scores, each)
                value.sum().backward()
                results.append((value.detach(), scores.grad))
            assert torch.equal(results[0][0], results[1][0])
            assert torch.equal(results[0][1], results[1][1])
            assert results[0][1].abs().sum() > 0


class TestDirect:
    WORTH = torch.linspace(-1, 1, N, dtype=torch.float64)

    def gradient(self, f, space, estimator):
        noise = OURS.noise((4, 8), make_generator(2), dtype=torch.float64)
        scores = SCORES.clone().requires_grad_()
        out = hm.expectation(f, scores, space, estimator, noise=noise)
        out.value.sum().backward()
        return scores.grad, out

    @pytest.mark.parametrize("two_sided", [False, True])
    def test_linear_objective_is_the_search_of_all_z(self, two_sided):
        weights = self.WORTH.expand(8, N)
        exact, _ = self.gradient(lambda z: z @ self.WORTH, OURS, hm.Direct(0.8, two_sided, full=True))
        ours, out = self.gradient(hm.LinearObjective(weights, SPACES["min"]), SPACES["min"], hm.Direct(0.8, two_sided))
        assert torch.allclose(exact, ours)
        assert (out.evaluations, out.solves) == (4.0, 12.0 if two_sided else 8.0)

    def test_diagnosis_of_an_objective_that_augments_scores(self):
        f = hm.LinearObjective(self.WORTH.expand(8, N), SPACES["max"])
        estimators = [hm.Direct(0.5), hm.PerturbedOptimizer()]
        diagnosis = hm.diagnose(
            f, SCORES, SPACES["max"], estimators, draws=400, exact="monte-carlo", generator=make_generator(4)
        )
        direct, unbiased = diagnosis.rows
        assert not diagnosis.refused
        assert direct.estimator == hm.Direct(0.5)
        assert any("perturb-and-MAP: Direct, PerturbedOptimizer." in note for note in diagnosis.notes)
        assert unbiased.biased is False
        assert direct.bias < 0.3

    def test_neighbours_are_searched(self):
        """With one item to choose, every other z is a neighbour: the search is complete."""
        single = hm.Subset(N, 1)
        space = hm.SolverSpace(lambda scores: np.eye(N)[scores.argmax()], (N,), neighbours=single.neighbours)
        f = lambda z: (z @ self.WORTH).exp()  # noqa: E731
        exact, _ = self.gradient(f, single, hm.Direct(2.0, full=True))
        ours, out = self.gradient(f, space, hm.Direct(2.0))
        assert torch.allclose(exact, ours)
        assert out.evaluations == 4 * N
        assert exact.abs().sum() > 0

    def test_what_is_missing_is_said(self):
        with pytest.raises(hm.NotExactError, match=r"augment \(LinearObjective has it\)"):
            hm.expectation(lambda z: z.sum(-1), SCORES, SPACES["max"], hm.Direct())
        for estimator in (hm.Exact(), hm.Reinforce(), hm.GibbsCovariance(), hm.LocalExpectation()):
            with pytest.raises(hm.NotExactError, match=r"ImplicitMLE\(\)|does not have"):
                hm.expectation(lambda z: z.sum(-1), SCORES, SPACES["max"], estimator, samples=2)

    def test_multiplicative_noise_has_the_right_gradient(self):
        """Direct, I-MLE and Fenchel-Young for noise that multiplies: finite differences of the same smooth function."""
        perturbation = hm.Perturbation("multiplicative", 0.5)
        space = hm.SolverSpace(choose_best_of_batch, (N,), batched=True, perturbation=perturbation)
        scores = -SCORES[0].abs() - 0.5
        noise = space.noise((40_000,), make_generator(3), dtype=torch.float64)
        epsilon, step = 0.5, 1e-4

        def potential(scores: Tensor, sign: float) -> Tensor:  # E max_z <perturbed + epsilon worth, z>, smooth
            augmented = space.perturb(scores, noise) + sign * epsilon * self.WORTH
            return augmented.topk(K).values.sum(-1).mean()

        shifts = step * torch.eye(N, dtype=torch.float64)
        slopes = torch.stack([
            (potential(scores + e, 1) - potential(scores + e, 0) - potential(scores - e, 1) + potential(scores - e, 0))
            / (2 * step * epsilon)
            for e in shifts
        ])  # fmt: skip
        leaf = scores.clone().requires_grad_()
        f = hm.LinearObjective(self.WORTH, space)
        hm.expectation(f, leaf, space, hm.Direct(epsilon), noise=noise).value.backward()
        assert torch.allclose(leaf.grad, slopes, atol=1e-3)
        assert slopes.abs().max() > 0.05
        target = OURS.argmax(SCORES[1])
        leaf.grad = None
        loss = hm.direct_loss(leaf, target, space, loss=-self.WORTH, epsilon=epsilon, towards=True, noise=noise)
        loss.backward()
        assert torch.allclose(-leaf.grad, slopes, atol=1e-3)


class TestErrors:
    @pytest.mark.parametrize(
        ("solve", "message"),
        [
            (lambda s: np.zeros(N - 1), r"shape \[5\] for example 0, expected \[6\]"),
            (lambda s: None, "returned None for example 0"),
            (lambda s: np.full(N, np.nan), "NaN or inf for example 0"),
            (lambda s: "no", "for example 0"),
            (lambda s: {}, "for example 0"),
            (lambda s: 1 / 0, "raised ZeroDivisionError for example 0: division by zero"),
            (lambda s: (choose_best(s), float("inf")), "bound inf for example 0"),
            (lambda s: (choose_best(s), -1e6), "no bound of a maximum; is sense='max' right"),
        ],
    )
    def test_bad_answers(self, solve, message):
        for workers in (1, 2):
            with pytest.raises(hm.SolverError, match=message):
                hm.SolverSpace(solve, (N,), workers=workers).argmax(SCORES)

    def test_the_example_is_named(self):
        def fail_late(scores):
            if scores[0] == SCORES[5, 0].item():
                raise RuntimeError("no path")
            return choose_best(scores)

        for workers in (1, 4):
            with pytest.raises(hm.SolverError, match="raised RuntimeError for example 5: no path"):
                hm.SolverSpace(fail_late, (N,), workers=workers).argmax(SCORES)

    def test_infeasible_answers(self):
        space = hm.SolverSpace(lambda s: (s > 0).astype(float), (N,), is_feasible=lambda z: z.sum() == K)
        with pytest.raises(hm.SolverError, match="not feasible for example"):
            space.argmax(SCORES)

        def check_batch(z: Tensor):
            return z.sum(-1) == K

        space = hm.SolverSpace(lambda s: (s > 0).double(), (N,), arrays="torch", batched=True, is_feasible=check_batch)
        with pytest.raises(hm.SolverError, match="not feasible for example"):
            space.argmax(SCORES)

    @pytest.mark.parametrize("sense", ["max", "min"])
    @pytest.mark.parametrize("batch", [8, 1])
    def test_the_wrong_sense_is_noticed(self, sense, batch):
        solve = {"max": choose_cheapest, "min": choose_best}[sense]
        space = hm.SolverSpace(solve, (N,), sense=sense)
        other = {"max": "min", "min": "max"}[sense]

        def solve_all():
            for scores in SCORES.split(batch):
                space.argmax(scores)

        with pytest.raises(hm.ArgumentError, match=f"pass sense='{other}'"):
            solve_all()

    def test_a_solver_that_is_not_exact_is_reported_once(self):
        calls = []

        def sometimes_wrong(scores):
            calls.append(1)
            return choose_best(scores) if len(calls) % 4 else choose_best(scores[::-1])

        space = hm.SolverSpace(sometimes_wrong, (N,))
        with pytest.warns(UserWarning, match="is not exact"):
            space.argmax(SCORES)
        space.argmax(SCORES)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"workers": 0}, "workers must be at least 1"),
            ({"workers": 2, "batched": True}, "one call"),
            ({"timeout": 0.0}, "timeout must be a positive"),
            ({"reuse": 0.5}, "needs a cache"),
            ({"cache": 5, "reuse": 1.5}, "probability"),
            ({"event_shape": (3,)}, "pass statistics"),
        ],
    )
    def test_arguments(self, options, message):
        with pytest.raises(hm.ArgumentError, match=message):
            hm.SolverSpace(choose_best, (N,), **options)

    def test_shapes_of_statistics_and_neighbours(self):
        space = hm.SolverSpace(lambda s: [1.0, 0.0], (N,), event_shape=(2,), statistics=lambda z: z)
        with pytest.raises(hm.ShapeError, match="statistics of z"):
            space.argmax(SCORES)
        space = hm.SolverSpace(choose_best, (N,), neighbours=lambda z: z)
        with pytest.raises(hm.ShapeError, match="neighbours of z"):
            space.neighbours(SCORES)
        with pytest.raises(hm.NotExactError, match="how many z"):
            space.size  # noqa: B018


class TestProcesses:
    def test_processes_time_limit_and_copies(self):
        space = hm.SolverSpace(sleep_on_large, (N,), timeout=5.0, workers=2)
        assert torch.equal(space.argmax(SCORES), OURS.argmax(SCORES))
        slow = SCORES.clone()
        slow[3, 0] = 101.0
        space._solver.timeout = 0.5
        start = time.monotonic()
        with pytest.raises(hm.SolverError, match=r"more than 0.5 s for example 3; pass a larger timeout"):
            space.argmax(slow)
        assert time.monotonic() - start < 15
        space._solver.timeout = 20.0
        assert torch.equal(space.argmax(SCORES), OURS.argmax(SCORES))  # with new processes
        twin = copy.deepcopy(space)
        space._solver.stop()
        assert torch.equal(pickle.loads(pickle.dumps(twin)).argmax(SCORES[:1]), OURS.argmax(SCORES[:1]))


class TestCertificates:
    def test_bounds_become_gaps(self):
        solution = SPACES["bound"].solve(SCORES)
        assert torch.equal(solution.z, OURS.argmax(SCORES))
        assert torch.allclose(solution.gap, torch.full((8,), 0.5, dtype=torch.float64))
        assert not solution.is_exact
        exact = hm.SolverSpace(lambda s: (choose_best(s), float(s @ choose_best(s))), (N,)).solve(SCORES)
        assert exact.is_exact
        assert SPACES["max"].solve(SCORES).bound.isinf().all()


class TestCache:
    def test_reuse_and_accuracy(self):
        calls = []

        def count(scores):
            calls.append(1)
            return choose_best(scores)

        space = hm.SolverSpace(count, (N,), cache=100, reuse=0.5)
        scores = torch.randn(400, N, generator=make_generator(5), dtype=torch.float64)
        for part in scores.split(20):
            z = space.argmax(part)
            assert torch.equal(z.sum(-1), torch.full((20,), float(K), dtype=torch.float64))
        cache = space.cache
        assert len(cache) == 15  # all subsets of two of six items
        assert cache.reused + len(calls) == 400
        assert 130 < cache.reused < 250
        assert 0.5 < cache.accuracy < 1
        assert cache.checked == len(calls) - 20  # the first batch met an empty cache
        before = cache.checked, cache.right
        space.solve(scores)  # complete by now: always right
        assert (cache.checked - before[0], cache.right - before[1]) == (400, 400)

    def test_the_oldest_are_dropped_and_duplicates_stored_once(self):
        cache = SolutionCache(2)
        members = torch.eye(3, dtype=torch.float64)
        cache.add(members[[0, 0, 1]], members[[0, 0, 1]])
        assert torch.equal(cache.solutions, members[:2])
        cache.add(members[[2]], members[[2]])
        assert torch.equal(cache.solutions, members[1:])
        z, value = cache.find_best(torch.tensor([[5.0, 1.0, 2.0]], dtype=torch.float64))
        assert z.tolist() == [[0.0, 0.0, 1.0]]
        assert value.tolist() == [2.0]

    def test_empty(self):
        cache = SolutionCache(3, 0.9)
        assert np.isnan(cache.accuracy)
        assert not cache.choose_reused(5).any()
        with pytest.raises(hm.NotExactError, match="empty"):
            cache.solutions  # noqa: B018


class FakePyEPO:
    """The interface of a model of PyEPO."""

    num_cost = N
    modelSense = 1

    def setObj(self, c):
        self.costs = np.asarray(c)

    def solve(self):
        z = choose_cheapest(self.costs)
        return z.tolist(), float(self.costs @ z)


def test_from_pyepo():
    space = hm.SolverSpace.from_pyepo(FakePyEPO())
    assert space.sense == "min"
    assert torch.equal(space.argmax(SCORES), OURS.argmax(SCORES))
    with pytest.raises(hm.ArgumentError, match="cannot be shared"):
        hm.SolverSpace.from_pyepo(FakePyEPO(), workers=2)
    with pytest.raises(hm.ArgumentError, match="no model of PyEPO"):
        hm.SolverSpace.from_pyepo(object())


def test_statistics_of_another_shape():
    """z is an index; scores weigh its one-hot form."""
    space = hm.SolverSpace(
        lambda s: [float(s.argmax())],
        (N,),
        event_shape=(1,),
        statistics=lambda z: torch.nn.functional.one_hot(z[..., 0].long(), N).to(z.dtype),
    )
    assert torch.equal(space.argmax(SCORES)[:, 0].long(), SCORES.argmax(-1))
    leaf = SCORES.clone().requires_grad_()
    hm.fenchel_young_loss(leaf, SCORES.argmin(-1, keepdim=True).double(), space, samples=5).sum().backward()
    assert (leaf.grad.sum(-1).abs() < 1e-9).all()
    with pytest.raises(hm.NotExactError, match="another shape"):
        hm.sample(leaf, space, hm.ImplicitMLE())


def test_multiplicative_noise_keeps_signs_also_when_scores_are_moved():
    """A solver that refuses negative costs, as Dijkstra does, works with losses and estimators that move scores."""

    def choose_positive(costs):
        assert (costs >= 0).all()
        return choose_cheapest(costs)

    noise = hm.Perturbation("multiplicative", 0.5)
    space = hm.SolverSpace(choose_positive, (N,), sense="min", perturbation=noise)
    costs = SCORES.abs()
    predicted = (0.1 * costs.roll(1, 0)).requires_grad_()  # far below half of the costs: 2 predicted - costs < 0
    hm.spo_plus_loss(-predicted, costs, space, samples=2).sum().backward()
    assert predicted.grad.abs().sum() > 0
    (hm.sample(-predicted, space, hm.ImplicitMLE(100.0)) * costs).sum().backward()
    hm.direct_loss(-predicted, space.argmax(-costs), space, loss=costs, epsilon=100.0).sum().backward()
    with pytest.raises(hm.SolverError, match="raised AssertionError"):
        hm.spo_plus_loss(-predicted, costs, hm.SolverSpace(choose_positive, (N,), sense="min"))
