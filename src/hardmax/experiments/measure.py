"""Trains one model, and measures estimators of its gradient after chosen epochs; what is there is not made again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hardmax.data import load
from hardmax.diagnosis import Diagnosis, Reference, bounded, enumerated, expected
from hardmax.diagnosis import measure as measure_estimators
from hardmax.experiments.catalogue import choose_parts
from hardmax.experiments.folder import claim
from hardmax.experiments.measurement import Measurement, Part
from hardmax.experiments.readings import FIELDS, Reading, find_reading, readings, row_of
from hardmax.experiments.results import ROWS, Row, mend_results, read_results
from hardmax.experiments.show import show
from hardmax.experiments.snapshots import model_after
from hardmax.experiments.watcher import Watcher
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.held_out import held_out
from hardmax.training.log import append_rows


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
