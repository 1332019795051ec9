"""Gradient quality: all estimators at equal numbers of evaluations, measured while one model is trained."""

from hardmax.experiments.tables.measurement import MeasuredEstimator, Measurement, Part, QuickMeasurement, make_ladder

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.1, 0.5, 1.0)

# One sample of local expectation evaluates z, and the seven other values of each of four variables.
FULL = Part("29-evaluations", "up to 29 evaluations", evaluations=29)
CHEAP = Part("2-evaluations", "2 evaluations", evaluations=2)
PAIRS = Part("58-evaluations", "up to 58 evaluations: antithetic pairs", evaluations=58, drawn=False)


def list_estimators(part: Part) -> list[MeasuredEstimator]:
    """Return the estimators that fit a part's number of evaluations."""
    return {FULL.name: _list_all, CHEAP.name: _list_cheap, PAIRS.name: _list_pairs}[part.name]()


def _list_all() -> list[MeasuredEstimator]:
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
        *_list_cheap(),
    ]


def _list_cheap() -> list[MeasuredEstimator]:
    from hardmax.estimators.arm import DisArmCategorical
    from hardmax.estimators.control_variates import Rebar
    from hardmax.estimators.gumbel_softmax import GumbelRao, GumbelSoftmax
    from hardmax.estimators.implicit_mle import ImplicitMLE
    from hardmax.estimators.reinforce import MuProp, Reinforce
    from hardmax.estimators.reinmax import ReinMax, ReinMaxCV, ReinMaxRao
    from hardmax.estimators.rodeo import DoubleControlVariates
    from hardmax.estimators.straight_through import GappedStraightThrough, StraightThrough
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
        MeasuredEstimator("ReinMaxRao()", ReinMaxRao()),
        MeasuredEstimator("ReinMaxCV()", ReinMaxCV()),
        MeasuredEstimator("GappedStraightThrough()", GappedStraightThrough()),
        MeasuredEstimator("ImplicitMLE()", ImplicitMLE()),
    ]


def _list_pairs() -> list[MeasuredEstimator]:
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
    claim="Which estimator is the best for its cost, early and late in training? All are compared with the exact "
    "gradient of the bound, at equal numbers of evaluations of f.",
    setting="MNIST, pixels rounded at 0.5, 4 categorical variables of 8 values (4,096 codes), encoder 784-300-32, "
    "decoder 32-300-784, trained with the defaults of `hardmax train` (local expectation with roulette) for 20 "
    "epochs. Gradients are those of the bound with respect to the encoder's scores, on 16 validation images. The "
    "exact gradient of the KL is added to the estimate; estimators called posterior estimate the gradient of the "
    "entire integrand.",
    options={"data": "mnist", "categories": 8, "variables": 4},
    epochs=(1, 5, 20),
    draws=1024,
    images=16,
    parts=(FULL, CHEAP, PAIRS),
    estimators=list_estimators,
    view="points",
    quick=QuickMeasurement(
        options={"data": "sample", "evaluate_images": 100},
        note="the 4,500 images that come with hardmax, 3 epochs, 32 estimates, 8 images",
        epochs=(1, 3),
        draws=32,
        images=8,
    ),
    notes=(
        "`Exact()`, the reference, takes 4,096 evaluations. `Relax` is left out: its control variate is a network, "
        "which would have to be trained along with the model.",
    ),
)
