"""What books keep of released rewards is what plans say: two lives that released the same hold the same, or do not."""

import numpy as np
import pytest

from adaprivate import mechanisms, policies
from adaprivate.environments import environment
from adaprivate.mechanisms import Secure, packing
from adaprivate.mechanisms.channels import FLIP, GAUSSIAN, ITEMS, KEPT_BY, NOWHERE, ChannelPlan
from adaprivate.mechanisms.plan import BatchPlan, Epoch, RewardPlan
from adaprivate.mechanisms.plan_base import NOTHING_KEPT, SUMS_KEPT
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.ledger import UserLedgerUnit
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.simulation import run_all

STEPS = 6
every_strategy = pytest.mark.parametrize("name", mechanisms.strategies())


class Same(Secure):
    """Noise such that every release is 0, whatever the rewards were."""

    def gaussian(self, values, scale):
        return np.zeros(np.shape(values))


def stream(changed=None):
    found = np.full((STEPS, 2), 2**20, dtype=object)
    if changed is not None:
        found[changed] += 1
    return found


def states(strategy, increments):
    """The private part of the state after every step."""
    state, found = strategy.start(2, True), []
    for step, increment in enumerate(increments):
        _, state = strategy.encode(state, step, increment)
        found.append(packing.to_bytes(list(state)))
    return found


@every_strategy
def test_a_state_holds_no_more_released_batches_than_it_says(name):
    strategy = mechanisms.strategy(name, STEPS)
    plain = states(strategy, stream())
    ages = {
        step - batch
        for batch in range(STEPS)
        for step, (one, other) in enumerate(zip(plain, states(strategy, stream(batch)), strict=True))
        if one != other and step < STEPS - 1
    }
    assert len(ages) <= strategy.kept
    assert ages == {*range(strategy.kept)}, "and so many indeed"


def test_a_band_is_forgotten_earlier():
    from adaprivate.mechanisms.toeplitz import Banded

    strategy = Banded(STEPS, bands=2)
    assert strategy.kept == 2
    plain, other = states(strategy, stream()), states(strategy, stream(1))
    assert [one != two for one, two in zip(plain, other, strict=True)] == [False, True, True, False, False, False]


def planned(name, **options):
    """Two epochs of three batches of two rounds."""
    epochs = tuple(Epoch(first, first + 3, mechanisms.strategy(name, 3)) for first in (0, 3))
    made = {"delta": 1e-5, "dimension": 2, "ends": (2, 4, 6, 8, 10, 12), "noise_multiplier": 3.0, "epochs": epochs}
    return BatchPlan(**made, decoded=False, **options) if mechanisms.strategy(name, 3).rows == 3 else BatchPlan(**made)


def lives(plan, rewards, **more):
    """What the book is after every release, by the round."""
    book, found = plan.book(Same()), {}
    for number, reward in enumerate(rewards):
        book.add(Event(number, np.array([0.6, 0.8]), reward, number % 3 if plan.unit.needs_user else None, **more))
        while book.due:
            _, book = book.close()
            found[number + 1] = book.to_bytes()
    return found


@every_strategy
def test_a_book_keeps_what_its_plan_says(name):
    plan = planned(name)
    ones, zeros = lives(plan, [1.0] * 12), lives(plan, [0.0] * 12)
    differ = [number for number, book in ones.items() if book != zeros[number]]
    if plan.retention == NOTHING_KEPT:
        assert differ == []
    else:
        assert plan.retention == (
            f"The exact sums of each released batch are kept until the release after round 6 or 12. {SUMS_KEPT}"
        )
        assert differ == [2, 4, 8, 10], "at the end of an epoch they are gone"


def test_an_epoch_of_two_batches_keeps_the_first():
    options = {"dimension": 2, "ends": (2, 4), "epochs": (Epoch(0, 2, mechanisms.strategy("sqrt", 2)),), "decoded": False}
    plan = BatchPlan(delta=1e-5, noise_multiplier=3.0, **options)
    ones, zeros = lives(plan, [1.0] * 4), lives(plan, [0.0] * 4)
    assert [number for number, book in ones.items() if book != zeros[number]] == [2]
    assert plan.retention == f"The exact sums of each released batch are kept until the release after round 4. {SUMS_KEPT}"


@pytest.mark.parametrize("unit", [UserLedgerUnit(3), UserUnit(batches=3, clip=0.5)], ids=["ledger", "clip"])
@pytest.mark.parametrize("name", ["independent", "sqrt"])
def test_a_book_of_people_keeps_no_more(name, unit):
    epoch = Epoch(0, 3, mechanisms.strategy(name, 3))
    options = {"dimension": 2, "ends": (4, 8, 12), "noise_multiplier": 3.0, "epochs": (epoch,)}
    plan = BatchPlan(delta=1e-5, unit=unit, centre=0.5, **options)
    ones, zeros = lives(plan, [1.0] * 12), lives(plan, [0.0] * 12)
    differ = [number for number, book in ones.items() if book != zeros[number]]
    assert differ == ([] if plan.retention == NOTHING_KEPT else [4, 8])


def test_a_book_of_channels_keeps_the_same():
    sums = planned("sqrt")
    made = {"epsilon": 1.0, "delta": 1e-5, "channels": (FLIP, GAUSSIAN, ITEMS), "noise_multiplier": 3.0, "sums": sums}
    plan = ChannelPlan(**made)
    assert plan.retention == f"{KEPT_BY[FLIP]} {sums.retention} {KEPT_BY[ITEMS]}"
    ones, zeros = (lives(plan, [value] * 12, channel=GAUSSIAN) for value in (1.0, 0.0))
    assert [number for number, book in ones.items() if book != zeros[number]] == [2, 4, 8, 10]
    for end in (6, 12):
        plan.book(Same()).from_bytes(ones[end], plan, Same())  # reads what it wrote
    chosen = ChannelPlan(**(made | {"sums": None, "choice": {"channel": ITEMS}}))
    assert chosen.retention == KEPT_BY[ITEMS]


def test_a_book_stored_before_sums_were_dropped_is_read():
    plan = planned("sqrt")
    book = plan.book(Same())
    for number in range(6):
        book.add(Event(number, np.array([0.6, 0.8]), 1.0))
        while book.due:
            before, (_, book) = book, book.close()
    stored = packing.from_bytes(book.to_bytes())
    assert stored["stream"] is None
    _, mechanism = before._mechanism()
    mechanism.release(before._collector.copy())
    old = plan.book(Same()).from_bytes(packing.to_bytes(stored | {"stream": mechanism.state}), plan, Same())
    assert old.to_bytes() == book.to_bytes(), "and what it held beyond need is gone"


def test_items_and_flips_keep_what_they_say():
    """Of what was released nothing; an item's rewards until its sum goes out."""
    plan = ChannelPlan(epsilon=1.0, delta=0.0, channels=(FLIP, ITEMS))
    assert plan.retention == f"{KEPT_BY[FLIP]} {KEPT_BY[ITEMS]}"

    def life(rewards):
        book, found = plan.book(Secure()), []
        for number, reward in enumerate(rewards):
            told = {"channel": ITEMS, "block": 0, "closes": number == 2} if number < 4 else {"channel": NOWHERE}
            book.add(Event(number, np.ones(1), reward, **told))
            while book.due:
                _, book = book.close()
            found.append(book.to_bytes())
        return found

    one, other = life([1.0, 1.0, 1.0, 1.0, 1.0]), life([0.0, 0.0, 0.0, 0.0, 0.0])
    assert [a != b for a, b in zip(one, other, strict=True)] == [True, True, False, True, True]
    told = RewardPlan(delta=0.0, law=plan.flip_law)
    for reward in (0.0, 1.0):
        book = told.book(Secure())
        book.add(Event(0, np.ones(1), reward))
        _, book = book.close()
        assert packing.from_bytes(book.to_bytes()) == {"round": 1, "batch": 1, "told": None}


def settings(name="noise-aware", **options):
    return policies.settings(name, {"dimension": 3, "rounds": 2000, **options})


def test_policies_say_what_they_will_keep_before_their_plan_is_settled():
    kept = f"The exact sums of released batches are kept until round 2000. {SUMS_KEPT}"
    assert settings(channel="gaussian").retention == kept
    assert settings(unit="user").retention == kept
    assert settings(channel="gaussian", noise="independent").retention == NOTHING_KEPT
    assert settings(channel="flip").retention == KEPT_BY[FLIP]
    undecided = settings().retention
    assert undecided.startswith("After the first 15 rounds the policy chooses a channel")
    assert all(one in undecided for one in (kept, *KEPT_BY.values()))
    assert settings("adaprivate-ts").retention == NOTHING_KEPT
    assert settings("linucb").retention == ""


@pytest.mark.parametrize("noise", ["informative", "independent"])
def test_the_learned_share_that_is_foreseen_is_reached(noise):
    """Six seeds: the standard error is about .003, a wrong formula would be off by .05 and more."""
    world = environment("synthetic", {"arms": 0, "dimension": 5})
    made = settings(dimension=5, rounds=10_000, channel="gaussian", noise=noise)
    reached = np.mean([run.learned_share for run in run_all([made], world, [*range(6)], jobs=1)[0]])
    assert made.foreseen_share(noise) == pytest.approx(reached, abs=0.025)
