"""The service's core on both databases: rounds, batches, rewards, releases. No HTTP."""

import hashlib
import json
import shutil
import threading
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import sqlalchemy as sa
from tests.service.conftest import ITEMS, decide, made

from adaprivate import check
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.service import closing, reading, schema
from adaprivate.service.bandit import JOURNAL_KEPT
from adaprivate.service.core import Ask, BanditSpec
from adaprivate.service.faults import Fault
from adaprivate.service.packed import unpacked


class Recording(Secure):
    """Exact noise, remembered: for tests alone."""

    def __init__(self):
        self.drawn = []

    def gaussian(self, values, scale):
        noisy = super().gaussian(values, scale)
        pairs = zip(noisy.ravel(), np.asarray(values).ravel(), strict=True)
        exact = [Fraction(float(x)) - Fraction(int(v), 2**NOISE_BITS) for x, v in pairs]
        self.drawn.append(exact)
        return noisy


def rows(service, table, **where):
    with service.database.reading() as connection:
        query = sa.select(table)
        for name, value in where.items():
            query = query.where(table.c[name] == value)
        return connection.execute(query).all()


def released(service, batch, stream=0):
    (row,) = rows(service, schema.releases, batch=batch, stream=stream)
    arrays, plain = unpacked(row.data)
    return arrays["values"], plain["channels"]


def close_all(service):
    count = 0
    while done := service.close_due():
        count += done
    return count


def test_rounds_have_no_gaps_and_decisions_of_many_threads_are_all_there(service):
    made(service, rounds=10_000, batch_size=10_000)
    found = []

    def visitor():
        for _ in range(10):
            found.extend(decide(service, 3))

    threads = [threading.Thread(target=visitor) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.round for one in found) == [*range(180)]
    assert len({one.decision_id for one in found}) == 180
    assert service.status("page")["rounds"]["decided"] == 180


def test_a_batch_closes_when_its_rounds_are_there_and_its_window_has_passed(service, clock):
    made(service)
    decide(service, 9)
    clock.now += 1_000
    assert service.close_due() == 0  # a round is lacking
    decide(service, 1)
    assert service.close_due() == 0  # the window has not passed
    clock.now += 59.9
    assert service.close_due() == 0
    clock.now += 0.2
    assert service.close_due() == 1
    status = service.status("page")
    assert status["version"] == 1
    assert status["next_batch"]["start"] == 10
    assert decide(service, 1)[0].version == 1


def test_released_sums_less_their_noise_are_the_exact_sums_of_acknowledged_rewards(workers, clock):
    noise = Recording()
    service = workers(source=noise)
    made(service)
    rng = np.random.default_rng(1)
    total = [Fraction(0)] * 3
    for batch in range(6):
        decided = decide(service, 10)
        for one in decided:
            if rng.random() < 0.7:
                reward = bool(rng.random() < 0.5)
                assert service.reward([(one.decision_id, reward)]) == ["recorded"]
                total = [t + reward * Fraction(x) for t, x in zip(total, ITEMS[one.item], strict=True)]
        clock.now += 61
        assert service.close_due() == 1
        values, _ = released(service, batch)
        so_far = [sum(parts) for parts in zip(*noise.drawn, strict=True)]
        # 0.6, 0.8 are not multiples of 2^-20, to which exact sums truncate: at most one such step an event
        for value, drawn, exact in zip(values, so_far, total, strict=True):
            assert abs(Fraction(float(value)) - drawn - exact) <= Fraction(10 * (batch + 1), 2**20)
    assert len(noise.drawn) == 6


def test_rewards_are_told_apart(service, clock):
    made(service)
    one, other, *_ = decide(service, 10)
    assert service.reward([(one.decision_id, 1.0)]) == ["recorded"]
    assert service.reward([(one.decision_id, True)]) == ["duplicate"]
    assert service.reward([(one.decision_id, 0.5)]) == ["different"]
    both = [(other.decision_id, 0.0), (other.decision_id, 0.0), (other.decision_id, 1.0)]
    assert service.reward(both) == ["recorded", "duplicate", "different"]
    forged = other.decision_id[:-1] + ("0" if other.decision_id[-1] != "0" else "1")
    assert service.reward([(forged, 1.0), ("nonsense", 1.0)]) == ["unknown", "unknown"]
    clock.now += 61
    service.close_due()
    assert service.reward([(one.decision_id, 1.0), (one.decision_id, 0.0)]) == ["late", "late"]
    assert service.arrivals("page")["late"] == 1
    service.tidy()
    assert not rows(service, schema.rewards)  # used and deleted


@pytest.mark.parametrize("reward", [1.5, -0.1, float("nan"), float("inf"), "1", None, 10**400, [1]])
def test_a_reward_out_of_range_is_refused_without_repeating_it(service, reward):
    made(service)
    (one,) = decide(service, 1)
    with pytest.raises(check.InputError) as refusal:
        service.check_reward(one.decision_id, reward)
    assert "private and not repeated" in str(refusal.value)
    assert service.reward([(one.decision_id, 1.0)]) == ["recorded"]


def test_flipped_rewards_are_flipped_before_they_are_stored(service):
    made(service, policy="rr-linucb", epsilon=0.5, rounds=10_000, batch_size=4_000)
    decided = decide(service, 2_000)
    assert set(service.reward([(one.decision_id, True) for one in decided])) == {"recorded"}
    stored = rows(service, schema.rewards)
    assert all(row.told for row in stored)
    values = Counter(row.value for row in stored)
    assert len(values) == 2
    keep = 1 / (1 + np.exp(-0.5))
    truths = values[max(values)]
    # truths ~ Binomial(2000, keep); 5 standard deviations: false alarms below 1e-6
    assert abs(truths - 2_000 * keep) < 5 * np.sqrt(2_000 * keep * (1 - keep))
    assert service.reward([(decided[0].decision_id, False)]) == ["duplicate"]  # which it was nobody knows any more


def test_a_request_sent_twice_is_met_once(service, workers):
    made(service)
    asks = [service.check("page", Ask(["a", "b"])) for _ in range(3)]
    first = service.decide([("page", asks, "key-1")])[0]
    again = workers()
    assert again.decide([("page", [again.check("page", Ask(["a", "b"])) for _ in range(3)], "key-1")])[0] == first
    together = service.decide([("page", asks, "key-2"), ("page", asks, "key-2"), ("page", asks, None)])
    assert together[0] == together[1]
    assert together[2][0].round == together[0][0].round + 3
    assert service.status("page")["rounds"]["decided"] == 9
    with pytest.raises(Fault, match="same request") as refusal:
        service.decide([("page", asks[:1], "key-1")])
    assert refusal.value.kind == "different"


def test_two_workers_release_a_batch_once(workers, clock, monkeypatch):
    one, other = workers(), workers()
    made(one)
    decide(one, 10)
    clock.now += 61
    waits, goes = threading.Event(), threading.Event()
    really = closing._commit

    def slow(*arguments):
        if threading.current_thread().name == "slow":
            waits.set()
            assert goes.wait(30)
        return really(*arguments)

    monkeypatch.setattr(closing, "_commit", slow)
    results = []
    thread = threading.Thread(target=lambda: results.append(one.close_due()), name="slow")
    thread.start()
    assert waits.wait(30)
    assert other.close_due() == 0  # it is the other's for a while
    clock.now += closing.CLAIM + 0.1
    assert other.close_due() == 1  # that one may have died
    goes.set()
    thread.join()
    assert results == [0]  # what it drew was never written
    assert len(rows(one, schema.releases)) == len(rows(one, schema.ledger)) == 1
    assert decide(one, 1)[0].version == decide(other, 1)[0].version == 1


def test_a_worker_that_dies_while_it_closes_leaves_nothing_and_loses_nothing(workers, clock, monkeypatch):
    one, other = workers(), workers()
    made(one)
    decided = decide(one, 10)
    one.reward([(decided[0].decision_id, 1.0)])
    clock.now += 61

    class Death(BaseException):
        pass

    def die(*_):
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(closing, "_commit", die)
        with pytest.raises(Death):
            one.close_due()
    assert not rows(other, schema.releases)
    assert other.status("page")["version"] == 0
    assert other.reward([(decided[1].decision_id, 1.0)]) == ["late"]  # sealed is sealed: what is summed no longer changes
    clock.now += closing.CLAIM + 0.1
    assert other.close_due() == 1
    assert other.status("page")["version"] == 1


def test_nobody_sees_by_versions_and_times_whether_rewards_came(workers, clock):
    """The same decisions with all rewards, with none, and with others: every public moment is the same."""
    seen = []
    for kind in ("all", "none", "some"):
        service = workers()
        name = f"page-{kind}"
        made(service, name, rounds=10_000, policy="noise-aware", batch_size=None, holdback=0.2)
        moments = []
        start = clock.now
        for step in range(30):
            decided = decide(service, 7, name)
            sent = decided if kind == "all" else decided[::2] if kind == "some" else []
            service.reward([(one.decision_id, bool(step % 2)) for one in sent])
            clock.now += 31
            closed = close_all(service)
            status = service.status(name)
            ledger = rows(service, schema.ledger, bandit=service.room(name).bandit.id)
            times = [(r.stream, r.batch, r.start, r.end, r.due_at - start, r.released_at - start) for r in ledger]
            where = {**status["next_batch"], "closes_at": status["next_batch"]["closes_at"] and 0}
            moments.append((closed, status["version"], status["rounds"]["decided"], where, sorted(times)))
        seen.append([(c, v, d, w) for c, v, d, w, _ in moments])
        if kind == "all":
            holdback_differs = None
        holdback_differs = status["rounds"]["holdback"]
        assert holdback_differs > 0
    # which rounds are held back differs from bandit to bandit (keys of their own), and with it where batches end;
    # so moments are compared where there is no holdback, too
    plain = []
    for kind in ("all", "none"):
        service = workers()
        name = f"plain-{kind}"
        made(service, name, rounds=10_000, policy="noise-aware", batch_size=None, options={"channel": "gaussian"})
        start, moments = clock.now, []
        for _ in range(30):
            decided = decide(service, 7, name)
            if kind == "all":
                service.reward([(one.decision_id, True) for one in decided])
            clock.now += 31
            close_all(service)
            status = service.status(name)
            ledger = rows(service, schema.ledger, bandit=service.room(name).bandit.id)
            times = sorted((r.batch, r.start, r.end, r.due_at - start, r.released_at - start, r.releases) for r in ledger)
            moments.append((status["version"], status["rounds"], status["next_batch"]["end"], times))
        plain.append(moments)
    assert plain[0] == plain[1]
    assert plain[0][-1][0] > 3


def test_a_holdback_reward_enters_one_book(workers, clock, monkeypatch):
    service = workers()
    made(service, rounds=10_000, holdback=0.3, batch_size=20)
    entered = Counter()
    sums, items = closing.closed_policy, closing.closed_holdback

    def spy(compute):
        def watched(bandit, row, batch, visits, rewards, source, before):
            entered.update(visit.round for visit in visits)
            return compute(bandit, row, batch, visits, rewards, source, before)

        return watched

    monkeypatch.setattr(closing, "closed_policy", spy(sums))
    monkeypatch.setattr(closing, "closed_holdback", spy(items))
    streams = {}
    for _ in range(20):
        for one in decide(service, 25):
            streams[one.round] = one.holdback
            service.reward([(one.decision_id, True)])
        clock.now += 61
        close_all(service)
    assert set(entered.values()) == {1}
    assert len(entered) > 450
    held = sum(streams.values())
    assert abs(held - 150) < 5 * np.sqrt(500 * 0.3 * 0.7)  # false alarms below 1e-6
    series = service.series("page")
    last = series["holdback"][-1]["cumulative"]
    assert abs(last["mean"] - 1.0) < 3 * (last["high"] - last["low"]) / 2  # 5.9 standard deviations
    assert all(one.propensity >= 0.3 / 3 for one in decide(service, 50))


def test_the_holdback_is_tossed_once_for_a_person(service):
    made(service, policy="noise-aware", unit="user", holdback=0.4, batch_size=None, rounds=10_000)
    sides = {user: {one.holdback for one in decide(service, 3, user=f"user-{user}")} for user in range(60)}
    assert all(len(side) == 1 for side in sides.values())
    assert {True, False} == {side for one in sides.values() for side in one}


def test_users_are_stored_under_keyed_numbers_alone(service, tmp_path):
    made(service, policy="noise-aware", unit="user", batch_size=None)
    decide(service, 3, user="alice@example.org")
    for table in schema.metadata.sorted_tables:
        for row in rows(service, table):
            assert b"alice" not in repr(tuple(row)).encode()
    with pytest.raises(check.InputError, match="user to be given"):
        decide(service, 1)


def test_public_views_name_no_table_of_rewards(service, clock):
    made(service, holdback=0.2, policy="noise-aware", batch_size=None, rounds=1_000)
    for _ in range(5):
        service.reward([(one.decision_id, True) for one in decide(service, 20)])
        clock.now += 61
        close_all(service)
    statements = []
    sa.event.listen(service.database.engine, "before_cursor_execute", lambda *a: statements.append(a[2].lower()))
    service.status("page"), service.series("page"), service.bandits(), service.items("page"), service.refresh()
    decide(service, 2)
    assert statements
    named = [s for s in statements if "rewards" in s or " late" in s or "books.book" in s.split(" from ")[0]]
    assert not named
    service.arrivals("page")
    assert any("rewards" in s for s in statements)  # the watch would have seen it


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "Bad Name"}, "name='Bad Name' to be 1 to 64"),
        ({"epsilon": -1.0}, "epsilon=-1.0 > 0"),
        ({"policy": "thompson"}, "to take candidates"),
        ({"policy": "linucb"}, "not to be set|exact noise"),
        ({"policy": "noise-aware-joint"}, "public contexts|such option"),
        ({"policy": "jdp-linucb-gaussian"}, "exact noise"),
        ({"dimension": None}, "dimension to be given"),
        ({"dimension": 10_000}, "dimension=10000"),
        ({"holdback": 0.9}, "holdback=0.9"),
        ({"reward_window": -1.0}, "reward_window=-1.0"),
        ({"unit": "user", "policy": "adaprivate-ts"}, "unit='user' not to be set"),
        ({"options": {"nonsense": 1}}, "option='nonsense'"),
        ({"options": {"epsilon": 3.0}}, "not to repeat"),
        ({"policy": "adaprivate-ts", "rounds": 10**9, "batch_size": 1}, "at most 100000 batches"),
        ({"featuriser": {"nonsense": 1}}, "nonsense|featuriser"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(service, options, message):
    plain = {"name": "page", "dimension": 3, "rounds": 1_000}
    with pytest.raises(check.InputError, match=message):
        service.create(BanditSpec(**{**plain, **options}))
    assert service.bandits() == []
    service.create(BanditSpec(**plain))
    with pytest.raises(Fault, match="new"):
        service.create(BanditSpec(**plain))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (Ask(["a", "nothing"]), "'nothing' to be an item"),
        (Ask(["a", "a"]), "'a' to be there once"),
        (Ask([]), "len.candidates.=0"),
        (Ask([("x", [1.0, 2.0])]), "'x'.*3 numbers"),
        (Ask([("x", [1.0, 2.0, float("nan")])]), "'x'.*finite"),
        (Ask([("x", [1e300, 2.0, 0.0])]), "'x'.*finite"),
        (Ask(["a"], user="u"), "user not to be given"),
        (Ask(["a"], context={"hour": 3}), "no featuriser"),
    ],
)
def test_a_bad_ask_is_refused_and_takes_no_round(service, ask, message):
    made(service)
    with pytest.raises(check.InputError, match=message):
        service.check("page", ask)
    with pytest.raises(Fault, match="'nowhere' to exist"):
        service.check("nowhere", Ask(["a"]))
    assert decide(service, 1)[0].round == 0


def test_features_may_come_with_the_request_and_long_ones_are_clipped(service, clock):
    made(service)
    ask = service.check("page", Ask([("x", [3.0, 4.0, 0.0]), ("y", [0.1, 0.0, 0.0])]))
    decided = service.decide([("page", [ask] * 10, None)])[0]
    assert {one.item for one in decided} <= {"x", "y"}
    clock.now += 61
    assert service.close_due() == 1
    status = service.status("page")
    assert status["dropped"]["clipped"] == 10
    assert {item["id"] for item in service.series("page")["items"]} >= {one.item for one in decided}


def test_items_can_be_replaced_and_old_decisions_stay_readable(service, workers, clock):
    made(service)
    before = decide(service, 5)
    other = workers()
    service.put_items("page", {"a": [0.0, 0.0, 1.0], "z": [0.0, 1.0, 0.0]})
    found = {item["id"]: item["features"] for item in service.items("page")}
    assert found["a"] == [0.0, 0.0, 1.0]
    assert sum(found["z"]) == 1.0
    decided = [other.decide([("page", [other.check("page", Ask(["z", "a"]))], None)])[0][0] for _ in range(5)]
    assert {one.item for one in decided} <= {"z", "a"}
    clock.now += 61
    assert other.close_due() == 1
    assert {one.item for one in before} <= {"a", "b", "c"}
    assert service.default_item("page") == "a"


def test_a_paused_bandit_decides_nothing_and_still_closes(service, clock):
    made(service)
    decide(service, 10)
    service.pause("page")
    with pytest.raises(Fault) as refusal:
        decide(service, 1)
    assert (refusal.value.kind, refusal.value.extra["item"]) == ("paused", "a")
    clock.now += 61
    assert service.close_due() == 1
    service.resume("page")
    assert decide(service, 1)[0].round == 10


def test_a_database_that_was_rolled_back_halts_the_bandit(workers, clock):
    service = workers()
    made(service)
    decided = decide(service, 12)
    clock.now += 61
    assert service.close_due() == 1
    with service.database.writing() as connection:  # as a restored backup would have it
        connection.execute(schema.ledger.delete())
        connection.execute(schema.releases.delete())
        begun = closing.begun(service.room("page").bandit, 0, service.source)
        connection.execute(schema.books.update().values(**begun))
        connection.execute(schema.bandits.update().values(decided=11, policy_rounds=11))
    other = workers()
    assert other.close_due() == 0
    status = other.status("page")
    assert status["state"] == "halted"
    assert status["reason"].startswith("Batch 0 of the policy was published")
    with pytest.raises(Fault) as refusal:
        decide(other, 1)
    assert refusal.value.kind == "halted"
    assert not rows(other, schema.releases)
    assert other.reward([(decided[11].decision_id, 1.0)]) == ["lost"]


def test_one_bandit_that_cannot_be_closed_does_not_stop_the_others(service, clock, monkeypatch):
    for name in ("bad", "good"):
        made(service, name=name)
        decide(service, 20, name)
    clock.now += 61
    really, reports = closing.close, []

    def close(database, bandit, *others):
        if bandit.spec.name == "bad":
            raise RuntimeError("planted")
        return really(database, bandit, *others)

    monkeypatch.setattr(closing, "close", close)
    with pytest.raises(RuntimeError, match="planted"):
        service.close_due()
    service.report = lambda name, error: reports.append((name, type(error)))
    clock.now += 6
    close_all(service)
    assert [service.status(name)["version"] for name in ("bad", "good")] == [0, 2]
    assert service.status("bad")["next_batch"]["closes_at"] < clock.now, "an operator sees that it is overdue"
    tries = len(reports)
    for _ in range(10):
        service.close_due()
    assert len(reports) == tries, "it is tried again after a while, not at once"
    monkeypatch.undo()
    clock.now += 100
    close_all(service)
    assert service.status("bad")["version"] == 2
    assert reports == [("bad", RuntimeError)] * tries + [("bad", type(None))]


@pytest.mark.parametrize("keep", [False, True])
def test_rewards_that_no_batch_will_use_are_not_kept(service, clock, keep):
    """A plan that is over takes no more of them, and those that were there already go with its last batch."""
    made(service, policy="adaprivate-ts", rounds=20, batch_size=10, holdback=0.5, keep_rewards=keep)
    decided = decide(service, 120)
    assert {*service.reward([(one.decision_id, 1.0) for one in decided])} == {"recorded"}
    clock.now += 61
    close_all(service)
    service.tidy()
    assert service.status("page")["next_batch"]["end"] is None
    after = decide(service, 40)
    told = service.reward([(one.decision_id, 1.0) for one in after])
    with service.database.reading() as connection:
        left = {*connection.scalars(sa.select(schema.rewards.c.round))}
        closed = connection.scalar(sa.select(schema.books.c.closed_round).where(schema.books.c.stream == 1))
    streams = {one.round: one.holdback for one in [*decided, *after]}
    if keep:
        assert left == {*range(160)}
    else:
        assert left == {number for number, held in streams.items() if held and number >= closed}
        assert {answer for one, answer in zip(after, told, strict=True) if not one.holdback} == {"late"}


def test_that_a_reward_was_late_is_known_for_a_day(service, clock):
    made(service)
    decided = decide(service, 10)
    clock.now += 61
    close_all(service)
    assert service.reward([(decided[0].decision_id, 1.0)]) == ["late"]
    assert service.arrivals("page")["late"] == 1
    clock.now += 90_000
    service.tidy()
    assert service.arrivals("page")["late"] == 0


@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
def test_a_clock_that_was_ahead_delays_a_batch_by_a_window_at_most(service, clock, seen):
    """An hour ahead while the batch was filled, and right again; whether or not it was looked at meanwhile."""
    made(service)
    clock.now += 3_600
    decided = decide(service, 10)
    if seen:
        assert service.close_due() == 0
        assert service.status("page")["next_batch"]["closes_at"] == clock.now + 60
    clock.now -= 3_600
    assert service.close_due() == 0
    assert service.status("page")["next_batch"]["closes_at"] == clock.now + 60
    assert service.reward([(decided[0].decision_id, 1.0)]) == ["recorded"]
    clock.now += 59
    assert service.close_due() == 0
    clock.now += 2
    assert service.close_due() == 1
    (row,) = rows(service, schema.ledger)
    assert row.due_at <= row.released_at <= clock.now + 1


def test_a_pause_of_a_clock_that_was_ahead_holds_nobody_up(service, clock, monkeypatch):
    made(service)
    decide(service, 10)
    service.report = lambda *_: None
    clock.now += 3_600
    with monkeypatch.context() as patch:

        def close(*_):
            raise RuntimeError("planted")

        patch.setattr(closing, "close", close)
        assert service.close_due() == 0
    clock.now -= 3_600 - 61
    assert service.close_due() == 1


def test_a_claim_of_a_clock_that_was_ahead_holds_nobody_up(service, clock):
    made(service)
    decide(service, 10)
    clock.now += 61
    with service.database.writing() as connection:
        connection.execute(schema.books.update().values(claimed_until=clock.now + 86_400))
    assert service.close_due() == 1


def test_propensities_are_those_of_the_mixture(service):
    """Of a policy that draws nothing: the holdback's share, and all the rest for its own choice."""
    made(service, policy="rr-linucb", holdback=0.03)
    odds = [round(one.propensity, 12) for one in decide(service, 2_000)]
    assert {*odds} == {0.01, 0.98}


@pytest.mark.parametrize("view", ["status", "series"])
def test_what_is_shown_is_noted_before(service, clock, tmp_path, monkeypatch, view):
    """Of both streams: the journal knows of a release before anyone sees it, and without it nothing is shown."""
    made(service, holdback=0.5)
    decide(service, 60)
    clock.now += 61
    close_all(service)
    (bandit,) = rows(service, schema.bandits)
    shutil.rmtree(tmp_path / "journal")  # it has to be noted again
    really, seen = getattr(reading, view), []

    def watched(connection, room):
        seen.append(service.journal.known(bandit.uid).published)
        return really(connection, room)

    monkeypatch.setattr(reading, view, watched)
    getattr(service, view)("page")
    assert {stream: len(batches) for stream, batches in seen[0].items()} == Counter(
        row.stream for row in rows(service, schema.ledger)
    )
    assert seen[0][1], "a batch of the holdback is among them"
    shutil.rmtree(tmp_path / "journal")
    (tmp_path / "journal").write_text("no folder")
    with pytest.raises(Fault, match="journal"):
        getattr(service, view)("page")
    assert len(seen) == 1


def test_a_digest_covers_the_release_its_place_and_all_before(service, clock):
    made(service)
    for _ in range(3):
        decide(service, 10)
        clock.now += 61
        close_all(service)
    (bandit,) = rows(service, schema.bandits)
    before = ""
    for row in sorted(rows(service, schema.ledger), key=lambda row: row.batch):
        (release,) = rows(service, schema.releases, batch=row.batch)
        text = f"{before}:{bandit.uid}:0:{row.batch}:{row.start}:{row.end}:".encode()
        assert row.digest == hashlib.sha256(text + release.data).hexdigest()
        before = row.digest


@pytest.mark.parametrize("missing", [0.0, 1.0])
def test_missing_rewards_of_the_holdback_count_as_said(service, clock, missing):
    """At epsilon 25 the noise of a sum is zero but for one in e^24."""
    made(service, policy="noise-aware", epsilon=25.0, holdback=0.5, batch_size=None, options={"missing": missing})
    decided = decide(service, 200)
    liked = [one for one in decided if one.holdback][::4]
    service.reward([(one.decision_id, 1.0 - missing) for one in liked])
    clock.now += 61
    close_all(service)
    point = service.series("page")["holdback"][-1]
    counted = [one for one in decided if one.holdback][: point["rounds"][1]]
    share = sum(one in liked for one in counted) / len(counted)
    assert point["cumulative"]["mean"] == pytest.approx(share if missing == 0 else 1 - share, abs=1e-9)


@pytest.mark.parametrize("policy", ["noise-aware", "rr-linucb"])
def test_a_person_is_told_of_once_in_the_holdback(service, clock, policy):
    made(service, policy=policy, holdback=0.5, batch_size=None, unit="user", epsilon=0.8)
    people, told = {}, []
    for _ in range(6):
        decided = [one for user in range(20) for one in decide(service, 1, user=user)]
        people |= {one.round: user for user, one in enumerate(decided) if one.holdback}
        service.reward([(one.decision_id, 1.0) for one in decided])
        clock.now += 61
        close_all(service)
    for row in sorted(rows(service, schema.releases, stream=1), key=lambda row: row.batch):
        told += unpacked(row.data)[0]["values"].tolist()
    order = [people[number] for number in sorted(people)][: len(told)]
    assert len(order) > len({*order}), "somebody came back"
    assert Counter(who for who, value in zip(order, told, strict=True) if value != 0) == dict.fromkeys(order, 1)
    policy = json.loads(max(rows(service, schema.ledger, stream=0), key=lambda row: row.batch).summary)["people"]["beyond"]
    assert service.status("page")["dropped"]["visits_beyond"] == policy + len(order) - len({*order})


@pytest.mark.parametrize(
    "options", [{}, {"unit": "user"}, {"policy": "rr-linucb"}, {"policy": "adaprivate-ts", "batch_size": 10}]
)
def test_the_holdback_costs_no_more_than_the_policy(service, options):
    status = made(service, **{"policy": "noise-aware", "holdback": 0.5, "epsilon": 0.8, "batch_size": None, **options})
    (row,) = rows(service, schema.books, stream=1)
    price = plan_from_bytes(row.plan).price(exact_noise=True)
    assert price.epsilon(0.0) <= status["guarantee"]["epsilon"]


def test_the_holdback_chooses_evenly(service):
    made(service, rounds=10_000, batch_size=10_000, holdback=0.5)
    shown = Counter(one.item for one in decide(service, 6_000) if one.holdback)
    even = shown.total() / 3
    assert sum((shown[item] - even) ** 2 / even for item in "abc") < 32  # chi-square, 2 degrees: false alarms 1e-7


@pytest.mark.parametrize("policy", ["rr-linucb", "noise-aware"])
def test_an_estimate_counts_every_told_reward_once(service, clock, policy):
    """The weight of what was told, by which intervals shrink."""
    options = {} if policy == "rr-linucb" else {"channel": "flip"}
    made(service, policy=policy, options=options)
    for _ in range(4):
        service.reward([(one.decision_id, 1.0) for one in decide(service, 10)])
        clock.now += 61
        close_all(service)
    found = sorted(rows(service, schema.ledger), key=lambda row: row.batch)
    assert [json.loads(row.summary)["whole"][1] for row in found] == [row.end for row in found]


@pytest.mark.parametrize("came", [0, 4])
def test_an_estimate_counts_the_rewards_of_items_whether_or_not_they_came(service, clock, came):
    """Each round is in a sum that was released, or in one that waits."""
    made(service, policy="noise-aware", options={"channel": "items"}, epsilon=5.0)
    for _ in range(6):
        service.reward([(one.decision_id, 1.0) for one in decide(service, 10)[:came]])
        clock.now += 61
        close_all(service)
    last = max(rows(service, schema.ledger), key=lambda row: row.batch)
    (book,) = rows(service, schema.books)
    waiting = sum(count for _, _, count in packing.from_bytes(book.book)["blocks"])
    counted = json.loads(last.summary)["whole"][1]
    assert counted > 0
    assert counted + waiting == last.end


def test_people_have_other_names_in_every_bandit(service):
    for name in ("one", "other"):
        made(service, name, policy="noise-aware", unit="user", batch_size=None)
    people = [[service.check(name, Ask(["a"], user=f"u{k}")).person for k in range(50)] for name in ("one", "other")]
    assert len({*people[0], *people[1]}) == 100
    assert service.check("one", Ask(["a"], user="u7")).person == people[0][7]


def test_status_states_the_guarantee_and_what_it_rests_on(service):
    status = made(service, policy="noise-aware", epsilon=0.7, batch_size=None, holdback=0.1)
    assert status["guarantee"]["epsilon"] == pytest.approx(0.7)
    assert "0.7" in status["guarantee"]["sentence"]
    assert JOURNAL_KEPT in status["guarantee"]["assumptions"], "what the journal cannot see is not claimed"
    assert not any("released twice" in text for text in status["guarantee"]["enforced"])
    assert status["guarantee"]["void"] == []
    assert any("last closed batch" in note for note in status["notes"])
    json.dumps(status)
    json.dumps(service.series("page"))


@pytest.mark.parametrize("options", [{"unit": "user"}, {"options": {"channel": "gaussian"}}, {}])
def test_noise_aware_goes_on_when_its_rounds_are_over(service, clock, options):
    made(service, policy="noise-aware", rounds=60, batch_size=None, **options)
    user = 0
    for _ in range(40):
        for _ in range(4):
            user += 1
            decided = decide(service, 1, **({"user": user} if "unit" in options else {}))
            service.reward([(one.decision_id, True) for one in decided])
        clock.now += 61
        close_all(service)
    status = service.status("page")
    assert status["rounds"]["counted"] > 100
    assert status["next_batch"]["end"] > status["next_batch"]["start"]


def test_a_person_s_further_visits_to_the_holdback_do_not_widen_its_interval(service, clock):
    made(service, policy="noise-aware", unit="user", rounds=2_000, batch_size=None, holdback=0.5)
    widths = []
    for _ in range(20):
        asks = [service.check("page", Ask(["a", "b", "c"], user=user)) for user in range(60)]
        (decided,) = service.decide([("page", asks, None)])
        service.reward([(one.decision_id, True) for one in decided])
        clock.now += 61
        close_all(service)
        last = service.series("page")["holdback"][-1:]
        if last and last[0]["cumulative"]:
            widths.append(last[0]["cumulative"]["high"] - last[0]["cumulative"]["low"])
    assert len(widths) >= 5
    assert widths[-1] == pytest.approx(widths[2], rel=0.2)  # all of them came in the first turns


def test_a_void_condition_is_in_the_sentence_itself(service):
    made(service)
    with service.database.writing() as connection:
        connection.execute(schema.bandits.update().values(void=json.dumps(["no-replay: batch 0 may be released twice."])))
    service.refresh()
    guarantee = service.status("page")["guarantee"]
    assert guarantee["sentence"].startswith("VOID: no-replay: batch 0")
    assert guarantee["epsilon"] is guarantee["delta"] is guarantee["at_most"] is None
    assert not any("released twice" in text for text in guarantee["enforced"])


def test_what_is_deleted_is_overwritten(service):
    """So says SQLite itself, of every connection that the pool makes."""
    if service.database.kind == "sqlite":
        with service.database.engine.connect() as one, service.database.engine.connect() as other:
            assert [c.exec_driver_sql("PRAGMA secure_delete").scalar() for c in (one, other)] == [1, 1]
