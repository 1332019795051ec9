"""`hardmax evaluate`, `sample` and `complete` for a completion model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_picture
from hardmax.applications.completion.evaluation import evaluate as measure
from hardmax.applications.completion.evaluation import measure_completions, train_judge_of
from hardmax.applications.completion.masks import prepare_masked_split
from hardmax.applications.completion.model import Completed, CompletionModel
from hardmax.applications.completion.photo import HoledPhoto, read_holed
from hardmax.applications.runs import load_run
from hardmax.drawing.images import make_sheet, save_image
from hardmax.progress_bar import show_bar
from hardmax.random import stream
from hardmax.report.sections import spread_indices
from hardmax.report.tables import format_percent

if TYPE_CHECKING:
    from hardmax.applications.completion.config import CompleteOptions
    from hardmax.applications.runs import LoadedRun


_SAMPLES, _COMPLETIONS = 10, 10

# key: label and format of its row
_ROWS = {
    "psnr": ("PSNR, mean", "{:.2f} dB"),
    "psnr_best": (f"PSNR, best of {_COMPLETIONS}", "{:.2f} dB"),
    "psnr_best_half": (f"PSNR, best of {_COMPLETIONS} with temperature 0.5", "{:.2f} dB"),
    "ssim": ("SSIM, mean", "{:.3f}"),
    "ssim_best": (f"SSIM, best of {_COMPLETIONS}", "{:.3f}"),
    "ssim_best_half": (f"SSIM, best of {_COMPLETIONS} with temperature 0.5", "{:.3f}"),
    "diversity": ("difference of two completions", "{:.3f}"),
    "distinct": (f"classes among {_COMPLETIONS}", "{:.2f}"),
    "entropy": ("entropy of the classes", "{:.3f} nats"),
    "sure": ("completions the classifier is sure of", "{:.1%}"),
    "right": ("taken for the picture's class", "{:.1%}"),
    "frechet": ("Frechet distance, features of our classifier", "{:.2f}"),
}


def evaluate(options: EvaluateOptions, restored: "LoadedRun[CompletionModel]") -> Evaluation:
    """Return the bound and its terms, and the quality of ten completions of each picture.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "refine", "perturb_and_map")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    images = restored.load_data(options.data_dir)
    pictures = prepare_masked_split(config, images, options.split)[: options.images].to(options.device)
    judge = None if options.judge is None else train_judge_of(config, images, epochs=options.judge)
    with show_bar(f"{len(pictures):,} pictures", len(pictures)) as bar:
        metrics: dict[str, Any] = measure(model, pictures, samples=samples, seed=config.seed, on_batch=bar.advance)
    metrics |= {"samples": samples, "completions": _COMPLETIONS}
    metrics |= measure_completions(model, pictures, count=_COMPLETIONS, seed=config.seed, judge=judge)
    nats = [
        (f"-ELBO ({samples} samples)", f"{-metrics['elbo']:.3f}"),
        (f"-log p(hidden | visible), at most ({samples} samples)", f"{metrics['nll']:.3f}"),
        ("KL(q || mixture)", f"{metrics['kl']:.3f}"),
        ("-E log p(hidden | z, visible)", f"{-metrics['reconstruction']:.3f}"),
    ]
    quality = [(name, text.format(metrics[key])) for key, (name, text) in _ROWS.items() if metrics.get(key) is not None]
    quality.append(("components in use", f"{metrics['components']:.2f} of {max(config.components, 1)}"))
    return Evaluation(len(pictures), metrics, [(("", "nats per picture"), nats), (("completions", ""), quality)])


_SHEET_ROWS, _SHEET_COMPLETIONS = 8, 8


def sample(options: SampleOptions) -> None:
    """Write a sheet of completed test pictures.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "attributes", "vary")
    restored = load_run(options.run, options.checkpoint, kind=CompletionModel)
    pictures = prepare_masked_split(restored.config, restored.load_data(), "test")
    some = pictures[torch.tensor(spread_indices(len(pictures), options.count or _SHEET_ROWS))]
    generator = stream(options.seed, "sample")
    completions = restored.model.complete(some.x, some.hidden, count=_SHEET_COMPLETIONS, generator=generator).pictures
    rows = torch.cat([torch.stack([some.x.where(~some.hidden, 0.5), some.x], 1), completions.transpose(0, 1)], 1)
    heads = [["hole"], ["true"], *([str(i + 1)] for i in range(_SHEET_COMPLETIONS))]
    sheet = make_sheet(rows, names=["completion"], heads=heads)
    write_picture(options, sheet, f"{len(some)} test pictures with {_SHEET_COMPLETIONS} completions of each")


_COLUMNS = 8  # completions in a row of the sheet


def complete(options: "CompleteOptions") -> None:
    """Complete the photo, write each completion and a sheet of all, and print what was done.

    Raises:
        ArgumentError: an unknown mask, or none is given and the photo is opaque.
        DataError: a photo or mask is not a picture, they do not fit, or a file cannot be written.
    """
    restored = load_run(options.model, options.checkpoint, kind=CompletionModel)
    path = Path(options.photo).expanduser()
    channels, height, width = restored.facts["data"]["shape"]
    photo = read_holed(path, options.mask, (channels, height, width), restored.config, options.seed)
    generator = stream(options.seed, "complete")
    completed = restored.model.complete(
        photo.x, photo.mask, count=options.count, temperature=options.temperature, generator=generator
    )
    out = Path(options.out or Path(options.model) / "figures" / "completed").expanduser()
    for number, picture in enumerate(completed.pictures[:, 0], 1):
        save_image(photo.completed(picture).image(), out / f"{path.stem}-{number}.png")
    save_image(make_contact_sheet(photo, completed), out / f"{path.stem}-sheet.png")
    files = f"{path.stem}-1.png to {path.stem}-{options.count}.png" if options.count > 1 else f"{path.stem}-1.png"
    print(f"{path} ({photo.description}): {options.count} completions in {out}: {files}")
    print(f"all beside each other, with component and weight: {out / f'{path.stem}-sheet.png'}")


def make_contact_sheet(photo: HoledPhoto, found: Completed) -> Image.Image:
    """Return a sheet of the photo with its hole, and its completions as the model draws them."""
    holed = photo.x.where(~photo.mask, 0.5)
    rows = []
    for begin in range(0, len(found.pictures), _COLUMNS):
        part = slice(begin, begin + _COLUMNS)
        pictures = torch.cat([holed, found.pictures[part, 0]])[None]
        numbers, weights = found.component[part, 0].tolist(), found.weight[part, 0].tolist()
        captions = [[str(number), format_percent(weight)] for number, weight in zip(numbers, weights, strict=True)]
        rows.append(make_sheet(pictures, names=["component", "weight"], heads=[["hole", ""], *captions]))
    sheet = Image.new("RGB", (max(row.width for row in rows), sum(row.height for row in rows)), (255, 255, 255))
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    return sheet
