"""The state of the latent explorer in the address of its page, and the explorers of the runs that are open."""

import base64
import json
import zlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, final

from hardmax.applications.exploration import (
    AbstractExplorer,
)
from hardmax.applications.explorer_controls import (
    State,
)
from hardmax.applications.registry import find_application
from hardmax.applications.runs import read_config, read_run
from hardmax.errors import ArgumentError, DataError
from hardmax.json_files import parse_json
from hardmax.training.run_folder import find_checkpoint

_MOST_BYTES = 1 << 20  # of the JSON of a state


def encode_state(state: State) -> str:
    """Return a state as letters and digits for an address.

    Example:
        >>> decode_state(encode_state({"code": [1, 0], "seed": 3}))
        {'code': [1, 0], 'seed': 3}
    """
    text = json.dumps(state, separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def decode_state(text: str) -> State:
    """Return the state in an address, which may come from anyone; its values are to be checked.

    Raises:
        ArgumentError: it is not a state.
    """
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, _MOST_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ValueError("it is incomplete, or too long")
        return parse_json(content.decode(), "it")
    except (ValueError, zlib.error, DataError) as error:
        raise ArgumentError(f"the link is damaged: state is {text[:40]!r}: {error}; choose the run again") from error


@final
class ExplorerCache:
    """The explorers that were used last, shared by all pages: a model with its data takes seconds to load.

    Args:
        size: number of explorers that are kept. Each holds a data set in memory.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._explorers: OrderedDict[tuple[Any, ...], AbstractExplorer[Any]] = OrderedDict()
        self._lock = Lock()

    def load(self, folder: Path) -> AbstractExplorer[Any]:
        """Return the explorer of a run, with its best checkpoint at this moment.

        Raises:
            DataError: the folder holds no run, it has no checkpoint yet, a file is broken, its data cannot be loaded,
                or there is no explorer for its model.
        """
        config, _ = read_config(folder)
        application = find_application(config.model)
        if not application.explorer:
            raise DataError(f"there is no explorer for {application.help}, the model of {folder}")
        checkpoint = find_checkpoint(folder, "best") or find_checkpoint(folder, "latest")
        with self._lock:  # one at a time: two pages that open the same run load it once
            key = folder, checkpoint, _get_time(folder / (checkpoint or "") / "model.safetensors")
            if key not in self._explorers:
                self._explorers[key] = application.load_explorer()(read_run(folder))
                while len(self._explorers) > self._size:
                    self._explorers.popitem(last=False)
            self._explorers.move_to_end(key)
            return self._explorers[key]


def _get_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def list_explorable(folders: list[Path]) -> list[Path]:
    """Return those of some folders of runs whose application has an explorer."""
    explorable = []
    for folder in folders:
        try:
            config, _ = read_config(folder)
        except DataError:
            continue
        if find_application(config.model).explorer:
            explorable.append(folder)
    return explorable
