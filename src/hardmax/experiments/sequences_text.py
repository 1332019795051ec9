"""Real text by character: what is left of a GAN where the language is not known."""

from dataclasses import replace

from hardmax.experiments import sequences
from hardmax.experiments.declaration import Cell
from hardmax.experiments.metrics import DIVERGENCE, ENTROPY, REAL_NLL
from hardmax.experiments.panels import Picture

EPOCHS = 4
_WAYS = ("averaged direct", "exact", "straight-through", "ReinMax", "likelihood alone, no GAN")

EXPERIMENT = replace(
    sequences.EXPERIMENT,
    name="sequences-text",
    title="Sequence GANs: the Constitution of the United States by character",
    claim="The same on real text, which is in the public domain and comes with hardmax: pieces of 16 characters.",
    setting="45,000 characters of 70 kinds; pieces begin everywhere in the first eight tenths, the last tenth is "
    f"the test text. Networks and steps as for the languages with a smooth D, {EPOCHS} epochs of 360 steps.",
    options={"model": "sequence-gan", "data": "constitution", "epochs": EPOCHS, "penalty": 0.3},
    cells=tuple(
        Cell("constitution", way, group, 4e-3, {**options, **({"pretrain_epochs": EPOCHS} if "no GAN" in way else {})})
        for way, (group, options) in {**sequences.WAYS, **sequences.MORE}.items()
        if way in _WAYS
    ),
    metrics=(DIVERGENCE, REAL_NLL, ENTROPY),
    epochs=(1, 2, EPOCHS),
    pictures=(Picture(),),
    verdict=None,
    notes=(
        "The test text is short and has words that the training text has not: even the training text is at a "
        "divergence from it. The numbers compare the generators, and are no measure of English.",
    ),
)
