"""Whoever wants to see a table or figure being made."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Watcher:
    """Sees it go by; every field may be left at doing nothing.

    Attributes:
        say: gets lines of text.
        begin: gets the name of a run or measurement and how many of all are done, before it is made.
        step: gets how much of it is done, between 0 and 1, and what is being done.
        finished: gets its name, and what came out in a few words.
        stop: asked after every step whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    begin: Callable[[str, int, int], None] = lambda name, done, total: None
    step: Callable[[float, str], None] = lambda part, doing: None
    finished: Callable[[str, str], None] = lambda name, told: None
    stop: Callable[[], bool] = lambda: False
