"""The part of the page of runs that measures gradient estimators on a run, and shows the advice with its price."""

import asyncio
import time
from pathlib import Path

from nicegui import background_tasks, ui

from hardmax.errors import HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.frame import add_code_button, add_note, add_text, show_problem
from hardmax.studio.runs.diagnosis import RunDiagnosis, diagnose_run


def build_diagnosis_panel(folder: Path) -> None:
    """Add a form that starts `hardmax diagnose`; the measurement ends when the page is closed.

    Args:
        folder: folder of the run.
    """
    with ui.element("details").classes("run-diagnosis"):
        add_text("summary", "Diagnose: which gradient estimator would be best here?")
        add_note(
            "Measures bias, noise and time of every estimator that suits the run's space, on its own images, with its "
            "best weights. It takes one processor for some seconds up to minutes, and changes nothing in the run."
        )
        with ui.element("div").classes("studio-row"):
            images = ui.number("Images", value=16, min=1, max=256, precision=0).props("dense outlined")
            draws = ui.number("Estimates", value=128, min=2, max=4096, precision=0).props("dense outlined")
            start = ui.button("Start").props("no-caps unelevated")
            stop = ui.button("Stop").props("outline no-caps")
            clock = ui.label().classes("studio-note run-clock")
        result = ui.element("div").props("aria-live=polite")
    stop.set_visibility(False)
    tasks: list[asyncio.Task] = []

    async def measure() -> None:
        begin = time.monotonic()
        start.disable()
        stop.set_visibility(True)
        result.clear()
        with result:
            timer = ui.timer(0.5, lambda: setattr(clock, "text", f"{time.monotonic() - begin:.0f} s"))
        try:
            diagnosis = await diagnose_run(folder, int(draws.value or 2), int(images.value or 1))
        except HardmaxError as error:
            result.clear()
            with result:
                show_problem(str(error))
        except asyncio.CancelledError:
            clock.text = "stopped"
            raise
        else:
            clock.text = f"took {time.monotonic() - begin:.0f} s"
            result.clear()
            with result:
                _show_diagnosis(diagnosis)
        finally:
            timer.cancel()
            start.enable()
            stop.set_visibility(False)

    def cancel() -> None:
        for task in tasks:
            task.cancel()
        tasks.clear()

    def begin() -> None:
        cancel()
        tasks.append(background_tasks.create(measure(), name=f"diagnose {folder}"))

    start.on_click(begin)
    stop.on_click(cancel)
    ui.context.client.on_delete(cancel)


def _show_diagnosis(diagnosis: RunDiagnosis) -> None:
    """Add the advice, the command that follows it, and the table."""
    for line in diagnosis.advice:
        add_text("p", escape_control_characters(line))
    if diagnosis.command is not None:
        command = diagnosis.command
        add_code_button("Copy the command that trains with it", lambda: command)
    with ui.element("div").classes("studio-scroll"), ui.element("table").classes("plain"):
        with ui.element("thead"), ui.element("tr"):
            for index, heading in enumerate(diagnosis.headings):
                add_text("th", heading).classes("number" if index else "")
        with ui.element("tbody"):
            for row in diagnosis.rows:
                with ui.element("tr"):
                    for index, text in enumerate(row):
                        add_text("td", text).classes("number" if index else "")
    add_note(diagnosis.about)
    for refusal in diagnosis.refused:
        add_note(f"Refused: {escape_control_characters(refusal)}")
