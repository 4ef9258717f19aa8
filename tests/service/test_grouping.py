"""Group commit: what waits is stored together, a bad request fails alone, and nothing that was taken is lost."""

import asyncio
import io
import itertools
import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from adaprivate.check import InputError
from adaprivate.service import grouping
from adaprivate.service.faults import Fault
from adaprivate.service.grouping import BEAT, SLOT, Recurring, Writer
from adaprivate.service.observing import Log
from adaprivate.service.problems import Refusal


class Store:
    """Remembers what it was asked to store together; ``gate`` holds it up, ``bad`` is refused."""

    def __init__(self):
        self.calls, self.gate, self.bad = [], threading.Event(), {}
        self.gate.set()

    def _stored(self, kind, asked):
        self.gate.wait(20)
        self.calls.append((kind, list(asked)))
        for one in asked:
            if one[0] in self.bad:
                raise self.bad[one[0]]

    def decide(self, groups):
        self._stored("decide", groups)
        return [[f"{name} {ask}" for ask in asks] for name, asks, _ in groups]

    def reward(self, entries):
        self._stored("reward", entries)
        return [f"{token} {value}" for token, value in entries]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def written():
    return io.StringIO()


@pytest.fixture
def writer(store, written):
    found = Writer(store, Log(written), most_waiting=100, most_together=10)
    found.start()
    yield found
    store.gate.set()
    found.stop()


async def after(condition):
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


async def gathered(writer, store, *work):
    """The outcomes of what waits while the store is held up by an earlier request, so that it is one group."""
    store.gate.clear()
    first = asyncio.ensure_future(writer.decide("first", [0], None))
    await asyncio.sleep(0.05)
    waiting = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0)
    store.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    await first
    return found


def test_what_waits_is_stored_together(store, writer):
    async def main():
        work = [
            writer.decide("a", [1, 2], None),
            writer.reward([("x", 1), ("y", 0)]),
            writer.decide("b", [3], "key"),
            writer.reward([("z", 1)]),
        ]
        return await gathered(writer, store, *work)

    assert asyncio.run(main()) == [["a 1", "a 2"], ["x 1", "y 0"], ["b 3"], ["z 1"]]
    together = [("decide", [("a", [1, 2], None), ("b", [3], "key")]), ("reward", [("x", 1), ("y", 0), ("z", 1)])]
    assert sorted(store.calls[1:], key=str) == together


@pytest.mark.parametrize("error", [Fault("different", "Planted."), InputError("Expected planted."), KeyError("planted")])
def test_a_bad_request_fails_alone(store, writer, written, error):
    store.bad["bad"] = error
    decisions = [writer.decide(name, [1], None) for name in ("a", "bad", "c")]
    rewards = [writer.reward([(name, 1)]) for name in ("a", "bad", "c")]
    found = asyncio.run(gathered(writer, store, *decisions, *rewards))
    assert found == [["a 1"], error, ["c 1"], ["a 1"], error, ["c 1"]]
    assert ("KeyError" in written.getvalue()) == isinstance(error, KeyError), "mistakes of the program are noted by type"
    assert "planted" not in written.getvalue()


def test_without_a_database_all_are_told(store, writer):
    error = store.bad["b"] = Fault("unavailable", "Planted.")
    found = asyncio.run(gathered(writer, store, *(writer.decide(name, [1], None) for name in "abc")))
    assert found == [error] * 3
    assert [kind for kind, _ in store.calls] == ["decide", "decide"], "one try for all of them"


def test_a_database_that_goes_while_each_is_tried(store, writer):
    store.bad = {"b": Fault("different", "Planted."), "c": Fault("unavailable", "Planted.")}
    found = asyncio.run(gathered(writer, store, *(writer.decide(name, [1], None) for name in "abcd")))
    assert found == [["a 1"], store.bad["b"], store.bad["c"], store.bad["c"]]


def test_queues_are_bounded_each_by_itself(store, writer):
    async def main():
        store.gate.clear()
        first = asyncio.ensure_future(writer.decide("first", [0], None))
        await asyncio.sleep(0.05)
        full = [asyncio.ensure_future(writer.reward([(f"r{n}", 1)])) for n in range(100)]
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as caught:
            await writer.reward([("one more", 1)])
        assert caught.value.kind == "too-busy"
        one = asyncio.ensure_future(writer.decide("a", [1], None))
        await asyncio.sleep(0)
        assert not one.done(), "decisions are taken however many rewards wait"
        with pytest.raises(Refusal):
            await writer.decide("large", range(100), None)
        store.gate.set()
        await asyncio.gather(first, one, *full)
        assert len(await writer.decide("large", range(150), None)) == 150, "alone a request may be as large as it likes"

    asyncio.run(main())
    assert max(len(work) for kind, work in store.calls if kind == "reward") == 10


def test_stopping_stores_all_that_was_taken(store, writer):
    async def main():
        store.gate.clear()
        waiting = [asyncio.ensure_future(writer.decide("a", [n], None)) for n in range(35)]
        waiting += [asyncio.ensure_future(writer.reward([("r", n)])) for n in range(35)]
        await asyncio.sleep(0.05)
        stopping = asyncio.ensure_future(asyncio.to_thread(writer.stop))
        await after(lambda: writer._stopping)
        with pytest.raises(Refusal):
            await writer.decide("late", [1], None)
        store.gate.set()
        found = await asyncio.gather(*waiting)
        await stopping
        return found

    assert len(asyncio.run(main())) == 70
    assert sum(len(work) for _, work in store.calls) == 70


def test_those_who_left_do_not_stop_the_others(store, writer):
    async def main():
        store.gate.clear()
        gone = asyncio.ensure_future(writer.decide("a", [1], None))
        stays = asyncio.ensure_future(writer.decide("b", [2], None))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0)
        store.gate.set()
        return await stays

    assert asyncio.run(main()) == ["b 2"]

    async def abandoned():
        store.gate.clear()
        asyncio.ensure_future(writer.decide("a", [1], None))  # noqa: RUF006  its loop ends first
        await asyncio.sleep(0)

    asyncio.run(abandoned())
    store.gate.set()
    assert asyncio.run(writer.decide("c", [3], None)) == ["c 3"]


def test_groups_wake_their_loop_once(store, writer):
    async def main():
        loop, calls = asyncio.get_running_loop(), []
        plain = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *args, **options: (calls.append(1), plain(*args, **options))[1]
        await gathered(writer, store, *(writer.decide("a", [n], None) for n in range(10)))
        return len(calls)

    assert asyncio.run(main()) == 2  # for the one that held it up, and for the ten


def test_chores_go_on_after_errors(written):
    done = []

    def chore():
        done.append(time.monotonic())
        if len(done) in (2, 3):
            raise Fault("unavailable", "It said 0.7316.", bandit="page")

    recurring = Recurring("chore", chore, 0.005, Log(written), longest=0.05)
    recurring.start()
    deadline = time.monotonic() + 20
    while len(done) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    recurring.stop()
    pauses = [b - a for a, b in itertools.pairwise(done)]
    assert pauses[1] > 0.04, "after an error it waits longer"
    log = Log(written)
    log.flush()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert lines[0]["event"] == "chore"
    assert (lines[0]["error"], lines[0]["bandit"], lines[0]["kind"]) == ("Fault", "page", "unavailable")
    assert sum(line["level"] == "error" for line in lines) == 1, "the same failure is noted once a minute"
    assert "0.7316" not in written.getvalue()
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count


class Timed(Store):
    """Takes its time, on a clock that stands still otherwise; remembers when decisions were stored."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds, self.stored_at, self.rewarded_at = clock, seconds, [], []

    def decide(self, groups):
        self.clock.now += self.seconds["decide"]
        self.stored_at.append((self.clock.now, len(groups)))
        return super().decide(groups)

    def reward(self, entries):
        self.rewarded_at.append(self.clock.now)
        self.clock.now += self.seconds["reward"]
        return super().reward(entries)


def played(monkeypatch, arrivals, rewards, seconds):
    """When decisions that come at these times are stored, if rewards come at those."""

    async def play():
        clock = SimpleNamespace(now=1_000.0)
        clock.monotonic = lambda: clock.now

        def sleep(more):
            clock.now += more

        clock.sleep = sleep
        store = Timed(clock, seconds)
        with monkeypatch.context() as patch:
            patch.setattr(grouping, "time", clock)
            writer = Writer(store, Log(io.StringIO()))
            coming = sorted([(1_000 + at, "decide") for at in arrivals] + [(1_000 + at, "reward") for at in rewards])
            while coming or writer._decisions or writer._rewards:
                while coming and coming[0][0] <= clock.now:
                    kind = coming.pop(0)[1]
                    _ = writer.decide("a", [1], None) if kind == "decide" else writer.reward([("x", 1)])
                    waiting.append(asyncio.ensure_future(_))
                    await asyncio.sleep(0)
                pause = writer._turn()
                if pause != 0.0:
                    clock.now = min(clock.now + (1 if pause is None else pause), coming[0][0] if coming else np.inf)
            await asyncio.gather(*waiting)
        return store

    waiting = []
    return asyncio.run(play())


@pytest.mark.parametrize("seed", range(20))
def test_when_decisions_are_stored_does_not_depend_on_rewards(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    arrivals = np.cumsum(rng.exponential(rng.choice([0.001, 0.01, 0.05]), count))
    seconds = {"decide": rng.choice([0.0005, 0.003, 0.02, 0.06]), "reward": 0.45 * SLOT}
    rewards = rng.uniform(0, arrivals[-1] + BEAT, int(rng.integers(1, 40)))
    without, many = played(monkeypatch, arrivals, [], seconds), played(monkeypatch, arrivals, rewards, seconds)
    assert without.stored_at == many.stored_at
    assert sum(len(entries) for kind, entries in many.calls if kind == "reward") == len(rewards)


def test_rewards_wait_for_a_slot_and_not_for_long(monkeypatch):
    """One in every beat, also where decisions leave no moment free."""
    seconds = {"decide": 0.01, "reward": 0.001}
    idle = played(monkeypatch, [], [0.013, 0.014, 0.03], seconds)
    assert idle.rewarded_at == pytest.approx([1_000 + BEAT, 1_000 + 2 * BEAT])
    busy = played(monkeypatch, np.arange(0, 1, 0.0005), np.arange(0, 1, 0.005), seconds)
    assert np.diff(busy.rewarded_at).max() < BEAT + SLOT + 2 * seconds["decide"]


def test_decisions_have_their_turn_though_rewards_take_long(monkeypatch):
    busy = played(monkeypatch, np.arange(0, 1, 0.01), np.arange(0, 1, 0.001), {"decide": 0.001, "reward": 0.3})
    assert np.diff([at for at, _ in busy.stored_at]).max() < 0.3 + BEAT
