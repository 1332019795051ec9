"""Figure 2: how the test loss of the runs of table 1 falls for ten values, by epoch and by time."""

from dataclasses import replace

from hardmax.experiments import table1
from hardmax.experiments.panels import Panel, Picture

_COLUMNS = [table1.column(data, 10) for data in table1.DATA]

EXPERIMENT = replace(
    table1.EXPERIMENT,
    name="figure2",
    title="Figure 2: test loss for k = 10, by epoch and by time",
    claim="The paper: the exact gradient takes more epochs to converge than direct optimization; direct is 1.5 times "
    "slower than Gumbel-softmax, and below it at any time.",
    cells=tuple(cell for cell in table1.EXPERIMENT.cells if cell.column in _COLUMNS),
    view="epochs",
    pictures=(
        Picture(
            (
                tuple(Panel("epoch", column) for column in _COLUMNS),
                tuple(Panel("seconds", column) for column in _COLUMNS),
            )
        ),
    ),
)
