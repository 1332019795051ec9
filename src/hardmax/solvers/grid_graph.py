"""Edges and arcs of a grid, whose cells are counted row by row."""

from hardmax.solvers.dijkstra import Arcs


def list_grid_edges(height: int, width: int, *, diagonal: bool, monotone: bool) -> tuple[tuple[int, int], ...]:
    """Return the pairs of neighbouring cells.

    For each row: the edges to the right from left to right, then the edges down, then with `diagonal` those right and
    down, and unless `monotone` those left and down.

    Example:
        >>> list_grid_edges(2, 2, diagonal=True, monotone=False)
        ((0, 1), (0, 2), (1, 3), (0, 3), (1, 2), (2, 3))
    """
    edges = []
    for row in range(height):
        cells = range(row * width, (row + 1) * width)
        edges += [(cell, cell + 1) for cell in cells[:-1]]
        if row + 1 < height:
            edges += [(cell, cell + width) for cell in cells]
            if diagonal:
                edges += [(cell, cell + width + 1) for cell in cells[:-1]]
            if diagonal and not monotone:
                edges += [(cell, cell + width - 1) for cell in cells[1:]]
    return tuple(edges)


def list_grid_arcs(edges: tuple[tuple[int, int], ...], cells: int, *, on_edges: bool) -> Arcs:
    """Return both directions of every edge, with the score of the edge or of the cell that the arc leads to."""
    arcs = []
    for edge, (first, second) in enumerate(edges):
        arcs += [(first, second, edge if on_edges else second), (second, first, edge if on_edges else first)]
    return Arcs.from_triples(cells, arcs)
