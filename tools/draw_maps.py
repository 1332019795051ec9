"""Draw docs/results/decisions-maps.png from a run on maps: ``draw_maps.py RUN``."""

import sys
from pathlib import Path

from hardmax.applications.decisions.examples import solve_examples
from hardmax.applications.decisions.map_sheet import draw_map_sheet
from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.runs import load_run
from hardmax.drawing.images import save_image

OUT = Path(__file__).parents[1] / "docs" / "results" / "decisions-maps.png"
MAPS = [1, 2, 4, 9]  # of the test maps: ones with paths that wind


def draw_maps(run: Path) -> None:
    """Draw a few test maps of a run, with predicted costs and paths."""
    restored = load_run(run, kind=DecisionModel)
    features, costs, best = solve_examples(restored.load_data(), "test", restored.model.space)
    save_image(draw_map_sheet(restored.model, features[MAPS], costs[MAPS], best[MAPS], MAPS), OUT)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: draw_maps.py RUN")
    draw_maps(Path(sys.argv[1]))
    print(OUT)
