"""`hardmax segment prior|train|run`."""

from importlib import import_module

from hardmax.errors import ArgumentError

_COMMANDS = {
    "prior": "learn from label maps what anatomy looks like",
    "train": "learn from unlabelled scans to find the anatomy in them quickly",
    "run": "segment scans",
}
_USAGE = """usage: hardmax segment prior|train|run [OPTIONS]     (hardmax segment run --help tells more)

Segment scans of brains of any contrast, with no labels for them: the anatomy is learned from label maps alone.
For research; not for clinical use.

{commands}

examples:
  hardmax segment run scan.nii.gz --out result
  hardmax segment run scans/ --out result --compare manual/
  hardmax segment prior maps/ --out prior
"""


def run(arguments: list[str]) -> int:
    """Run one of the three and return its exit code.

    Raises:
        HardmaxError: bad input.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE.format(commands="\n".join(f"  {name:<6} {text}" for name, text in _COMMANDS.items())))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in _COMMANDS:
        raise ArgumentError(f"no command 'segment {name}'; there are: {', '.join(_COMMANDS)}")
    return import_module(f"hardmax.cli.segment_{name}").run(rest)
