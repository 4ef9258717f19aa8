"""How much one caller may ask for, and that nobody learns from refusals whether others send rewards."""

import pytest
from tests.service.calling import Caller, new_service, refused, with_bandit

from adaprivate.check import InputError
from adaprivate.service import access, limits
from adaprivate.service.faults import Fault
from adaprivate.service.limits import Buckets, Limits


class Clock:
    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def test_a_bucket_fills_at_its_rate():
    clock = Clock()
    buckets = Buckets(10.0, clock)
    assert [buckets.take("anna", 1) for _ in range(10)] == [0.0] * 10
    assert buckets.take("anna", 1) == pytest.approx(0.1)
    assert buckets.take("bert", 1) == 0.0, "everyone has a bucket"
    clock.now += 0.35
    assert [buckets.take("anna", 1) for _ in range(3)] == [0.0] * 3
    assert buckets.take("anna", 1) == pytest.approx(0.05)
    clock.now += 100
    assert [buckets.take("anna", 1) for _ in range(10)] == [0.0] * 10, "no more than a second's worth gathers"
    assert buckets.take("anna", 1) > 0


def test_large_calls_are_paid_for_afterwards():
    clock = Clock()
    buckets = Buckets(10.0, clock)
    assert buckets.take("anna", 500) == 0.0
    assert buckets.take("anna", 1) == pytest.approx(49.1)
    clock.now += 49.2
    assert buckets.take("anna", 1) == 0.0


def test_slow_rates():
    clock = Clock()
    buckets = Buckets(0.5, clock)
    assert buckets.take("anna", 1) == 0.0
    assert buckets.take("anna", 1) == pytest.approx(2.0)
    clock.now += 2.0
    assert buckets.take("anna", 1) == 0.0


def test_over_any_time_no_more_than_the_rate_passes():
    clock = Clock()
    buckets = Buckets(7.0, clock)
    passed = 0
    for _ in range(20_000):
        clock.now += 0.001
        passed += buckets.take("anna", 1) == 0.0
    assert 7 * 20 - 1 <= passed <= 7 * 20 + 7


def test_callers_that_went_are_forgotten(monkeypatch):
    monkeypatch.setattr(limits, "MOST_CALLERS", 100)
    clock = Clock()
    buckets = Buckets(1.0, clock)
    for number in range(1_000):
        clock.now += 0.1
        assert buckets.take(number, 1) == 0.0
    assert len(buckets._full_at) <= 100
    for number in range(1_000, 2_000):
        buckets.take(number, 50)
    assert len(buckets._full_at) <= 100


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_rates_that_are_none(rate):
    with pytest.raises(InputError, match="rate"):
        Limits(rate)


def test_decisions_never_depend_on_rewards():
    found = Limits(1.0, Clock())
    for _ in range(3):
        found.decisions(f"key {_}", "10.0.0.1", 1)
    found.rewards("key", "10.0.0.1", 10_000)
    found.decisions("key", "10.0.0.1", 1)
    with pytest.raises(Fault) as caught:
        found.decisions("key", "10.0.0.2", 1)
    assert caught.value.kind == "too-many"
    assert caught.value.extra == {"retry_after": 1}


def test_rewards_of_others_with_the_same_key_do_not_show():
    found = Limits(1.0, Clock())
    found.rewards("publishable", "10.0.0.1", 10_000)
    found.rewards("publishable", "10.0.0.2", 1)
    with pytest.raises(Fault):
        found.rewards("publishable", "10.0.0.1", 1)


def test_without_a_rate_there_is_no_limit():
    found = Limits(None)
    for _ in range(1_000):
        found.decisions(None, "10.0.0.1", 1_000_000)
        found.rewards(None, "10.0.0.1", 1_000_000)


def test_too_many_over_http(tmp_path, database_url):
    service = new_service(tmp_path, database_url)
    with Caller(service, rate=5.0, owns_service=True) as caller:
        with_bandit(caller)
        first = caller.post("/bandits/page/decisions:batch", {"decisions": [{}] * 100})
        assert first.status_code == 200
        for path, body in (("decisions", {}), ("decisions:batch", {"decisions": [{}]})):
            answer = caller.post(f"/bandits/page/{path}", body)
            refused(answer, 429, "too-many")
            assert 15 <= int(answer.headers["retry-after"]) <= 20
        assert caller.post("/bandits/page/decisions", {}, address="127.0.0.2").status_code == 200, "others go on"
        tokens = [one["decision_id"] for one in first.json()["decisions"]]
        many = {"rewards": [{"decision_id": token, "reward": 1} for token in tokens]}
        assert caller.post("/rewards:batch", many).json() == {"statuses": ["recorded"] * 100}, "rewards count by themselves"
        refused(caller.put(f"/decisions/{tokens[0]}/reward", {"reward": 1}), 429, "too-many")
        assert caller.put(f"/decisions/{tokens[0]}/reward", {"reward": 1}, address="127.0.0.2").status_code == 200
        assert caller.get("/bandits/page").json()["rounds"]["decided"] == 101
        assert not any(line.get("status") == 429 and "reward" in str(line) for line in caller.lines)


def test_a_key_has_one_limit_wherever_it_is_used(tmp_path, database_url):
    service = new_service(tmp_path, database_url)
    keys = [access.create_key(service.database, name, ["admin"])[1] for name in ("anna", "bert")]
    headers = [{"authorization": f"Bearer {key}"} for key in keys]
    with Caller(service, rate=2.0, require_keys=True, owns_service=True) as caller:
        made = {"name": "page", "policy": "adaprivate-ts", "dimension": 2, "rounds": 100, "batch_size": 10}
        assert caller.post("/bandits", made, headers=headers[0]).status_code == 201
        assert caller.put("/bandits/page/items", {"items": {"a": None, "b": None}}, headers=headers[0]).status_code == 200
        ask = {"decisions": [{}] * 50}
        path = "/bandits/page/decisions:batch"
        assert caller.post(path, ask, headers=headers[0], address="10.0.0.1").status_code == 200
        refused(caller.post(path, ask, headers=headers[0], address="10.0.0.2"), 429, "too-many")
        assert caller.post(path, ask, headers=headers[1], address="10.0.0.1").status_code == 200
