"""Figure 4: an image for every category, without and with weak supervision."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Quick
from hardmax.experiments.tables.metrics import BOUND, Metric
from hardmax.experiments.tables.table1 import OURS
from hardmax.experiments.tables.table2 import DATA, OPTIONS, QUICK, SETTING

AGREEMENT = Metric("agreement", "agreement", "percent", higher=True, scale=100, digits=1)


FIGURE4 = Gallery(
    name="figure4",
    title="Figure 4: a picture for every category, without and with labels",
    claim="The paper: weak supervision helps the VAE to capture the class, and so to draw better pictures.",
    setting=f"Posterior direct, with augmentation and consistency where there are labels. {SETTING}",
    options=OPTIONS,
    cells=tuple(
        Cell(data, way, OURS, 1e-3, {**data_options, "labels": labels})
        for data, data_options in DATA.items()
        for way, labels in {"without labels": 0, "with 100 labels": 100}.items()
    ),
    figure=FigureSpec("categories", {"rows": 6}),
    metrics=(AGREEMENT, BOUND),
    notes=(
        "Every row of a panel is one Gaussian latent, every column a category. With labels a category is a class, and "
        "agreement is accuracy. Without, each class is given the category that it shares most test pictures with, no "
        "category twice (the best one-to-one matching); columns stand in that order.",
    ),
    quick=Quick(
        options={**QUICK.options, "epochs": 2, "batch_size": 100},
        note="the 4,500 pictures that come with hardmax in place of each set, 2 epochs, 100 test pictures",
        figure_options={"rows": 4},
    ),
)
