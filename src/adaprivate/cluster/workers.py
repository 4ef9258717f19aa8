"""Tasks, and who carries them out: threads here, or what :func:`using` said."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from adaprivate import blas, check
from adaprivate.cluster import alike
from adaprivate.cluster.results import Results


@dataclass(frozen=True)
class Task:
    """A call of a module's function, whose result depends on its arguments alone; ``name`` says which it is, in errors."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Workers(Protocol):
    """Whoever carries out tasks."""

    slots: int
    """How many tasks run at once."""
    far: bool
    """Whether they run in other processes."""
    shares_disk: bool
    """Whether compiled code on this machine's disk is theirs, too."""

    @property
    def machine(self) -> Mapping[str, str]:
        """What numbers depend on beside the tasks: versions, source, arithmetic."""

    def completed(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any]]:
        """The place of each task among them and its result, as they are done. Closed early, it cancels what is left."""

    def stop(self) -> None:
        """Cancel everything, whoever waits for it in whatever thread: they are told by an error."""


class Threads:
    """Threads of this process, for compiled code that runs beside Python."""

    far, shares_disk = False, True

    def __init__(self, jobs: int | None = None) -> None:
        self.slots = check.whole("jobs", jobs if jobs is not None else os.cpu_count() or 1, at_least=1)

    @property
    def machine(self) -> Mapping[str, str]:
        """What this process is."""
        return alike.fingerprint()

    def completed(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any]]:
        """Each task's place and result."""
        with blas.one_thread(), ThreadPoolExecutor(self.slots) as pool:
            waiting: dict[Future[Any], int] = {
                pool.submit(task.function, *task.arguments): n for n, task in enumerate(tasks)
            }
            try:
                while waiting:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield waiting.pop(future), future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def stop(self) -> None:
        """Nothing: whoever waits for threads is the one who is interrupted."""


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)
_results: ContextVar[Results | None] = ContextVar("results", default=None)


def current(jobs: int | None = None) -> Workers:
    """The workers to use: those of :func:`using`, or so many threads (default: one for each core)."""
    threads = Threads(jobs)
    return _workers.get() or threads


def results() -> Results | None:
    """The file of results to use, if there is one."""
    return _results.get()


@contextlib.contextmanager
def using(cluster: str | None = None, *, jobs: int | None = None, results: str | Path | None = None) -> Iterator[None]:
    """Have whatever runs inside use these workers, and keep what is finished in this file.

    cluster: "local" starts a worker process for each core of this machine (or ``jobs`` of them); "tcp://host:port" uses a
    dask scheduler and its workers; None: threads of this process. results: a file to which every finished task is added as
    it is done, and in which finished tasks are looked up: what was interrupted continues from it.
    """
    with contextlib.ExitStack() as stack:
        if results is not None:
            kept = stack.enter_context(contextlib.closing(Results(results)))
            stack.callback(_results.reset, _results.set(kept))
        if cluster is not None:
            from adaprivate.cluster.on_dask import connected

            stack.callback(_workers.reset, _workers.set(stack.enter_context(connected(cluster, jobs))))
        yield
