"""GANs of two languages with known grammars, and of real text: which estimator trains them?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hardmax.experiments.tables.declaration import Cell, Experiment, Options, Panel, Picture, Quick
from hardmax.experiments.tables.metrics import COVERAGE, DIVERGENCE, ENTROPY, REAL_NLL, VALIDITY

EPOCHS = 20
SEEDS = (0, 1, 2)
ENOUGH = {"validity": 0.95, "coverage": 0.8}

POSITIONS, SAMPLES, CEILING = "at each position", "through samples", "likelihood"
PLAIN, SMOOTH, BRACKETS = "agreement", "agreement, smooth D", "brackets, smooth D"

PROBLEMS: dict[str, Options] = {
    PLAIN: {"data": "agreement", "penalty": 0.0},
    SMOOTH: {"data": "agreement", "penalty": 0.3},
    BRACKETS: {"data": "brackets", "penalty": 0.3},
}
WAYS: dict[str, tuple[str, Options]] = {
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
# The value of a token is the reward of the rest of the sequence.
ROLLOUTS: dict[str, tuple[str, Options]] = {
    "averaged direct, rollouts": (POSITIONS, {"estimator": "averaged-direct", "credit": "rollout"}),
    "REINFORCE, rollouts": (POSITIONS, {"estimator": "reinforce", "credit": "rollout"}),
}
# Further variations, on one language only.
MORE: dict[str, tuple[str, Options]] = {
    "averaged direct, log D": (POSITIONS, {"estimator": "averaged-direct", "loss": "non-saturating"}),
    "averaged direct, −log(1 − D)": (POSITIONS, {"estimator": "averaged-direct", "loss": "saturating"}),
    "averaged direct after 5 epochs of likelihood": (
        CEILING,
        {"estimator": "averaged-direct", "pretrain_epochs": 5},
    ),
    "likelihood alone, no GAN": (CEILING, {"estimator": "averaged-direct", "pretrain_epochs": EPOCHS}),
}
MADE = {PLAIN: WAYS, SMOOTH: {**WAYS, **ROLLOUTS, **MORE}, BRACKETS: {**WAYS, **ROLLOUTS}}


def judge_seeds(ends: Sequence[Mapping[str, float]]) -> str:
    """Return the number of seeds that reach 95 % validity and 80 % coverage, and how the others failed."""
    kinds = Counter(_kind(end) for end in ends)
    good = kinds.pop("good", 0)
    parts = [f"reached by {good} of {len(ends)}", *(f"{kind} {count}" for kind, count in sorted(kinds.items()))]
    return "; ".join(parts)


def _kind(end: Mapping[str, float]) -> str:
    valid, covers = (end[name] >= least for name, least in ENOUGH.items())
    if valid and covers:
        return "good"
    if valid:
        return "leaves sentences out"
    return "writes wrong ones" if covers else "collapsed" if end["coverage"] < 0.1 else "half learnt"


SEQUENCES = Experiment(
    name="sequences",
    title="Sequence GANs: validity and coverage of two languages, by estimator",
    claim="The lecture notes: a GAN cannot differentiate the token that its LSTM draws. Every estimator of the library "
    "in its place: which of them teach a generator to write (almost) only sentences, and (almost) all of them?",
    setting="Two languages: agreement, 300 sentences of at most 5 words, and brackets, 274 of at most 8 brackets of "
    "two kinds. Generator: an LSTM of 64. Discriminator: a GRU of 64, which judges every prefix. From scratch, Adam at "
    "4e-3 with betas 0.5 and 0.99 that falls to zero over the second half, 100 real and 100 generated sequences in "
    f"each turn, one turn each in a step, {EPOCHS} epochs of 50 steps.",
    options={"model": "sequence-gan", "epochs": EPOCHS},
    cells=tuple(
        Cell(problem, way, group, 4e-3, {**problem_options, **options})
        for problem, problem_options in PROBLEMS.items()
        for way, (group, options) in MADE[problem].items()
    ),
    seeds=SEEDS,
    metrics=(VALIDITY, COVERAGE, REAL_NLL, DIVERGENCE, ENTROPY),
    epochs=(5, 10, EPOCHS),
    pictures=(Picture((tuple(Panel("epoch", problem) for problem in PROBLEMS),)),),
    evaluated="the discriminator, for each token that is drawn",
    verdict=judge_seeds,
    notes=(
        "Validity is the probability of writing a sentence of the language, coverage the share of its sentences that "
        "ten draws for each are expected to hold. Both are exact: the generator's probability of every sentence is "
        "known.",
        "The verdict counts the seeds that come to 95 % validity and 80 % coverage. Of the others some write wrong "
        "sentences beside all right ones, some leave sentences out, some have collapsed to less than a tenth of them.",
        "−log q of real sequences is at least the log of the number of sentences: 5.70 for agreement, 5.61 for "
        "brackets. A generator that writes all sentences equally often has that entropy.",
        "Smooth D: the squared slope of the discriminator at real sequences is added to its loss (R1), weight 0.3.",
    ),
    quick=Quick(
        options={"epochs": 1, "batch_size": 500, "evaluate_draws": 200},
        note="1 epoch of 10 steps",
    ),
)


TEXT_EPOCHS = 4
_WAYS = ("averaged direct", "exact", "straight-through", "ReinMax", "likelihood alone, no GAN")

SEQUENCES_TEXT = replace(
    SEQUENCES,
    name="sequences-text",
    title="Sequence GANs: the Constitution of the United States by character",
    claim="The same on real text, which is in the public domain and comes with hardmax: pieces of 16 characters.",
    setting="45,000 characters of 70 kinds; pieces begin everywhere in the first eight tenths, the last tenth is "
    f"the test text. Networks and steps as for the languages with a smooth D, {TEXT_EPOCHS} epochs of 360 steps.",
    options={"model": "sequence-gan", "data": "constitution", "epochs": TEXT_EPOCHS, "penalty": 0.3},
    cells=tuple(
        Cell(
            "constitution",
            way,
            group,
            4e-3,
            {**options, **({"pretrain_epochs": TEXT_EPOCHS} if "no GAN" in way else {})},
        )
        for way, (group, options) in {**WAYS, **MORE}.items()
        if way in _WAYS
    ),
    metrics=(DIVERGENCE, REAL_NLL, ENTROPY),
    epochs=(1, 2, TEXT_EPOCHS),
    pictures=(Picture(),),
    verdict=None,
    notes=(
        "The test text is short and has words that the training text has not: even the training text is at a "
        "divergence from it. The numbers compare the generators, and are no measure of English.",
    ),
)
