"""Policies with exact noise as targets: the object that serves real people, driven from outside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check
from adaprivate.audit.grid import looked
from adaprivate.audit.scripts import MISSING, Pair, Script
from adaprivate.audit.targets import PolicyTarget, Transcripts, small_settings
from adaprivate.check import Array, Floats, Integers
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.runtime.policy import Policy

WATCHED = 60
"""Counts are taken after every call of so many rounds."""
COMPARED = 4
"""Runs by which it is settled whether compiled code says what is released."""


class _Truth:
    """Draws that leave everything as it is: bits told truly, nothing added."""

    def uniform(self) -> float:
        return 0.0

    def geometric(self, p: float, size: int) -> Integers:
        return np.ones(size, dtype=np.int64)


class Quiet(Simulated):
    """No noise at all, for a book of a plan: what an attacker works out by himself. Never for anyone's data.

    A source like any other, so that nothing is changed for policies beside it.
    """

    def __init__(self, plan: Any) -> None:
        self.exact = isinstance(plan, BatchPlan | MessagePlan)  # sums in whole numbers; flips and blocks need draws
        self.generator: Any = _Truth()

    def gaussian(self, values: Array, scale: float | Floats) -> Floats:
        """The values."""
        values = np.asarray(values)
        return np.asarray(values / 2**NOISE_BITS if values.dtype == object else values, dtype=np.float64)

    def laplace(self, values: Array, scale: float | Floats) -> Floats:
        """The values."""
        return self.gaussian(values, scale)


class Lived(NamedTuple):
    """What one run showed."""

    numbers: Floats
    aside: Floats
    actions: list[int]


class ExactTarget(PolicyTarget):
    """A policy object with exact noise from the operating system, driven by ``decide``, ``learn`` and ``finish`` alone.

    A reward that never comes is never told. Seen are the releases that the public learner reads and the actions; aside,
    after every call, the version, the rounds counted and the releases read, and at the end how likely choices are.
    """

    exact = True
    _looked_up: dict[Any, Any] = {}  # noqa: RUF012  # replaced, never changed
    _tells_odds: bool = True

    def play(self, script: Script, seeds: Iterable[int]) -> Transcripts:
        runs = [self._lived(script) for _ in seeds]
        actions = np.array([run.actions for run in runs], dtype=np.int64).reshape(len(runs), script.rounds)
        actions[:, list(script.hidden)] = -1
        numbers, aside = (np.array([run[part] for run in runs]).reshape(len(runs), -1) for part in (0, 1))
        return Transcripts(numbers, actions, aside)

    @cached_property
    def _longest(self) -> int:
        """How long a release is at most."""
        return max(1, self.seen(self.settings, self._quiet).size, getattr(self.settings.plan, "size", 0))

    def _shown_at_once(self) -> int | None:
        return self._longest

    def _lived(self, script: Script, forced: Integers | None = None) -> Lived:
        """One run; with ``forced`` actions it is a silent one, and nothing aside is asked."""
        policy = Policy(self.settings, source=Secure())
        learner, releases, last = policy.learner, [], np.zeros(self._longest)
        learner._use._bound = dict(self._looked_up)  # else every run would find out types again
        if forced is not None:
            _quieten(policy, forced)
        reading = learner.read

        def read(release: Release) -> None:
            releases.append(release)
            last[: len(release.values)] = release.values
            reading(release)

        vars(learner)["read"] = read
        moments, shown = {*self.moments}, []
        actions: list[int] = []
        counts: list[float] = []

        def watch() -> None:
            if len(actions) <= WATCHED:
                counts.extend((policy.version, policy.round, len(releases)))

        for t in range(script.rounds):
            whose: dict[str, Any] = {"user": str(script.visitors[t])} if self.people else {}
            decision = policy.decide(script.candidates[t], **whose)
            actions.append(decision.action)
            watch()
            if t in moments:  # the round before is counted by now
                shown.append(last.copy())
            if not math.isnan(script.rewards[t]):
                policy.learn(decision, float(script.rewards[t]))
            watch()
        policy.finish()
        if script.rounds in moments:
            shown.append(last.copy())
        counts += [policy.version, policy.round, len(releases)]
        self._looked_up = learner._use._bound
        if forced is None:
            at, off = looked(policy.settings.plan, releases)
            self.looked_at, self.off_grid = self.looked_at + at, self.off_grid + off
            counts += self._odds(policy)
        return Lived(np.concatenate(shown) if shown else np.zeros(0), np.array(counts, dtype=np.float64), actions)

    def _odds(self, policy: Policy) -> list[float]:
        """How likely each of some fixed candidates would be chosen now, where that is public."""
        if not self._tells_odds:
            return []
        try:
            found: list[float] = policy.propensities(np.eye(self.settings.dimension), draws=64).probability.tolist()
        except check.InputError:  # a policy that cannot say
            self._tells_odds = False
            return []
        return found

    def expected(self, script: Script, actions: Integers) -> Floats | None:
        """By compiled code where a few silent runs show that it says the same; else by silent runs."""
        if not self.moments or self._sampled or not len(actions):
            return None
        key = b"exact" + script.rewards.tobytes() + script.candidates.tobytes()
        if key not in self._agrees:
            few = actions[:COMPARED]
            compiled, silent = super().expected(script, few), self._silently(script, few, key)
            same = compiled is not None and compiled.shape == silent.shape
            self._agrees[key] = same and bool(np.allclose(compiled, silent, rtol=0, atol=1e-4))  # type: ignore[arg-type]
        return super().expected(script, actions) if self._agrees[key] else self._silently(script, actions, key)

    def settle(self, pair: Pair) -> None:
        """Whether compiled code says what is released, by the first runs there are."""
        for script in (pair.one, pair.two):
            self.expected(script, np.maximum(super().play(script, range(COMPARED)).actions, 0))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_looked_up": {}}

    def _silently(self, script: Script, actions: Integers, key: bytes) -> Floats:
        rows = []
        for taken in np.maximum(actions, 0):
            known = key + taken.tobytes()
            if known not in self._silent:
                if len(self._silent) > 50_000:
                    self._silent.clear()
                self._silent[known] = self._lived(script, taken).numbers
            rows.append(self._silent[known])
        return np.array(rows)


def _quieten(policy: Policy, forced: Integers) -> None:
    """Let a fresh policy release without noise, and take these actions."""
    engine: Any = policy._engine
    engine.book = engine.plan.book(Quiet(engine.plan))
    engine.fused_until = engine.book.sums_until
    choosing, counting = engine.choose, engine.count_and_choose

    def choose(candidates: Floats) -> tuple[int, int]:
        return int(forced[policy.decided]), choosing(candidates)[1]

    def count_and_choose(*round_and_candidates: Any) -> tuple[int, int]:
        return int(forced[policy.decided]), counting(*round_and_candidates)[1]

    engine.choose, engine.count_and_choose = choose, count_and_choose


def policy_target(
    name: str, values: dict[str, Any], *, neighbour: str | None = None, exact_noise: bool = False
) -> PolicyTarget:
    """The policy of this name on short settings, ready to be attacked; ``values`` are kept as they are."""
    kind = ExactTarget if exact_noise else PolicyTarget
    settings = small_settings(name, values)
    if neighbour == MISSING:
        check.expect(not math.isnan(settings.missing), "missing", settings.missing, "to be a number")
    return kind(settings, neighbour, longer="rounds" not in values)
