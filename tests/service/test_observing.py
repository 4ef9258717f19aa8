"""What operators and strangers see: the log and the counts tell what is public, and nothing of rewards."""

import re

import pytest
from tests.service.calling import Caller, new_service, refused, with_bandit

SECRET = 0.7316251849
"""A reward that would be recognised anywhere."""
JSON = {"content-type": "application/json"}


@pytest.fixture
def caller(tmp_path, database_url):
    service = new_service(tmp_path, database_url, clock=lambda: 1_000_000.0)
    with Caller(service, owns_service=True) as found:
        with_bandit(found)
        yield found


def decided(caller, **ask):
    answer = caller.post("/bandits/page/decisions", ask)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_mistake_of_the_service_says_nothing(caller, monkeypatch):
    def fail(*_):
        raise RuntimeError(f"{SECRET} of anna@example.org")

    monkeypatch.setattr(caller.service, "status", fail)
    answer = caller.get("/bandits/page")
    refused(answer, 500, "internal")
    monkeypatch.setattr(caller.service, "reward", fail)
    token = decided(caller)["decision_id"]
    rewarded = caller.put(f"/decisions/{token}/reward", {"reward": SECRET})
    refused(rewarded, 500, "internal")
    told = answer.text + rewarded.text + caller.log
    assert "7316" not in told
    assert "anna" not in told
    assert {line["error"] for line in caller.lines if "error" in line} == {"RuntimeError"}


def test_the_log_tells_what_is_public_and_nothing_of_rewards(caller):
    caller.post("/bandits/page/decisions", {"candidates": [{"id": "hush-17", "features": [0.123456, 0, 0]}]})
    token = decided(caller)["decision_id"]
    before = len(caller.lines)
    caller.put(f"/decisions/{token}/reward", {"reward": SECRET})
    caller.put(f"/decisions/{token}/reward", {"reward": 0})
    caller.put("/decisions/nobody's/reward", {"reward": 0})
    caller("PUT", f"/decisions/{token}/reward", content=b"{", headers=JSON)
    caller.post("/rewards:batch", {"rewards": [{"decision_id": token, "reward": SECRET}]})
    caller("DELETE", f"/decisions/{token}/reward")
    caller("PUT", f"/decisions/{token}/reward", json={"reward": 1}, headers={"host": "evil.example"})
    assert len(caller.lines) == before, "requests that bring rewards leave no line"
    caller.get("/client.js?key=adp_hush-18")
    caller.get("/hush-19")
    caller.get("/bandits/hush-20")
    lines = caller.lines
    for line in lines:
        assert set(line) <= {"time", "level", "event", "route", "status", "ms", "bandit", "keys"}, line
    assert {"event": "request", "route": "/bandits/{name}/decisions", "status": 200, "bandit": "page"}.items() <= lines[
        -4
    ].items()
    assert not re.search(r"hush|123456|7316|reward", caller.log + token.partition("-")[2]), caller.log
    assert token not in caller.log


def test_what_others_see_does_not_depend_on_rewards(caller):
    tokens = [decided(caller)["decision_id"] for _ in range(5)]

    def seen():
        found = [
            caller.get(path).text for path in ("/metrics", "/bandits", "/bandits/page", "/bandits/page/series", "/ready")
        ]
        return [re.sub(r'"closes_at":[^,}]*', "", text) for text in found]

    before = seen()
    for token in tokens[:4]:
        assert caller.put(f"/decisions/{token}/reward", {"reward": 1}).status_code == 201
    assert seen() == before


def test_metrics(caller):
    with_bandit(caller, "other", holdback=0.5)
    caller.post("/bandits/other/decisions:batch", {"decisions": [{}] * 7})
    answer = caller.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    rounds = caller.get("/bandits/other").json()["rounds"]
    assert samples['adaprivate_decisions_total{bandit="other"}'] == "7"
    assert samples['adaprivate_rounds_total{bandit="other",stream="policy"}'] == str(rounds["policy"])
    assert samples['adaprivate_rounds_total{bandit="other",stream="holdback"}'] == str(rounds["holdback"])
    assert samples['adaprivate_decisions_total{bandit="page"}'] == "0"
    assert float(samples['adaprivate_next_batch_filled_ratio{bandit="other"}']) == pytest.approx(rounds["policy"] / 10)
    assert float(samples['adaprivate_delta{bandit="page"}']) == 1e-5
    assert float(samples["process_start_time_seconds"]) > 1e9
    assert "reward" not in answer.text
    for line in answer.text.splitlines():
        assert re.fullmatch(r'(# (HELP|TYPE) \w+ .+)|(\w+(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+)', line), line
