"""Which of two neighbouring worlds was it? The service as a target of the library's own audit.

Two ways. A whole run of a small bandit is one guess, by everything that outsiders saw in it: numbers, texts, lines of the
log, files. Or every reward of a run is a guess of its own, by the one released number that it moves: noise is independent
from number to number, so these guesses are too, and thousands of them take seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.transcripts import Silence, Template, World, forcing, leaves

from adaprivate.audit.bounds import COIN, Counts, counted, epsilon_bound, mu_bound
from adaprivate.audit.scripts import Pair, Script
from adaprivate.audit.targets import Claim, Target, Transcripts
from adaprivate.privacy import gdp_mu

NAME = "page"
MISSING = math.nan


@dataclass(frozen=True)
class Visits(Script):
    """A script of visits; rewards of ``late`` rounds come when their batch is closed."""

    late: tuple[int, ...] = ()


def visits(rounds: int, places: Sequence[int], reward: float, *, late: bool = False) -> Visits:
    """So many visits, all rewards 0 but these, which are those of one person."""
    rewards = np.zeros(rounds)
    rewards[list(places)] = reward
    people = tuple(0 if place in places else 1 + place for place in range(rounds))
    return Visits(np.zeros((rounds, 1, 1)), rewards, people, late=tuple(places) if late else ())


def neighbours(rounds: int, *places: int) -> dict[str, Pair]:
    """Some rewards are 1, or they are 0, never come, or come too late."""
    two = visits(rounds, places, 1.0)
    others = {"zero": visits(rounds, places, 0.0), "missing": visits(rounds, places, MISSING)}
    others["late"] = visits(rounds, places, 1.0, late=True)
    return {name: Pair(one, two, f"rewards of rounds {places}: {name}, or 1", places) for name, one in others.items()}


class ServiceTarget(Target):
    """The service with one bandit, one run a guess. All rounds of a run are in one batch, or in several of one moment."""

    exact = True
    name = "service"

    def __init__(self, folder: Path, spec: dict[str, Any], pair: Pair, claim: Claim, rewarded: str = "policy") -> None:
        self.claim, self._pair, self._rewarded = claim, pair, rewarded
        self._people = spec.get("unit") == "user"
        self._size = spec["dimension"]
        items = {f"i{n}": [float(n == k) for k in range(self._size)] for n in range(self._size)}
        self._template = Template.made(folder / "template", {NAME: spec}, items)
        self._silence = self._template.world(folder / "silence", Silence())
        self.world = self._template.world(folder / "world")
        self._columns: list[str] = []
        with forcing():
            quiet = self._lived(self._silence, pair.one)
            self._columns = sorted(quiet[1])
            self._expected = {id(script): self._lived(self._silence, script)[0] for script in (pair.one, pair.two)}

    def close(self) -> None:
        """Let go of both worlds."""
        for world in (self.world, self._silence):
            world.__exit__()

    def pairs(self) -> list[Pair]:
        return [self._pair]

    def expected(self, script: Script, actions: Any) -> Any:
        return np.tile(self._expected[id(script)], (len(actions), 1))

    def play(self, script: Script, seeds: Iterable[int]) -> Transcripts:
        runs = [self._lived(self.world, script) for _ in seeds]
        numbers = np.array([numbers for numbers, _, _ in runs]).reshape(len(runs), -1)
        aside = np.array([self._aside(facts) for _, facts, _ in runs]).reshape(len(runs), -1)
        return Transcripts(numbers, np.array([actions for _, _, actions in runs]).reshape(len(runs), -1), aside)

    def _aside(self, facts: dict[str, float]) -> list[float]:
        """Facts in their columns; how many are in none, and how many columns are empty."""
        known = [facts.get(name, -1.0) for name in self._columns]
        return [*known, len(facts.keys() - self._columns), sum(name not in facts for name in self._columns)]

    def _lived(self, world: World, script: Any) -> tuple[list[float], dict[str, float], list[int]]:
        """One run: released numbers, everything else, and what was chosen."""
        world.rewind(self._template)
        asks: list[dict[str, Any]] = [{"candidates": [f"i{place % self._size}"]} for place in range(script.rounds)]
        if self._people:
            asks = [ask | {"user": who} for ask, who in zip(asks, script.visitors, strict=True)]
        found = world.watch("decide", "POST", f"/bandits/{NAME}/decisions:batch", {"decisions": asks}).json()["decisions"]
        own = [one for one in found if one["holdback"] == (self._rewarded == "holdback")]
        came = [
            (one["decision_id"], value, place) for place, (one, value) in enumerate(zip(own, script.rewards, strict=False))
        ]
        self._send(world, [one for one in came if one[2] not in script.late])
        self._look(world)
        world.turn(61.0)
        self._send(world, [one for one in came if one[2] in script.late])
        series = self._look(world)
        further = [{"user": 1}] * 2 if self._people else [{}, {}]
        world.watch("decide", "POST", f"/bandits/{NAME}/decisions:batch", {"decisions": further})
        lines = series["learned"] + series["holdback"]
        numbers = [-9.0 if one["mean"] is None else one["mean"] for one in lines]
        numbers += [one["score"] for one in sorted(series["items"], key=lambda item: item["id"])]
        facts = dict(fact for n, (label, seen) in enumerate(world.transcript()) for fact in _facts(n, label, seen))
        return numbers, facts, [int(one["item"][1:]) for one in found]

    def _send(self, world: World, came: list[Any]) -> None:
        entries = [{"decision_id": token, "reward": float(value)} for token, value, _ in came if not math.isnan(value)]
        if entries:
            world.ask("reward", "POST", "/rewards:batch", {"rewards": entries})

    def _look(self, world: World) -> Any:
        for path in ("/metrics", f"/bandits/{NAME}"):
            world.watch("read", "GET", path)
        return world.watch("read", "GET", f"/bandits/{NAME}/series").json()


def _facts(number: int, label: str, seen: Any) -> Iterable[tuple[str, float]]:
    if not hasattr(seen, "status"):
        return leaves(seen, f"{number} {label}")
    body: Any = seen.body.decode()
    if "/metrics" in label:
        body = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        body = {name: float(value) for name, value in body.items()}
    else:
        body = seen.json()
    return leaves({"status": seen.status, "headers": str(seen.headers), "body": body}, f"{number} {label}")


# --- many guesses in a run -----------------------------------------------------------------------------------------------

WIDTH = 48
EXACT = {"calibration": "exact"}
CANARIES: dict[str, dict[str, Any]] = {
    "sums": {"policy": "adaprivate-ts", "rounds": WIDTH, "batch_size": WIDTH, "options": EXACT},
    "flips": {"policy": "rr-linucb", "rounds": 10 * WIDTH, "batch_size": WIDTH},
    "holdback": {"policy": "adaprivate-ts", "rounds": 39, "holdback": 0.5, "options": {"batch_size": 39} | EXACT},
}


@dataclass(frozen=True)
class Guessed:
    """How guesses went. ``claimed``: a mu where noise is Gaussian, else an epsilon."""

    claimed: float
    gaussian: bool
    counts: Counts

    @property
    def guesses(self) -> int:
        """How many there were."""
        return int(self.counts.ones + self.counts.twos)

    def at(self, confidence: float) -> float:
        """What is at least true, at this confidence, of what is claimed."""
        alpha = 1 - confidence
        bound = mu_bound(self.counts, COIN, alpha) if self.gaussian else epsilon_bound(self.counts, COIN, 0.0, alpha)
        return float(bound[0])


class Canaries:
    """A bandit whose every reward moves one released number: a sum's coordinate, a told bit, a holdback's batch."""

    def __init__(self, folder: Path, kind: str, epsilon: float) -> None:
        self.kind = kind
        spec = {**CANARIES[kind], "epsilon": epsilon, "dimension": 1 if kind == "holdback" else WIDTH}
        self._names = [f"i{n:02}" for n in range(spec["dimension"])]
        self._template = Template.made(folder / "template", {NAME: spec}, dict.fromkeys(self._names))
        self.world = self._template.world(folder / "world")
        self._claim = self.world.ask("read", "GET", f"/bandits/{NAME}").json()["guarantee"]
        with forcing(), self._template.world(folder / "silence", Silence()) as silence:
            absent, low, high = (self._numbers(silence, lambda n, v=value: [v] * n) for value in (MISSING, 0.0, 1.0))
        self._middle = (low + high) / 2  # as many as there are rewards, or a later step would fail
        assert (high > low).all(), "every reward shows"
        self._lows = [0.0, MISSING if (absent == low).all() else 0.0]

    def _numbers(self, world: World, rewards: Any) -> Any:
        """The released numbers of a run; ``rewards``: so many, NaN where none comes."""
        world.rewind(self._template)
        asks = [{"candidates": [name], "propensity": False} for name in self._names]
        asks *= WIDTH // len(asks)
        found = world.ask("decide", "POST", f"/bandits/{NAME}/decisions:batch", {"decisions": asks}).json()["decisions"]
        own = [one["decision_id"] for one in found if one["holdback"] == (self.kind == "holdback")]
        pairs = [(token, value) for token, value in zip(own, rewards(len(own)), strict=True) if not math.isnan(value)]
        if pairs:
            entries = [{"decision_id": token, "reward": value} for token, value in pairs]
            assert world.ask("reward", "POST", "/rewards:batch", {"rewards": entries}).status == 200
        world.turn(61.0)
        series = world.ask("read", "GET", f"/bandits/{NAME}/series").json()
        if self.kind == "holdback":
            return np.array([one["mean"] for one in series["holdback"]])
        return np.array([one["score"] for one in sorted(series["items"], key=lambda item: item["id"])])

    def guessed(self, runs: int, seed: int) -> Guessed:
        """So many runs: each reward is 1, or one of none and 0, by fair coins; all guesses are judged."""
        rng = np.random.default_rng(seed)
        scores, coins = [], []
        for _ in range(runs):
            two = rng.integers(2, size=len(self._middle)).astype(bool)
            low = rng.choice(self._lows, size=len(two))
            numbers = self._numbers(self.world, lambda count, t=two, low=low: np.where(t, 1.0, low)[:count].tolist())
            scores.append(numbers - self._middle)
            coins.append(two)
        counts = counted(np.concatenate(scores), np.concatenate(coins), np.zeros(1))
        gaussian = self.kind == "sums"
        epsilon = self._claim["epsilon"]
        return Guessed(gdp_mu(epsilon, self._claim["delta"]) if gaussian else epsilon, gaussian, counts)

    def close(self) -> None:
        """Let go of the world."""
        self.world.__exit__()
