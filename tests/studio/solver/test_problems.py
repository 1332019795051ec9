"""The numbers of the solver lab against enumeration, and its programs against its numbers."""

import contextlib
import io
import math
from dataclasses import replace

import pytest
import torch

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.studio.solver.problems import (
    ESTIMATORS,
    LabSetting,
    arrange_scores,
    build_space,
    estimate_gradient,
    list_estimators,
    make_cell_scores,
    make_objective,
    solve_problem,
    take_step,
)
from hardmax.studio.solver.program import write_code

KINDS = {"path": {}, "monotone path": {"monotone": True}, "cut": {"coupling": 0.75}, "matching": {}}


def make_setting(kind, size=3, **options):
    generator = torch.Generator().manual_seed(3)
    name = kind.split()[-1]
    values = (torch.randn(size, size, generator=generator) * 16).round() / 16
    values = values.abs() + 0.5 if name == "path" else values
    worth = torch.randint(-1, 2, (size, size), generator=generator).float()
    return LabSetting(name, values, worth, **{**KINDS[kind], **options})


def list_decisions(kind, size=3):
    """All paths of a grid without repeated cells, masks or matchings, by brute force."""
    cells = size * size
    masks = ((torch.arange(2**cells)[:, None] >> torch.arange(cells)) & 1).view(-1, size, size).float()
    if kind == "cut":
        return masks
    if kind == "matching":
        return masks[((masks.sum(1) == 1).all(-1) & (masks.sum(2) == 1).all(-1))]
    steps = [(0, 1), (1, 0)] if kind == "monotone path" else [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    paths = []

    def walk(path):
        row, column = path[-1]
        if path[-1] == (size - 1, size - 1):
            paths.append(torch.zeros(size, size).index_put(tuple(torch.tensor(path).T), torch.tensor(1.0)))
            return
        for down, right in steps:
            cell = (row + down, column + right)
            if cell not in path and 0 <= cell[0] < size and 0 <= cell[1] < size:
                walk([*path, cell])

    walk([(0, 0)])
    return torch.stack(paths)


def score_decisions(setting, decisions):
    if setting.problem != "cut":
        return (make_cell_scores(setting) * decisions).sum((-2, -1))
    equal = sum((decisions.diff(dim=dim) == 0).sum((-2, -1)) for dim in (1, 2))
    return (setting.values * decisions).sum((-2, -1)) + setting.coupling * equal


@pytest.mark.parametrize("kind", KINDS)
def test_the_decision_is_the_best_of_all(kind):
    setting = make_setting(kind)
    decisions = list_decisions(kind)
    scores = score_decisions(setting, decisions)
    solution = solve_problem(setting)
    assert any((solution.z == z).all() for z in decisions[scores > scores.max() - 1e-5])
    value = -solution.value if setting.problem == "path" else solution.value
    assert math.isclose(value, scores.max(), rel_tol=1e-5)
    assert solution.perturbed.shape == (100, 3, 3)
    assert {tuple(z.flatten().tolist()) for z in solution.perturbed} <= {tuple(z.flatten().tolist()) for z in decisions}


@pytest.mark.parametrize("kind", ["monotone path", "cut", "matching"])
def test_the_gradient_is_that_of_the_expected_worth(kind):
    """Where q can be enumerated, the exact gradient for the painted scores is a covariance divided by the noise."""
    setting = make_setting(kind, noise=2.0, samples=1000)
    decisions = list_decisions(kind).double()
    q = (score_decisions(setting, decisions).double() / setting.noise).softmax(0)
    worth = (decisions * setting.worth).sum((-2, -1))
    exact = torch.einsum("m,m,mij->ij", q, worth - q @ worth, decisions) / setting.noise
    cells = make_cell_scores(setting).double().requires_grad_()
    space = build_space(setting)
    f = make_objective(setting, space)
    out = hm.expectation(f, arrange_scores(setting, cells), space, hm.Exact())
    out.value.backward()
    torch.testing.assert_close(cells.grad, exact)
    if kind != "cut":  # large graphs of bits have no exact samples, and are not offered them
        estimate = estimate_gradient(replace(setting, estimator="GibbsCovariance"))
        # Four standard deviations of the length of the difference.
        error = float((estimate.gradient - exact).norm()) / float(exact.norm())
        assert error < 4 * estimate.deviation + 0.02 < 1


@pytest.mark.parametrize("kind", ["monotone path", "cut", "matching"])
def test_the_estimate_is_a_difference_quotient(kind):
    """With the same noise, moving the scores by the worth changes the mean worth as implicit MLE says."""
    setting = make_setting(kind, step=0.5, samples=1000, seed=5)
    gradient = estimate_gradient(setting).gradient
    change = setting.step * setting.noise * setting.worth
    moved = replace(setting, values=setting.values + (-change if setting.problem == "path" else change))
    difference = solve_problem(moved).worth - solve_problem(setting).worth
    assert difference > 0.01
    assert difference == pytest.approx(float((gradient * change).sum()), abs=1e-4)
    direct = estimate_gradient(replace(setting, estimator="Direct")).gradient
    torch.testing.assert_close(direct, gradient, atol=1e-4, rtol=1e-4)


def test_a_step_raises_the_expected_worth():
    for kind in KINDS:
        setting = make_setting(kind, samples=1000)
        estimate = estimate_gradient(setting)
        moved = replace(setting, values=take_step(setting, estimate.gradient))
        assert solve_problem(moved).worth > solve_problem(setting).worth, kind
        assert (take_step(setting, torch.zeros(3, 3)) == setting.values).all()


def test_estimators_that_support_a_problem():
    names = {kind: list_estimators(make_setting(kind)) for kind in KINDS}
    assert names["path"] == [name for name in ESTIMATORS if name not in ("GibbsCovariance", "StraightThrough")]
    assert names["monotone path"] == names["matching"] == list(ESTIMATORS)
    for kind, listed in names.items():
        for name in listed:
            assert estimate_gradient(make_setting(kind, estimator=name)).gradient.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("estimator", ["ImplicitMLE", "IdentityBackward"])
def test_the_program_computes_what_the_page_shows(kind, estimator):
    setting = make_setting(kind, size=4, estimator=estimator, step=0.5, samples=20, seed=7)
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(write_code(setting), names)
    solution, gradient = solve_problem(setting), estimate_gradient(setting)
    assert (names["z"] == solution.z).all()
    assert (names["perturbed"] == solution.perturbed).all()
    torch.testing.assert_close(names["cells"].grad, gradient.gradient)
    assert "tensor" in output.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem": "knapsack"}, "there is no problem 'knapsack'; there are: path"),
        ({"estimator": "Rebar"}, "there is no estimator 'Rebar'"),
        ({"samples": 0}, "samples must be 1 to 1024, got 0"),
        ({"noise": 0.0}, "above zero"),
        ({"values": torch.zeros(1, 3), "worth": torch.zeros(1, 3)}, "2 to 32 rows"),
        ({"problem": "matching", "values": torch.zeros(2, 3), "worth": torch.zeros(2, 3)}, "as many rows"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ArgumentError, match=message):
        LabSetting(**{"problem": "path", "values": torch.ones(3, 3), "worth": torch.zeros(3, 3), **options})
