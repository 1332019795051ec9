"""Cut an object out of an image: strokes on foreground and background give scores, and a minimum cut the best mask.

Nothing here depends on the page.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float, Int8, UInt8
from scipy import ndimage
from torch import Tensor

import hardmax as hm
from hardmax.data.image_reading import read_image, read_image_size
from hardmax.data.terrain import generate_maps
from hardmax.errors import ArgumentError
from hardmax.files import expand_path

__all__ = ["Stroke", "cut_image", "draw_strokes", "read_photo", "read_sample", "sample_cuts", "score_pixels"]

MOST_PIXELS = 2**16  # of an image that is cut
LONGEST_SIDE = 240  # of an image on the page, in pixels
SAMPLES = ("terrain", "portrait")
_TERRAIN = 6  # number of the map
_BINS = 16  # of a colour channel
_BLUR = 1.0  # bins: standard deviation of the filter of the histograms
_FLOOR = 1e-4  # probability that a colour was in no stroke
_FIXED = 1e3  # score of a pixel under a stroke, in nats
# Scores are rounded to multiples of this. Without it, a coupling across a sharp edge, such as exp(-50), is too small
# next to the others for float64, and the solver would use exact arithmetic: minutes instead of a tenth of a second.
_UNIT = 2.0**-8


@dataclass(frozen=True)
class Stroke:
    """A stroke of a round brush.

    Attributes:
        kind: 1 on the foreground, -1 on the background, 0 erases strokes.
        radius: radius of the brush in pixels.
        points: rows and columns of its centre, in the order in which they were painted.
    """

    kind: int
    radius: float
    points: tuple[tuple[int, int], ...]


def read_photo(path: str | Path, longest: int = LONGEST_SIDE) -> UInt8[np.ndarray, "H W 3"]:
    """Read an image of any size and mode, scaled down if its longer side has more pixels than `longest`.

    Raises:
        DataError: the file is broken, not an image, or has too many pixels.
    """
    path = expand_path(path)
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of what is an error, or is fixed, here
        height, width = read_image_size(path)
        scale = min(longest / max(height, width), 1)
        pixels = read_image(path, (max(2, round(scale * height)), max(2, round(scale * width)))).pixels
    return pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, -1)


@lru_cache(maxsize=len(SAMPLES))
def read_sample(name: str) -> UInt8[np.ndarray, "H W 3"]:
    """Return an image that comes with hardmax: "terrain", which is generated, or "portrait".

    The portrait is that of Grace Hopper by James S. Davis, US Navy, in the public domain; it comes with matplotlib.

    Raises:
        ArgumentError: an unknown name.
        DataError: this installation of matplotlib has no portrait.
    """
    if name == "portrait":
        return read_photo(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg")
    if name != "terrain":
        raise ArgumentError(f"there is no image {name!r:.80}; there are: {', '.join(SAMPLES)}")
    maps = generate_maps({"train": 1, "validation": 1, "test": _TERRAIN + 1}, cells=24, seed=0).test[_TERRAIN]
    return np.ascontiguousarray(maps.movedim(0, -1).numpy())


def thin_points(points: Sequence[tuple[int, int]], apart: float) -> tuple[tuple[int, int], ...]:
    """Return points of a stroke that are at least `apart` pixels from each other, with the first and the last one.

    Example:
        >>> thin_points([(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)], 2)
        ((0, 0), (0, 2), (0, 4), (0, 5))
    """
    out = [points[0]]
    for point in points[1:]:
        if math.dist(point, out[-1]) >= apart:
            out.append(point)
    return tuple(out) if out[-1] == points[-1] else (*out, points[-1])


def draw_strokes(strokes: Sequence[Stroke], height: int, width: int) -> Int8[np.ndarray, "H W"]:
    """Return the pixels under strokes: 1 on the foreground, -1 on the background, 0 elsewhere; later ones win.

    Example:
        >>> draw_strokes([Stroke(1, 0.5, ((0, 0), (0, 2)))], 2, 4).tolist()
        [[1, 1, 1, 0], [0, 0, 0, 0]]
    """
    out = np.zeros((height, width), np.int8)
    for stroke in strokes:
        points = np.array(stroke.points, dtype=np.float64).reshape(-1, 2)
        begins, ends = (points[:-1], points[1:]) if len(points) > 1 else (points, points)
        for begin, end in zip(begins, ends, strict=True):
            low = np.floor(np.minimum(begin, end) - stroke.radius).astype(int).clip(0, (height, width))
            high = (np.ceil(np.maximum(begin, end) + stroke.radius).astype(int) + 1).clip(low, (height, width))
            rows, columns = np.mgrid[low[0] : high[0], low[1] : high[1]]
            places = np.stack([rows, columns], -1) - begin
            along = end - begin
            # The nearest point of the segment from begin to end.
            share = np.clip(places @ along / max(float(along @ along), 1e-12), 0, 1)
            near = np.linalg.norm(places - share[..., None] * along, axis=-1) <= stroke.radius
            out[low[0] : high[0], low[1] : high[1]][near] = stroke.kind
    return out


def score_pixels(
    pixels: UInt8[np.ndarray, "H W 3"], marks: Int8[np.ndarray, "H W"], *, coupling: float = 8.0, trust: float = 1.0
) -> Float[Tensor, "D"]:
    r"""Return scores of `PairwiseBinary.grid(H, W)` for the mask of the foreground.

    $$ h(z) = \sum_i u_i z_i + \sum_{(i, j)} c_{ij} \, \mathbb{1}[z_i = z_j], \qquad
       u_i = \mathrm{trust} \cdot \log \frac{p(x_i \mid \mathrm{foreground})}{p(x_i \mid \mathrm{background})}, \qquad
       c_{ij} = \mathrm{coupling} \cdot \exp\Big(-\frac{\|x_i - x_j\|^2}{2 \, \overline{\|x_i - x_j\|^2}}\Big) $$

    Both densities are smoothed histograms of the colours under the strokes, of 16 bins for red, green and blue. A
    coupling is weak where the colour changes by more than it does between two neighbours on average, so that the cut
    follows edges. Pixels under strokes are fixed.

    Args:
        pixels: `[H, W, 3]`, red, green and blue.
        marks: `[H, W]`, 1 for pixels of the foreground, -1 for pixels of the background, 0 for unknown ones.
        coupling: what two equal neighbours of the same colour are worth, in nats, at least 0.
        trust: weight of the colours, at least 0; 0 leaves only strokes and edges.

    Returns:
        `[D]`, none of the couplings negative: the arg max is a minimum cut.

    Raises:
        ArgumentError: the image is too large or has one row, or an option is negative.

    Example:
        >>> import numpy as np, hardmax as hm
        >>> pixels = np.zeros((4, 6, 3), np.uint8)
        >>> pixels[:, 3:] = 200
        >>> marks = np.zeros((4, 6), np.int8)
        >>> marks[0, 0], marks[0, 5] = -1, 1
        >>> scores = score_pixels(pixels, marks)
        >>> hm.PairwiseBinary.grid(4, 6, supermodular=True).argmax(scores).view(4, 6)[3].tolist()
        [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]

    References:
        Boykov & Jolly, "Interactive graph cuts for optimal boundary and region segmentation of objects in N-D images",
        2001. The scale of the edges is that of Rother, Kolmogorov & Blake, "GrabCut", 2004.
    """
    height, width = marks.shape
    if pixels.shape != (height, width, 3) or min(height, width) < 2 or height * width > MOST_PIXELS:
        raise ArgumentError(
            f"an image to cut has at least 2 rows and columns and at most {MOST_PIXELS:,} pixels, with a mark for "
            f"each, got {list(pixels.shape)} and {list(marks.shape)}"
        )
    if not (coupling >= 0 and trust >= 0):
        raise ArgumentError(f"coupling and trust must be at least zero, got {coupling} and {trust}")
    unary = trust * _compare_colours(pixels, marks)
    unary = np.where(marks == 0, unary, _FIXED * marks.astype(np.float64))
    x = pixels.astype(np.float64)
    squares = [np.square(np.diff(x, axis=axis)).sum(-1) for axis in (1, 0)]
    mean = max(float(np.concatenate([part.ravel() for part in squares]).mean()), 1e-12)
    right, below = (torch.from_numpy(coupling * np.exp(-part / (2 * mean))) for part in squares)
    return hm.PairwiseBinary.reward_agreement(
        *(_round_scores(part) for part in (torch.from_numpy(unary), right, below))
    )


def _round_scores(scores: Tensor) -> Tensor:
    return (scores / _UNIT).round() * _UNIT


def _compare_colours(pixels: UInt8[np.ndarray, "H W 3"], marks: Int8[np.ndarray, "H W"]) -> Float[np.ndarray, "H W"]:
    """Return the log-ratio of the colour densities of foreground and background; zero unless both have strokes."""
    if not ((marks > 0).any() and (marks < 0).any()):
        return np.zeros(marks.shape)
    bins = (pixels.astype(np.int64) * _BINS) // 256
    index = (bins[..., 0] * _BINS + bins[..., 1]) * _BINS + bins[..., 2]
    logs = []
    for kind in (1, -1):
        counts = np.bincount(index[marks == kind], minlength=_BINS**3).reshape(_BINS, _BINS, _BINS).astype(np.float64)
        smooth = np.asarray(ndimage.gaussian_filter(counts, _BLUR, mode="nearest"))
        density = (1 - _FLOOR) * smooth / smooth.sum() + _FLOOR / _BINS**3
        logs.append(np.log(density).ravel()[index])
    return logs[0] - logs[1]


def cut_image(scores: Float[Tensor, "D"], height: int, width: int) -> Bool[np.ndarray, "H W"]:
    """Return the best mask for the scores of `score_pixels`: a minimum cut, proved optimal."""
    return build_grid(height, width).argmax(scores).view(height, width).bool().numpy()


def sample_cuts(
    scores: Float[Tensor, "D"], height: int, width: int, *, samples: int, noise: float = 1.0, seed: int = 0
) -> Float[np.ndarray, "H W"]:
    """Return how often each pixel is in the foreground of a minimum cut with noise on its score (perturb-and-MAP).

    Args:
        scores: `[D]`, those of `score_pixels`.
        height: number of rows.
        width: number of columns.
        samples: number of cuts.
        noise: scale of the noise, > 0.
        seed: seed of the noise.
    """
    space = build_grid(height, width)
    draws = space.noise((samples,), torch.Generator().manual_seed(seed), dtype=scores.dtype)
    return space.argmax(_round_scores(scores + noise * draws)).mean(0).view(height, width).numpy()


@lru_cache(maxsize=8)
def build_grid(height: int, width: int) -> hm.PairwiseBinary:
    """Return the space of the masks of an image; large ones take a moment to build, and the last few are kept."""
    return hm.PairwiseBinary.grid(height, width, supermodular=True)
