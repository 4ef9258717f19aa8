"""The HTTP API on the real service, on both databases: what is answered, how refusals read, what is never told."""

import asyncio
import json
import re
import time
from base64 import b64encode
from hashlib import sha256

import httpx
import polars as pl
import pytest
import sqlalchemy as sa
from tests.service.calling import BANDIT, ITEMS, Caller, database_of, new_service, refused, with_bandit
from tests.service.conftest import KINDS

from adaprivate.service import documents, schema
from adaprivate.service.faults import Fault

SECRET = 0.7316251849
"""A reward that would be recognised anywhere."""


@pytest.fixture
def now():
    return [1_000_000.0]


@pytest.fixture
def caller(tmp_path, database_url, now):
    service = new_service(tmp_path, database_url, clock=lambda: now[0])
    with Caller(service, owns_service=True) as found:
        with_bandit(found)
        yield found


@pytest.fixture(scope="module", params=KINDS)
def shared(request, tmp_path_factory):
    """For tests after which all is as before."""
    folder = tmp_path_factory.mktemp("shared")
    service = new_service(folder, database_of(request, folder), clock=lambda: 1_000_000.0)
    with Caller(service, owns_service=True) as found:
        with_bandit(found)
        yield found


def count(caller, table):
    with caller.service.database.reading() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table))


def decided(caller, **ask):
    answer = caller.post("/bandits/page/decisions", ask)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_decision_is_rewarded_once(caller):
    decision = decided(caller, candidates=["a", "c"])
    documents.Decision.model_validate(decision, strict=True)
    assert decision["item"] in ("a", "c")
    assert (decision["round"], decision["version"], decision["holdback"]) == (0, 0, False)
    assert 0 < decision["propensity"] <= 1
    assert "keep" not in decision
    path = f"/decisions/{decision['decision_id']}/reward"
    first, again = caller.put(path, {"reward": SECRET}), caller.put(path, {"reward": SECRET})
    assert (first.status_code, first.json()) == (201, {"status": "recorded"})
    assert (again.status_code, again.json()) == (200, {"status": "duplicate"})
    refused(caller.put(path, {"reward": True}), 409, "different")
    refused(caller.put("/decisions/1p0-00000000000000000000/reward", {"reward": 1}), 404, "unknown-decision", "decision_id")
    with caller.service.database.reading() as connection:
        assert connection.scalars(sa.select(schema.rewards.c.value)).all() == [SECRET]


def test_many_decisions_and_rewards_at_once(caller):
    asks = [{}, {"candidates": ["b"], "propensity": False}, {"candidates": [{"id": "new", "features": [0.1, 0.2, 0.3]}]}]
    found = caller.post("/bandits/page/decisions:batch", {"decisions": asks}).json()
    documents.Decisions.model_validate(found, strict=True)
    decisions = found["decisions"]
    assert [one["round"] for one in decisions] == [0, 1, 2]
    assert decisions[0]["item"] in ITEMS
    assert [one["item"] for one in decisions[1:]] == ["b", "new"]
    assert [one["propensity"] for one in decisions[1:]] == [None, 1.0]
    entries = [
        {"decision_id": one["decision_id"], "reward": value} for one, value in zip(decisions, (1, 0.5, True), strict=True)
    ]
    entries.insert(1, {"decision_id": "nobody's", "reward": 0})
    entries.append({**entries[0], "reward": 0})
    answer = caller.post("/rewards:batch", {"rewards": entries})
    assert answer.json() == {"statuses": ["recorded", "unknown", "recorded", "recorded", "different"]}
    documents.RewardStatuses.model_validate(answer.json(), strict=True)


def test_a_late_reward_is_gone(caller, now):
    decisions = caller.post("/bandits/page/decisions:batch", {"decisions": [{}] * 10}).json()["decisions"]
    now[0] += 61
    deadline = time.monotonic() + 30
    while (seen := caller.get("/bandits/page")).status_code != 200 or seen.json()["version"] == 0:
        assert time.monotonic() < deadline, seen.text
        time.sleep(0.02)
    path = f"/decisions/{decisions[0]['decision_id']}/reward"
    refused(caller.put(path, {"reward": 1}), 410, "late")
    assert caller.post(
        "/rewards:batch", {"rewards": [{"decision_id": decisions[1]["decision_id"], "reward": 1}]}
    ).json() == {"statuses": ["late"]}


def test_public_documents_are_as_declared(caller):
    for _ in range(3):
        decided(caller)
    declared = {
        "/bandits": documents.Bandits,
        "/bandits/page": documents.Status,
        "/bandits/page/items": documents.Items,
        "/bandits/page/series": documents.Series,
        "/bandits/page/arrivals": documents.Arrivals,
        "/health": documents.Health,
        "/ready": documents.Ready,
    }
    for path, model in declared.items():
        answer = caller.get(path)
        assert answer.status_code == 200, (path, answer.text)
        model.model_validate_json(answer.content)
    assert caller.get("/bandits/page/items").json()["items"] == [{"id": k, "features": v} for k, v in ITEMS.items()]
    assert caller.get("/bandits").json()["bandits"][0]["decided"] == 3


def test_pausing_and_creating(caller):
    assert caller.post("/bandits/page:pause").json()["state"] == "paused"
    paused = caller.post("/bandits/page/decisions", {})
    refused(paused, 409, "paused")
    assert paused.json()["item"] == "a"
    assert caller.post("/bandits/page:resume").json()["state"] == "open"
    decided(caller)
    refused(caller.post("/bandits", BANDIT), 409, "exists", "name")
    refused(caller.post("/bandits", {**BANDIT, "name": "new", "policy": "nothing"}), 422, "invalid", "policy")
    refused(caller.post("/bandits", {"name": "new"}), 422, "invalid", "dimension")
    for path in ("/bandits/none", "/bandits/none/items", "/bandits/none/series", "/bandits/none/arrivals", "/bandits/%00"):
        assert caller.get(path).status_code == 404
    refused(caller.post("/bandits/none/decisions", {}), 404, "unknown-bandit")


def test_a_repeated_request_gets_its_decisions_again(caller):
    key = {"idempotency-key": "visit 17"}
    first, again = (caller.post("/bandits/page/decisions", {}, headers=key).json() for _ in range(2))
    assert first == again
    assert decided(caller)["round"] == 1
    more = {"decisions": [{}, {}]}
    others = [caller.post("/bandits/page/decisions:batch", more, headers=key).json()["decisions"] for _ in range(2)]
    assert [one["round"] for one in others[0]] == [2, 3], "another body is another request"
    assert others[0] == others[1]
    for wrong in ("x" * 201, "caf\xe9", ""):
        headers = {"idempotency-key": wrong.encode("latin-1")}
        refused(caller.post("/bandits/page/decisions", {}, headers=headers), 422, "invalid", "Idempotency-Key")
    assert decided(caller)["round"] == 4


WRONG_ASKS = [
    (b'{"candidates": ["a", 5]}', 422, "invalid", "candidates[1]"),
    (b'{"candidates": []}', 422, "invalid", "candidates"),
    (b'{"candidates": ["a", "nowhere"]}', 422, "invalid", "candidates"),
    (b'{"candidates": ["a", "a"]}', 422, "invalid", "candidates"),
    (b'{"candidates": [{"id": "x", "features": [1, "2", 3]}]}', 422, "invalid", "candidates[0].features[1]"),
    (b'{"candidates": [{"id": "x", "features": [1, NaN, 3]}]}', 422, "invalid", "candidates[0].features[1]"),
    (b'{"candidates": [{"id": "x", "features": [1, 2, 1e999]}]}', 422, "invalid", "candidates[0].features[2]"),
    (b'{"candidates": [{"id": "x", "features": [1]}]}', 422, "invalid", "candidates"),
    (b'{"candidates": [{"id": "x"}]}', 422, "invalid", "candidates[0].features"),
    (b'{"candidate": ["a"]}', 422, "invalid", "candidate"),
    (b'{"propensity": "yes"}', 422, "invalid", "propensity"),
    (b'{"user": 1.5}', 422, "invalid", "user"),
    (b'{"context": {"hour": -Infinity}}', 422, "invalid", "context.hour"),
    (b'{"context": {"hour": 9}}', 422, "invalid", "context"),
    (b"[]", 422, "invalid", None),
    (b"", 400, "malformed", None),
    (b'{"candidates": ', 400, "malformed", None),
    (b'{"user": "\xff"}', 400, "malformed", None),
    (b'{"user": "\\ud800"}', 400, "malformed", None),
    (b"[" * 5_000, 400, "malformed", None),
    (b'{"user": ' + b"9" * 5_000 + b"}", 400, "malformed", None),
]
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(("body", "status", "kind", "field"), WRONG_ASKS)
def test_wrong_asks_are_refused_by_name(shared, body, status, kind, field):
    caller, before = shared, count(shared, schema.decisions)
    refused(caller.post("/bandits/page/decisions", content=body, headers=JSON), status, kind, field)
    many = b'{"decisions": [{}, ' + body + b"]}"
    below = "decisions[1]" + (f".{field}" if field else "") if status == 422 else None
    refused(caller.post("/bandits/page/decisions:batch", content=many, headers=JSON), status, kind, below)
    assert count(caller, schema.decisions) == before, "nothing was decided"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("7316251849", "reward"),
        ("-0.7316251849", "reward"),
        ('"0.7316251849"', "reward"),
        ("[0.7316251849]", "reward"),
        ('{"value": 0.7316251849}', "reward"),
        ("NaN", "reward"),
        ("Infinity", "reward"),
        ("null", "reward"),
        ('1, "amount": 0.7316251849', "amount"),
    ],
)
def test_wrong_rewards_are_refused_and_not_repeated(shared, text, field):
    caller = shared
    token = decided(caller)["decision_id"]
    body = '{"reward": ' + text + "}"
    one = caller("PUT", f"/decisions/{token}/reward", content=body, headers=JSON)
    refused(one, 422, "invalid", field)
    entry = '{"decision_id": "' + token + '", "reward": ' + text + "}"
    many = caller.post("/rewards:batch", content='{"rewards": [' + entry + "]}", headers=JSON)
    refused(many, 422, "invalid", f"rewards[0].{field}")
    assert "7316251849" not in one.text + many.text + caller.log
    assert count(caller, schema.rewards) == 0


def test_other_kinds_of_bodies_are_refused(shared):
    caller = shared
    path = "/bandits/page/decisions"
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/json; charset=latin-1",
    ):
        refused(caller.post(path, content=b"{}", headers={"content-type": kind}), 415, "unsupported-media-type")
    refused(caller.post(path, content=b"{}"), 415, "unsupported-media-type")
    refused(caller.post(path, content=b"{}", headers={**JSON, "content-encoding": "gzip"}), 415, "unsupported-media-type")
    assert caller.post(path, content=b"{}", headers={"content-type": "Application/JSON; charset=utf-8"}).status_code == 200


def test_unknown_paths_and_methods(shared):
    caller = shared
    for path in ("/nothing", "/bandits/page/", "/bandits/page:stop", "/docs/"):
        refused(caller.get(path), 404, "not-found")
    wrong = caller("DELETE", "/bandits/page/items")
    refused(wrong, 405, "method-not-allowed")
    assert wrong.headers["allow"] == "GET, PUT"
    refused(caller.get("/bandits/page:pause"), 405, "method-not-allowed")


def test_bodies_that_are_too_large(tmp_path, database_url):
    with Caller(new_service(tmp_path, database_url), max_body=2_000, owns_service=True) as caller:
        with_bandit(caller)
        path, large = "/bandits/page/decisions", b'{"user": "' + b"x" * 3_000 + b'"}'
        refused(caller.post(path, content=large, headers=JSON), 413, "too-large")

        async def pieces():
            for place in range(0, len(large), 500):
                yield large[place : place + 500]

        refused(caller.post(path, content=pieces(), headers=JSON), 413, "too-large")
        catalogue = {"items": {f"item {number}": [0.1, 0.2, 0.3] for number in range(100)}}
        assert caller.put("/bandits/page/items", catalogue).status_code == 200, "a catalogue may be longer"


def test_a_body_that_does_not_come_is_not_waited_for(caller, monkeypatch):
    monkeypatch.setattr("adaprivate.service.lean.BODY_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.sleep(5)

    refused(caller.post("/bandits/page/decisions", content=slow(), headers=JSON), 408, "slow")


def away(monkeypatch, service):
    """The database does not answer any more."""

    def fail():
        raise Fault("unavailable", "The database does not answer (Planted); nothing was changed.")

    monkeypatch.setattr(service.database, "writing", fail)
    monkeypatch.setattr(service.database, "reading", fail)


def test_without_a_database_the_default_item_is_named(caller, monkeypatch):
    with_bandit(caller, "other", default_item="c")
    token = decided(caller)["decision_id"]
    away(monkeypatch, caller.service)
    for name, item in (("page", "a"), ("other", "c")):
        for path, body in ((f"/bandits/{name}/decisions", {}), (f"/bandits/{name}/decisions:batch", {"decisions": [{}]})):
            answer = caller.post(path, body)
            refused(answer, 503, "unavailable")
            assert answer.json()["item"] == item
            assert answer.headers["retry-after"] == "1"
    refused(caller.put(f"/decisions/{token}/reward", {"reward": SECRET}), 503, "unavailable")
    refused(caller.post("/rewards:batch", {"rewards": [{"decision_id": token, "reward": SECRET}]}), 503, "unavailable")
    refused(caller.get("/ready"), 503, "not-ready")
    assert caller.get("/health").status_code == 200
    routes = [line["route"] for line in caller.lines if line.get("status") == 503]
    assert "/bandits/{name}/decisions" in routes, "that the service failed is noted"
    assert not any("reward" in route for route in routes), "but of rewards not even that"
    assert "7316" not in caller.log


def test_pages_bring_all_they_need(shared):
    caller = shared
    for path in ("/", "/docs"):
        answer = caller.get(path)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        for tag in ("script", "style"):
            for inside in re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL):
                assert f"'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'" in policy
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", answer.text), "no other resources"
    for path in caller.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in caller.get("/docs").text
    script = caller.get("/client.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "max-age" in script.headers["cache-control"]
    plain = caller.get("/health").headers
    assert plain["x-content-type-options"] == "nosniff"
    assert plain["cache-control"] == "no-store"
    assert plain["cross-origin-resource-policy"] == "same-origin"
    head = caller("HEAD", "/health")
    assert head.status_code == 200
    assert head.headers["content-length"] == plain["content-length"]


def test_every_route_says_what_it_may_answer(shared):
    caller = shared
    document = caller.get("/openapi.json").json()
    operations = [(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()]
    assert len(operations) >= 20
    for path, method, operation in operations:
        assert operation["x-scope"] in ("read", "decide", "reward", "admin"), path
        assert operation["summary"]
        assert operation["description"], path
        answers = operation["responses"]
        assert {"401", "403", "421"} <= answers.keys(), path
        if "requestBody" in operation:
            assert {"400", "408", "413", "415", "422"} <= answers.keys(), path
            (kind,) = operation["requestBody"]["content"]
            assert kind == "application/json"
        for status, answer in answers.items():
            if int(status) >= 400:
                assert answer["content"].keys() == {"application/problem+json"}, (path, method, status)
    assert "x-bodies" not in json.dumps(document)
    assert "securitySchemes" not in document["components"]


def test_the_log_of_decisions(caller, tmp_path):
    with_bandit(caller, "kept", keep_rewards=True)
    token = caller.post("/bandits/kept/decisions", {}).json()["decision_id"]
    caller.put(f"/decisions/{token}/reward", {"reward": SECRET})
    plain = caller.get("/bandits/kept/log.parquet")
    assert plain.headers["content-type"] == "application/vnd.apache.parquet"
    (tmp_path / "log.parquet").write_bytes(plain.content)
    table = pl.read_parquet(tmp_path / "log.parquet")
    assert len(table) == 1
    assert "reward" not in table.columns
    refused(caller.get("/bandits/kept/log.parquet?rewards=perhaps"), 422, "invalid", "rewards")
    refused(caller.get("/bandits/none/log.parquet"), 404, "unknown-bandit")
    assert caller.get("/bandits/kept/log.parquet?rewards=true").status_code == 200


def test_many_at_once_are_decided_each_once(caller):
    async def all_of_them():
        return await asyncio.gather(*(caller.ask("POST", "/bandits/page/decisions", json={}) for _ in range(60)))

    answers: list[httpx.Response] = caller.run(all_of_them())
    assert sorted(one.json()["round"] for one in answers) == list(range(60))
    assert count(caller, schema.decisions) < 60, "requests that waited were stored together"
