"""What experiments play: a setting's policy in its environment, on every seed.

A setting has ``policy`` and may have ``options``, ``environment``, ``world`` (the environment's options), ``rounds`` and
``most_seeds``, a cap on the seeds of what is slow. Whatever else it has is copied into the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.check import Array, Floats
from adaprivate.compiled import Streams, borrowed, entry, streams
from adaprivate.environments import Environment
from adaprivate.environments.protocol import draw
from adaprivate.experiments import ROUNDS, Row
from adaprivate.logs.log import Log
from adaprivate.policies import Settings
from adaprivate.policies.core.propensities import choice_probabilities
from adaprivate.purposes import Purpose
from adaprivate.simulation import YARDSTICKS, KeepState, Run, mean_sem, percent_of, policy_settings, run_all


@lru_cache(maxsize=512)
def _played(policy: Any, place: Any, seeds: range, keep: KeepState | None) -> tuple[Run, ...]:
    return tuple(run_all([policy], place, seeds, keep_state=keep)[0])


def played(policy: Settings, place: Environment, seeds: range, keep: KeepState | None = None) -> tuple[Run, ...]:
    """Every seed's run; repeated calls share the work."""
    frozen: Any = (policy, place)
    return _played(*frozen, seeds, keep)


def prepared(setting: Mapping[str, Any]) -> tuple[Settings, Environment]:
    """The setting's policy and environment; by default the synthetic one and 10,000 rounds."""
    place = environments.environment(setting.get("environment", "synthetic"), setting.get("world"))
    rounds = setting.get("rounds", ROUNDS)
    return policy_settings(setting["policy"], place, rounds, setting.get("options", {})), place


def runs(policy: str, seeds: int, *, keep: KeepState | None = None, **where: Any) -> tuple[Run, ...]:
    """Every seed's run of a policy: environment, world and rounds as in a setting, all else are its options."""
    setting: dict[str, Any] = {key: where.pop(key) for key in ("environment", "world", "rounds") if key in where}
    return played(*prepared({**setting, "policy": policy, "options": where}), range(seeds), keep)


def measured(setting: Mapping[str, Any], seeds: int, *, keep: KeepState | None = None) -> Row:
    """The setting's runs, with their regret and learned share."""
    count = min(seeds, setting.get("most_seeds", seeds))
    found = played(*prepared(setting), range(count), keep)
    regret, sem = mean_sem([run.regret for run in found])
    share = float(np.mean([run.learned_share for run in found]))
    return {**setting, "runs": found, "regret": regret, "regret_sem": sem, "learned_share": share}


def beside_linucb(
    setting: Mapping[str, Any], seeds: int, *, keep: KeepState | None = None, world: Mapping[str, Any] | None = None
) -> Row:
    """The same, and reward as percent of non-private LinUCB's on the same rounds: as published (alpha 1), and tuned.

    ``world``: that of LinUCB, where it is not the setting's.
    """
    row = measured(setting, seeds, keep=keep)
    own = setting.get("world") if world is None else world
    where = {key: setting[key] for key in ("environment", "rounds") if key in setting}
    return {**row, **percents(row["runs"], **where, world=own)}


def percents(found: Sequence[Run], **where: Any) -> Row:
    """Reward as percent of LinUCB's and of tuned LinUCB's there, on the first seeds, and the runs of the former."""
    row: Row = {}
    for name, yardstick in zip(("percent", "percent_of_tuned"), YARDSTICKS, strict=True):
        baseline = runs(yardstick, len(found), **where)
        row[name], sem = percent_of(found, baseline)
        row[f"{name}_sem"] = None if math.isnan(sem) else sem
        row.setdefault("baseline", baseline)
    return row


def true_epsilon(setting: Mapping[str, Any]) -> float | None:
    """The epsilon that the guarantee of the setting's policy states; None where there is none."""
    statement = prepared(setting)[0].guarantee()
    return None if statement is None else statement.epsilon


RATING_ROUNDS = {"jester": 30_000, "movielens": 60_000}
QUICK_ROUNDS = 1_200
BEST_FEATURES: dict[str, dict[str, Any]] = {
    "jester": {"scaling": "unit", "dimension": 10},
    "movielens": {"scaling": "clip", "dimension": 10},
}
"""The better features found when the noise-aware policies were made, on these very worlds."""
CENTRES = {"jester": 0.31, "movielens": 0.58}
"""How often people outside the world like an item: public here."""


def on_ratings(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's policy beside LinUCB with public features: these do not change who comes and what is offered."""
    shared = {k: v for k, v in setting.get("world", {}).items() if k in ("least_ratings", "films", "data")}
    return beside_linucb(setting, seeds, world=shared)


def quick_ratings(settings: Sequence[Mapping[str, Any]], **world: Any) -> list[Mapping[str, Any]]:
    """The same settings, short."""
    return [{**s, "rounds": QUICK_ROUNDS, "world": {**s.get("world", {}), **world}} for s in settings]


ARM_ROUNDS = 100_000
ARMS = 5
ARM_DELTA = 1e-6
ARM_SEEDS = 10


def _scalars(state: Any) -> Array:
    """All that is kept of a state: some hold a noise for every round."""
    scalars: Array = getattr(state, "learner", state).scalars.copy()
    return scalars


def on_arms(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's policy, on Bernoulli arms for 100,000 rounds where it says nothing else, and its true epsilon."""
    whole = {"environment": "bernoulli-arms", "rounds": ARM_ROUNDS, **setting}
    return {**measured(whole, seeds, keep=_scalars), "true_epsilon": true_epsilon(whole)}


@entry
def _rounds(world: Any, candidates: Floats, means: Floats, rewards: Floats, rng: Streams) -> None:
    for t in range(means.shape[0]):
        draw(borrowed(world), t, candidates[t], means[t], rewards[t], borrowed(rng))


def rounds_of(environment: Environment, seed: int, rounds: int, part: int = 0) -> tuple[Floats, Floats, Floats]:
    """Candidates, mean rewards and rewards of so many rounds of a seed's world that no policy has met."""
    shape = (rounds, environment.candidates)
    candidates, means, rewards = np.empty((*shape, environment.dimension)), np.empty(shape), np.empty(shape)
    rng = streams(seed, Purpose.LOG + 2 * part, Purpose.LOG + 1 + 2 * part)
    _rounds(environment.world(seed), candidates, means, rewards, rng)
    return candidates, means, rewards


def uniform_log(candidates: Floats, rewards: Floats, seed: int) -> Log:
    """The log of uniform choice between candidates whose rewards (n, K) are all known."""
    n, count = rewards.shape
    actions = np.random.default_rng([seed, Purpose.LOG]).integers(0, count, size=(n,))
    return Log(candidates, actions, rewards[np.arange(n), actions], np.full(n, 1 / count))


def true_value(state: Any, candidates: Floats, means: Floats, seed: int = 0) -> float:
    """The mean reward of a policy that stays in this state, on these rounds."""
    found = choice_probabilities(state, candidates, draws=256, seed=seed, lattice=False).probability
    return float((found * means).sum(axis=1).mean())
