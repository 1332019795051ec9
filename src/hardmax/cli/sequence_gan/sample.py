"""Sequences that a sequence GAN writes."""

from pathlib import Path

from hardmax.cli.by_model import refuse
from hardmax.cli.sample import Options
from hardmax.models import SequenceGAN
from hardmax.random import stream
from hardmax.training.restore import restore
from hardmax.writing import replacing

_SEQUENCES = 20


def sample(options: Options) -> None:
    """Print sequences, one in a line, or write them to a file.

    Raises:
        ArgumentError: attributes are asked for.
        DataError: the file cannot be written.
    """
    refuse(options, "attributes", "vary")
    restored = restore(options.run, options.checkpoint, kind=SequenceGAN)
    count = options.count or _SEQUENCES
    texts, _ = restored.model.sample(count, generator=stream(options.seed, "sample"))
    if options.out is None:
        print("\n".join(texts))
        return
    path = Path(options.out)
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    print(f"{count} sequences in {path}")
