"""The two clients: one that waits, one that is awaited. Both drive the same calls (calls.py)."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, cast

import httpx

from adaprivate import check
from adaprivate.check import InputError
from adaprivate.client.calls import Calls, Outcome, Request, Result, Steps

_Arguments = ParamSpec("_Arguments")


class _Session:
    """What both clients are: an address and calls to it. The key is in the headers that are sent, and nowhere else."""

    def __init__(self, url: str, timeout: float, retries: int, local_epsilon: float | None) -> None:
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise InputError("Expected url to begin with http:// or https:// and to name a host.")
        check.expect(not address.userinfo, "url", "...", "to hold no password: give it as key")
        self.url = str(address)
        self._calls = Calls(timeout, retries, local_epsilon)

    def _connection(self, key: str | None) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        near = httpx.URL(self.url).host in ("localhost", "127.0.0.1", "::1")  # no proxy leads there
        return {"base_url": self.url, "headers": headers, "trust_env": not near}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


def _described(call: Callable[..., Any], steps: Callable[..., Any]) -> None:
    """A client's method has the words and arguments of its steps, and returns what they do."""
    signature = inspect.signature(steps)
    result = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    call.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]


def _waiting(
    steps: Callable[Concatenate[Calls, _Arguments], Steps[Result]],
) -> Callable[Concatenate[Client, _Arguments], Result]:
    @functools.wraps(steps)
    def call(self: Client, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Result:
        return self._run(steps(self._calls, *args, **kwargs))

    _described(call, steps)
    return call


def _awaiting(
    steps: Callable[Concatenate[Calls, _Arguments], Steps[Result]],
) -> Callable[Concatenate[AsyncClient, _Arguments], Coroutine[Any, Any, Result]]:
    @functools.wraps(steps)
    async def call(self: AsyncClient, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Result:
        return await self._run(steps(self._calls, *args, **kwargs))

    _described(call, steps)
    return call


class Client(_Session):
    """The decision service at this address. From any thread; close it, or use it in a `with` statement.

    key: what opens the service (`adaprivate keys`). timeout: seconds that a call may take, its `retries` included (making a
    bandit or a catalogue: a minute). local_epsilon: lets nothing out but bits flipped with at most this epsilon; without it
    the service is trusted to say in a decision's `keep` how much to flip.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
        *,
        local_epsilon: float | None = None,
    ) -> None:
        super().__init__(url, timeout, retries, local_epsilon)
        self._http = httpx.Client(**self._connection(key), transport=transport)

    def _run(self, steps: Steps[Result]) -> Result:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return cast(Result, done.value)
            if isinstance(step, float):
                time.sleep(step)
            outcome = None if isinstance(step, float) else self._answer(step)

    def _answer(self, request: Request) -> Outcome:
        try:
            return self._http.request(
                request.method, request.path, content=request.content, headers=request.headers, timeout=request.timeout
            )
        except httpx.TransportError as error:
            return error

    create = _waiting(Calls.create)
    bandits = _waiting(Calls.bandits)
    status = _waiting(Calls.status)
    series = _waiting(Calls.series)
    items = _waiting(Calls.items)
    pause = _waiting(Calls.pause)
    resume = _waiting(Calls.resume)
    health = _waiting(Calls.health)
    wait = _waiting(Calls.wait)
    decide = _waiting(Calls.decide)
    decide_many = _waiting(Calls.decide_many)
    reward = _waiting(Calls.reward)
    reward_many = _waiting(Calls.reward_many)
    settle = _waiting(Calls.settle)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Session):
    """:class:`Client` for `async` code: the same methods, to be awaited."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        timeout: float = 2.0,
        retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        local_epsilon: float | None = None,
    ) -> None:
        super().__init__(url, timeout, retries, local_epsilon)
        self._http = httpx.AsyncClient(**self._connection(key), transport=transport)

    async def _run(self, steps: Steps[Result]) -> Result:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return cast(Result, done.value)
            outcome = await (asyncio.sleep(step) if isinstance(step, float) else self._answer(step))

    async def _answer(self, request: Request) -> Outcome:
        try:
            return await self._http.request(
                request.method, request.path, content=request.content, headers=request.headers, timeout=request.timeout
            )
        except httpx.TransportError as error:
            return error

    create = _awaiting(Calls.create)
    bandits = _awaiting(Calls.bandits)
    status = _awaiting(Calls.status)
    series = _awaiting(Calls.series)
    items = _awaiting(Calls.items)
    pause = _awaiting(Calls.pause)
    resume = _awaiting(Calls.resume)
    health = _awaiting(Calls.health)
    wait = _awaiting(Calls.wait)
    decide = _awaiting(Calls.decide)
    decide_many = _awaiting(Calls.decide_many)
    reward = _awaiting(Calls.reward)
    reward_many = _awaiting(Calls.reward_many)
    settle = _awaiting(Calls.settle)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
