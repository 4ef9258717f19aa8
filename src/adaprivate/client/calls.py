"""Every call to the service, as requests to send and pauses to make: nothing here sends, waits or touches a socket.

A call is a generator; the two clients differ only in how they drive it (connections.py). Touches rewards: `reward`,
`reward_many` and `settle` put them, or their flipped bits, into the body of a request.
"""

from __future__ import annotations

import json
import random
import time
import uuid
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import quote

import httpx

from adaprivate import check
from adaprivate.check import ClippedWarning
from adaprivate.client.answers import (
    AGAIN,
    Decision,
    DifferentRewardError,
    Document,
    ServiceError,
    UnavailableError,
    UnknownError,
    decided,
    document,
    instead,
    problem,
)
from adaprivate.client.flips import Flips

PIECE, PIECE_BYTES = 1_000, 1_000_000
"""So many decisions, or rewards, are sent in one request, and in about so many bytes."""
PATIENCE = 60.0
"""What making a bandit or its catalogue may take, in seconds: the service plans, and may compile."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0

Features = Sequence[float]
Candidates = Sequence[str] | Sequence[tuple[str, Features]] | Mapping[str, Features] | Sequence[Mapping[str, Any]]
Outcome = httpx.Response | httpx.TransportError
Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """One request, to be answered within so many seconds."""

    method: str
    path: str
    content: bytes | None
    headers: Mapping[str, str]
    timeout: float


Steps = Generator[Request | float, Outcome | None, Result]


class Calls:
    """The calls of one client."""

    def __init__(self, timeout: float, retries: int, local_epsilon: float | None) -> None:
        self._timeout = check.real("timeout", timeout, above=0)
        self._retries = check.whole("retries", retries, at_least=0)
        self._flips = Flips(local_epsilon)

    def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: bytes | None = None,
        key: str | None = None,
        timeout: float = 0.0,
        once: bool = False,
    ) -> Steps[Document]:
        """The answer. once: what may have been done is not asked for again."""
        content = content if body is None else _written(body)
        headers = {"content-type": "application/json"} if content else {}
        headers |= {"idempotency-key": key} if key else {}
        end = time.monotonic() + max(timeout, self._timeout)
        for attempt in range(self._retries + 1):
            left = max(end - time.monotonic(), 0.001)
            share = left if once or attempt == self._retries else left / 2  # or one lost answer would take all the time
            outcome = cast(Outcome, (yield Request(method, path, content, headers, share)))
            if isinstance(outcome, httpx.Response) and outcome.status_code not in AGAIN:
                return document(outcome)
            pause = _pause(attempt, outcome)
            if attempt == self._retries or time.monotonic() + pause >= end or (once and not _undone(outcome)):
                break
            yield pause
        if isinstance(outcome, httpx.Response):
            raise problem(outcome)
        slow = isinstance(outcome, httpx.TimeoutException)
        words = "The service did not answer in time." if slow else "The service cannot be reached."
        raise UnavailableError(words, kind="timeout" if slow else "unreachable")

    def create(self, /, name: str, *, exist_ok: bool = False, **settings: object) -> Steps[Document]:
        """Make a bandit: policy, dimension, rounds, epsilon, delta, reward_window, ... -> its status.

        ``exist_ok``: a bandit of this name that is there already will do, if it was made with the same settings. Otherwise
        `ServiceError.differs` names those that differ; what is not given here has its default.
        """
        try:
            return (yield from self._send("POST", "/bandits", {"name": name, **settings}, timeout=PATIENCE, once=True))
        except ServiceError as error:
            if not exist_ok or error.kind != "exists" or error.differs != ():
                raise
            return (yield from self.status(name))

    def bandits(self) -> Steps[list[Document]]:
        """All bandits, in short."""
        return list((yield from self._send("GET", "/bandits"))["bandits"])

    def status(self, bandit: str) -> Steps[Document]:
        """A bandit's settings, guarantee, released batches and budget."""
        return (yield from self._send("GET", _of(bandit)))

    def series(self, bandit: str) -> Steps[Document]:
        """What the dashboard draws: released statistics only."""
        return (yield from self._send("GET", _of(bandit, "/series")))

    def items(self, bandit: str, items: Mapping[str, Features | None]) -> Steps[Document]:
        """Replace the public catalogue: the features of every item, or None for a feature of its own."""
        stored = yield from self._send("PUT", _of(bandit, "/items"), {"items": dict(items)}, timeout=PATIENCE)
        if stored.get("warning"):
            warnings.warn(stored["warning"], ClippedWarning, stacklevel=4)
        return stored

    def pause(self, bandit: str) -> Steps[Document]:
        """Take no more decisions."""
        return (yield from self._send("POST", _of(bandit, ":pause")))

    def resume(self, bandit: str) -> Steps[Document]:
        """Take decisions again."""
        return (yield from self._send("POST", _of(bandit, ":resume")))

    def health(self) -> Steps[Document]:
        """Whether the service is alive."""
        return (yield from self._send("GET", "/health"))

    def wait(self, seconds: float = 60.0) -> Steps[None]:
        """Wait until the service is ready to decide, about so long at most."""
        end = time.monotonic() + seconds
        while True:
            try:
                yield from self._send("GET", "/ready")
                return
            except UnavailableError:
                if time.monotonic() >= end:
                    raise
            yield 0.2

    def decide(
        self,
        bandit: str,
        candidates: Candidates | None = None,
        *,
        context: Mapping[str, object] | Features | None = None,
        user: str | int | uuid.UUID | None = None,
        propensity: bool = True,
        default: str | None = None,
    ) -> Steps[Decision]:
        """What to show.

        candidates: item ids, or ids with features; None: every item of the catalogue. default: what to show where the
        service cannot answer in time; else the bandit's default item, if the service can say it, or the first candidate.
        """
        ask = _ask(candidates, context, user, propensity)
        try:
            found = yield from self._send("POST", _of(bandit, "/decisions"), ask, key=str(uuid.uuid4()))
        except ServiceError as error:
            return instead(error, ask, default)
        return decided(found)

    def decide_many(
        self, bandit: str, asks: Iterable[Mapping[str, Any]], *, default: str | None = None
    ) -> Steps[list[Decision]]:
        """Many decisions; each ask has some of the arguments of `decide`: candidates, context, user, propensity."""
        wanted = []
        for ask in asks:
            check.known(ask, ("candidates", "context", "user", "propensity"), "an ask")
            wanted.append(_ask(**ask))
        decisions: list[Decision] = []
        for start, end, content in _pieces("decisions", wanted):
            path, key = _of(bandit, "/decisions:batch"), str(uuid.uuid4())
            try:
                found = yield from self._send("POST", path, content=content, key=key)
            except ServiceError as error:
                decisions += [instead(error, ask, default) for ask in wanted[start:end]]
            else:
                decisions += [decided(one) for one in found["decisions"]]
        return decisions

    def reward(self, decision: Decision | str, reward: float | bool, *, keep: float | None = None) -> Steps[str]:
        """Report a reward from 0 to 1 of a decision, or of the id of one: recorded, duplicate, late or lost (or fallback).

        keep: of local bandits, where only the id is at hand: the decision's `keep`. Then a flipped bit is sent.
        """
        decision_id, sent = self._sent(decision, reward, keep)
        if decision_id is None:
            return "fallback"
        if sent is None:
            return "duplicate"
        try:
            found = yield from self._send("PUT", f"/decisions/{quote(decision_id, safe='')}/reward", {"reward": sent})
            status = str(found["status"])
        except ServiceError as error:
            if isinstance(error, DifferentRewardError | UnknownError):
                self._flips.acknowledge(decision_id)
            if error.status != 410:
                raise
            status = error.kind
        self._flips.acknowledge(decision_id)
        return status

    def reward_many(self, rewards: Iterable[tuple[Decision | str, float | bool]]) -> Steps[list[str]]:
        """Report many: the status of each, among them different and unknown, where `reward` would raise."""
        entries = [self._sent(decision, reward, None) for decision, reward in rewards]
        statuses = ["fallback" if of is None else "duplicate" for of, _ in entries]
        sent = [(place, of, value) for place, (of, value) in enumerate(entries) if of is not None and value is not None]
        bodies = [{"decision_id": of, "reward": value} for _, of, value in sent]
        for start, end, content in _pieces("rewards", bodies):
            found = yield from self._send("POST", "/rewards:batch", content=content)
            for (place, of, _), status in zip(sent[start:end], found["statuses"], strict=True):
                statuses[place] = status
                self._flips.acknowledge(of)
        return statuses

    def settle(self, decision: Decision) -> Steps[str]:
        """Nothing will be earned by this decision: reports a flipped 0 of a local bandit's, else nothing ("absent")."""
        if decision.keep is None and not decision.fallback:
            return "absent"
        return (yield from self.reward(decision, 0.0))

    def _sent(self, decision: Decision | str, reward: object, keep: float | None) -> tuple[str | None, float | None]:
        value = check.reward(reward)
        if isinstance(decision, Decision):
            decision_id, keep = decision.decision_id, decision.keep
        else:
            decision_id = decision
        return decision_id, None if decision_id is None else self._flips.sent(decision_id, keep, value)


def _of(bandit: str, what: str = "") -> str:
    check.expect(isinstance(bandit, str) and bool(bandit), "bandit", bandit, "to be a name")
    return f"/bandits/{quote(bandit, safe='')}{what}"


def _written(body: object) -> bytes:
    def plain(value: object) -> object:
        if hasattr(value, "tolist"):  # NumPy's arrays and numbers
            return value.tolist()
        if isinstance(value, uuid.UUID):
            return str(value)
        raise TypeError

    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":"), default=plain).encode()
    except (TypeError, ValueError):
        pass
    raise check.InputError("Expected all that is sent to be texts, finite numbers, bools, and lists and mappings of them.")


def _pieces(name: str, documents: Sequence[Document]) -> Iterator[tuple[int, int, bytes]]:
    """These documents in as few requests as fit: from which to which, and the body."""
    written = [_written(one) for one in documents]
    start = size = 0
    for place, one in enumerate(written):
        if place > start and (place - start >= PIECE or size + len(one) > PIECE_BYTES):
            yield start, place, _list(name, written[start:place])
            start, size = place, 0
        size += len(one) + 1
    if written:
        yield start, len(written), _list(name, written[start:])


def _list(name: str, written: Sequence[bytes]) -> bytes:
    return b'{"%b":[%b]}' % (name.encode(), b",".join(written))


def _ask(
    candidates: Candidates | None = None,
    context: Mapping[str, object] | Features | None = None,
    user: str | int | uuid.UUID | None = None,
    propensity: bool = True,
) -> Document:
    offered: list[Any] | None = None
    if candidates is not None:
        pairs: Iterable[Any] = candidates.items() if isinstance(candidates, Mapping) else candidates
        offered = [{"id": one[0], "features": one[1]} if isinstance(one, tuple) else one for one in pairs]
        check.expect(bool(offered), "candidates", offered, "not to be empty")
    sent = {"candidates": offered, "context": context, "user": user, "propensity": None if propensity else False}
    return {name: value for name, value in sent.items() if value is not None}


def _pause(attempt: int, outcome: Outcome) -> float:
    """How long to wait before the next attempt: what the service asks for, or longer every time, with jitter."""
    told = outcome.headers.get("retry-after", "") if isinstance(outcome, httpx.Response) else ""
    if told.isdecimal():
        return float(told)
    return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def _undone(outcome: Outcome) -> bool:
    """Whether the service surely did nothing."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in (429, 503)
    return isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
