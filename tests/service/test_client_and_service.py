"""The client against the real service on a real port, on both databases."""

import asyncio
import json
import time

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.service.calling import database_of
from tests.service.conftest import KINDS
from tests.service.live import Live

from adaprivate.check import ClippedWarning, InputError
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
)
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.service import schema
from adaprivate.service.access import create_key

SETTINGS = {"dimension": 3, "rounds": 10_000, "batch_size": 50, "reward_window": 60.0}
ITEMS = {"a": [1, 0, 0], "b": np.array([0, 0.6, 0.8]), "c": None}


@pytest.fixture(scope="module", params=KINDS)
def live(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    found = Live(folder, database_of(request, folder))
    yield found
    found.close()


@pytest.fixture
def client(live):
    with Client(live.url, timeout=20.0) as found:
        yield found


def stored(live, name):
    """Rewards as they are stored: by round."""
    r, b = schema.rewards, schema.bandits
    with live.database.reading() as connection:
        query = sa.select(r).join(b, r.c.bandit == b.c.id).where(b.c.name == name)
        return {row.round: row.value for row in connection.execute(query)}


def test_a_bandit_s_life(live, client):
    client.wait()
    assert client.health()["status"] == "ok"
    status = client.create("life", **{**SETTINGS, "reward_window": 2.0}, default_item="b")
    assert (status["name"], status["rounds"]["decided"]) == ("life", 0)
    with pytest.raises(ServiceError) as caught:
        client.create("life", **SETTINGS)
    assert (caught.value.status, caught.value.kind) == (409, "exists")
    assert client.items("life", ITEMS) == {"items": 3, "clipped": 0, "warning": None}
    decision = client.decide("life", ["a", "b"])
    assert decision.item in ("a", "b")
    assert (decision.round, decision.version, decision.holdback, decision.keep, decision.fallback) == (
        0,
        0,
        False,
        None,
        False,
    )
    assert 0 < decision.propensity <= 1
    assert client.decide("life", propensity=False).propensity is None
    assert client.decide("life", {"x": np.ones(3) / 2, "y": [0, 0, 0]}).item in ("x", "y")
    assert client.reward(decision, 0.25) == "recorded"
    assert client.reward(decision.decision_id, 0.25) == "duplicate"
    with pytest.raises(DifferentRewardError):
        client.reward(decision, 0.5)
    assert client.settle(decision) == "absent"
    with pytest.raises(UnknownError) as caught:
        client.reward("1p0-00000000000000000000", 1)
    assert caught.value.kind == "unknown-decision"
    with pytest.raises(UnknownError):
        client.status("nobody")
    with pytest.raises(InvalidError) as caught:
        client.decide("life", ["a", "milk"], default="a")
    assert "milk" in caught.value.detail
    many = client.decide_many("life", [{"candidates": ["a", "c"]}] * 1_200)
    assert [one.round for one in many] == [*range(3, 1_203)]
    assert client.reward_many([(one, 1) for one in many] + [("1p0-00000000000000000000", 1)])[-2:] == [
        "recorded",
        "unknown",
    ]
    assert [one["name"] for one in client.bandits()] == ["life"]
    end = time.monotonic() + 60
    while client.status("life")["version"] < 10:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert client.reward(decision, 0.25) == "late"
    assert client.series("life")["version"] >= 10
    assert client.pause("life")["state"] == "paused"
    assert client.decide("life", ["a", "c"]) == Decision(None, "a", fallback=True)
    assert client.decide("life").item == "b"  # the bandit's default
    assert client.resume("life")["state"] == "open"


def test_awaited(live):
    async def play():
        async with AsyncClient(live.url, timeout=20.0) as client:
            await client.wait()
            await client.create("awaited", **SETTINGS)
            await client.items("awaited", ITEMS)
            decisions = await asyncio.gather(*(client.decide("awaited", ["a", "b"]) for _ in range(50)))
            statuses = await asyncio.gather(*(client.reward(one, one.round % 2) for one in decisions))
            return sorted(one.round for one in decisions), set(statuses)

    assert asyncio.run(play()) == ([*range(50)], {"recorded"})


class Losing(httpx.HTTPTransport):
    """A network that delivers every request, and loses the first answers to each."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.sent = losses, []

    def handle_request(self, request):
        answer = super().handle_request(request)
        self.sent.append(request)
        if len(self.sent) % (self.losses + 1):
            answer.read()
            raise httpx.ReadError("lost", request=request)
        return answer


def test_an_answer_that_was_lost_is_no_second_round(live, client):
    client.create("lossy", **SETTINGS)
    client.items("lossy", ITEMS)
    with Client(live.url, timeout=20.0, transport=Losing(2)) as lossy:
        for number in range(5):
            decision = lossy.decide("lossy", ["a", "b"])
            assert (decision.round, decision.fallback) == (number, False)
            assert lossy.reward(decision, 0.5) == "duplicate"  # the first answer, recorded, was lost
        assert [one.round for one in lossy.decide_many("lossy", [{}] * 3)] == [5, 6, 7]
    assert client.status("lossy")["rounds"]["decided"] == 8


@pytest.mark.parametrize("holdback", [0.0, 0.4])
def test_of_a_local_bandit_only_flipped_bits_leave(live, client, holdback):
    """Each is drawn once, stored as it was sent, and 2,000 of them have the law that the service takes them to have."""
    name = f"local{round(10 * holdback)}"
    client.create(name, **SETTINGS, epsilon=1.0, local=True, holdback=holdback)
    client.items(name, ITEMS)
    network = Losing(1)
    with Client(live.url, timeout=20.0, transport=network, local_epsilon=1.0) as local:
        decisions = local.decide_many(name, [{}] * 2_000)
        assert {one.keep for one in decisions} == {RandomisedResponse(1.0).keep}
        assert len({one.holdback for one in decisions}) == (2 if holdback else 1)
        network.sent.clear()
        local.reward_many([(one, 1) for one in decisions])
        bodies = [json.loads(request.content) for request in network.sent]
        assert bodies[0] == bodies[1]
        assert bodies[2] == bodies[3]
        sent = [entry["reward"] for body in bodies[::2] for entry in body["rewards"]]
        assert len(sent) == 2_000
        keep = RandomisedResponse(1.0).keep
        assert abs(np.mean(sent) - keep) < 5 * np.sqrt(keep * (1 - keep) / 2_000)
        assert local.settle(decisions[0]) == local.reward(decisions[1], 0) == "duplicate"
        assert len(network.sent) == 4
    kept = stored(live, name)
    told = RandomisedResponse(1.0).told
    assert [kept[one.round] for one in decisions] == pytest.approx([told(bit) for bit in sent])
    number = client.decide(name).decision_id
    with pytest.raises(InputError, match="keep"):  # a reward that nobody flipped does not leave
        client.reward(number, 0.5)
    answer = httpx.put(f"{live.url}/decisions/{number}/reward", json={"reward": 0.5})  # nor would it be taken
    assert (answer.status_code, "0.5" in answer.text) == (422, False)


def test_the_service_goes_away_and_comes_back(tmp_path, database_url):
    live = Live(tmp_path, database_url)
    try:
        with Client(live.url, timeout=1.0) as client:
            client.create("page", **SETTINGS)
            client.items("page", ITEMS)
            decision = client.decide("page")
            live.stop()
            assert client.decide("page", ["b", "a"]) == Decision(None, "b", fallback=True)
            with pytest.raises(UnavailableError):
                client.reward(decision, 1)
            live.start()
            client.wait()
            assert client.reward(decision, 1) == "recorded"
            assert client.decide("page").round == 1
    finally:
        live.close()


def test_keys(tmp_path, database_url):
    live = Live(tmp_path, database_url, require_keys=True)
    try:
        with Client(live.url) as nobody, pytest.raises(NoAccessError):
            nobody.status("page")
        _, key = create_key(live.database, "all", ["admin"])
        with Client(live.url, key=key, timeout=10.0) as client:
            end = time.monotonic() + 20
            while True:  # keys are looked up every other second
                try:
                    assert client.bandits() == []
                    break
                except NoAccessError:
                    assert time.monotonic() < end
                    time.sleep(0.1)
    finally:
        live.close()


def test_a_bandit_that_is_there_will_do_where_asked(live, client):
    options = {**SETTINGS, "epsilon": 1.0, "holdback": 0.1}
    made = client.create("again", **options)
    assert client.create("again", exist_ok=True, **options)["created_at"] == made["created_at"]
    with pytest.raises(ServiceError, match="to be new") as refused:
        client.create("again", **options)
    assert refused.value.kind == "exists"
    for change in (
        {"epsilon": 0.5},
        {"epsilon": 2.0},
        {"delta": 1e-9},
        {"holdback": 0.2},
        {"rounds": SETTINGS["rounds"] + 1},
        {"base_rate": 0.04},
        {"missing": 0.25},
        {"options": {"noise": "sqrt"}},
    ):
        name = "options.noise" if "options" in change else next(iter(change))
        with pytest.raises(ServiceError) as refused:
            client.create("again", exist_ok=True, **{**options, **change})
        assert (refused.value.status, refused.value.field, refused.value.differs) == (409, name, (name,))


def test_items_that_are_too_long_are_told_of_aloud(live, client):
    client.create("long", **SETTINGS, epsilon=1.0)
    features = next(iter(ITEMS.values()))
    with pytest.warns(ClippedWarning, match="1 of 2 items had features longer than their norm"):
        found = client.items("long", {"short": features, "long": [100.0 * one for one in features]})
    assert found["clipped"] == 1
