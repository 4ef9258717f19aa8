"""Channels: whatever the public routing, every event enters exactly one release, and pays what its channel costs.

Exact draws come from the operating system and are not seeded: false alarms 1e-9 a test.
"""

import contextlib
import dataclasses
import itertools
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adaprivate import mechanisms, privacy
from adaprivate.check import InputError
from adaprivate.errors import NotEnteredError
from adaprivate.grid import LARGEST
from adaprivate.mechanisms import Secure, Shape, Simulated, channels, packing
from adaprivate.mechanisms.book import Told
from adaprivate.mechanisms.channels import ChannelBook, ChannelPlan
from adaprivate.mechanisms.contributions import Contribution
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import EVENT_BITS, NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, Epoch, plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.privacy import CONDITIONS, EitherPrice, GaussianPrice, PurePrice

FALSE_ALARM = 1e-9
D = 3
MULTIPLIER = 3.0
SOURCES = pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])


def rows(ends=(6, 9), strategy="independent", **options):
    epochs = (Epoch(0, len(ends), mechanisms.strategy(strategy, len(ends))),)
    fixed = {"delta": 1e-5, "dimension": D, "noise_multiplier": MULTIPLIER, "decoded": False}
    return BatchPlan(**{**fixed, "ends": ends, "epochs": epochs, **options})


def made(*names, **options):
    fixed = {"delta": 1e-5, "epsilon": 1.0, "noise_multiplier": MULTIPLIER}
    return ChannelPlan(**{**fixed, "channels": names or channels.CHANNELS, **options})


def vector(number, seed=0):
    x = np.random.default_rng([seed, number]).standard_normal(D)
    return 0.9 * x / np.linalg.norm(x)


def routed(number, route, reward):
    """A route is a channel's name, or (block, closes)."""
    where = {"channel": route} if isinstance(route, str) else {"channel": "items", "block": route[0], "closes": route[1]}
    return Event(number, vector(number), reward, **where)


def play(book, events, step=lambda book: book):
    """Add and close; the releases, and the last book. Between any two steps the book may be replaced by ``step``."""
    found = []
    for event in events:
        book = step(book)
        book.add(event)
        book = step(book)
        while book.due:
            release, book = book.close()
            found.append(release)
            book = step(book)
    return found, book


def flat(releases):
    return [(release.batch, release.channel, release.values.tolist()) for release in releases]


@contextlib.contextmanager
def silenced():
    """No noise: a flip tells the reward itself, a block its sum, a batch its row. Bits are not rounded at random."""

    def gaussian(self, values, scale):
        return np.asarray(values / 2**NOISE_BITS if self.exact else values, dtype=float)

    with contextlib.ExitStack() as stack:
        for kind, name, quiet in (
            (RandomisedResponse, "tell", lambda self, reward, source: reward),
            (DiscreteLaplace, "add", lambda self, total, source: total),
            (Secure, "gaussian", gaussian),
            (Simulated, "gaussian", gaussian),
        ):
            stack.enter_context(mock.patch.object(kind, name, quiet))
        yield


ROUTES = ["flip", (0, False), "gaussian", (1, True), (0, False), "gaussian", "flip", (0, True), "gaussian", (4, False)]
"""With sums from round 2 on: their batches end after rounds 6 (a flip) and 8 (an event of their own)."""
REWARDS = [1.0, 1.0, 0.75, 0.0, 1.0, 0.5, 0.0, 0.0, 0.25, 1.0]


def script(rewards=REWARDS):
    return [routed(number, route, reward) for number, (route, reward) in enumerate(zip(ROUTES, rewards, strict=True))]


def mixed(**options):
    return made(sums=rows((7, 9), centre=0.25), first=2, centre=0.25, **options)


# --- what is released -------------------------------------------------------------------------------------------------


@SOURCES
def test_releases_hold_what_their_channels_say(source):
    """Without noise, in order: flips at once, blocks when they close, batches at their public ends, flips before sums."""
    with silenced():
        releases, book = play(mixed().book(source), script())
    exact = Contribution(D, Secure(), 0.25, None)
    grid = {n: np.array([v / 2**EVENT_BITS for v in exact(vector(n), REWARDS[n])]) for n in (2, 5, 8)}
    plain = {n: (REWARDS[n] - 0.25) * vector(n) for n in (2, 5, 8)}
    sums = grid if source.exact else plain
    wanted = [
        (0, "flip", [0.75]),
        (1, "items", [0 - 0.25]),
        (2, "flip", [-0.25]),
        (3, "gaussian", sums[2] + sums[5]),
        (4, "items", [2 - 0.75]),
        (5, "gaussian", sums[8]),
    ]
    assert [release[:2] for release in flat(releases)] == [release[:2] for release in wanted]
    for release, (_, _, values) in zip(releases, wanted, strict=True):
        assert np.asarray(release.values) == pytest.approx(np.asarray(values), abs=1e-15)
    assert (book.round, book.batch, book.due) == (10, 6, False)
    assert book._blocks == {4: (1, 1)}


BLOCKS = ("flip", (0, False), (0, True), (1, False), (1, True))


def test_no_outcomes_odds_change_by_more_than_epsilon_whatever_the_routing():
    """All 125 routings of three events into flips and two blocks, all rewards, any one of them changed, in closed form.

    A flip of bit b is told as b with probability p, a block's sum s as y with probability ~ q^|y - s|; all releases are
    independent given what enters them, so that the worst outcome takes the worst of each.
    """
    epsilon = 0.8
    keep, q = RandomisedResponse(epsilon).keep, math.exp(-epsilon)
    worst = 0.0

    def odds(channel, one, other):
        if channel == "flip":
            return max(math.log((keep if y == one else 1 - keep) / (keep if y == other else 1 - keep)) for y in (0, 1))
        return max(math.log(q ** abs(y - one) / q ** abs(y - other)) for y in range(-5, 9))

    plan = made("flip", "items", epsilon=epsilon)
    with silenced():
        for routes in itertools.product(BLOCKS, repeat=3):
            entered = {}
            for bits in itertools.product((0, 1), repeat=3):
                events = [routed(n, route, float(bit)) for n, (route, bit) in enumerate(zip(routes, bits, strict=True))]
                releases, _ = play(plan.book(Secure()), events)
                entered[bits] = [(release.channel, release.values[0]) for release in releases]
            for bits, place in itertools.product(entered, range(3)):
                other = tuple(bit ^ (n == place) for n, bit in enumerate(bits))
                pairs = [*zip(entered[bits], entered[other], strict=True)]  # moments are the same
                assert all(one[0] == two[0] for one, two in pairs)
                loss = sum(odds(channel, one, two) for (channel, one), (_, two) in pairs)
                assert loss <= epsilon + 1e-9
                worst = max(worst, loss)
    assert worst == pytest.approx(epsilon)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    routes=st.lists(
        st.one_of(st.just("flip"), st.just("gaussian"), st.tuples(st.integers(0, 2), st.booleans())), max_size=14
    ),
    first=st.integers(0, 4),
    strategy=st.sampled_from(["independent", "sqrt"]),
)
def test_every_event_enters_exactly_one_release(routes, first, strategy):
    """Without noise, one reward of 1 among zeros is seen in one release, or for correlated rows along one column of C."""
    routes = ["flip" if route == "gaussian" and number < first else route for number, route in enumerate(routes)]
    plan = made(sums=rows((first + 3, first + 5, first + 6, first + 14), strategy), first=first)
    encoder = plan.sums.encoder()
    with silenced():
        for place, route in enumerate(routes):
            rewards = [float(number == place) for number in range(len(routes))]
            events = [routed(number, one, reward) for number, (one, reward) in enumerate(zip(routes, rewards, strict=True))]
            releases, book = play(plan.book(Secure()), events)
            seen = [release for release in releases if np.any(release.values != 0)]
            assert {release.channel for release in seen} <= {route if isinstance(route, str) else "items"}
            if route == "gaussian":
                batch = sum(end <= place for end in plan.sums.ends)
                sums = [release.values for release in releases if release.channel == "gaussian"]
                for number, values in enumerate(sums):
                    assert values == pytest.approx(encoder[number, batch] * vector(place), abs=1e-5)
            elif seen:
                (one,) = seen
                assert one.values.tolist() == [1.0]
            else:  # its block has not closed
                assert route != "flip"
                assert book._blocks[route[0]][0] == 1


@SOURCES
def test_flips_and_blocks_stand_around_the_truth_with_the_stated_noise(source):
    """Exact and simulated draws have the means and variances that learners are told of; false alarms 1e-9."""
    n, plan = 1500, made("flip", "items", centre=0.25)
    flips, blocks = [], []
    for _ in range(n):
        releases, _ = play(
            plan.book(source), [routed(0, "flip", 0.3), routed(1, (7, False), 1.0), routed(2, (7, True), 0.3)]
        )
        flips.append(releases[0].values[0])
        blocks.append(releases[1].values[0])
    law = plan.flip_law
    assert {*np.round(flips, 9)} == {round(law.told(bit) - 0.25, 9) for bit in (0.0, 1.0)}
    k = 2 * law.keep - 1
    wide = math.sqrt(0.21 + (1 / k**2 - 1) / 4), math.sqrt(0.21 + plan.items_law.variance)
    for values, mean, deviation in ((flips, 0.3 - 0.25, wide[0]), (blocks, 1.3 - 0.5, wide[1])):
        far = stats.norm.isf(FALSE_ALARM / 2) * deviation / math.sqrt(n)
        assert abs(np.mean(values) - mean) < far
        assert 0.8 < np.std(values) / deviation < 1.25  # six standard errors and more
    assert {value + 0.5 == int(value + 0.5) for value in blocks} == {True}


def test_gaussian_rows_are_those_of_the_sums_alone():
    """The same source gives, row for row, what a book of the sums gives that counts the same events from `first` on."""
    plan = made("gaussian", sums=rows((5, 8), "sqrt"), first=3)
    events = [routed(number, "gaussian", 0.5) for number in range(3, 8)]
    book = plan.book(Simulated(4))
    book.round = 3
    ours, _ = play(book, events)
    alone = plan.sums.book(Simulated(4))
    alone.round = 3
    theirs, _ = play(alone, events)
    assert [r.values.tolist() for r in ours] == [r.values.tolist() for r in theirs]
    assert len(ours) == 2


# --- refusals ---------------------------------------------------------------------------------------------------------


@SOURCES
@pytest.mark.parametrize(
    ("plan", "change", "message"),
    [
        (made("flip", "items"), {"channel": "gaussian"}, r"^Expected event\.channel='gaussian' in \{flip, items\}\.$"),
        (made(), {"channel": ""}, r"^Expected event\.channel='' in \{flip, items, gaussian\}\.$"),
        (made(), {"channel": "gaussian"}, r"^Expected event\.round=0 to come after sums began, for gaussian\.$"),
        (made(sums=rows(), first=1), {"channel": "gaussian"}, r"^Expected event\.round=0 to come after sums began"),
        (made(), {"channel": "flip", "closes": True}, r"^Expected event\.closes=True == False but for items\.$"),
        (made(sums=rows()), {"channel": "gaussian", "closes": True}, r"^Expected event\.closes=True == False but"),
        (made(), {"channel": "items"}, r"^Expected event\.block=-1 >= 0\.$"),
        (made(), {"channel": "items", "block": 0.0}, r"^Expected event\.block=0\.0 to be a whole number\.$"),
        (made(), {"channel": "items", "block": 1, "reward": 1.123456}, r"^Expected reward to be a number from 0 to 1"),
        (made(), {"channel": "flip", "reward": math.nan}, r"^Expected reward to be a number from 0 to 1"),
        (made("flip"), {"channel": "flip", "reward": -0.123456}, r"^Expected reward to be a number from 0 to 1"),
        (made(sums=rows()), {"channel": "gaussian", "features": np.zeros(D + 1)}, r"^Expected features\.shape=\(4,\)"),
        (made(), {"channel": "items", "block": 1, "reward": Told(0.123456)}, r"'items' == 'flip' for what was told"),
        (made(sums=rows()), {"channel": "gaussian", "reward": Told(0.123456)}, r"'gaussian' == 'flip' for what was told"),
    ],
)
def test_a_bad_event_is_refused_and_everything_is_as_it_was(source, plan, change, message):
    book = plan.book(source)
    before = book.to_bytes()
    with pytest.raises(InputError, match=message) as error:
        book.add(Event(0, vector(0), 0.123456)._replace(**change))
    assert "123456" not in str(error.value)
    assert book.to_bytes() == before
    assert not book.due
    book.add(routed(0, "flip", 1.0) if "flip" in plan.channels else routed(0, "gaussian", 1.0))


@SOURCES
def test_what_is_due_is_closed_before_the_next_round(source):
    for route in ("flip", (3, True)):
        book = made().book(source)
        with pytest.raises(InputError, match=r"^Expected round=0 to complete batch 0\.$"):
            book.close()
        book.add(routed(0, route, 1.0))
        before = book.to_bytes()
        with pytest.raises(InputError, match=r"^Expected batch=0 to be closed before the next round is counted\.$"):
            book.add(routed(1, "flip", 1.0))
        assert book.to_bytes() == before


@pytest.mark.parametrize("route", ["flip", (0, True), "gaussian"])
def test_closing_changes_nothing(route):
    """Closed twice: two releases with noise of their own, two books that share nothing, this one as it was."""
    plan = made(epsilon=0.01, sums=rows((3 if route == "gaussian" else 4, 6)))
    _, book = play(plan.book(Secure()), [routed(0, "gaussian", 1.0), routed(1, (0, False), 1.0)])
    book.add(routed(2, route, 1.0))
    before = book.to_bytes()
    (one, first), (two, second) = book.close(), book.close()
    assert book.to_bytes() == before
    assert one.batch == two.batch == 0
    if route != "flip":  # a flip has two outcomes only
        assert one.values.tolist() != two.values.tolist()
    more = first.to_bytes()
    second.add(routed(3, "gaussian", 1.0))  # in the middle of its batch, but where that was what closed
    third = second.close()[1] if second.due else second
    third.add(routed(4, (0, False), 1.0))
    assert first.to_bytes() == more
    assert book.to_bytes() == before


# --- rewards that wait, rewards that never come -----------------------------------------------------------------------


@SOURCES
def test_where_all_are_flipped_nobody_keeps_a_reward(source):
    plan = made("flip", centre=0.5)
    book = plan.book(source)
    waiting = book.arrived(0.123456789)
    assert book.tells
    assert type(waiting) is Told
    assert float(waiting) in (plan.flip_law.told(0.0), plan.flip_law.told(1.0))
    book.add(routed(0, "flip", waiting))
    again = ChannelBook.from_bytes(book.to_bytes(), plan, source)
    assert book.close()[0].values == again.close()[0].values == [float(waiting) - 0.5]
    after = book.close()[1]
    after.add(routed(1, "flip", 0.123456789))  # one that never came: its stand-in is flipped when it is counted
    assert after._parts()["reward"] is None
    assert type(after._flip) is Told
    assert "123456789" not in repr(packing.from_bytes(after.to_bytes()))


@SOURCES
@pytest.mark.parametrize("centre", [0.0, 0.3, 0.5])
def test_a_flip_has_two_outcomes_whatever_the_reward(source, centre):
    """Also of a reward that is the public center, or what stands in for one that never came."""
    for plan in (made("flip", centre=centre), made("flip", "items", centre=centre)):
        told = [plan.flip_law.told(bit) - centre for bit in (0.0, 1.0)]
        for reward in (0.0, centre, 0.5, 0.7, 1.0):
            for waits in (True, False):
                book = plan.book(source)
                book.add(routed(0, "flip", book.arrived(reward) if waits else reward))
                (value,) = book.close()[0].values.tolist()
                assert value in told


@SOURCES
def test_where_there_are_several_channels_a_reward_waits_for_its_own(source):
    book = made("flip", "items").book(source)
    assert not book.tells
    assert book.arrived(0.4) == 0.4
    assert type(book.arrived(0.4)) is float


def test_several_channels_draw_noise_in_close_alone():
    """So that whoever holds the lock around noise need not know the channel of an event before it is counted."""
    with mock.patch.object(RandomisedResponse, "tell", side_effect=AssertionError):
        book = made("flip", "items").book(Secure())
        book.add(routed(0, "flip", 1.0))
        with pytest.raises(AssertionError):
            book.close()


@SOURCES
def test_local_bits_are_told_as_they_are_and_all_else_is_refused(source):
    """The book draws nothing for a bit that arrives, and flips the stand-in of one that does not."""
    plan = made("flip", local=True, centre=0.25)
    book = plan.book(source)
    with mock.patch.object(RandomisedResponse, "tell", side_effect=AssertionError):
        for number, bit in enumerate((0, 1.0, True, np.bool_(False), np.float64(1.0))):
            waiting = book.arrived(bit)
            assert type(waiting) is Told
            book.add(routed(number, "flip", waiting))
            release, book = book.close()
            assert release.values.tolist() == [plan.flip_law.told(float(bit)) - 0.25]
        for wrong in (0.123456, 1.5, -1, math.nan, "1", None):
            with pytest.raises(InputError, match=r"^Expected reward to be a flipped bit, 0 or 1; it is private") as error:
                book.arrived(wrong)
            assert "123456" not in str(error.value)
        with pytest.raises(AssertionError):
            book.add(routed(5, "flip", 1.0))
    book.add(routed(6, "flip", 1.0))  # after an error that is no refusal nobody knows whether the event came in
    ones = 0
    for _ in range(3000):
        fresh = plan.book(source)
        fresh.add(routed(0, "flip", 1.0))
        ones += fresh.close()[0].values[0] > 0
    assert stats.binomtest(ones, 3000, plan.flip_law.keep).pvalue > FALSE_ALARM


@SOURCES
def test_moments_do_not_depend_on_rewards(source):
    """Neither on their values nor, through the stand-in that is counted for it, on whether one came."""
    moments = []
    for rewards in (REWARDS, [0.0] * 10, [1.0] * 10, [0.5] * 10):
        book, found = mixed().book(source), []
        for event in script(rewards):
            book.add(event)
            while book.due:
                release, book = book.close()
                found.append((event.round, release.batch, release.channel, len(release.values)))
        moments.append(found)
    assert all(one == moments[0] for one in moments)


# --- storing ----------------------------------------------------------------------------------------------------------


@SOURCES
@pytest.mark.parametrize("strategy", ["independent", "sqrt", "blt"])
def test_a_book_stored_between_any_two_steps_continues_alike(source, strategy):
    def crashed(book):
        plan = plan_from_bytes(book.plan.to_bytes())
        back = ChannelBook.from_bytes(book.to_bytes(), plan, source)
        assert back.to_bytes() == book.to_bytes()
        assert back.due == book.due
        return back

    plan = made(sums=rows((6, 7, 9), strategy, centre=0.25), first=2, centre=0.25)
    with silenced():
        whole, end = play(plan.book(source), script())
        again, last = play(plan.book(source), script(), crashed)
    assert flat(again) == flat(whole)
    assert len(whole) == 7
    assert last.to_bytes() == end.to_bytes()


def test_books_of_exact_noise_are_not_copied():
    import copy

    with pytest.raises(InputError, match="not to be copied"):
        copy.deepcopy(made().book(Secure()))
    copy.deepcopy(made().book(Simulated(0)))


def stored_book():
    """One with two blocks, two batches behind it, and sums that share noise with a batch to come."""
    plan = made(sums=rows((7, 9, 12), centre=0.25), first=2, centre=0.25)
    _, book = play(plan.book(Secure()), [*script()[:8], routed(8, (2, False), 1.0)][:9])
    return plan, book


HOSTILE = {
    "no parts": lambda s: {"round": 9, "batch": 5},
    "not a dict": lambda s: [1, 2],
    "told another": lambda s: {**s, "told": 0.123456},
    "told a text": lambda s: {**s, "told": "x"},
    "told and waiting": lambda s: {**s, "told": mixed().flip_law.told(1.0), "closing": 2},
    "reward beyond 1": lambda s: {**s, "reward": 7.0},
    "reward and closing": lambda s: {**s, "reward": 0.5, "closing": 2},
    "closing a text": lambda s: {**s, "closing": "2"},
    "closing nothing": lambda s: {**s, "closing": -2},
    "a block twice": lambda s: {**s, "blocks": [[2, 1, 1], [2, 0, 1]]},
    "a block below 0": lambda s: {**s, "blocks": [[-2, 1, 1]]},
    "a sum beyond its count": lambda s: {**s, "blocks": [[2, 5, 1]]},
    "a sum in parts": lambda s: {**s, "blocks": [[2, 0.5, 1]]},
    "a sum below 0": lambda s: {**s, "blocks": [[2, -1, 1]]},
    "a block of two": lambda s: {**s, "blocks": [[2, 1]]},
    "blocks a number": lambda s: {**s, "blocks": 3},
    "no sums": lambda s: {**s, "sums": None},
    "sums a list": lambda s: {**s, "sums": [1]},
    "a batch not released": lambda s: {**s, "sums": {**s["sums"], "batch": 0}},
    "a batch to come": lambda s: {**s, "sums": {**s["sums"], "batch": 3}},
    "a stream begun anew": lambda s: {**s, "sums": {**s["sums"], "stream": None}},
    "sums of floats": lambda s: {**s, "sums": {**s["sums"], "collector": np.zeros(D)}},
    "sums of another length": lambda s: {**s, "sums": {**s["sums"], "collector": np.array([1, 2], dtype=object)}},
    "a round below 0": lambda s: {**s, "round": -1},
    "a round long ago": lambda s: {**s, "round": 3},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(name):
    plan, book = stored_book()
    stored = packing.from_bytes(book.to_bytes())
    ChannelBook.from_bytes(packing.to_bytes(stored), plan, Secure())
    with pytest.raises(InputError) as error:
        ChannelBook.from_bytes(packing.to_bytes(HOSTILE[name](stored)), plan, Secure())
    assert "123456" not in str(error.value)


def test_a_stored_plan_is_the_same_plan():
    for plan in (
        made("flip"),
        made("flip", local=True, nominal_epsilon=0.5),
        made(choice={"n1": 20, "scores": [0.25, 0.5], "name": "items"}),
        mixed(),
        made(sums=rows((4, 6), "sqrt", direction=True, intercept=True, continues=True), first=1),
    ):
        back = plan_from_bytes(plan.to_bytes())
        assert type(back) is ChannelPlan
        assert back.to_bytes() == plan.to_bytes()
        for field in dataclasses.fields(plan):
            if field.name != "sums":
                assert getattr(back, field.name) == getattr(plan, field.name)
        assert (back.sums is None) == (plan.sums is None)
        for exact in (False, True):
            assert back.guarantee("x", exact_noise=exact) == plan.guarantee("x", exact_noise=exact)
    stored = packing.from_bytes(mixed().to_bytes())
    for wrong in (
        {**stored, "sums": "x"},
        {**stored, "sums": np.frombuffer(made("flip").to_bytes(), np.uint8)},
        {**stored, "channels": "flip"},
        {**stored, "more": 1},
        {name: value for name, value in stored.items() if name != "epsilon"},
    ):
        with pytest.raises(InputError):
            plan_from_bytes(packing.to_bytes(wrong))


# --- plans that follow ------------------------------------------------------------------------------------------------


@SOURCES
def test_sums_may_begin_later_and_channels_be_left(source):
    """From all channels with nothing planned, to fewer with sums: what was counted before is kept."""
    begun = [routed(0, (0, False), 1.0), routed(1, "flip", 1.0)]
    with silenced():
        _, book = play(made().book(source), begun)
        before = book.to_bytes()
        longer = made("gaussian", "items", sums=rows((4, 6)), first=3, choice={"n1": 3})
        after = book.extended(longer)
        assert book.to_bytes() == before
        assert (after.round, after.batch, after.plan) == (2, 1, longer)
        rest = [routed(2, (0, True), 1.0), routed(3, "gaussian", 1.0)]
        releases, last = play(after, rest)
    assert [(r.batch, r.channel) for r in releases] == [(1, "items"), (2, "gaussian")]
    assert releases[0].values.tolist() == [2.0]
    with pytest.raises(InputError, match=r"^Expected event\.channel='flip' in \{gaussian, items\}\.$"):
        last.add(routed(4, "flip", 1.0))


@SOURCES
def test_sums_may_be_replaced_until_something_of_them_is_released(source):
    """The events of the first batch are carried over; afterwards sums only go on as they were planned."""
    plan = made(sums=rows((6, 9)), first=2)
    other = made(sums=rows((6, 8, 12), "sqrt", continues=True, delta=1e-6), first=2)
    begun = [routed(n, "flip", 1.0) for n in range(2)] + [routed(n, "gaussian", 1.0) for n in range(2, 5)]
    with silenced():
        _, book = play(plan.book(source), begun)
        after = book.extended(other)
        releases, last = play(after, [routed(5, "gaussian", 1.0)])
        exact = Contribution(D, source, 0.0, None)
        sums = sum(exact(vector(n), 1.0) for n in range(2, 6)) / (2**EVENT_BITS if source.exact else 1)
        scale = other.sums.encoder()[0, 0]
        assert releases[0].values.astype(float) == pytest.approx(scale * sums.astype(float), abs=1e-12)
        for wrong in (plan, made(sums=rows((6, 8, 13), "sqrt", continues=True, delta=1e-6), first=2)):
            with pytest.raises(InputError, match=r"^Expected plan\.sums to go on as so far, or nothing to be released"):
                last.extended(wrong)
        epochs = (*other.sums.epochs, Epoch(3, 4, mechanisms.strategy("independent", 1)))
        longer = dataclasses.replace(
            other, sums=dataclasses.replace(other.sums, ends=(6, 8, 12, 15), epochs=epochs), choice={"n": 1}
        )
        on = last.extended(longer)
        assert (on.round, on.batch, on._sums.batch) == (6, last.batch, 1)
        rest, _ = play(on, [routed(n, "gaussian", 0.0) for n in range(6, 15)])
    assert [release.channel for release in rest] == ["gaussian"] * 3
    assert np.abs(rest[0].values).max() > 0.1  # the first batch enters the second row of C
    assert not rest[2].values.any()


SHAPE = Shape(np.diag([1.0, 2.0, 1.0]))


@SOURCES
@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (made(epsilon=1.5, sums=rows()), r"plan\.epsilon=1\.5 == 1\.0, as so far"),
        (made(delta=1e-6, sums=rows()), r"plan\.delta=1e-06 == 1e-05, as so far"),
        (made(centre=0.5, sums=rows(centre=0.5)), r"plan\.centre=0\.5 == 0\.0, as so far"),
        (made(noise_multiplier=2.0, sums=rows(noise_multiplier=2.0)), r"plan\.noise_multiplier=2\.0 == 3\.0, as so far"),
        (made("flip", "items"), r"with gaussian: in use"),
        (made("flip", "gaussian", sums=rows()), r"with items: in use"),
        (made(), r"plan\.sums to go on as so far"),
        (made(sums=rows((7, 9))), r"plan\.sums to go on as so far"),
        (made(sums=rows(dimension=4)), r"plan\.sums to go on as so far"),
        (made(sums=rows(intercept=True)), r"plan\.sums to go on as so far"),
        (made(sums=rows(direction=True)), r"plan\.sums to go on as so far"),
        (made(sums=rows(shape=SHAPE)), r"plan\.sums to go on as so far"),
        (made(sums=rows(shape=SHAPE, catalogue=True)), r"plan\.sums to go on as so far"),
        (made(sums=rows(), first=1), r"plan\.sums to go on as so far"),
        (rows(), r"plan=.* to be a ChannelPlan"),
    ],
)
def test_any_other_plan_is_refused(source, plan, message):
    """In the middle of the first batch, with a block open."""
    _, book = play(made(sums=rows()).book(source), [routed(0, (0, False), 1.0), routed(1, "gaussian", 1.0)])
    before = book.to_bytes()
    with pytest.raises(InputError, match=message):
        book.extended(plan)
    assert book.to_bytes() == before
    assert book.extended(made(sums=rows())).to_bytes() == before


@SOURCES
def test_channels_are_never_added_and_sums_never_begin_in_the_past(source):
    book = made("flip", "gaussian").book(source)
    with pytest.raises(InputError, match=r"^Expected plan\.channels=\('flip', 'items'\) to be among flip, gaussian\.$"):
        book.extended(made("flip", "items"))
    _, book = play(book, [routed(n, "flip", 1.0) for n in range(3)])
    with pytest.raises(InputError, match=r"^Expected plan\.first=2 >= 3, the next round, for sums that begin\.$"):
        book.extended(made("gaussian", sums=rows(), first=2))
    only = book.extended(made("flip"))
    assert only.tells
    with pytest.raises(InputError, match=r"plan\.local=True == False, as so far"):
        only.extended(made("flip", local=True))
    assert only.plan.guarantee("x").delta == 0  # true of all: none has entered sums


# --- what it costs, and what that rests on ----------------------------------------------------------------------------


def names_of(texts):
    return {name for name, text in CONDITIONS.items() if text in texts}


def test_without_gaussian_sums_the_guarantee_is_pure():
    for names in (("flip",), ("items",), ("flip", "items")):
        plan = made(*names, epsilon=0.7)
        assert plan.price(exact_noise=True) == PurePrice(0.7)
        statement = plan.guarantee("x", exact_noise=True)
        assert (statement.epsilon, statement.delta, statement.exact) == (0.7, 0.0, True)
        kept = {"reward-range", "one-channel", "released-schedule", "exact-noise", "secret-noise"}
        assert names_of(statement.enforced) == kept
        assert names_of(statement.assumptions) == {"public-features", "no-replay"}
    simulated = made("flip").guarantee("x")
    assert simulated.simulated
    assert {"exact-noise", "secret-noise"} <= names_of(simulated.assumptions)


def test_with_gaussian_sums_it_is_the_worse_of_both():
    multiplier = 1 / privacy.gdp_mu(1.0, 1e-5)
    plan = made(noise_multiplier=multiplier)
    assert plan.price() == EitherPrice((PurePrice(1.0), GaussianPrice(1 / multiplier)))
    statement = plan.guarantee("x", exact_noise=True)
    assert statement.epsilon == pytest.approx(1.0, rel=1e-9)
    assert statement.epsilon >= privacy.gdp_epsilon(1 / multiplier, 1e-5)
    assert (statement.delta, statement.exact) == (1e-5, True)
    assert {"feature-norm", "one-channel"} <= names_of(statement.enforced)
    assert made(noise_multiplier=multiplier / 2).guarantee("x").epsilon > 2
    assert made(noise_multiplier=multiplier * 2).guarantee("x").epsilon == PurePrice(1.0).epsilon(1e-5)
    alone = made("gaussian", noise_multiplier=2 * multiplier)  # what flipped before may have paid more
    assert alone.guarantee("x").epsilon == PurePrice(1.0).epsilon(1e-5)
    shaped = made(sums=rows(shape=SHAPE, catalogue=True))
    assert "catalogue" in names_of(shaped.guarantee("x", exact_noise=True).enforced)
    assert "feature-norm" not in names_of(made("flip", "items").guarantee("x").enforced)


def test_the_slack_of_exact_noise_is_paid_before_sums_are_known(monkeypatch):
    early, late = made(), made(sums=rows((6, 9), "sqrt"), first=1)
    assert early.price().slack == 0
    bound = early.price(exact_noise=True).slack
    assert bound == late.price(exact_noise=True).slack == Secure().slack(MULTIPLIER, channels.MOST_DRAWS)
    assert bound >= late.sums.price(exact_noise=True).slack > 0
    monkeypatch.setattr(channels, "MOST_DRAWS", 2)
    fresh = made(sums=rows((6, 9), "sqrt"), first=1)
    fresh.book(Simulated(0))
    for refused in (
        lambda: fresh.book(Secure()),
        lambda: fresh.guarantee("x", exact_noise=True),
        lambda: early.book(Secure()).extended(fresh),
    ):
        with pytest.raises(InputError, match=r"^Expected sums' slack=.* <= .*, which is paid for\.$"):
            refused()
    with pytest.raises(InputError, match=r"^Expected noise_multiplier=1e-09 large enough for noise of 2\^-20 or more\.$"):
        made(noise_multiplier=1e-9).book(Secure())


def test_local_flips_rest_on_the_client():
    """Neither that noise is exact nor that it is secret is claimed of draws that are made elsewhere."""
    statement = made("flip", local=True).guarantee("x", exact_noise=True)
    assert (statement.epsilon, statement.delta) == (1.0, 0.0)
    assert {"client-flip", "exact-noise", "secret-noise"} <= names_of(statement.assumptions)
    assert names_of(statement.enforced) == {"reward-range", "one-channel", "released-schedule"}
    assert "against whoever runs this software too" in statement.sentence
    assert "client-flip" not in names_of(made("flip").guarantee("x").assumptions)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: made(channels=()), "channels"),
        (lambda: made("flip", "flip"), "each once"),
        (lambda: made(channels=["flip"]), "to be a tuple"),
        (lambda: made("post"), r"channel='post' in \{flip, items, gaussian\}"),
        (lambda: made(epsilon=31.0), "epsilon=31"),
        (lambda: made(delta=0.0), "delta=0"),
        (lambda: made(centre=1.5), "centre=1.5"),
        (lambda: made(first=-1), "first=-1"),
        (lambda: made(noise_multiplier=0.0), "noise_multiplier=0"),
        (lambda: made("flip", "items", local=True), "where local"),
        (lambda: made("flip", sums=rows()), "to include gaussian"),
        (lambda: made(sums=rows(centre=0.5)), "centre and noise_multiplier"),
        (lambda: made(sums=rows(noise_multiplier=2.0)), "centre and noise_multiplier"),
        (lambda: made(sums=rows(decoded=True)), "to be rows of events"),
        (lambda: made(sums=rows(unit=UserUnit(1))), "to be rows of events"),
        (lambda: made(sums=rows(sampling_rate=0.5)), "to be rows of events"),
        (lambda: made(sums=rows(), first=6), "to rise from 7 or later"),
        (lambda: made(sums=rows((6, 6))), "to rise from 1 or later"),
        (lambda: made(sums=dataclasses.replace(rows(), ends=(6, 9, 12))), "to hold every batch once"),
    ],
)
def test_plans_that_could_not_be_kept_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_what_others_ask_of_a_plan():
    assert [made("flip").end_of(batch) for batch in range(3)] == [1, 2, 3]
    assert made("flip", "items").end_of(0) is None
    assert mixed().end_of(0) is None
    assert made().size == 1
    assert made(sums=rows(intercept=True)).size == D + 1


# --- features by their direction alone --------------------------------------------------------------------------------


def scaled_vectors():
    rng = np.random.default_rng(3)
    directions = rng.standard_normal((40, D))
    lengths = [1e-300, 1e-12, 0.01, 0.3, 1.0, 1 + 1e-12, 50.0, 1e300]
    return [length * x / np.linalg.norm(x) for x in directions for length in lengths]


SHAPED = Shape(np.diag([1.0, 0.5, 2.0, 1.0]) / math.sqrt(0.91) + np.diag([0.0, 0.0, 0.0, 2.0]))


def test_directions_have_norm_1_whatever_the_length():
    """f = (x / |x|, 1): what a book sums up is the same for a vector of any length, and zero stays zero."""
    plain, also = rows(direction=True), rows(direction=True, intercept=True)
    for x in scaled_vectors():
        unit = (x / np.abs(x).max()) / np.linalg.norm(x / np.abs(x).max())
        assert plain.event(x) == pytest.approx(unit, abs=1e-15)
        assert also.event(x) == pytest.approx([*unit, 1.0], abs=1e-15)
    assert plain.event(np.zeros(D)).tolist() == [0.0] * D
    assert also.event(np.zeros(D)).tolist() == [0.0] * D + [1.0]
    assert rows(intercept=True).event(0.5 * np.eye(D)[0]).tolist() == [0.5, 0.0, 0.0, 1.0]


def test_with_a_catalogue_the_whole_event_has_norm_1_where_the_noise_is_round():
    plan = rows(direction=True, intercept=True, shape=SHAPED, catalogue=True)
    for x in (0.01 * vector(1), vector(2), 3 * vector(3), np.zeros(D)):
        event = plan.event(x)
        assert np.linalg.norm(SHAPED.whiten(event)) == pytest.approx(1, abs=1e-14)
        assert event == pytest.approx(np.append(x, 1.0) * event[-1], rel=1e-12)
    bare = rows(direction=True, shape=SHAPE, catalogue=True)
    assert bare.event(np.zeros(D)).tolist() == [0.0] * D


@pytest.mark.parametrize(
    "options",
    [{}, {"shape": SHAPE}, {"shape": SHAPE, "catalogue": True}, {"intercept": True, "shape": SHAPED, "catalogue": True}],
    ids=["round", "shaped", "catalogue", "catalogue and intercept"],
)
def test_exact_contributions_of_directions_keep_their_bound_and_nothing_is_clipped(options):
    """One event's whole numbers have norm 2^20 at most, and almost that; scaling is not reported as clipping."""
    plan = rows(direction=True, **options)
    for source in (Secure(), Simulated(0)):
        collector = plan.collector(source)
        for x in scaled_vectors():
            before = collector.state()
            collector.count(Event(0, plan.event(x), 1.0))
            moved = collector.state() - before
            if source.exact:
                square = sum(int(entry) ** 2 for entry in moved)
                assert square <= 4**EVENT_BITS
            else:
                square = float(moved @ moved) * 4**EVENT_BITS
            if plan.catalogue or plan.shape is None:
                assert square >= (1 - 1e-5) * 4**EVENT_BITS
        assert collector.clipped == 0


def test_directions_cost_what_features_cost():
    plain, other = rows(), rows(direction=True)
    assert other.price(exact_noise=True) == plain.price(exact_noise=True)
    assert other.guarantee("x") == plain.guarantee("x")
    assert not plain.goes_on_in(other)
    assert plan_from_bytes(other.to_bytes()).direction is True
    releases = []
    with silenced():
        for length in (1.0, 0.01):
            book = other.book(Secure())
            found = []
            for number in range(6):
                book.add(Event(number, length * vector(number), 1.0))
                if book.due:
                    release, book = book.close()
                    found.append(release.values)
            releases.append(found)
    assert releases[0][0] == pytest.approx(releases[1][0], abs=1e-5)
    assert np.linalg.norm(releases[0][0]) > 0.1


# --- what enters sums without being asked -------------------------------------------------------------------------------


def test_no_round_enters_sums_by_the_short_way_before_they_begin_or_while_something_is_due():
    book = made("flip", "gaussian", sums=rows((9, 12)), first=4).book(Secure())

    def refused(number, until):
        with pytest.raises(InputError, match=rf"^Expected number={number} < {until}, the round that closes the batch\.$"):
            book.add_next(number, vector(number), 1.0)

    for number in range(4):
        assert (book.sums_until, book.takes_many(1)) == (0, False)
        refused(number, 0)
        book.add(routed(number, "flip", 1.0))
        _, book = book.close()
    assert (book.sums_until, book.takes_many(5), book.takes_many(6)) == (8, True, False)
    for number in (4, 5):
        book.add_next(number, vector(number), 1.0)
    book.add(routed(6, "flip", 1.0))
    refused(7, 0)
    _, book = book.close()
    book.add_next(7, vector(7), 1.0)
    refused(8, 8)
    book.add(routed(8, "gaussian", 1.0))
    assert book.due


@pytest.mark.parametrize("way", ["add", "add_next", "add_many"])
def test_an_event_that_sums_refuse_is_not_counted(way):
    """The sums are full: their refusal is the book's, and the round waits."""
    book = made("gaussian", sums=rows((7, 9)), first=0).book(Secure())
    book.add(routed(0, "gaussian", 1.0))
    whole = book._sums._collector._whole
    whole._sums.scalars["reached"] = LARGEST
    enter = {
        "add": lambda: book.add(routed(1, "gaussian", 1.0)),
        "add_next": lambda: book.add_next(1, vector(1), 1.0),
        "add_many": lambda: book.add_many(np.array([vector(n) for n in (1, 2, 3)]), np.ones(3)),
    }[way]
    for _ in range(2):
        with pytest.raises(NotEnteredError, match="more may not fit"):
            enter()
        assert book.round == 1
    whole._sums.scalars["reached"] = 0
    enter()
    assert book.round == (4 if way == "add_many" else 2)
