"""What is attacked: policies as they run, simulated or with exact noise, seen through what they make public alone."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from adaprivate import check, policies
from adaprivate.audit.scripts import BY_UNIT, PROMISED, Pair, Script, pairs
from adaprivate.check import Floats, Integers
from adaprivate.compiled import Streams, borrowed, bound, entry, streams
from adaprivate.mechanisms.channels import GAUSSIAN, ChannelPlan
from adaprivate.mechanisms.plan import Plan, SamplingPlan
from adaprivate.policies.core.dispatch import select, update, visit
from adaprivate.policies.core.propensities import choice_probabilities, copied
from adaprivate.privacy import GaussianPrice, Guarantee, Price
from adaprivate.purposes import Purpose
from adaprivate.runtime.learner import choose, learn

ROUNDS, BATCH, DIMENSION = 12, 3, 2
"""Settings are as short as this, unless more is needed to see a release."""
LONGEST = 4000
FEW = 12
"""So many rounds are played one by one, more in a compiled stretch."""
MOST_MOMENTS = 40


class Transcripts(NamedTuple):
    """What many runs of a script showed: numbers released (n, p) and actions (n, T), -1 where they are hidden.

    ``aside`` (n, q): whatever else was seen, of which nobody says what it would be without noise.
    """

    numbers: Floats
    actions: Integers
    aside: Floats | None = None


@dataclass(frozen=True)
class Claim:
    """What is said of a target: (epsilon, delta), and mu-GDP where that is said; ``curve`` if the whole curve is known."""

    epsilon: float
    delta: float
    mu: float | None
    gaussian: bool
    """Whether what is claimed is Gaussian noise: epsilon then follows from mu."""
    curve: Price | None = None

    @classmethod
    def of(cls, guarantee: Guarantee, plan: Plan | None, *, exact_noise: bool = False) -> Claim:
        """The claim that a guarantee makes, of one channel alone where there is only that one."""
        if isinstance(plan, ChannelPlan) and plan.channels == (GAUSSIAN,):
            own = GaussianPrice(1 / plan.noise_multiplier)
            return cls(guarantee.epsilon, guarantee.delta, own.mu, True, own)
        price = None if plan is None else plan.price(exact_noise=exact_noise)
        return cls(guarantee.epsilon, guarantee.delta, guarantee.mu, isinstance(price, GaussianPrice), price)


class Target(ABC):
    """Something that plays scripts and claims to be private."""

    name: str
    claim: Claim
    exact: ClassVar[bool] = False

    @abstractmethod
    def pairs(self) -> list[Pair]:
        """Neighbours to choose from."""

    @abstractmethod
    def play(self, script: Script, seeds: Iterable[int]) -> Transcripts:
        """The transcripts of this script, one run for each seed (which exact noise does not heed)."""

    def expected(self, script: Script, actions: Integers) -> Floats | None:
        """What would have been released without noise, had these actions been taken (n, p); None if nobody knows."""
        return None

    def choice_loss(self, one: Script, two: Script, actions: Integers) -> Floats | None:
        """The log-likelihood ratio of the actions alone (n,), where choices are the noise; else None."""
        return None

    def settle(self, pair: Pair) -> None:  # noqa: B027  # most have nothing to settle
        """Find out whatever some runs decide for all, before they are played apart."""

    width: int | None = None
    """How many numbers are shown at each moment, where old ones are shown again; None: they are all new."""
    scales: Floats | None = None
    """The standard deviation of floating-point noise in each released number, if some were used; None: not asked."""
    looked_at: int = 0
    """How many released numbers were compared with the grid of exact noise."""
    off_grid: int = 0
    """How many of them exact noise cannot have made."""
    note: str = ""
    """What is worth knowing before it is played, or where little can be found."""


class _Noise:
    """The tables of noise that settings have for these seeds; None: of zeros, which streams of noise read as zeros too."""

    def __init__(self, seeds: list[int] | None) -> None:
        self.seeds = seeds
        self._tables: dict[int, tuple[Any, Floats]] = {}
        """By the settings' identity, and these along with them, so that it stays theirs."""

    def of(self, settings: Any, run: int) -> Floats:
        """The table of this run."""
        if id(settings) not in self._tables:
            table = settings.noise_tables([0] if self.seeds is None else self.seeds)
            self._tables[id(settings)] = settings, np.zeros_like(table) if self.seeds is None else table
        found: Floats = self._tables[id(settings)][1][run]
        return found.copy()


@entry
def _stretch(
    state: Any, offers: Floats, rewards: Floats, visitors: Integers, rng: Streams, actions: Integers, first: int, last: int
) -> None:
    """Play the rounds from ``first`` up to ``last``; actions that are -1 are chosen and filled in, others are taken."""
    policy, words = borrowed(state), borrowed(rng)
    for t in range(first, last):
        chosen = select(policy, borrowed(offers[t]), words)
        if actions[t] < 0:
            actions[t] = chosen
        visit(policy, visitors[t])
        update(policy, borrowed(offers[t, actions[t]]), rewards[t], words)


def small_settings(name: str, values: dict[str, Any]) -> Any:
    """Short settings of a policy, from its own example; ``values`` are kept."""
    example = policies.examples(name)[0]
    known = {field.name for field in dataclasses.fields(example)}
    check.known(values, sorted(known), name)
    short = {"dimension": DIMENSION, "rounds": ROUNDS, "batch_size": BATCH}
    wanted = {key: value for key, value in short.items() if key in known} | values
    if "batch_size" in wanted and wanted["batch_size"] is not None and "batch_size" not in values:
        wanted["batch_size"] = min(wanted["batch_size"], wanted["rounds"])
    return dataclasses.replace(example, **wanted)


class PolicyTarget(Target):
    """A policy with simulated noise, in compiled code. ``longer``: with more rounds where nothing is released so soon."""

    def __init__(
        self, settings: Any, neighbour: str | None = None, claim: Claim | None = None, *, longer: bool = True
    ) -> None:
        guarantee = settings.guarantee(exact_noise=self.exact) if claim is None else None
        if claim is None:
            check.expect(guarantee is not None, "policy", settings.name, "to be a private one: this one claims nothing")
            plan = getattr(settings, "plan", None)
            claim = Claim.of(guarantee, plan, exact_noise=self.exact)  # type: ignore[arg-type]
        unit = guarantee.unit if guarantee is not None else "event"
        self.settings, self.name, self.claim = settings, settings.name, claim
        self.neighbour = neighbour or BY_UNIT[unit]
        promised = guarantee is None or self.neighbour in PROMISED[unit]
        said = f"to be one that the guarantee speaks of: it is {unit}-level, so {' or '.join(PROMISED[unit])}"
        check.expect(promised, "neighbour", self.neighbour, said)
        self.people = unit == "user"
        self._no_noise = _Noise(None)
        self._plans: dict[Any, Any] = {}
        self._compiled: dict[Any, Any] = {}
        self._silent: dict[bytes, Floats] = {}
        self._agrees: dict[bytes, bool] = {}
        self._find_moments(longer)
        self.width = self._shown_at_once()

    def __getstate__(self) -> dict[str, Any]:
        """Without what was compiled or worked out, which every process does for itself."""
        worked_out = {"_compiled": {}, "_plans": {}, "_silent": {}, "_no_noise": _Noise(None)}
        return {**vars(self), **worked_out, "looked_at": 0, "off_grid": 0}

    # --- what is public -----------------------------------------------------------------------------------------------

    def seen(self, settings: Any, state: Any) -> Floats:
        """What the state has made public beside actions."""
        public = getattr(settings, "transcript", settings.released)  # anyone's settings need not be PolicySettings
        return np.array(public(state), dtype=np.float64).ravel()

    @property
    def _sampled(self) -> bool:
        return bool(getattr(getattr(self.settings, "plan", None), "sampling_rate", 1.0) < 1)

    def _shown_at_once(self) -> int | None:
        return self.seen(self.settings, self._quiet).size or None

    def pairs(self) -> list[Pair]:
        found = pairs(self.settings, self.neighbour)
        quiet = [pair for pair in found if not pair.others]
        return quiet if self._sampled and quiet else found  # which of the others were taken would hide it

    def _find_moments(self, longer: bool) -> None:
        """The rounds after which something new may be public, with more rounds if nothing ever is and they may be added."""
        given = self.settings.rounds
        if isinstance(getattr(self.settings, "plan", None), SamplingPlan):
            self.moments: list[int] = []
            return
        while True:
            self.moments = list(range(1, self.settings.rounds + 1))
            found: set[int] = set()
            for pair in pairs(self.settings, self.neighbour)[:2]:
                for script in (pair.one, pair.two):
                    numbers = PolicyTarget.play(self, script, range(8)).numbers.reshape(8, len(self.moments), -1)
                    before = np.concatenate([numbers[:1, :1].repeat(8, axis=0), numbers[:, :-1]], axis=1)
                    found |= {int(t) + 1 for t in np.flatnonzero((numbers != before).any(axis=(0, 2)))}
            self.moments = sorted(found)[:MOST_MOMENTS]
            rounds = self.settings.rounds
            if found or not longer or rounds * 4 > LONGEST:
                if not found:
                    self.note = f"Nothing is released in {rounds} rounds"
                elif rounds > given:
                    self.note = f"Nothing is released in {rounds // 4} rounds, so {rounds} are played in every run"
                return
            self.settings = dataclasses.replace(self.settings, rounds=self.settings.rounds * 4)

    # --- playing ------------------------------------------------------------------------------------------------------

    def _reward(self, reward: float) -> float:
        return float(self.settings.missing) if math.isnan(reward) else float(reward)

    def play(self, script: Script, seeds: Iterable[int]) -> Transcripts:
        seeds = list(seeds)
        noise = _Noise(seeds)
        actions = np.full((len(seeds), script.rounds), -1, dtype=np.int64)
        rows = []
        for n, seed in enumerate(seeds):
            rng = streams(seed, Purpose.EXPLORATION, Purpose.CHOICE)
            rows.append(self._shown(script, self.settings.start(noise.of(self.settings, n)), noise, n, rng, actions[n]))
        actions[:, list(script.hidden)] = -1
        return Transcripts(np.array(rows).reshape(len(seeds), -1), actions)

    def _shown(self, script: Script, state: Any, noise: _Noise, run: int, rng: Streams, actions: Integers) -> Floats:
        """What a run shows after each moment. Actions that are -1 are chosen and filled in, others are taken."""
        settings, done = self.settings, 0
        shown: list[Floats] = []
        offers, rewards = script.candidates, np.where(np.isnan(script.rewards), self.settings.missing, script.rewards)
        for moment in [*self.moments, script.rounds]:
            while done < moment:
                planned = getattr(settings, "planned", script.rounds)
                if planned == done:
                    longer = self._longer(settings, state)
                    state, settings = longer.carried(longer.start(noise.of(longer, run)), state), longer
                    continue
                until = min(moment, planned)
                if self.people or until - done > FEW:
                    visitors = np.array(script.visitors)
                    self._bound(_stretch, state, offers, rewards, visitors, rng, actions, done, until)
                else:
                    self._rounds(state, offers, rewards, rng, actions, done, until)
                done = until
            if len(shown) < len(self.moments):
                shown.append(self.seen(settings, state))
        return np.concatenate(shown) if shown else np.zeros(0)

    def _rounds(
        self, state: Any, offers: Floats, rewards: Floats, rng: Streams, actions: Integers, first: int, last: int
    ) -> None:
        """A few rounds by what is compiled anyway, for policies in use."""
        action = np.zeros(1, dtype=np.int64)
        for t in range(first, last):
            self._bound(choose, state, offers[t : t + 1], rng, action)
            if actions[t] < 0:
                actions[t] = action[0]
            self._bound(learn, state, offers[t, actions[t]], rewards[t], -1, rng)

    def _bound(self, function: Any, state: Any, *arguments: Any) -> None:
        """Call compiled code; its types are looked up once."""
        key = function, type(state)
        if key not in self._compiled:
            self._compiled[key] = bound(function, state, *arguments)
        self._compiled[key](state, *arguments)

    def _longer(self, settings: Any, state: Any) -> Any:
        """What goes on after the rounds planned; the same for the same offers, where those decide."""
        offers = getattr(state.learner, "offers", None)
        if offers is None or not offers.size:
            return settings.extended(state.learner)
        key = id(settings), offers.tobytes(), state.learner.offered_in.tobytes()
        if key not in self._plans:
            self._plans[key] = settings, settings.extended(state.learner)
        return self._plans[key][1]

    # --- what the attacker can work out by himself --------------------------------------------------------------------

    def expected(self, script: Script, actions: Integers) -> Floats | None:
        if not self.moments or self._sampled:
            return None
        key = script.rewards.tobytes() + script.candidates.tobytes()
        rows = []
        for taken in np.maximum(actions, 0):
            known = key + taken.tobytes()
            if known not in self._silent:
                if len(self._silent) > 50_000:
                    self._silent.clear()
                self._silent[known] = self._replayed(script, taken)
            rows.append(self._silent[known])
        return np.array(rows)

    @cached_property
    def _quiet(self) -> Any:
        return self.settings.start(self._no_noise.of(self.settings, 0))

    def _replayed(self, script: Script, actions: Integers) -> Floats:
        """The releases of a run without noise in which these actions were taken."""
        rng = streams(0, Purpose.EXPLORATION, Purpose.CHOICE)
        return self._shown(script, copied(self._quiet), self._no_noise, 0, rng, actions.copy())

    def choice_loss(self, one: Script, two: Script, actions: Integers) -> Floats | None:
        if not isinstance(getattr(self.settings, "plan", None), SamplingPlan):
            return None
        known: dict[tuple[int, bytes], Floats] = {}

        def log_odds(which: int, script: Script, taken: Integers) -> float:
            total, state, at = 0.0, None, 0
            rng = streams(0, Purpose.EXPLORATION, Purpose.CHOICE)
            for t in range(script.rounds):
                key = (which, taken[:t].tobytes())
                if key not in known:
                    if state is None:
                        state, at = copied(self._quiet), 0
                    for past in range(at, t):
                        features = script.candidates[past, taken[past]].copy()
                        learn(state, features, self._reward(script.rewards[past]), -1, rng)
                    at = t
                    found = choice_probabilities(state, script.candidates[t][None].copy(), draws=256)
                    known[key] = np.log(np.maximum(found.probability[0], 1e-12))
                total += float(known[key][taken[t]])
            return total

        return np.array([log_odds(1, two, taken) - log_odds(0, one, taken) for taken in actions])


def names(chosen: Sequence[str] | None = None) -> list[str]:
    """The private policies among these, or of all."""
    return [name for name in chosen or policies.names() if policies.settings_class(name).private]
