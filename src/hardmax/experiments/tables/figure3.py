"""Figure 3: bits that interact compared with independent bits, on Fashion-MNIST."""

from hardmax.experiments.tables.declaration import Cell, Experiment, Options, Quick

PAPER, OURS = "the paper's", "ours"

_UNSTRUCTURED: Options = {"space": "binary"}
_SUPERMODULAR: Options = {"space": "pairwise", "supermodular": True}
_GENERAL: Options = {"space": "pairwise"}

# As the code released with the paper trains: the KL's gradient is left out, epsilon shrinks a little.
_DIRECT: Options = {"estimator": "direct", "kl": "none", "anneal": 1e-5}
_GUMBEL: Options = {"estimator": "gumbel-softmax", "anneal": 1e-5, "tau_floor": 0.5}
_COVARIANCE: Options = {"estimator": "gibbs-covariance"}

# Learning rates are tuned for each cell, on validation images: a shared rate makes the comparison misleading.
FIGURE3 = Experiment(
    name="figure3",
    title="Figure 3: independent bits, and bits that interact in pairs",
    claim="The paper: encoders whose bits interact reach a lower bound than encoders with independent bits, by epoch "
    "and by time; and direct optimization can train them, where a softmax would need 2^15 terms.",
    setting="Fashion-MNIST, pixels rounded at 0.5, 15 bits, encoder 784-300-scores, decoder 30-300-784, Adam, "
    "batches of 100, 10 epochs. Bounds are exact: sums over all 32,768 codes, for 500 test images. Each learning "
    "rate was tuned for its cell, on validation images.",
    options={"data": "fashion-mnist", "variables": 15, "epochs": 10},
    cells=(
        Cell("unstructured", "direct", PAPER, 3e-3, {**_UNSTRUCTURED, **_DIRECT}),
        Cell("supermodular", "direct", PAPER, 3e-3, {**_SUPERMODULAR, **_DIRECT}),
        Cell("general", "direct", PAPER, 3e-3, {**_GENERAL, **_DIRECT}),
        Cell("unstructured", "Gumbel-softmax", PAPER, 2e-3, {**_UNSTRUCTURED, **_GUMBEL}),
        Cell("unstructured", "local expectation", OURS, 2e-3, _UNSTRUCTURED),
        Cell("two hidden layers", "local expectation", OURS, 4e-3, {**_UNSTRUCTURED, "encoder_layers": 2}),
        Cell("unstructured", "Gibbs covariance", OURS, 3e-3, {**_UNSTRUCTURED, **_COVARIANCE}),
        Cell("supermodular", "Gibbs covariance", OURS, 2e-3, {**_SUPERMODULAR, **_COVARIANCE}),
        Cell("general", "Gibbs covariance", OURS, 2e-3, {**_GENERAL, **_COVARIANCE}),
        Cell("supermodular", "conditional gradient", OURS, 3e-3, {**_SUPERMODULAR, "estimator": "conditional"}),
        Cell("general", "conditional gradient", OURS, 2e-3, {**_GENERAL, "estimator": "conditional"}),
        Cell("general", "posterior direct", OURS, 3e-3, {**_GENERAL, "estimator": "direct", "epsilon": 0.2}),
    ),
    seeds=(0, 1, 2, 3),
    quick=Quick(
        options={"data": "sample", "variables": 12, "epochs": 3, "evaluate_images": 200},
        note="12 bits, the 4,500 images that come with hardmax, 3 epochs, one seed, 200 test images",
    ),
)
