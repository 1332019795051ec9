"""Test pictures, and the training pictures whose codes are nearest."""

from torch import Tensor

from hardmax.data import Images
from hardmax.report.tiles import Tiles, spread, tile
from hardmax.search.nearest import nearest
from hardmax.training.hashing.evaluate import packed

_QUERIES, _FOUND = 8, 7


def nearest_pictures(images: Images, pictures: Tensor, queries: Tensor, train: Tensor, codes: Tensor) -> Tiles:
    """Return a row for each of some test pictures, from all over the test set: itself, and the nearest ones.

    Args:
        images: for their labels.
        pictures: the test pictures as the encoder sees them.
        queries: their codes.
        train: the training pictures.
        codes: their codes.
    """
    sought, searched = packed(queries), packed(codes)
    labels = images.labels
    rows = []
    for i in spread(len(pictures), _QUERIES):
        places, distances = nearest(sought[i], searched, _FOUND)
        label = -1 if labels is None else int(labels["test"][i])
        tiles = [tile(pictures[i, None], f"test picture {i}", "query")]
        for place, distance in zip(places.tolist(), distances.tolist(), strict=True):
            other = -1 if labels is None else int(labels["train"][place])
            wrong = "wrong" if label >= 0 and other >= 0 and other != label else ""
            tiles.append(tile(train[place, None], f"training picture {place}", f"{distance}", mark=wrong))
        rows.append(("", tiles))
    classes = "; wrong ones are of another class" if labels is not None else ""
    note = (
        f"Left, a test picture; beside it the training pictures with the nearest of {len(codes):,} codes, and in how "
        f"many bits they differ{classes}."
    )
    return Tiles(note, rows)
