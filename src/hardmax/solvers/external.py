"""Run a solver that the user provides: for each problem of a batch, in threads or processes, with checked results."""

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hardmax.errors import SolverError

# Takes one problem `[*score]` or, if batched, a batch `[B, *score]`; returns z, or z and a bound of its value.
Solve = Callable[[Any], Any]

Problems = Sequence[Any] | np.ndarray | Tensor

_solve_in_worker: Callable[[Any], Any] | None = None  # set once in each process that runs solvers


def _install_solver(solve: Solve) -> None:
    global _solve_in_worker
    _solve_in_worker = solve


def _run_in_worker(problem: Any) -> Any:
    assert _solve_in_worker is not None
    return _solve_in_worker(problem)


def _do_nothing() -> None:
    """Return at once: a process that has done this is ready for work."""


@dataclass
class ExternalSolver:
    """A user's function `solve` that returns the best z of given scores.

    The order of the results is that of the problems, whichever is solved first.

    Attributes:
        solve: the function.
        event_shape: shape of one z.
        batched: whether `solve` takes a batch, instead of one problem.
        arrays: what `solve` takes; "auto": tensors if its parameter is annotated as a tensor, else numpy arrays.
        backend: where several problems are solved at once. Threads need a solver that releases Python's lock, as most
            compiled ones do.
        workers: number of threads or processes.
        timeout: seconds that one call may take; the process of a call that takes longer is ended.
        is_feasible: returns whether a z is allowed, or None to accept every z.
    """

    solve: Solve
    event_shape: tuple[int, ...]
    batched: bool = False
    arrays: Literal["auto", "numpy", "torch"] = "auto"
    backend: Literal["threads", "processes"] = "threads"
    workers: int = 1
    timeout: float | None = None
    is_feasible: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        self._executor: Any = None
        self.takes_tensors = self.arrays == "torch" or (self.arrays == "auto" and _is_annotated_as_tensor(self.solve))

    def __getstate__(self) -> dict[str, Any]:
        # Threads and processes are not part of a copy; it starts its own.
        return {**self.__dict__, "_executor": None}

    def run(self, problems: Tensor) -> tuple[Tensor, Tensor | None]:
        """Solve all problems of a batch.

        Args:
            problems: `[B, *score]`, float64 on the CPU, as `solve` takes them.

        Returns:
            `[B, *event]` float64, and `[B]` the bounds of the values in the same sense; None if `solve` returns none.

        Raises:
            SolverError: `solve` raised an error, took too long or returned something that is not a z.
        """
        if not len(problems):
            return problems.new_zeros(0, *self.event_shape), None
        inputs = problems if self.takes_tensors else problems.numpy()
        if self.batched:
            return self._read_batch(next(self._call([inputs])), len(problems))
        answers = [self._read_answer(answer, example) for example, answer in enumerate(self._call(inputs))]
        z = torch.stack([answer for answer, _ in answers])
        bounds = [bound for _, bound in answers if bound is not None]
        if bounds and len(bounds) < len(answers):
            raise SolverError("the solver returned a bound for some problems and none for others; return it always")
        return z, torch.tensor(bounds, dtype=torch.float64) if bounds else None

    # ------------------------------------------------------------------------------- calls
    def _call(self, inputs: Problems) -> Iterator[Any]:
        """Yield the answers of `solve`, in the order of the inputs."""
        if self.backend == "processes" or self.timeout is not None:
            yield from self._call_in_processes(inputs)
        elif self.workers == 1:
            for example, problem in enumerate(inputs):
                yield self._catch(lambda problem=problem: self.solve(problem), example)
        else:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="hardmax-solver")
            futures = [self._executor.submit(self.solve, problem) for problem in inputs]
            try:
                for example, future in enumerate(futures):
                    yield self._catch(future.result, example)
            finally:
                for future in futures:
                    future.cancel()

    def _call_in_processes(self, inputs: Problems) -> Iterator[Any]:
        """Keep every process busy with one call, so that the time of a call starts when it is submitted."""
        executor = self._start_processes()
        answers: list[Any] = [None] * len(inputs)
        running: dict[Future[Any], tuple[int, float]] = {}
        waiting = iter(enumerate(inputs))
        try:
            while True:
                while len(running) < self.workers and (problem := next(waiting, None)) is not None:
                    future = executor.submit(_run_in_worker, problem[1])
                    running[future] = (problem[0], time.monotonic())
                if not running:
                    break
                for future in self._wait(running):
                    example, _ = running.pop(future)
                    answers[example] = self._catch(future.result, example)
        except BaseException:
            self.stop()
            raise
        yield from answers

    def _wait(self, running: dict[Future[Any], tuple[int, float]]) -> set[Future[Any]]:
        """Return the calls that have finished; raise if one takes too long."""
        limit = None
        if self.timeout is not None:
            limit = max(min(start for _, start in running.values()) + self.timeout - time.monotonic(), 0)
        done, _ = wait(running, timeout=limit, return_when=FIRST_COMPLETED)
        if not done:
            example = min(running.values(), key=lambda call: call[1])[0]
            raise SolverError(
                f"the solver took more than {self.timeout:g} s {self._name_example(example)}; pass a larger timeout, "
                "or give the solver a time limit of its own, with the best z so far as its answer"
            )
        return done

    def _start_processes(self) -> Any:
        if self._executor is None:
            from loky import ProcessPoolExecutor

            self._executor = ProcessPoolExecutor(self.workers, initializer=_install_solver, initargs=(self.solve,))
            # The start of a process, with its imports, does not count as time of the solver.
            wait([self._executor.submit(_do_nothing) for _ in range(self.workers)])
        return self._executor

    def stop(self) -> None:
        """End the threads or processes; the next call starts new ones."""
        if self._executor is not None:
            kill = {} if isinstance(self._executor, ThreadPoolExecutor) else {"kill_workers": True}
            self._executor.shutdown(wait=not kill, **kill)
            self._executor = None

    def _catch(self, call: Callable[[], Any], example: int) -> Any:
        try:
            return call()
        except Exception as error:
            raise SolverError(
                f"the solver raised {type(error).__name__} {self._name_example(example)}: {error}"
            ) from error

    # ------------------------------------------------------------------------------- answers
    def _read_answer(self, answer: Any, example: int) -> tuple[Tensor, float | None]:
        z, bound = _split_bound(answer, self.event_shape)
        z = self._convert(z, self.event_shape, example)
        if self.is_feasible is not None and not bool(self.is_feasible(z if self.takes_tensors else z.numpy())):
            raise SolverError(
                f"the solver returned a z that is not feasible {self._name_example(example)}: {_shorten(z)}; correct "
                "the solver, or the function is_feasible"
            )
        if bound is not None and not np.isfinite(bound):
            raise SolverError(f"the solver returned the bound {bound} {self._name_example(example)}; it must be finite")
        return z, None if bound is None else float(bound)

    def _read_batch(self, answer: Any, count: int) -> tuple[Tensor, Tensor | None]:
        shape = (count, *self.event_shape)
        z, bounds = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        z = self._convert(z, shape, None)
        if self.is_feasible is not None:
            flags = torch.as_tensor(self.is_feasible(z if self.takes_tensors else z.numpy()))
            if tuple(flags.shape) != (count,):
                raise SolverError(f"is_feasible returned shape {list(flags.shape)} for {count} examples; return [B]")
            if not flags.all():
                example = int((~flags.bool()).nonzero()[0])
                raise SolverError(f"the solver returned a z that is not feasible for example {example}: {z[example]}")
        if bounds is not None:
            bounds = torch.as_tensor(bounds, dtype=torch.float64)
            if tuple(bounds.shape) != (count,) or not bounds.isfinite().all():
                raise SolverError(f"the bounds of a batch must be {count} finite numbers, got {_shorten(bounds)}")
        return z, bounds

    def _convert(self, z: Any, shape: tuple[int, ...], example: int | None) -> Tensor:
        where = self._name_example(example)
        if z is None:
            raise SolverError(f"the solver returned None {where}: it has no solution; check the problem's constraints")
        try:
            tensor = torch.as_tensor(np.asarray(z) if not isinstance(z, Tensor) else z).detach().cpu().double()
        except (TypeError, ValueError) as error:
            raise SolverError(
                f"the solver returned {type(z).__name__} {where}, which is no array of numbers: {error}"
            ) from error
        if tuple(tensor.shape) != shape:
            raise SolverError(
                f"the solver returned z of shape {list(tensor.shape)} {where}, expected {list(shape)}; pass "
                "event_shape if z has another shape than the scores, and batched=True if the solver takes a batch"
            )
        if not tensor.isfinite().all():
            raise SolverError(f"the solver returned NaN or inf {where}: {_shorten(tensor)}; is the problem feasible?")
        return tensor

    def _name_example(self, example: int | None) -> str:
        return "for the batch" if self.batched or example is None else f"for example {example}"


def _split_bound(answer: Any, event_shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Split `(z, bound)`; a tuple of two numbers may also be a z."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[1]) == 0
    if is_pair and (answer[0] is None or np.shape(answer[0]) == event_shape or np.ndim(answer[0]) > 0):
        return answer
    return answer, None


def _shorten(values: Any) -> str:
    text = str(values.tolist())
    return text if len(text) < 80 else f"{text[:76]} ..."


def _is_annotated_as_tensor(solve: Solve) -> bool:
    try:
        parameters = list(inspect.signature(solve).parameters.values())
    except (TypeError, ValueError):  # many builtins have no signature
        return False
    return bool(parameters) and "Tensor" in str(parameters[0].annotation)
