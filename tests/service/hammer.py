"""Hammers a service that runs: clients that decide and reward over HTTP, and somebody who kills its workers meanwhile.

What clients were told is kept in a :class:`Record`; tests.service.invariants holds the database against it. A request that
got no answer may or may not have been met: it is sent again until it is answered, and the record says how often it was not.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from tests.service.recorded_service import CLOSING_POINTS, Recorded
from tests.service.watched_service import Running, Watch

ITEMS = {"a": [0.25, 0.125, 0.0], "b": [0.0, 0.25, 0.125], "c": [0.125, 0.0, 0.25], "d": [0.125, 0.125, 0.125]}
OWN = {"x": [0.25, 0.0, 0.125], "y": [0.0625, 0.25, 0.0], "z": [0.0, 0.0, 0.25]}
"""Candidates that bring their features along. All features are whole multiples of 2^-4, and sums of them exact."""
FEATURES = {**ITEMS, **OWN}
ASKS: tuple[Any, ...] = (
    {},
    {"candidates": ["a", "c"], "propensity": False},
    {"candidates": ["b", "c", "d"]},
    {"candidates": [{"id": name, "features": features} for name, features in OWN.items()], "propensity": False},
)


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is sent, until there were so many closings, deaths while closing, births of workers and decisions.

    Or until ``seconds`` have passed, which is an error.

    ``delay``: seconds after which rewards are sent, at most. ``ahead``: batches that may wait to be closed before clients
    wait, too. ``gap``: mean seconds between kills at any time, None for none. ``patience``: how long clients try. Shares
    are of decisions: their rewards sent ``twice``, sent too ``late``, ``never`` sent.
    """

    closings: int = 0
    deaths: int = 0
    births: int = 0
    decisions: int = 0
    clients: int = 4
    batch: int = 30
    window: float = 0.4
    delay: float = 0.5
    ahead: int = 3
    gap: float | None = None
    single: float = 0.5
    together: int = 12
    twice: float = 0.1
    late: float = 0.1
    never: float = 0.15
    seconds: float = 120.0
    patience: float = 60.0
    seed: int = 1

    def bandits(self) -> dict[str, dict[str, Any]]:
        """Exact sums; sums whose rewards are deleted, beside a holdback; flips, beside a holdback; and what is usual."""
        plain = {"dimension": 3, "rounds": 1_000_000, "batch_size": self.batch, "reward_window": self.window}
        sums = {**plain, "policy": "adaprivate-ts", "rounds": 2_000 * self.batch}
        return {
            "sums": {**sums, "keep_rewards": True},
            "deleted": {**sums, "holdback": 0.3},
            "told": {**plain, "policy": "rr-linucb", "holdback": 0.25, "keep_rewards": True},
            "usual": {**plain, "policy": "noise-aware", "rounds": 100_000, "holdback": 0.1, "missing": 0.0},
        }


class Decision(NamedTuple):
    """A decision that was acknowledged."""

    bandit: str
    round: int
    id: str
    item: str
    version: int
    holdback: bool


class Attempt(NamedTuple):
    """A reward that was sent: until there was an ``answer`` it had none for ``unanswered`` times."""

    value: float
    unanswered: int
    answer: str


@dataclass
class Record:
    """All that clients were told."""

    decisions: dict[tuple[str, int], Decision] = field(default_factory=dict)
    rewards: dict[tuple[str, int], list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Rounds by bandit and idempotency key."""
    seen: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """Digests of ledger rows when they were first seen, by bandit, stream and batch."""
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def problem(self, text: str) -> None:
        with self.lock:
            if text not in self.problems:
                self.problems.append(text)

    def decided(self, bandit: str, key: str | None, documents: list[dict[str, Any]], again: bool) -> list[Decision]:
        """Note the answer to a request; one that repeats a request must be the same."""
        fields = ("round", "decision_id", "item", "version", "holdback")
        found = [Decision(bandit, *(one[name] for name in fields)) for one in documents]
        with self.lock:
            for one in found:
                before = self.decisions.setdefault((bandit, one.round), one)
                if before is not one and (before != one or not again):
                    self.problems.append(f"decision: round {one.round} of {bandit} was given out twice")
            rounds = [one.round for one in found]
            if key is not None and self.requests.setdefault((bandit, key), rounds) != rounds:
                self.problems.append(f"request: {key} of {bandit} was met twice")
            self.counts["decisions"] += 0 if again else len(found)
        return found

    def rewarded(self, one: Decision, attempt: Attempt) -> None:
        with self.lock:
            self.rewards[one.bandit, one.round].append(attempt)
            self.counts[attempt.answer] += 1
            self.counts["unanswered"] += attempt.unanswered


class RefusedError(Exception):
    """The service said no, or nothing for too long."""


class Client(threading.Thread):
    """Decides, and sends rewards: at once, later, twice, too late, or never."""

    def __init__(self, number: int, url: str, load: Load, record: Record, watch: Watch, shared: deque[Any]) -> None:
        super().__init__(daemon=True)
        self.load, self.record, self.watch, self.shared = load, record, watch, shared
        self.random = random.Random(f"{load.seed} {number}")
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=15)
        self.number = number
        self.enough = threading.Event()
        self._later: list[tuple[float, int, Decision, float]] = []
        self._waiting: list[tuple[Decision, float]] = []
        """Rewards to be sent after their batch is closed."""
        self._sent = 0
        self._versions: Counter[str] = Counter()

    def ask(self, method: str, path: str, body: Any, key: str | None = None) -> tuple[httpx.Response, int]:
        """The answer, and for how many times there was none."""
        headers = {} if key is None else {"Idempotency-Key": key}
        end, unanswered = time.monotonic() + self.load.patience, 0
        while time.monotonic() < end:
            try:
                answer = self.http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                unanswered += 1
                time.sleep(0.02)
                continue
            if answer.status_code < 500 and answer.status_code != 429:
                return answer, unanswered
            self.record.counts[f"status {answer.status_code}"] += 1
            unanswered += 1  # it says that nothing was changed; no need to believe it
            time.sleep(0.1)
        raise RefusedError(f"{method} {path.partition('/decisions/')[0]}: no answer in {self.load.patience} s")

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                self.send_due()
                self.decide()
                if self.random.random() < 0.02:
                    self.look()
            self.finish()
        except Exception as error:
            self.record.problem(f"client: {type(error).__name__}: {error}")
        finally:
            self.http.close()

    def decide(self) -> None:
        load = self.load
        ready = [name for name, waiting in self.watch.waiting.items() if waiting < load.ahead * load.batch]
        if not ready:
            time.sleep(0.02)
            return
        name = self.random.choice(ready)
        self._sent += 1
        key = f"{self.number}-{self._sent}" if self.random.random() < 0.8 else None
        if self.random.random() < load.single:
            path, body = f"/bandits/{name}/decisions", self.random.choice(ASKS)
        else:
            asks = self.random.choices(ASKS, k=self.random.randint(2, load.together))
            path, body = f"/bandits/{name}/decisions:batch", {"decisions": asks}
        for again in range(1 + (key is not None and self.random.random() < 0.05)):
            answer, unanswered = self.ask("POST", path, body, key)
            if answer.status_code != 200:
                raise RefusedError(f"decision: {answer.status_code} {answer.text}")
            self.record.counts["unanswered"] += unanswered
            found = answer.json()
            decided = self.record.decided(name, key, found.get("decisions", [found]), bool(again))
        if decided[0].version > self._versions[name]:
            self._versions[name] = decided[0].version
            self.watch.shown(name, {0: {*range(decided[0].version)}})
        for one in decided:
            self.plan(one)

    def look(self) -> None:
        """What the dashboard shows."""
        name = self.random.choice([*self.watch.waiting])
        answer, _ = self.ask("GET", f"/bandits/{name}/series", None)
        if answer.status_code != 200:
            raise RefusedError(f"series: {answer.status_code} {answer.text}")
        series = answer.json()
        batches = {stream: {one["batch"] for one in series[line]} for stream, line in enumerate(("learned", "holdback"))}
        self.watch.shown(name, batches)

    def plan(self, one: Decision) -> None:
        """Whether and when its reward is sent, and how often."""
        load, drawn, now = self.load, self.random.random(), time.monotonic()
        value = float(self.random.random() < 0.4) if one.bandit != "sums" else self.random.choice((0.0, 1.0, 0.5, 0.3125))
        if drawn < load.never:
            return
        if drawn < load.never + load.late:
            self._waiting.append((one, value))
            return
        when = now + self.random.random() * load.delay
        heapq.heappush(self._later, (when, one.round, one, value))
        if self.random.random() < load.twice / (1 - load.never - load.late):
            other = value if self.random.random() < 0.7 else 1.0 - value
            self.shared.append((now + self.random.random() * load.delay, one, other))  # whoever comes by sends it

    def send_due(self) -> None:
        now = time.monotonic()
        due = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2:])
        for _ in range(len(self.shared)):
            try:
                when, one, value = self.shared.popleft()
            except IndexError:
                break
            if when <= now:
                due.append((one, value))
            else:
                self.shared.append((when, one, value))
                break
        closed = self.watch.closed
        still = []
        for one, value in self._waiting:
            late = one.round < closed.get((one.bandit, int(one.holdback)), 0)
            (due if late else still).append((one, value))
        self._waiting = still
        self.send(due)

    def send(self, due: list[tuple[Decision, float]]) -> None:
        self.random.shuffle(due)
        while due:
            count = 1 if self.random.random() < self.load.single else self.random.randint(2, 40)
            some, due = due[:count], due[count:]
            if len(some) == 1:
                self.send_one(*some[0])
            else:
                self.send_many(some)

    def send_one(self, one: Decision, value: float) -> None:
        answer, unanswered = self.ask("PUT", f"/decisions/{one.id}/reward", {"reward": value})
        document = answer.json()
        said = document.get("status") if answer.is_success else document["type"].removeprefix("urn:adaprivate:")
        self.record.rewarded(one, Attempt(value, unanswered, said))

    def send_many(self, some: list[tuple[Decision, float]]) -> None:
        body = {"rewards": [{"decision_id": one.id, "reward": value} for one, value in some]}
        answer, unanswered = self.ask("POST", "/rewards:batch", body)
        if answer.status_code != 200:
            raise RefusedError(f"rewards: {answer.status_code} {answer.text}")
        for (one, value), said in zip(some, answer.json()["statuses"], strict=True):
            self.record.rewarded(one, Attempt(value, unanswered, said))

    def finish(self) -> None:
        """Send what is left, late ones after all batches are closed that can be."""
        self.send([(one, value) for _, _, one, value in self._later])
        while self.shared:
            try:
                _, one, value = self.shared.popleft()
            except IndexError:
                break
            self.send([(one, value)])
        end = time.monotonic() + self.load.patience / 2
        while self.watch.full and time.monotonic() < end:
            time.sleep(0.05)
        self.send(self._waiting)


@dataclass
class Outcome:
    """What a run came to."""

    record: Record
    deaths: Counter[str]
    errors: Counter[str]
    closings: int
    seconds: float

    def row(self) -> dict[str, Any]:
        counts = self.record.counts
        return {
            "closings": self.closings,
            "kills": self.deaths.total(),
            "decisions": counts["decisions"],
            "rewards": counts["recorded"],
            **{name: counts[name] for name in ("duplicate", "different", "late", "unanswered")},
            "seconds": round(self.seconds, 1),
        }


def hammered(settings: Recorded, load: Load) -> Outcome:
    """Run a service under load until there is enough, let it close what is due, and kill it."""
    record, shared = Record(), deque[Any]()
    started = time.monotonic()
    with Running(settings) as service:
        watch = Watch(settings.database, settings.journal, record.problem, record.seen)
        first = Client(-1, service.url, load, record, watch, shared)
        for name, options in load.bandits().items():
            made, _ = first.ask("POST", "/bandits", {"name": name, **options})
            assert made.status_code in (201, 409), made.text  # 409: it was made, and nobody was told
            put, _ = first.ask("PUT", f"/bandits/{name}/items", {"items": ITEMS})
            assert put.status_code == 200, put.text
        watch.look()
        watch.start()
        clients = [Client(number, service.url, load, record, watch, shared) for number in range(load.clients)]
        for client in clients:
            client.start()
        if not kill_until_enough(service, watch, load, record, clients):
            record.problem(f"time: {watch.closings} closings and {record.counts['decisions']} decisions, and no more")
        service.make_peace()
        for client in clients:
            client.enough.set()
        for client in clients:
            client.join(load.patience)
            if client.is_alive():
                record.problem("client: it does not come to an end")
        settle(watch, record, first, load)
        watch.stop()
        first.http.close()
    return Outcome(record, service.deaths(), service.errors(), watch.closings, time.monotonic() - started)


def kill_until_enough(service: Running, watch: Watch, load: Load, record: Record, clients: list[Client]) -> bool:
    """Kill workers at random times; False if there is not enough in time, or clients gave up."""
    rng = random.Random(load.seed)

    def pause() -> float:
        return rng.expovariate(1 / load.gap) if load.gap else load.seconds

    end, kill = time.monotonic() + load.seconds, time.monotonic() + pause()
    while time.monotonic() < end and all(client.is_alive() for client in clients):
        if watch.closings >= load.closings and record.counts["decisions"] >= load.decisions:
            deaths = service.deaths()
            if sum(deaths[point] for point in CLOSING_POINTS) >= load.deaths and service.births() >= load.births:
                return True
        if time.monotonic() >= kill:
            service.kill(rng)
            kill = time.monotonic() + pause()
        time.sleep(0.02)
    return False


def settle(watch: Watch, record: Record, client: Client, load: Load) -> None:
    """Wait until all batches that are due are closed, and shown to somebody: then the journal knows of them."""
    time.sleep(0.3)
    end = time.monotonic() + load.patience / 2
    while watch.full and time.monotonic() < end:
        time.sleep(0.05)
    if watch.full:
        record.problem(f"due: {watch.full} batches are full and are not closed")
    while not watch.erased and time.monotonic() < end:
        time.sleep(0.05)
    try:
        for name in load.bandits():
            shown, _ = client.ask("GET", f"/bandits/{name}", None)
            if shown.status_code != 200 or shown.json()["state"] != "open":
                record.problem(f"halted: {name} is {shown.text[:300]}")
    except RefusedError as error:
        record.problem(f"settling: {error}")
    watch.look()
