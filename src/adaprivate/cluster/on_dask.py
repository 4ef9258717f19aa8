"""Tasks on dask workers: processes of this machine, or of as many machines as a scheduler has."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import uuid
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any
from urllib.parse import urlsplit

from adaprivate import blas, check, extras
from adaprivate.check import InputError
from adaprivate.cluster import alike
from adaprivate.cluster.workers import Task
from adaprivate.errors import ClippedWarning, LittleToLearnWarning

DEATHS = 2
"""A task that ended so many workers, and then one more, is given up."""
PATIENCE = 30.0
"""Seconds to wait for a scheduler, and for its first worker."""
_TOLD = (LittleToLearnWarning, ClippedWarning)
"""Warnings that return from workers."""


# --- what travels --------------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Pickles what workers can import, and nothing that was worked out and kept: they work it out once for all tasks."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.met: list[type | FunctionType] = []

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType):
            if value.__module__ == "__main__":
                raise pickle.PicklingError(f"{value.__qualname__} is written in the script itself, not in a module")
            self.met.append(value)
            return NotImplemented
        kind: Any = type(value)
        own = {"__reduce__", "__reduce_ex__", "__setstate__"}.intersection(
            name for k in kind.__mro__[:-1] for name in vars(k)
        )
        if own or not hasattr(value, "__dict__"):
            return NotImplemented
        state = value.__getstate__()
        if not isinstance(state, dict):
            return NotImplemented
        kept = {name: part for name, part in state.items() if not _worked_out(kind, name)}
        return (_made, (kind, kept)) if len(kept) < len(state) else NotImplemented


def _worked_out(kind: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(kind, name, None), cached_property)


def _made(kind: type, parts: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    vars(made).update(parts)
    return made


def packed(task: Task, known: dict[int, bytes]) -> tuple[bytes, ...]:
    """The task's function and arguments, each with its sources and by itself, as most are those of other tasks too."""
    for part in (task.function, *task.arguments):
        if id(part) not in known:
            buffer = io.BytesIO()
            pickler = _Pickler(buffer)
            try:
                pickler.dump(part)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InputError(
                    f"Expected {task.name} to be made of what other processes can import (docs/cluster.md): {_line(error)}."
                ) from None
            known[id(part)] = pickle.dumps((_told_apart(pickler.met), buffer.getvalue()))
    return tuple(known[id(part)] for part in (task.function, *task.arguments))


def _told_apart(met: Sequence[type | FunctionType]) -> dict[str, str]:
    """Sources by package, of those that have a file of their own to tell an edit by."""
    return {name: text for name, text in alike.sources(met).items() if getattr(sys.modules.get(name), "__file__", None)}


@lru_cache(maxsize=256)
def _unpacked(data: bytes) -> Any:
    """What was packed, where what it is written in is the same here: a worker that runs for long may have older code."""
    sources, content = pickle.loads(data)
    value = pickle.loads(content)
    for package, source in sources.items():
        same = alike.package(package) == source
        check.expect(same, "worker", _here(), f"to have the same source of {package}: start workers anew after an edit")
    return value


def _here() -> str:
    return f"process {os.getpid()} on {os.uname().nodename if hasattr(os, 'uname') else 'its machine'}"


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(".")


# --- on a worker ---------------------------------------------------------------------------------------------------------


def carried_out(name: str, parts: tuple[bytes, ...], machine: str) -> tuple[Any, list[tuple[type[Warning], str]]]:
    """The result of a task, on a worker that computes as the others do, and the warnings to give."""
    check.expect(
        alike.digest(alike.fingerprint()) == machine,
        "worker",
        _here(),
        "to compute as the workers there were at the start: versions, source and arithmetic (docs/cluster.md)",
    )
    try:
        function, *arguments = [_unpacked(part) for part in parts]
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"Expected {name} to be known to every worker: install its package there (docs/cluster.md). {_line(error)}."
        ) from None
    with blas.one_thread(), warnings.catch_warnings(record=True) as said:
        for category in _TOLD:
            warnings.simplefilter("always", category)
        value = function(*arguments)
    return value, [(kind, str(one.message)) for one in said for kind in _TOLD if issubclass(one.category, kind)]


def _like() -> dict[str, str]:
    return alike.fingerprint()


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C, which reaches every process of a terminal, to the one that started this worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- here ----------------------------------------------------------------------------------------------------------------


class Dask:
    """The workers of a dask scheduler, who compute alike."""

    far = True

    def __init__(self, client: Any, *, shares_disk: bool) -> None:
        self._client = client
        self.shares_disk = shares_disk
        self.machine = _machine(client, shares_disk)
        self.slots = max(1, sum(client.nthreads().values()))
        self._said: set[tuple[type[Warning], str]] = set()
        self._underway: set[Any] = set()
        self._stopped = False

    def stop(self) -> None:
        """Cancel everything, whoever waits for it in whatever thread: they are told by an error."""
        self._stopped = True
        with contextlib.suppress(Exception):  # there may be nobody left to tell
            self._client.cancel(list(self._underway), force=True)

    def completed(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any]]:
        """Each task's place and result. A lost worker's tasks are given to others; each result is taken once."""
        from distributed import KilledWorker, as_completed
        from distributed.client import FutureCancelledError

        mark, machine = uuid.uuid4().hex, alike.digest(self.machine)
        known: dict[int, bytes] = {}
        payloads = [packed(task, known) for task in tasks]
        places: dict[Any, int] = {}
        try:
            for n, (task, payload) in enumerate(zip(tasks, payloads, strict=True)):
                future = self._client.submit(
                    carried_out, task.name, payload, machine, key=f"adaprivate-{mark}-{n}", pure=False
                )
                places[future] = n
                self._underway.add(future)
                if self._stopped:
                    raise ConnectionError("what was asked of the cluster was stopped")
            for future in as_completed(list(places), loop=self._client.loop):
                n = places.pop(future)
                self._underway.discard(future)
                try:
                    value, said = future.result()
                except KilledWorker:
                    raise InputError(
                        f"Expected {tasks[n].name} not to end its worker: {DEATHS + 1} or more died of it (of too little "
                        "memory?)."
                    ) from None
                except FutureCancelledError:
                    raise ConnectionError("the cluster's scheduler is gone; finished tasks are in --results FILE") from None
                future.release()
                self._say(said)
                yield n, value
        finally:
            self._underway.difference_update(places)
            if places:
                with contextlib.suppress(Exception):  # there may be nobody left to tell
                    self._client.cancel(list(places), force=True)

    def _say(self, said: list[tuple[type[Warning], str]]) -> None:
        for category, text in said:
            if (category, text) not in self._said:
                self._said.add((category, text))
                warnings.warn(text, category, stacklevel=2)


def _machine(client: Any, here: bool) -> Mapping[str, str]:
    """What all workers are; refused unless they are the same in everything, and as this process in all but arithmetic."""
    try:
        found: dict[str, dict[str, str]] = client.run(_like)
    except Exception as error:
        raise InputError(
            f"Expected adaprivate to be installed on every worker (docs/cluster.md). {_line(error)}."
        ) from None
    ours = alike.fingerprint()
    for address, theirs in sorted(found.items()):
        other = [line for line in alike.different(ours, theirs) if not line.startswith(f"{alike.ARITHMETIC} ")]
        check.expect(not other, "worker", address, f"to be as this process: {'; '.join(other)}")
    kinds = {theirs[alike.ARITHMETIC]: address for address, theirs in sorted(found.items())}
    named = " and ".join(sorted(kinds.values()))
    check.expect(
        len(kinds) == 1, "workers", named, "to have processors that compute alike: their last bits differ (docs/cluster.md)"
    )
    if ours[alike.ARITHMETIC] not in kinds and not here:
        warnings.warn(
            "the workers' processors compute otherwise than this one: all results are theirs, and may differ in last bits "
            "from what this machine would get",
            stacklevel=2,
        )
    return next(iter(found.values()))


def _whole(address: str) -> bool:
    """Whether it has a host and a port."""
    try:
        found = urlsplit(address)
        return bool(found.hostname) and bool(found.port)
    except ValueError:  # a port that is no number, or half a bracket
        return False


@contextlib.contextmanager
def connected(cluster: str, jobs: int | None) -> Iterator[Dask]:
    """The workers of this address, or processes of this machine, for as long as they are needed."""
    there = cluster.startswith(("tcp://", "tls://"))
    check.expect(cluster == "local" or (there and _whole(cluster)), "cluster", cluster, "to be local or tcp://host:port")
    check.expect(not there or jobs is None, "jobs", jobs, "not to be given with an address, which has its workers")
    count = check.whole("jobs", jobs if jobs is not None else os.cpu_count() or 1, at_least=1)
    with extras.needed():
        import dask
        import distributed
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": DEATHS}))
        for name in ("distributed", "distributed.nanny", "distributed.scheduler", "distributed.worker"):
            stack.enter_context(_silent(name))
        asked = distributed.Security().get_connection_args("client")["ssl_context"]
        certified = asked is not None or not cluster.startswith("tls://")
        check.expect(certified, "cluster", cluster, "to have certificates in dask's configuration (distributed.comm.tls)")
        address: Any = cluster if there else stack.enter_context(_local(count, distributed.Security.temporary()))
        try:
            client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"Expected cluster={cluster!r} to be a dask scheduler that answers: {_line(error)}.") from None
        stack.enter_context(client)
        try:
            client.wait_for_workers(1 if there else count, timeout=PATIENCE if there else None)
        except TimeoutError:
            raise InputError(f"Expected cluster={cluster!r} to have a worker within {PATIENCE:g} s.") from None
        yield Dask(client, shares_disk=not there)


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """What dask logs of lost workers is settled, and said by errors where it is not."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _local(count: int, security: Any = None) -> Iterator[Any]:
    """Worker processes of this machine, which end with this one: no other machine reaches them.

    Whoever is logged in here does, and a scheduler runs what it is sent: ``security`` asks for a certificate, of this run.
    """
    from distributed import LocalCluster

    guard = (
        "Expected cluster='local' to be asked for below `if __name__ == \"__main__\":`, as its processes import this script"
    )
    if getattr(multiprocessing.process.current_process(), "_inheriting", False):
        raise InputError(f"{guard}.")
    with tempfile.TemporaryDirectory(prefix="adaprivate-") as folder:
        try:
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tcp" if security is None else "tls",
                security=security,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # metrics alone, on no port that others want
                silence_logs=logging.CRITICAL,
                preload=[__name__],
                local_directory=folder,
            )
        except RuntimeError as error:
            raise InputError(f"{guard}, or its processes to start: {_line(error)}.") from None
        with cluster:
            yield cluster


__all__ = ["Dask", "carried_out", "connected", "packed"]
