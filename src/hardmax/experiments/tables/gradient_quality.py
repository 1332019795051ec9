"""Gradient quality: all estimators at equal numbers of evaluations, as one model is trained."""

from hardmax.experiments.tables.measurement import MeasuredEstimator, Measurement, Part, QuickMeasurement, make_ladder

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.1, 0.5, 1.0)

# One sample of local expectation: z, and seven other values of four variables.
FULL = Part("29-evaluations", "up to 29 evaluations", evaluations=29)
CHEAP = Part("2-evaluations", "2 evaluations", evaluations=2)
PAIRS = Part("58-evaluations", "up to 58 evaluations: antithetic pairs", evaluations=58, drawn=False)


def list_estimators(part: Part) -> list[MeasuredEstimator]:
    """Return the estimators that fit a part's number of evaluations."""
    return {FULL.name: _all, CHEAP.name: _cheap, PAIRS.name: _pairs}[part.name]()


def _all() -> list[MeasuredEstimator]:
    from hardmax.estimators.adaptive import AdaptiveDirect
    from hardmax.estimators.arm import Arsm
    from hardmax.estimators.control_variates import DebiasedDirect
    from hardmax.estimators.direct import AveragedDirect, Direct
    from hardmax.estimators.exact import LocalExpectation
    from hardmax.estimators.reinforce import MuProp

    return [
        MeasuredEstimator("LocalExpectation()", LocalExpectation()),
        MeasuredEstimator("LocalExpectation(roulette=True)", LocalExpectation(roulette=True)),
        *make_ladder("Direct", "Direct({})", EPSILONS, Direct),
        *make_ladder(
            "two-sided Direct",
            "Direct({}, two_sided=True)",
            (0.2, 1.0),
            lambda epsilon: Direct(epsilon, two_sided=True),
        ),
        *make_ladder("posterior Direct", "posterior Direct({})", EPSILONS, Direct, "auto"),
        MeasuredEstimator("AveragedDirect(0.2)", AveragedDirect(0.2)),
        MeasuredEstimator("posterior AveragedDirect(0.2)", AveragedDirect(0.2), "auto"),
        MeasuredEstimator("AdaptiveDirect()", AdaptiveDirect()),
        MeasuredEstimator("posterior AdaptiveDirect()", AdaptiveDirect(), "auto"),
        *make_ladder("DebiasedDirect", "DebiasedDirect({})", (0.1, 0.3, 1.0), DebiasedDirect),
        MeasuredEstimator("Arsm()", Arsm()),
        MeasuredEstimator("MuProp('leave-one-out')", MuProp("leave-one-out")),
        *_cheap(),
    ]


def _cheap() -> list[MeasuredEstimator]:
    from hardmax.estimators.arm import DisArmCategorical
    from hardmax.estimators.control_variates import Rebar
    from hardmax.estimators.gumbel_softmax import GumbelRao, GumbelSoftmax
    from hardmax.estimators.implicit_mle import ImplicitMLE
    from hardmax.estimators.reinforce import MuProp, Reinforce
    from hardmax.estimators.rodeo import DoubleControlVariates
    from hardmax.estimators.straight_through import GappedStraightThrough, ReinMax, StraightThrough
    from hardmax.estimators.unordered_set import UnorderedSet

    return [
        MeasuredEstimator("Reinforce('leave-one-out')", Reinforce("leave-one-out")),
        MeasuredEstimator("UnorderedSet()", UnorderedSet()),
        MeasuredEstimator("DisArmCategorical()", DisArmCategorical()),
        MeasuredEstimator("Rebar(0.5)", Rebar(0.5)),
        MeasuredEstimator("MuProp()", MuProp()),
        MeasuredEstimator("DoubleControlVariates()", DoubleControlVariates()),
        *make_ladder("GumbelSoftmax", "GumbelSoftmax({})", TAUS, GumbelSoftmax),
        *make_ladder(
            "hard GumbelSoftmax", "GumbelSoftmax({}, hard=True)", TAUS, lambda tau: GumbelSoftmax(tau, hard=True)
        ),
        MeasuredEstimator("GumbelRao(10, 0.5)", GumbelRao(10, 0.5)),
        MeasuredEstimator("StraightThrough()", StraightThrough()),
        MeasuredEstimator("ReinMax()", ReinMax()),
        MeasuredEstimator("GappedStraightThrough()", GappedStraightThrough()),
        MeasuredEstimator("ImplicitMLE()", ImplicitMLE()),
    ]


def _pairs() -> list[MeasuredEstimator]:
    from hardmax.estimators.antithetic import Antithetic
    from hardmax.estimators.control_variates import DebiasedDirect
    from hardmax.estimators.direct import Direct
    from hardmax.estimators.exact import LocalExpectation
    from hardmax.estimators.reinforce import Reinforce

    return [
        MeasuredEstimator("LocalExpectation()", LocalExpectation()),
        MeasuredEstimator("Antithetic(LocalExpectation())", Antithetic(LocalExpectation())),
        MeasuredEstimator("Direct(0.2)", Direct(0.2)),
        MeasuredEstimator("Antithetic(Direct(0.2))", Antithetic(Direct(0.2))),
        MeasuredEstimator("DebiasedDirect(1)", DebiasedDirect(1)),
        MeasuredEstimator("Reinforce('leave-one-out')", Reinforce("leave-one-out")),
    ]


GRADIENT_QUALITY = Measurement(
    name="gradient-quality",
    title="Gradient quality",
    claim="Which estimator is the best for its cost, early and late in training? All of them at equal numbers of "
    "evaluations of f, against the exact gradient of the bound.",
    setting="MNIST, pictures rounded at 0.5, 4 categorical variables of 8 values (4,096 codes), encoder 784-300-32, "
    "decoder 32-300-784, trained as `hardmax train` does by itself (local expectation with roulette) for 20 epochs. "
    "Gradients are those of the bound for the encoder's scores, on 16 validation pictures; the KL's own gradient "
    "stands beside the estimate, and those called posterior take the whole integrand instead.",
    options={"data": "mnist", "categories": 8, "variables": 4},
    epochs=(1, 5, 20),
    draws=1024,
    pictures=16,
    parts=(FULL, CHEAP, PAIRS),
    estimators=list_estimators,
    view="points",
    quick=QuickMeasurement(
        options={"data": "sample", "evaluate_images": 100},
        note="the 4,500 pictures that come with hardmax, 3 epochs, 32 estimates, 8 pictures",
        epochs=(1, 3),
        draws=32,
        pictures=8,
    ),
    notes=(
        "`Exact()`, which all are compared with, takes 4,096 evaluations. `Relax` is left out: its control variate is "
        "a network of its own, which would have to be trained along with the model.",
    ),
)
