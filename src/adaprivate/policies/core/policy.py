"""A policy in use: decide, learn, save, load."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check, policies
from adaprivate.check import Array, Floats
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.arm_sampler import ArmSampler
from adaprivate.policies.arms.sampling import SamplingSettings
from adaprivate.policies.core.dispatch import select, update
from adaprivate.policies.core.propensities import Propensities, choice_probabilities
from adaprivate.policies.core.releasing import ReleasingSettings
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose


class Decision(NamedTuple):
    """A choice: its index, how many batches had been released, its probability where known, its round, its features."""

    action: int
    version: int
    propensity: float | None
    round: int
    features: Floats


@entry
def _decide(state: Any, candidates: Floats, rng: Streams) -> int:
    """Clip the candidates to norm 1 in place and choose: action + 2^32 x how many were clipped; -1 if one is not finite."""
    clipped = 0
    for a in range(candidates.shape[0]):
        square = 0.0
        for j in range(candidates.shape[1]):
            square += candidates[a, j] * candidates[a, j]
        if not square <= 1e300:  # infinity and NaN too
            return -1
        if square > 1.0 + 1e-9:  # rounding of a unit vector is left alone; exact sums clip it in integers
            scale = 1.0 / np.sqrt(square)
            clipped += 1
            for j in range(candidates.shape[1]):
                candidates[a, j] *= scale
    return int(select(borrowed(state), borrowed(candidates), borrowed(rng))) + (clipped << 32)


@entry
def _learn(state: Any, features: Floats, reward: float, rng: Streams) -> None:
    update(borrowed(state), borrowed(features), reward, borrowed(rng))


class Policy:
    """A policy that decides and learns, one round after another.

    Made by :func:`policy` with either ``seed`` (simulated noise, for experiments) or ``source=Secure()`` (exact noise from
    the operating system, for real people's data). A decision may be rewarded until ``reward_window`` more have been made;
    rewards that are missing or late count as the public centre. A policy that can go on after its last batch does.
    """

    def __init__(self, settings: Any, *, seed: int | None, source: Secure | None, reward_window: int = 0) -> None:
        check.expect((seed is None) != (source is None), "seed", seed, "or source=Secure() to be given, and not both")
        self.settings = settings
        self._dimension: int = settings.dimension
        self._centre: float = getattr(settings, "centre", 0.0)
        self.source = source
        self.reward_window = check.whole("reward_window", reward_window, at_least=0)
        if getattr(settings, "fixed_arms", False):  # their pre-pulls and first pulls are counted by learned rounds
            check.expect(reward_window == 0, "reward_window", reward_window, f"== 0 for {settings.name}, a policy on arms")
        self.clipped = 0
        """How many feature vectors were longer than 1 and were clipped."""
        self.decided = 0
        """How many decisions have been made."""
        self.round = 0
        """How many rounds have been learned."""
        self.version = 0
        """How many batches have been released."""
        self._waiting: dict[int, tuple[Decision, Floats]] = {}
        """The open decisions by their rounds, and their features, out of the caller's reach."""
        self._withdrew = False
        """Whether a decision was taken back, so that another has its number."""
        self._rewards: dict[int, float] = {}
        """Rewards that wait for their decision's window to close."""
        self._seed = secrets.randbits(128) if seed is None else check.whole("seed", seed, at_least=0)
        self._rng = streams(self._seed, Purpose.EXPLORATION, Purpose.CHOICE)
        self._arms = np.eye(self._dimension) if getattr(settings, "fixed_arms", False) else None
        """The candidates of every round, for a policy on fixed arms."""
        self._sampler: ArmSampler | None = None
        """What draws exact samples, for a policy that is private by its own sampling."""
        self._batch: Any
        if source is not None:
            check.kind("source", source, Secure)
            self._prepare_exact(source)
        self._plan()
        self.state = settings.start(self._noise())

    def _prepare_exact(self, source: Secure) -> None:
        """What draws exact noise; raises where the policy has none."""
        settings = self.settings
        if isinstance(settings, SamplingSettings):
            self._sampler = self._batch = settings.exact_sampler(source)
            settings.guarantee(exact_noise=True)  # raises where the grid of exact noise would show
            return
        refusal = f"for a policy with exact noise, not {settings.name}"
        check.expect(isinstance(settings, ReleasingSettings), "source", "Secure()", refusal)
        if settings.exact_noise_refusal is not None:
            check.expect(False, *settings.exact_noise_refusal)
        self._mechanism = settings.mechanism_for(0, source)
        self._batch = settings.collector(source)

    def _plan(self) -> None:
        """When batches end, and when the plan does."""
        releases = isinstance(self.settings, ReleasingSettings)
        self._ends = frozenset(self.settings.ends.tolist() if releases else ())
        self._planned: int | None = self.settings.planned if releases else None

    def _noise(self) -> Floats:
        """The simulated noise of every release; none where a mechanism releases."""
        if self.source is None:
            table: Floats = self.settings.noise_tables([self._seed])[0]
            return table
        return np.zeros((0, self._dimension))

    @property
    def guarantee(self) -> Guarantee | None:
        """What this policy promises, and what that rests on; None when it is not private."""
        statement: Guarantee | None = self.settings.guarantee(exact_noise=self.source is not None)
        return statement

    def decide(self, candidates: object) -> Decision:
        """Choose one of the rows of ``candidates`` (K, dimension). An earlier decision still open counts as unrewarded."""
        dimension = self._dimension
        try:
            offered = np.array(candidates, np.float64, order="C")
        except (TypeError, ValueError, OverflowError):
            offered = check.floats("candidates", candidates, (None, dimension))
        shape = offered.shape
        if len(shape) != 2 or shape[1] != dimension or not shape[0]:
            check.expect(False, "candidates.shape", shape, f"== (K, {dimension}) with K >= 1")
        if self._arms is not None:
            self._expect_arms(offered)
        number = self.decided
        closing = number - self.reward_window
        if self._waiting and self.round < closing:
            self._expect_finite(offered, candidates)
            while self.round < closing:
                self._count(self.round, self._rewards.pop(self.round, self._centre))
        if self._sampler is None:
            code = _decide(self.state, offered, self._rng)
        else:
            code = self.settings.exact_choice(self.state, self._sampler)
        if code < 0:
            self._expect_finite(offered, candidates)
        action = code & 0xFFFFFFFF
        if code != action:
            self.clipped += code >> 32
        features = offered[action]
        # tuple.__new__ is what Decision(...) does, in half the time
        decision: Decision = tuple.__new__(Decision, (action, self.version, None, number, features))
        self._waiting[number] = (decision, features.copy())
        self.decided = number + 1
        return decision

    def propensities(self, candidates: object, *, draws: int = 512) -> Propensities:
        """The probability with which each row of ``candidates`` would be chosen now, and its standard error.

        For linear policies that sample or take the best score. Nothing changes: a decision made next is not affected.
        """
        released = not isinstance(self.settings, SamplingSettings)
        check.expect(
            released, "policy", self.settings.name, "to choose by what it released, for its probabilities to be public"
        )
        offered = check.floats("candidates", candidates, (None, self._dimension))
        check.expect(len(offered) > 0, "candidates.shape", offered.shape, f"== (K, {self._dimension}) with K >= 1")
        norms = np.linalg.norm(offered, axis=1, keepdims=True)
        clipped = np.where(norms > 1 + 5e-10, offered / np.maximum(norms, 1e-300), offered)
        found = choice_probabilities(self.state, clipped[None], draws=check.whole("draws", draws, at_least=8))
        return Propensities(found.probability[0], found.error[0])

    def withdraw(self, decision: Decision) -> None:
        """Take back the newest decision, as if it had not been asked for: what it chose was not shown to anyone."""
        check.expect(
            self._arms is None, "policy", self.settings.name, "not to be one on fixed arms: its draws are paid for"
        )
        check.expect(self.reward_window == 0, "reward_window", self.reward_window, "== 0 to withdraw a decision")
        newest = type(decision) is Decision and decision.round == self.decided - 1 and decision.round in self._waiting
        check.expect(newest and decision.round not in self._rewards, "decision", decision, "to be the newest, and open")
        del self._waiting[decision.round]
        self.decided -= 1
        self._withdrew = True

    def observe(self, features: object, reward: float) -> None:
        """Learn the reward (0 to 1) of a decision that someone else made, from the features of what was chosen."""
        check.expect(self._arms is None, "policy", self.settings.name, "not to be one on fixed arms: it chooses for itself")
        check.expect(self.reward_window == 0, "reward_window", self.reward_window, "== 0 to observe others' decisions")
        check.expect(not self._waiting, "open decisions", len(self._waiting), "== 0")
        vector = check.floats("features", features, (self._dimension,)).copy()
        value = check.real("reward", reward, at_least=0, at_most=1)
        norm = float(np.linalg.norm(vector))
        if norm > 1 + 5e-10:
            vector /= norm
            self.clipped += 1
        decision = Decision(-1, self.version, None, self.decided, vector)
        self._waiting[self.decided] = (decision, vector)
        self.decided += 1
        self.learn(decision, value)

    @property
    def open_decision(self) -> Decision | None:
        """The oldest decision whose reward can still be learned."""
        return next((decision for decision, _ in self._waiting.values()), None)

    def _expect_arms(self, offered: Floats) -> None:
        """Raise unless these are the fixed arms, in a round that the policy was made for."""
        if not np.array_equal(offered, self._arms):  # type: ignore[arg-type]
            raise check.InputError(f"Expected candidates to be the {self._dimension} unit vectors: the arms are fixed.")
        played = self.round + len(self._waiting)
        check.expect(
            played < self.settings.rounds, "round", played, f"< {self.settings.rounds}, the rounds in its settings"
        )

    def _expect_finite(self, offered: Floats, candidates: object) -> None:
        """Raise, naming the entry, if a candidate's norm is not a finite number."""
        with np.errstate(over="ignore"):
            if not ((offered * offered).sum(axis=1) <= 1e300).all():
                check.floats("candidates", candidates, (None, self._dimension))
                raise check.InputError("Expected candidates to have norms <= 1e150.")

    def learn(self, decision: Decision, reward: float | None) -> None:
        """Learn the reward (0 to 1) of an open decision; ``None`` when there is none: it counts as the public centre."""
        number = decision.round if type(decision) is Decision else None
        if number not in self._waiting or (self._withdrew and self._waiting[number][0] is not decision):
            expected = f"== {self.round}, that of the open decision" if self._waiting else "to be an open decision"
            if self._waiting and self.reward_window:
                expected = f"to be open: rounds {self.round} to {self.decided - 1} are (reward_window={self.reward_window})"
            raise check.InputError(f"Expected decision.round={number!r} {expected}.")
        if type(reward) is float and 0.0 <= reward <= 1.0:
            value = reward
        else:
            value = self._centre if reward is None else check.real("reward", reward, at_least=0, at_most=1)
        if not self.reward_window:
            self._count(number, value)
            return
        if number in self._rewards:
            raise check.InputError(f"Expected decision.round={number} to be learned once.")
        self._rewards[number] = value

    def finish(self) -> None:
        """Count every open decision now; those without a reward count as the public centre.

        When to call it must not depend on rewards: a batch may end with it.
        """
        while self._waiting:
            self._count(self.round, self._rewards.pop(self.round, self._centre))

    def _count(self, number: int, value: float) -> None:
        """Count the oldest open decision with its reward, and release its batch if it is the last of it."""
        if self.round == self._planned:
            self._extend()
        # Taken first, and by one atomic step: whatever fails below, and whoever else calls, no event is counted twice.
        taken = self._waiting.pop(number, None)
        if taken is None:
            raise check.InputError(f"Expected decision.round={number} to be learned once.")
        features = taken[1]
        if self.source is not None:
            self._batch.add(features if self._sampler is not None else self.settings.event(features), value)
        _learn(self.state, features, value, self._rng)
        self.round += 1
        if self.round in self._ends:
            if self.source is not None:
                self.settings.publish(self.state, self._mechanism.release(self._batch))
            self.version += 1
            if self.source is not None:
                self._mechanism = self.settings.mechanism_for(self.version, self.source) or self._mechanism

    def _extend(self) -> None:
        """Plan further."""
        self.settings = self.settings.extended()
        self._plan()
        self.state = self.settings.resumed(self.state, self._noise())
        if self.source is not None:
            self._mechanism = self.settings.mechanism_for(self.version, self.source) or self._mechanism

    def save(self, path: str | Path) -> None:
        """Write everything to one file. It holds private sums; with exact noise, continue from it at most once."""
        parts = {"state": self.state, "rng": self._rng}
        if self.source is not None:
            parts |= {"batch": self._batch.state()}
            if self._sampler is None:
                parts |= {"mechanism": self._mechanism.state}
        arrays = {f"{name}/{i}": leaf for name, part in parts.items() for i, leaf in enumerate(_leaves(part))}
        about = {
            "policy": self.settings.name,
            "seed": None if self.source is not None else self._seed,
            "reward_window": self.reward_window,
            "decided": self.decided,
            "settings": dataclasses.asdict(self.settings),
            "exact": self.source is not None,
            "round": self.round,
            "version": self.version,
            "clipped": self.clipped,
            "open": [
                [*decision[:4], features.tolist(), self._rewards.get(decision.round)]
                for decision, features in self._waiting.values()
            ],
            "whole": [key for key, leaf in arrays.items() if leaf.dtype == object],
        }
        plain = {key: leaf.astype(str) if leaf.dtype == object else leaf for key, leaf in arrays.items()}
        target = Path(path)
        partial = target.with_name(target.name + ".part")
        with partial.open("wb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), allow_pickle=False, **plain)
        partial.replace(target)


def _leaves(part: Any) -> list[Array]:
    """The arrays and numbers of nested tuples, in order."""
    if isinstance(part, tuple):
        return [leaf for item in part for leaf in _leaves(item)]
    return [np.asarray(part)]


def _rebuilt(template: Any, leaves: Iterator[Array], *, same_shape: bool) -> Any:
    """The stored arrays in the form of the template; what could not have come from it is refused."""
    if isinstance(template, tuple):
        items = [_rebuilt(item, leaves, same_shape=same_shape) for item in template]
        return type(template)(*items) if hasattr(template, "_fields") else tuple(items)
    leaf = next(leaves)
    if not isinstance(template, np.ndarray):
        return type(template)(leaf)
    fits = leaf.shape == template.shape if same_shape else leaf.shape[1:] == template.shape[1:]
    check.expect(fits and leaf.dtype == template.dtype, "stored array", f"{leaf.dtype}{leaf.shape}", "to fit the settings")
    return np.ascontiguousarray(leaf)


def policy(
    name: str, *, seed: int | None = None, source: Secure | None = None, reward_window: int = 0, **options: Any
) -> Policy:
    """A policy by name. Give ``seed=`` for simulation, or ``source=Secure()`` for real people's data."""
    return Policy(policies.settings(name, options), seed=seed, source=source, reward_window=reward_window)


def load(path: str | Path) -> Policy:
    """The policy that :meth:`Policy.save` wrote, ready to continue."""
    try:
        with Path(path).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            stored = {key: archive[key] for key in archive.files}
        return _loaded(json.loads(str(stored.pop("about"))), stored)
    except check.InputError:
        raise
    except Exception as error:  # whatever a damaged file provokes in zip, zlib, NumPy or JSON
        raise check.InputError(f"Expected path={str(path)!r} to be a saved policy ({type(error).__name__}).") from None


def _loaded(about: dict[str, Any], stored: dict[str, Array]) -> Policy:
    values = about["settings"]
    if values.get("theta_0") is not None:
        values["theta_0"] = tuple(values["theta_0"])
    exact = bool(about["exact"])
    loaded = Policy(
        policies.settings(about["policy"], values),
        seed=None if exact else check.whole("seed", about["seed"]),
        source=Secure() if exact else None,
        reward_window=about["reward_window"],
    )

    def part(name: str) -> Iterator[Array]:
        for i in range(sum(key.startswith(f"{name}/") for key in stored)):
            leaf = stored[f"{name}/{i}"]
            if f"{name}/{i}" in about["whole"]:
                leaf = np.array([int(v) for v in leaf.ravel()], dtype=object).reshape(leaf.shape)
            yield leaf

    planned = loaded.state
    loaded.state = _rebuilt(loaded.state, part("state"), same_shape=True)
    for field in {"encoder", "row_covariance", "ends"} & set(loaded.state._fields):  # rows to come must fit those released
        same = np.array_equal(getattr(loaded.state, field), getattr(planned, field))
        check.expect(same, f"stored {field}", "another one", "to be what these settings give on this machine")
    loaded._rng = _rebuilt(loaded._rng, part("rng"), same_shape=True)
    loaded.round, loaded.version = check.whole("round", about["round"]), check.whole("version", about["version"])
    loaded.clipped = check.whole("clipped", about["clipped"])
    loaded.decided = check.whole("decided", about["decided"], at_least=loaded.round)
    for action, version, propensity, round_, features, reward in about["open"]:
        known = (check.whole("action", action), check.whole("version", version), propensity, check.whole("round", round_))
        vector = check.floats("open", features, (loaded._dimension,))
        loaded._waiting[round_] = (Decision(*known, vector.copy()), vector)
        if reward is not None:
            loaded._rewards[round_] = check.real("reward", reward, at_least=0, at_most=1)
    if exact:
        if loaded._sampler is None:
            for batch in range(1, loaded.version + 1):
                loaded._mechanism = loaded.settings.mechanism_for(batch, loaded.source) or loaded._mechanism
            loaded._mechanism.state = _rebuilt(loaded._mechanism.state, part("mechanism"), same_shape=False)
        loaded._batch.restore(next(part("batch")))
    return loaded
