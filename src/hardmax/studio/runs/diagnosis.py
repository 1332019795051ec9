"""Start `hardmax diagnose` on a run in a process of its own; the run's folder is not changed."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardmax.applications.registry import Application
from hardmax.diagnosis.result import HEADINGS, format_quality
from hardmax.errors import DataError

COMMAND = "diagnose"


def can_diagnose(application: Application | None) -> bool:
    """Whether there is a diagnosis for the runs of an application."""
    return application is not None and any(command.name == COMMAND for command in application.commands)


@dataclass(frozen=True)
class RunDiagnosis:
    """What `hardmax diagnose` has measured.

    Attributes:
        headings: headings of the table; the first is that of the names.
        rows: a row of texts for each estimator, the best one first.
        refused: sentences about estimators that could not be measured.
        advice: the recommendation and its price, as sentences.
        command: the command that trains with the recommended estimator; None if there is none.
        about: what the numbers are relative to, as a sentence.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    refused: Sequence[str]
    advice: Sequence[str]
    command: str | None
    about: str


async def diagnose_run(folder: Path, draws: int, images: int) -> RunDiagnosis:
    """Measure the estimators on a run; the process ends with the task that awaits it.

    Args:
        folder: folder of the run.
        draws: number of estimates for each estimator.
        images: number of images.

    Raises:
        DataError: the run cannot be diagnosed; the message is that of the command.
    """
    with TemporaryDirectory(prefix="hardmax-studio-") as out:
        words = ["--json", "--draws", str(draws), "--images", str(images), "--out", out, "--", str(folder)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hardmax.cli.main", COMMAND, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise DataError(lines[-1] if lines else f"hardmax {COMMAND} ended with exit code {process.returncode}")
    return read_diagnosis(json.loads(output.decode().strip().splitlines()[-1]))


def read_diagnosis(report: dict[str, Any]) -> RunDiagnosis:
    """Return the diagnosis in the JSON object that the command prints."""
    batch = report["batch"]
    rows = sorted(report["rows"], key=lambda row: row["error"])
    return RunDiagnosis(
        ("estimator", *HEADINGS),
        [[row["name"], *format_quality(row)] for row in rows],
        [f"{refusal['name']}: {refusal['reason']}" for refusal in report["refused"]],
        report["advice"],
        report["command"],
        f"Relative to the exact gradient, by {report['source']}, of {report['examples']} images; {report['draws']:,} "
        "estimates each. S: samples. evals, solves: evaluations of the decoder and arg maxes for each image. A bias in "
        f"brackets is not significant. error: sqrt(bias² + std² / {batch}), in a batch of {batch}. ms: milliseconds of "
        "one estimate for all of these images.",
    )
