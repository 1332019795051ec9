"""How good a prior over tokens is: what they take, and the bound of the pictures."""

from typing import TYPE_CHECKING

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.training.held_out import held_out
from hardmax.training.token_prior.evaluate import evaluate as measure
from hardmax.training.token_prior.task import tokenizer_of

if TYPE_CHECKING:
    from hardmax.models import TokenPrior
    from hardmax.training.restore import Restored


def evaluate(options: Options, restored: "Restored[TokenPrior]", bar: Progress) -> Evaluation:
    """Return the bound of pictures with their tokens, and what these take.

    Raises:
        ArgumentError: something is asked for that other models have.
    """
    refuse(options, "refine", "perturb_and_map", "samples")
    told = tokenizer_of(restored.config).config
    pictures = held_out(told, restored.images(options.data_dir), options.split)[: options.images].to(options.device)
    with bar:
        task = bar.add_task(f"{len(pictures):,} pictures", total=len(pictures))
        found = measure(restored.model, pictures, on_batch=lambda count: bar.advance(task, count))
    space = restored.model.tokenizer.space
    nats = [
        ("-log p(x, tokens), at least -log p(x)", f"{-found['elbo']:.3f}"),
        ("-log p(tokens)", f"{found['kl']:.3f}"),
        ("of tokens without a prior", f"{space.log_size:.3f}"),
        ("-log p(x | tokens)", f"{-found['reconstruction']:.3f}"),
    ]
    bits = [(f"of a token, one of {space.k}", f"{found['bits']:.3f}")]
    return Evaluation(len(pictures), found, [(("", "nats per picture"), nats), (("", "bits"), bits)])
