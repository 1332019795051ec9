"""Signs that a segmentation is not to be trusted. No torch here."""

import math

import numpy as np
from jaxtyping import Float

from hardmax.segmentation.volumes.labels import LabelTable

# Brains of grown people have about 900 to 1,700 ml without the fluid around them; children and illness widen that.
_LEAST, _MOST = 500.0, 2200.0
_MISSING = 0.25  # part of the structures


def suspicions(
    sizes: Float[np.ndarray, "M"], table: LabelTable, log_likelihood: float, least: float | None
) -> tuple[str, ...]:
    """Return why a result is doubtful, in sentences; nothing if it is not.

    Args:
        sizes: `[M]`, mm^3 of each label.
        table: the labels.
        log_likelihood: of the scan under the fitted model, per voxel.
        least: what scans of brains have at least; None if the model does not know.

    Example:
        >>> import numpy as np
        >>> from hardmax.segmentation.volumes.labels import STRUCTURES
        >>> sizes = np.full(19, 70_000.0)
        >>> suspicions(sizes, STRUCTURES, log_likelihood=-2.1, least=-3.0)
        ()
        >>> suspicions(sizes / 10, STRUCTURES, log_likelihood=-5.2, least=-3.0)[0]
        'Low likelihood (-5.20 per voxel, expected at least -3.00): this may not be the scan of a brain.'
    """
    out = []
    if math.isnan(log_likelihood) or (least is not None and log_likelihood < least):
        expected = "" if least is None else f", expected at least {least:.2f}"
        out.append(f"Low likelihood ({log_likelihood:.2f} per voxel{expected}): this may not be the scan of a brain.")
    brain = float(sizes[table.judged].sum()) / 1000
    if not _LEAST <= brain <= _MOST:
        out.append(f"The brain has {brain:,.0f} ml, expected {_LEAST:,.0f} to {_MOST:,.0f}.")
    missing = [table.names[index] for index in table.judged if not sizes[index]]
    if len(missing) > _MISSING * len(table.judged):
        out.append(f"{len(missing)} of {len(table.judged)} structures were not found: {', '.join(missing)}.")
    return tuple(out)
