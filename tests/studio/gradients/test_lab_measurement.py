"""The numbers of the gradient lab are those of `hm.diagnose`, and its code computes the same."""

import contextlib
import io
from dataclasses import replace

import pytest
import torch

import hardmax as hm
from hardmax.errors import ArgumentError, NotExactError
from hardmax.studio.gradients.measurement import MOST_OUTCOMES, measure_ladders, measure_state
from hardmax.studio.gradients.problem import list_possible_estimators, make_problem
from hardmax.studio.gradients.python_code import write_code
from hardmax.studio.gradients.slow_motion import draw_direct
from hardmax.studio.gradients.state import FUNCTIONS, SIZES, SPACES, LabState

PROBLEMS = [(space, f) for space in SPACES for f in FUNCTIONS[space]]


def run_freely():
    """A `check` that never cancels."""


@pytest.mark.parametrize(("space", "f"), PROBLEMS)
def test_code_prints_the_numbers_of_the_page(space, f):
    state = LabState(space=space, f=f, draws=20, samples=2, estimators=("exact", "reinforce", "gumbel-softmax:0.3"))
    result = measure_state(run_freely, state)
    printed = io.StringIO()
    names = {}
    with contextlib.redirect_stdout(printed):
        exec(write_code(state), names)
    assert names["scores"].grad.flatten().tolist() == pytest.approx(result.exact, abs=1e-5)
    diagnosis = hm.diagnose(
        names["f"], names["scores"].detach(), names["space"], names["estimators"], draws=20, samples=2,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert len(result.diagnosis.rows) == 3
    for shown, row in zip(result.diagnosis.rows, diagnosis.rows, strict=True):
        assert replace(shown, name="", seconds=0) == replace(row, name="", seconds=0)
        assert row.deviation < 1e-5 or f"{row.deviation:.2g}" in printed.getvalue()


@pytest.mark.parametrize(("space", "f"), PROBLEMS)
def test_f_has_the_worth_of_each_z(space, f):
    state = LabState(space=space, f=f)
    problem = make_problem(state)
    members = problem.space.enumerate()
    if f in ("curved", "table"):
        assert problem.f(members).tolist() == pytest.approx(state.worth, abs=1e-5)
    elif f == "parity":
        signs = (-1.0) ** (members == 0).sum(-1)
        assert problem.f(members).tolist() == pytest.approx((state.worth[0] * signs).tolist())
    else:
        sums = members.flatten(1) @ torch.tensor(state.worth)
        values = sums if f == "linear" else -((sums - state.target) ** 2)
        torch.testing.assert_close(problem.f(members), values)


def test_clouds_hold_the_estimates():
    result = measure_state(run_freely, LabState(draws=300, estimators=("exact", "reinforce")))
    exact, cloud = result.clouds["exact"], result.clouds["reinforce"]
    assert exact.points == [[pytest.approx(result.exact[0], abs=1e-4), pytest.approx(result.exact[1], abs=1e-4), 300]]
    assert sum(count for _, _, count in cloud.points) == 300
    for axis in (0, 1):
        mean = sum(point[axis] * point[2] for point in cloud.points) / 300
        assert mean == pytest.approx(cloud.mean[axis], abs=1e-3)
    row = result.diagnosis.rows[1]
    norm = torch.tensor(result.exact).norm()
    assert row.deviation == pytest.approx(float(torch.tensor(cloud.deviation).norm() / norm), rel=1e-5)


def test_outcomes_are_the_most_probable_z():
    outcomes = measure_state(run_freely, LabState(space="bits", size=6, estimators=())).outcomes
    assert len(outcomes.labels) == MOST_OUTCOMES
    assert outcomes.rest == 2**6 - MOST_OUTCOMES
    assert outcomes.probabilities == sorted(outcomes.probabilities, reverse=True)
    small = measure_state(run_freely, LabState(estimators=())).outcomes
    assert sum(small.probabilities) == pytest.approx(1)
    products = [q * f for q, f in zip(small.probabilities, small.values, strict=True)]
    assert small.mean == pytest.approx(sum(products), abs=1e-5)


def test_a_constant_f_has_no_gradient():
    result = measure_state(run_freely, LabState(worth=(1.0,) * 5))
    assert result.diagnosis is None
    assert "is zero" in result.problem
    assert result.exact == [0.0] * 5


def test_ladders_measure_what_diagnose_measures():
    state = LabState(estimators=("direct:1", "direct:0.3", "reinforce"))
    (ladder,) = measure_ladders(run_freely, state, {"direct:1": 2, "direct:0.3": 1})
    assert (ladder.name, ladder.parameter, len(ladder.values)) == ("direct", "epsilon", 7)
    problem = make_problem(state)
    estimators = {"one": hm.Direct(ladder.values[-1])}
    diagnosis = hm.diagnose(
        problem.f, problem.scores, problem.space, estimators, draws=400, samples=2,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert ladder.deviation[-1] == diagnosis.rows[0].deviation
    assert ladder.bias[-1] == diagnosis.rows[0].bias


@pytest.mark.parametrize(("space", "f"), [problem for problem in PROBLEMS if problem != ("path", "squared")])
def test_slow_motion_ends_with_the_estimate_of_direct(space, f):
    state = LabState(space=space, f=f)
    problem = make_problem(state)
    moved = 0
    for seed in range(20):
        draw = draw_direct(run_freely, state, 2.0, seed)
        scores = problem.scores.clone().requires_grad_()
        noise = problem.space.noise((1,), torch.Generator().manual_seed(seed))
        hm.expectation(problem.f, scores, problem.space, hm.Direct(2.0), noise=noise).value.backward()
        assert scores.grad.flatten().tolist() == pytest.approx(draw.gradient)
        steps = [(after - before) / 2 for before, after in zip(draw.z, draw.z_epsilon, strict=True)]
        assert draw.gradient == pytest.approx(steps)
        moved += any(draw.gradient)
    assert moved > 2


def test_slow_motion_refuses_what_direct_refuses():
    with pytest.raises(NotExactError, match="around z"):
        draw_direct(run_freely, LabState(space="path", f="squared"), 1.0, 0)


@pytest.mark.parametrize("space", SPACES)
def test_every_possible_estimator_is_measured(space):
    least = SIZES[space][0]
    state = LabState(space=space, size=max(least, 2), draws=4)
    names = list_possible_estimators(make_problem(state))
    assert {"direct", "exact", "reinforce"} <= set(names)
    for i in range(0, len(names), 8):
        result = measure_state(run_freely, replace(state, estimators=tuple(names[i : i + 8])))
        # Some find out only with f, or with the shape of z, that they do not apply: they say why.
        assert len(result.diagnosis.rows) + len(result.diagnosis.refused) == len(names[i : i + 8])


def test_work_is_cancelled_between_blocks():
    calls = []

    def cancel():
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_state(cancel, LabState())
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 100}, "size must be between 2 and 12"),
        ({"f": "parity"}, "f=parity is not possible"),
        ({"estimators": ("magic",)}, "no estimator 'magic'"),
        ({"estimators": ("direct:-1",)}, "epsilon of direct must be between"),
        ({"estimators": ("direct:x",)}, "epsilon of direct must be between"),
        ({"scores": (float("nan"),)}, "finite"),
        ({"draws": 10**9}, "draws must be between"),
        ({"estimators": ("exact",) * 99}, "number of estimators must be between"),
    ],
)
def test_states_from_hostile_addresses_are_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        LabState(**changes)


def test_another_space_gets_scores_of_its_own():
    state = LabState(scores=(1, 2, 3, 4, 4), worth=(1, 1, 1, 1, 2))
    assert state.change_problem(size=6).scores == (1, 2, 3, 4, 4, LabState(size=6).scores[5])
    assert state.change_problem(space="path", size=0, f="default").scores == LabState(space="path").scores


def test_the_first_axes_show_components_that_have_a_gradient():
    for space in SPACES:
        state = LabState(space=space)
        exact = measure_state(run_freely, LabState(space=space, estimators=())).exact
        assert state.horizontal != state.vertical
        assert exact[state.horizontal] != 0
        assert exact[state.vertical] != 0
