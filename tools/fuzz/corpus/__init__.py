"""The corpus: small valid files of every format that hardmax reads, each with the function that reads it."""

from pathlib import Path

from tools.fuzz.corpus import arrays, experiments, image_files, models, runs, segmentation, sequences
from tools.fuzz.corpus.target import Target

_KINDS = (arrays, image_files, sequences, models, runs, experiments, segmentation)


def make_targets(folder: Path) -> list[Target]:
    """Write the corpus to a folder; return what may be mutated in it.

    Raises:
        AssertionError: a file of the corpus is not read as it is.
    """
    targets = [target for kind in _KINDS for target in kind.make_targets(folder / kind.__name__.rsplit(".", 1)[-1])]
    names = [target.name for target in targets]
    assert len(set(names)) == len(names), names
    return targets
