"""`hardmax segment prior`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardmax.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Learn from label maps, without any scans, what anatomy looks like.

    The maps are aligned and averaged. They may be in the numbers of FreeSurfer and SynthSeg, or of hardmax. What is
    made segments scans: hardmax segment run --model PRIOR.

    Example: hardmax segment prior maps/ --out prior
    """

    maps: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MAPS...")]
    """Label maps (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    out: str | None = None
    """Folder to make; default: the one where hardmax segment run looks."""


def run(arguments: list[str]) -> int:
    """Make the prior, and say where it is."""
    options = parse(Options, "segment prior", arguments)
    from hardmax.errors import ArgumentError
    from hardmax.segmentation.model_folder import default_folder
    from hardmax.segmentation.volumes.scans import find_maps

    if not options.maps:
        raise ArgumentError("name the label maps to learn from: files, or folders of them")
    maps = find_maps([Path(path).expanduser() for path in options.maps])
    out = Path(options.out).expanduser() if options.out else default_folder()
    from rich.console import Console

    from hardmax.cli.segment_progress import show_progress
    from hardmax.writing import making_folder

    with making_folder(out) as folder, show_progress(Console(stderr=True)) as step:
        step(0, 0.0, f"{len(maps)} label maps")
        from hardmax.segmentation.atlas.atlas import build_prior

        build_prior(maps, folder, lambda part, doing: step(0, part, doing))
    use = "" if options.out is None else f" --model {out}"
    print(f"the prior of {len(maps)} label maps is in {out}; segment with: hardmax segment run SCAN --out result{use}")
    return 0
