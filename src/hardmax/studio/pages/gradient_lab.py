"""The gradient lab: estimators of one small gradient, next to the exact one."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from html import escape
from typing import Any

from nicegui import ui

from hardmax.diagnosis.advice import Quality, format_estimator
from hardmax.drawing.svg import COLOURS
from hardmax.errors import HardmaxError
from hardmax.studio.frame import (
    Studio,
    Widget,
    add_code_button,
    add_link_button,
    add_note,
    add_text,
    load_script,
    save_state_in_address,
    show_message,
)
from hardmax.studio.gradients.measurement import Measurements, measure_ladders, measure_state
from hardmax.studio.gradients.problem import list_possible_estimators, make_problem
from hardmax.studio.gradients.python_code import write_code
from hardmax.studio.gradients.slow_motion import draw_direct
from hardmax.studio.gradients.state import (
    FUNCTION_NAMES,
    MOST_DRAWS,
    MOST_SAMPLES,
    MOST_SCORE,
    MOST_WORTH,
    SIZE_NAMES,
    SIZES,
    SPACES,
    LabState,
    get_parameter,
    parse_estimator,
)
from hardmax.studio.page_state import read_state
from hardmax.studio.pages.estimator_cards import EstimatorCards, format_number
from hardmax.studio.work import LatestWork

_PAUSE = 0.15  # seconds without a change before the figures that no bar waits for: a drag stays fluent
_FIRST_DRAW = 3  # a draw of the first example in which z(epsilon) is not z*


def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page with the state of its address."""
    load_script("gradient_widgets.js")
    GradientLab(read_state(LabState, query))


class GradientLab:
    """The page: its state, its controls and its figures.

    Args:
        state: what is shown first.
    """

    def __init__(self, state: LabState) -> None:
        self._state = state
        self._work, self._ladder_work, self._draw_work = LatestWork(), LatestWork(), LatestWork()
        self._draw_seed = state.seed + _FIRST_DRAW
        for work in (self._work, self._ladder_work, self._draw_work):
            ui.context.client.on_delete(work.cancel)
        add_note(
            "z is drawn from q(z | scores), and we want the gradient of E[f(z)] for the scores. Drag the bars, or move "
            "them with the arrow keys. Every number is that of hm.diagnose."
        )
        with ui.element("div").classes("lab-top"):
            with ui.element("div"):
                self._build_controls()
            with ui.element("div"):
                add_text("h2", "q and f")
                self._outcomes = Widget("outcome-list")
                add_text("h2", "Exact gradient, and mean ± standard deviation of each estimator")
                self._components = Widget("component-chart")
        add_text("h2", "Estimators")
        self._cards = EstimatorCards(self._change)
        self._problem = ui.label().classes("studio-problem")
        self._advice = ui.label().classes("studio-note")
        self._table = ui.html(sanitize=False).classes("studio-scroll")
        self._build_details()
        self._show_controls()
        ui.timer(0, self._refresh, once=True)

    def _build_controls(self) -> None:
        with ui.element("div").classes("studio-row"):
            self._space = ui.select(SPACES, label="Space", on_change=lambda e: self._change_space(e.value))
            self._size = ui.number(min=1, max=12, step=1, on_change=lambda e: self._change_number("size", e.value))
            self._chosen = ui.number("Chosen", min=1, max=7, on_change=lambda e: self._change_number("chosen", e.value))
        self._score_bars = Widget("drag-bars").on_change(lambda detail: self._change(scores=tuple(detail["values"])))
        self._function = ui.select([], label="f", on_change=lambda e: self._change_problem(f=e.value))
        self._target = ui.number("Target", step=0.5, on_change=lambda e: self._change_number("target", e.value))
        self._worth_bars = Widget("drag-bars").on_change(lambda detail: self._change(worth=tuple(detail["values"])))
        with ui.element("div").classes("studio-row"):
            samples = {0: "equal evaluations", **{n: str(n) for n in range(1, MOST_SAMPLES + 1)}}
            self._samples = ui.select(samples, label="Samples", on_change=lambda e: self._change(samples=e.value))
            draws = sorted({100, 300, 1000, 3000, MOST_DRAWS, self._state.draws})
            self._draws = ui.select(draws, label="Draws", on_change=lambda e: self._change(draws=e.value))
            ui.button("New noise", on_click=self._change_seed).props("outline no-caps")
        with ui.element("div").classes("studio-row lab-buttons"):
            add_code_button("Copy as Python", lambda: write_code(self._state))
            add_link_button()

    def _build_details(self) -> None:
        with ui.element("div").classes("lab-top"):
            with ui.element("div"):
                add_text("h2", "Along epsilon or tau")
                add_note(
                    "Solid: bias (hollow where it is within the noise). Dashed: standard deviation of one estimate."
                )
                self._ladders = Widget("ladder-chart")
            with ui.element("div"):
                add_text("h2", "One draw of Direct in slow motion")
                ui.button("New draw", on_click=self._draw_again).props("outline no-caps")
                self._no_draw = ui.label().classes("studio-note")
                self._steps = Widget("direct-steps")

    # ------------------------------------------------------------------------------- changes by the user
    async def _change(self, **changes: Any) -> None:
        """Change fields of the state, and show what follows."""
        if all(getattr(self._state, name) == value for name, value in changes.items()):
            return
        try:
            self._state = replace(self._state, **changes)
        except HardmaxError as error:
            show_message(str(error))
            return
        await self._refresh()

    async def _change_space(self, space: str) -> None:
        if space != self._state.space:
            await self._change_problem(space=space, size=0, f="default")

    async def _change_problem(self, **changes: Any) -> None:
        """Change the space, its size or the kind of f: scores and worths get other lengths."""
        if all(getattr(self._state, name) == value for name, value in changes.items()):
            return
        try:
            self._state = self._state.change_problem(**changes)
        except HardmaxError as error:
            show_message(str(error))
            return
        self._show_controls()
        await self._refresh()

    async def _change_number(self, name: str, value: float | None) -> None:
        """Change a number that the user types; while the field is empty, nothing changes."""
        if value is None:
            return
        if name == "target":
            await self._change(target=float(value))
        elif int(value) != getattr(self._state, name):
            f = {"f": "default"} if self._state.f == "table" else {}
            await self._change_problem(**{name: int(value)}, **f)

    async def _change_seed(self) -> None:
        await self._change(seed=self._state.seed + 1)

    async def _draw_again(self) -> None:
        self._draw_seed += 1
        await self._show_draw()
        self._steps.run_method("restart")

    # ------------------------------------------------------------------------------- what is shown
    def _show_controls(self) -> None:
        """Show the controls that the problem has; called when another problem is chosen."""
        state = self._state
        least, _, most = SIZES[state.space]
        self._space.set_value(state.space)
        self._size.props(f'label="{SIZE_NAMES[state.space].capitalize()}" min={least} max={most}')
        self._size.set_value(state.size)
        self._chosen.set_visibility(state.space == "subset")
        self._chosen.set_value(state.chosen)
        self._function.set_options({f: FUNCTION_NAMES[f] for f in state.functions}, value=state.f)
        self._target.set_visibility(state.f == "squared")
        self._target.set_value(state.target)
        self._samples.set_value(state.samples)
        self._draws.set_value(state.draws)
        columns = state.size if state.space == "path" else 0
        scores, worths = (state.score_labels, state.scores), (state.worth_labels, state.worth)
        self._score_bars.show(_describe_bars("Score", *scores, MOST_SCORE, COLOURS[0], columns))
        self._worth_bars.show(_describe_bars("Worth", *worths, MOST_WORTH, COLOURS[2], columns))
        self._cards.set_possible(list_possible_estimators(make_problem(state)), state)

    async def _refresh(self) -> None:
        """Measure the state and show the result, then the ladders and the draw in slow motion."""
        save_state_in_address(self._state)
        self._cards.follow(self._state)
        result = await self._work.run(measure_state, self._state)
        if result is None:
            return
        self._show_measurements(result)
        await asyncio.sleep(_PAUSE)
        if result.state is self._state:
            await self._show_draw()
            await self._show_ladders(result)

    def _show_measurements(self, result: Measurements) -> None:
        state, diagnosis = result.state, result.diagnosis
        self._outcomes.show(asdict(result.outcomes))
        estimators = [
            {"name": text, **self._cards.get_style(text), "mean": cloud.mean, "deviation": cloud.deviation}
            for text, cloud in result.clouds.items()
        ]
        self._components.show({"labels": state.score_labels, "exact": result.exact, "estimators": estimators})
        self._cards.show(result)
        self._problem.set_text(result.problem)
        self._problem.set_visibility(bool(result.problem))
        advice = diagnosis.recommendation if diagnosis else None
        text = "" if advice is None else f"For batches of {advice.batch} examples, hm.diagnose recommends {advice}"
        self._advice.set_text(text)
        self._table.set_content(_make_table(diagnosis.rows) if diagnosis else "")

    async def _show_draw(self) -> None:
        chosen = (parse_estimator(text) for text in self._state.estimators)
        epsilon = next((value for name, value in chosen if name == "direct" and value), 1.0)
        try:
            draw = await self._draw_work.run(draw_direct, self._state, epsilon, self._draw_seed)
        except HardmaxError as error:
            self._no_draw.set_text(str(error))
            self._steps.set_visibility(False)
            return
        if draw is not None:
            self._no_draw.set_text("")
            self._steps.set_visibility(True)
            self._steps.show({**asdict(draw), "labels": self._state.score_labels, "colour": COLOURS[0]})

    async def _show_ladders(self, result: Measurements) -> None:
        rows = result.diagnosis.rows if result.diagnosis else ()
        samples = {row.name: row.samples for row in rows if get_parameter(parse_estimator(row.name)[0])}
        ladders = await self._ladder_work.run(measure_ladders, result.state, samples)
        if ladders is None:
            return
        styles = {parse_estimator(text)[0]: self._cards.get_style(text) for text in reversed(result.state.estimators)}
        self._ladders.show({"ladders": [{**asdict(ladder), **styles[ladder.name]} for ladder in ladders]})


def _describe_bars(
    name: str, labels: list[str], values: tuple[float, ...], most: float, colour: str, columns: int
) -> dict[str, Any]:
    return {
        "name": name, "labels": labels, "values": values, "least": -most, "most": most, "step": 0.1, "colour": colour,
        "columns": columns,
    }  # fmt: skip


def _make_table(rows: tuple[Quality, ...]) -> str:
    """Return the table of `Diagnosis`, the best estimator first."""
    heads = ("S", "evaluations", "arg maxes", "bias", "floor", "std", "cosine", "error in a batch of 100")
    head = "".join(f'<th class="number">{name}</th>' for name in heads)
    lines = []
    for row in sorted(rows, key=lambda row: row.error(100)):
        bias = format_number(row.bias)
        cells = (
            str(row.samples),
            f"{row.evaluations:.3g}",
            f"{row.solves:.3g}",
            bias if row.biased or bias == "0" else f"({bias})",
            format_number(row.floor),
            format_number(row.deviation),
            f"{row.cosine:.2f}",
            format_number(row.error(100)),
        )
        name = escape(format_estimator(row.estimator))
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        lines.append(f"<tr><td>{name}</td>{numbers}</tr>")
    return (
        f'<table class="plain"><thead><tr><th>estimator</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )
