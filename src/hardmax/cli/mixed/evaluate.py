"""How good a mixed VAE is: the bound, and how often it predicts the labels."""

from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.report.mixed.meaning import meaning_of
from hardmax.report.mixed.predictions import predict
from hardmax.training.mixed.evaluate import evaluate as measure
from hardmax.training.mixed.pictures import seen

if TYPE_CHECKING:
    from hardmax.models import MixedVAE
    from hardmax.training.restore import Restored

_SAMPLES = 100


def evaluate(options: Options, restored: "Restored[MixedVAE]", bar: Progress) -> Evaluation:
    """Return the bound and what it is made of, and accuracies of the arg max and of samples.

    Raises:
        ArgumentError: something is asked for that only other models have.
    """
    refuse(options, "refine", "perturb_and_map", "judge")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    pictures = seen(config, restored.images(options.data_dir), options.split)[: options.images].to(options.device)
    with bar:
        task = bar.add_task(f"{len(pictures):,} pictures", total=len(pictures))
        bounds = measure(
            model, pictures, samples=samples, seed=config.seed, on_batch=lambda count: bar.advance(task, count)
        )
    found: dict[str, Any] = {"samples": samples, **bounds}
    nats = [
        (f"-ELBO ({samples} samples)", f"{-found['elbo']:.3f}"),
        (f"-log p(x), at most ({samples} samples)", f"{found['nll']:.3f}"),
        ("KL(q || prior)", f"{found['kl']:.3f}"),
        ("-E log p(x | z)", f"{-found['reconstruction']:.3f}"),
    ]
    tables: list[Any] = [(("", "nats per picture"), nats)]
    meaning = meaning_of(config, model.space, restored.said)
    told = predict(model, meaning, pictures)
    found |= {"accuracy": told.accuracy(), "accuracy_sampled": told.accuracy_sampled()}
    if found["accuracy"] is None:
        return Evaluation(len(pictures), found, tables)
    rows = [(name, told.accuracy(i), told.accuracy_sampled(i)) for i, name in enumerate(meaning.names)]
    if len(rows) > 1:
        found["attributes"] = {name: {"accuracy": best, "accuracy_sampled": drawn} for name, best, drawn in rows}
        rows.append(("all", found["accuracy"], found["accuracy_sampled"]))
    of = "accuracy of" if config.labels else "accuracy, by chance: no labels used"
    texts = [(name, *("-" if value is None else f"{value:.2%}" for value in values)) for name, *values in rows]
    return Evaluation(len(pictures), found, [*tables, ((of, "the arg max", "a sample"), texts)])
