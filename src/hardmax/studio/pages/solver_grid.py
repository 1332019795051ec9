"""The panel of the solver lab for a grid that one paints: its decision on the left, the gradient on the right."""

from dataclasses import replace
from math import isnan
from typing import Any, final

import torch
from nicegui import events, ui
from torch import Tensor

from hardmax.drawing.svg import COLOURS
from hardmax.errors import HardmaxError
from hardmax.studio.controls import add_slider
from hardmax.studio.frame import (
    add_code_button,
    add_link_button,
    add_note,
    add_text,
    save_state_in_address,
    show_message,
)
from hardmax.studio.grid_view import CellStroke, GridView
from hardmax.studio.solver.drawings import colour_gradient, colour_numbers, colour_worth, draw_avoided, draw_decisions
from hardmax.studio.solver.encoding import round_values
from hardmax.studio.solver.problems import (
    PROBLEMS,
    LabGradient,
    LabSetting,
    LabSolution,
    estimate_gradient,
    list_estimators,
    solve_problem,
    take_step,
    uses_step,
)
from hardmax.studio.solver.program import write_code
from hardmax.studio.solver.state import SolverState, make_setting, store_grids
from hardmax.studio.work import CheckCancelled, LatestWork

_BRUSHES_OF_WORTH = (("wanted", 1.0), ("worth nothing", 0.0), ("avoid", -1.0))
_NOTES = {
    "path": "White: the cheapest path from the top left to the bottom right cell. Orange: the cheapest paths for costs "
    "with noise. Pink outline: cells to avoid, each worth -1.",
    "cut": "White: the outline of the best foreground, by a minimum cut. Discs: how often a pixel is foreground with "
    "noise on the scores. Worth: 1 for each pixel of the disc that is foreground, -1 for each other one, unless you "
    "paint it.",
    "matching": "White squares: the best matching, one column for each row. Discs: how often a pair is chosen with "
    "noise on the scores. Worth: 1 for each pair on the diagonal, unless you paint it.",
}


def compute_solution(check: CheckCancelled, setting: LabSetting) -> LabSolution:
    """Return the decisions."""
    return solve_problem(setting)


def compute_gradient(check: CheckCancelled, setting: LabSetting) -> LabGradient:
    """Return the gradient.

    Raises:
        HardmaxError: the estimator cannot compute it.
    """
    return estimate_gradient(setting, check)


@final
class GridPanel:
    """The panel, added to the page where it is created.

    Attributes:
        state: what it shows.
    """

    def __init__(self, state: SolverState) -> None:
        self._setting = make_setting(state)
        names = list_estimators(self._setting)
        if state.estimator not in names:  # that of another problem
            state = replace(state, estimator=names[0])
        self.state = state
        self._problem = PROBLEMS[state.problem]
        self._solution: LabSolution | None = None
        self._gradient: LabGradient | None = None
        self._layer = "values"
        self._work = LatestWork()
        ui.context.client.on_delete(self._work.cancel)
        with ui.element("div").classes("studio-columns solver-panel"):
            with ui.element("div"):
                self._build_painting()
            with ui.element("div"):
                self._build_gradient(names)

    def close(self) -> None:
        """Cancel the work of the panel."""
        self._work.cancel()

    # ------------------------------------------------------------------------------- elements
    def _build_painting(self) -> None:
        problem, state = self._problem, self.state
        add_text("h2", problem.title)
        with ui.element("div").classes("studio-row"):
            layers = {"values": problem.values.capitalize(), "worth": "Worth"}
            ui.toggle(layers, value="values", on_change=self._choose_layer).props("no-caps unelevated dense")
            self._brush = ui.select({}, label="brush", on_change=self._show).props("dense outlined")
        self._view = GridView(f"{problem.title}: a grid to paint on", self._paint)
        self._numbers = add_text("p", "").props("role=status")
        add_note(_NOTES[state.problem])
        with ui.element("div").classes("studio-row"):
            sizes = {size: f"{size} x {size}" for size in sorted({*problem.sizes, state.rows})}
            ui.select(sizes, value=state.rows, label="size", on_change=self._choose_size).props("dense outlined")
            ui.button("New example", on_click=self._make_new).props("outline no-caps")
            ui.button("Clear", on_click=self._clear).props("outline no-caps")
            self._add_switch("perturbed", "with noise")
            if state.problem == "path":
                ui.switch("only right and down", value=state.monotone, on_change=self._choose_steps)
        self._add_slider("noise", "Noise", 0.05, 2.0, 0.05)
        if state.problem == "cut":
            self._add_slider("coupling", "Worth of equal neighbours", 0.0, 4.0, 0.1)
        self._list_brushes()

    def _build_gradient(self, names: list[str]) -> None:
        add_text("h2", "Gradient of the expected worth")
        with ui.element("div").classes("studio-row"):
            self._estimator = ui.select(
                names, value=self.state.estimator, label="estimator", on_change=self._choose_estimator
            ).props("dense outlined")
            ui.button("Take a step", on_click=self._take_step).props("unelevated no-caps")
        self._gradient_view = GridView("Gradient for the scores", self._point, mode="point")
        self._quality = add_text("p", "").props("role=status")
        add_note(
            "Orange: the expected worth grows with the score of this cell (for a path, falls with its cost); blue: it "
            "falls. A step changes the numbers along the gradient. Click a cell to read it."
        )
        self._add_slider("samples", "Samples", 1, 500, 1)
        self._step = self._add_slider("step", "Step of the estimator", 0.1, 10.0, 0.1)
        self._step.set_visibility(uses_step(self.state.estimator))
        with ui.element("div").classes("studio-row"):
            add_code_button("Copy as Python", lambda: write_code(self._setting))
            add_link_button()

    def _add_switch(self, field: str, label: str) -> None:
        async def change(event: events.ValueChangeEventArguments) -> None:
            await self._change(**{field: event.value})

        ui.switch(label, value=getattr(self.state, field), on_change=change)

    def _add_slider(self, field: str, label: str, least: float, most: float, step: float) -> ui.element:
        """Add a slider for a field of the state."""

        async def change(value: float) -> None:
            await self._change(**{field: type(getattr(self.state, field))(value)})

        return add_slider(label, getattr(self.state, field), change, least=least, most=most, step=step)

    def _list_brushes(self) -> None:
        brushes = self._problem.brushes if self._layer == "values" else _BRUSHES_OF_WORTH
        self._brush.set_options({number: f"{name} ({number:g})" for name, number in brushes}, value=brushes[-1][1])

    # ------------------------------------------------------------------------------- changes
    async def _change(self, **fields: Any) -> None:
        try:
            state = replace(self.state, **fields)
            self._setting = make_setting(state)
        except HardmaxError as error:
            show_message(str(error))
            return
        self.state = state
        save_state_in_address(state)
        await self.update()

    async def _change_grids(self, values: Tensor, worth: Tensor) -> None:
        state = store_grids(self.state, values, worth)
        await self._change(values=state.values, worth=state.worth)

    async def _paint(self, stroke: CellStroke) -> None:
        if not stroke.cells or self._brush.value is None:
            return
        values, worth = self._setting.values.clone(), self._setting.worth.clone()
        rows, columns = torch.tensor(stroke.cells).unbind(1)
        (values if self._layer == "values" else worth)[rows, columns] = self._brush.value
        await self._change_grids(values, worth)

    async def _take_step(self) -> None:
        gradient = self._gradient or await self._work.run(compute_gradient, self._setting)
        if gradient is None:
            return
        values = torch.from_numpy(round_values(take_step(self._setting, gradient.gradient).numpy()))
        await self._change_grids(values, self._setting.worth)

    async def _clear(self) -> None:
        values, worth = self._setting.values, self._setting.worth
        if self._layer == "values":
            await self._change_grids(torch.full_like(values, self._problem.blank), worth)
        else:
            await self._change_grids(values, torch.zeros_like(worth))

    async def _make_new(self) -> None:
        await self._change(seed=self.state.seed + 1, values="", worth="")

    async def _choose_size(self, event: events.ValueChangeEventArguments) -> None:
        await self._change(size=event.value, values="", worth="")

    async def _choose_steps(self, event: events.ValueChangeEventArguments) -> None:
        await self._change(monotone=event.value)
        names = list_estimators(self._setting)
        self._estimator.set_options(names, value=self.state.estimator if self.state.estimator in names else names[0])

    async def _choose_estimator(self, event: events.ValueChangeEventArguments) -> None:
        self._step.set_visibility(uses_step(event.value))
        await self._change(estimator=event.value)

    async def _choose_layer(self, event: events.ValueChangeEventArguments) -> None:
        self._layer = event.value
        self._list_brushes()
        self._show()

    def _point(self, stroke: CellStroke) -> None:
        if stroke.cells and self._gradient is not None:
            row, column = stroke.cells[-1]
            number = float(self._gradient.gradient[row, column])
            show_message(f"row {row + 1}, column {column + 1}: gradient {number:.4g}")

    # ------------------------------------------------------------------------------- results
    async def update(self) -> None:
        """Compute and show the decisions for the state, then the gradient, which takes longer."""
        setting = self._setting
        solution = await self._work.run(compute_solution, setting)
        if solution is None:
            return
        self._solution, self._gradient = solution, None
        self._numbers.text = _describe_solution(setting, solution)
        self._show()
        try:
            gradient = await self._work.run(compute_gradient, setting)
        except HardmaxError as error:
            self._quality.text = str(error)
            return
        if gradient is None:
            return
        self._gradient = gradient
        self._quality.text = _describe_gradient(gradient)
        best = draw_decisions(setting, solution, shows_perturbed=False)
        image = colour_gradient(gradient.gradient.numpy())
        self._gradient_view.show(rows=self.state.rows, columns=self.state.rows, image=image, drawing=best)

    def _show(self) -> None:
        """Show the grids with the brush and the layer that are chosen."""
        if self._solution is None:
            return
        setting, state = self._setting, self.state
        shows_worth = self._layer == "worth"
        drawing = draw_decisions(setting, self._solution, shows_perturbed=state.perturbed)
        if state.problem == "path" and not shows_worth:
            drawing = draw_avoided(setting) + drawing
        sizes = {"rows": state.rows, "columns": state.rows}
        image = colour_worth(setting) if shows_worth else colour_numbers(setting)
        brush = float(self._brush.value or 0)
        self._view.show(**sizes, image=image, drawing=drawing, brush=COLOURS[1 if brush > 0 else 0])


def _describe_solution(setting: LabSetting, solution: LabSolution) -> str:
    """Return the value of the decision, the worth of the perturbed ones, and the time of the solver."""
    value = f"cost {solution.value:.4g}" if setting.problem == "path" else f"score {solution.value:.4g}"
    worth = float((solution.z * setting.worth).sum())
    return (
        f"Best {PROBLEMS[setting.problem].decision}: {value}, worth {worth:g}. With noise, the mean worth is "
        f"{solution.worth:.2f}. Solver: {solution.solver}, {1e3 * solution.seconds:.2g} ms."
    )


def _describe_gradient(gradient: LabGradient) -> str:
    """Return the size of the gradient, how much it varies, and its cost."""
    size = float(gradient.gradient.norm())
    if size == 0:
        return f"The estimate is zero everywhere: no arg max changed. {gradient.solves:.0f} arg maxes."
    deviation = "" if isnan(gradient.deviation) else f", standard deviation of one estimate {gradient.deviation:.0%}"
    return f"Length {size:.3g}{deviation}. {gradient.solves:.0f} arg maxes in {1e3 * gradient.seconds:.0f} ms."
