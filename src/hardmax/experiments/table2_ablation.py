"""Table 2, piece by piece: what the discrete latent itself is worth with a hundred labels, and what other losses do."""

from hardmax.experiments.declaration import Cell, Experiment, Options, Quick
from hardmax.experiments.metrics import ACCURACY, BOUND, SAMPLED
from hardmax.experiments.panels import Panel, Picture
from hardmax.experiments.table2 import DATA, EPOCHS, OPTIONS, PLAIN, QUICK, SEEDS, SETTING

_PIECES, _LOSSES = "pieces", "how labels teach"
_NO_VAE: Options = {"elbo": 0.0}
_NO_CONSISTENCY: Options = {"consistency": 0.0}

WAYS: dict[str, tuple[str, Options]] = {
    "labels alone": (_PIECES, {**_NO_VAE, **PLAIN}),
    "labels, augmentation": (_PIECES, {**_NO_VAE, **_NO_CONSISTENCY}),
    "consistency, no VAE": (_PIECES, _NO_VAE),
    "VAE, no consistency": (_PIECES, _NO_CONSISTENCY),
    "VAE and consistency": (_PIECES, {}),
    "the same by cross-entropy": (_LOSSES, {"supervision": "cross-entropy"}),
    "the same by Hamming loss": (_LOSSES, {"supervision": "hamming"}),
    # The released code goes 1,199 times through its labelled pictures first: with a hundred, about five epochs of ours.
    "labelled pictures first": (_LOSSES, {"schedule": "labelled-first", "head_epochs": 5}),
}

EXPERIMENT = Experiment(
    name="table2-ablation",
    title="Table 2, piece by piece: 100 labels",
    claim="What do labels, augmentation, consistency and the VAE bring, and does it matter how labels teach?",
    setting=f"Pictures rounded at 0.5, for the encoder too; 100 labels. {SETTING}",
    options={**OPTIONS, "labels": 100},
    cells=tuple(
        Cell(data, way, group, 1e-3, {**own, **options})
        for data, own in DATA.items()
        for way, (group, options) in WAYS.items()
    ),
    seeds=SEEDS,
    metrics=(ACCURACY, BOUND, SAMPLED),
    epochs=(1, 5, 10, EPOCHS),
    pictures=(Picture((tuple(Panel("epoch", data) for data in DATA),)),),
    notes=(
        "Where the VAE takes no part the bound is that of a decoder that has learnt nothing.",
        "Labelled pictures first, as in the code released with the paper: five epochs on them alone, then the others "
        "alone, by the bound; no consistency.",
    ),
    quick=Quick(
        options={**QUICK.options, "epochs": 2, "head_epochs": 1},  # one epoch before the bound, and one with it
        note="the 4,500 pictures that come with hardmax in place of each set, 2 epochs of 9 steps, 100 test pictures",
    ),
)
