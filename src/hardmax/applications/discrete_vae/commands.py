"""`hardmax evaluate` and `hardmax sample` for a discrete VAE."""

from typing import TYPE_CHECKING

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_grid
from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.applications.discrete_vae.task import evaluate as measure
from hardmax.applications.discrete_vae.task import evaluate_greedy_bound, evaluate_perturb_and_map
from hardmax.progress_bar import show_bar
from hardmax.training.task import prepare_split

if TYPE_CHECKING:
    from hardmax.applications.runs import LoadedRun

_SAMPLES = 1000


def evaluate(options: EvaluateOptions, run: "LoadedRun[DiscreteVAE]") -> Evaluation:
    """Evaluate a run: the evidence lower bound and its terms.

    Raises:
        ArgumentError: an option that only other models have is set.
    """
    refuse_options(options, "judge")
    model, samples, seed = run.model, options.samples or _SAMPLES, run.config.seed
    images = prepare_split(run.config, run.load_data(options.data_dir), options.split)[: options.images]
    images = images.to(options.device)
    with show_bar(f"{len(images):,} images", len(images)) as bar:
        metrics = measure(model, images, samples=samples, seed=seed, on_batch=bar.advance)
    if options.refine:
        metrics["refined"] = evaluate_greedy_bound(model, images)
    if options.perturb_and_map:
        metrics["perturb_and_map"] = evaluate_perturb_and_map(model, images, samples=samples, seed=seed)
    exact = model.is_enumerable
    name = "-ELBO" if model.space.offers("draw") else "-ELBO of perturb-and-MAP"
    rows = [
        (name if exact else f"{name} ({samples} samples)", f"{-metrics['elbo']:.3f}"),
        ("-log p(x)" if exact else f"-log p(x), at most ({samples} samples)", f"{metrics['nll']:.3f}"),
        ("KL(q || prior)", f"{metrics['kl']:.3f}"),
        ("-E log p(x | z)", f"{-metrics['reconstruction']:.3f}"),
    ]
    if options.perturb_and_map:
        rows.append((f"-ELBO of perturb-and-MAP ({samples} samples)", f"{metrics['perturb_and_map']:.3f}"))
    if options.refine:
        rows.append(("-log p(x, z), z refined by greedy changes", f"{metrics['refined']:.3f}"))
    rows.append(("active", str(metrics["active"])))
    return Evaluation(len(images), {"exact": exact, **metrics}, [(("", "nats per image"), rows)])


def sample(options: SampleOptions) -> None:
    """Write a grid of images that the model generates."""
    write_grid(options, DiscreteVAE)
