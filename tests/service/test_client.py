"""The client against a service that is played by a function: what is sent, again and when, and what becomes of answers."""

import asyncio
import inspect
import json
import logging
import subprocess
import sys
import threading
import traceback

import httpx
import numpy as np
import pytest

from adaprivate.check import InputError
from adaprivate.client import (
    AsyncClient,
    Client,
    Decision,
    DifferentRewardError,
    InvalidError,
    NoAccessError,
    ServiceError,
    UnavailableError,
    UnknownError,
    connections,
    flips,
)
from adaprivate.client import calls as calls_module
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse

DECIDED = {
    "decision_id": "1p0-ab",
    "item": "tea",
    "version": 3,
    "propensity": 0.25,
    "round": 7,
    "holdback": False,
    "unheard_of": 1,
}


def problem(status, kind, headers=None, **more):
    body = {"type": f"urn:adaprivate:{kind}", "title": kind, "status": status, "detail": f"It is {kind}.", **more}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json", **(headers or {})})


class Played:
    """A service that gives these answers one after the other, the last one for ever, and remembers what was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, httpx.Response):
            return httpx.Response(200, json=answer)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def bodies(self):
        return [json.loads(request.content) for request in self.asked]


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only in pauses: `clock.pauses` are those that were made."""

    class Clock:
        now, pauses = 100.0, []

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.pauses.append(seconds)
            self.now += seconds

    found = Clock()
    found.pauses = []
    monkeypatch.setattr(calls_module, "time", found)
    monkeypatch.setattr(connections, "time", found)

    async def sleep(seconds):
        found.sleep(seconds)

    monkeypatch.setattr(connections.asyncio, "sleep", sleep)
    return found


def refused(request):
    return httpx.ConnectError("refused", request=request)


def slow(request):
    return httpx.ReadTimeout("slow", request=request)


class Waiting:
    """The client that waits."""

    def __init__(self, played, **options):
        self._client = Client("http://service.test", transport=httpx.MockTransport(played), **options)

    def __getattr__(self, name):
        return getattr(self._client, name)


class Awaited:
    """The client that is awaited, awaited."""

    def __init__(self, played, **options):
        self._client = AsyncClient("http://service.test", transport=httpx.MockTransport(played), **options)

    def __getattr__(self, name):
        return lambda *args, **kwargs: asyncio.run(getattr(self._client, name)(*args, **kwargs))


both = pytest.mark.parametrize("made", [Waiting, Awaited])


@both
def test_every_call_is_the_request_of_the_contract(made, clock):
    played = Played({"bandits": [], "decisions": [DECIDED], "statuses": ["recorded"], "status": "recorded", **DECIDED})
    client = made(played, key="secret-key")
    decision = Decision("1p0/ä", "tea")
    client.create("front", dimension=3, epsilon=0.5)
    client.bandits()
    client.status("front")
    client.items("front", {"tea": np.array([0.5, 0.25]), "milk": None})
    client.decide("front", ["tea", "milk"], user="anna", propensity=False)
    client.decide("front", [("tea", [1, 0]), ("milk", np.float64([0.0, 1.0]))], context={"hour": 3})
    client.decide("front", {"tea": [1.0]})
    client.decide("front", [{"id": "tea", "features": [1.0]}])
    client.decide("front")
    client.decide_many("front", [{"user": 1}, {"candidates": ["tea"]}])
    client.reward(decision, True)
    client.reward("1p1-ab", 0.5)
    client.reward_many([(decision, 0)])
    client.series("front")
    client.pause("front")
    client.resume("front")
    client.health()
    client.wait()
    asked = [(request.method, request.url.raw_path.decode()) for request in played.asked]
    assert asked == [
        ("POST", "/bandits"),
        ("GET", "/bandits"),
        ("GET", "/bandits/front"),
        ("PUT", "/bandits/front/items"),
        *[("POST", "/bandits/front/decisions")] * 5,
        ("POST", "/bandits/front/decisions:batch"),
        ("PUT", "/decisions/1p0%2F%C3%A4/reward"),
        ("PUT", "/decisions/1p1-ab/reward"),
        ("POST", "/rewards:batch"),
        ("GET", "/bandits/front/series"),
        ("POST", "/bandits/front:pause"),
        ("POST", "/bandits/front:resume"),
        ("GET", "/health"),
        ("GET", "/ready"),
    ]
    sent = [json.loads(request.content) if request.content else None for request in played.asked]
    assert sent[0] == {"name": "front", "dimension": 3, "epsilon": 0.5}
    assert sent[3:13] == [
        {"items": {"tea": [0.5, 0.25], "milk": None}},
        {"candidates": ["tea", "milk"], "user": "anna", "propensity": False},
        {"candidates": [{"id": "tea", "features": [1, 0]}, {"id": "milk", "features": [0.0, 1.0]}], "context": {"hour": 3}},
        {"candidates": [{"id": "tea", "features": [1.0]}]},
        {"candidates": [{"id": "tea", "features": [1.0]}]},
        {},
        {"decisions": [{"user": 1}, {"candidates": ["tea"]}]},
        {"reward": 1.0},
        {"reward": 0.5},
        {"rewards": [{"decision_id": "1p0/ä", "reward": 0.0}]},
    ]
    assert {request.headers["authorization"] for request in played.asked} == {"Bearer secret-key"}
    keys = [request.headers.get("idempotency-key") for request in played.asked]
    assert [key is not None for key in keys] == [False] * 4 + [True] * 6 + [False] * 8
    assert len(set(keys)) == 7  # each decision its own


@both
def test_a_decision_is_read_and_unknown_members_are_left_out(made, clock):
    decision = made(Played(DECIDED)).decide("front")
    assert decision == Decision("1p0-ab", "tea", 3, 0.25, 7, False, None, False)
    many = made(Played({"decisions": [DECIDED, {**DECIDED, "round": 8, "keep": 0.75}]})).decide_many("front", [{}, {}])
    assert [(one.round, one.keep, one.fallback) for one in many] == [(7, None, False), (8, 0.75, False)]


@both
@pytest.mark.parametrize(
    "trouble",
    [refused, slow, problem(503, "unavailable"), problem(429, "too-many"), httpx.Response(502), httpx.Response(504)],
)
def test_a_decision_is_asked_for_again_with_the_same_key(made, clock, trouble):
    played = Played(trouble, trouble, trouble, DECIDED)
    assert made(played).decide("front").decision_id == "1p0-ab"
    assert len(played.asked) == 4
    assert len({request.headers["idempotency-key"] for request in played.asked}) == 1
    assert len({request.content for request in played.asked}) == 1
    first, second, third = clock.pauses
    assert 0.025 <= first <= 0.05 <= 2 * second <= 0.2
    assert 0.1 <= third <= 0.2


@both
def test_the_service_says_how_long_to_wait(made, clock):
    played = Played(problem(429, "too-many", {"retry-after": "1"}), DECIDED)
    assert not made(played).decide("front").fallback
    assert clock.pauses == [1.0]
    played = Played(problem(429, "too-many", {"retry-after": "60"}))
    with pytest.raises(UnavailableError) as caught:
        made(played).decide("front")
    assert (caught.value.status, caught.value.kind, clock.pauses) == (429, "too-many", [1.0])  # no time for another
    played = Played(problem(503, "unavailable", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), DECIDED)
    assert made(played).decide("front").item == "tea"


@both
def test_all_attempts_end_with_the_deadline(made, clock):
    allowed = []

    def hangs(request):
        allowed.append(request.extensions["timeout"]["read"])
        clock.now += allowed[-1]
        return httpx.ReadTimeout("slow", request=request)

    start = clock.now
    assert made(Played(hangs), timeout=3.0, retries=5).decide("front", default="tea").fallback
    assert clock.now - start <= 3.01
    assert allowed[0] == pytest.approx(1.5)
    assert len(allowed) >= 4
    assert made(Played(hangs), timeout=3.0, retries=0).decide("front", default="tea").fallback
    assert allowed[-1] == pytest.approx(3.0)


@both
def test_what_is_shown_where_the_service_does_not_decide(made, clock):
    closed = problem(503, "unavailable", item="water")
    nobody = Decision(None, "milk", fallback=True)
    assert made(Played(refused)).decide("front", ["tea", "milk"], default="milk") == nobody
    assert made(Played(refused)).decide("front", {"milk": [1.0], "tea": [0.0]}) == nobody
    assert made(Played(closed)).decide("front").item == "water"
    assert made(Played(closed)).decide("front", ["tea", "milk"]).item == "tea"  # water is not on offer
    assert made(Played(closed)).decide("front", ["tea", "water"]).item == "water"
    assert made(Played(closed)).decide("front", default="milk").item == "milk"
    assert made(Played(problem(409, "paused", item="water"))).decide("front").item == "water"
    with pytest.raises(UnavailableError, match=r"^The service cannot be reached\. \(unreachable\)$"):
        made(Played(refused)).decide("front")
    with pytest.raises(UnavailableError, match=r"^The service did not answer in time\. \(timeout\)$"):
        made(Played(slow)).decide("front")
    many = made(Played(refused)).decide_many("front", [{"candidates": ["a"]}, {"candidates": ["b", "a"]}])
    assert [(one.item, one.fallback) for one in many] == [("a", True), ("b", True)]


@both
def test_mistakes_are_not_taken_for_outages(made, clock):
    cases = [
        (problem(422, "invalid", field="candidates"), InvalidError, "invalid", "candidates"),
        (problem(413, "too-large"), InvalidError, "too-large", None),
        (problem(401, "unauthorised"), NoAccessError, "unauthorised", None),
        (problem(403, "forbidden"), NoAccessError, "forbidden", None),
        (problem(404, "unknown-bandit"), UnknownError, "unknown-bandit", None),
        (httpx.Response(500, text="<html>"), ServiceError, "http-500", None),
    ]
    for answer, error, kind, field in cases:
        played = Played(answer)
        with pytest.raises(error) as caught:
            made(played).decide("front", ["tea"], default="tea")
        found = caught.value
        assert (found.status, found.kind, found.field) == (answer.status_code, kind, field)
        assert len(played.asked) == 1
    with pytest.raises(UnavailableError, match="not the decision service"):
        made(Played(httpx.Response(200, text="<html>"))).status("front")


@both
def test_what_becomes_of_a_reward(made, clock):
    decision = Decision("1p0-ab", "tea")
    for answer, status in [
        (httpx.Response(201, json={"status": "recorded"}), "recorded"),
        ({"status": "duplicate"}, "duplicate"),
        (problem(410, "late"), "late"),
        (problem(410, "lost"), "lost"),
    ]:
        assert made(Played(answer)).reward(decision, 0.5) == status
    for answer, error in [
        (problem(409, "different"), DifferentRewardError),
        (problem(404, "unknown-decision"), UnknownError),
        (problem(422, "invalid", field="reward"), InvalidError),
        (problem(403, "forbidden"), NoAccessError),
        (refused, UnavailableError),
    ]:
        with pytest.raises(error):
            made(Played(answer)).reward(decision, 0.5)
    again = Played(refused, problem(503, "unavailable"), {"status": "duplicate"})
    assert made(again).reward(decision, 0.5) == "duplicate"
    assert again.bodies() == [{"reward": 0.5}] * 3
    nothing = Played(refused)
    assert made(nothing).reward(Decision(None, "tea", fallback=True), 1) == "fallback"
    assert made(nothing).settle(Decision(None, "tea", fallback=True)) == "fallback"
    assert made(nothing).settle(decision) == "absent"
    assert nothing.asked == []


@both
def test_many_are_sent_in_pieces(made, clock, monkeypatch):
    monkeypatch.setattr(calls_module, "PIECE", 3)

    def decide(request):
        asks = json.loads(request.content)["decisions"]
        return httpx.Response(200, json={"decisions": [{**DECIDED, "item": ask["user"]} for ask in asks]})

    def take(request):
        entries = json.loads(request.content)["rewards"]
        return httpx.Response(200, json={"statuses": ["recorded" if e["reward"] else "different" for e in entries]})

    played = Played(decide)
    assert [one.item for one in made(played).decide_many("front", ({"user": u} for u in "abcdefg"))] == [*"abcdefg"]
    assert [len(body["decisions"]) for body in played.bodies()] == [3, 3, 1]
    assert len({request.headers["idempotency-key"] for request in played.asked}) == 3
    monkeypatch.setattr(calls_module, "PIECE", 1_000)
    monkeypatch.setattr(calls_module, "PIECE_BYTES", 60)
    large = Played(decide)  # the bodies of the asks have 12, 62 and again 12 bytes
    users = ["a", "b", "c" * 51, "d", "e", "f", "g", "h"]
    assert [one.item for one in made(large).decide_many("front", [{"user": u} for u in users])] == users
    assert [len(body["decisions"]) for body in large.bodies()] == [2, 1, 4, 1]
    fallback = Decision(None, "tea", fallback=True)
    entries = [("a", 1), (fallback, 1), (Decision("b", "tea"), 0), ("c", True), ("d", 0.0)]
    assert made(Played(take)).reward_many(entries) == ["recorded", "fallback", "different", "recorded", "different"]
    assert made(Played(refused)).reward_many([]) == []
    with pytest.raises(InputError, match="an ask"):
        made(played).decide_many("front", [{"candidate": ["a"]}])


def test_a_bandit_is_not_made_twice(clock):
    """What may have been done is not asked for again; what surely was not, is."""
    played = Played(refused, problem(503, "unavailable"), {"name": "front"})
    assert Waiting(played).create("front", dimension=3) == {"name": "front"}
    played = Played(slow, {"name": "front"})
    with pytest.raises(UnavailableError):
        Waiting(played).create("front", dimension=3)
    assert len(played.asked) == 1
    assert played.asked[0].extensions["timeout"]["read"] == pytest.approx(60.0)


@both
def test_waiting_for_the_service(made, clock):
    played = Played(*[refused] * 20, *[problem(503, "unavailable")] * 20, {"database": True})
    assert made(played).wait(60) is None
    with pytest.raises(UnavailableError):
        made(Played(refused)).wait(1.0)
    with pytest.raises(NoAccessError):
        made(Played(problem(401, "unauthorised"))).wait()


class Local:
    """A service with a local bandit: keeps the first bit of each decision."""

    def __init__(self):
        self.bits, self.received, self.down = {}, [], False

    def __call__(self, request):
        decision_id, bit = request.url.path.split("/")[2], json.loads(request.content)["reward"]
        self.received.append(bit)
        if self.down:
            raise httpx.ReadTimeout("slow", request=request)
        status = "duplicate" if decision_id in self.bits else "recorded"
        if self.bits.setdefault(decision_id, bit) != bit:
            return problem(409, "different")
        return httpx.Response(200, json={"status": status})


def test_rewards_of_local_bandits_are_flipped_once(clock):
    """However often it is reported, and of whatever value, one bit leaves."""
    service = Local()
    client = Waiting(service, retries=2)
    keep = RandomisedResponse(0.2).keep
    for number in range(40):
        decision = Decision(f"{number}", "tea", keep=keep)
        service.down, service.received = True, []
        for reward in (0.0, 1.0):
            with pytest.raises(UnavailableError):
                client.reward(decision, reward)
        with pytest.raises(UnavailableError):
            client.settle(decision)
        assert len(service.received) == 9
        service.down = False
        assert client.reward(decision, number % 2) == "recorded"
        assert len(set(service.received)) == 1
        assert set(service.received) <= {0, 1}
        assert client.reward(decision, 1.0) == client.settle(decision) == "duplicate"
        assert client.reward(f"{number}", 1.0, keep=keep) == "duplicate"
        assert client.reward_many([(decision, 1.0)]) == ["duplicate"]
        assert len(service.received) == 10  # acknowledged: nothing more is sent
    assert set(service.bits.values()) == {0, 1}


@both
def test_flips_have_the_decision_s_law(made, clock):
    """4,000 bits of keep 0.75: 3,000 true ones, within 5 standard deviations; 0.5 as a reward is a fair coin."""

    def take(request):
        bits.extend(entry["reward"] for entry in json.loads(request.content)["rewards"])
        return httpx.Response(200, json={"statuses": ["recorded"] * len(json.loads(request.content)["rewards"])})

    for reward, mean in ((1.0, 0.75), (0.0, 0.25), (0.5, 0.5)):
        bits = []
        made(Played(take)).reward_many([(Decision(f"{i}", "tea", keep=0.75), reward) for i in range(4_000)])
        assert set(bits) == {0, 1}
        assert abs(np.mean(bits) - mean) < 5 * np.sqrt(0.25 / 4_000)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 3.0, 10.0, 20.0, 30.0])
def test_the_law_is_found_by_keep_and_never_says_more(epsilon):
    keep = RandomisedResponse(epsilon).keep
    found = RandomisedResponse(flips.epsilon(keep)).keep
    assert found <= keep
    assert found == pytest.approx(keep, rel=1e-13)
    assert flips.epsilon(keep) == pytest.approx(epsilon, rel=1e-2 if epsilon > 20 else 1e-6)


def test_a_client_that_trusts_nobody_lets_only_its_own_flips_out(clock):
    service = Local()
    client = Waiting(service, local_epsilon=1.0)
    assert client.reward(Decision("a", "tea", keep=RandomisedResponse(1.0).keep), True) == "recorded"
    assert client.reward(Decision("b", "tea", keep=RandomisedResponse(0.5).keep), True) == "recorded"
    received = len(service.received)
    louder = [Decision("c", "tea", keep=keep) for keep in (np.nextafter(RandomisedResponse(1.0).keep, 1), 0.99, 1 - 2**-53)]
    for decision in (*louder, Decision("d", "tea"), "e"):
        with pytest.raises(InputError):
            client.reward(decision, True)
    with pytest.raises(InputError):
        client.reward("e", True, keep=0.999)
    for keep in (0.5, 0.1, 1.0, float("nan")):
        with pytest.raises(InputError):
            Waiting(service).reward(Decision("f", "tea", keep=keep), True)
    assert len(service.received) == received


def test_acknowledged_decisions_are_forgotten_at_last(monkeypatch):
    monkeypatch.setattr(flips, "REMEMBERED", 3)
    kept = flips.Flips(None)
    for number in range(5):
        kept.sent(f"{number}", 0.75, 1.0)
        kept.acknowledge(f"{number}")
    assert [kept.sent(f"{number}", 0.75, 1.0) is None for number in range(5)] == [False, False, True, True, True]


def test_threads_draw_one_bit():
    kept, found, start = flips.Flips(None), [], threading.Barrier(8)
    kept.sent("warm", 0.75, 1.0)

    def draw():
        start.wait()
        found.append([kept.sent(f"{number}", 0.6, 1.0) for number in range(200)])

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(bits == found[0] for bits in found)
    assert set(found[0]) == {0, 1}


def test_no_reward_and_no_key_is_told(clock, caplog):
    """Neither in logs, nor in errors or what they hold on to, nor where a client is printed."""
    caplog.set_level(logging.DEBUG)
    value, key = 0.123456789, "key-that-opens"
    client = Client("http://service.test", key=key, transport=httpx.MockTransport(Played(problem(409, "different"))))
    with pytest.raises(DifferentRewardError) as caught:
        client.reward("1p0-ab", value)
    down = Client("http://service.test", key=key, transport=httpx.MockTransport(Played(refused)))
    with pytest.raises(UnavailableError) as unreachable:
        down.reward("1p0-ab", value)
    for error in (caught.value, unreachable.value):
        assert error.__cause__ is error.__context__ is None
        told = "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error) + str(error)
        assert "0.1234" not in told
        assert key not in told
    with pytest.raises(InputError) as invalid:
        client.reward("1p0-ab", 7.123456)
    assert "7.123" not in str(invalid.value)
    assert "0.1234" not in caplog.text
    assert key not in caplog.text + repr(client) + repr(vars(client)) + repr(AsyncClient("https://service.test", key=key))
    assert repr(client) == "Client('http://service.test')"


def test_bad_arguments(clock):
    for url in ("service.test", "ftp://service.test", "http://", 7):
        with pytest.raises(InputError, match="Expected url"):
            Client(url)
    with pytest.raises(InputError) as caught:
        Client("http://me:secret@service.test")
    assert "secret" not in str(caught.value)
    for options in ({"timeout": 0}, {"retries": -1}, {"retries": 1.5}, {"local_epsilon": 0}):
        with pytest.raises(InputError):
            Client(**options)
    client = Waiting(Played(DECIDED))
    for candidates in ([], {}, [("tea", [float("nan")])], [("tea", object())]):
        with pytest.raises(InputError):
            client.decide("front", candidates)
    with pytest.raises(InputError):
        client.decide("")
    for reward in (2, -1, "1", None, float("nan")):
        with pytest.raises(InputError):
            client.reward("1p0-ab", reward)


def test_both_clients_have_the_same_methods():
    public = [name for name in vars(Client) if not name.startswith("_")]
    assert public == [name for name in vars(AsyncClient) if not name.startswith("_")]
    for name in public:
        one, other = getattr(Client, name), getattr(AsyncClient, name)
        assert one.__doc__ == other.__doc__
        assert inspect.getdoc(one)
        assert inspect.signature(one) == inspect.signature(other)
        assert inspect.iscoroutinefunction(other)
    assert str(inspect.signature(Client.decide)).endswith("-> 'Decision'")


def test_they_close():
    with Client(transport=httpx.MockTransport(Played({}))) as client:
        client.health()
    assert client._http.is_closed

    async def awaited():
        async with AsyncClient(transport=httpx.MockTransport(Played({}))) as found:
            await found.health()
        return found

    assert asyncio.run(awaited())._http.is_closed


def test_a_prefix_of_paths_is_kept():
    played = Played({"status": "ok"})
    Client("https://example.test/bandits-of-ours/", transport=httpx.MockTransport(played)).health()
    assert str(played.asked[0].url) == "https://example.test/bandits-of-ours/health"


def test_importing_the_client_loads_no_compiler_and_no_service():
    code = "import sys, adaprivate.client; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    heavy = {"numba", "llvmlite", "scipy", "opendp", "polars", "fastapi", "sqlalchemy", "matplotlib", "dp_accounting"}
    assert heavy & set(loaded.split()) == set()


def test_an_id_of_a_local_bandit_is_not_rewarded_without_its_keep():
    """The id says that its reward must be flipped: a raw one is refused before anything is sent."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(201, json={"status": "recorded"})

    transport = httpx.MockTransport(answer)
    with Client("http://service", transport=transport) as client:
        with pytest.raises(InputError, match="keep"):
            client.reward("1P2a-00000000000000000000", 1.0)
        assert sent == []
        assert client.reward("1p2a-00000000000000000000", 1.0) == "recorded"
