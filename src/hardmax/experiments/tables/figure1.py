"""Figure 1: bias and noise of direct against epsilon and of Gumbel-softmax against tau, at the optimum."""

from hardmax.experiments.tables.measurement import MeasuredEstimator, Measurement, Part, QuickMeasurement, make_ladder

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.05, 0.1, 0.2, 0.5, 1.0)

LIKELIHOOD = Part("likelihood", "gradient of E[log p(x | z)]", "expectation", samples=1)
BOUND = Part("bound", "gradient of the bound", "bound", samples=1)


def list_estimators(part: Part) -> list[MeasuredEstimator]:
    """Return direct, one-sided and two-sided, and Gumbel-softmax, soft and hard; for the bound posterior direct too."""
    from hardmax.estimators import Direct, GumbelSoftmax

    def two_sided(epsilon: float) -> Direct:
        return Direct(epsilon, two_sided=True)

    estimators = [
        *make_ladder("direct", "Direct({})", EPSILONS, Direct),
        *make_ladder("direct, two-sided", "Direct({}, two_sided=True)", EPSILONS, two_sided),
        *make_ladder("Gumbel-softmax", "GumbelSoftmax({})", TAUS, GumbelSoftmax),
        *make_ladder(
            "straight-through Gumbel-softmax",
            "GumbelSoftmax({}, hard=True)",
            TAUS,
            lambda tau: GumbelSoftmax(tau, hard=True),
        ),
    ]
    if part.objective == "bound":
        typed = "posterior Direct({}, two_sided=True)"
        estimators += make_ladder("posterior direct", "posterior Direct({})", EPSILONS, Direct, "auto")
        estimators += make_ladder("posterior direct, two-sided", typed, EPSILONS, two_sided, "auto")
    return estimators


FIGURE1 = Measurement(
    name="figure1",
    title="Figure 1: bias and noise at the optimum",
    claim="The paper: direct optimization and Gumbel-softmax both trade bias for noise, by epsilon and by tau, which "
    "have a different impact in each.",
    setting="MNIST, pictures rounded at 0.5, one categorical of 10 values, encoder 784-300-10, decoder 10-300-784, "
    "trained with the exact gradient for 60 epochs, so that all start from the same point. Gradients are those for the "
    "encoder's scores on 100 validation pictures; one estimate takes one draw of the noise. In the gradient of the "
    "bound the KL's own gradient stands beside the estimate, but posterior direct takes the whole integrand.",
    options={"data": "mnist", "estimator": "exact"},
    epochs=(60,),
    draws=10_000,
    pictures=100,
    parts=(LIKELIHOOD, BOUND),
    estimators=list_estimators,
    view="ladders",
    quick=QuickMeasurement(
        options={"data": "sample", "estimator": "auto"},
        note="the 4,500 pictures that come with hardmax, 4 epochs of auto, 200 estimates, 50 pictures",
        epochs=(4,),
        draws=200,
        pictures=50,
    ),
)
