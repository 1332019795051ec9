"""How well a sequence GAN knows its language."""

import math
from typing import TYPE_CHECKING

from rich.progress import Progress

from hardmax.cli.by_model import refuse
from hardmax.cli.evaluate import Evaluation, Options
from hardmax.training.sequence_gan.evaluate import evaluate as measure

if TYPE_CHECKING:
    from hardmax.models import SequenceGAN
    from hardmax.training.restore import Restored

_DRAWS = 10_000


def evaluate(options: Options, restored: "Restored[SequenceGAN]", bar: Progress) -> Evaluation:
    """Return how likely real sequences are, and what generated ones are like.

    Raises:
        ArgumentError: something is asked for that only discrete models have.
    """
    refuse(options, "refine", "perturb_and_map")
    data, draws = restored.images(options.data_dir), options.samples or _DRAWS
    tokens = getattr(data, options.split)[: options.images]
    found = measure(restored.model, data, tokens, draws=draws, seed=restored.config.seed)
    rows = [("-log q(x), nats per sequence", f"{found['nll']:.3f}")]
    if data.language is not None:
        rows += [
            ("validity: a sentence is written", f"{found['validity']:.2%}"),
            (f"coverage of {len(data.language):,} sentences", f"{found['coverage']:.2%}"),
        ]
    assert found["entropy"] is not None
    rows += [
        (f"entropy, nats ({draws:,} draws)", f"{found['entropy']:.3f}"),
        ("sequences used: its exp", f"{math.exp(found['entropy']):,.1f}"),
        (f"divergence of 3-grams, nats ({draws:,} draws)", f"{found['divergence']:.4f}"),
        ("distinct draws", f"{found['distinct']:.2%}"),
    ]
    return Evaluation(len(tokens), {"samples": draws, **found}, [(("", "value"), rows)], "sequences")
