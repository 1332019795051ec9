"""`hardmax evaluate`, `sample` and `edit` for a mixed VAE."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_picture
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report import draw_samples
from hardmax.applications.mixed_vae.report_labels import arrange_columns, predict, read_meaning, split_words
from hardmax.applications.mixed_vae.supervision import Seen, prepare_labelled_split
from hardmax.applications.mixed_vae.task import evaluate as measure
from hardmax.applications.runs import load_run
from hardmax.data import binarize
from hardmax.data.image_files import fit_photo
from hardmax.data.image_reading import SUFFIXES
from hardmax.drawing.images import make_grid, make_sheet, save_image
from hardmax.errors import ArgumentError
from hardmax.progress_bar import show_bar
from hardmax.random import stream

if TYPE_CHECKING:
    from hardmax.applications.mixed_vae.config import EditOptions
    from hardmax.applications.runs import LoadedRun


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo read from a file.

    Attributes:
        path: the file.
        seen: the model's input, a batch of one.
        done: how it was preprocessed.
    """

    path: Path
    seen: Seen
    done: str


def read_photo(path: Path, shape: tuple[int, int, int], config: MixedConfig) -> Photo:
    """Read a photo in the form of a run's pictures: of this shape (channels, H, W), binarized as they are.

    Raises:
        DataError: the file is not a picture.
    """
    fitted = fit_photo(path, shape)
    done = list(fitted.done)
    if config.binarize != "none":
        how = "rounded to zeros and ones" if config.binarize == "threshold" else "drawn as zeros and ones"
        done.append(f"pixels {how}")
    x = binarize(fitted.pixels, config.binarize, stream(config.seed, "binarize", "photo"))
    inputs = binarize(fitted.pixels, "none") if config.encoder_input == "grey" else x
    return Photo(path, Seen(x, inputs, None), ", ".join(done))


_SAMPLES = 100


def evaluate(options: EvaluateOptions, restored: "LoadedRun[MixedVAE]") -> Evaluation:
    """Return the bound and its terms, and accuracies of the arg max and of samples.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "refine", "perturb_and_map", "judge")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    pictures = prepare_labelled_split(config, restored.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(pictures):,} pictures", len(pictures)) as bar:
        bounds = measure(model, pictures, samples=samples, seed=config.seed, on_batch=bar.advance)
    metrics: dict[str, Any] = {"samples": samples, **bounds}
    nats = [
        (f"-ELBO ({samples} samples)", f"{-metrics['elbo']:.3f}"),
        (f"-log p(x), at most ({samples} samples)", f"{metrics['nll']:.3f}"),
        ("KL(q || prior)", f"{metrics['kl']:.3f}"),
        ("-E log p(x | z)", f"{-metrics['reconstruction']:.3f}"),
    ]
    tables: list[Any] = [(("", "nats per picture"), nats)]
    meaning = read_meaning(config, model.space, restored.facts)
    predictions = predict(model, meaning, pictures)
    metrics |= {"accuracy": predictions.accuracy(), "accuracy_sampled": predictions.accuracy_sampled()}
    if metrics["accuracy"] is None:
        return Evaluation(len(pictures), metrics, tables)
    rows = [(name, predictions.accuracy(i), predictions.accuracy_sampled(i)) for i, name in enumerate(meaning.names)]
    if len(rows) > 1:
        metrics["attributes"] = {name: {"accuracy": best, "accuracy_sampled": sampled} for name, best, sampled in rows}
        rows.append(("all", metrics["accuracy"], metrics["accuracy_sampled"]))
    of = "accuracy of" if config.labels else "accuracy, by chance: no labels used"
    texts = [(name, *("-" if value is None else f"{value:.2%}" for value in values)) for name, *values in rows]
    return Evaluation(len(pictures), metrics, [*tables, ((of, "the arg max", "a sample"), texts)])


_ROWS = 8


def sample(options: SampleOptions) -> None:
    """Write a sheet of pictures.

    Raises:
        ArgumentError: the run has no attributes, or not the named ones, or a value is not a bit.
    """
    restored = load_run(options.run, options.checkpoint, kind=MixedVAE)
    meaning = read_meaning(restored.config, restored.model.space, restored.facts)
    if not meaning.attributes and (options.attributes or options.vary):
        raise ArgumentError(
            f"--attributes and --vary are for runs with attributes, and {options.run} has none: its columns are the "
            f"{meaning.values} values of {meaning.names[0]!r}; leave them out, or train with --attributes"
        )
    fixed = meaning.read(options.attributes) if options.attributes is not None else None
    vary = None if options.vary is None else [meaning.find(name) for name in split_words(options.vary)]
    columns = arrange_columns(meaning, fixed, vary)
    count = options.count or _ROWS
    samples = draw_samples(restored.model, meaning, columns, count, stream(options.seed, "sample"))
    names = [meaning.names[variable] for variable in columns.variables]
    sheet = make_sheet(samples.pictures, names=names, heads=columns.heads, rows=samples.rows)
    if columns.note:
        print(columns.note)
    description = f"{count} rows of {len(columns.settings)} pictures, each row with one continuous latent,"
    write_picture(options, sheet, description)


def edit(options: "EditOptions") -> None:
    """Edit the photos, write each and a sheet of all, and print what was done.

    Raises:
        ArgumentError: `set` has an unknown name or value, or several photos are to be written to one file.
        DataError: a photo is not a picture, or a file cannot be written.
    """
    restored = load_run(options.run, options.checkpoint, kind=MixedVAE)
    config, model = restored.config, restored.model
    meaning = read_meaning(config, model.space, restored.facts)
    setting = meaning.read(options.set)
    paths = [Path(name).expanduser() for name in options.photos]
    files, sheet_file = _files(paths, options)
    channels, height, width = model.sample(1)[0].shape[1:]
    photos = [read_photo(path, (channels, height, width), config) for path in paths]
    inputs = torch.cat([photo.seen.shown for photo in photos])
    predicted = model.predict(inputs)
    edited = model.edit(inputs, meaning.put(predicted, setting))
    texts = [meaning.format_setting(dict(enumerate(values))) for values in meaning.values_of(predicted).tolist()]
    for photo, picture, text, file in zip(photos, edited, texts, files, strict=True):
        save_image(make_grid(picture[None], padding=0), file)
        print(f"{photo.path} ({photo.done}): seen as {text}, drawn with {meaning.format_setting(setting)} in {file}")
    columns = torch.stack([torch.cat([photo.seen.x for photo in photos]), model.edit(inputs, predicted), edited], 1)
    rows = [f"{photo.path.name}\n{text.replace(' ', chr(10))}" for photo, text in zip(photos, texts, strict=True)]
    heads = [["photo"], ["drawn again"], [meaning.format_setting(setting)]]
    save_image(make_sheet(columns, names=["seen as"], heads=heads, rows=rows), sheet_file)
    print(f"photo, drawn again and edited beside each other: {sheet_file}")


def _files(photos: list[Path], options: "EditOptions") -> tuple[list[Path], Path]:
    """Return the file of each edited photo, and that of the sheet of all."""
    out = Path(options.out or Path(options.run) / "figures" / "edited").expanduser()
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
