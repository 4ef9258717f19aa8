"""Every way out that a noise-aware policy may choose, through the suite: also those that small examples do not choose."""

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.mechanisms import Secure
from adaprivate.policies.noise_aware import settings as noise_aware
from adaprivate.policies.noise_aware.outlook import Choice
from adaprivate.runtime.policy import Policy
from adaprivate.testing import policy_checks
from adaprivate.testing.books import open_noise
from adaprivate.testing.channels import lived, played

ITEMS = ((0.9, 0.1, 0.0), (-0.5, 0.2, 0.1), (0.3, -0.1, 0.2))
LATER = {"precision": 12.0, "ridge": 12.0}
CASES = {
    "flips, then sums": ("noise-aware-ts", {}, Choice("gaussian", 0, **LATER), {"flip", "gaussian"}),
    "sums that begin late": ("noise-aware-greedy", {"growth": 1.3}, Choice("gaussian", 17, **LATER), {"flip", "gaussian"}),
    "sums of a catalogue": ("noise-aware-ucb", {"catalogue": ITEMS}, Choice("gaussian", 5, **LATER), {"flip", "gaussian"}),
    "sums past their horizon": (
        "noise-aware-ts",
        {"horizon": 45, "intercept": 0.0},
        Choice("gaussian", 0, **LATER),
        {"flip", "gaussian"},
    ),
    "flips, then blocks": ("noise-aware-ts", {}, Choice("items", 9, block=3, growth=1.3, **LATER), {"flip", "items"}),
    "blocks that grow": (
        "noise-aware-greedy",
        {"channel": "items", "base_rate": 0.3},
        Choice("items", 0, block=2, growth=2.0, **LATER),
        {"items"},
    ),
}
CHECKS = [
    *("saving-midway-changes-nothing", "missing-rewards-count-as-their-public-value", "long-candidates-are-clipped"),
    *("same-seed-same-transcript-and-only-then", "states-its-guarantee", "calibrations-keep-what-was-asked-or-say-so"),
    *("choices-wait-for-the-first-release", "choices-see-releases-alone", "chooses-with-the-probabilities-it-states"),
    *("exact-channels-cost-what-their-price-says", "exact-channels-draw-the-noise-that-is-stated"),
    *("compiled-channels-are-those-of-the-book", "compiled-channels-cost-what-the-guarantee-says"),
    *("releases-come-at-public-moments",),
]


@pytest.fixture(params=CASES)
def case(request, monkeypatch):
    """Settings that choose what is written above, and the channels that events then take."""
    name, options, choice, channels = CASES[request.param]
    monkeypatch.setattr(noise_aware, "choose", lambda *_: choice)
    noise_aware._with.cache_clear()
    yield policies.settings(name, {"dimension": 3, "rounds": 60, **options}), channels
    noise_aware._with.cache_clear()


@pytest.mark.parametrize("check", CHECKS)
def test_conforms(case, check):
    settings, _ = case
    policy_checks()[check](settings)


def test_events_take_the_channels_that_were_chosen(case):
    settings, channels = case
    features, rewards = played(settings, 90)
    with open_noise(silent=True):
        life = lived(settings, features, rewards)
    assert {route["channel"] for route in life.routes} == channels
    assert {release.channel for release in life.releases} == channels
    held = [route["block"] for route in life.routes if route["channel"] == "items"]
    closed = sum(route["closes"] for route in life.routes)
    assert not held or 0 < closed < 2 / 3 * len(held)  # blocks hold more than one reward
    if "gaussian" in channels:
        first = next(number for number, route in enumerate(life.routes) if route["channel"] == "gaussian")
        assert life.plans[-1].first == first > 0
        assert life.sums.ends[0] > first


@pytest.mark.parametrize("window", [0, 3])
def test_whether_rewards_come_moves_nothing_with_exact_noise(case, window):
    """One candidate a round, so that nothing depends on the noise: versions and plans are those of the rounds alone."""
    settings, _ = case
    features, rewards = played(settings)
    seen = []
    for told in (lambda n: float(rewards[n]), lambda n: 1.0 - rewards[n], lambda n: None, lambda n: ...):
        policy = Policy(settings, source=Secure(), reward_window=window)
        moments = []
        for number, vector in enumerate(features):
            decision = policy.decide(vector[None])
            moments.append((decision.version, policy.version, policy.round, policy.settings.plan.to_bytes()))
            if told(number) is not ...:
                policy.learn(decision, told(number))
            moments.append((policy.version, policy.round))
        policy.finish()
        seen.append([*moments, policy.version, policy.round])
    assert all(one == seen[0] for one in seen)
    assert seen[0][-2] > 3


def test_the_choice_is_made_by_offers_alone():
    """Without a choice of our own: whatever comes, and whether it comes, the same channel, prior and sums are chosen."""
    candidates = np.random.default_rng(4).standard_normal((30, 4, 3)) / 4
    for channel in ("auto", "gaussian", "items", "flip"):
        settings = policies.settings("noise-aware-ts", {"dimension": 3, "rounds": 400, "channel": channel})
        found = set()
        for reward in (0.0, 1.0, None):
            for made in ({"seed": 3}, {"source": Secure()}):
                policy = Policy(settings, **made)
                for offered in candidates:
                    policy.learn(policy.decide(offered), reward)
                policy.finish()
                assert policy.settings.choice is not None
                found.add(policy.settings.plan.to_bytes())
        assert len(found) == 1
