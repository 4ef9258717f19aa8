"""Sums in 64 bits are those in Python's integers, to the last bit; what does not fit is refused, and nothing wraps."""

import contextlib
import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaprivate.check import InputError
from adaprivate.grid import LARGEST, REWARD_BITS
from adaprivate.mechanisms import EventSum
from adaprivate.mechanisms.contributions import directed, whole_numbers_of
from adaprivate.mechanisms.noise import Secure, whole_numbers
from adaprivate.mechanisms.plan import BatchPlan, Shape
from adaprivate.mechanisms.units import Event
from adaprivate.whole import WholeSum

UNIT = 2**20
AFTER_1, BEFORE_1 = math.nextafter(1, 2), math.nextafter(1, 0)
EDGES = [0.0, 1.0, BEFORE_1, 2.0**-30, math.nextafter(2.0**-30, 0), 1 - 2.0**-30, math.nextafter(1 - 2.0**-30, 0), 5e-324]
entries = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, AFTER_1, BEFORE_1, -AFTER_1, 5e-324, -2.3e-308, 2.0**-20, BEFORE_1 * 2.0**-20]),
    st.floats(-1e308, 1e308),
)
rewards = st.one_of(st.floats(0, 1), st.sampled_from(EDGES))


def whole_row(x):
    """What is rounded and checked, in Python's integers and exact fractions."""
    row = [int(Fraction(v) * UNIT) for v in x.tolist()]
    while sum(v * v for v in row) > UNIT * UNIT:
        row = [v - (v > 0) + (v < 0) for v in row]
    return row


def towards_zero(product):
    return product >> REWARD_BITS if product >= 0 else -(-product >> REWARD_BITS)


@np.errstate(over="ignore")
def contributed(features, reward, centre=0.0, shape=None):
    """One event's contribution in Python's integers, and whether it was clipped."""
    x = features if shape is None else shape.whiten(features)
    norm = float(np.sqrt((x * x).sum()))
    x = x / norm if norm > 1 else x
    weight = math.floor(Fraction(reward) * 2**REWARD_BITS) - round(centre * 2**REWARD_BITS)
    return [towards_zero(weight * v) for v in whole_row(x)], norm > 1 + 1e-9


@settings(max_examples=400, deadline=None, derandomize=True)
@given(events=st.lists(st.tuples(st.lists(entries, min_size=3, max_size=3), rewards), max_size=8), centre=rewards)
def test_sums_are_those_of_pythons_integers(events, centre):
    sums, total, clipped = EventSum(3, noise=Secure(), centre=centre), [0, 0, 0], 0
    for features, reward in events:
        found, long = contributed(np.array(features), reward, centre)
        total, clipped = [one + other for one, other in zip(total, found, strict=True)], clipped + long
        sums.add(features, reward)
    assert sums.state().tolist() == total
    assert all(type(entry) is int for entry in sums.state())
    assert sums.clipped == clipped
    assert sums.take().tolist() == total
    assert sums.take().tolist() == [0, 0, 0]


def rows_of(rng, count, d):
    """Unit vectors, their neighbours, axes, vectors of one size, tiny and huge ones."""
    rows = rng.standard_normal((count, d))
    rows[::2] /= np.linalg.norm(rows[::2], axis=1, keepdims=True)
    rows[::3] *= AFTER_1
    rows[::5] = np.eye(d)[rng.integers(d, size=len(rows[::5]))] * rng.choice([1, -1, AFTER_1, BEFORE_1])
    rows[::7] = rng.choice([1 / math.sqrt(d), -1 / math.sqrt(d)], size=(len(rows[::7]), d))
    rows[::11] *= 10.0 ** rng.uniform(-320, 150, size=(len(rows[::11]), 1))
    return rows, np.where(rng.random(count) < 0.5, rng.random(count), rng.choice(EDGES, size=count))


@pytest.mark.parametrize("d", [*range(1, 26), 64, 127, 128, 129, 136, 200, 257, 300, 1031])
def test_norms_are_added_up_as_numpy_does_whatever_the_length(d):
    rng = np.random.default_rng(d)
    shapes = [None, Shape(np.diag(rng.uniform(0.3, 3, size=d)))] + ([Shape(np.tri(d) + np.eye(d))] if d < 40 else [])
    for shape in shapes:
        one, many = (EventSum(d, noise=Secure(), centre=0.03, shape=shape) for _ in range(2))
        total, clipped = np.zeros(d, dtype=object), 0
        rows, given = rows_of(rng, 60, d)
        for features, reward in zip(rows, given.tolist(), strict=True):
            found, long = contributed(features, reward, 0.03, shape)
            total, clipped = total + np.array(found, dtype=object), clipped + long
            one.add(features, reward)
        many.add_many(rows[:1], given[:1])
        many.add_many(rows[1:], given[1:])
        assert one.state().tolist() == many.state().tolist() == total.tolist()
        assert one.clipped == many.clipped == clipped


PLANS = [
    {},
    {"direction": True},
    {"direction": True, "intercept": True},
    {"intercept": True},
    {"direction": True, "intercept": True, "catalogue": True},
    {"direction": True, "catalogue": True},
    {"catalogue": True},
]


def planned(options, shape):
    d = 6 + bool(options.get("intercept"))
    roots = {None: None, "scaled": np.diag(np.linspace(0.4, 2.5, d)), "turned": np.tri(d) + np.eye(d)}
    made = None if roots[shape] is None else Shape(roots[shape])
    return BatchPlan(
        delta=1e-6, dimension=6, ends=(10_000,), noise_multiplier=1.0, epochs=(), centre=0.25, shape=made, **options
    )


@pytest.mark.parametrize("shape", [None, "scaled", "turned"])
@pytest.mark.parametrize("options", PLANS, ids=lambda o: "-".join(o) or "plain")
def test_books_enter_what_their_plan_makes_of_features(options, shape):
    """However a round comes in, the sum is that of the events that the plan makes, in Python's integers."""
    plan = planned(options, shape)
    rows, given = rows_of(np.random.default_rng(3), 200, 6)
    rows[::11] /= np.maximum(1, np.linalg.norm(rows[::11], axis=1, keepdims=True) / 3)
    rows[4] = 0.0
    books = [plan.book(Secure()) for _ in range(3)]
    total = np.zeros(plan.size, dtype=object)
    assert books[1].sums_until == (0 if shape == "turned" else 9_999)
    for number, (features, reward) in enumerate(zip(rows, given.tolist(), strict=True)):
        total = total + np.array(contributed(plan.event(features), reward, 0.25, plan.shape)[0], dtype=object)
        books[0].add(Event(number, features, reward))
        if shape == "turned":
            books[1].add(Event(number, features, reward))
        else:
            books[1].add_next(number, features, reward)
    assert books[2].takes_many(200) == (not plan.catalogue)
    if not plan.catalogue:
        books[2].add_many(rows, given)
    for book in books[: 2 if plan.catalogue else 3]:
        assert book._collector.state().tolist() == total.tolist()
        assert book.round == 200


def test_the_event_that_enters_is_the_directed_one():
    """The reference above is not what it tests: directions and constants are as written in the plan."""
    plan = planned(PLANS[2], None)
    event = plan.event(np.array([3.0, 0, 4, 0, 0, 0]))
    assert event.tolist() == [0.6, 0, 0.8, 0, 0, 0, 1]
    assert directed(np.zeros(3)).tolist() == [0, 0, 0]
    book = plan.book(Secure())
    book.add_next(0, np.array([3.0, 0, 4, 0, 0, 0]), 1.0)
    expected = [0.75 * v / math.sqrt(2) * UNIT for v in (0.6, 0, 0.8, 0, 0, 0, 1)]
    np.testing.assert_allclose(book._collector.state().astype(float), expected, atol=2)


def test_rows_of_whole_numbers_are_those_of_messages():
    rows, _ = rows_of(np.random.default_rng(8), 300, 9)
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    for row in rows:
        assert whole_numbers_of(row).tolist() == whole_row(row)


def test_long_sums_of_the_largest_events_are_exact():
    sums = WholeSum(2, 0)
    count = 200_000
    sums.enter_rows(np.tile([[1.0, 0.0], [-0.6, -0.8]], (count // 2, 1)), np.ones(count))
    part = contributed(np.array([-0.6, -0.8]), 1.0)[0]
    assert sums.values().tolist() == [count // 2 * (UNIT + part[0]), count // 2 * part[1]]


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_that_might_not_fit_are_refused_and_stay(sign):
    sums = EventSum(2, noise=Secure())
    room = LARGEST - 1 - 2 * UNIT
    sums.restore(np.array([sign * room, 0], dtype=object))
    for _ in range(2):
        sums.add([float(sign), 0.0], 1.0)
    assert sums.state().tolist() == [sign * (LARGEST - 1), 0]
    for reward in (0.0, 1.0):  # whatever the reward is, for that is private
        with pytest.raises(
            InputError, match=r"^Expected a sum of fewer than 2\^42 events: more may not fit exact noise\.$"
        ):
            sums.add([0.0, 0.0], reward)
        with pytest.raises(InputError, match=r"^Expected a sum of fewer"):
            sums.add_many(np.zeros((2, 2)), np.array([reward, 0.0]))
    assert sums.state().tolist() == [sign * (LARGEST - 1), 0]
    said = r"^Expected state to be whole numbers below 2\^62 in size; it is private and not repeated here\.$"
    for beyond in (LARGEST, LARGEST + 1, 2**70):
        with pytest.raises(InputError, match=said):
            sums.restore(np.array([sign * beyond, 0], dtype=object))
    assert sums.state().tolist() == [sign * (LARGEST - 1), 0]


@pytest.mark.parametrize(
    ("features", "reward", "message"),
    [
        ([0.1, math.nan], 0.5, r"^Expected features\[1\]=nan to be finite\.$"),
        ([math.inf, 0.2], 0.5, r"^Expected features\[0\]=inf to be finite\.$"),
        ([0.1, 0.2], math.nan, "not repeated here"),
        ([0.1, 0.2], AFTER_1, "not repeated here"),
        ([0.1, 0.2], -5e-324, "not repeated here"),
    ],
)
def test_what_is_no_event_is_refused_by_every_door(features, reward, message):
    sums = WholeSum(2, 0)
    sums.enter(np.array([0.5, 0.0]), 1.0)
    with pytest.raises(InputError, match=message):
        sums.enter(np.array(features), reward)
    with pytest.raises(InputError, match=message):
        sums.enter_rows(np.array([[0.5, 0.0], features, [0.5, 0.0]]), np.array([1.0, reward, 1.0]))
    with pytest.raises(InputError, match=message):
        sums.enter_rows(np.array([[3.0, 0.0], features]), np.array([1.0, reward]))
    assert sums.values().tolist() == [UNIT // 2, 0]
    assert sums.clipped == 0


def test_a_sum_that_was_taken_has_room_again():
    sums = WholeSum(2, 0)
    sums.restore(np.array([LARGEST - 1, 0], dtype=object))
    with pytest.raises(InputError, match="more may not fit"):
        sums.enter(np.array([0.5, 0.0]), 1.0)
    assert sums.take().tolist() == [LARGEST - 1, 0]
    sums.enter(np.array([0.5, 0.0]), 1.0)
    assert sums.values().tolist() == [UNIT // 2, 0]


def test_what_exact_noise_refuses_no_sum_reaches():
    """The largest numbers that a sum goes on from, and what they may become, are taken by the sampler."""
    for number in (LARGEST - 1, LARGEST - UNIT, LARGEST - 1 - UNIT):
        sums = WholeSum(1, 0)
        sums.restore(np.array([number], dtype=object))
        with contextlib.suppress(InputError):
            sums.enter(np.ones(1), 1.0)
        wanted = LARGEST - 1 if number == LARGEST - 1 - UNIT else number
        assert whole_numbers("sum", sums.values(), (1,)).tolist() == [wanted]


@pytest.mark.parametrize("state", [[0.5, 3], [True, 3], [12345678, "x"], [LARGEST, 12345678]])
def test_a_state_that_is_refused_is_not_repeated(state):
    sums = WholeSum(2, 0)
    with pytest.raises(InputError) as refused:
        sums.restore(np.array(state, dtype=object))
    assert "12345678" not in str(refused.value)
    assert str(LARGEST) not in str(refused.value)
    assert sums.values().tolist() == [0, 0]


def test_features_that_overflow_where_the_noise_is_round_are_refused():
    sums = EventSum(2, noise=Secure(), shape=Shape(np.diag([1e-11, 1.0])))
    with pytest.raises(InputError, match=r"^Expected features to be finite where the noise is round\.$"):
        sums.add([1e300, 0.0], 1.0)
    assert sums.state().tolist() == [0, 0]


@pytest.mark.parametrize("how", [lambda sums: sums.copy(), copy.deepcopy], ids=["copy", "deep"])
def test_copies_share_nothing(how):
    sums = WholeSum(2, 0, np.array([1.0, 2.0]))
    sums.enter(np.array([0.5, 0.0]), 1.0)
    twin = how(sums)
    twin.enter(np.array([0.25, 0.0]), 1.0)
    sums.enter(np.array([0.0, 0.25]), 1.0)
    assert sums.values().tolist() == [UNIT // 2, UNIT // 2]
    assert twin.values().tolist() == [3 * UNIT // 4, 0]
