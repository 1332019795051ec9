"""Programs that compute what the solver lab shows: the text of "Copy as Python"."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from hardmax.studio.solver.image_cut import Stroke
from hardmax.studio.solver.problems import ESTIMATORS, LabSetting


def write_code(setting: LabSetting) -> str:
    """Return a program that solves the problem and computes the same gradient."""
    height, width = setting.values.shape
    is_path, is_cut = setting.problem == "path", setting.problem == "cut"
    noise = f"{setting.noise:g}"
    if setting.problem == "matching":
        space, scores = f"hm.Permutation({height})", f"cells / {noise}"
    elif is_cut:
        space = f"hm.PairwiseBinary.grid({height}, {width}, supermodular=True)"
        couplings = f"torch.full(({height}, {width - 1}), c), torch.full(({height - 1}, {width}), c)"
        scores = f"space.reward_agreement(cells, {couplings}) / {noise}"
    elif setting.monotone:
        space, scores = f'hm.GridPath({height}, {width}, on="nodes")', f"cells / {noise}"
    else:
        space = (
            f'hm.GridPath({height}, {width}, connectivity=8, monotone=False, on="nodes", '
            f'perturbation=hm.Perturbation("multiplicative", {noise}))'
        )
        scores = "cells"
    weights = "torch.cat([worth.flatten(), torch.zeros(space.score_shape[0] - worth.numel())])" if is_cut else "worth"
    lines = [
        "import torch",
        "import hardmax as hm",
        "",
        f"{'costs' if is_path else 'values'} = torch.tensor({_write_rows(setting.values)})",
        f"worth = torch.tensor({_write_rows(setting.worth)})  # of each cell of z",
        f"cells = {'-costs' if is_path else 'values.clone()'}  # larger is better",
        "cells.requires_grad_()",
        f"space = {space}",
        *([f"c = {setting.coupling:g}  # what equal neighbours are worth"] if is_cut else []),
        f"scores = {scores}",
        f"z = space.argmax(scores).view({height}, {width})",
        "print(z.int())",
        "",
        f"generator = torch.Generator().manual_seed({setting.seed})",
        f"noise = space.noise(({setting.samples},), generator)",
        f"perturbed = space.argmax(space.perturb(scores.detach(), noise)).view(-1, {height}, {width})",
        "print(perturbed.mean(0))  # how often each cell is chosen",
        "",
        f"f = hm.LinearObjective({weights}, space)",
        f"estimator = hm.{ESTIMATORS[setting.estimator](setting.step)!r}",
        f"generator = torch.Generator().manual_seed({setting.seed})",
        f"out = hm.expectation(f, scores, space, estimator, samples={setting.samples}, generator=generator)",
        "out.value.backward()",
        "print(cells.grad)",
    ]
    return "\n".join(lines) + "\n"


def _write_rows(values: Float[Tensor, "H W"]) -> str:
    rows = ",\n    ".join("[" + ", ".join(f"{float(value)!r}" for value in row) + "]" for row in values)
    return f"[\n    {rows},\n]"


def write_cut_code(source: str, strokes: Sequence[Stroke], *, coupling: float, trust: float) -> str:
    """Return a program that cuts an image and writes the mask to a file.

    Args:
        source: an expression for its pixels, such as `read_photo("photo.png")`.
        strokes: the strokes.
        coupling: see `score_pixels`.
        trust: see `score_pixels`.
    """
    lines = [
        "from PIL import Image",
        "from hardmax.studio.solver.image_cut import *",
        "",
        f"pixels = {source}",
        "strokes = [  # kind: 1 on the foreground, -1 on the background; radius; rows and columns",
        *(f"    Stroke({stroke.kind}, {stroke.radius:g}, {stroke.points})," for stroke in strokes),
        "]",
        "height, width, _ = pixels.shape",
        "marks = draw_strokes(strokes, height, width)",
        f"scores = score_pixels(pixels, marks, coupling={coupling:g}, trust={trust:g})",
        "mask = cut_image(scores, height, width)  # space.argmax(scores): a minimum cut",
        'Image.fromarray(mask).save("mask.png")',
    ]
    return "\n".join(lines) + "\n"
