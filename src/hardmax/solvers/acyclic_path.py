"""Best path of a directed acyclic graph, by dynamic programming from the target to the source."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from hardmax.solvers.acyclic_graph import AcyclicGraph, Step
from hardmax.tracing import can_run_compiled


def find_best_path(scores: Float[Tensor, "*B E"], graph: AcyclicGraph) -> Float[Tensor, "*B E"]:
    """Return the path with the largest sum of scores, one bit for each edge.

    O(E) for every example, compiled on the CPU where Numba is installed; else with one step of torch for each edge of
    the longest path.

    Args:
        scores: `[*B, E]`, of any sign; float32 or wider.
        graph: the graph.

    Returns:
        `[*B, E]`, in the dtype of scores; of equally good edges out of a node, the first.

    Example:
        >>> import torch
        >>> graph = AcyclicGraph([(0, 1), (1, 2), (0, 2)], None, None)
        >>> find_best_path(torch.tensor([1.0, 2.0, 2.5]), graph)
        tensor([1., 1., 0.])

    References:
        Bellman, 1958; Cormen, Leiserson, Rivest & Stein, "Introduction to algorithms", section "Single-source shortest
        paths in directed acyclic graphs".
    """
    scores = remove_bridges(scores.detach(), graph)
    if can_run_compiled(scores):
        from hardmax.solvers._compiled_paths import find_best_paths

        flat = scores.reshape(scores.shape[:-1].numel(), scores.shape[-1])
        return find_best_paths(flat, graph).view(scores.shape)
    _, options = maximise(scores, graph)
    return walk(graph, scores.shape[:-1], lambda position: options.gather(-1, position), scores)


def maximise(scores: Float[Tensor, "*B E"], graph: AcyclicGraph) -> tuple[Tensor, Tensor]:
    """Return the best sum of scores from each position to the target, and the column of its edge in `graph.table`.

    `[*B, N]` each.
    """
    padded, values = pad_scores(scores), torch.zeros_like(scores[..., :1])
    options = torch.zeros_like(values, dtype=torch.int64)
    for step in graph.steps:
        value, option = add_values(padded, values, step).max(-1)
        values, options = torch.cat([values, value], -1), torch.cat([options, option], -1)
    return values, options


def pad_scores(scores: Float[Tensor, "*B E"]) -> Float[Tensor, "*B E+1"]:
    """Return scores with one more, minus infinity, for the missing edges of the tables of a graph."""
    return pad(scores, (0, 1), value=-torch.inf)


def add_values(padded: Float[Tensor, "*B E"], values: Float[Tensor, "*B _"], step: Step) -> Float[Tensor, "*B n D"]:
    """Return the scores of the edges out of each node of a step, plus the values at the nodes that they lead to.

    Args:
        padded: the result of `pad_scores`.
        values: those of all positions before the step.
        step: the step.
    """
    edges, heads = step.edges.to(padded.device), step.heads.to(padded.device)
    sums = padded.index_select(-1, edges) + values.index_select(-1, heads)
    return sums.unflatten(-1, (-1, step.degree))


def remove_bridges(scores: Float[Tensor, "*B E"], graph: AcyclicGraph) -> Float[Tensor, "*B E"]:
    """Return scores with zeros for the edges of all paths.

    They add a constant to the score of every path. A large one, such as a mask of -1e30, would swallow the others.
    """
    return scores.masked_fill(graph.is_bridge.to(scores.device), 0.0) if graph.has_bridges else scores


def walk(
    graph: AcyclicGraph, lead: tuple[int, ...], choose: Callable[[Tensor], Tensor], like: Tensor
) -> Float[Tensor, "*L E"]:
    """Return the paths that choices lead to, from the source to the target: `[*L, E]`.

    Args:
        graph: the graph.
        lead: `*L`.
        choose: maps positions `[*L, 1]` to columns of `graph.table`, `[*L, 1]`.
        like: a tensor of the dtype and device of the result.
    """
    table, edge_heads = graph.table.to(like.device), graph.edge_heads.to(like.device)
    degree, position = table.shape[1], torch.full((*lead, 1), len(table) - 1, device=like.device)
    edges = []
    for _ in range(graph.longest):
        edges.append(table.flatten()[position * degree + choose(position)])
        position = edge_heads[edges[-1]]
    zeros = torch.zeros((*lead, len(edge_heads)), dtype=like.dtype, device=like.device)
    return zeros.scatter(-1, torch.cat(edges, -1), 1.0)[..., :-1]
