"""The part of the page of runs that shows the chosen runs: curves, options, commands, reports, a diagnosis."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from markupsafe import Markup
from nicegui import ui

from hardmax.names import escape_control_characters
from hardmax.report.curves import Key
from hardmax.report.tables import format_command, label_runs
from hardmax.studio.frame import add_code_button, add_note, add_text, show_problem
from hardmax.studio.runs.comparison import (
    SPLIT_NAMES,
    Comparison,
    Split,
    draw_comparison,
    join_figures,
    list_differing_options,
    list_quantities,
)
from hardmax.studio.runs.diagnosis import can_diagnose
from hardmax.studio.runs.diagnosis_panel import build_diagnosis_panel
from hardmax.studio.runs.run_list import WatchedRun
from hardmax.studio.work import CheckCancelled


@dataclass(frozen=True)
class ShownRuns:
    """What the section shows.

    Attributes:
        names: a name for each run: the options in which it differs, or its folder.
        quantities: names of the quantities that all of them measure.
        quantity: the one that is drawn.
        comparison: its curves.
    """

    names: Sequence[str]
    quantities: Sequence[str]
    quantity: str
    comparison: Comparison


def compare_runs(check: CheckCancelled, runs: Sequence[WatchedRun], quantity: str, split: Split) -> ShownRuns:
    """Draw the curves of runs, for `LatestWork.run`.

    Args:
        check: raises an error if the result is no longer wanted.
        runs: the chosen runs.
        quantity: name of the quantity; the first one is drawn if the runs do not have it.
        split: the examples of the curves of several runs.
    """
    known = [run.config for run in runs if run.config is not None]
    names = [run.name for run in runs]
    if len(known) == len(runs) > 1:
        names = label_runs(known, names)
    names = [escape_control_characters(name) for name in names]
    quantities = [*list_quantities(runs)]
    quantity = quantity if quantity in quantities else next(iter(quantities), "")
    check()
    return ShownRuns(names, quantities, quantity, draw_comparison(runs, names, quantity, split))


def build_section(
    runs: Sequence[WatchedRun],
    shown: ShownRuns,
    split: Split,
    on_quantity: Callable[..., object],
    on_split: Callable[..., object],
) -> Callable[[ShownRuns], None]:
    """Add the section of the chosen runs; return the function that updates its figures and states.

    Args:
        runs: at least one.
        shown: what it shows at first.
        split: the examples of the curves of several runs.
        on_quantity: gets the event of another quantity.
        on_split: gets the event of other examples.
    """
    add_text("h2", "Curves")
    with ui.element("div").classes("studio-row"):
        if shown.quantities:
            quantity = ui.select([*shown.quantities], label="Quantity", value=shown.quantity)
            quantity.props("dense outlined options-dense").on_value_change(on_quantity)
        if len(runs) > 1:
            examples = ui.select([*SPLIT_NAMES], label="Examples", value=split)
            examples.props("dense outlined options-dense").on_value_change(on_split)
    legend = ui.html("", sanitize=False).classes("run-legend")
    figures = ui.html("", sanitize=False).classes("run-figures")
    problems = ui.element("div")
    if len(runs) > 1:
        _build_options(runs, shown.names)
    states = [_build_run(run) for run in runs]

    def update(shown: ShownRuns) -> None:
        legend.content = _write_legend(shown.comparison.keys)
        figures.content = str(join_figures(shown.comparison.figures))
        problems.clear()
        with problems:
            for problem in shown.comparison.problems:
                show_problem(problem)
            if not shown.comparison.figures and not shown.comparison.problems:
                add_note("No finished epoch yet.")
        for run, state in zip(runs, states, strict=True):
            is_broken = run.status.state == "broken"
            state.text = escape_control_characters(run.status.reason)
            state.classes(
                add="studio-problem" if is_broken else "studio-note",
                remove="studio-note" if is_broken else "studio-problem",
            )

    return update


def _write_legend(keys: Sequence[Key]) -> str:
    entry = Markup(
        '<span><svg width="26" height="8" aria-hidden="true"><line x1="0" y1="4" x2="26" y2="4" stroke="{}" '
        'stroke-width="2.5" stroke-dasharray="{}"/></svg> {}</span>'
    )
    return str(Markup(" ").join(entry.format(key.colour, key.dash, key.name) for key in keys))


def _build_options(runs: Sequence[WatchedRun], names: Sequence[str]) -> None:
    """Add the table of the options in which runs differ."""
    options = list_differing_options(runs)
    add_text("h2", "Options in which they differ")
    if not options:
        add_note("None: these runs have the same options.")
        return
    with ui.element("div").classes("studio-scroll"), ui.element("table").classes("plain"):
        with ui.element("thead"), ui.element("tr"):
            add_text("th", "option")
            for name in names:
                add_text("th", name)
        with ui.element("tbody"):
            for option, values in options:
                with ui.element("tr"):
                    for text in (option, *values):
                        add_text("td", escape_control_characters(text))


def _build_run(run: WatchedRun) -> ui.label:
    """Add what one can do with a run: its command, its report, a diagnosis; return the label of its state."""
    add_text("h2", escape_control_characters(run.name))
    state = ui.label().props("role=status")
    application, query = run.application, urlencode({"run": run.name})
    with ui.element("div").classes("studio-row"):
        add_code_button("Copy command", lambda: _write_command(run))
        show = ui.button("Show report").props("outline no-caps")
        ui.link("Open report", f"/runs/document?{query}", new_tab=True)
        if application is not None and application.explorer:
            ui.link("Explore latents", f"/latents?{query}")
    report = ui.element("div")
    if can_diagnose(application):
        build_diagnosis_panel(run.folder)

    def switch_report() -> None:
        is_shown = show.text == "Hide report"
        show.text = "Show report" if is_shown else "Hide report"
        report.clear()
        if not is_shown:
            with report:
                # The report runs no scripts, and is of another origin than the studio.
                frame = ui.element("iframe").props('sandbox="" title="Report"').classes("run-report")
                frame._props["src"] = f"/runs/document?{query}"

    show.on_click(switch_report)
    return state


def _write_command(run: WatchedRun) -> str:
    """Return the command that trains with the options of a run, that which goes on with it, and that of its report."""
    if run.config is None:
        return f"# the options of {run.name} cannot be read"
    lines = [format_command(run.config)]
    if run.status.state == "stopped":
        lines += ["", "# go on with it:", shlex.join(["hardmax", "train", "--resume", "--out", run.name])]
    return "\n".join([*lines, "", "# its report:", shlex.join(["hardmax", "report", run.name])])
