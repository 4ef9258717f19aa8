"""People by their numbers, and the first few rewards of each told: what is counted, and what it costs together."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated, units
from adaprivate.mechanisms.book import Told
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse, split
from adaprivate.mechanisms.plan import RewardPlan, plan_from_bytes
from adaprivate.mechanisms.units import Event, EventUnit
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.mechanisms.units.visits import UserVisitsUnit
from adaprivate.people.visits import VisitCount
from adaprivate.testing.books import distance, open_noise

K = 3


def plan(epsilon=2.0, visits=K):
    law = RandomisedResponse(split(epsilon, visits))
    return RewardPlan(delta=0.0, law=law, centre=0.5, unit=UserVisitsUnit(visits))


def told(made, people, rewards, source=None):
    """What is released of every round, and the book after the last."""
    book, released = made.book(source or Secure()), []
    for number, (person, reward) in enumerate(zip(people, rewards, strict=True)):
        book.add(Event(number, np.ones(2), reward, person))
        release, book = book.close()
        released.append(float(release.values[0]))
    return released, book


def test_the_first_visits_of_each_count_whoever_else_comes():
    count, seen = VisitCount(K), {}
    rng = np.random.default_rng(0)
    people = [int(p) << 40 for p in rng.zipf(1.4, 3000) % 700]  # more than there is room for at first
    for number, person in enumerate(people):
        seen[person] = seen.get(person, 0) + 1
        assert count.visit(number, person) is (seen[person] <= K)
        assert count.visit(number, person) is (seen[person] <= K)  # asked again, the same
    counted = sum(min(n, K) for n in seen.values())
    assert count.counts() == {"people": len(seen), "counted": counted, "beyond": len(people) - counted}
    assert count.arrays.visits.nbytes + count.arrays.numbers.nbytes + count.arrays.slots.nbytes < 60 * len(seen)
    with pytest.raises(InputError, match=r"round=5000 == 3000"):
        count.visit(5000, 1)


def test_a_count_is_restored_and_a_damaged_one_refused():
    count, twin = VisitCount(K), VisitCount(K)
    for number in range(90):
        count.visit(number, number % 40)
    twin.restore(count.state())
    for number in range(90, 200):
        assert twin.visit(number, number % 40) is count.visit(number, number % 40)
    faults = [
        ("visits", lambda a: a * 0),
        ("visits", lambda a: a + 1),
        ("numbers", lambda a: a * 0),
        ("numbers", lambda a: a[:-1]),
        ("visits", lambda a: a.astype(np.int64)),
    ]
    for name, fault in faults:
        state = count.state()
        state[name] = fault(state[name])
        with pytest.raises(InputError, match="state"):
            VisitCount(K).restore(state)
    for other in (None, {}, {"visits": 1}):
        with pytest.raises(InputError, match="state"):
            VisitCount(K).restore(other)
    with pytest.raises(InputError, match="state"):
        VisitCount(K + 1).restore(count.state())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 29.7])
@pytest.mark.parametrize("rewards", [1, 3, 7, 10, 49])
def test_parts_of_a_budget_add_up_to_no_more(epsilon, rewards):
    part = split(epsilon, rewards)
    assert Fraction(part) * rewards <= Fraction(epsilon)
    assert Fraction(math.nextafter(math.nextafter(part, 1e9), 1e9)) * rewards > Fraction(epsilon)
    price = RandomisedResponse(part).price(rewards)
    assert Fraction(part) * rewards <= Fraction(price.pure_epsilon) <= Fraction(epsilon)


def test_no_rewards_of_a_person_cost_more_than_their_budget():
    """Every pair of answers to five visits, of which three are told: the logarithm of the odds, summed over all flips."""
    made, people = plan(), [7, 1, 7, 7, 2, 7, 1, 7, 1, 1]
    mine = [n for n, person in enumerate(people) if person == 7]
    lives = {}
    for answers in itertools.product((0.0, 1.0), repeat=len(mine)):
        rewards = [1.0] * len(people)
        for place, answer in zip(mine, answers, strict=True):
            rewards[place] = answer
        with open_noise(silent=True) as seen:
            told(made, people, rewards)
        lives[answers] = list(seen)
        assert len(seen) == 3 + 3 + 1  # of seven three, of one three, of two the only one
    paid = made.price(exact_noise=True).pure_epsilon
    assert paid <= 2.0
    most = max(distance(one, two, pure=True) for one, two in itertools.combinations(lives.values(), 2))
    assert 0.999 * paid < most <= paid


def test_of_further_visits_nothing_is_told_whatever_was_answered():
    made = plan()
    people = [5] * 9
    for answers in ((0.0,) * 6, (1.0,) * 6, (0.3, 0.9, 0.0, 1.0, 0.5, 0.25)):
        for source in (Secure(), Simulated(3)):
            released, book = told(made, people, [1.0, 0.0, 1.0, *answers], source)
            assert released[K:] == [0.0] * 6
            assert all(value != 0.0 for value in released[:K])
    assert book.people == {"people": 1, "counted": 3, "beyond": 6}
    assert [float(book.weigh(9, person, np.ones(2))[0]) for person in (5,)] == [0.0]
    waiting = Told(made.law.told(1.0))  # flipped when it arrived, before it was known to come too late
    book.add(Event(9, np.ones(2), waiting, 5))
    assert book.close()[0].values.tolist() == [0.0]


def test_a_stored_book_goes_on_counting():
    made = plan()
    _, book = told(made, [5, 5, 6], [1.0, 1.0, 0.0])
    again = type(book).from_bytes(book.to_bytes(), plan_from_bytes(made.to_bytes()), Secure())
    for number, person, counts in ((3, 5, True), (4, 5, False), (5, 6, True), (6, 8, True)):
        again.add(Event(number, np.ones(2), 1.0, person))
        release, again = again.close()
        assert (float(release.values[0]) != 0.0) is counts
    assert plan_from_bytes(made.to_bytes()) == made
    assert again.people["counted"] == 6


def test_states_what_it_protects_and_refuses_what_it_cannot():
    made = plan(1.0, 4)
    statement = made.guarantee("any", exact_noise=True)
    assert (statement.unit, statement.delta, statement.exact) == ("user", 0.0, True)
    assert statement.epsilon == pytest.approx(1.0)
    assert privacy.CONDITIONS["user-visits"] in statement.enforced
    assert {privacy.CONDITIONS[c] for c in ("user-identity", "public-visits")} <= set(statement.assumptions)
    assert units.named("user-visits") is UserVisitsUnit
    event = RewardPlan(delta=0.0, law=RandomisedResponse(1.0))
    assert event.unit == EventUnit()
    assert event.guarantee("any").unit == "event"
    with pytest.raises(InputError, match=r"^Expected user to be given with every event"):
        made.book(Secure()).add(Event(0, np.ones(2), 1.0))
    with pytest.raises(InputError, match=r"unit='user' in \{event, user-visits\}"):
        RewardPlan(delta=0.0, law=RandomisedResponse(1.0), unit=UserUnit(2))
    with pytest.raises(InputError, match="told one by one"):
        UserVisitsUnit(2).collector(3, noise=Secure(), centre=0.0, shape=None)
    with pytest.raises(InputError, match="visits=0"):
        UserVisitsUnit(0)
    with pytest.raises(InputError, match="protects people, not RewardPlan"):
        event.book(Secure()).weigh(0, 1, np.ones(2))
