"""Losses of decision models: those that are new here equal enumeration, and each one lowers the regret."""

import pytest
import torch

import hardmax as hm
from hardmax.applications.decisions.config import LOSS_OPTIONS, DecisionsConfig
from hardmax.applications.decisions.losses import LOSSES, LossSetting, check_loss
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.errors import ArgumentError
from hardmax.training.state import State

SPACES = {
    "path": hm.GridPath(3, 3, perturbation=hm.Perturbation("normal")),
    "knapsack": hm.Knapsack([2, 3, 4, 5, 1], 7, perturbation=hm.Perturbation("normal")),
}
BATCH = 3


@pytest.fixture(params=SPACES)
def example(request):
    """Return a space, scores, costs and best decisions, in float64."""
    space, generator = SPACES[request.param], torch.Generator().manual_seed(0)
    shape = (BATCH, *space.score_shape)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    costs = torch.randn(shape, generator=generator, dtype=torch.float64)
    return space, scores, costs, space.argmax(-costs)


def enumerate_q(space, scores, temperature):
    """Return all decisions, and their probabilities at a temperature, from the definition."""
    members = space.enumerate(dtype=scores.dtype)
    return members, (scores @ members.mT / temperature).softmax(-1)


def exact_regret(space, scores, costs, best, temperature):
    members, q = enumerate_q(space, scores, temperature)
    return (q * (costs @ members.mT)).sum(-1) - (costs * best).sum(-1)


def exact_nll(space, scores, costs, best, temperature):
    members, q = enumerate_q(space, scores, temperature)
    is_best = (members[None] == best[:, None]).all(-1)
    return -(q * is_best).sum(-1).log()


EXACT = {"gibbs": exact_regret, "likelihood": exact_nll}


def differs(name, example, temperature, *, planted=lambda loss: loss):
    """Return the largest difference of value and gradient from those by enumeration."""
    space, scores, costs, best = example
    ours = planted(LOSSES[name](scores, costs, best, LossSetting(space, temperature=temperature)).values)
    exact = EXACT[name](space, scores, costs, best, temperature)
    weights = torch.arange(1.0, 1 + BATCH, dtype=torch.float64)
    gradients = [torch.autograd.grad((weights * values).sum(), scores)[0] for values in (ours, exact)]
    return max(float((first - second).detach().abs().max()) for first, second in ((ours, exact), gradients))


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", EXACT)
def test_exact_losses_equal_enumeration(name, example, temperature):
    assert differs(name, example, temperature) < 1e-9


@pytest.mark.parametrize("name", EXACT)
def test_planted_errors_are_noticed(name, example):
    space, scores, costs, best = example
    assert differs(name, example, 0.5, planted=lambda loss: -loss) > 1e-2
    assert differs(name, example, 0.5, planted=lambda loss: 2 * loss) > 1e-2
    wrong = EXACT[name](space, scores, costs, best, 0.4)  # another temperature
    assert (wrong - EXACT[name](space, scores, costs, best, 0.5)).abs().max() > 1e-2


def test_expected_regret_approaches_the_regret(example):
    space, scores, costs, best = example
    cold = LOSSES["gibbs"](scores, costs, best, LossSetting(space, temperature=1e-3)).values
    torch.testing.assert_close(cold, hm.regret(scores, costs, space), rtol=0, atol=1e-6)


# The pseudo-likelihood needs bits; tests/applications/decisions/test_denoising.py has it.
STRUCTURED = [name for name in LOSSES if name != "pseudo-likelihood"]


@pytest.mark.parametrize("name", STRUCTURED)
def test_values_and_cost(name, example):
    """One value for each example, at least zero; the values of the regret are the regret."""
    space, scores, costs, best = example
    noise = None
    if "samples" in LOSS_OPTIONS[name]:
        noise = space.noise((4, BATCH), torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = LOSSES[name](scores, costs, best, LossSetting(space, noise))
    assert loss.values.shape == (BATCH,)
    assert (loss.values > -1e-9).all()
    if name in ("blackbox", "identity"):
        torch.testing.assert_close(loss.values.detach(), hm.regret(scores, costs, space))
    expected = {"least-squares": 0, "spo-plus": 4, "direct": 8, "fenchel-young": 4, "implicit-mle": 8, "blackbox": 2}
    expected |= {"adaptive-implicit-mle": 36, "identity": 1, "perturbed": 4, "gibbs": 0, "likelihood": 0, "hinge": 1}
    assert loss.solves == expected[name]
    (gradient,) = torch.autograd.grad(loss.values.sum(), scores)
    assert gradient.isfinite().all()


def test_identity_has_the_costs_as_gradient(example):
    space, scores, costs, best = example
    loss = LOSSES["identity"](scores, costs, best, LossSetting(space))
    torch.testing.assert_close(torch.autograd.grad(loss.values.sum(), scores)[0], costs)


def test_blackbox_moves_towards_better_decisions(example):
    """A large step reaches the best decision, and a gradient step makes it score higher than the present one."""
    space, scores, costs, best = example
    loss = LOSSES["blackbox"](scores, costs, best, LossSetting(space, step=1e4))
    (gradient,) = torch.autograd.grad(loss.values.sum(), scores)
    torch.testing.assert_close(gradient, (space.argmax(scores) - best) / 1e4)


@pytest.mark.parametrize("data", ["path", "knapsack"])
@pytest.mark.parametrize("name", STRUCTURED)
def test_every_loss_lowers_the_regret(name, data):
    config = DecisionsConfig(
        data=data, loss=name, grid=3, items=8, degree=2, noise=0.1, examples=200, test_examples=200, epochs=8, lr=0.05
    )
    state = State(DecisionsTask.build(config, DecisionsTask.load_data(config)))
    before = state.task.evaluate("test")["regret"]
    while state.progress.epoch < config.epochs:
        for index in state.begin_epoch():
            state.make_step(index)
        state.progress.epoch += 1
    assert state.task.evaluate("test")["regret"] < 0.75 * before


def test_the_names_are_those_of_the_options():
    assert list(LOSSES) == list(LOSS_OPTIONS)


@pytest.mark.parametrize("name", ["gibbs", "likelihood"])
def test_a_loss_that_needs_sums(name):
    space = hm.SolverSpace(lambda scores: scores > 0, 4)
    with pytest.raises(ArgumentError, match=f"loss {name} needs sums over all decisions .* use one .* spo-plus"):
        check_loss(name, space)
    check_loss("spo-plus", space)


@pytest.mark.parametrize("name", ["fenchel-young", "implicit-mle", "perturbed"])
def test_a_loss_that_needs_noise(name, example):
    space, scores, costs, best = example
    with pytest.raises(ArgumentError, match="got no noise; pass noise="):
        LOSSES[name](scores, costs, best, LossSetting(space))
