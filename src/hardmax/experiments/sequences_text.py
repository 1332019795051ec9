"""Real text by character: what is left of a GAN where the language is not known."""

from dataclasses import replace

from hardmax.experiments import sequences
from hardmax.experiments.declaration import Cell
from hardmax.experiments.metrics import DIVERGENCE, ENTROPY, REAL_NLL
from hardmax.experiments.panels import Picture

EPOCHS = 200
_WAYS = ("averaged direct", "exact", "straight-through", "ReinMax", "likelihood alone, no GAN")

EXPERIMENT = replace(
    sequences.EXPERIMENT,
    name="sequences-text",
    title="Sequence GANs: the Zen of Python by character",
    claim="The same on real text: 16 characters of the Zen of Python, which is in the public domain and in every "
    "Python.",
    setting="855 characters of 44 kinds; pieces of 16 begin everywhere in the first eight tenths, the last tenth is "
    f"the test text. Networks and steps as for the languages with a smooth D, "
    f"{EPOCHS} epochs of 7 steps.",
    options={"model": "sequence-gan", "data": "zen", "epochs": EPOCHS, "penalty": 0.3},
    cells=tuple(
        Cell("zen", way, group, 4e-3, {**options, **({"pretrain_epochs": EPOCHS} if "no GAN" in way else {})})
        for way, (group, options) in {**sequences.WAYS, **sequences.MORE}.items()
        if way in _WAYS
    ),
    metrics=(DIVERGENCE, REAL_NLL, ENTROPY),
    epochs=(20, 60, EPOCHS),
    pictures=(Picture(),),
    verdict=None,
    notes=(
        "The test text is short and has words that the training text has not: even the training text is at a "
        "divergence from it. The numbers compare the generators, and are no measure of English.",
    ),
)
