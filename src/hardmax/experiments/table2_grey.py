"""Table 2 with grey pictures for the encoder: the bound is still that of the rounded ones."""

from dataclasses import replace

from hardmax.experiments import table2

_METHODS = ("direct", "posterior direct, augmentation, consistency")

EXPERIMENT = replace(
    table2.EXPERIMENT,
    name="table2-grey",
    title="Table 2, the encoder sees grey pictures",
    claim="The code released with the paper shows grey pictures where there are labels, and rounded ones elsewhere; "
    "here all of them are grey. What the encoder sees may be anything: the bound is that of the rounded pictures.",
    setting=f"Pictures rounded at 0.5 for the decoder, grey for the encoder. {table2.SETTING}",
    options={**table2.EXPERIMENT.options, "encoder_input": "grey"},
    cells=tuple(cell for cell in table2.EXPERIMENT.cells if cell.row in _METHODS),
)
