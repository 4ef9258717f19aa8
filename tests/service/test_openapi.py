"""The OpenAPI document against the service: whatever it allows or forbids is sent, and answers are as it says.

Schemathesis makes the requests, always the same ones: the document's examples, values at every bound and just beyond it,
random ones, and chains in which an answer's ids go into the next request.
"""

import io
from collections import Counter, defaultdict

import pytest
import schemathesis
import schemathesis.engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events
from tests.service.calling import database_of
from tests.service.conftest import KINDS
from tests.service.live import Live, wait_for

from adaprivate.service.access import create_key
from adaprivate.service.observing import Log

FEATURISER = {
    "context": [
        {"name": "hour", "kind": "number", "low": 0, "high": 24, "missing": 12},
        {"name": "device", "kind": "category", "values": ["phone", "desk"], "missing": "desk"},
    ],
    "items": {"kind": "features", "length": 3, "norm": 1},
}
BANDIT = {"name": "front-page", "rounds": 10_000, "reward_window": 0.5, "unit": "user", "featuriser": FEATURISER}
"""For which the document's examples are right: names, items, features, context and user."""
ITEMS = {"front": [0.1, 0.9, 0.0], "sports": [0.7, 0.1, 0.2], "weather": [0.0, 0.0, 1.0]}
CHECKS = {
    # What is valid by itself need not fit a bandit (422: its dimension, policy, items), another field, or the largest body
    # (413); names and decisions may be unknown, or of the wrong state (404, 409, 410).
    "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "404", "409", "410", "413", "422"]},
    # A list that is too long may make the body too large before anybody counts.
    "negative_data_rejection": {"expected-statuses": ["400", "401", "404", "405", "409", "413", "415", "422"]},
}
WITH_BODY = {"POST /bandits", "PUT /bandits/{name}/items", "PUT /decisions/{decision_id}/reward", "POST /rewards:batch"}
DECIDING = {"POST /bandits/{name}/decisions", "POST /bandits/{name}/decisions:batch"}


def explored(live, examples, secret=None, **phases):
    """How often each route answered with which status, and what was wrong."""
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    settings = {"max-examples": examples, "deterministic": True, "database": "none", "no-shrink": True}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "base-url": live.url,
            "auth": {"openapi": {"bearer": {"bearer": secret}}} if secret else {},
            "generation": settings,
            "phases": {"stateful": {"max-steps": 10}, **phases},
            "checks": CHECKS,
            "continue-on-failure": True,
            "request-timeout": 60,
        }
    )
    document = live.http.get("/openapi.json", headers=headers).json()
    seen, wrong = defaultdict(Counter), []
    for event in schemathesis.engine.from_schema(schemathesis.openapi.from_dict(document, config=config)).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            continue
        for number, exchange in event.recorder.interactions.items():
            assert exchange.response is not None, event.recorder.cases[number].value
            seen[event.recorder.cases[number].value.operation.label][exchange.response.status_code] += 1
        for found in (one.failure_info for checks in event.recorder.checks.values() for one in checks):
            if found is not None:
                wrong.append(
                    f"{found.failure.operation}: {found.failure.title}: {found.failure.message}\n{found.code_sample}"
                )
    return seen, wrong


def assert_met(seen):
    """Every route has met a request: that there is a bandit of the same name is found out last."""
    for label, statuses in seen.items():
        met = sum(count for status, count in statuses.items() if status < 300)
        assert met + (statuses[409] if label == "POST /bandits" else 0) >= 1, (label, statuses)


@pytest.fixture(scope="module", params=KINDS)
def live(request, tmp_path_factory):
    folder, written = tmp_path_factory.mktemp("openapi"), io.StringIO()
    found = Live(folder, database_of(request, folder), log=Log(written))
    found.ask("POST", "/bandits", BANDIT)
    found.ask("PUT", "/bandits/front-page/items", {"items": ITEMS})
    yield found
    found.close()
    assert '"level":"error"' not in written.getvalue()


def test_answers_are_as_the_document_says(live, request):
    seen, wrong = explored(live, 30 if "sqlite" in request.node.name else 5)
    assert not wrong, "\n\n".join(wrong[:5])
    assert len(seen) >= 20
    assert_met(seen)
    for label in WITH_BODY | DECIDING:
        assert {415, 422} <= seen[label].keys(), (label, seen[label])
    assert seen["POST /bandits"][201] + seen["POST /bandits"][409] >= 20
    assert all(seen[label][200] >= 5 for label in DECIDING), seen
    assert {201, 200, 409} <= seen["PUT /decisions/{decision_id}/reward"].keys(), "ids of decisions came back with rewards"
    assert live.ask("GET", "/health") == {"status": "ok"}


def test_with_keys(tmp_path):
    live = Live(tmp_path, require_keys=True, log=Log(io.StringIO()))
    try:
        _, secret = create_key(live.database, "all", ["admin"])
        headers = {"authorization": f"Bearer {secret}"}
        wait_for(lambda: live.http.get("/health", headers=headers).status_code == 200, 20)
        live.http.post("/bandits", json=BANDIT, headers=headers).raise_for_status()
        live.http.put("/bandits/front-page/items", json={"items": ITEMS}, headers=headers).raise_for_status()
        seen, wrong = explored(live, 2, secret, coverage={"enabled": False})
        assert not wrong, "\n\n".join(wrong[:5])
        assert len(seen) >= 20
        assert_met(seen)
    finally:
        live.close()
