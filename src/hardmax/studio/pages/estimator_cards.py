"""The estimators of the gradient lab: a card for each, with its parameter, its cloud and its numbers."""

from collections.abc import Awaitable, Callable
from math import log10

from nicegui import ui

from hardmax.diagnosis.advice import Quality
from hardmax.drawing.svg import COLOURS
from hardmax.studio.frame import Widget, add_note, add_text
from hardmax.studio.gradients.measurement import Measurements
from hardmax.studio.gradients.state import MOST_ESTIMATORS, PARAMETER_RANGE, LabState, get_parameter, parse_estimator

_ROUNDING = 1e-5  # smaller numbers, relative to the gradient, are rounding


def format_number(value: float) -> str:
    """Format as `Diagnosis` does: two significant digits, or an integer from 100 on."""
    return "0" if value < _ROUNDING else f"{value:.2g}" if value < 100 else f"{value:.0f}"


class EstimatorCards:
    """The cards, and the field that adds one.

    Args:
        change: called with the changed fields of the state.
    """

    def __init__(self, change: Callable[..., Awaitable[None]]) -> None:
        self._change = change
        self._state = LabState(estimators=())
        self._possible: list[str] = []
        self._cards: list[_Card] = []
        with ui.element("div").classes("studio-row"):
            self._select = ui.select([], label="Add an estimator", on_change=lambda e: self._add(e.value))
            self._select.classes("lab-select")
            self._axes = {
                name: ui.select(
                    [],
                    label=f"{name.capitalize()} axis",
                    on_change=lambda e, name=name: self._change(**{name: e.value}),
                ).classes("lab-axis")
                for name in ("horizontal", "vertical")
            }
        add_note(
            "Dots are estimates, larger ones several that are equal; the ring is their mean, the cross the exact "
            "gradient. Bias and std are relative to the length of the exact gradient."
        )
        self._grid = ui.element("div").classes("lab-cards")

    def set_possible(self, names: list[str], state: LabState) -> None:
        """Offer the estimators that support the space."""
        self._possible, self._state = names, state
        self._select.set_options(names, value=None)
        components = {i: f"component {label}" for i, label in enumerate(state.score_labels)}
        for name, select in self._axes.items():
            select.set_options(components, value=getattr(state, name))

    def follow(self, state: LabState) -> None:
        """Show a card for each estimator of the state; cards are kept if only their parameter has changed."""
        self._state = state
        names = [parse_estimator(text)[0] for text in state.estimators]
        if [card.name for card in self._cards] != names:
            self._grid.clear()
            with self._grid:
                self._cards = [
                    _Card(name, text, COLOURS[i % len(COLOURS)], lambda text, i=i: self._replace(i, text))
                    for i, (name, text) in enumerate(zip(names, state.estimators, strict=True))
                ]

    def get_style(self, text: str) -> dict[str, object]:
        """Return the colour and the number of the mark of an estimator of the state."""
        number = self._state.estimators.index(text) if text in self._state.estimators else len(COLOURS) - 1
        return {"colour": COLOURS[number % len(COLOURS)], "mark": number}

    def show(self, result: Measurements) -> None:
        """Show the measurements in the cards."""
        diagnosis, state = result.diagnosis, result.state
        rows = {row.name: row for row in diagnosis.rows} if diagnosis else {}
        refusals = {refusal.name: refusal.reason for refusal in diagnosis.refused} if diagnosis else {}
        axes = (state.horizontal, state.vertical)
        for card, text in zip(self._cards, state.estimators, strict=False):
            if text not in rows:
                card.show_refusal(refusals.get(text, ""))
                continue
            cloud = result.clouds[text]
            card.show_cloud(
                rows[text],
                {
                    "points": cloud.points,
                    "exact": [result.exact[i] for i in axes],
                    "mean": [cloud.mean[i] for i in axes],
                    "range": result.range,
                    "labels": [f"component {state.score_labels[i]}" for i in axes],
                    "colour": card.colour,
                },
            )

    async def _add(self, name: str | None) -> None:
        if name is None:
            return
        self._select.set_value(None)
        text = name if get_parameter(name) is None else f"{name}:1"
        if text not in self._state.estimators and len(self._state.estimators) < MOST_ESTIMATORS:
            await self._change(estimators=(*self._state.estimators, text))

    async def _replace(self, i: int, text: str | None) -> None:
        """Change the parameter of an estimator, or remove it if the text is None."""
        before = self._state.estimators
        await self._change(estimators=before[:i] + (() if text is None else (text,)) + before[i + 1 :])


class _Card:
    """One estimator.

    Args:
        name: its name in the registry.
        text: the name with its parameter.
        colour: its colour in all figures.
        replace: called with the text of the changed estimator, or None to remove it.
    """

    def __init__(self, name: str, text: str, colour: str, replace: Callable[[str | None], Awaitable[None]]) -> None:
        self.name, self.colour = name, colour
        with ui.element("section").classes("lab-card").props(f'aria-label="{name}"'):
            with ui.element("div").classes("lab-card-head"):
                ui.element("span").classes("swatch").style(f"background:{colour}")
                add_text("h3", name)
                remove = ui.button("×", on_click=lambda: replace(None)).props("flat dense no-caps")
                remove.props(f'aria-label="Remove {name}"')
            with ui.element("div").classes("lab-parameter"):
                if (parameter := get_parameter(name)) is not None:
                    _, value = parse_estimator(text)
                    self._build_slider(parameter, value or 1.0, replace)
            self._cloud = Widget("estimate-cloud")
            self._numbers = ui.label().classes("lab-numbers")
            self._refusal = ui.label().classes("studio-note")

    def _build_slider(self, parameter: str, value: float, replace: Callable[[str | None], Awaitable[None]]) -> None:
        """Add a logarithmic slider of epsilon or tau."""
        label = ui.label(f"{parameter} = {value:g}").classes("studio-note")
        low, high = PARAMETER_RANGE

        async def change(event) -> None:
            number = float(f"{10**event.args:.3g}")
            label.set_text(f"{parameter} = {number:g}")
            await replace(f"{self.name}:{number:g}")

        slider = ui.slider(min=low, max=high, step=0.05, value=min(max(log10(value), low), high))
        slider.props(f'aria-label="{parameter} of {self.name}"')
        slider.on("update:model-value", change, throttle=0.05)

    def show_cloud(self, row: Quality, data: dict) -> None:
        """Show the cloud and the numbers."""
        self._cloud.set_visibility(True)
        self._cloud.show(data)
        bias = format_number(row.bias) if row.biased else f"not seen (< {format_number(2 * row.floor)})"
        samples = "1 sample" if row.samples == 1 else f"{row.samples} samples"
        self._numbers.set_text(
            f"bias {bias} · std {format_number(row.deviation)} · cosine {row.cosine:.2f} · {row.evaluations:.3g} "
            f"evaluations, {samples}"
        )
        self._refusal.set_text("")

    def show_refusal(self, reason: str) -> None:
        """Show why there are no estimates."""
        self._cloud.set_visibility(False)
        self._numbers.set_text("")
        self._refusal.set_text(reason)
