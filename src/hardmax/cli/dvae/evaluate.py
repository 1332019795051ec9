"""How good a dVAE is: the bound, what is drawn again from tokens, and how the codes are used."""

from typing import TYPE_CHECKING

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.training.dvae.evaluate import evaluate as measure
from hardmax.training.held_out import held_out

if TYPE_CHECKING:
    from hardmax.models import TokenVAE
    from hardmax.training.restore import Restored

_SAMPLES = 10


def evaluate(options: Options, restored: "Restored[TokenVAE]", bar: Progress) -> Evaluation:
    """Return the bound and what it is made of, the error of tokens, and the use of the codes.

    Raises:
        ArgumentError: something is asked for that only discrete models have.
    """
    refuse(options, "refine", "perturb_and_map")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    pictures = held_out(config, restored.images(options.data_dir), options.split)[: options.images].to(options.device)
    with bar:
        task = bar.add_task(f"{len(pictures):,} pictures", total=len(pictures))
        found = measure(model, pictures, config, samples=samples, on_batch=lambda count: bar.advance(task, count))
    drawn = "" if config.quantize == "nearest" else f" ({samples} samples)"
    nats = [
        (f"-ELBO{drawn}", f"{-found['elbo']:.3f}"),
        (f"-log p(x), at most{drawn}", f"{found['nll']:.3f}"),
        ("KL(q || prior)", f"{found['kl']:.3f}"),
        ("-E log p(x | z)", f"{-found['reconstruction']:.3f}"),
    ]
    tokens = [
        ("mean squared error of a pixel", f"{found['mse']:.5f}"),
        (f"perplexity of {model.space.k} codes", f"{found['perplexity']:.1f}"),
        ("codes alive", f"{found['alive']:.1%}"),
    ]
    tables = [(("", "nats per picture"), nats), (("drawn again from tokens", ""), tokens)]
    return Evaluation(len(pictures), {"samples": samples, **found}, tables)
