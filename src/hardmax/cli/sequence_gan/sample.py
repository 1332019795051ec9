"""Sequences that a sequence GAN writes."""

from pathlib import Path

from hardmax.cli.by_model import refuse
from hardmax.cli.sample import Options
from hardmax.errors import DataError
from hardmax.models import SequenceGAN
from hardmax.random import stream
from hardmax.training.checkpoint import write_atomically
from hardmax.training.restore import restore

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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(f"{text}\n" for text in texts))
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error
    print(f"{count} sequences in {path}")
