"""Policies with exact noise: what is looked at, what is played, what is expected. Mistakes are planted and found.

Exact noise takes no seed: audits here have confidence 1 - 1e-6, and means are allowed six standard errors.
"""

import math

import numpy as np
import pytest

from adaprivate.audit import audited, audited_in_one_run, policy_target
from adaprivate.audit.scripts import pairs
from adaprivate.audit.targets import PolicyTarget, small_settings
from adaprivate.mechanisms import noise
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.runtime.policy import Policy

SURE = 1 - 1e-6
TS, ROWS = ("adaprivate-ts", {"calibration": "exact"}), ("noise-aware-ts", {"channel": "gaussian"})


def exact(name, values, **more):
    return policy_target(name, {"epsilon": 5.0, **values}, exact_noise=True, **more)


@pytest.fixture
def float_noise(monkeypatch):
    """Floating-point noise where exact noise should be, of the same size."""
    rng = np.random.default_rng(1)

    def add(values, scale, sampler):
        scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), np.shape(values))
        return np.asarray(values / 2**NOISE_BITS, dtype=np.float64) + scales * rng.standard_normal(np.shape(values))

    monkeypatch.setattr(noise, "_add", add)


GRIDS = [
    TS,
    ("adaprivate-ts", {"calibration": "exact", "noise": "sqrt"}),
    ("adaprivate-ts", {"calibration": "exact", "noise": "tree"}),
    ROWS,
    ("noise-aware-joint", {}),
    ("ldp-linucb", {}),
]


@pytest.mark.parametrize(("name", "values"), GRIDS)
def test_exact_noise_lies_on_its_grid(name, values):
    target = exact(name, values)
    target.play(target.pairs()[0].two, range(20))
    assert target.looked_at >= 160
    assert target.off_grid == 0


@pytest.mark.parametrize(("name", "values"), GRIDS)
def test_floating_point_noise_does_not(name, values, float_noise):
    target = exact(name, values)
    target.play(target.pairs()[0].two, range(20))
    assert target.off_grid > 0.9 * target.looked_at


@pytest.mark.parametrize(("name", "values"), [TS, ROWS])
def test_floating_point_noise_is_a_failed_audit(name, values, float_noise):
    found = audited(exact(name, {**values, "rounds": 3}), trials=100, confidence=SURE)
    assert found.off_grid > 0
    assert not found.holds
    one = audited_in_one_run(name, {"epsilon": 5.0, **values}, canaries=200, exact_noise=True)
    assert one.off_grid > 0
    assert not one.holds


def test_weighted_trees_are_not_looked_at():
    target = exact("adaprivate-ts", {"calibration": "exact", "noise": "honaker"})
    target.play(target.pairs()[0].two, range(3))
    assert target.looked_at == 0


@pytest.mark.parametrize(
    ("name", "values", "law", "method"),
    [
        ("rr-linucb", {}, RandomisedResponse, "tell"),
        ("noise-aware", {"channel": "flip"}, RandomisedResponse, "tell"),
        ("lazy-dp-ts", {}, DiscreteLaplace, "add"),
        ("noise-aware", {"channel": "items"}, DiscreteLaplace, "add"),
    ],
)
def test_what_flips_and_blocks_tell(name, values, law, method, monkeypatch):
    target = exact(name, values)
    script = target.pairs()[0].two
    target.play(script, range(5))
    assert (target.looked_at > 10, target.off_grid) == (True, 0)
    whole = getattr(law, method)
    monkeypatch.setattr(law, method, lambda self, value, source: whole(self, value, source) + 1e-9)
    target.play(script, range(5))
    assert target.off_grid > 0


def planted(monkeypatch):
    """A release in the call that brings a batch's last reward."""
    telling = Policy.learn

    def learn(self, decision, reward):
        telling(self, decision, reward)
        if reward is not None and self.decided - self.round == 1:
            self._count_until(self.decided)

    monkeypatch.setattr(Policy, "learn", learn)


def counts(target, script):
    """What is seen aside, without how likely choices are at the end."""
    return target.play(script, range(3)).aside[:, : -target.settings.dimension]


def test_a_persons_rewards_may_all_be_missing():
    found = [pair for pair in pairs(small_settings(*TS), "user") if np.isnan(pair.one.rewards).any()]
    assert len(found) == 2
    for pair in found:
        assert np.isnan(pair.one.rewards[list(pair.rounds)]).all()
        assert (pair.two.rewards[list(pair.rounds)] == 1).all()
        assert "rewards of one person: missing or 1" in pair.what


@pytest.mark.parametrize(("name", "values"), [TS, ROWS])
def test_when_things_are_released_does_not_depend_on_rewards(name, values, monkeypatch):
    target = exact(name, values, neighbour="missing")
    pair = target.pairs()[0]
    assert "missing or 1" in pair.what
    one, two = counts(target, pair.one), counts(target, pair.two)
    assert one.shape == (3, 3 * (2 * 12 + 1))
    assert (one == two[0]).all()
    planted(monkeypatch)
    assert (counts(target, pair.one)[0] != counts(target, pair.two)[0]).any()


def test_a_reward_that_never_came_is_never_told(monkeypatch):
    target = exact(*ROWS, neighbour="missing")
    pair = target.pairs()[0]
    told = []
    telling = Policy.learn
    monkeypatch.setattr(Policy, "learn", lambda self, d, reward: (told.append(reward), telling(self, d, reward))[1])
    target.play(pair.one, range(1))
    assert len(told) == int((~np.isnan(pair.one.rewards)).sum()) == 11
    assert None not in told


def test_a_release_on_arrival_is_found(monkeypatch):
    target = exact(ROWS[0], {**ROWS[1], "rounds": 3}, neighbour="missing")
    few = target.pairs()[2:4]
    monkeypatch.setattr(target, "pairs", lambda: few)
    assert audited(target, trials=200, confidence=SURE).holds
    planted(monkeypatch)
    found = audited(target, trials=200, confidence=SURE)
    assert not found.holds, found
    assert found.off_grid == 0


def test_how_likely_choices_are_is_seen_where_it_is_public():
    target = exact(*TS)
    odds = target.play(target.pairs()[0].two, range(3)).aside[:, -2:]
    assert odds.sum(axis=1) == pytest.approx(1)
    assert len(np.unique(odds[:, 0])) == 3
    private = exact("lazy-dp-ts", {})
    assert private.play(private.pairs()[0].two, range(1)).aside.shape[1] == 3 * (2 * 12 + 1)


@pytest.mark.parametrize(("name", "values"), [TS, ROWS, ("noise-aware", {"channel": "flip"}), ("ldp-linucb", {})])
def test_what_is_expected_is_what_exact_releases_are_around(name, values):
    """Numbers less what is expected: mean 0, but for flips, which are told truly but for one in 149 or so."""
    target = exact(name, values)
    pair = target.pairs()[0]
    seen = target.play(pair.two, range(60))
    residuals = seen.numbers - target.expected(pair.two, seen.actions)
    if name == "noise-aware":
        assert (np.abs(residuals) < 1e-9).mean() > 0.8
        return
    size = residuals.std(axis=0)
    assert (size > 0).all()
    assert (np.abs(residuals.mean(axis=0)) < 6 * size / math.sqrt(60)).all()
    if name == "ldp-linucb":
        assert size.mean() == pytest.approx(target.settings.plan.sigma, rel=0.1)


@pytest.mark.parametrize("name", ["lazy-dp-ts", "adap-ucb", "adap-klucb", "anytime-lazy-ucb"])
def test_what_is_expected_of_blocks(name):
    """Noise is whole, and at epsilon 5 most of it is 0: so most releases are what is expected."""
    target = exact(name, {})
    pair = target.pairs()[0]
    seen = target.play(pair.two, range(40))
    residuals = seen.numbers - target.expected(pair.two, seen.actions)
    assert (residuals == np.round(residuals)).all()
    assert (residuals == 0).mean() > 0.9
    assert (seen.numbers != 0).any()


def test_rounds_that_are_given_are_kept():
    given = exact("dp-se", {"rounds": 60})
    assert given.settings.rounds == 60
    assert given.note == "Nothing is released in 60 rounds"
    longer = policy_target("dp-se", {})
    assert longer.settings.rounds == 3072
    assert "3072 are played" in longer.note
    assert PolicyTarget(small_settings("adaprivate-ts", {})).note == ""
