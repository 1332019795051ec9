"""The state of the gradient lab as Python code that measures the same with `hardmax.diagnose`."""

from hardmax.diagnosis.advice import format_estimator
from hardmax.studio.gradients.problem import make_estimators, make_problem
from hardmax.studio.gradients.state import LabState


def write_code(state: LabState) -> str:
    """Return a program that prints the table of the page.

    Example:
        >>> code = write_code(LabState(estimators=("direct:1", "exact")))
        >>> print(code.splitlines()[3])
        space = hm.Categorical(5)
    """
    problem = make_problem(state)
    estimators = [f"hm.{format_estimator(one)}" for one in make_estimators(state, problem).values()]
    samples = f", samples={state.samples}" if state.samples else ""
    lines = [
        "import torch",
        "import hardmax as hm",
        "",
        f"space = {_write_space(state)}",
        f"scores = {_write_tensor(state.scores, problem.space.score_shape)}",
        *_write_objective(state, problem.space.event_shape),
        "estimators = [",
        *(f"    {one}," for one in estimators),
        "]",
        f"generator = torch.Generator().manual_seed({state.seed})",
        f"print(hm.diagnose(f, scores, space, estimators, draws={state.draws}{samples}, generator=generator))",
        "",
        "# The exact gradient; with another estimator in the place of hm.Exact(), one estimate of it.",
        "scores.requires_grad_()",
        "hm.expectation(f, scores, space, hm.Exact()).value.backward()",
        "print(scores.grad)",
    ]
    return "\n".join(lines) + "\n"


def _write_space(state: LabState) -> str:
    return {
        "categorical": f"hm.Categorical({state.size})",
        "bits": f"hm.Binary({state.size})",
        "pairwise": f"hm.PairwiseBinary({state.size})  # scores of the bits, then of their pairs",
        "subset": f"hm.Subset({state.size}, {state.chosen})",
        "path": f'hm.GridPath({state.size}, {state.size}, on="nodes")',
    }[state.space]


def _write_objective(state: LabState, shape: tuple[int, ...]) -> list[str]:
    """Return the lines that define f."""
    dims = "-1" if len(shape) == 1 else "(-2, -1)"
    if state.f == "table":
        return [
            f"table = torch.tensor({list(state.worth)})  # f of 00..0, 00..1, ...",
            f"codes = hm.Binary({state.size}).enumerate().bool()",
            "f = lambda z: torch.where(codes, z[..., None, :], 1 - z[..., None, :]).prod(-1) @ table",
        ]
    if state.f == "parity":
        return [f"f = lambda z: {state.worth[0]!r} * (2 * z - 1).prod(-1)"]
    worth = f"worth = {_write_tensor(state.worth, shape)}"
    if state.f == "curved":
        roots = "roots = (worth.max() - worth).sqrt()"
        return [worth, roots, "f = lambda z: worth.max() - (z @ roots).square()  # worth[k] at category k"]
    if state.f == "squared":
        return [worth, f"f = lambda z: -((z * worth).sum({dims}) - {state.target!r}).square()"]
    if state.space == "pairwise":
        return [worth, f"f = lambda z: (z * worth).sum({dims})"]
    return [worth, "f = hm.LinearObjective(worth, space)  # the sum of the worths of z"]


def _write_tensor(values: tuple[float, ...], shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"torch.tensor({list(values)})"
    width = shape[-1]
    return f"torch.tensor({[list(values[i : i + width]) for i in range(0, len(values), width)]})"
