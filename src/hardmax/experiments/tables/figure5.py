"""Figure 5: faces with attributes turned on and off."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Quick
from hardmax.experiments.tables.metrics import Metric
from hardmax.experiments.tables.table1 import OURS

LABELS = 1000
EPOCHS = 36
HEAD_EPOCHS = 8


FIGURE5 = Gallery(
    name="figure5",
    title="Figure 5: attributes turned on and off",
    claim="The paper, on CelebA: generated faces with discrete semantics turned on and off.",
    setting="Aligned faces, 64x64 RGB, of the data set `faces`, which you provide; two bits, smiling and male, and a "
    "Gaussian of 64 dimensions; convolutional encoder and decoder, Gaussian pixels, Adam with a learning rate of 1e-3 "
    f"that falls to zero over the second half, 50 images and 50 labelled images per step, {EPOCHS} epochs, the bound "
    f"from epoch {HEAD_EPOCHS + 1} on. The attributes of {LABELS:,} of the 2,000 faces are known. The encoder must "
    "recognise the bits that an image was generated with.",
    options={"model": "mixed", "epochs": EPOCHS},
    cells=(
        Cell(
            "faces",
            "posterior direct",
            OURS,
            1e-3,
            {
                "data": "faces",
                "attributes": "smiling,male",
                "labels": LABELS,
                "binarize": "none",
                "augment": "mirror",
                "batch_size": 50,
                "head_epochs": HEAD_EPOCHS,
                "labelled_elbo": 0.0,  # the bound of all images is enough, and a step takes a fifth less time
                "recognition": 5.0,
            },
        ),
    ),
    figure=FigureSpec("attributes", {"rows": 6, "samples": 250, "judge_epochs": 20}),
    metrics=(
        Metric("real", "judge on real", "percent", higher=True, scale=100, digits=1),
        Metric("recognised", "recognised", "percent", higher=True, scale=100, digits=1),
        Metric("others", "others changed", "percent", scale=100, digits=1),
        Metric("pixels", "pixels", "grey values of 255", scale=255, digits=1),
        Metric("features", "features", "standard deviations"),
    ),
    notes=(
        "Every row is one Gaussian latent, every column a setting of the attributes.",
        "The judge is an evaluation classifier, a small convolutional network trained on the attributes of all real "
        "training faces. *judge on real* is its accuracy on real test faces, *recognised* the share of generated "
        "faces in which it recognises the attribute that was set. *others changed* is the share of flips of this "
        "attribute that change its answer for another attribute; *pixels* is the mean absolute change of the image, "
        "*features* that of its first 50 principal components among real faces, each in its own standard deviations. "
        "The line *two samples* has the same numbers for two independent generated faces.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "attributes": "shoe,bright",
            "labels": 100,
            "binarize": "threshold",
            "epochs": 3,
            "head_epochs": 1,
            "batch_size": 100,
            "evaluate_images": 100,
        },
        note="the 4,500 pieces of clothing that come with hardmax, whether they are shoes, and bright; 3 epochs, a "
        "judge of one epoch, 20 Gaussians",
        figure_options={"samples": 20, "judge_epochs": 1},
    ),
)
