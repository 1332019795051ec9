"""The solver lab: paint a problem, see its best decision, the perturbed ones, and the gradient of a worth."""

from collections.abc import Mapping
from dataclasses import replace

from nicegui import ui

from hardmax.studio.frame import Studio, add_text, load_script, save_state_in_address
from hardmax.studio.page_state import read_state
from hardmax.studio.pages.solver_grid import GridPanel
from hardmax.studio.pages.solver_image import ImagePanel
from hardmax.studio.solver.problems import PROBLEMS
from hardmax.studio.solver.state import SolverState

_TITLES = {**{name: problem.title for name, problem in PROBLEMS.items()}, "image": "Cut out an object"}


async def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page."""
    state = read_state(SolverState, query)
    load_script("grid_view.js")
    add_text(
        "p",
        "A solver returns the best decision for given scores. Paint the scores, and see how the decision moves, how it "
        "varies under noise, and which gradient an estimator finds for what a decision is worth to you.",
    )
    panels: list[GridPanel | ImagePanel] = []

    async def build_panel(state: SolverState) -> None:
        for panel in panels:
            panel.close()
        place.clear()
        with place:
            panels[:] = [ImagePanel(state) if state.problem == "image" else GridPanel(state)]
        await panels[0].update()

    async def choose_problem() -> None:
        # Options that the problems share stay; a grid belongs to its problem.
        chosen = replace(panels[0].state, problem=toggle.value, size=0, values="", worth="", strokes="")
        save_state_in_address(chosen)
        await build_panel(chosen)

    toggle = ui.toggle(_TITLES, value=state.problem, on_change=choose_problem).props("no-caps unelevated")
    place = ui.element("div")
    await build_panel(state)
