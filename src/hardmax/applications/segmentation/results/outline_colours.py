"""The colours of outlines in quality images, which must be easy to distinguish. No torch here."""

import colorsys
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from hardmax.applications.segmentation.volumes.labels import LabelTable

Colour = tuple[float, float, float]  # red, green and blue, 0 to 1

_LIGHT = 0.6  # least lightness of an outline, to be visible on a dark scan
_APART = 6.0  # least difference of two colours; 2 is hard to see in thin lines
_CANDIDATES = [
    colorsys.hls_to_rgb(hue / 36, light, full) for hue in range(36) for light in (0.6, 0.72, 0.84) for full in (1, 0.6)
]
# From linear RGB to the responses of the cones, and from their cube roots to lightness, green-red and blue-yellow.
_TO_CONES = np.array([[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696],
                      [0.08830246, 0.28171884, 0.6299787]])  # fmt: skip
_TO_OKLAB = np.array([[0.21045426, 0.7936178, -0.00407205], [1.9779985, -2.4285922, 0.45059371],
                      [0.02590404, 0.78277177, -0.80867577]])  # fmt: skip


@lru_cache(maxsize=8)
def choose_outline_colours(table: LabelTable) -> tuple[Colour, ...]:
    """Return a colour for the outline of each label, the same in all images.

    It is that of the table, lightened. A label whose colour is too near to that of an earlier one gets the colour that
    is farthest from all others: many tables, FreeSurfer's among them, have shades of one colour for structures that
    touch. Labels that have one colour in the table, such as those of the left and the right side, keep one colour.

    Example:
        >>> from hardmax.applications.segmentation.volumes.labels import STRUCTURES
        >>> colours = choose_outline_colours(STRUCTURES)
        >>> cortex, ventral = (colours[STRUCTURES.index(name)] for name in ("cerebral_cortex", "ventral_DC"))
        >>> measure_difference(cortex, ventral) > 6
        True
    """
    chosen = {label.colour: _lighten(label.colour) for label in table.labels[1:]}
    for number, colour in enumerate(chosen):
        earlier, others = list(chosen)[:number], [other for other in chosen if other != colour]
        if all(measure_difference(chosen[colour], chosen[other]) >= _APART for other in earlier):
            continue
        chosen[colour] = max(
            _CANDIDATES, key=lambda one: min(measure_difference(one, chosen[other]) for other in others)
        )
    background = _lighten(table.labels[0].colour)
    return (background, *(chosen[label.colour] for label in table.labels[1:]))


def measure_difference(first: Colour, second: Colour) -> float:
    """Return how different two colours look: 100 times their distance in OKLab; black and white are 100 apart.

    References:
        Ottosson, "A perceptual color space for image processing", 2020.
    """
    return 100 * float(np.linalg.norm(_convert_to_oklab(first) - _convert_to_oklab(second)))


@lru_cache(maxsize=4096)
def _convert_to_oklab(colour: Colour) -> Float[np.ndarray, "3"]:
    stored = np.array(colour)
    linear = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
    return _TO_OKLAB @ np.cbrt(_TO_CONES @ linear)


def _lighten(colour: tuple[int, int, int]) -> Colour:
    red, green, blue = (part / 255 for part in colour)
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    return colorsys.hls_to_rgb(hue, max(light, _LIGHT), full)
