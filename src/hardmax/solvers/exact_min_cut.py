"""Minimum cut in Python integers: the arg max of bits with couplings >= 0, for scores that float64 cannot hold."""

from collections import deque
from collections.abc import Sequence

from hardmax.solvers.exact_arithmetic import ExactScores


def cut_exactly(scores: ExactScores) -> list[int]:
    r"""Return the best bits, with the smallest number of ones among equals; couplings must not be negative.

    For $w \ge 0$, $w z_i z_j = \frac{w}{2} (z_i + z_j - |z_i - z_j|)$. Twice the score is therefore a constant minus a
    cut: the bits on the side of the source are one, and the capacities are

    $$ s \to i: \max(c_i, 0), \qquad i \to t: \max(-c_i, 0), \qquad i \leftrightarrow j: w_{ij}, \qquad
       c_i = 2 a_i + \sum_j w_{ij}. $$

    The maximum flow is found by Dinic's algorithm. Its numbers are integers of any size, so the cut is exact at any
    range of the scores, in polynomial time; a grid of 28 x 28 takes 3 to 7 ms.

    Args:
        scores: scores whose free bits are to be set; the fixed ones stay as they are.

    Returns:
        All bits.

    References:
        Greig, Porteous & Seheult, "Exact maximum a posteriori estimation for binary images", 1989; Dinic, 1970.
    """
    free = scores.free_bits
    place = {i: at for at, i in enumerate(free)}
    source, sink = len(free), len(free) + 1
    network = _Network(len(free) + 2)
    for at, i in enumerate(free):
        field = 2 * scores.unary[i] + sum(scores.couplings[i].values())
        if field > 0:
            network.add_arc(source, at, field, 0)
        elif field < 0:
            network.add_arc(at, sink, -field, 0)
        for j, weight in scores.couplings[i].items():
            if i < j:
                network.add_arc(at, place[j], weight, weight)
    network.saturate(source, sink)
    levels = network.compute_levels(source)
    bits = [bit or 0 for bit in scores.bits]
    for at, i in enumerate(free):
        bits[i] = int(levels[at] >= 0)
    return bits


class _Network:
    """A flow network; arc e and its reverse, `e ^ 1`, have the capacities that are left."""

    def __init__(self, nodes: int) -> None:
        self._arcs: list[list[int]] = [[] for _ in range(nodes)]
        self._heads: list[int] = []
        self._left: list[int] = []

    def add_arc(self, tail: int, head: int, forward: int, backward: int) -> None:
        """Add an arc with a capacity in each direction."""
        self._arcs[tail].append(len(self._heads))
        self._arcs[head].append(len(self._heads) + 1)
        self._heads += (head, tail)
        self._left += (forward, backward)

    def compute_levels(self, source: int) -> list[int]:
        """Return the number of arcs from the source to each node through arcs with capacity left; -1: out of reach."""
        levels, queue = [-1] * len(self._arcs), deque([source])
        levels[source] = 0
        while queue:
            node = queue.popleft()
            for arc in self._arcs[node]:
                head = self._heads[arc]
                if self._left[arc] and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels

    def saturate(self, source: int, sink: int) -> None:
        """Send the maximum flow."""
        while (levels := self.compute_levels(source))[sink] >= 0:
            first_arcs, path, node = [0] * len(self._arcs), [], source
            while True:
                if node == sink:
                    amount = min(self._left[arc] for arc in path)
                    for arc in path:
                        self._left[arc] -= amount
                        self._left[arc ^ 1] += amount
                    full = next(at for at, arc in enumerate(path) if not self._left[arc])
                    node = self._heads[path[full] ^ 1]
                    del path[full:]
                arc = self._find_arc(node, levels, first_arcs)
                if arc is not None:
                    path.append(arc)
                    node = self._heads[arc]
                elif path:  # a dead end, which no other path enters
                    levels[node] = -1
                    node = self._heads[path.pop() ^ 1]
                else:
                    break

    def _find_arc(self, node: int, levels: Sequence[int], first_arcs: list[int]) -> int | None:
        """Return an arc of a node that leads one level further and has capacity left; those before it are useless."""
        arcs = self._arcs[node]
        while first_arcs[node] < len(arcs):
            arc = arcs[first_arcs[node]]
            if self._left[arc] and levels[self._heads[arc]] == levels[node] + 1:
                return arc
            first_arcs[node] += 1
        return None
