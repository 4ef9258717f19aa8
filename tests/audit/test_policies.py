"""Every registered policy attacked: no bound exceeds its claim, and noise of half the size is found.

Seeds are fixed where noise is simulated: then nothing can fail by chance. Each bound holds with confidence 0.999; among the
policies here, had their seeds been drawn afresh, a false alarm would come in about one of 30 runs of this file. With exact
noise, which takes no seed, confidence is 1 - 1e-6.
"""

import dataclasses
import inspect

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.audit import audited, audited_in_one_run, policy_target
from adaprivate.audit.targets import PolicyTarget, small_settings
from adaprivate.check import InputError
from adaprivate.mechanisms.plan import BatchPlan

SURE = 1 - 1e-6
OWN = {"mishra-thakurta-ts": {"epsilon": 20.0, "warmup": "none"}}
"""Where little would be seen otherwise."""
PRIVATE = [name for name in policies.names() if policies.settings_class(name).private]


def options(name):
    """Epsilon 5, and the least noise that gives it where a policy may choose."""
    known, example = policies.options(name), policies.examples(name)[0]
    values = {"epsilon": 5.0} if "epsilon" in known else {}
    if "delta" in known and example.guarantee().delta > 0:
        values["delta"] = 1e-5
    for calibration in ("exact", "tight") if "calibration" in known else ():
        try:
            small_settings(name, {**values, "calibration": calibration})
        except InputError:
            continue
        values["calibration"] = calibration
        break
    return values | OWN.get(name, {})


@pytest.mark.parametrize("name", PRIVATE)
def test_no_bound_exceeds_the_claim(name):
    found = audited(policy_target(name, options(name)), trials=500)
    assert found.holds, found
    assert 0 <= found.measured_mu < np.inf
    assert "nothing to attack" not in found.attack


@pytest.mark.parametrize(
    ("name", "values", "least"),
    [
        ("adaprivate-ts", {"calibration": "exact"}, 0.75),
        ("noise-aware-ts", {"channel": "gaussian"}, 0.7),
        ("rr-linucb", {}, 0.8),
        ("noise-aware", {"channel": "flip"}, 0.8),
        ("jdp-linucb-gaussian", {"calibration": "tight", "release": "batched", "batch_size": 3}, 0.6),
    ],
)
def test_bounds_are_tight_where_releases_are(name, values, least):
    found = audited(policy_target(name, {"epsilon": 5.0, **values}), trials=3000)
    assert least <= found.share <= 1, found


@pytest.mark.parametrize("name", ["adaprivate-ts", "adac-ucb", "rarely-switching", "noise-aware-ts"])
def test_noise_of_half_the_size_is_found(name, monkeypatch):
    values = options(name) | ({"channel": "gaussian"} if name == "noise-aware-ts" else {})
    owner = BatchPlan if name in ("adaprivate-ts", "noise-aware-ts") else policies.settings_class(name)
    whole = inspect.getattr_static(owner, "noise_tables")
    monkeypatch.setattr(owner, "noise_tables", lambda self, seeds: 0.5 * whole(self, seeds))
    found = audited(policy_target(name, values), trials=2000)
    assert not found.holds, found
    assert found.measured_mu > found.claimed_mu


@pytest.mark.parametrize(
    ("name", "values", "neighbour"),
    [
        ("adaprivate-ts", {"rounds": 2, "batch_size": 2}, "reward"),
        ("adaprivate-ts", {"rounds": 2, "batch_size": 2}, "missing"),
        ("rr-linucb", {"rounds": 3}, "missing"),
        ("noise-aware", {"rounds": 4, "channel": "flip"}, "reward"),
        ("filtered-thompson", {"rounds": 6}, "reward"),
    ],
)
def test_policies_with_exact_noise(name, values, neighbour):
    target = policy_target(name, {"epsilon": 5.0, **values}, neighbour=neighbour, exact_noise=True)
    found = audited(target, trials=800, confidence=SURE)
    assert found.holds, found
    assert found.exact_noise
    if name in ("rr-linucb", "noise-aware"):
        assert found.share > 0.2, found


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("name", "values", "least"),
    [
        ("adaprivate-ts", {"calibration": "exact"}, 0.15),
        ("noise-aware-ts", {"channel": "gaussian"}, 0.15),
        ("rr-linucb", {}, 0.6),
    ],
)
def test_many_canaries_in_one_run(name, values, least, exact):
    found = audited_in_one_run(name, {"epsilon": 5.0, **values}, canaries=2000, exact_noise=exact, confidence=SURE)
    assert found.holds, found
    assert found.share > least, found


def test_one_run_finds_a_tenth_of_the_noise(monkeypatch):
    whole = BatchPlan.noise_tables
    monkeypatch.setattr(BatchPlan, "noise_tables", lambda self, seeds: 0.1 * whole(self, seeds))
    found = audited_in_one_run("adaprivate-ts", {"epsilon": 5.0, "calibration": "exact"}, canaries=5000)
    assert not found.holds, found


def test_one_run_refuses_what_it_cannot_read():
    with pytest.raises(InputError, match="to release sums or single rewards"):
        audited_in_one_run("thompson", {})


def test_a_person_is_not_an_event():
    """A guarantee for one reward does not cover all rewards of a person who returns: it is not asked to, and would fail."""
    values = {"epsilon": 5.0, "calibration": "exact"}
    with pytest.raises(InputError, match="to be one that the guarantee speaks of"):
        policy_target("adaprivate-ts", values, neighbour="user")
    claim = policy_target("adaprivate-ts", values).claim
    found = audited(PolicyTarget(small_settings("adaprivate-ts", values), "user", claim), trials=1500)
    assert not found.holds, found
    assert "one person" in found.neighbour


def test_a_compiled_stretch_plays_as_single_rounds_do():
    target = policy_target("adaprivate-ts", {"epsilon": 5.0})
    script = target.pairs()[0].two
    alone = target.play(script, range(20))
    target.people = True  # then rounds are played in one stretch, and say whose they are
    together = target.play(script, range(20))
    assert np.array_equal(alone.actions, together.actions)
    assert np.array_equal(alone.numbers, together.numbers)


def test_the_action_of_a_private_round_is_hidden():
    target = policy_target("jdp-linucb-gaussian", {"epsilon": 5.0})
    pair = target.pairs()[0]
    (place,) = pair.rounds
    assert (target.play(pair.one, range(3)).actions[:, place] == -1).all()
    assert not np.array_equal(pair.one.candidates[place], pair.two.candidates[place])
    others = np.arange(pair.one.rounds) != place
    assert np.array_equal(pair.one.candidates[others], pair.two.candidates[others])
    assert np.array_equal(pair.one.rewards[others], pair.two.rewards[others])


@pytest.mark.parametrize("name", ["adaprivate-ts", "lazy-dp-ts", "noise-aware", "jdp-linucb-gaussian"])
def test_neighbours_differ_in_one_unit_alone(name):
    target = policy_target(name, {"epsilon": 5.0})
    for pair in target.pairs():
        same = [t for t in range(pair.one.rounds) if t not in pair.rounds]
        assert np.array_equal(pair.one.rewards[same], pair.two.rewards[same])
        assert np.array_equal(pair.one.candidates[same], pair.two.candidates[same])
        assert np.abs(np.linalg.norm(pair.one.candidates, axis=2)).max() <= 1


def test_what_is_expected_is_what_is_released_without_noise():
    """The attacker's own reckoning: numbers less it are the noise, which has the standard deviation that is paid for."""
    target = policy_target("adaprivate-ts", {"epsilon": 5.0, "calibration": "exact"})
    pair = target.pairs()[0]
    seen = target.play(pair.two, range(400))
    noise = (seen.numbers - target.expected(pair.two, seen.actions)).reshape(400, len(target.moments), -1)
    assert noise[:, 0].std() == pytest.approx(1 / target.claim.mu, rel=0.12)  # 800 draws: 5 standard errors
    assert target.moments == [3, 6, 9, 12]


def test_unsound_claims_are_refuted():
    """The published noise of sampled rewards, which its own guarantee prints as what it is, holds to what is printed."""
    settings = small_settings("adaprivate-ts-amp", {"epsilon": 2.0, "calibration": "published-unsound"})
    assert settings.guarantee().epsilon > 10
    assert audited(PolicyTarget(settings), trials=1000).holds
    claimed = dataclasses.replace(PolicyTarget(settings).claim, epsilon=2.0)
    assert not audited(PolicyTarget(settings, "reward", claimed), trials=2000).holds
