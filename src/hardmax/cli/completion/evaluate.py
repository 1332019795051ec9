"""How good a completion model is: the bound of hidden pixels, and what several completions are worth."""

from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.training.completion.evaluate import evaluate as measure
from hardmax.training.completion.pictures import holed
from hardmax.training.completion.quality import measure_completions, train_judge_of

if TYPE_CHECKING:
    from hardmax.models import CompletionModel
    from hardmax.training.restore import Restored

_SAMPLES, _COMPLETIONS = 10, 10

# key: what stands before it, and how it is written
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


def evaluate(options: Options, restored: "Restored[CompletionModel]", bar: Progress) -> Evaluation:
    """Return the bound and what it is made of, and what ten completions of each picture are worth.

    Raises:
        ArgumentError: something is asked for that only other models have.
    """
    refuse(options, "refine", "perturb_and_map")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    images = restored.images(options.data_dir)
    pictures = holed(config, images, options.split)[: options.images].to(options.device)
    judge = None if options.judge is None else train_judge_of(config, images, epochs=options.judge)
    with bar:
        task = bar.add_task(f"{len(pictures):,} pictures", total=len(pictures))
        found: dict[str, Any] = measure(
            model, pictures, samples=samples, seed=config.seed, on_batch=lambda count: bar.advance(task, count)
        )
    found |= {"samples": samples, "completions": _COMPLETIONS}
    found |= measure_completions(model, pictures, count=_COMPLETIONS, seed=config.seed, judge=judge)
    nats = [
        (f"-ELBO ({samples} samples)", f"{-found['elbo']:.3f}"),
        (f"-log p(hidden | visible), at most ({samples} samples)", f"{found['nll']:.3f}"),
        ("KL(q || mixture)", f"{found['kl']:.3f}"),
        ("-E log p(hidden | z, visible)", f"{-found['reconstruction']:.3f}"),
    ]
    worth = [(name, text.format(found[key])) for key, (name, text) in _ROWS.items() if found.get(key) is not None]
    worth.append(("components in use", f"{found['components']:.2f} of {max(config.components, 1)}"))
    return Evaluation(len(pictures), found, [(("", "nats per picture"), nats), (("completions", ""), worth)])
