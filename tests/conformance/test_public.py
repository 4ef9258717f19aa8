"""Public names that look at rewards are noticed, whatever shows them; and a new public name must be classed."""

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.mechanisms.book import Book, SumBook
from adaprivate.mechanisms.channels import ChannelBook
from adaprivate.mechanisms.units.ledger import LedgerSum
from adaprivate.mechanisms.units.user import UserSum
from adaprivate.runtime.engines import SimulatedEngine
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy, log
from adaprivate.testing import policy_checks

EVENTS = policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 20, "batch_size": 5})
PEOPLE = policies.settings("noise-aware", {"dimension": 3, "rounds": 40, "unit": "user", "batch_size": 6})
CLIPPED = policies.settings(
    "noise-aware-greedy", {"dimension": 3, "rounds": 40, "unit": "user", "batch_size": 6, "weights": "clip"}
)


def check(settings):
    policy_checks()["public-names-depend-on-releases-alone"](settings)


def unrewarded(policy):
    return next((entry.decision for entry in policy._open.values() if entry.reward is None), None)


def counted_if_moved(collector, user, features, reward, kept=UserSum.add):
    before = collector.counted
    entered = kept(collector, user, features, reward)
    collector.counted = before + (entered and reward != 0.5)
    return entered


def weighed_by_sum(collector, number, person, features, kept=LedgerSum.weight):
    return kept(collector, number, person, features) * (0.5 if np.abs(collector._total.astype(float)).max() > 2**20 else 1)


def weighed_by_own(collector, number, person, features, kept=UserSum.weight):
    own = collector._users.get(str(person))
    return kept(collector, number, person, features) * (0.5 if own is not None and own[-1] > 0 else 1)


def closed_aloud(book, kept=ChannelBook.close):
    if not book.due:
        raise InputError(f"Expected a batch that is due: {book._sums and book._sums._collector.state()}.")
    return kept(book)


def moved(book):
    return int(book._collector._whole.values()[0])


def logged(policy, decision, reward, kept=Policy.learn):
    log.debug("a reward came: %s", reward)
    return kept(policy, decision, reward)


FAULTS = {
    "an open decision that tells whether a reward came": (EVENTS, Policy, "open_decision", property(unrewarded)),
    "a log of rewards": (EVENTS, Policy, "learn", logged),
    "a moment that a reward moves": (
        EVENTS,
        SumBook,
        "sums_until",
        property(lambda b: int(b._collector._whole.values()[0])),
    ),
    "an error that shows a sum": (PEOPLE, ChannelBook, "close", closed_aloud),
    "a weight that looks at the open sum": (PEOPLE, LedgerSum, "weight", weighed_by_sum),
    "a weight that looks at what a person earned": (CLIPPED, UserSum, "weight", weighed_by_own),
    "people whose rewards are the center not counted": (CLIPPED, UserSum, "add", counted_if_moved),
}


@pytest.mark.parametrize("settings", [EVENTS, PEOPLE, CLIPPED], ids=["events", "people", "clipped"])
def test_without_a_fault_nothing_is_noticed(settings):
    check(settings)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_looks_at_rewards_is_noticed(fault, monkeypatch):
    settings, kind, name, planted = FAULTS[fault]
    monkeypatch.setattr(kind, name, planted)
    with pytest.raises(AssertionError, match="depends on rewards, given equal releases"):
        check(settings)


@pytest.mark.parametrize("kind", [Policy, Book, Learner])
def test_a_public_name_that_nobody_classed_is_refused(kind, monkeypatch):
    monkeypatch.setattr(kind, "newest", property(lambda self: 1), raising=False)
    with pytest.raises(AssertionError, match=r"newest is public, and adaprivate\.testing\.public\.CLASSED does not"):
        check(EVENTS)


def test_a_learner_that_is_simulated_is_held_to_releases_too(monkeypatch):
    """The compiled learner of people, given a weight that a reward moved."""
    kept = SimulatedEngine.count

    def count(engine, number, features, reward, person=-1):
        kept(engine, number, features, reward, person)
        engine.known.direction[0] += reward > 0.5

    monkeypatch.setattr(SimulatedEngine, "count", count)
    with pytest.raises(AssertionError, match="released the same, and its learner depends on rewards"):
        check(PEOPLE)
