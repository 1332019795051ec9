"""`config.json`: what a run was told, on what, and with which versions."""

import json
import platform
import subprocess
from pathlib import Path

import torch

import hardmax
from hardmax.training.config import TrainConfig
from hardmax.training.task import Data


def describe(config: TrainConfig, data: Data) -> str:
    """Return `config.json`: the resolved configuration, the data, versions and the commit."""
    said = {
        "config": {**config.to_dict(), "resume": False},
        "data": {
            "name": data.name,
            "source": data.source,
            **data.facts,
        },
        "versions": {
            "hardmax": hardmax.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "commit": _commit(),
    }
    return json.dumps(said, indent=2) + "\n"


def _commit() -> str | None:
    """Return the commit of hardmax's own source, where it runs from a checkout."""
    source = Path(hardmax.__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", str(source), "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
