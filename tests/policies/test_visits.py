"""Who comes to simulated worlds: how often, in which order, and that no policy, and no other draw, has a part in it."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2

import adaprivate as ap
from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.compiled import entry, streams
from adaprivate.environments.protocol import SESSION, PeopledWorld, draw, visitor, visitors
from adaprivate.simulation import run_all, whole_state

FALSE_ALARM = 1e-6
ROUNDS = 20_000
PEOPLED = [name for name in environments.names() if "people" in environments.options(name)]


@entry
def _play(world, candidates, means, rewards, who, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)
        who[t] = visitor(world, t)


def played(place, seed, rounds=ROUNDS):
    shape = (rounds, place.candidates)
    candidates, means, rewards = np.empty((*shape, place.dimension)), np.empty(shape), np.empty(shape)
    who, rng = np.empty(rounds, dtype=np.int64), streams(seed, 1, 2)
    _play(place.world(seed), candidates, means, rewards, who, rng)
    return who, (candidates, means, rewards, rng)


def small(people, visits):
    return environments.environment(
        "synthetic", {"dimension": 2, "arms": 4, "candidates": 2, "people": people, "visits": visits}
    )


def fits(counts, weights):
    """Pearson's chi-square test at FALSE_ALARM."""
    expected = counts.sum() * weights / weights.sum()
    return ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - FALSE_ALARM, len(counts) - 1)


@pytest.mark.parametrize("visits", ["uniform", "zipf"])
def test_people_come_as_often_as_said_and_independently(visits):
    """False alarms: 1e-6 each. Rejected are other shares, by 3/2 for half of the people, and other exponents."""
    who, _ = played(small(40, visits), 0)
    place = np.arange(1.0, 41)
    counts = np.bincount(who, minlength=40)
    weights = {"uniform": np.ones(40), "zipf": 1 / place}[visits]
    assert fits(counts, weights)
    for exponent in {"uniform": (2 / 3, 1.0), "zipf": (0.0, 2 / 3, 3 / 2)}[visits]:
        assert not fits(counts, place**-exponent)
    assert not fits(counts, weights * np.where(place % 2 == 0, 1.5, 1.0))
    few, _ = played(small(6, visits), 1)
    pairs = np.bincount(few[:-1] * 6 + few[1:], minlength=36)
    alone = {"uniform": np.ones(6), "zipf": 1 / np.arange(1.0, 7)}[visits]
    assert fits(pairs, np.outer(alone, alone).ravel())
    again = np.bincount(few[:-1] * 6 + few[:-1], minlength=36) * 0.1 + pairs * 0.9  # were one in ten to stay
    assert not fits(again, np.outer(alone, alone).ravel())


def test_sessions_are_one_after_another():
    place = small(30, "sessions")
    who, _ = played(place, 2, 2 * 30 * SESSION)
    stays = who.reshape(-1, SESSION)
    assert (stays == stays[:, :1]).all()
    order = stays[:, 0]
    assert sorted(order[:30]) == list(range(30))
    assert np.array_equal(order[:30], order[30:])
    assert not np.array_equal(order, played(place, 3, 2 * 30 * SESSION)[0].reshape(-1, SESSION)[:, 0])
    assert not np.array_equal(order[:30], np.arange(30))


@pytest.mark.parametrize("visits", ["uniform", "zipf", "sessions"])
def test_the_same_seed_brings_the_same_people_and_a_longer_run_more_of_them(visits):
    place = small(50, visits)
    short, long, other = played(place, 4, 100)[0], played(place, 4, 300)[0], played(place, 5, 100)[0]
    assert np.array_equal(short, long[:100])
    assert not np.array_equal(short, other)
    assert set(played(small(1, visits), 4, 100)[0]) == {0}


@pytest.mark.parametrize("name", PEOPLED)
def test_people_change_nothing_else_in_a_world(name):
    """Candidates, means, rewards and the streams they are drawn from are those of the world without people."""
    plain = environments.environment(name)
    assert type(plain.world(6)) not in visitors.known
    nobody, without = played(plain, 6, 60)
    assert (nobody == -1).all()
    for visits in ("uniform", "zipf", "sessions"):
        place = dataclasses.replace(plain, people=9, visits=visits)
        assert isinstance(place.world(6), PeopledWorld)
        who, parts = played(place, 6, 60)
        assert set(who) <= set(range(9))
        assert len(set(who)) > 3
        for one, two in zip(parts, without, strict=True):
            assert np.array_equal(one, two)


def test_worlds_that_take_people():
    assert {"synthetic", "synthetic-linear", "rank-deficient", "gap", "made-table", "classification"} <= set(PEOPLED)
    assert "bernoulli-arms" not in PEOPLED  # no policy on arms protects people
    for name in PEOPLED:
        for options, named in (({"people": -1}, "people=-1"), ({"people": 2, "visits": "daily"}, "visits='daily'")):
            with pytest.raises(InputError, match=rf"^Expected {named}"):
                environments.environment(name, options)


def met(run):
    """Whom a policy met, in the order of their first visits, and how many of the visits of each it counted."""
    ledger = run.state.book.ledger
    people = int(ledger.scalars["people"][0])
    return ledger.numbers[:people].tolist(), ledger.visits[:people].tolist()


@pytest.mark.parametrize("visits", ["uniform", "zipf", "sessions"])
def test_no_policy_changes_who_comes_nor_do_plans_that_end(visits):
    """Three policies, one of which plans for 50 rounds at first: each meets those whom the world brings."""
    place = small(60, visits)
    own = {"dimension": 2, "rounds": 400, "unit": "user", "counted_visits": 100}
    chosen = [
        policies.settings(name, {**own, **more})
        for name, more in (("noise-aware", {}), ("noise-aware-ts", {"epsilon": 0.3}), ("noise-aware", {"horizon": 50}))
    ]
    for seed, runs in zip((7, 8), zip(*run_all(chosen, place, [7, 8], keep_state=whole_state), strict=True), strict=True):
        who, _ = played(place, seed, 400)
        firsts = list(dict.fromkeys(who.tolist()))
        counts = [int((who == person).sum()) for person in firsts]
        for run in runs:
            assert met(run) == (firsts, counts)


def test_only_so_many_visits_of_each_are_counted():
    place = small(5, "zipf")
    chosen = policies.settings("noise-aware", {"dimension": 2, "rounds": 200, "unit": "user", "counted_visits": 7})
    run = run_all([chosen], place, [9], keep_state=whole_state)[0][0]
    assert met(run)[1] == [7] * 5
    assert int(run.state.book.ledger.scalars["beyond"][0]) == 200 - 35


@pytest.mark.parametrize("name", ["made-table"])
def test_simulating_in_other_worlds_with_people(name):
    options = {"unit": "user", "people": 20, "visits": "zipf"}
    row = ap.simulate(["noise-aware"], name, rounds=200, seeds=1, options=options).row(0, named=True)
    assert row["environment_people"] == 20
    assert "all rewards of any one person" in row["guarantee"]
    assert "user-level" in row["guarantee"]


@pytest.mark.parametrize("name", ["synthetic", "bernoulli-arms"])
def test_a_policy_that_protects_people_needs_a_world_that_tells_them_apart(name):
    with pytest.raises(InputError) as caught:
        ap.simulate(["noise-aware"], name, rounds=50, seeds=1, options={"unit": "user"})
    assert str(caught.value) == f"Expected environment='{name}' to tell people apart, as synthetic does with people=2000."
