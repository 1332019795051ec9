"""The second pass: an atlas made for the scan, then the deformation again with it."""

from jaxtyping import Float
from torch import Tensor

from hardmax.random import stream
from hardmax.segmentation.atlas.atlas import Atlas
from hardmax.segmentation.fit.fitting import Fitter, ScanFit, fit_deformation
from hardmax.segmentation.fit.fusion import personal_prior
from hardmax.segmentation.fit.observing import Observed
from hardmax.segmentation.tissues.appearance import Appearances, appearances
from hardmax.segmentation.volumes.volume import Volume

_STEPS, _RATE = 50, 0.2  # half of the way, and shorter steps: most was done in the first pass


def personal_fit(
    volume: Volume,
    observed: Observed,
    fit: ScanFit,
    atlas: Atlas,
    prior: Float[Tensor, "M X Y Z"],
    looks: Appearances,
) -> tuple[ScanFit, Float[Tensor, "M X Y Z"]]:
    """Return the fit to an atlas of the maps that are most like the scan, place by place, and that atlas.

    Args:
        volume: the scan.
        observed: what of it is fitted.
        fit: of the first pass.
        atlas: with its maps.
        prior: `[M, X, Y, Z]`, its probabilities, softened.
        looks: which labels look the same.
    """
    own = personal_prior(volume, observed, fit, prior, looks, atlas.maps, atlas.grid)
    summed = appearances(own, atlas.grid, looks.mixing[looks.of_label])
    fitter = Fitter(observed, summed, fit.velocity_grid, stream(0, "second fit"))
    return fit_deformation(fitter, fit, steps=_STEPS, rate=_RATE), own
