"""Group commit: what waits is stored together, a bad request fails alone, and nothing that was taken is lost."""

import asyncio
import io
import itertools
import json
import threading
import time

import pytest

from adaprivate.check import InputError
from adaprivate.service.faults import Fault
from adaprivate.service.grouping import Recurring, Writer
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
