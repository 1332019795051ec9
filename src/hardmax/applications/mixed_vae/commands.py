"""`hardmax evaluate`, `sample` and `edit` for a mixed VAE."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_image
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report import draw_samples
from hardmax.applications.mixed_vae.report_labels import arrange_columns, predict, read_latent_names, split_words
from hardmax.applications.mixed_vae.supervision import PreparedImages, prepare_labelled_split
from hardmax.applications.mixed_vae.task import evaluate as measure
from hardmax.applications.runs import load_run
from hardmax.console import print_line
from hardmax.data import binarize
from hardmax.data.image_files import fit_photo
from hardmax.data.image_reading import SUFFIXES
from hardmax.drawing.images import make_grid, make_sheet, save_image
from hardmax.errors import ArgumentError
from hardmax.files import expand_path
from hardmax.progress_bar import show_bar
from hardmax.random import make_generator

if TYPE_CHECKING:
    from hardmax.applications.mixed_vae.config import EditOptions
    from hardmax.applications.runs import LoadedRun


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo that was read from a file.

    Attributes:
        path: the file.
        prepared: the model's input, a batch of one image.
        description: its size, and how it was preprocessed.
    """

    path: Path
    prepared: PreparedImages
    description: str


def read_photo(path: Path, shape: tuple[int, int, int], config: MixedConfig) -> Photo:
    """Read a photo and convert it to the shape (channels, H, W) and the binarization of a run's images.

    Raises:
        DataError: the file is not an image.
    """
    fitted = fit_photo(path, shape)
    steps = list(fitted.conversions)
    if config.binarize != "none":
        how = "rounded to zeros and ones" if config.binarize == "threshold" else "sampled as zeros and ones"
        steps.append(f"pixels {how}")
    x = binarize(fitted.pixels, config.binarize, make_generator(config.seed, "binarize", "photo"))
    inputs = binarize(fitted.pixels, "none") if config.encoder_input == "grey" else x
    return Photo(path, PreparedImages(x, inputs, None), ", ".join(steps))


_SAMPLES = 100


def evaluate(options: EvaluateOptions, run: "LoadedRun[MixedVAE]") -> Evaluation:
    """Evaluate a run: the bound and its terms, and the accuracies of the arg max and of samples.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "refine", "perturb_and_map", "judge")
    config, model, samples = run.config, run.model, options.samples or _SAMPLES
    images = prepare_labelled_split(config, run.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(images):,} images", len(images)) as bar:
        bounds = measure(model, images, samples=samples, seed=config.seed, on_batch=bar.advance)
    metrics: dict[str, Any] = {"samples": samples, **bounds}
    nats = [
        (f"-ELBO ({samples} samples)", f"{-metrics['elbo']:.3f}"),
        (f"-log p(x), at most ({samples} samples)", f"{metrics['nll']:.3f}"),
        ("KL(q || prior)", f"{metrics['kl']:.3f}"),
        ("-E log p(x | z)", f"{-metrics['reconstruction']:.3f}"),
    ]
    tables: list[Any] = [(("", "nats per image"), nats)]
    latent = read_latent_names(config, model.space, run.facts)
    predictions = predict(model, latent, images)
    metrics |= {"accuracy": predictions.accuracy(), "accuracy_sampled": predictions.accuracy_sampled()}
    if metrics["accuracy"] is None:
        return Evaluation(len(images), metrics, tables)
    rows = [(name, predictions.accuracy(i), predictions.accuracy_sampled(i)) for i, name in enumerate(latent.names)]
    if len(rows) > 1:
        metrics["attributes"] = {name: {"accuracy": best, "accuracy_sampled": sampled} for name, best, sampled in rows}
        rows.append(("all", metrics["accuracy"], metrics["accuracy_sampled"]))
    heading = "accuracy of" if config.labels else "accuracy, by chance: no labels used"
    texts = [(name, *("-" if value is None else f"{value:.2%}" for value in values)) for name, *values in rows]
    return Evaluation(len(images), metrics, [*tables, ((heading, "the arg max", "a sample"), texts)])


_ROWS = 8


def sample(options: SampleOptions) -> None:
    """Write a sheet of images that the model generates.

    Raises:
        ArgumentError: the run has no attributes, or not the named ones, or the value of an attribute is not 0 or 1.
    """
    run = load_run(options.run, options.checkpoint, kind=MixedVAE)
    latent = read_latent_names(run.config, run.model.space, run.facts)
    if not latent.has_attributes and (options.attributes or options.vary):
        raise ArgumentError(
            f"--attributes and --vary are for runs with attributes, and {options.run} has none: its columns are the "
            f"{latent.value_count} values of {latent.names[0]!r}; leave them out, or train with --attributes"
        )
    fixed = latent.parse_setting(options.attributes) if options.attributes is not None else None
    vary = None if options.vary is None else [latent.find_variable(name) for name in split_words(options.vary)]
    columns = arrange_columns(latent, fixed, vary)
    count = options.count or _ROWS
    samples = draw_samples(run.model, latent, columns, count, make_generator(options.seed, "sample"))
    names = [latent.names[variable] for variable in columns.variables]
    sheet = make_sheet(samples.images, names=names, heads=columns.heads, rows=samples.rows)
    if columns.note:
        print_line(columns.note)
    description = f"{count} rows of {len(columns.settings)} images, each row with one continuous latent,"
    write_image(options, sheet, description)


def edit(options: "EditOptions") -> None:
    """Edit photos: write each edited image and a sheet of all, and print what was done.

    Raises:
        ArgumentError: `set` has an unknown name or value, or several photos are to be written to one file.
        DataError: a photo is not an image, or a file cannot be written.
    """
    run = load_run(options.run, options.checkpoint, kind=MixedVAE)
    config, model = run.config, run.model
    latent = read_latent_names(config, model.space, run.facts)
    setting = latent.parse_setting(options.set)
    paths = [expand_path(name) for name in options.photos]
    files, sheet_file = _choose_files(paths, options)
    channels, height, width = model.sample(1)[0].shape[1:]
    photos = [read_photo(path, (channels, height, width), config) for path in paths]
    inputs = torch.cat([photo.prepared.encoder_input for photo in photos])
    predicted = model.predict(inputs)
    edited = model.edit(inputs, latent.apply_setting(predicted, setting))
    texts = [latent.format_setting(dict(enumerate(values))) for values in latent.get_values(predicted).tolist()]
    changes = latent.format_setting(setting)
    for photo, image, text, file in zip(photos, edited, texts, files, strict=True):
        save_image(make_grid(image[None], padding=0), file)
        print_line(f"{photo.path} ({photo.description}): recognised as {text}, edited to {changes}, written to {file}")
    originals = torch.cat([photo.prepared.x for photo in photos])
    columns = torch.stack([originals, model.edit(inputs, predicted), edited], 1)
    rows = [f"{photo.path.name}\n{text.replace(' ', chr(10))}" for photo, text in zip(photos, texts, strict=True)]
    heads = [["photo"], ["reconstructed"], [changes]]
    save_image(make_sheet(columns, names=["recognised as"], heads=heads, rows=rows), sheet_file)
    print_line(f"photo, reconstruction and edited image side by side: {sheet_file}")


def _choose_files(photos: list[Path], options: "EditOptions") -> tuple[list[Path], Path]:
    """Return the file of each edited photo, and that of the sheet of all."""
    out = expand_path(options.out or Path(options.run) / "figures" / "edited")
    if out.suffix.lower() not in SUFFIXES or out.is_dir():
        names = [f"{photo.stem}-edited" for photo in photos]
        # A number distinguishes photos of the same name from different folders.
        files = [
            out / f"{name}{f'-{names[:i].count(name) + 1}' if name in names[:i] else ''}.png"
            for i, name in enumerate(names)
        ]
        return files, out / "sheet.png"
    if len(photos) > 1:
        raise ArgumentError(f"--out {out} is one file, but there are {len(photos)} photos; give a folder")
    if out.exists() and photos[0].exists() and out.samefile(photos[0]):
        raise ArgumentError(f"--out {out} is the photo itself; choose another file")
    return [out], out.with_name(f"{out.stem}-sheet.png")
