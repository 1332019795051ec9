"""`hardmax evaluate` and `sample` for a sequence GAN."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options
from hardmax.applications.runs import load_run
from hardmax.applications.sequences.evaluation import evaluate as measure
from hardmax.applications.sequences.model import SequenceGAN
from hardmax.console import print_line
from hardmax.files import write_output
from hardmax.random import make_generator

if TYPE_CHECKING:
    from hardmax.applications.runs import LoadedRun


_DRAWS = 10_000


def evaluate(options: EvaluateOptions, restored: "LoadedRun[SequenceGAN]") -> Evaluation:
    """Return the likelihood of real sequences, and statistics of generated ones.

    Raises:
        ArgumentError: an option is given that only discrete VAEs have.
    """
    refuse_options(options, "refine", "perturb_and_map")
    data, draws = restored.load_data(options.data_dir), options.samples or _DRAWS
    tokens = getattr(data, options.split)[: options.images]
    numbers = measure(restored.model, data, tokens, draws=draws, seed=restored.config.seed)
    rows = [("-log q(x), nats per sequence", f"{numbers['nll']:.3f}")]
    if data.language is not None:
        rows += [
            ("validity: probability of generating a sentence", f"{numbers['validity']:.2%}"),
            (f"coverage of {len(data.language):,} sentences", f"{numbers['coverage']:.2%}"),
        ]
    assert numbers["entropy"] is not None
    rows += [
        (f"entropy, nats ({draws:,} draws)", f"{numbers['entropy']:.3f}"),
        ("effective number of sequences: exp(entropy)", f"{math.exp(numbers['entropy']):,.1f}"),
        (f"divergence of 3-grams, nats ({draws:,} draws)", f"{numbers['divergence']:.4f}"),
        ("distinct draws", f"{numbers['distinct']:.2%}"),
    ]
    return Evaluation(len(tokens), {"samples": draws, **numbers}, [(("", "value"), rows)])


_SEQUENCES = 20


def sample(options: SampleOptions) -> None:
    """Print sequences, one per line, or write them to a file.

    Raises:
        ArgumentError: an option is given that only mixed VAEs have.
        DataError: the file cannot be written.
    """
    refuse_options(options, "attributes", "vary")
    restored = load_run(options.run, options.checkpoint, kind=SequenceGAN)
    count = options.count or _SEQUENCES
    texts, _ = restored.model.sample(count, generator=make_generator(options.seed, "sample"))
    if options.out is None:
        for text in texts:
            print_line(text)
        return
    path = Path(options.out)
    with write_output(path) as temporary:
        temporary.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    print_line(f"{count} sequences in {path}")
