"""Figure 6: how the test loss of the runs of table 1 falls for twenty to fifty values, by epoch and by time."""

from dataclasses import replace

from hardmax.experiments import table1
from hardmax.experiments.panels import Panel, Picture

_COLUMNS = [[table1.column(data, k) for data in table1.DATA] for k in table1.CATEGORIES if k > 10]

EXPERIMENT = replace(
    table1.EXPERIMENT,
    name="figure6",
    title="Figure 6: test loss for k = 20, 30, 40, 50",
    claim="The paper: more evidence that the exact gradient converges more slowly than direct optimization.",
    cells=tuple(cell for cell in table1.EXPERIMENT.cells if any(cell.column in row for row in _COLUMNS)),
    pictures=(
        Picture(tuple(tuple(Panel("epoch", column) for column in row) for row in _COLUMNS), title=", by epoch"),
        Picture(
            tuple(tuple(Panel("seconds", column) for column in row) for row in _COLUMNS),
            name="-seconds",
            title=", by time",
        ),
    ),
)
