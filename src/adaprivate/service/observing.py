"""What an operator sees: JSON lines on stderr, and counts for Prometheus. Public facts only.

A line names the route's template, the status, the time it took and the bandit; never a body, a reward, features, a user, a
decision, a key or a query. Whether and when rewards come is private too: requests to routes that take rewards leave no
line, and no counter counts them.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

_WARNING = {"warning", "error"}
_MOST_LINES = 100_000
"""Lines that wait to be written; older ones go first."""


class Log:
    """One JSON line an event. Lines are gathered, and written by :meth:`flush`, warnings and errors at once."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque(maxlen=_MOST_LINES)

    def event(self, level: str, event: str, **facts: object) -> None:
        """Note an event; facts must be public."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(orjson.dumps({"time": now, "level": level, "event": event, **facts}, default=str))
        if level in _WARNING:
            self.flush()

    def request(self, route: str, status: int, seconds: float, bandit: str | None) -> None:
        """Note a request."""
        level = "info" if status < 500 else "error"
        facts: dict[str, object] = {"route": route, "status": status, "ms": round(seconds * 1000, 2)}
        if bandit is not None and status != 404:
            facts["bandit"] = bandit
        self.event(level, "request", **facts)

    def failure(self, event: str, error: BaseException, **facts: object) -> None:
        """Note an error by its type and place: its text may quote what was sent."""
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("error", event, error=type(error).__name__, at=places, **facts)

    def flush(self) -> None:
        """Write what waits."""
        lines = []
        while self._lines:
            try:
                lines.append(self._lines.popleft())
            except IndexError:  # another thread was faster
                break
        if lines:
            stream = self._stream or sys.stderr
            try:
                stream.write(b"\n".join(lines).decode() + "\n")
                stream.flush()
            except (OSError, ValueError):  # nobody reads, or closed: a service goes on without a log
                return


class ServerMessages(logging.Handler):
    """What the HTTP server itself has to say, as lines of the log: warnings, without the texts of exceptions."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        first = record.getMessage().partition("\n")[0]
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        facts = {"message": first[:200]} | ({"error": error} if error else {})
        self._log.event("error" if record.levelno >= logging.ERROR else "warning", "server", **facts)


STARTED = time.time()
_METRICS: tuple[tuple[str, str, str], ...] = (
    ("decisions_total", "counter", "Decisions made."),
    ("rounds_total", "counter", "Decisions by stream: the policy's own, and those held back to be chosen at random."),
    ("counted_rounds_total", "counter", "Decisions in closed batches."),
    ("version", "gauge", "Batches that the policy has learned from."),
    ("releases_total", "counter", "Noisy statistics that were released."),
    ("next_batch_filled_ratio", "gauge", "The share of the next batch's rounds that are assigned."),
    ("next_batch_due_timestamp_seconds", "gauge", "When the next batch closes, or was to close, in seconds since 1970."),
    ("open", "gauge", "1 if the bandit decides, else 0."),
    ("epsilon", "gauge", "The privacy loss that is promised; NaN where the guarantee is void."),
    ("delta", "gauge", "The probability of exceeding it; NaN where the guarantee is void."),
    ("guarantee_void", "gauge", "1 if a condition of the guarantee no longer holds, else 0."),
)


def metrics(statuses: Iterable[Mapping[str, Any]]) -> bytes:
    """Counts in Prometheus' text format, from public documents alone."""
    samples: dict[str, list[str]] = {name: [] for name, _, _ in _METRICS}
    for status in statuses:
        for name, labels, value in _samples(status):
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in {"bandit": status["name"], **labels}.items())
            number = f"{float(value):.17g}".replace("nan", "NaN")
            samples[name].append(f"adaprivate_{name}{{{pairs}}} {number}")
    lines = []
    for name, kind, text in _METRICS:
        lines += [f"# HELP adaprivate_{name} {text}", f"# TYPE adaprivate_{name} {kind}", *samples[name]]
    lines += [
        "# HELP process_start_time_seconds When this process started, in seconds since 1970.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {STARTED:.3f}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _samples(status: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    rounds, following = status["rounds"], status["next_batch"]
    yield "decisions_total", {}, rounds["decided"]
    yield "rounds_total", {"stream": "policy"}, rounds["policy"]
    yield "rounds_total", {"stream": "holdback"}, rounds["holdback"]
    yield "counted_rounds_total", {}, rounds["counted"]
    yield "version", {}, status["version"]
    if "releases" in status:
        yield "releases_total", {}, status["releases"]
    if following.get("end") is not None:
        length = following["end"] - following["start"]
        yield "next_batch_filled_ratio", {}, min(following["assigned"] / length, 1.0) if length else 1.0
    if following.get("closes_at") is not None:
        yield "next_batch_due_timestamp_seconds", {}, following["closes_at"]
    yield "open", {}, float(status["state"] == "open")
    guarantee = status["guarantee"]
    void = bool(guarantee.get("void"))
    yield "epsilon", {}, math.nan if void else guarantee["epsilon"]
    yield "delta", {}, math.nan if void else guarantee["delta"]
    yield "guarantee_void", {}, float(void)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
