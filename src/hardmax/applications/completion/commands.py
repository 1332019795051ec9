"""`hardmax evaluate`, `sample` and `complete` for a completion model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_image
from hardmax.applications.completion.evaluation import evaluate as measure
from hardmax.applications.completion.evaluation import measure_completions, train_judge
from hardmax.applications.completion.masks import prepare_masked_split
from hardmax.applications.completion.model import CompletionModel, Completions
from hardmax.applications.completion.photo import MaskedPhoto, read_masked_photo
from hardmax.applications.runs import load_run
from hardmax.console import print_line
from hardmax.drawing.images import make_sheet, save_image
from hardmax.files import expand_path
from hardmax.progress_bar import show_bar
from hardmax.random import make_generator
from hardmax.report.sections import spread_indices
from hardmax.report.tables import format_percent

if TYPE_CHECKING:
    from hardmax.applications.completion.config import CompleteOptions
    from hardmax.applications.runs import LoadedRun


_SAMPLES, _COMPLETIONS = 10, 10

# key of a metric: label and format of its row
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
    "sure": ("completions classified with confidence", "{:.1%}"),
    "right": ("completions classified as the image's class", "{:.1%}"),
    "frechet": ("Frechet distance, features of our classifier", "{:.2f}"),
}


def evaluate(options: EvaluateOptions, run: "LoadedRun[CompletionModel]") -> Evaluation:
    """Evaluate a run: the bound and its terms, and the quality of ten completions of each image.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "refine", "perturb_and_map")
    config, model, samples = run.config, run.model, options.samples or _SAMPLES
    data = run.load_data(options.data_dir)
    images = prepare_masked_split(config, data, options.split)[: options.images].to(options.device)
    judge = None if options.judge is None else train_judge(config, data, epochs=options.judge)
    with show_bar(f"{len(images):,} images", len(images)) as bar:
        metrics: dict[str, Any] = measure(model, images, samples=samples, seed=config.seed, on_batch=bar.advance)
    metrics |= {"samples": samples, "completions": _COMPLETIONS}
    metrics |= measure_completions(model, images, count=_COMPLETIONS, seed=config.seed, judge=judge)
    nats = [
        (f"-ELBO ({samples} samples)", f"{-metrics['elbo']:.3f}"),
        (f"-log p(hidden | visible), at most ({samples} samples)", f"{metrics['nll']:.3f}"),
        ("KL(q || mixture)", f"{metrics['kl']:.3f}"),
        ("-E log p(hidden | z, visible)", f"{-metrics['reconstruction']:.3f}"),
    ]
    quality = [(name, text.format(metrics[key])) for key, (name, text) in _ROWS.items() if metrics.get(key) is not None]
    quality.append(("components in use", f"{metrics['components']:.2f} of {max(config.components, 1)}"))
    return Evaluation(len(images), metrics, [(("", "nats per image"), nats), (("completions", ""), quality)])


_SHEET_ROWS, _SHEET_COMPLETIONS = 8, 8


def sample(options: SampleOptions) -> None:
    """Write a sheet of completed test images.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "attributes", "vary")
    run = load_run(options.run, options.checkpoint, data=options.data, kind=CompletionModel)
    images = prepare_masked_split(run.config, run.load_data(options.data_dir), "test")
    images = images[torch.tensor(spread_indices(len(images), options.count or _SHEET_ROWS))]
    generator = make_generator(options.seed, "sample")
    completions = run.model.complete(images.x, images.hidden, count=_SHEET_COMPLETIONS, generator=generator).images
    masked = images.x.where(~images.hidden, 0.5)
    rows = torch.cat([torch.stack([masked, images.x], 1), completions.transpose(0, 1)], 1)
    heads = [["hole"], ["original"], *([str(i + 1)] for i in range(_SHEET_COMPLETIONS))]
    sheet = make_sheet(rows, names=["completion"], heads=heads)
    write_image(options, sheet, f"{len(images)} test images with {_SHEET_COMPLETIONS} completions of each")


_COLUMNS = 8  # number of completions in a row of the sheet


def complete(options: "CompleteOptions") -> None:
    """Complete a photo: write each completion and a sheet of all, and print what was done.

    Raises:
        ArgumentError: an unknown mask, or no mask for a photo without transparent pixels.
        DataError: a photo or mask is not an image, they do not fit, or a file cannot be written.
    """
    run = load_run(options.model, options.checkpoint, kind=CompletionModel)
    path = expand_path(options.photo)
    channels, height, width = run.facts["data"]["shape"]
    photo = read_masked_photo(path, options.mask, (channels, height, width), run.config, options.seed)
    generator = make_generator(options.seed, "complete")
    completions = run.model.complete(
        photo.x, photo.mask, count=options.count, temperature=options.temperature, generator=generator
    )
    out = expand_path(options.out or Path(options.model) / "figures" / "completed")
    for number, image in enumerate(completions.images[:, 0], 1):
        save_image(photo.fill_hole(image).to_image(), out / f"{path.stem}-{number}.png")
    save_image(make_contact_sheet(photo, completions), out / f"{path.stem}-sheet.png")
    files = f"{path.stem}-1.png to {path.stem}-{options.count}.png" if options.count > 1 else f"{path.stem}-1.png"
    print_line(f"{path} ({photo.description}): {options.count} completions in {out}: {files}")
    print_line(f"all side by side, with component and weight: {out / f'{path.stem}-sheet.png'}")


def make_contact_sheet(photo: MaskedPhoto, completions: Completions) -> Image.Image:
    """Return a sheet of the photo with its hole and its completions, at the size of the model's images."""
    masked = photo.x.where(~photo.mask, 0.5)
    rows = []
    for begin in range(0, len(completions.images), _COLUMNS):
        part = slice(begin, begin + _COLUMNS)
        images = torch.cat([masked, completions.images[part, 0]])[None]
        numbers, weights = completions.component[part, 0].tolist(), completions.weight[part, 0].tolist()
        captions = [[str(number), format_percent(weight)] for number, weight in zip(numbers, weights, strict=True)]
        rows.append(make_sheet(images, names=["component", "weight"], heads=[["hole", ""], *captions]))
    sheet = Image.new("RGB", (max(row.width for row in rows), sum(row.height for row in rows)), (255, 255, 255))
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    return sheet
