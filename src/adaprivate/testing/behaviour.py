"""What every policy must do: repeat itself, survive saving, say what it promises, refuse what it cannot take."""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from adaprivate import environments, policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.channels import GAUSSIAN, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, SamplingPlan
from adaprivate.policies.core.settings import about
from adaprivate.runtime.named import load
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import run_all, whole_state
from adaprivate.testing.suite import checks, expect, fixed_arms, leaves, offers, play, same_state, whose

Found = TypeVar("Found")
FIELDS = ("Paper", "Guarantee", "Deviates")


def refusal(made: Callable[[], object]) -> str | None:
    """The refusal that this meets, if it does."""
    try:
        made()
    except InputError as error:
        return str(error)
    return None


def exact_plan(settings: Any, kind: type[Found]) -> Found | None:
    """The plan of settings that have one of this kind and can have exact noise; None for all others."""
    plan = getattr(settings, "plan", None)
    if not isinstance(plan, kind):
        return None
    return plan if refusal(lambda: settings.guarantee(exact_noise=True)) is None else None


DRAWS = 4000
"""Decisions whose shares are held against the probabilities stated; false alarm 1e-6."""


@checks
def chooses_with_the_probabilities_it_states(settings: Any, world: Any) -> None:
    """Where a policy states propensities, its choices have them: of one state, at the start and after some rounds."""
    policy = Policy(settings, seed=3)
    candidates, rewards = offers(settings)
    try:
        policy.propensities(candidates[0])
    except InputError:
        return  # it states none
    if fixed_arms(settings):
        return  # one decision at a time: its state moves on
    for first in (0, 2 * settings.rounds // 3):
        play(policy, candidates[policy.decided : first], rewards[policy.decided : first])
        offered = candidates[first]
        stated, error = policy.propensities(offered)
        twin = Policy.from_bytes(policy.to_bytes())
        counts = np.bincount([twin.consider(offered) for _ in range(DRAWS)], minlength=len(offered))
        room = 5 * np.sqrt(stated * (1 - stated) / DRAWS + error**2) + 1e-3
        worst = int(np.argmax(np.abs(counts / DRAWS - stated) - room))
        expect(
            abs(counts[worst] / DRAWS - stated[worst]) <= room[worst],
            f"it states the probability {stated[worst]:.3g} for a candidate that it chose in {counts[worst]} of {DRAWS}",
        )


@checks
def is_documented(settings: Any, world: Any) -> None:
    """Its class, or its module, says in three fields where it comes from, what it promises and how it deviates."""
    lines = about(type(settings), sys.modules[type(settings).__module__]).split("\n")
    expect(len(lines[0]) > 20 and lines[0].endswith("."), "its docstring does not begin with a sentence")
    expect(len(lines) > 1 and lines[1] == "", "the first sentence of its docstring is not set apart")
    found = [line.partition(":") for line in lines if line.partition(":")[0] in FIELDS]
    expect([key for key, _, _ in found] == list(FIELDS), f"its docstring lacks the fields {', '.join(FIELDS)}")
    expect(all(len(rest.strip()) > 3 for _, _, rest in found), "a field of its docstring is empty")
    expect(len((inspect.getdoc(type(settings)) or "").split("\n")[0]) > 20, "its settings class does not say what it does")


@checks
def is_frozen_and_found_by_name(settings: Any, world: Any) -> None:
    """Its settings cannot be changed, and are built again from its name and options."""
    kind = policies.settings_class(settings.name)
    expect(kind is type(settings), f"that name is {kind.__name__}'s, not {type(settings).__name__}'s")
    again = policies.settings(settings.name, dataclasses.asdict(settings))
    expect(again == settings and hash(again) == hash(settings), "its own options do not make equal settings")
    try:
        settings.rounds = settings.rounds
    except dataclasses.FrozenInstanceError:
        return
    expect(False, "its settings can be changed")


@checks
def runs_and_repeats_itself(settings: Any, world: Any) -> None:
    """A simulation gives the same with one core and two, finite numbers, and something else for another seed."""
    first, second = (run_all([settings], world, [1, 2], jobs=jobs, keep_state=whole_state)[0] for jobs in (1, 2))
    for one, two in zip(first, second, strict=True):
        expect((one.reward, one.regret) == (two.reward, two.regret), "the number of cores changes its run")
        expect(same_state(one.state, two.state), "the number of cores changes its last state")
        expect(0 <= one.regret <= settings.rounds, f"its regret {one.regret:g} is impossible")
        expect(np.all(np.diff(one.curve) >= 0), "its regret falls")
        plain = [leaf for leaf in leaves(one.state) if leaf.dtype.kind == "f"]
        expect(all(np.isfinite(leaf).all() for leaf in plain), "its last state holds numbers that are not finite")
    expect((first[0].reward, first[0].regret) != (first[1].reward, first[1].regret), "two seeds give the same run")


@checks
def same_seed_same_transcript_and_only_then(settings: Any, world: Any) -> None:
    """The seed decides everything, and the noise differs from seed to seed."""
    candidates, rewards = offers(settings)
    one, two, other = (Policy(settings, seed=seed) for seed in (5, 5, 6))
    transcripts = [play(policy, candidates, rewards) for policy in (one, two, other)]
    for policy in (one, two, other):
        policy.finish()
    expect(transcripts[0] == transcripts[1] and same_state(one.state, two.state), "the same seed gave another run")
    if settings.noise_tables([0]).size:
        expect(not same_state(one.state, other.state), "another seed has the same noise")


@checks
def saving_midway_changes_nothing(settings: Any, world: Any) -> None:
    """Saved, loaded and continued, it does what it would have done."""
    candidates, rewards = offers(settings)
    whole, part = (Policy(settings, seed=5) for _ in range(2))
    half = settings.rounds // 2
    expected = play(whole, candidates, rewards)
    actions = play(part, candidates[:half], rewards[:half])
    with tempfile.TemporaryDirectory() as folder:
        part.save(Path(folder) / "policy")
        part = load(Path(folder) / "policy")
    expect(part.settings == settings, "loaded, it has other settings")
    expect(actions + play(part, candidates[half:], rewards[half:]) == expected, "loaded, it chooses something else")
    for policy in (whole, part):
        policy.finish()
    expect(same_state(part.state, whole.state), "loaded, it ends in another state")


@checks
def missing_rewards_count_as_their_public_value(settings: Any, world: Any) -> None:
    """A reward that never came, came as None, or came as the public value in its place: nobody can tell which."""
    missing = settings.missing
    expect(0 <= missing <= 1, f"missing={missing!r} is no reward: it moves sums by more than a reward may")
    candidates, rewards = offers(settings)
    gone = np.arange(settings.rounds) % 3 == 1
    for window in (0,) if fixed_arms(settings) else (0, 3):
        told, kept = (Policy(settings, seed=5, reward_window=window) for _ in range(2))
        for number, offered in enumerate(candidates):
            one, two = (policy.decide(offered, **whose(settings, number)) for policy in (told, kept))
            expect((one.action, one.version, told.round) == (two.action, two.version, kept.round), "a missing reward shows")
            told.learn(one, missing if gone[number] else float(rewards[number]))
            if gone[number] and number % 2:
                kept.learn(two, None)
            elif not gone[number]:
                kept.learn(two, float(rewards[number]))
            expect((told.version, told.round) == (kept.version, kept.round), "a reward that comes moves a release")
        for policy in (told, kept):
            policy.finish()
        expect((told.round, told.version) == (kept.round, kept.version), "a missing reward shows")
        expect(same_state(told.state, kept.state), "a missing reward is not counted as its public value")


@checks
def noise_is_that_of_each_seed_alone(settings: Any, world: Any) -> None:
    """Seeds drawn together have the noise that each has alone."""
    seeds = [3, 1, 4]
    together = settings.noise_tables(seeds)
    expect(len(together) == len(seeds), "noise_tables does not give one table for each seed")
    for place, seed in enumerate(seeds):
        alone = settings.noise_tables([seed])[0]
        expect(np.allclose(alone, together[place], rtol=1e-12, atol=1e-12), f"seed {seed} has other noise in company")


@checks
def long_candidates_are_clipped(settings: Any, world: Any) -> None:
    """Features longer than 1 count like those of norm 1 in the same direction."""
    if fixed_arms(settings):
        return
    candidates, rewards = offers(settings)
    longer = 3 * candidates / np.linalg.norm(candidates, axis=2, keepdims=True)
    one, two = (Policy(settings, seed=5) for _ in range(2))
    expect(play(one, longer, rewards) == play(two, longer / 3, rewards), "longer candidates change its choices")
    for policy in (one, two):
        policy.finish()
    pairs = zip(leaves(one.state), leaves(two.state), strict=True)
    close = all(np.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in pairs if a.dtype.kind == "f")
    expect(close, "longer candidates count for more")


@checks
def states_its_guarantee(settings: Any, world: Any) -> None:
    """It says what it promises, on which conditions, and promises exact noise only if it can draw it."""
    statement = settings.guarantee()
    expect(settings.private is (statement is not None), f"private={settings.private}, but its guarantee is {statement}")
    if statement is None:
        return
    expect(privacy.Guarantee.from_json(statement.to_json()) == statement, "its guarantee does not survive JSON")
    expect(statement.epsilon >= 0, "its epsilon is negative")
    if not hasattr(settings, "epsilon"):
        return
    plan = settings.plan
    pure = isinstance(plan, ChannelPlan) and GAUSSIAN not in plan.channels
    expect(statement.delta == (0.0 if pure else getattr(settings, "delta", 0.0)), "its guarantee is read at another delta")
    noise = {privacy.CONDITIONS["secret-noise"], privacy.CONDITIONS["exact-noise"]}
    expect(noise <= set(statement.assumptions), "with simulated noise its guarantee does not ask for exact, secret noise")
    expect(statement.simulated, "with simulated noise its guarantee does not say that nobody is protected")
    built = refusal(lambda: Policy(settings, source=Secure()))
    promised = refusal(lambda: settings.guarantee(exact_noise=True))
    expect(built == promised, f"it refuses to draw exact noise ({built}) and to promise it ({promised}) in other words")
    if built is None:
        exact = settings.guarantee(exact_noise=True)
        local = isinstance(plan, ChannelPlan) and plan.local
        stated = set(exact.assumptions if local else exact.enforced)
        expect(noise <= stated, "it draws exact, secret noise and does not say so, or says so of clients' noise")
    elif getattr(settings.plan, "refusal", None) is None and not isinstance(settings.plan, SamplingPlan):
        expect(f"for a policy with exact noise, not {settings.name}" in built, f"it refuses exact noise by {built!r}")


@checks
def calibrations_keep_what_was_asked_or_say_so(settings: Any, world: Any) -> None:
    """No calibration spends more than the epsilon it was given, unless it is named unsound and its statement says so."""
    if not settings.private or not hasattr(settings, "epsilon") or getattr(settings, "eta", None) is not None:
        return
    for epsilon in (0.5, 1.0, 5.0):
        for calibration in settings.calibrations() if hasattr(settings, "calibrations") else (None,):
            _keeps(settings, epsilon, calibration)


def _keeps(settings: Any, epsilon: float, calibration: str | None) -> None:
    chosen = {} if calibration is None else {"calibration": calibration}
    asked = dataclasses.replace(settings, epsilon=epsilon, **chosen)
    statement = asked.guarantee()
    printed = f"The published calibration states epsilon = {epsilon:g}."
    where = f"asked for epsilon={epsilon:g}{'' if calibration is None else f' by {calibration!r}'} it states"
    found = f"{where} {statement.epsilon:.6g}"
    if calibration == "published-unsound" or getattr(asked, "unsound", False):
        expect(statement.epsilon > epsilon * 1.01, f"{found}, and is called unsound")
        expect(f"epsilon = {statement.epsilon:.4g}" in statement.sentence and printed in statement.sentence, found)
        return
    expect(statement.epsilon <= epsilon * (1 + 1e-9), found)
    if calibration == "tight":  # up to a tree's node that is counted and never released
        expect(statement.epsilon > 0.8 * epsilon, f"{found}, and is called tight")
        expect(statement.nominal_epsilon is None and "published" not in statement.sentence, f"{where} a nominal epsilon")
    elif (calibration == "exact" or (calibration is None and isinstance(asked.plan, BatchPlan | ChannelPlan))) and (
        getattr(asked, "statistics", "b") != "ab"
    ):
        expect(math.isclose(statement.epsilon, epsilon, rel_tol=1e-6), f"{found}, and is called exact")
        expect(statement.nominal_epsilon is None and "published" not in statement.sentence, f"{where} a nominal epsilon")
    elif calibration is not None:
        expect(statement.nominal_epsilon == epsilon and printed in statement.sentence, f"{where} no nominal epsilon")
        expect(statement.epsilon < epsilon, found)


@checks
def fixed_arms_refuse_rewards_that_come_late(settings: Any, world: Any) -> None:
    """Pre-pulls and first pulls are counted by learned rounds: with a delay, an arm would be sampled with few rewards."""
    if not fixed_arms(settings):
        return
    message = f"Expected reward_window=3 == 0 for {settings.name}, a policy on arms."
    late = [
        refusal(lambda: Policy(settings, seed=0, reward_window=3)),
        refusal(lambda: Policy(settings, source=Secure(), reward_window=3)),
    ]
    expect(late == [message] * 2, f"with reward_window=3 it says {late}")
    policy = Policy(settings, seed=0)
    policy.reward_window = 3
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        said = refusal(lambda: load(Path(folder) / "policy"))
    expect(said is not None and message in said, f"loaded with reward_window=3 it says {said}")


@checks
def fixed_arms_are_refused_anything_else(settings: Any, world: Any) -> None:
    """Worlds that offer other candidates, arms in another order, and rounds beyond the last."""
    if not fixed_arms(settings):
        return
    place = environments.environment("synthetic", {"dimension": settings.dimension, "arms": 12, "candidates": 3})
    said = refusal(lambda: run_all([settings], place, [0])) or ""
    expect(said.startswith("Expected environment='synthetic' to offer the same arms"), f"in a world of vectors: {said}")
    policy = Policy(settings, seed=0)
    said = refusal(lambda: policy.decide(np.eye(settings.dimension)[::-1])) or ""
    expect(said.startswith(f"Expected candidates to be the {settings.dimension} unit vectors"), f"arms in disorder: {said}")
    expect(policy.open_decision is None, "a refused decision stays open")
    play(policy, *offers(settings))
    said = refusal(lambda: policy.decide(np.eye(settings.dimension))) or ""
    last = f"Expected round={settings.rounds} < {settings.rounds}, the rounds in its settings"
    expect(said.startswith(last), f"after its last round: {said}")
