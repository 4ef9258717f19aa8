"""A policy in use: decide, learn, save, load."""

from __future__ import annotations

import dataclasses
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check, policies
from adaprivate.check import Array, Floats
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.mechanisms import EventSum, Secure
from adaprivate.policies.batched import BatchedPolicy
from adaprivate.policies.linear import BATCH, COORDINATES, DECAY, PRIOR, STATISTIC, WIDTH
from adaprivate.policies.protocol import select, update
from adaprivate.privacy import Guarantee

EXPLORATION_PURPOSE, CHOICE_PURPOSE = 3, 4
"""The purposes of a policy's own random streams."""


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
        if not np.isfinite(square):
            return -1
        if square > 1.0:
            scale = 1.0 / np.sqrt(square)
            clipped += square > 1.0 + 1e-9
            for j in range(candidates.shape[1]):
                candidates[a, j] *= scale
    return int(select(borrowed(state), borrowed(candidates), borrowed(rng))) + (clipped << 32)


@entry
def _learn(state: Any, features: Floats, reward: float, rng: Streams) -> None:
    update(borrowed(state), borrowed(features), reward, borrowed(rng))


class Policy:
    """A policy that decides and learns, one round after another.

    Made by :func:`policy` with either ``seed`` (simulated noise, for experiments) or ``noise=Secure()`` (exact noise from
    the operating system, for real people's data).
    """

    def __init__(self, settings: Any, *, seed: int | None, noise: Secure | None) -> None:
        check.expect((seed is None) != (noise is None), "seed", seed, "or noise=Secure() to be given, and not both")
        self.settings = settings
        self._dimension: int = settings.dimension
        self._centre: float = getattr(settings, "centre", 0.0)
        self.noise = noise
        self.clipped = 0
        """How many feature vectors were longer than 1 and were clipped."""
        self.round = 0
        """How many rounds have been learned."""
        self.version = 0
        """How many batches have been released."""
        self._ends = frozenset(settings.ends.tolist()) if isinstance(settings, BatchedPolicy) else frozenset()
        self._open: Decision | None = None
        key = secrets.randbits(128) if seed is None else check.whole("seed", seed, at_least=0)
        self._rng = streams(key, EXPLORATION_PURPOSE, CHOICE_PURPOSE)
        if noise is None:
            self.state = settings.start(settings.noise_tables([key])[0])
            return
        check.expect(isinstance(settings, BatchedPolicy), "noise", "Secure()", "for a policy that releases batches")
        check.expect(settings.inclusion == 1, "sampling_rate", settings.inclusion, "== 1 with exact noise")
        self.state = settings.start(np.zeros((0, settings.dimension)), np.zeros(0, dtype=np.int64))
        self._mechanism = settings.mechanism(noise)
        self._batch = EventSum(settings.dimension, noise=noise, centre=settings.centre)

    @property
    def guarantee(self) -> Guarantee | None:
        """What this policy promises, and what that rests on; None when it is not private."""
        statement: Guarantee | None = self.settings.guarantee(exact_noise=self.noise is not None)
        return statement

    def decide(self, candidates: object) -> Decision:
        """Choose one of the rows of ``candidates`` (K, dimension). An earlier decision still open counts as unrewarded."""
        dimension = self._dimension
        try:
            offered = np.array(candidates, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            offered = check.floats("candidates", candidates, (None, dimension))
        if offered.ndim != 2 or offered.shape[1] != dimension or not len(offered):
            check.expect(False, "candidates.shape", offered.shape, f"== (K, {dimension}) with K >= 1")
        if self._open is not None:
            if not np.isfinite(offered).all():
                check.floats("candidates", candidates, (None, dimension))
            self.learn(self._open, None)
        code = _decide(self.state, offered, self._rng)
        if code < 0:
            check.floats("candidates", candidates, (None, dimension))  # names the entry
            raise check.InputError("Expected candidates to have norms that are finite.")
        action = code & 0xFFFFFFFF
        if code != action:
            self.clipped += code >> 32
        # tuple.__new__ is what Decision(...) does, in half the time
        self._open = decision = tuple.__new__(Decision, (action, self.version, None, self.round, offered[action]))
        return decision

    def learn(self, decision: Decision, reward: float | None) -> None:
        """Learn the reward (0 to 1) of the open decision; ``None`` when there is none: it counts as the public centre."""
        if self._open is None or decision.round != self._open.round:
            check.expect(False, "decision.round", decision.round, f"== {self.round}, that of the open decision")
        if type(reward) is float and 0.0 <= reward <= 1.0:
            value = reward
        else:
            value = self._centre if reward is None else check.real("reward", reward, at_least=0, at_most=1)
        features = decision.features
        if self.noise is not None:
            self._batch.add(features, value)
        _learn(self.state, features, value, self._rng)
        self._open = None
        self.round += 1
        if self.round in self._ends:
            if self.noise is not None:
                self._publish()
            self.version += 1

    def _publish(self) -> None:
        """Release the batch with exact noise, as the compiled update does with simulated noise."""
        state = self.state
        state.vectors[STATISTIC] = state.vectors[PRIOR] + self._mechanism.release(self._batch.take())
        state.vectors[COORDINATES] = state.root.T @ state.vectors[STATISTIC]
        state.counts[BATCH] += 1
        state.numbers[WIDTH] *= state.numbers[DECAY]

    def save(self, path: str | Path) -> None:
        """Write everything to one file. It holds private sums; with exact noise, continue from it at most once."""
        parts = {"state": self.state, "rng": self._rng}
        if self.noise is not None:
            parts |= {"mechanism": self._mechanism.state, "batch": self._batch.state()}
        arrays = {f"{name}/{i}": leaf for name, part in parts.items() for i, leaf in enumerate(_leaves(part))}
        about = {
            "policy": self.settings.name,
            "settings": dataclasses.asdict(self.settings),
            "exact": self.noise is not None,
            "round": self.round,
            "version": self.version,
            "clipped": self.clipped,
            "open": None if self._open is None else [*self._open[:4], self._open.features.tolist()],
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


def _rebuilt(template: Any, leaves: Any) -> Any:
    if isinstance(template, tuple):
        items = [_rebuilt(item, leaves) for item in template]
        return type(template)(*items) if hasattr(template, "_fields") else tuple(items)
    leaf = next(leaves)
    return leaf if isinstance(template, np.ndarray) else type(template)(leaf)


def policy(name: str, *, seed: int | None = None, noise: Secure | None = None, **options: Any) -> Policy:
    """A policy by name. Give ``seed=`` for simulation, or ``noise=Secure()`` for real people's data."""
    return Policy(policies.settings(name, options), seed=seed, noise=noise)


def load(path: str | Path) -> Policy:
    """The policy that :meth:`Policy.save` wrote, ready to continue."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            stored = {key: file[key] for key in file.files}
        about = json.loads(str(stored.pop("about")))
    except (OSError, ValueError, KeyError) as error:
        raise check.InputError(f"Expected path={str(path)!r} to be a saved policy ({error}).") from None
    values = about["settings"]
    if values.get("theta_0") is not None:
        values["theta_0"] = tuple(values["theta_0"])
    whole = set(about["whole"])

    def part(name: str) -> Any:
        count = sum(key.startswith(f"{name}/") for key in stored)
        for i in range(count):
            leaf = stored[f"{name}/{i}"]
            is_whole = f"{name}/{i}" in whole
            yield np.array([int(v) for v in leaf.ravel()], dtype=object).reshape(leaf.shape) if is_whole else leaf

    loaded = Policy(
        policies.settings(about["policy"], values),
        seed=None if about["exact"] else 0,
        noise=Secure() if about["exact"] else None,
    )
    loaded.state = _rebuilt(loaded.state, part("state"))
    loaded._rng = next(part("rng"))
    loaded.round, loaded.version, loaded.clipped = about["round"], about["version"], about["clipped"]
    if about["open"] is not None:
        action, version, propensity, round_, features = about["open"]
        loaded._open = Decision(action, version, propensity, round_, np.array(features))
    if about["exact"]:
        loaded._mechanism.state = _rebuilt(loaded._mechanism.state, part("mechanism"))
        loaded._batch.restore(next(part("batch")))
    return loaded
