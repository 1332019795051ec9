"""The command `hardmax doctor`: print what is installed, what is missing and how to get it."""

import importlib.metadata
import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from hardmax.applications.argument_parser import parse
from hardmax.console import print_line

_EXTRAS = {
    "solvers": ("fast exact solvers for structured latents", ["numba", "ortools"]),
    "imaging": ("scans in NIfTI files", ["nibabel"]),
    "track": ("TensorBoard logs", ["tensorboard"]),
    "cluster": ("runs on a Dask or Ray cluster", ["distributed", "ray"]),
    "studio": ("pages in the browser", ["nicegui"]),
    "sklearn": ("feature selection in scikit-learn", ["scikit-learn"]),
}
_CORE = [
    "torch", "numpy", "scipy", "safetensors", "jaxtyping", "rich", "matplotlib", "jinja2", "pillow", "loky",
    "filelock",
]  # fmt: skip


@dataclass(frozen=True)
class DoctorOptions:
    """Show which packages, devices and data are available, and how to install what is missing.

    Example: hardmax doctor
    """


def run(arguments: list[str]) -> int:
    """Print the findings; the exit code is 1 if a required package is missing."""
    parse(DoctorOptions, "doctor", arguments)
    from hardmax import __version__

    print(f"hardmax {__version__}, Python {platform.python_version()} on {platform.platform()}")
    missing = [name for name in _CORE if _version(name) is None]
    print("packages: " + ", ".join(f"{name} {_version(name) or 'MISSING'}" for name in _CORE))
    print("devices:  " + _devices())
    for extra, (purpose, packages) in _EXTRAS.items():
        absent = [name for name in packages if _version(name) is None]
        state = "installed" if not absent else f"without {', '.join(absent)}: pip install 'hardmax[{extra}]'"
        print(f"[{extra}]".ljust(10) + f"{purpose}: {state}")
    print_line("data:     " + _data())
    if missing:
        print(f"missing: {', '.join(missing)}; reinstall hardmax with pip", file=sys.stderr)
    return 1 if missing else 0


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _devices() -> str:
    if importlib.util.find_spec("torch") is None:
        return "unknown without torch"
    import torch

    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return ", ".join(devices)


def _data() -> str:
    folder = os.environ.get("HARDMAX_DATA")
    if folder is None:
        return "HARDMAX_DATA is not set: named sets are fetched when needed (hardmax data list)"
    if not Path(folder).is_dir():
        return f"HARDMAX_DATA is {folder}, which is not a folder: set it to one, or unset it"
    inside = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
    return f"HARDMAX_DATA is {folder}, with {', '.join(inside) or 'nothing'} in it"
