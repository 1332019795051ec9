r"""Arg max of pairwise bits in exact arithmetic, for scores whose magnitudes differ too much for float64.

A score of -1e12 or -1e30 is the usual way to forbid a bit or a pair of bits. In float64, sums that contain such a score
lose the other scores. Here every score is a Python integer, a multiple of one power of two, so that all sums are exact:

1. `reduce_scores` fixes the bits whose value does not depend on the others (persistency), and replaces couplings that
   forbid a pair of bits by small ones that still forbid it. What remains is usually an ordinary problem for the float64
   solvers.
2. `search_exactly` solves what remains by branch and bound in integers, where it is not.

References:
    P. Hammer, P. Hansen, B. Simeone (1984), Roof duality, complementation and persistency in quadratic 0-1
    optimization.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SWEEPS = 3  # over all edges, for the bound of a node


@dataclass
class ExactScores:
    """Scores of n bits as integers, some of whose bits are fixed.

    Attributes:
        unary: the score of each single bit; of a free bit, with the couplings to the bits that are fixed to one.
        couplings: for each free bit, its free neighbours and the couplings to them.
        bits: the value of each fixed bit; None for a free bit.
        value: the score of the fixed bits.
        denominator: the scores are these integers divided by it.
    """

    unary: list[int]
    couplings: list[dict[int, int]]
    bits: list[int | None]
    value: int
    denominator: int

    @classmethod
    def from_floats(
        cls, unary: Sequence[float], couplings: Sequence[float], edges: Sequence[Sequence[int]]
    ) -> "ExactScores":
        """Return finite scores as integers: every float is an integer divided by a power of two."""
        ratios = [value.as_integer_ratio() for value in (*unary, *couplings)]
        denominator = max(below for _, below in ratios)
        integers = [above * (denominator // below) for above, below in ratios]
        neighbours: list[dict[int, int]] = [{} for _ in unary]
        for (i, j), weight in zip(edges, integers[len(unary) :], strict=True):
            if weight:
                neighbours[i][j] = neighbours[j][i] = weight
        return cls(integers[: len(unary)], neighbours, [None] * len(unary), 0, denominator)

    @property
    def free_bits(self) -> list[int]:
        """The bits that are not fixed."""
        return [i for i, bit in enumerate(self.bits) if bit is None]

    def copy(self) -> "ExactScores":
        """Return a copy that can be changed."""
        couplings = [dict(neighbours) for neighbours in self.couplings]
        return ExactScores([*self.unary], couplings, [*self.bits], self.value, self.denominator)

    def fix(self, i: int, bit: int) -> None:
        """Fix a free bit; if it is one, its couplings become unary scores of its neighbours."""
        self.bits[i] = bit
        self.value += bit * self.unary[i]
        for j, weight in self.couplings[i].items():
            del self.couplings[j][i]
            self.unary[j] += bit * weight
        self.couplings[i] = {}

    def compute_range(self, i: int) -> tuple[int, int]:
        """Return the least and the greatest field of a free bit: the gain `a_i + sum_j w_ij z_j` of setting it to 1."""
        weights = self.couplings[i].values()
        return self.unary[i] + sum(w for w in weights if w < 0), self.unary[i] + sum(w for w in weights if w > 0)


def reduce_scores(scores: ExactScores) -> None:
    """Fix bits and reduce couplings until nothing changes; the best bits stay the best.

    - Persistency: a bit is zero if its field is never positive, and one if its field is never negative.
    - Two bits with a coupling w > 0 are both one if that is never worse than any other pair of values.
    - A coupling w < 0 forbids a pair of bits if it is below -m, where m > 0 is the greatest field of one of the bits
      without it. Then -2 m forbids the pair as well.
    """
    queue = {*scores.free_bits}
    while queue:
        i = queue.pop()
        if scores.bits[i] is not None:
            continue
        low, high = scores.compute_range(i)
        if low >= 0 or high <= 0:
            queue |= {*scores.couplings[i]}
            scores.fix(i, int(high > 0))
            continue
        for j, weight in [*scores.couplings[i].items()]:
            low_j, high_j = scores.compute_range(j)
            if min(low + weight, low_j + weight, low + low_j + weight) >= 0:
                queue |= {*scores.couplings[i]} | {*scores.couplings[j]}
                scores.fix(i, 1)
                scores.fix(j, 1)
                break
            least = min(high, high_j)
            if weight < -2 * least < 0:
                scores.couplings[i][j] = scores.couplings[j][i] = -2 * least
                queue |= {i, j}


def search_exactly(scores: ExactScores, start: Sequence[int], node_limit: int) -> tuple[list[int], bool]:
    """Return the best bits, and whether they are proved best within the limit of nodes; `start` is a good code."""
    best, nodes, stack = scores.copy(), 0, [scores.copy()]
    for i in best.free_bits:
        best.fix(i, start[i])
    while stack and nodes < node_limit:
        node = stack.pop()
        nodes += 1
        reduce_scores(node)
        bound, fields = _bound_fields(node)
        if node.value + bound <= best.value:
            continue
        free = node.free_bits
        if not free:
            best = node
            continue
        ranges = {i: node.compute_range(i) for i in free}
        chosen = max(free, key=lambda i: min(ranges[i][1], -ranges[i][0]))
        likely = int(fields[chosen] > 0)
        for bit in (1 - likely, likely):  # the likelier value is on top of the stack
            child = node.copy()
            child.fix(chosen, bit)
            stack.append(child)
    return [bit or 0 for bit in best.bits], not stack


def _bound_fields(scores: ExactScores) -> tuple[int, dict[int, int]]:
    """Return an upper bound of the score of the free bits, and the fields c that give it.

    A coupling is split between its two bits: for w > 0, `w z_i z_j <= p z_i + (w - p) z_j`, and for w < 0,
    `w z_i z_j <= q - q z_i - q z_j`, with 0 <= p, q <= |w|. With the splits added to the unary scores, the score is at
    most `K + sum_i max(c_i, 0)`. Sweeps over the edges make the fields of both ends as equal as possible.
    """
    fields = {i: scores.unary[i] for i in scores.free_bits}
    edges = [(i, j, w) for i in fields for j, w in scores.couplings[i].items() if j < i]
    splits, constant = [], 0
    for i, j, weight in edges:
        half = abs(weight) // 2
        splits.append(half)  # p or q of bit i
        fields[i] += half if weight > 0 else -half
        fields[j] += weight - half if weight > 0 else -half
        constant += 0 if weight > 0 else half
    for _ in range(SWEEPS):
        for place, (i, j, weight) in enumerate(edges):
            split = splits[place]
            if weight > 0:  # what i loses, j gains
                step = min(max((fields[i] - fields[j]) // 2, split - weight), split)
                fields[i] -= step
                fields[j] += step
                splits[place] = split - step
            else:  # both gain or lose
                step = min(max((fields[i] + fields[j]) // 2, -split), -weight - split)
                fields[i] -= step
                fields[j] -= step
                constant += step
                splits[place] = split + step
    return constant + sum(max(field, 0) for field in fields.values()), fields
