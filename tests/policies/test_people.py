"""Policies that protect people: decisions say whose they are, and all of a person's rewards are paid for once."""

from __future__ import annotations

import threading
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.client.calls import _ask, _written
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.ledger import UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.policies.noise_aware.greedy import NoiseAwareGreedySettings
from adaprivate.policies.noise_aware.noise_aware import NoiseAwareDefaultSettings
from adaprivate.runtime.inputs import person_of
from adaprivate.runtime.policy import Policy
from adaprivate.service.models import DecisionRequest
from adaprivate.simulation import mean_sem, policy_settings, run_all
from adaprivate.testing.books import open_noise
from adaprivate.testing.channels import lived

SETTINGS = NoiseAwareDefaultSettings(dimension=3, rounds=60, epsilon=5.0, unit="user", batch_size=6)
RNG = np.random.default_rng(0)
OFFERS = RNG.standard_normal((90, 4, 3)) / 3
KNOWN = "0b5c1d1e-7f2a-4c3b-9d4e-abcdefabcdef"


class Name(str, Enum):  # noqa: UP042  # its str is what is tested
    """An enum whose members are texts, and whose ``str`` is something else."""

    ANNA = "anna"


class Number(int, Enum):
    """The same of whole numbers."""

    SEVEN = 7


KINDS: list[dict[str, Any]] = [{"seed": 3}, {"source": Secure()}]


def played(policy: Policy, rounds: range, people: int = 7) -> list[int]:
    actions = []
    for number in rounds:
        decision = policy.decide(OFFERS[number], user=f"person {number * number % people}")
        policy.learn(decision, float(number % 3 == 0))
        actions.append(decision.action)
    return actions


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_without_a_person_are_refused_and_nothing_changes(kind: dict[str, Any]) -> None:
    policy = Policy(SETTINGS, **kind)
    for user, text in (
        (None, "user to be given"),
        ("", "non-empty"),
        (1.5, "type float"),
        (True, "type bool"),
        ([], "list"),
    ):
        with pytest.raises(InputError, match=text):
            policy.decide(OFFERS[0], user=user)
    for users in ({"a", "b"}, "ab", iter("ab"), 5):
        with pytest.raises(InputError, match="users of type"):
            policy.decide_many(OFFERS[:2], users=users)
    with pytest.raises(InputError, match="user to be given"):
        policy.decide_many(OFFERS[:2])
    with pytest.raises(InputError, match=r"len\(users\)=1 == 2"):
        policy.decide_many(OFFERS[:2], users=["a"])
    with pytest.raises(InputError, match="user to be given"):
        policy.observe(OFFERS[0, 0], 1.0)
    assert (policy.decided, policy.round) == (0, 0)
    policy.observe(OFFERS[0, 0], 1.0, user=4)
    policy.decide_many(OFFERS[:2], users=["a", 4])
    policy.decide_many(OFFERS[:2], users=np.array([1, 2]))
    assert policy.decided == 5


def test_a_policy_for_single_rewards_refuses_to_be_told_whose_they_are() -> None:
    policy = ap.policy("noise-aware", dimension=3, rounds=50, seed=1)
    with pytest.raises(InputError, match="user not to be given"):
        policy.decide(OFFERS[0], user="a")


def test_numbers_of_people_need_the_key_and_whole_numbers_are_their_texts() -> None:
    one, other = (person_of("anna", True, key, "x") for key in (b"a" * 16, b"b" * 16))
    assert one != other
    assert 0 <= one < 2**63
    assert person_of(7, True, b"", "x") == person_of("7", True, b"", "x") != person_of(8, True, b"", "x")
    assert person_of(np.int64(7), True, b"", "x") == person_of(7, True, b"", "x")
    known = UUID(int=5)
    assert person_of(known, True, b"", "x") == person_of(str(known), True, b"", "x")


SPELLINGS = [
    ["anna", Name.ANNA, np.str_("anna")],
    [7, "7", np.int64(7), Number.SEVEN],
    ["é", "e\u0301"],
    [UUID(KNOWN), KNOWN, KNOWN.upper(), "{" + KNOWN + "}", f"urn:uuid:{KNOWN}", f"URN:UUID:{KNOWN.upper()}"],
]
"""Spellings of one user each."""
OTHERS = ["Anna", " anna", "Name.ANNA", "07", "7.0", "Ⅶ", "７", "e", "é\u0301", "\ud800", KNOWN[:-1] + "0"]
OTHERS += [
    KNOWN.replace("-", ""),
    "{" + KNOWN,
    KNOWN + "}",
    KNOWN + "\n",
    KNOWN.replace("b", "ｂ"),
    "urn:uuid:{" + KNOWN + "}",
]
"""Users of their own, all of them."""


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda spellings: str(spellings[1]))
def test_spellings_of_one_identifier_are_one_user(spellings: list[Any]) -> None:
    """A member of an enum, a UUID in any usual form, and a text however its accents are encoded."""
    assert len({person_of(user, True, b"k", "x") for user in spellings}) == 1
    policy = Policy(SETTINGS, source=Secure())
    for number, user in enumerate(spellings):
        policy.observe(OFFERS[number % 3, 0], 0.5, user=user)
    policy.finish()
    assert policy.people is not None
    assert policy.people["people"] == 1
    collector = UserUnit(2).collector(3, noise=Simulated(0), centre=0.5, shape=None)
    for user in spellings:
        collector.count(Event(0, OFFERS[0, 0], 0.5, user))
    assert collector.counts()["people"] == 1


def test_no_two_users_become_one() -> None:
    users = [spellings[0] for spellings in SPELLINGS] + OTHERS
    assert len({person_of(user, True, b"k", "x") for user in users}) == len(users)


def test_clients_and_service_name_users_as_the_library_does() -> None:
    """Through JSON, as a Python client writes it and the service reads it."""
    for user in [spelling for spellings in SPELLINGS for spelling in spellings] + OTHERS:
        if user == "\ud800":
            continue  # no text of JSON
        read = DecisionRequest.model_validate_json(_written(_ask(user=user))).ask().user
        assert person_of(read, True, b"k", "x") == person_of(user, True, b"k", "x")


@pytest.mark.parametrize("kind", KINDS)
def test_people_are_counted_in_public_and_stay_counted_when_saved(kind: dict[str, Any], tmp_path: Any) -> None:
    policy = Policy(SETTINGS, **kind)
    played(policy, range(70))
    policy.save(tmp_path / "p")
    policy = ap.load(tmp_path / "p")
    played(policy, range(70, 90))
    policy.finish()
    counts = policy.people
    assert counts is not None
    visits = np.bincount([n * n % 7 for n in range(90)], minlength=7)
    assert counts["people"] == int((visits > 0).sum())
    assert counts["counted"] == int(np.minimum(visits, 10).sum())
    assert counts["beyond"] == 90 - counts["counted"]
    late = f"{counts['beyond']} of 90 visits came later and taught nothing."
    assert policy.remarks[-2:] == ["Only the first 10 visits of each user ever count.", late]
    assert Policy(SETTINGS, **kind).remarks[-1] == policy.remarks[-2]


def test_saved_and_loaded_between_all_visits_nobody_reaches_further() -> None:
    """All rewards of one person replaced, the policy stored and restored between visits: the releases move by 1 at most."""
    settings = NoiseAwareGreedySettings(dimension=3, rounds=60, unit="user", batch_size=6, epsilon=1.0)
    drawn = []
    for reward in (0.0, 1.0):
        with open_noise(silent=True) as seen:
            policy = Policy(settings, source=Secure())
            for number in range(60):
                policy.observe(OFFERS[number % 3, 0], reward if number % 2 else 0.5, user=number % 2)
                if number % 4 == 1:
                    policy = Policy.from_bytes(policy.to_bytes())
            policy.finish()
        drawn.append(seen)
    moved = [
        float(x - y) / scale
        for a, b in zip(*drawn, strict=True)
        for x, y, scale in zip(a.values, b.values, a.scales, strict=True)
    ]
    assert 0.5 < np.linalg.norm(moved) * settings.noise_multiplier <= 1


@pytest.mark.parametrize(("batch", "visits"), [(3, 30), (10, 20)])
def test_after_planning_on_nobody_reaches_further(batch: int, visits: int) -> None:
    """One person comes in half of the rounds after the plan was extended: all their rewards cost the price at most."""
    options = {"dimension": 1, "rounds": 60, "batch_size": batch, "growth": 1.0, "counted_visits": visits, "unit": "user"}
    settings = policies.settings("noise-aware-ts", options)
    rounds = 4 * settings.rounds
    rng = np.random.default_rng(1)
    mine = (np.arange(rounds) > settings.rounds) & (rng.random(rounds) < 0.5)
    people = np.where(mine, 0, np.arange(1, rounds + 1)).tolist()
    features, rewards = np.ones((rounds, 1)), rng.integers(2, size=rounds).astype(float)
    drawn, held = [], None
    for reward in (0.0, 1.0):
        with open_noise(silent=True) as seen:
            life = lived(settings, features, np.where(mine, reward, rewards), seen, held, people)
        assert len({id(plan) for plan in life.plans}) > 2  # it planned on, more than once
        drawn.append(seen)
        held = life.releases
    moved = [
        float(x - y) / scale
        for a, b in zip(*drawn, strict=True)
        for x, y, scale in zip(a.values, b.values, a.scales, strict=True)
    ]
    assert 0.8 < np.linalg.norm(moved) / settings.plan.price(exact_noise=True).mu <= 1


@pytest.mark.parametrize("name", [n for n in policies.names() if "user" in policies.settings_class(n).units])
def test_people_are_protected_however_few_of_their_visits_count(name: str) -> None:
    for visits in (1, 2, 10):
        settings = policies.settings(name, {"dimension": 3, "rounds": 60, "unit": "user", "counted_visits": visits})
        assert settings.plan.unit.needs_user
        assert settings.guarantee().unit == "user"


def test_saved_and_loaded_a_simulated_policy_goes_on_as_if_nothing_had_happened() -> None:
    whole, part = Policy(SETTINGS, seed=5), Policy(SETTINGS, seed=5)
    expected = played(whole, range(90))
    actions = played(part, range(35))
    part = Policy.from_bytes(part.to_bytes())
    assert actions + played(part, range(35, 90)) == expected


def test_whose_an_open_decision_is_survives_a_restart() -> None:
    policy = Policy(SETTINGS, source=Secure(), reward_window=5)
    tokens = [policy.decide(OFFERS[n], user=f"u{n % 2}").token for n in range(5)]
    policy = Policy.from_bytes(policy.to_bytes())
    for token in tokens:
        policy.learn(token, 1.0)
    policy.finish()
    assert policy.book.people == {"people": 2, "counted": 5, "beyond": 0}


def test_threads_charge_every_person_once_a_visit() -> None:
    policy = Policy(SETTINGS, source=Secure(), reward_window=48)

    def visits(name: str) -> None:
        for number in range(12):
            policy.learn(policy.decide(OFFERS[number], user=name), 0.5)

    threads = [threading.Thread(target=visits, args=(f"t{k}",)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    policy.finish()
    assert policy.book.people == {"people": 4, "counted": 40, "beyond": 8}
    assert int(policy.book._sums._collector.people.arrays.spent[:4].max()) <= 2**50  # type: ignore[attr-defined]


def test_a_missing_reward_is_charged_like_any_other() -> None:
    """That a reward came or not changes nothing that is public: ledger, learner, versions."""
    states = []
    for missing in (False, True):
        policy = Policy(SETTINGS, seed=2)
        for number in range(60):
            decision = policy.decide(OFFERS[number], user=number % 3)
            if not (missing and number % 2):
                policy.learn(decision, 0.5)
        policy.finish()
        states.append(policy.state)
    for one, two in zip(states[0].book.ledger, states[1].book.ledger, strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(states[0].learner.crosses, states[1].learner.crosses)


def test_rewards_do_not_touch_the_ledger_or_the_design() -> None:
    """Given the same actions: f is a function of public things."""
    settings = NoiseAwareGreedySettings(dimension=3, rounds=60, unit="user", batch_size=6, epsilon=1.0)
    one, two = Policy(settings, source=Secure()), Policy(settings, source=Secure())
    for number in range(59):
        for policy, reward in ((one, 0.0), (two, 1.0)):
            policy.observe(OFFERS[number, 0], reward, user=number % 4)
    assert one.book.people == two.book.people
    first, second = (p.book._sums._collector.people.arrays for p in (one, two))  # type: ignore[attr-defined]
    used = int(first.scalars["visits"][0])
    assert np.array_equal(first.vectors[:used], second.vectors[:used])
    assert np.array_equal(one.learner.state.crosses, two.learner.state.crosses)


def test_exact_and_simulated_noise_learn_alike() -> None:
    """Regret over 12 runs each agrees within 5 standard errors (false alarm below 1e-6 for normal means)."""
    settings = NoiseAwareGreedySettings(dimension=4, rounds=600, epsilon=5.0, unit="user")
    theta = np.array([0.8, -0.6, 0.0, 0.3])

    def regret(policy: Policy, seed: int) -> float:
        rng, total = np.random.default_rng(seed), 0.0
        for _ in range(600):
            rows = rng.standard_normal((4, 4))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            means = 1 / (1 + np.exp(-3 * rows @ theta))
            decision = policy.decide(rows, user=int(rng.integers(80)))
            policy.learn(decision, float(rng.random() < means[decision.action]))
            total += means.max() - means[decision.action]
        return total

    simulated = mean_sem([regret(Policy(settings, seed=s), s) for s in range(12)])
    exact = mean_sem([regret(Policy(settings, source=Secure()), s) for s in range(12)])
    assert abs(simulated[0] - exact[0]) < 5 * np.hypot(simulated[1] or 0, exact[1] or 0)
    assert max(simulated[0], exact[0]) < 130  # random play loses about 190


def test_the_ledger_beats_the_simple_ways_and_protecting_people_costs_something() -> None:
    """Paired seeds; the gaps are many standard errors wide (group 2.5 times, first visit 1.6 times the ledger's regret)."""
    world = environments.environment("synthetic", {"people": 1000, "visits": "uniform", "dimension": 8})
    options: list[dict[str, Any]] = [
        {"unit": "user"},
        {"unit": "user", "weights": "equal"},
        {"unit": "user", "counted_visits": 1},
        {"channel": "gaussian"},
    ]
    policies = [policy_settings("noise-aware-greedy", world, 10_000, {"epsilon": 1.0, **own}) for own in options]
    ledger, group, first, event = (np.mean([run.regret for run in runs]) for runs in run_all(policies, world, range(8)))
    assert event < ledger < first
    assert ledger < 0.8 * group


def test_settings_refuse_what_does_not_go_with_people() -> None:
    for options, text in (
        ({"channel": "flip"}, "channel"),
        ({"channel": "items"}, "channel"),
        ({"memory": 100.0}, "memory"),
        ({"counted_visits": 0}, "counted_visits"),
        ({"weights": "free"}, "weights"),
        ({"unit": "family"}, "unit"),
        ({"noise": "blt"}, "noise"),
    ):
        with pytest.raises(InputError, match=text):
            NoiseAwareDefaultSettings(dimension=3, rounds=60, **{"unit": "user", **options})
    plan = SETTINGS.plan
    assert plan.unit == UserLedgerUnit(10, "directions")
    assert plan.channels == ("gaussian",)


def test_a_world_without_people_is_refused() -> None:
    with pytest.raises(InputError, match="tell people apart"):
        ap.simulate(["noise-aware"], "synthetic", rounds=50, seeds=1, options={"unit": "user"})


@pytest.mark.parametrize("kind", KINDS)
def test_visits_that_say_nothing_of_any_direction_do_no_harm(kind: dict[str, Any]) -> None:
    """Features of zeros for whole batches, and code compiled beforehand."""
    settings = NoiseAwareDefaultSettings(dimension=3, rounds=80, unit="user", batch_size=6, intercept=0.0)
    for own in (settings, SETTINGS):
        policy = Policy(own, **kind)
        policy.warm_up()
        for number in range(60):
            offered = np.zeros((4, 3)) if number < 25 else OFFERS[number]
            policy.learn(policy.decide(offered, user=number % 9), 1.0)
        policy.finish()
        assert policy.version > 3
        assert np.isfinite(policy.state.mean if policy.source else policy.state.learner.mean).all()


def test_policies_that_protect_single_rewards_know_no_people() -> None:
    assert ap.policy("noise-aware", dimension=3, rounds=50, seed=1).people is None
    told = ap.policy("rr-linucb", dimension=3, rounds=50, seed=1, unit="user", counted_visits=2)
    for number in range(6):
        told.learn(told.decide(OFFERS[number], user=number % 2), 1.0)
    told.finish()
    assert told.people == {"people": 2, "counted": 4, "beyond": 2}
