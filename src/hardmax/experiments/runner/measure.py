"""Train one model, and measure estimators of its gradient after chosen epochs."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.applications.runs import read_config
from hardmax.data import load_images
from hardmax.diagnosis import (
    Diagnosis,
    Reference,
    enumerate_reference,
    make_elbo_call,
    make_expectation_call,
    measure_estimators,
)
from hardmax.experiments.rows import Row, hash_options, identify_run
from hardmax.experiments.runner.job import holds_run, train_or_resume
from hardmax.experiments.runner.progress import ProgressCallbacks, ReproduceResult
from hardmax.experiments.runner.results_folder import ResultsFolder
from hardmax.experiments.tables.measurement import Part, PlannedMeasurement
from hardmax.files import replace_folder
from hardmax.random import make_generator
from hardmax.report.tables import format_command
from hardmax.training.checkpoint import load_progress
from hardmax.training.locks import remove_run
from hardmax.training.loop import Observer
from hardmax.training.run_folder import find_checkpoint, report_write_error
from hardmax.training.task import prepare_split


def train_to_epoch(
    epoch: int, config: DiscreteConfig, epochs: Collection[int], callbacks: ProgressCallbacks
) -> Path | None:
    """Train until the end of an epoch, unless that is done, and return the folder of the model at that time.

    The training stops there and resumes when a later epoch is requested. It remains one training of `config.epochs`
    epochs: the stop does not affect its learning rate.

    Args:
        epoch: one of `epochs`.
        config: the configuration of the run; `config.out` is its folder, and models are kept in it.
        epochs: epochs after which the model is kept.
        callbacks: observe it, and may stop it.

    Returns:
        The folder for `DiscreteVAE.from_pretrained`; None if a callback stopped the training earlier.
    """
    run = Path(config.out)
    if holds_run(config):
        done = load_progress(run)
        if done.position == 0 and done.epoch in epochs:  # after a kill between the checkpoint and its copy
            _copy_latest_model(run, done.epoch)
        if not _model_folder(run, epoch).is_dir() and done.epoch >= epoch:
            callbacks.say(f"the model after epoch {epoch} is no longer in {run}; the run is made again")
            remove_run(run)
    if _model_folder(run, epoch).is_dir() and holds_run(config):
        return _model_folder(run, epoch)
    reached = False

    def keep_model(rows: list[dict[str, Any]]) -> None:
        nonlocal reached
        if rows[0]["epoch"] in epochs:
            _copy_latest_model(run, rows[0]["epoch"])
        reached = rows[0]["epoch"] == epoch

    def step(at: int, done: int, total: int) -> None:
        callbacks.step(0.0, f"training, epoch {at + 1}/{config.epochs}")

    train_or_resume(
        config,
        Observer(on_step=step, on_epoch=keep_model, should_stop=lambda: reached or callbacks.stop()),
        callbacks.say,
    )
    return _model_folder(run, epoch) if reached else None


def _model_folder(run: Path, epoch: int) -> Path:
    return run / f"epoch-{epoch}"


def _copy_latest_model(run: Path, epoch: int) -> None:
    """Copy the model of the latest checkpoint, completely or not at all."""
    model = DiscreteVAE.from_pretrained(run / (find_checkpoint(run, "latest") or ""))
    with report_write_error(run), replace_folder(_model_folder(run, epoch)) as folder:
        model.save_pretrained(folder)


def measure_missing(
    folder: ResultsFolder, wanted: Sequence[PlannedMeasurement], callbacks: ProgressCallbacks
) -> ReproduceResult:
    """Make the measurements that have no row, and render after every epoch.

    This process makes them one after the other: all belong to one training, which pauses during the measurements. A
    training that was stopped or killed is resumed from its last checkpoint.

    Args:
        folder: gets their rows.
        wanted: the measurements, epoch by epoch.
        callbacks: observe it, and may stop it.

    Raises:
        DataError: data cannot be read, or the folder cannot be written.
    """
    missing = [planned for planned in wanted if folder.find_row(planned) is None]
    epochs = {planned.epoch for planned in wanted}
    done = len(wanted) - len(missing)
    for epoch in dict.fromkeys(planned.epoch for planned in missing):
        due = [planned for planned in missing if planned.epoch == epoch]
        callbacks.begin("training", done, len(wanted))
        model = train_to_epoch(epoch, due[0].training, epochs, callbacks)
        if model is None:
            return ReproduceResult(stopped=True)
        trained = _TrainedModel(model, due[0].training, due[0].images)
        for planned in due:
            if callbacks.stop():
                return ReproduceResult(stopped=True)
            callbacks.begin(planned.name, done, len(wanted))
            done += 1
            diagnosis = trained.measure(planned, callbacks)
            for refusal in diagnosis.refused:
                callbacks.say(f"{planned.name} is not measured: {refusal.reason}")
            if diagnosis.rows:
                row = make_row(folder.experiment.name, planned, diagnosis, quick=folder.quick)
                folder.add_row(planned, row)
                callbacks.finished(planned.name, _summarize_row(row))
        folder.render_if_due()
    return ReproduceResult(stopped=False)


def make_row(experiment: str, planned: PlannedMeasurement, diagnosis: Diagnosis, *, quick: bool) -> Row:
    """Return the row of a measurement, from its diagnosis and the folder of its run."""
    (quality,) = diagnosis.rows
    _, provenance = read_config(planned.training.out)
    config = {"training": identify_run(planned.training), **planned.terms}
    return {
        "experiment": experiment,
        "quick": quick,
        "part": planned.part.name,
        "epoch": planned.epoch,
        "hash": hash_options(config),
        "config": config,
        "command": format_command(replace(planned.training, out=f"runs/{experiment}", data_dir=None)),
        "commit": provenance.get("commit"),
        "versions": provenance.get("versions"),
        "norm": diagnosis.norm,
        "notes": list(diagnosis.notes),
        **quality.to_dict(),
    }


class _TrainedModel:
    """A model, the images on which estimators of its gradient are measured, and its exact gradients."""

    def __init__(self, folder: Path, training: DiscreteConfig, count: int) -> None:
        self._model = DiscreteVAE.from_pretrained(folder, device=training.device).eval().requires_grad_(False)
        images = load_images(training.data, data_dir=training.data_dir, seed=training.seed)
        x = prepare_split(training, images, "validation")[:count].to(training.device)
        self._likelihood = self._model.likelihood(x)
        self._scores = self._model.encoder(x)
        self._seed = training.seed
        self._references: dict[str, Reference] = {}

    def measure(self, planned: PlannedMeasurement, callbacks: ProgressCallbacks) -> Diagnosis:
        """Measure one estimator; all of them get the same noise."""
        part, measured, model = planned.part, planned.measured, self._model
        if part.objective == "bound":
            call = make_elbo_call(self._likelihood, model.space, prior=model.prior, kl=measured.kl)
        else:
            call = make_expectation_call(self._likelihood, model.space)
        done = 0

        def observe(name: str, count: int) -> None:
            nonlocal done
            done += count
            callbacks.step(done / planned.draws, planned.name)

        return measure_estimators(
            call,
            self._scores,
            model.space,
            {measured.name: measured.estimator},
            exact=self._reference(part),
            draws=planned.draws,
            evaluations=part.evaluations,
            samples=part.samples,
            generator=make_generator(self._seed, "measure"),
            observe=observe,
        )

    def _reference(self, part: Part) -> Reference:
        """Return the exact gradient of the objective of a part."""
        if part.objective not in self._references:
            prior, linear = self._model.prior, None
            if part.objective == "bound":
                linear = -self._scores if prior is None else prior - self._scores
            self._references[part.objective] = enumerate_reference(
                self._likelihood, self._scores, self._model.space, linear=linear
            )
        return self._references[part.objective]


def _summarize_row(row: Row) -> str:
    bias = f"bias {row['bias']:.2g}" if row["biased"] else "no bias detected"
    return f"{bias}, standard deviation {row['deviation']:.2g}, {row['evaluations']:.3g} evaluations"
