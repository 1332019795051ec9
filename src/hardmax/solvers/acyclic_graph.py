"""A directed acyclic graph with a source and a target, in the order in which dynamic programming visits its nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import index
from typing import final

import torch
from torch import Tensor

from hardmax.errors import ArgumentError

Edges = Sequence[Sequence[int]] | Tensor  # pairs
Neighbours = dict[int, list[int]]


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Nodes whose values are computed together, from those of smaller positions.

    Attributes:
        positions: the positions of the n nodes, which are contiguous.
        edges: `[n * degree]`, the edges out of each node; E where a node has fewer.
        heads: `[n * degree]`, the positions that these lead to; 0 where a node has fewer.
        degree: number of edges for each node.
    """

    positions: slice
    edges: Tensor
    heads: Tensor
    degree: int


@final
class AcyclicGraph:
    """The edges on paths from a source to a target, and tables for dynamic programming over them.

    Nodes on paths are numbered by *position*: the target is 0, the source is last, and every edge leads to a smaller
    position. The nodes of a step have the same largest number of edges to the target, and a number of outgoing edges
    between two powers of two, so that padding at most doubles the work.

    Args:
        edges: pairs (from, to) of node numbers.
        source: first node of all paths; None is the only node without incoming edges.
        target: last node of all paths; None is the only node without outgoing edges.

    Attributes:
        edges: the E pairs, as a tuple.
        source: the source.
        target: the target.
        longest: number of edges of the longest path.
        shortest: number of edges of the path with the fewest.
        decisions: largest number of nodes of a path that leave a choice.
        counts: `[N]`, the number of paths from each position to the target, of any size.
        numbers: `[N]`, the index of the choice at each position; it increases along every path.
        starts: `[N + 1]`, where the edges out of each position begin in `out_edges` and `heads`.
        out_edges: the edges out of position 0, 1, ..., in the order of `edges`.
        heads: the positions that these lead to.
        table: `[N, D]`, the edges out of each position; E where there are fewer, and for the target.
        edge_heads: `[E + 1]`, the position that each edge leads to; 0 for E and for edges on no path.
        edge_tails: `[E]`, the position that each edge leaves; 0 for edges on no path.
        is_used: `[E]`, whether an edge lies on a path.
        is_first: `[E]`, whether an edge is the first one of a path.
        is_bridge: `[E]`, whether an edge lies on all paths.
        has_bridges: whether there are such edges.
        steps: the positions after that of the target, step by step.

    Raises:
        ArgumentError: invalid edges, a cycle, or no path from source to target.
    """

    def __init__(self, edges: Edges, source: int | None, target: int | None) -> None:
        self.edges = _check_edges(edges)
        successors, predecessors = _list_neighbours(self.edges)
        order = _sort_topologically(successors, predecessors)
        self.source = _choose_end("source", source, predecessors, "incoming")
        self.target = _choose_end("target", target, successors, "outgoing")
        nodes = _reach(self.source, successors) & _reach(self.target, predecessors)
        if self.source == self.target or not nodes:
            raise ArgumentError(
                f"there is no path from source {self.source} to target {self.target}; choose two nodes that are "
                f"joined by edges in this direction"
            )
        outgoing: Neighbours = {node: [] for node in order if node in nodes}
        for edge, (tail, head) in enumerate(self.edges):
            if tail in nodes and head in nodes:
                outgoing[tail].append(edge)
        self._lay_out(outgoing)

    def _lay_out(self, outgoing: Neighbours) -> None:
        """Fill the tables, given the edges out of each node in topological order."""
        to_target, levels, distances = {self.target: 1}, {self.target: 0}, {self.target: 0}
        for node in list(outgoing)[-2::-1]:  # the target is the last of them, the source the first
            heads = [self.edges[edge][1] for edge in outgoing[node]]
            to_target[node] = sum(to_target[head] for head in heads)
            levels[node] = 1 + max(levels[head] for head in heads)
            distances[node] = 1 + min(distances[head] for head in heads)
        from_source, numbers = dict.fromkeys(outgoing, 0), dict.fromkeys(outgoing, 0)
        from_source[self.source] = 1
        for node, edges in outgoing.items():
            for head in (self.edges[edge][1] for edge in edges):
                from_source[head] += from_source[node]
                numbers[head] = max(numbers[head], numbers[node] + (len(edges) > 1))

        def find_step(node: int) -> tuple[int, int]:
            return levels[node], (len(outgoing[node]) - 1).bit_length()

        nodes = sorted(outgoing, key=lambda node: (find_step(node), node))
        position = {node: place for place, node in enumerate(nodes)}
        self.longest, self.shortest = levels[self.source], distances[self.source]
        self.decisions = numbers[self.target]
        self.counts = [to_target[node] for node in nodes]
        self.numbers = _make_index([numbers[node] for node in nodes])

        used = {edge for edges in outgoing.values() for edge in edges}
        ends = [[position[node] for node in pair] if e in used else [0, 0] for e, pair in enumerate(self.edges)]
        passing = [from_source[tail] * to_target[head] if e in used else 0 for e, (tail, head) in enumerate(self.edges)]
        self.edge_tails = _make_index([tail for tail, _ in ends])
        self.edge_heads = _make_index([*(head for _, head in ends), 0])
        self.is_used = _make_mask([count > 0 for count in passing])
        self.is_bridge = _make_mask([count == self.counts[-1] for count in passing])
        self.is_first = self.is_used & (self.edge_tails == len(nodes) - 1)
        self.has_bridges = bool(self.is_bridge.any())

        flat = [edge for node in nodes for edge in outgoing[node]]
        self.out_edges, self.heads = _make_index(flat), _make_index([ends[edge][1] for edge in flat])
        self.starts = _make_index([0, *(len(outgoing[node]) for node in nodes)]).cumsum(0)
        self.table = self._pad(nodes, outgoing)
        steps = []
        for _, group in groupby(nodes[1:], find_step):
            members = list(group)
            table = self._pad(members, outgoing)
            positions = slice(position[members[0]], position[members[-1]] + 1)
            steps.append(Step(positions, table.flatten(), self.edge_heads[table].flatten(), table.shape[1]))
        self.steps = tuple(steps)

    def _pad(self, nodes: list[int], outgoing: Neighbours) -> Tensor:
        """Return the edges out of some nodes, `[n, D]`, with E where there are fewer."""
        degree = max(len(outgoing[node]) for node in nodes)
        return _make_index([outgoing[node] + [len(self.edges)] * (degree - len(outgoing[node])) for node in nodes])


def _make_index(values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device="cpu")


def _make_mask(values: Sequence[bool]) -> Tensor:
    return torch.tensor(values, dtype=torch.bool, device="cpu")


def _check_edges(edges: Edges) -> tuple[tuple[int, int], ...]:
    """Return edges as pairs of integers; raise `ArgumentError` if they are invalid."""
    row_of: dict[tuple[int, int], int] = {}
    for row, edge in enumerate(edges.tolist() if isinstance(edges, Tensor) else edges):
        try:
            tail, head = (index(end) for end in edge)
        except (TypeError, ValueError):
            raise ArgumentError(f"edges must be pairs (from, to) of node numbers, got {edge!r} in row {row}") from None
        if tail < 0 or head < 0:
            raise ArgumentError(f"edge {row} is ({tail}, {head}); number the nodes from zero")
        if tail == head:
            raise ArgumentError(f"edge {row} joins node {tail} to itself; an edge of a path joins two different nodes")
        if (tail, head) in row_of:
            raise ArgumentError(
                f"edges {row_of[tail, head]} and {row} are both ({tail}, {head}); keep the one with the larger score, "
                f"or give one of them a node of its own"
            )
        row_of[tail, head] = row
    if not row_of:
        raise ArgumentError("edges are empty; pass at least one pair (from, to) of node numbers")
    return tuple(row_of)


def _list_neighbours(edges: tuple[tuple[int, int], ...]) -> tuple[Neighbours, Neighbours]:
    """Return the nodes after and before each node."""
    nodes = sorted({node for edge in edges for node in edge})
    successors, predecessors = {node: [] for node in nodes}, {node: [] for node in nodes}
    for tail, head in edges:
        successors[tail].append(head)
        predecessors[head].append(tail)
    return successors, predecessors


def _sort_topologically(successors: Neighbours, predecessors: Neighbours) -> list[int]:
    """Return the nodes, each after its predecessors; raise `ArgumentError` if there is a cycle (Kahn, 1962)."""
    missing = {node: len(before) for node, before in predecessors.items()}
    order = [node for node, count in missing.items() if count == 0]
    for node in order:  # which grows
        for head in successors[node]:
            missing[head] -= 1
            if missing[head] == 0:
                order.append(head)
    if len(order) < len(missing):
        # Every remaining node has a remaining predecessor: following these leads into a cycle.
        path = [next(node for node, count in missing.items() if count)]
        while path[-1] not in path[:-1]:
            path.append(next(node for node in predecessors[path[-1]] if missing[node]))
        cycle = path[path.index(path[-1]) :][::-1]
        raise ArgumentError(
            f"edges contain the cycle {' -> '.join(map(str, cycle))}, but only acyclic graphs have sums over paths; "
            f"remove one of these edges, or use GridPath(..., monotone=False) for the arg max on a grid"
        )
    return order


def _choose_end(name: str, node: int | None, neighbours: Neighbours, direction: str) -> int:
    """Return the source or the target: the given node, or the only one without neighbours in a direction."""
    if node is not None:
        if node not in neighbours:
            raise ArgumentError(f"{name} is {node}, but no edge has this node; choose a node of the edges")
        return node
    candidates = [node for node, others in neighbours.items() if not others]
    if len(candidates) != 1:
        shown = ", ".join(map(str, candidates[:5])) + (", ..." if len(candidates) > 5 else "")
        raise ArgumentError(
            f"{name} must be given: {len(candidates)} nodes have no {direction} edges ({shown}); "
            f"pass {name}={candidates[0]} or another node"
        )
    return candidates[0]


def _reach(start: int, neighbours: Neighbours) -> set[int]:
    """Return the nodes that can be reached from a node, and the node itself."""
    reached, stack = {start}, [start]
    while stack:
        new = set(neighbours[stack.pop()]) - reached
        reached |= new
        stack += new
    return reached
