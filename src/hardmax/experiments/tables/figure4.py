"""Figure 4: an image for every category, without and with weak supervision."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Quick
from hardmax.experiments.tables.metrics import BOUND, Metric
from hardmax.experiments.tables.table1 import OURS
from hardmax.experiments.tables.table2 import DATA, OPTIONS, QUICK, SETTING

AGREEMENT = Metric("agreement", "agreement", "percent", higher=True, scale=100, digits=1)


FIGURE4 = Gallery(
    name="figure4",
    title="Figure 4: an image for every category, without and with labels",
    claim="The paper: weak supervision helps the VAE to represent the class, and so to generate better images.",
    setting=f"Posterior direct, with augmentation and consistency where there are labels. {SETTING}",
    options=OPTIONS,
    cells=tuple(
        Cell(data, supervision, OURS, 1e-3, {**data_options, "labels": labels})
        for data, data_options in DATA.items()
        for supervision, labels in {"without labels": 0, "with 100 labels": 100}.items()
    ),
    figure=FigureSpec("categories", {"rows": 6}),
    metrics=(AGREEMENT, BOUND),
    notes=(
        "Every row of a panel is one Gaussian latent, every column a category. With labels, a category is a class, "
        "and agreement is accuracy. Without labels, each class is matched with one category, so that as many test "
        "images as possible agree (the best one-to-one matching); columns are in the order of the classes.",
    ),
    quick=Quick(
        options={**QUICK.options, "epochs": 2, "batch_size": 100},
        note="the 4,500 images that come with hardmax in place of each data set, 2 epochs, 100 test images",
        figure_options={"rows": 4},
    ),
)
