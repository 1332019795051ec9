"""Sequence GANs trained by each estimator, on two languages with known grammars and on real text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import COVERAGE, DIVERGENCE, ENTROPY, REAL_NLL, VALIDITY

EPOCHS = 20
SEEDS = (0, 1, 2)
GOAL = {"validity": 0.95, "coverage": 0.8}

POSITIONS, SAMPLES, CEILING = "at each position", "through samples", "likelihood"
PLAIN, SMOOTH, BRACKETS = "agreement", "agreement, smooth D", "brackets, smooth D"

PROBLEMS: dict[str, Options] = {
    PLAIN: {"data": "agreement", "penalty": 0.0},
    SMOOTH: {"data": "agreement", "penalty": 0.3},
    BRACKETS: {"data": "brackets", "penalty": 0.3},
}
METHODS: dict[str, tuple[str, Options]] = {
    "averaged direct": (POSITIONS, {"estimator": "averaged-direct"}),
    "direct": (POSITIONS, {"estimator": "direct"}),
    "exact": (POSITIONS, {"estimator": "exact"}),
    "REINFORCE": (POSITIONS, {"estimator": "reinforce"}),
    "REINFORCE, 4 draws": (POSITIONS, {"estimator": "reinforce", "baseline": "leave-one-out", "samples": 4}),
    "straight-through": (SAMPLES, {"estimator": "straight-through"}),
    "ReinMax": (SAMPLES, {"estimator": "reinmax"}),
    "Gumbel-softmax": (SAMPLES, {"estimator": "gumbel-softmax"}),
    "Gumbel-softmax, hard": (SAMPLES, {"estimator": "gumbel-softmax", "hard": True}),
}
# With rollouts, the value of a token is the reward of the rest of the sequence.
ROLLOUTS: dict[str, tuple[str, Options]] = {
    "averaged direct, rollouts": (POSITIONS, {"estimator": "averaged-direct", "credit": "rollout"}),
    "REINFORCE, rollouts": (POSITIONS, {"estimator": "reinforce", "credit": "rollout"}),
}
# Further variations, on one language only.
VARIATIONS: dict[str, tuple[str, Options]] = {
    "averaged direct, log D": (POSITIONS, {"estimator": "averaged-direct", "loss": "non-saturating"}),
    "averaged direct, −log(1 − D)": (POSITIONS, {"estimator": "averaged-direct", "loss": "saturating"}),
    "averaged direct after 5 epochs of likelihood": (
        CEILING,
        {"estimator": "averaged-direct", "pretrain_epochs": 5},
    ),
    "likelihood alone, no GAN": (CEILING, {"estimator": "averaged-direct", "pretrain_epochs": EPOCHS}),
}
METHODS_BY_PROBLEM = {
    PLAIN: METHODS,
    SMOOTH: {**METHODS, **ROLLOUTS, **VARIATIONS},
    BRACKETS: {**METHODS, **ROLLOUTS},
}


def judge_seeds(ends: Sequence[Mapping[str, float]]) -> str:
    """Return the number of seeds that reach 95 % validity and 80 % coverage, and how the other seeds failed."""
    kinds = Counter(_classify_seed(end) for end in ends)
    good = kinds.pop("good", 0)
    parts = [f"reached by {good} of {len(ends)}", *(f"{kind} {count}" for kind, count in sorted(kinds.items()))]
    return "; ".join(parts)


def _classify_seed(end: Mapping[str, float]) -> str:
    valid, covers = (end[name] >= least for name, least in GOAL.items())
    if valid and covers:
        return "good"
    if valid:
        return "leaves sentences out"
    return "writes invalid ones" if covers else "collapsed" if end["coverage"] < 0.1 else "partly learned"


SEQUENCES = Experiment(
    name="sequences",
    title="Sequence GANs: validity and coverage of two languages, by estimator",
    claim="The lecture notes: a GAN cannot differentiate the token that its LSTM samples. Each estimator of the "
    "library is used there: which of them train a generator that writes (almost) only sentences of the language, and "
    "(almost) all of them?",
    setting="Two languages: agreement, 300 sentences of at most 5 words, and brackets, 274 sequences of at most 8 "
    "brackets of two kinds. Generator: an LSTM of 64 units. Discriminator: a GRU of 64 units, which judges every "
    "prefix. Trained from scratch, Adam with a learning rate of 4e-3 that falls to zero over the second half and "
    f"betas of 0.5 and 0.99; a step updates each network once, with 100 real and 100 generated sequences; {EPOCHS} "
    "epochs of 50 steps.",
    options={"model": "sequence-gan", "epochs": EPOCHS},
    cells=tuple(
        Cell(problem, method, group, 4e-3, {**problem_options, **options})
        for problem, problem_options in PROBLEMS.items()
        for method, (group, options) in METHODS_BY_PROBLEM[problem].items()
    ),
    seeds=SEEDS,
    metrics=(VALIDITY, COVERAGE, REAL_NLL, DIVERGENCE, ENTROPY),
    epochs=(5, 10, EPOCHS),
    figures=(CurvesFigure((tuple(Panel("epoch", problem) for problem in PROBLEMS),)),),
    evaluated="the discriminator, for each token that is drawn",
    verdict=judge_seeds,
    notes=(
        "Validity is the probability of writing a sentence of the language. Coverage is the expected share of its "
        "sentences in a sample of ten times as many sentences as the language has. Both are exact: the generator's "
        "probability of every sentence is known.",
        "The verdict counts the seeds that reach 95 % validity and 80 % coverage. It classifies the other seeds: "
        "some cover the language but also write invalid sentences, some leave sentences out, some have collapsed to "
        "less than a tenth of the sentences.",
        "−log q of real sequences is at least the log of the number of sentences: 5.70 for agreement, 5.61 for "
        "brackets. A generator that writes all sentences equally often has this entropy.",
        "Smooth D: the squared gradient of the discriminator at real sequences is added to its loss (R1), weight 0.3.",
    ),
    quick=Quick(
        options={"epochs": 1, "batch_size": 500, "evaluate_draws": 200},
        note="1 epoch of 10 steps",
    ),
)


TEXT_EPOCHS = 4
_TEXT_METHODS = ("averaged direct", "exact", "straight-through", "ReinMax", "likelihood alone, no GAN")

SEQUENCES_TEXT = replace(
    SEQUENCES,
    name="sequences-text",
    title="Sequence GANs: the Constitution of the United States by character",
    claim="The same comparison on real text, which is in the public domain and comes with hardmax: pieces of 16 "
    "characters.",
    setting="45,000 characters of 70 kinds; a piece may begin at any character of the first eight tenths, the last "
    f"tenth is the test text. Networks and steps as for the languages with a smooth D, {TEXT_EPOCHS} epochs of 360 "
    "steps.",
    options={"model": "sequence-gan", "data": "constitution", "epochs": TEXT_EPOCHS, "penalty": 0.3},
    cells=tuple(
        Cell(
            "constitution",
            method,
            group,
            4e-3,
            {**options, **({"pretrain_epochs": TEXT_EPOCHS} if "no GAN" in method else {})},
        )
        for method, (group, options) in {**METHODS, **VARIATIONS}.items()
        if method in _TEXT_METHODS
    ),
    metrics=(DIVERGENCE, REAL_NLL, ENTROPY),
    epochs=(1, 2, TEXT_EPOCHS),
    figures=(CurvesFigure(),),
    verdict=None,
    notes=(
        "The test text is short and has words that the training text does not have: even the training text has a "
        "divergence from it. The numbers compare the generators, and do not measure the quality of the English.",
    ),
)
