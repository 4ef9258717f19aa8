"""Books and plans: every round enters once, closing changes nothing, and what is stored continues bit for bit."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from tests.reaching import reached

from adaprivate import mechanisms, policies, privacy
from adaprivate.check import InputError
from adaprivate.errors import NotEnteredError
from adaprivate.grid import LARGEST
from adaprivate.mechanisms import EventSum, Secure, Simulated, channels, noise
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.contributions import Contribution
from adaprivate.mechanisms.noise import COEFFICIENT_BITS, NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, Epoch, SamplingPlan, plan_from_bytes
from adaprivate.mechanisms.units import Event, EventUnit, Unit
from adaprivate.mechanisms.units.ledger import UserLedgerUnit
from adaprivate.whole import WholeSum

D = 3
STRATEGIES = ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"]


def made(strategy="sqrt", batches=4, size=3, **options):
    epochs = (Epoch(0, batches, mechanisms.strategy(strategy, batches)),)
    ends = tuple(range(size, size * batches + 1, size))
    return BatchPlan(**{"delta": 1e-5, "dimension": D, "ends": ends, "noise_multiplier": 3.0, "epochs": epochs, **options})


def events(count, seed=0):
    rng = np.random.default_rng([seed, 5])
    return [Event(t, 0.5 * rng.standard_normal(D), float(rng.uniform())) for t in range(count)]


class Captured:
    """Stands between the exact sampler and the sums: keeps every draw, in order."""

    def __init__(self, monkeypatch):
        self.draws = []
        sampler = noise._gaussian_sampler

        def kept(scale, size):
            draw = sampler(scale, size)

            def drawn(zeros):
                values = draw(zeros)
                self.draws.append(np.array([int(v) for v in values], dtype=object))
                return values

            return drawn

        monkeypatch.setattr(noise, "_gaussian_sampler", kept)


def integers(values):
    """Values of a release on the grid of exact noise, as whole numbers."""
    scaled = [float(v) * 2**NOISE_BITS for v in values]
    assert all(v == int(v) for v in scaled)
    return np.array([int(v) for v in scaled], dtype=object)


def play(book, some):
    """Add and close; the releases, and the last book."""
    found = []
    for event in some:
        book.add(event)
        if book.due:
            release, book = book.close()
            found.append(release)
    return found, book


# --- taking in --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_a_round_is_counted_once_and_in_order(source):
    book = made().book(source)
    first, second, *_ = events(4)
    book.add(first)
    before = book.to_bytes()
    for wrong in (first, second._replace(round=2), second._replace(round=-1), events(4)[3]):
        with pytest.raises(InputError, match=rf"^Expected event\.round={wrong.round} == 1, the next one\.$"):
            book.add(wrong)
        assert book.to_bytes() == before
    book.add(second)
    assert (book.round, book.batch, book.due) == (2, 0, False)


@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_a_full_batch_takes_no_more_and_an_unfinished_one_is_not_closed(source):
    book = made().book(source)
    some = events(4)
    for event in some[:3]:
        with pytest.raises(InputError, match=rf"^Expected round={book.round} to complete batch 0\.$"):
            book.close()
        book.add(event)
    assert book.due
    before = book.to_bytes()
    with pytest.raises(InputError, match=r"^Expected batch=0 to be closed before the next round is counted\.$"):
        book.add(some[3])
    assert book.to_bytes() == before
    release, book = book.close()
    assert release.batch == 0
    book.add(some[3])
    assert (book.round, book.batch) == (4, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"reward": 1.5},
            r"^Expected reward to be a number from 0 to 1, or a bool; it is private and not repeated here\.$",
        ),
        ({"reward": float("nan")}, r"^Expected reward to be a number"),
        ({"features": np.zeros(D + 1)}, r"^Expected features\.shape=\(4,\) == \(3,\)\.$"),
        ({"features": np.array([0.0, np.nan, 0.0])}, r"^Expected features\[1\]=nan to be finite\.$"),
    ],
)
@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_a_bad_event_is_refused_and_its_round_waits(source, change, message):
    book = made().book(source)
    before = book.to_bytes()
    with pytest.raises(InputError, match=message):
        book.add(events(1)[0]._replace(**change))
    assert book.to_bytes() == before
    book.add(events(1)[0])


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_only_the_book_s_own_sum_can_say_that_an_event_did_not_enter(monkeypatch, many):
    """Its round waits then; where another sum refuses something, in what interrupts, it is counted."""
    book, other = made().book(Secure()), made().book(Secure())
    rows, rewards = np.eye(D)[:1], np.ones(1)

    def enter():
        if many:
            book.add_many(rows, rewards)
        else:
            book.add_next(0, rows[0], 1.0)

    whole = book._collector._whole
    whole._sums.scalars["reached"] = LARGEST
    with pytest.raises(NotEnteredError, match="more may not fit"):
        enter()
    assert book.round == 0
    with pytest.raises(NotEnteredError, match="more may not fit"):
        book.add(events(1)[0])
    assert book.round == 0
    assert not whole.values().any()
    whole._sums.scalars["reached"] = 0

    other._collector._whole._sums.scalars["reached"] = LARGEST
    method = "enter_rows" if many else "enter"
    original = getattr(WholeSum, method)

    def interrupted(self, *arguments):
        original(self, *arguments)
        if self is whole:
            other.add(events(1)[0])

    monkeypatch.setattr(WholeSum, method, interrupted)
    with pytest.raises(NotEnteredError):
        enter()
    assert (book.round, other.round) == (1, 0)
    assert whole.values().any()


@pytest.mark.parametrize("way", ["add", "add_next", "add_many", "full"])
def test_a_refusal_leads_to_nothing_private(way):
    """Whoever logs an exception, its attributes or a pickle of it, has no sum and no reward."""
    book = made(size=6).book(Secure())
    book.add_next(0, np.eye(D)[0], 1.0)
    book.add_next(1, np.eye(D)[1], 0.7310585786300049)
    if way == "full":
        book._collector._whole._sums.scalars["reached"] = LARGEST
    bad = 1.0 if way == "full" else 1.7310585786300049
    enter = {
        "add": lambda: book.add(Event(2, np.eye(D)[0], bad)),
        "add_many": lambda: book.add_many(np.eye(D)[:1], np.array([bad])),
    }.get(way, lambda: book.add_next(2, np.eye(D)[0], bad))
    with pytest.raises(InputError) as refusal:
        enter()
    error = refusal.value
    for one in reached(error.args, vars(error), error.__cause__, error.__context__):
        assert isinstance(one, str | None | tuple | dict) or type(one) is object
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert "0.73" not in repr(error) + str(vars(again))
    assert book.round == 2


@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_events_after_the_last_batch_are_not_kept(source):
    plan = made(batches=2)
    some = events(10)
    _, book = play(plan.book(source), some[:6])
    assert (book.round, book.batch) == (6, 2)
    stored = book._parts()
    for event in some[6:]:
        book.add(event)
        assert not book.due
    assert book.round == 10
    assert not book._collector.state().any()
    assert str(book._parts()) == str(stored)
    with pytest.raises(InputError, match=r"^Expected round=10 to complete batch 2\.$"):
        book.close()


# --- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_closing_changes_nothing(strategy):
    """The same book closed twice: two releases with noise of their own, two books that follow, itself as it was."""
    some = events(6)
    _, book = play(made(strategy).book(Secure()), some[:3])
    for event in some[3:]:
        book.add(event)
    before = book.to_bytes()
    (one, first), (two, second) = book.close(), book.close()
    assert book.to_bytes() == before
    assert (book.round, book.batch, book.due) == (6, 1, True)
    assert one.batch == two.batch == 1
    assert not np.array_equal(one.values, two.values)
    assert (first.round, first.batch, first.due) == (second.round, second.batch, second.due) == (6, 2, False)
    assert not first._collector.state().any()
    more = first.to_bytes()
    second.add(Event(6, np.ones(D) / 2, 1.0))
    assert first.to_bytes() == more  # they share nothing
    assert book.to_bytes() == before


@pytest.mark.parametrize("twice", [False, True], ids=["closed once", "closed twice"])
def test_releases_less_their_noise_are_the_exact_sums(twice, monkeypatch):
    """Independent noise, captured: what is left of every release is the integer sum of its events, to the last bit."""
    captured = Captured(monkeypatch)
    some = events(12)
    contribution = Contribution(D, Secure(), 0.25, None)
    book = made("independent", centre=0.25).book(Secure())
    total, drawn = np.zeros(D, dtype=object), np.zeros(D, dtype=object)
    for event in some:
        book.add(event)
        total = total + contribution(event.features, event.reward)
        if book.due:
            captured.draws.clear()
            closed = [book.close() for _ in range(1 + twice)]
            for (release, _), draw in zip(closed, captured.draws, strict=True):
                exact = (total << COEFFICIENT_BITS) + drawn + draw
                assert integers(release.values).tolist() == exact.tolist()
            if twice:
                assert captured.draws[0].tolist() != captured.draws[1].tolist()
            drawn = drawn + captured.draws[-1]
            book = closed[-1][1]
    assert book.batch == 4


# --- storing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("place", [0, 2, 3, 4, 7, 11, 12])
def test_a_stored_book_continues_bit_for_bit(strategy, place, monkeypatch):
    """Stored at any round, in the middle of batches too: the same integers enter, and without noise the same come out."""
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))
    plan, some = made(strategy), events(12)
    whole, end = play(plan.book(Secure()), some)
    first, book = play(plan.book(Secure()), some[:place])
    data = book.to_bytes()
    back = type(book).from_bytes(data, plan_from_bytes(plan.to_bytes()), Secure())
    assert back.to_bytes() == data
    assert back._collector.state().tolist() == book._collector.state().tolist()
    assert all(type(v) is int for v in back._collector.state())
    rest, last = play(back, some[place:])
    assert [r.batch for r in first + rest] == [0, 1, 2, 3]
    for one, other in zip(whole, first + rest, strict=True):
        assert one.values.tolist() == other.values.tolist()
    assert last.to_bytes() == end.to_bytes()


def test_sums_beyond_all_floats_are_stored_whole():
    book = made().book(Secure())
    book.add(events(1)[0])
    book._collector.restore(book._collector.state() + 2**60 + 1)
    back = type(book).from_bytes(book.to_bytes(), book.plan, Secure())
    assert back._collector.state().tolist() == book._collector.state().tolist()
    assert max(back._collector.state()) > 2**60


@pytest.mark.parametrize(
    "data", [b"", b"hello", made().to_bytes()[:-3], made().to_bytes()], ids=["none", "text", "cut", "plan"]
)
def test_what_is_no_book_is_refused(data):
    plan = made()
    with pytest.raises(InputError, match=r"^Expected data"):
        type(plan.book(Secure())).from_bytes(data, plan, Secure())


def test_a_book_of_another_dimension_is_refused():
    plan, other = made(), made(dimension=D + 1)
    _, book = play(plan.book(Secure()), events(4))
    with pytest.raises(InputError, match=r"^Expected state\.shape=\(3,\) == \(4,\)\.$"):
        type(book).from_bytes(book.to_bytes(), other, Secure())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_exact_book_is_not_copied_and_a_simulated_one_is(copied):
    with pytest.raises(InputError, match=r"^Expected what holds exact noise not to be copied"):
        copied(made().book(Secure()))
    _, book = play(made().book(Simulated(0)), events(4))
    twin = copied(book)
    twin = pickle.loads(twin) if isinstance(twin, bytes) else twin
    assert twin.to_bytes() == book.to_bytes()


def same_plan(one, other):
    for field in dataclasses.fields(one):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        if field.name == "epochs":
            assert [epoch[:2] for epoch in mine] == [epoch[:2] for epoch in its]
            for a, b in zip(mine, its, strict=True):
                assert np.array_equal(a.strategy.matrix(), b.strategy.matrix())
                assert a.strategy.sensitivity() == b.strategy.sensitivity()
        elif field.name == "shape":
            assert (mine is None) == (its is None)
            assert mine is None or np.array_equal(mine.root, its.root)
        elif field.name == "sums" and mine is not None:
            same_plan(mine, its)
        else:
            assert mine == its, field.name
            assert type(mine) is type(its), field.name
    assert one.to_bytes() == other.to_bytes()
    for exact in (False, True):
        assert one.price(exact_noise=exact) == other.price(exact_noise=exact)
        assert one.guarantee("x", exact_noise=exact) == other.guarantee("x", exact_noise=exact)


ITEMS = ((0.9, 0.1, 0.0), (-0.5, 0.2, 0.1), (0.3, -0.1, 0.2))
PLANS = {
    **{name: lambda name=name: made(name) for name in STRATEGIES},
    "informative, intercept": lambda: chosen("noise-aware-greedy"),
    "informative, no intercept": lambda: chosen("noise-aware-ts", intercept=0.0),
    "informative, catalogue": lambda: chosen("noise-aware-ucb", catalogue=ITEMS, epsilon=0.3),
    "informative, epochs": lambda: chosen("noise-aware-greedy", horizon=30),
    "informative, memory": lambda: chosen("noise-aware-ts", memory=20.0, horizon=30),
    "sums before the choice": lambda: settled("noise-aware-greedy", channel="gaussian"),
    "channels before the choice": lambda: settled("noise-aware-greedy"),
    "flips": lambda: chosen("noise-aware-ts", channel="flip"),
    "local flips": lambda: chosen("noise-aware-ts", channel="flip", local=True),
    "items": lambda: chosen("noise-aware-ts", channel="items", epsilon=0.4, base_rate=0.1),
    "published": lambda: settled("adaprivate-ts", batch_size=7, centre=0.5, epsilon=0.7, delta=1e-7),
    "modified thompson": lambda: settled("modified-thompson", eta=0.5),
    "filtered thompson": lambda: settled("filtered-thompson"),
    "thompson": lambda: settled("thompson", rounds=30),
}


def settled(name, **options):
    return policies.settings(name, {"dimension": D, "rounds": 90, **options}).plan


def chosen(name, channel="gaussian", **options):
    """The plan of a noise-aware policy after its choice."""
    settings = policies.settings(name, {"dimension": D, "rounds": 90, "channel": channel, **options})
    plan = settings.extended(settings.learner()).plan
    assert plan.choice["channel"] == channel
    return plan


@pytest.mark.parametrize("name", PLANS)
def test_a_stored_plan_is_the_same_plan(name, monkeypatch):
    plan = PLANS[name]()
    data = plan.to_bytes()

    def refused(*args, **options):
        raise AssertionError("a stored plan is not fitted again")

    for kind in ("informative.Informative", "optimal.Optimal"):
        monkeypatch.setattr(f"adaprivate.mechanisms.{kind}.__init__", refused)
    back = plan_from_bytes(data)
    assert type(back) is type(plan)
    same_plan(plan, back)
    if isinstance(plan, BatchPlan):
        assert name in ("tree", "honaker") or np.array_equal(back.encoder(), plan.encoder())
        assert np.array_equal(back.noise_tables([3]), plan.noise_tables([3]))
    elif isinstance(plan, ChannelPlan):
        assert (plan.sums is not None) == (name.startswith(("informative", "sums")))
        if plan.sums is not None:
            kinds = {type(epoch.strategy).__name__ for epoch in plan.sums.epochs}
            assert kinds == ({"Informative"} if name.startswith("informative") else {"Independent"})
            assert np.array_equal(back.sums.encoder(), plan.sums.encoder())
            assert np.array_equal(back.sums.noise_tables([3]), plan.sums.noise_tables([3]))
        book = plan.book(Secure())
        for number in range(3):
            book.add(Event(number, np.eye(D)[1], 1.0, channel=plan.channels[-1], block=number % 2))
            while book.due:
                _, book = book.close()
        again = type(book).from_bytes(book.to_bytes(), back, Secure())
        assert again.to_bytes() == book.to_bytes()
        assert again.round == 3
    else:
        assert isinstance(plan, SamplingPlan)
        book = plan.book(Secure())
        book.add(Event(0, np.eye(D)[1], 0.5))
        again = type(book).from_bytes(book.to_bytes(), back, Secure())
        assert again._sampler.state().tolist() == book._sampler.state().tolist() == [[0, 2**19, 0], [0, 1, 0]]
        with pytest.raises(InputError, match="this one is seen through samples"):
            again.close()


def test_a_plan_that_refuses_exact_noise_still_refuses_it_when_stored():
    plan = settled("adaprivate-ts-amp", batch_size=10)
    back = plan_from_bytes(plan.to_bytes())
    assert (back.sampling_rate, back.sampling_exact, back.refusal) == (0.5, True, plan.refusal)
    assert back.price() == plan.price()
    for one in (plan, back):
        with pytest.raises(InputError, match=r"^Expected sampling_rate=0\.5 == 1 with exact noise\.$"):
            one.refuse_exact_noise("x")


@pytest.mark.parametrize("data", [b"", b"x", made().book(Secure()).to_bytes()], ids=["none", "text", "book"])
def test_what_is_no_plan_is_refused(data):
    with pytest.raises(InputError, match=r"^Expected data"):
        plan_from_bytes(data)


# --- units ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lasting(Unit):
    """A unit that enters up to three batches."""

    name: ClassVar[str] = "lasting"

    @property
    def participation(self):
        return privacy.users(1.0, 3, "replace")

    def collector(self, dimension, *, noise, centre, shape):
        return EventSum(dimension, noise=noise, centre=centre, shape=shape)


def test_a_unit_that_enters_several_batches_shares_one_mechanism():
    """Mechanisms of several epochs are priced as if each unit were in one of them only."""
    strategy = mechanisms.strategy("sqrt", 2)
    several = (Epoch(0, 2, strategy), Epoch(2, 4, strategy))
    with pytest.raises(InputError, match=r"^Expected epochs=2 <= 1 for a unit that enters several batches\.$"):
        made(unit=Lasting(), epochs=several)
    assert len(made(epochs=several).epochs) == 2
    plan = made(unit=Lasting())
    reach = plan.epochs[0].strategy.sensitivity(3, 1)
    once = made()
    assert plan.mechanism(plan.epochs[0], Simulated(0)).row_std == pytest.approx(3.0 * plan.participation.change * reach)
    assert plan.mechanism(plan.epochs[0], Simulated(0)).row_std > once.mechanism(once.epochs[0], Simulated(0)).row_std


@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_a_book_goes_on_under_a_plan_that_begins_alike(source):
    """A plan with more batches takes over the sums, in the middle of a batch and after the last one alike."""
    short, some = made(batches=2), events(13)
    strategy = short.epochs[0].strategy
    longer = made(batches=4, epochs=(Epoch(0, 2, strategy), Epoch(2, 4, mechanisms.strategy("sqrt", 2))))
    for place in (0, 2, 3, 4, 6):
        _, book = play(short.book(source), some[:place])
        sums, stream = book._collector.state().tolist(), str(book._stream)
        after = book.extended(longer)
        assert (after.round, after.batch, after.plan) == (place, book.batch, longer)
        assert after._collector.state().tolist() == sums
        assert str(after._stream) == stream
        releases, _ = play(after, some[place:])
        assert [release.batch for release in releases] == list(range(book.batch, 4))
        for other in (
            made(size=2),
            made(batches=1),
            made(batches=4, epochs=longer.epochs, noise_multiplier=2 * longer.noise_multiplier),
            made(batches=4, epochs=(Epoch(0, 2, mechanisms.strategy("independent", 2)), longer.epochs[1])),
        ):
            with pytest.raises(InputError, match=r"^Expected plan='another one' to begin like the plan so far, and pay as"):
                book.extended(other)
    with pytest.raises(InputError, match=r"^Expected a plan that can go on, not SamplingPlan\.$"):
        settled("thompson", rounds=30).book(Secure()).extended(settled("thompson", rounds=60))


@pytest.mark.parametrize("source", [Simulated(0), Secure()], ids=["simulated", "exact"])
def test_every_epoch_starts_anew(source):
    """Batches of the second epoch are running sums of its own."""
    strategy = mechanisms.strategy("sqrt", 2)
    plan = made(epochs=(Epoch(0, 2, strategy), Epoch(2, 4, strategy)), noise_multiplier=0.05)
    some = [Event(t, np.array([1.0, 0.0, 0.0]), 1.0) for t in range(12)]
    releases, book = play(plan.book(source), some)
    firsts = [release.values[0] for release in releases]
    assert np.abs(np.array(firsts) - [3, 6, 3, 6]).max() < 0.05 * 12
    back = type(book).from_bytes(book.to_bytes(), plan, source)
    assert back.to_bytes() == book.to_bytes()


def test_exact_noise_is_priced_with_what_its_grid_gives_away():
    plan = made()
    exact, ideal = plan.price(exact_noise=True), plan.price()
    assert ideal.slack == 0
    mechanism = plan.mechanism(plan.epochs[0], Secure())
    draws = mechanism.strategy.rows * mechanism.dimension
    assert exact.slack == Secure().slack(mechanism.row_std, draws) > 0


def test_the_slack_of_every_epoch_that_a_unit_may_enter_is_priced(monkeypatch):
    """A reward enters one epoch, and a person all of them: the total variation of all their draws adds up."""
    epochs = tuple(Epoch(k, k + 1, mechanisms.strategy("independent", 1)) for k in range(4))
    events, people = (made("independent", epochs=epochs, decoded=False, unit=u) for u in (EventUnit(), UserLedgerUnit(4)))
    one = Secure().slack(events.mechanism(epochs[0], Secure()).row_std, D)
    assert events.price(exact_noise=True).slack == pytest.approx(one, rel=1e-12)
    assert people.price(exact_noise=True).slack == pytest.approx(4 * one, rel=1e-12)
    assert people.price().slack == 0
    monkeypatch.setattr(channels, "MOST_DRAWS", 2 * D)  # enough for one epoch, and not for four
    asked = {"epsilon": 1.0, "delta": 1e-5, "channels": ("gaussian",), "noise_multiplier": 3.0}
    ChannelPlan(**asked, sums=events).book(Secure())
    with pytest.raises(InputError, match=r"^Expected sums' slack=.* <= .*, which is paid for\.$"):
        ChannelPlan(**asked, sums=people, unit=people.unit).book(Secure())


def test_several_rounds_that_are_refused_all_wait():
    book = made().book(Secure())
    book._collector._whole._sums.scalars["reached"] = LARGEST
    with pytest.raises(NotEnteredError, match="more may not fit"):
        book.add_many(0.5 * np.eye(D), np.ones(D))
    assert book.round == 0


def test_several_rounds_enter_up_to_the_end_of_their_batch():
    book = made(size=4).book(Secure())
    assert [count for count in range(1, 9) if book.takes_many(count)] == [1, 2, 3, 4]
    book.add(events(1)[0])
    assert [count for count in range(1, 9) if book.takes_many(count)] == [1, 2, 3]
    with pytest.raises(InputError, match=r"^Expected len\(features\)=4 to be rounds of one batch of sums\.$"):
        book.add_many(np.zeros((4, D)), np.ones(4))
    book.add_many(np.zeros((3, D)), np.ones(3))
    assert book.due
