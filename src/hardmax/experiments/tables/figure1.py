"""Figure 1: bias and noise of direct by epsilon and of Gumbel-softmax by tau, at the optimum."""

from hardmax.experiments.tables.measurement import MeasuredEstimator, Measurement, Part, QuickMeasurement, make_ladder

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.05, 0.1, 0.2, 0.5, 1.0)

LIKELIHOOD = Part("likelihood", "gradient of E[log p(x | z)]", "expectation", samples=1)
BOUND = Part("bound", "gradient of the bound", "bound", samples=1)


def list_estimators(part: Part) -> list[MeasuredEstimator]:
    """Return direct, one- and two-sided, and Gumbel-softmax, soft and hard; for the bound also posterior direct."""
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
        template = "posterior Direct({}, two_sided=True)"
        estimators += make_ladder("posterior direct", "posterior Direct({})", EPSILONS, Direct, "auto")
        estimators += make_ladder("posterior direct, two-sided", template, EPSILONS, two_sided, "auto")
    return estimators


FIGURE1 = Measurement(
    name="figure1",
    title="Figure 1: bias and noise at the optimum",
    claim="The paper: direct optimization and Gumbel-softmax both trade bias for noise, by epsilon and by tau, which "
    "have a different effect in each.",
    setting="MNIST, pixels rounded at 0.5, one categorical variable of 10 values, encoder 784-300-10, decoder "
    "10-300-784, trained with the exact gradient for 60 epochs, so that all estimators are measured at the same "
    "point. Gradients are those with respect to the encoder's scores on 100 validation images; one estimate uses one "
    "sample of the noise. For the gradient of the bound, the exact gradient of the KL is added to the estimate; "
    "posterior direct estimates the gradient of the entire integrand instead.",
    options={"data": "mnist", "estimator": "exact"},
    epochs=(60,),
    draws=10_000,
    images=100,
    parts=(LIKELIHOOD, BOUND),
    estimators=list_estimators,
    view="ladders",
    quick=QuickMeasurement(
        options={"data": "sample", "estimator": "auto"},
        note="the 4,500 images that come with hardmax, 4 epochs with the estimator auto, 200 estimates, 50 images",
        epochs=(4,),
        draws=200,
        images=50,
    ),
)
