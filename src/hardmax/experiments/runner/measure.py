"""Train one model, and measure estimators of its gradient after chosen epochs."""

import json
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.data import load
from hardmax.diagnosis import Diagnosis, Reference, bounded, enumerated, expected
from hardmax.diagnosis import measure as measure_estimators
from hardmax.experiments.pages.render import show
from hardmax.experiments.runner.job import is_there, make_run
from hardmax.experiments.runner.locks import claim
from hardmax.experiments.runner.progress import Watcher
from hardmax.experiments.runner.readings import FIELDS, Reading, find_reading, readings, row_of
from hardmax.experiments.runner.rows import ROWS, Row, mend_results, read_results
from hardmax.experiments.tables.measurement import Measurement, Part
from hardmax.experiments.tables.registry import choose_parts
from hardmax.random import stream
from hardmax.training.checkpoint import Progress
from hardmax.training.loop import Observer
from hardmax.training.run_folder import append_rows, checkpoint_name
from hardmax.training.task import held_out


def model_after(epoch: int, config: DiscreteConfig, epochs: Collection[int], watcher: Watcher) -> Path | None:
    """Train until an epoch has ended, unless that is done, and return the folder of the model as it was then.

    The training stops there and goes on when a later epoch is asked for, as one training of `config.epochs` epochs:
    its learning rate knows nothing of the stop.

    Args:
        epoch: one of those to keep.
        config: what the run is told; `config.out` is its folder, and models are kept in it.
        epochs: after which the model is kept.
        watcher: sees it go by, and may stop it.

    Returns:
        The folder for `DiscreteVAE.from_pretrained`; None if the watcher stopped the training before.
    """
    run = Path(config.out)
    if is_there(config):
        done = _epochs_done(run)
        if done.position == 0 and done.epoch in epochs:  # after a kill between the checkpoint and its copy
            _keep(run, done.epoch)
        if not _folder(run, epoch).is_dir() and done.epoch >= epoch:
            watcher.say(f"the model after epoch {epoch} is no longer in {run}, which is made anew")
            shutil.rmtree(run)
    if _folder(run, epoch).is_dir() and is_there(config):
        return _folder(run, epoch)
    reached = False

    def rows(found: list[dict[str, Any]]) -> None:
        nonlocal reached
        if found[0]["epoch"] in epochs:
            _keep(run, found[0]["epoch"])
        reached = found[0]["epoch"] == epoch

    def step(at: int, done: int, total: int) -> None:
        watcher.step(0.0, f"training, epoch {at + 1}/{config.epochs}")

    make_run(config, Observer(step=step, rows=rows, stop=lambda: reached or watcher.stop()), watcher.say)
    return _folder(run, epoch) if reached else None


def _folder(run: Path, epoch: int) -> Path:
    return run / f"epoch-{epoch}"


def _epochs_done(run: Path) -> Progress:
    """Return where the latest checkpoint stands."""
    name = checkpoint_name(run, "latest")
    return Progress() if name is None else Progress(**json.loads((run / name / "training.json").read_text()))


def _keep(run: Path, epoch: int) -> None:
    """Copy the model of the latest checkpoint; all of it is there, or nothing."""
    temporary = run / f"epoch-{epoch}.tmp"
    DiscreteVAE.from_pretrained(run / (checkpoint_name(run, "latest") or "")).save_pretrained(temporary)
    shutil.rmtree(_folder(run, epoch), ignore_errors=True)
    temporary.rename(_folder(run, epoch))


def measure(
    measurement: Measurement,
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    data_dir: str | None = None,
    watcher: Watcher | None = None,
) -> bool:
    """Measure what is missing, render after every epoch; return False if the watcher stopped it before the end.

    A reading is missing unless `results.jsonl` has a row with its very terms. Training that was stopped or killed goes
    on from its last checkpoint, and stands still while is measured.

    Args:
        measurement: what to make.
        out: the folder for rows, the run and what is rendered.
        quick: its quick form.
        only: names of parts; without them, all.
        data_dir: folder that holds the named data sets.
        watcher: sees it go by.

    Raises:
        ArgumentError: no such part, or the folder is for something else.
        DataError: data cannot be read, or the folder cannot be written.
    """
    watcher, form = watcher or Watcher(), measurement.form(quick=quick)
    parts = choose_parts(form, only)
    claim(out, form.name, quick=quick)
    if broken := mend_results(out / ROWS, FIELDS):
        watcher.say(f"{broken} broken lines of {out / ROWS} were removed; they are measured again")
    training = replace(form.training, out=str(out / "run"), data_dir=data_dir)
    everything, wanted = readings(form, form.parts, training), readings(form, parts, training)
    rows, _ = read_results(out / ROWS, FIELDS)
    missing = [reading for reading in wanted if find_reading(rows, reading) is None]
    done = len(wanted) - len(missing)
    if done:
        watcher.say(f"{done} of {len(wanted)} measurements are there already")
        show(form, everything, rows, out, quick=quick)
    for epoch in dict.fromkeys(reading.epoch for reading in missing):
        watcher.begin("training", done, len(wanted))
        folder = model_after(epoch, training, form.epochs, watcher)
        if folder is None:
            return False
        bench = _Bench(folder, training, form.pictures)
        for reading in (reading for reading in missing if reading.epoch == epoch):
            if watcher.stop():
                return False
            watcher.begin(reading.name, done, len(wanted))
            done += 1
            found = bench.measure(reading, watcher)
            for refusal in found.refused:
                watcher.say(f"{reading.name} is not measured: {refusal.reason}")
            if found.rows:
                row = row_of(form.name, reading, found, quick=quick)
                append_rows(out / ROWS, [row])
                rows.append(row)
                watcher.finished(reading.name, _told(row))
        show(form, everything, rows, out, quick=quick)
    return True


class _Bench:
    """A model, the pictures it is measured on, and its exact gradients."""

    def __init__(self, folder: Path, training: DiscreteConfig, pictures: int) -> None:
        self._model = DiscreteVAE.from_pretrained(folder, device=training.device).eval().requires_grad_(False)
        images = load(training.data, data_dir=training.data_dir, seed=training.seed)
        x = held_out(training, images, "validation")[:pictures].to(training.device)
        self._likelihood = self._model.likelihood(x)
        self._scores = self._model.encoder(x)
        self._seed = training.seed
        self._references: dict[str, Reference] = {}

    def measure(self, reading: Reading, watcher: Watcher) -> Diagnosis:
        """Measure one estimator; all of them get the same noise."""
        part, entrant, model = reading.part, reading.entrant, self._model
        if part.objective == "bound":
            call = bounded(self._likelihood, model.space, prior=model.prior, kl=entrant.kl)
        else:
            call = expected(self._likelihood, model.space)
        made = 0

        def observe(name: str, count: int) -> None:
            nonlocal made
            made += count
            watcher.step(made / reading.draws, reading.name)

        return measure_estimators(
            call,
            self._scores,
            model.space,
            {entrant.name: entrant.estimator},
            exact=self._reference(part),
            draws=reading.draws,
            evaluations=part.evaluations,
            samples=part.samples,
            generator=stream(self._seed, "measure"),
            observe=observe,
        )

    def _reference(self, part: Part) -> Reference:
        """Return the exact gradient of what a part is about."""
        if part.objective not in self._references:
            prior, linear = self._model.prior, None
            if part.objective == "bound":
                linear = -self._scores if prior is None else prior - self._scores
            self._references[part.objective] = enumerated(
                self._likelihood, self._scores, self._model.space, linear=linear
            )
        return self._references[part.objective]


def _told(row: Row) -> str:
    bias = f"bias {row['bias']:.2g}" if row["biased"] else "no bias seen"
    return f"{bias}, standard deviation {row['deviation']:.2g}, {row['evaluations']:.3g} evaluations"
