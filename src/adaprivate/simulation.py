"""The one loop: any policy against any environment, compiled, on all cores.

Every run draws from streams of its own (seed, purpose): the world, its rounds, the policy's exploration, its privacy noise.
So every policy meets the same world on the same seed, results do not depend on the number of cores, and a policy added
changes no other's numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adaprivate import blas, check, cluster, environments, extras, privacy
from adaprivate import policies as policy_registry
from adaprivate.check import Floats
from adaprivate.cluster import alike, using
from adaprivate.compiled import Streams, borrowed, bound, entry, held, kernel, streams
from adaprivate.environments import Environment
from adaprivate.environments.protocol import draw, room_for, visitor, visitors
from adaprivate.offered import row
from adaprivate.policies import Settings
from adaprivate.policies.core.dispatch import select, update, visit
from adaprivate.purposes import Purpose
from adaprivate.runtime.inputs import needs_user

if TYPE_CHECKING:
    import polars as pl

policy_options = policy_registry.options
CHUNK = 25
"""At most so many seeds share one preparation of noise."""
YARDSTICKS = ("linucb", "tuned-linucb")
"""Whose reward, with their defaults, percentages are of: as published, and as one would run it."""
KeepState = Callable[[Any], Any]
"""What of a policy's last state stays with its run. Of a module, where other processes are to call it."""


def whole_state(state: Any) -> Any:
    """All of it."""
    return state


@kernel
def largest(values: Floats) -> Any:
    """The largest; four at a time, which need not wait for one another."""
    a = b = c = d = values[0]
    whole = values.shape[0] - values.shape[0] % 4
    for i in range(0, whole, 4):
        a, b, c, d = max(a, values[i]), max(b, values[i + 1]), max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(whole, values.shape[0]):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))


@entry
def episode(
    state: Any,
    world: Any,
    first: int,
    last: int,
    rounds: int,
    arms: int,
    dimension: int,
    own: Streams,
    shared: Streams,
    totals: Floats,
    curve: Floats,
) -> None:
    """Play rounds ``first`` up to ``last`` of all ``rounds``.

    ``totals`` grows: reward, regret, best and random mean reward, largest |x|^2; ``curve``: regret so far.
    """
    policy, place = borrowed(state), borrowed(world)
    own_streams, shared_streams = borrowed(own), borrowed(shared)
    room = room_for(place, arms, dimension), np.empty(arms), np.empty(arms)
    candidates, means, rewards = borrowed(room)
    reward, regret, best_total, mean_total, longest = totals[0], totals[1], totals[2], totals[3], totals[4]
    steps = curve.shape[0]
    step = first * steps // rounds if rounds > 0 else 0
    for t in range(first, last):
        draw(place, t, candidates, means, rewards, shared_streams)
        chosen = select(policy, candidates, own_streams)
        mean, best = 0.0, largest(means)
        for a in range(arms):
            mean += means[a]
        reward += rewards[chosen]
        regret += best - means[chosen]
        best_total += best
        mean_total += mean / arms
        features = row(candidates, chosen)
        square = 0.0
        for j in range(dimension):
            square += features[j] * features[j]
        if square > longest:
            longest = square
        visit(policy, visitor(place, t))
        update(policy, features, rewards[chosen], own_streams)
        if (t + 1) * steps >= (step + 1) * rounds:
            curve[step] = regret
            step += 1
    totals[0], totals[1], totals[2], totals[3], totals[4] = reward, regret, best_total, mean_total, longest
    held(room)


@dataclass(frozen=True)
class Run:
    """One policy on one seed. ``seconds`` is the processor time of its thread, whatever else the machine did meanwhile.

    ``state``: what :func:`run_all` was asked to keep of the policy's last state.
    """

    seed: int
    reward: float
    regret: float
    best: float
    random: float
    curve: Floats
    seconds: float
    state: Any

    @property
    def learned_share(self) -> float:
        """How far from random play (0) to the best candidate every round (1), in expected reward."""
        return 1 - self.regret / (self.best - self.random) if self.best > self.random else 1.0


def run_one(
    policy: Any, environment: Environment, seed: int, noise: Floats, points: int = 100, worries: set[Any] | None = None
) -> Run:
    """One episode. ``worries``: the settings whose warnings were given; None: give none."""
    state = policy.start(noise)
    own = streams(seed, Purpose.EXPLORATION, Purpose.CHOICE)
    shared = streams(seed, Purpose.ROUNDS, Purpose.REWARDS)
    totals, curve = np.zeros(5), np.zeros(min(points, policy.rounds))
    world = environment.world(seed)
    seconds, played, rounds = 0.0, 0, policy.rounds
    while played < rounds:
        until = min(rounds, getattr(policy, "planned", rounds))
        started = time.thread_time()
        episode(
            state, world, played, until, rounds, environment.candidates, environment.dimension, own, shared, totals, curve
        )
        seconds += time.thread_time() - started
        played = until
        if played < rounds:  # a public moment, at which the policy plans on
            shorter, policy = policy, policy.extended(state.learner)
            worry = policy.worry(state.learner)
            if worry is not None and worries is not None and shorter not in worries:  # once for all seeds
                worries.add(shorter)
                warnings.warn(worry, check.LittleToLearnWarning, stacklevel=2)
            state = policy.carried(policy.start(policy.noise_tables([seed])[0]), state)
    reward, regret, best, random, longest = totals.tolist()
    check.expect(longest <= 1 + 1e-9, "|features|^2", longest, f"<= 1 in {environment.name}: a guarantee rests on it")
    return Run(seed, reward, regret, best, random, curve, seconds, state)


def _compile(policy: Settings, environment: Environment) -> None:
    """Compile, or fetch from the disk."""
    own, shared = streams(0, Purpose.EXPLORATION, Purpose.CHOICE), streams(0, Purpose.ROUNDS, Purpose.REWARDS)
    state = policy.start(policy.noise_tables([0])[0])
    world = environment.world(0)
    shape = environment.candidates, environment.dimension
    bound(episode, state, world, 0, 0, 0, *shape, own, shared, np.zeros(5), np.zeros(1))


def _run_chunk(
    policy: Settings,
    environment: Environment,
    seeds: Sequence[int],
    worries: set[Any] | None,
    keep_state: KeepState | None,
    world: str | None,
) -> list[Run]:
    """A block of seeds. ``worries``: as :func:`run_one` takes it; None: those of this block alone."""
    if world is not None:
        same = alike.digest(environment.world(0)) == world
        check.expect(same, "environment", environment.name, "to be made of the same data on every worker")
    noise, worries = policy.noise_tables(seeds), set() if worries is None else worries
    found = []
    for i, seed in enumerate(seeds):
        run = run_one(policy, environment, seed, noise[i], worries=worries)
        found.append(dataclasses.replace(run, state=None if keep_state is None else keep_state(run.state)))
    return found


def _checked(policy: Settings, environment: Environment) -> None:
    """Refuse what cannot be played."""
    check.expect(policy.dimension == environment.dimension, "dimension", policy.dimension, f"== {environment.dimension}")
    fits = not getattr(policy, "fixed_arms", False) or getattr(environment, "fixed_arms", False)
    check.expect(
        fits,
        "environment",
        environment.name,
        f"to offer the same arms every round, as bernoulli-arms does: {policy.name} needs that",
    )
    told_apart = not needs_user(policy) or type(environment.world(0)) in visitors.known
    check.expect(told_apart, "environment", environment.name, "to tell people apart, as synthetic does with people=2000")


def _keys(
    chosen: Sequence[Settings], environment: Environment, machine: Mapping[str, str], keep_state: KeepState | None
) -> list[str]:
    """For each policy a name for everything that its numbers depend on but the seed."""
    world = alike.digest(environment.world(0))
    shared = ("runs", machine, environment, world, keep_state)
    return [alike.digest(*shared, policy, alike.packages([policy, environment, keep_state])) for policy in chosen]


def run_all(
    chosen: Sequence[Settings],
    environment: Environment,
    seeds: Sequence[int],
    *,
    jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
    keep_finished: bool = False,
    keep_state: KeepState | None = None,
) -> list[list[Run]]:
    """Every policy on every seed, in order; ``progress`` is called with the number of rounds just played.

    With ``keep_finished`` an interruption (Ctrl-C) returns the seeds that all policies have finished, if there are any.
    ``keep_state``: what of a policy's last state stays with its run; None: nothing, as it may be large. Inside of
    :func:`adaprivate.cluster.using` other workers play, and finished seeds are kept in its file.
    """
    workers, kept, seeds = cluster.current(jobs), cluster.results(), list(seeds)
    if "<" in getattr(keep_state, "__qualname__", ""):
        kept = None  # what a nameless function keeps cannot be told from what another does
    finished: dict[tuple[int, int], Run] = {}
    with blas.one_thread():
        for policy in chosen:
            _checked(policy, environment)
        keys = [] if kept is None else _keys(chosen, environment, workers.machine, keep_state)
        for p, key in enumerate(keys):
            for n, seed in enumerate(seeds):
                stored = None if kept is None else kept.get(key, seed)
                if stored is not None:
                    finished[p, n] = Run(**stored)
            if progress and (played := sum(q == p for q, _ in finished)):
                progress(chosen[p].rounds * played)
        left = [[n for n in range(len(seeds)) if (p, n) not in finished] for p in range(len(chosen))]
        for p, policy in enumerate(chosen):
            if left[p] and (not workers.far or workers.shares_disk):
                _compile(policy, environment)
    blocks = _blocks(left, workers.slots)
    world = alike.digest(environment.world(0)) if workers.far and blocks else None
    worries: set[Any] | None = None if workers.far else set()  # who keeps arguments for later tasks would keep it, too
    tasks = []
    for p, places in blocks:
        own = [seeds[n] for n in places]
        named = f"{_named(chosen[p])} on {environment.name}, seeds {min(own)} to {max(own)}"
        tasks.append(cluster.Task(named, _run_chunk, (chosen[p], environment, own, worries, keep_state, world)))
    with contextlib.closing(workers.completed(tasks)) as done:
        try:
            for task, runs in done:
                p, places = blocks[task]
                finished.update(((p, n), run) for n, run in zip(places, runs, strict=True))
                if kept is not None:
                    kept.put(keys[p], {run.seed: vars(run) for run in runs})
                if progress:
                    progress(chosen[p].rounds * len(places))
        except KeyboardInterrupt:
            if not keep_finished or not _finished_by_all(finished, len(chosen), len(seeds)):
                raise
    whole = _finished_by_all(finished, len(chosen), len(seeds))
    return [[finished[p, n] for n in whole] for p in range(len(chosen))]


def _blocks(left: Sequence[Sequence[int]], slots: int) -> list[tuple[int, list[int]]]:
    """The seeds' places in pieces of work, each with its policy; the first seeds of all policies come first."""
    size = max(1, min(CHUNK, sum(map(len, left)) // (4 * slots)))
    found = [(p, list(places[i : i + size])) for p, places in enumerate(left) for i in range(0, len(places), size)]
    return sorted(found, key=lambda block: (block[1][0], block[0]))


def _named(policy: Settings) -> str:
    epsilon = getattr(policy, "epsilon", None)
    return policy.name if epsilon is None else f"{policy.name}, epsilon {epsilon:g}"


def _finished_by_all(finished: Mapping[tuple[int, int], Any], policies: int, seeds: int) -> list[int]:
    return [n for n in range(seeds) if all((p, n) in finished for p in range(policies))]


def policy_settings(name: str, environment: Environment, rounds: int, values: Mapping[str, Any]) -> Settings:
    """A policy's settings for this environment: its dimension and the number of rounds are filled in."""
    known = policy_options(name)
    filled = {"dimension": environment.dimension, "rounds": rounds, **{k: v for k, v in values.items() if k in known}}
    return policy_registry.settings(name, filled)


def percent_of(runs: Sequence[Run], baseline: Sequence[Run]) -> tuple[float, float]:
    """Mean reward as a percentage of the baseline's on the same seeds, and its standard error (paired)."""
    check.expect([r.seed for r in runs] == [r.seed for r in baseline], "seeds", len(runs), "those of the baseline")
    ours = np.array([run.reward for run in runs])
    theirs = np.array([run.reward for run in baseline])
    if theirs.mean() == 0:
        return math.nan, math.nan
    ratio = ours.mean() / theirs.mean()
    spread = (ours - ratio * theirs).std(ddof=1) if len(ours) > 1 else math.nan
    return 100 * float(ratio), 100 * float(spread / theirs.mean() / math.sqrt(len(ours)))


def mean_sem(values: Sequence[float] | Floats) -> tuple[float, float | None]:
    """Mean and standard error over seeds."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else None


def simulate(
    policy: str | Sequence[str] = (),
    environment: str = "synthetic",
    *,
    policies: Sequence[str] = (),
    rounds: int = 10_000,
    seeds: int | Sequence[int] = 12,
    epsilon: float | Sequence[float] | None = None,
    delta: float = 1e-5,
    options: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
    cluster: str | None = None,
    results: str | Path | None = None,
) -> pl.DataFrame:
    """Run policies in an environment; one row for each policy and epsilon, every setting a column. It prints the main ones.

    ``policy``: a name, or several (``policies`` is another word for it).
    ``options`` sets parameters of the environment and of the policies by name; one that none of them knows is refused.
    Private policies run at every epsilon (by default 1, unless an option such as ``eta`` says what they may spend), the
    others once. Percentages are of the mean reward of LinUCB without privacy on
    the same seeds: ``percent_of_linucb`` (``percent_sem``) of it as published, alpha = ridge = 1 and no intercept, and
    ``percent_of_tuned_linucb`` (with ``_sem``) of ``tuned-linucb``, the honest yardstick.

    cluster: "local" plays in worker processes of this machine, "tcp://host:port" on a dask cluster, bit for bit as threads
    here would (docs/cluster.md). results: a file of finished seeds; what was interrupted goes on from it.
    """
    with extras.needed():
        from adaprivate.results import Results

    rows = simulated(
        [policy] if isinstance(policy, str) else [*policy, *policies],
        environment,
        rounds=rounds,
        seeds=seeds,
        epsilon=epsilon,
        delta=delta,
        options=options,
        jobs=jobs,
        progress=progress,
        cluster=cluster,
        results=results,
    )
    return Results(rows, infer_schema_length=None)


def simulated(
    policies: Sequence[str],
    environment: str,
    *,
    rounds: int,
    seeds: int | Sequence[int],
    epsilon: float | Sequence[float] | None,
    delta: float,
    options: Mapping[str, Any] | None,
    jobs: int | None,
    progress: Callable[[int], None] | None,
    cluster: str | None = None,
    results: str | Path | None = None,
) -> list[dict[str, Any]]:
    """The rows of :func:`simulate`."""
    values = dict(options or {})
    check.expect(len(policies) > 0, "policies", list(policies), "to be non-empty")
    check.whole("rounds", rounds, at_least=1)
    seed_list = range(check.whole("seeds", seeds, at_least=1)) if not isinstance(seeds, Sequence) else list(seeds)
    check.expect(len(seed_list) > 0, "seeds", seeds, "to be non-empty")
    for seed in seed_list:
        check.whole("seeds", seed, at_least=0)
    epsilons = [] if epsilon is None else list(epsilon) if isinstance(epsilon, Sequence) else [epsilon]
    check.expect(epsilon is None or len(epsilons) > 0, "epsilon", epsilon, "to be non-empty")
    for budget in epsilons:
        check.real("epsilon", budget, above=0)
    world = environments.environment(environment, split_options(policies, environment, values))
    chosen: list[Settings] = []
    for name in policies:
        for asked in policy_registry.budgets(name, epsilon, values):
            own = {} if asked is None else {"epsilon": float(asked)}
            chosen.append(policy_settings(name, world, rounds, {**values, "delta": delta, **own}))
    yardsticks = [policy_settings(name, world, rounds, {}) for name in YARDSTICKS]
    with using(cluster, jobs=jobs, results=results):
        runs = run_all([*yardsticks, *chosen], world, seed_list, jobs=jobs, progress=progress, keep_finished=True)
    count = len(yardsticks)
    return [_row(p, world, rounds, r, runs[:count]) for p, r in zip(chosen, runs[count:], strict=True)]


def _row(
    policy: Settings, environment: Environment, rounds: int, runs: Sequence[Run], yardsticks: Sequence[Sequence[Run]]
) -> dict[str, Any]:
    reward_mean, reward_sem = mean_sem([run.reward for run in runs])
    regret_mean, regret_sem = mean_sem([run.regret for run in runs])
    (percent, percent_sem), (tuned, tuned_sem) = (
        [None if math.isnan(value) else value for value in percent_of(runs, yardstick)] for yardstick in yardsticks
    )
    share, share_sem = mean_sem([run.learned_share for run in runs])
    guarantee = policy.guarantee()
    coming = getattr(environment, "people", 0) if guarantee is not None and guarantee.unit == "user" else 0
    own = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}  # type: ignore[arg-type]
    return {
        "policy": policy.name,
        "environment": environment.name,
        "epsilon": own.get("epsilon"),
        "delta": own.get("delta"),
        "rounds": rounds,
        "seeds": len(runs),
        "reward_mean": reward_mean,
        "reward_sem": reward_sem,
        "regret_mean": regret_mean,
        "regret_sem": regret_sem,
        "percent_of_linucb": percent,
        "percent_sem": percent_sem,
        "percent_of_tuned_linucb": tuned,
        "percent_of_tuned_linucb_sem": tuned_sem,
        "learned_share": share,
        "learned_share_sem": share_sem,
        "rounds_per_second": rounds * len(runs) / max(1e-9, sum(run.seconds for run in runs)),
        "stated_epsilon": None if guarantee is None else guarantee.epsilon,
        **privacy.stated(guarantee, coming or rounds),
        **{key: value for key, value in own.items() if key not in ("epsilon", "delta", "rounds")},
        **{f"environment_{key}": value for key, value in vars(environment).items() if key != "dimension"},
    }


def split_options(policy_names: Sequence[str], environment_name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the environment; refuses an option that neither it nor any of the policies knows."""
    for_environment = environments.options(environment_name)
    known = {*for_environment, *(option for name in policy_names for option in policy_options(name))}
    check.known(values, sorted(known - {"rounds", "epsilon", "delta"}))
    return {key: value for key, value in values.items() if key in for_environment}
