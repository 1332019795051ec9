"""The command `hardmax studio`: pages in the browser that show estimators, runs and models."""

import sys
from dataclasses import dataclass
from typing import Annotated

from hardmax.applications.argument_parser import Argument, parse
from hardmax.console import print_line
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class StudioOptions:
    """Open pages in the browser that show what estimators do, how runs are going and what models have learned.

    The pages read only the given folders, and exchange nothing with other hosts. With a --host other than 127.0.0.1,
    the address contains a token, without which requests are refused; the connection is not encrypted.

    Examples:
      hardmax studio
      hardmax studio runs
      hardmax studio runs/first --port 8643 --no-open
    """

    folders: Annotated[tuple[str, ...], Argument("RUN_OR_FOLDER")] = ()
    """Folders of runs, or folders with runs below them."""
    host: str = "127.0.0.1"
    """Host to listen on; 0.0.0.0 lets other machines connect, with a token."""
    port: int = 8642
    """Port to listen on; 0 chooses one that is free."""
    open: bool = True
    """Open the first page in the browser."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ArgumentError(f"--port must be between 0 and 65535, got {self.port}")


def run(arguments: list[str]) -> int:
    """Serve the pages until interrupted.

    Raises:
        HardmaxError: a folder does not exist, the address is in use, or NiceGUI is not installed.
    """
    options = parse(StudioOptions, "studio", arguments)

    from hardmax.studio.folders import open_folders
    from hardmax.studio.server import serve

    folders = open_folders(options.folders)
    serve(folders, options.host, options.port, open_browser=options.open, say=_print_now)
    return 0


def _print_now(line: str) -> None:
    print_line(line)
    sys.stdout.flush()  # another program may wait for the address
