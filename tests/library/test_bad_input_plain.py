"""Bad input raises the right error, with a message that says what to do, if possible before f is called."""

import re

import pytest
import torch
from cases import EDGE_SPACES, ESTIMATORS, PATH, SMALL_SPACES, VALUE_STYLE, list_refused, one_each, pairs

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig

pytestmark = pytest.mark.plain  # without shape checks

SCORES = torch.zeros(4, 3)
SPACE = hm.Categorical(3)
EACH = one_each([SPACE, hm.Binary(3)])


def raise_if_called(z):
    raise AssertionError("f was called")


def with_bad(value):
    scores = SCORES.clone()
    scores[2, 1] = value
    return scores


@pytest.mark.parametrize(("space", "estimator"), [(SPACE, "auto"), *EACH], ids=str)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_not_finite(space, estimator, bad):
    with pytest.raises(hm.ArgumentError, match=r"finite.*\[2, 1\].*1 of 12"):
        hm.expectation(raise_if_called, with_bad(bad), space, estimator)


def test_validate_off_looks_at_no_value():
    out = hm.expectation(
        lambda z: z.sum(-1) * float("nan"), with_bad(float("nan")), SPACE, hm.Reinforce(), validate=False
    )
    assert out.value.isnan().all()


@pytest.mark.parametrize(("space", "estimator"), [(SPACE, "auto"), *EACH], ids=str)
@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        (torch.zeros(4, 2), hm.ShapeError, r"\[4, 2\].*\[\*B, 3\]"),
        (torch.zeros(()), hm.ShapeError, r"\[\].*\[\*B, 3\]"),
        (torch.zeros(4, 3, dtype=torch.long), hm.DtypeError, r"int64.*\.float\(\)"),
        ([0.0, 0.0, 0.0], hm.DtypeError, "list"),
    ],
)
def test_scores_of_the_wrong_kind(space, estimator, scores, error, message):
    with pytest.raises(error, match=message):
        hm.expectation(raise_if_called, scores, space, estimator)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.Direct(epsilon=0), "epsilon.*positive.*0"),
        (lambda: hm.Direct(epsilon=-1), "epsilon.*positive.*-1"),
        (lambda: hm.Direct(epsilon=float("nan")), "epsilon"),
        (lambda: hm.GumbelSoftmax(tau=0.0), "tau.*positive"),
        (lambda: hm.GumbelSoftmax(tau=-0.5), "tau.*positive"),
        (lambda: hm.Reinforce("median"), "baseline.*median"),
        (lambda: hm.Roulette(rate=0), "rate.*positive"),
        (lambda: hm.Roulette(floor=0), "floor"),
        (lambda: hm.AveragedDirect(epsilon=0), "epsilon.*positive"),
        (lambda: hm.ShortlistDirect(epsilon=0), "epsilon.*positive"),
        (lambda: hm.ShortlistDirect(size=1), "at least 2.*got 1"),
        (lambda: hm.ShortlistDirect(variables=0), "at least 1.*got 0"),
        (lambda: hm.DebiasedDirect(epsilon=-1), "epsilon.*positive"),
        (lambda: hm.DebiasedDirect(draws=0), "draws.*at least 1.*0"),
        (lambda: hm.AdaptiveDirect(share=0), "share.*0"),
        (lambda: hm.Rebar(tau=0), "tau.*positive"),
        (lambda: hm.MuProp("mean"), "baseline.*mean"),
        (lambda: hm.IdentityBackward("cone"), "project.*cone"),
        (lambda: hm.Antithetic(hm.UnorderedSet()), "independent.*wrap"),
    ],
)
def test_settings(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert isinstance(caught.value, hm.HardmaxError)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"samples": 0}, hm.ArgumentError, "samples.*at least 1.*0"),
        ({"samples": -1}, hm.ArgumentError, "samples"),
        ({"chunk_size": 0}, hm.ArgumentError, "chunk_size"),
        ({"estimator": hm.Reinforce("leave-one-out")}, hm.ArgumentError, "two samples.*samples=2"),
        ({"estimator": "direct"}, hm.ArgumentError, r"Direct\(\).*'auto'.*'direct'"),
        ({"noise": torch.zeros(4, 3)}, hm.ShapeError, r"\[4, 3\].*\[S, 4, 3\]"),
        ({"noise": torch.zeros(2, 4, 2)}, hm.ShapeError, r"\[S, 4, 3\]"),
        ({"noise": torch.zeros(2, 4, 3, dtype=torch.long)}, hm.ShapeError, "int64"),
        ({"noise": torch.zeros(2, 4, 3), "samples": 3}, hm.ShapeError, "holds 2 samples.*samples=3"),
        ({"noise": torch.zeros(0, 4, 3)}, hm.ArgumentError, "samples"),
        ({"estimator": hm.UnorderedSet(), "samples": 4}, hm.ArgumentError, "samples=4.*3 members"),
        ({"estimator": hm.MuProp("leave-one-out")}, hm.ArgumentError, "two samples.*samples=2"),
        ({"estimator": hm.Rodeo(), "samples": 1}, hm.ArgumentError, "two samples.*samples=2"),
        ({"estimator": hm.GumbelRao(draws=2), "noise": torch.zeros(3, 4, 3)}, hm.ShapeError, "2 noise.*holds 3"),
    ],
)
def test_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        hm.expectation(raise_if_called, SCORES, SPACE, **arguments)


STRUCTURED = [hm.PairwiseBinary(3), hm.Subset(4, 2), hm.Permutation(3), hm.Chain(3, 2), hm.SpanningTree(4), PATH]


@pytest.mark.parametrize(("space", "estimator"), list_refused([*SMALL_SPACES, *STRUCTURED]), ids=str)
def test_a_space_that_an_estimator_does_not_serve(space, estimator):
    """The pairs that the cross products leave out are refused before f is called, with the reason."""
    with pytest.raises(hm.NotExactError) as caught:
        hm.expectation(raise_if_called, torch.zeros(4, *space.score_shape), space, estimator, samples=3)
    message = str(caught.value)
    # If an estimator wraps another, either may refuse.
    assert message.startswith((f"{estimator} ", f"{getattr(estimator, 'estimator', estimator)} "))
    assert str(space) in message
    assert "; use " in message


def test_the_cross_products_leave_out_no_more_than_they_must():
    """A check that refuses too much would silently remove tests."""
    for_bits = {hm.Arm(), hm.DisArm()}
    for_categories = {
        hm.Arsm(),
        hm.DisArmCategorical(),
        hm.IdentityBackward("both"),
        hm.ShortlistDirect(0.5, size=2),
        hm.ShortlistDirect(0.5, size=3, variables=1),
    }
    for space in [*SMALL_SPACES, *EDGE_SPACES]:
        unsuitable = for_categories if isinstance(space, hm.Binary) else for_bits
        usable = [estimator for _, estimator in pairs([space])]
        assert not unsuitable & set(usable)
        assert len(usable) == len(ESTIMATORS) - len(unsuitable)
    by_arg_max = {hm.ImplicitMLE, hm.AdaptiveImplicitMLE, hm.Blackbox, hm.IdentityBackward}
    always = by_arg_max | {hm.Exact, hm.Reinforce, hm.GumbelSoftmax}
    by_changes = {hm.Direct, hm.AdaptiveDirect}
    by_noise = {hm.PerturbedOptimizer, hm.PerturbedReinforce}
    for space, more in {
        hm.PairwiseBinary(3): by_changes,
        hm.Subset(4, 2): by_changes | {hm.StraightThrough, *by_noise},
        hm.Permutation(3): by_changes | {hm.StraightThrough, *by_noise},
        hm.Chain(3, 2): by_changes | by_noise,
        hm.SpanningTree(4): {hm.StraightThrough, *by_noise},
        PATH: {hm.StraightThrough, *by_noise},
        hm.GridPath(3, 3, on="nodes"): {hm.StraightThrough, *by_noise},
    }.items():
        assert {type(estimator) for _, estimator in pairs([space])} == always | more


@pytest.mark.parametrize("space", [hm.Binary(40), hm.Categorical(10, 30)], ids=str)
def test_exact_on_too_large_a_space(space):
    with pytest.raises(hm.NotExactError, match=rf"{space.size:,} members.*LocalExpectation"):
        hm.expectation(raise_if_called, torch.zeros(space.score_shape), space, hm.Exact())


@pytest.mark.parametrize(("space", "estimator"), EACH, ids=str)
@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda z: z, hm.ShapeError, r"\[\d+, 4\], got \[\d+, 4, 3\].*\[C, \*B, \*event\]"),
        (lambda z: z.sum(), hm.ShapeError, r"got \[\]"),
        (lambda z: z.sum((0, -1)), hm.ShapeError, r"got \[4\]"),
        (lambda z: z.sum(-1).long(), hm.DtypeError, "int64"),
        (lambda z: 1.0, hm.DtypeError, "float"),
    ],
)
def test_f_of_the_wrong_kind(space, estimator, f, error, message):
    with pytest.raises(error, match=message):
        hm.expectation(f, SCORES, space, estimator, samples=2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(("space", "estimator"), EACH, ids=str)
def test_values_that_are_not_finite_name_the_example(space, estimator, bad):
    worth = torch.tensor([0.0, 0.0, bad, 0.0])
    with pytest.raises(hm.ArgumentError, match=rf"f returned {bad} for example \[2\]"):
        hm.expectation(lambda z: z.sum(-1) + worth, SCORES, space, estimator, samples=2)


@pytest.mark.parametrize(("space", "estimator"), EACH, ids=str)
def test_f_that_writes_into_z(space, estimator):
    def f(z):
        return z.mul_(2.0).sum(-1)

    # torch itself refuses to write into a leaf that requires a gradient, and into an expanded tensor
    ours, theirs = r"f changed its argument z of shape .* z\.clone\(\)", "in-place operation|single memory location"
    with pytest.raises((hm.ArgumentError, RuntimeError), match=f"{ours}|{theirs}"):
        hm.expectation(f, SCORES, space, estimator, samples=2)


def test_writes_into_z_by_methods_of_f():
    class Writer:
        def __call__(self, z):
            return z.sum(-1)

        def rows(self, z, index):
            return z.zero_().sum(-1)

    with pytest.raises(hm.ArgumentError, match=r"f\.rows\(\) changed its argument z"):
        hm.expectation(Writer(), SCORES, hm.Binary(3), hm.LocalExpectation(roulette=True))


def test_large_finite_values_whose_sum_is_infinite():
    out = hm.expectation(lambda z: z.sum(-1) + 3e38, SCORES, SPACE, hm.Exact())
    assert out.value.isfinite().all()


def test_nan_names_the_example_in_two_batch_dimensions():
    worth = torch.ones(2, 4)
    worth[1, 3] = float("nan")
    with pytest.raises(hm.ArgumentError, match=re.escape("example [1, 3]")):
        hm.expectation(lambda z: z.sum(-1) * worth, SCORES.expand(2, 4, 3), SPACE, hm.Reinforce())


class BadTable:
    """An f with a wrong table."""

    def __init__(self, table):
        self._table = table

    def __call__(self, z):
        return z.sum(-1)

    def table(self):
        return self._table


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.Direct(), hm.LocalExpectation()], ids=str)
def test_table_that_is_wrong(estimator):
    with pytest.raises(hm.ShapeError, match=r"f\.table\(\).*\[4, 3\].*\[3, 4\]"):
        hm.expectation(BadTable(torch.zeros(3, 4)), SCORES, SPACE, estimator)
    with pytest.raises(hm.ArgumentError, match=r"f\.table\(\) returned nan for example \[2\]"):
        hm.expectation(BadTable(with_bad(float("nan"))), SCORES, SPACE, estimator)


def test_rows_that_are_wrong():
    class Bad(BadTable):
        def rows(self, z, index):
            return self._table[index] if len(self._table) > 2 else self._table

    estimator = hm.LocalExpectation(roulette=True)
    with pytest.raises(hm.ShapeError, match=r"f\.rows\(\)"):
        hm.expectation(Bad(torch.zeros(2)), SCORES, hm.Binary(3), estimator)
    with pytest.raises(hm.ArgumentError, match=r"f\.rows\(\) returned nan for example \[2\]"):
        hm.expectation(Bad(with_bad(float("nan"))[:, 1]), SCORES, hm.Binary(3), estimator)


@pytest.mark.parametrize(("space", "estimator"), one_each([SPACE, hm.Binary(3)], VALUE_STYLE), ids=str)
def test_sample_refuses_value_style_estimators(space, estimator):
    with pytest.raises(hm.ArgumentError, match=r"expectation.*GumbelSoftmax"):
        hm.sample(SCORES, space, estimator)


def test_sample_checks_its_input():
    with pytest.raises(hm.ArgumentError, match="finite"):
        hm.sample(with_bad(float("nan")), SPACE, hm.StraightThrough())
    with pytest.raises(hm.ArgumentError, match="samples"):
        hm.sample(SCORES, SPACE, hm.StraightThrough(), samples=0)


def test_roulette_without_rows_says_so():
    with pytest.warns(UserWarning, match=r"rows\(z, index\)"):
        hm.expectation(lambda z: z.sum(-1), SCORES, hm.Binary(3), hm.LocalExpectation(roulette=True))


@pytest.mark.parametrize("method", ["sample", "log_prob", "entropy", "kl"])
def test_space_methods_refuse_wrong_shapes(method):
    space, scores = hm.Categorical(3), torch.zeros(2, 4)
    arguments = (scores, torch.zeros(2, 4)) if method == "log_prob" else (scores,)
    with pytest.raises(hm.ShapeError, match=r"\[2, 4\].*\[\*B, 3\]"):
        getattr(space, method)(*arguments)


def test_an_unknown_space():
    with pytest.raises(hm.ArgumentError, match="there is no space 'torus'; there are: categorical, "):
        DiscreteConfig(space="torus")


def test_distributions_need_a_sampler():
    with pytest.raises(hm.ArgumentError, match=r"Exact\(\) gives no z with a gradient: it needs f"):
        hm.distributions.OneHotCategorical(logits=torch.zeros(3), estimator=hm.Exact())
    with pytest.raises(hm.ArgumentError, match=r"class 'type'|gives no z with a gradient"):
        hm.distributions.Bernoulli(logits=torch.zeros(3), estimator=hm.ReinMax)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (hm.Direct, r"an instance, got the class Direct; pass Direct\(\)"),
        ("gumbel-softmax", r"got 'gumbel-softmax'; pass hm.GumbelSoftmax\(\)"),
        ("Straight_Through", r"pass hm.StraightThrough\(\)"),
        ("best", r"such as Direct\(\) or 'auto', got 'best'$"),
        (None, r"such as hm.Direct\(\), got None"),
    ],
)
def test_first_guesses_of_an_estimator(estimator, message):
    f = lambda z: z.sum(-1)  # noqa: E731
    with pytest.raises(hm.ArgumentError, match=message):
        hm.expectation(f, torch.zeros(2, 3), hm.Categorical(3), estimator)
    with pytest.raises(hm.ArgumentError, match=message):
        hm.sample(torch.zeros(2, 3), hm.Categorical(3), estimator)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (3, r"got 3; for one choice of 3 values pass hm.Categorical\(3\)"),
        (hm.Categorical, r"got the class Categorical; pass an instance"),
        ("binary", r"such as hm.Categorical\(10\), got str"),
    ],
)
def test_first_guesses_of_a_space(space, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.expectation(lambda z: z.sum(-1), torch.zeros(2, 3), space, hm.Direct())
    with pytest.raises(hm.ArgumentError, match=message):
        hm.sample(torch.zeros(2, 3), space, hm.ReinMax())
    with pytest.raises(hm.ArgumentError, match=message):
        hm.elbo(lambda z: z.sum(-1), torch.zeros(2, 3), space)
