"""What a mask may be called. No torch here: the command line checks names with it."""

from difflib import get_close_matches
from pathlib import Path

from hardmax.data.picture import SUFFIXES
from hardmax.errors import ArgumentError

# name: what is hidden
MASKS = {
    "centre": "the middle half of both sides",
    "half": "the lower half",
    "quadrants-1": "all but the lower left quadrant",
    "quadrants-2": "the right half",
    "quadrants-3": "the lower right quadrant",
    "rectangles": "one to three rectangles, drawn anew for every picture",
    "strokes": "irregular brush strokes, drawn anew for every picture",
    "any": "one of all these, drawn anew for every picture",
}
DRAWN = ("rectangles", "strokes", "any")
"""Those that differ from picture to picture."""


def check_mask(name: str) -> None:
    """Raise `ArgumentError` unless this is the name of a mask or looks like a picture file."""
    if name in MASKS or Path(name).suffix.lower() in SUFFIXES:
        return
    near = get_close_matches(name, MASKS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(MASKS)}; or name a picture, white where"
    raise ArgumentError(f"no mask {name!r}; {hint}{'' if near else ' pixels are hidden'}")
