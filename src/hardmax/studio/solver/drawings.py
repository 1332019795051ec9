"""Drawings of the solver lab: a grid with the best decision and the perturbed ones over it, and its gradient."""

import numpy as np
from jaxtyping import Float
from markupsafe import Markup
from PIL import Image

from hardmax.applications.decisions.map_sheet import order_cells
from hardmax.drawing.grids import colour_signs, colour_values, draw_outline, draw_path, draw_shares
from hardmax.drawing.svg import COLOURS
from hardmax.studio.solver.problems import PROBLEMS, LabSetting, LabSolution

_BEST, _OTHERS, _AVOID = "#ffffff", COLOURS[1], COLOURS[3]
_DISC = "#e8eaed"  # neither of the colours of the numbers
_MOST_DRAWN = 20  # perturbed decisions


def colour_numbers(setting: LabSetting) -> Image.Image:
    """Return the painted numbers as colours: costs from dark to bright, scores blue below and orange above zero."""
    problem, values = PROBLEMS[setting.problem], setting.values.numpy()
    if problem.least > 0:
        return colour_values(values, 0, problem.most)
    return colour_signs(values, problem.most)


def colour_worth(setting: LabSetting) -> Image.Image:
    """Return the worth of the cells as colours: orange for cells that z should contain, blue for those to avoid."""
    return colour_signs(0.8 * setting.worth.numpy(), 1.0)


def colour_gradient(gradient: Float[np.ndarray, "H W"]) -> Image.Image:
    """Return a gradient as colours: orange above zero, blue below, as strong as its largest number."""
    return colour_signs(gradient, float(np.abs(gradient).max()))


def draw_decisions(setting: LabSetting, solution: LabSolution, *, shows_perturbed: bool = True) -> Markup:
    """Draw the best decision, and some perturbed paths or how often each cell is chosen, in units of cells."""
    if setting.problem == "path":
        drawn = solution.perturbed[:_MOST_DRAWN] if shows_perturbed else ()
        others = [draw_path(order_cells(z), _OTHERS, width=0.1, opacity=0.4) for z in drawn]
        return Markup().join(others) + draw_path(order_cells(solution.z), _BEST, width=0.2)
    shares = draw_shares(solution.shares.numpy(), _DISC) if shows_perturbed else Markup()
    return shares + draw_outline(solution.z.bool().numpy(), _BEST, width=0.09)


def draw_avoided(setting: LabSetting) -> Markup:
    """Draw the outline of the cells to avoid, in units of cells."""
    return draw_outline(setting.worth.numpy() < 0, _AVOID, width=0.06, opacity=0.9)
