"""Examples of the solver lab: the grid that a problem begins with, and the strokes on the images."""

import numpy as np
import torch
from jaxtyping import Float

from hardmax.data.terrain import generate_maps
from hardmax.random import make_generator
from hardmax.studio.solver.encoding import round_values
from hardmax.studio.solver.image_cut import Stroke
from hardmax.studio.solver.problems import PROBLEMS

STROKES = {
    "terrain": (  # the water
        Stroke(1, 3.0, ((40, 145), (40, 170))),
        Stroke(1, 3.0, ((80, 6), (80, 20))),
        Stroke(-1, 3.0, ((12, 50), (12, 70))),
        Stroke(-1, 3.0, ((60, 52), (60, 68))),
        Stroke(-1, 3.0, ((110, 36), (110, 64))),
        Stroke(-1, 3.0, ((84, 76), (84, 90))),
        Stroke(-1, 3.0, ((84, 124), (84, 134))),
    ),
    "portrait": (  # the person
        Stroke(1, 6.0, ((80, 102), (220, 102))),
        Stroke(1, 4.0, ((200, 40), (200, 185))),
        Stroke(1, 4.0, ((44, 78), (44, 132))),
        Stroke(1, 3.0, ((18, 108), (26, 128))),
        Stroke(-1, 5.0, ((10, 10), (80, 10))),
        Stroke(-1, 5.0, ((10, 195), (80, 195))),
        Stroke(-1, 3.0, ((8, 57), (100, 57))),
        Stroke(-1, 3.0, ((34, 26), (38, 46))),
        Stroke(-1, 3.0, ((6, 84), (12, 72))),
        Stroke(-1, 3.0, ((130, 22), (150, 8))),
        Stroke(-1, 3.0, ((112, 36), (140, 44))),
        Stroke(-1, 2.5, ((100, 65), (122, 68))),
        Stroke(-1, 2.5, ((165, 3), (225, 2))),
        Stroke(-1, 2.5, ((108, 4), (78, 42))),
        Stroke(1, 3.0, ((150, 86), (175, 98))),
    ),
}


def make_example(problem: str, size: int, seed: int) -> tuple[Float[np.ndarray, "N N"], Float[np.ndarray, "N N"]]:
    """Return the numbers and the worth of a grid.

    | problem | numbers | worth |
    |---|---|---|
    | path | costs of a map of terrain | -1 in a disc around the centre |
    | cut | a noisy image of a disc | 1 on the disc, -1 outside: the number of correct pixels |
    | matching | normal numbers | 1 on the diagonal |

    Args:
        problem: a key of `PROBLEMS`.
        size: number of rows and of columns.
        seed: seed of the map or of the noise.
    """
    generator = make_generator(seed, "solver lab", problem)
    distance = np.hypot(*(np.mgrid[:size, :size] - (size - 1) / 2))
    if problem == "path":
        costs = generate_maps({"train": 1, "validation": 1, "test": 1}, cells=size, seed=seed).costs["test"][0]
        return costs.double().numpy(), -(distance < 0.2 * size).astype(np.float64)
    noise = torch.randn(size, size, generator=generator, dtype=torch.float64).numpy()
    if problem == "matching":
        values, worth = 1.5 * noise, np.eye(size)
    else:
        worth = np.where(distance < 0.33 * size, 1.0, -1.0)
        values = worth + 1.5 * noise
    return round_values(values.clip(PROBLEMS[problem].least, PROBLEMS[problem].most)), worth
