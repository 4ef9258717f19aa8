"""The OpenAPI document against the service: whatever it allows or forbids is sent, and answers are as it says.

Schemathesis makes the requests, always the same ones: the document's examples, values at every bound and just beyond it,
random ones, and chains in which an answer's ids go into the next request.
"""

import io
import time
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
    "positive_data_acceptance": {"expected-statuses": ["2xx", "404", "409", "410", "413", "422"]},
    # A list that is too long may make the body too large before anybody counts.
    "negative_data_rejection": {"expected-statuses": ["400", "404", "405", "409", "413", "415", "422"]},
    "max_response_time": 30.0,
}
WITH_BODY = {"POST /bandits", "PUT /bandits/{name}/items", "PUT /decisions/{decision_id}/reward", "POST /rewards:batch"}
DECIDING = {"POST /bandits/{name}/decisions", "POST /bandits/{name}/decisions:batch"}


def explored(live, examples, headers=None, **phases):
    """How often each route answered with which status, and what was wrong."""
    settings = {"max-examples": examples, "deterministic": True, "database": "none", "no-shrink": True}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "base-url": live.url,
            "headers": headers or {},
            "generation": settings,
            "phases": {"stateful": {"max-steps": 10}, **phases},
            "checks": CHECKS,
            "continue-on-failure": True,
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
    seen, wrong = explored(live, 12 if "sqlite" in request.node.name else 4)
    assert not wrong, "\n\n".join(wrong[:5])
    assert len(seen) >= 20
    for label, statuses in seen.items():
        assert any(status < 300 for status in statuses), (label, statuses)
    for label in WITH_BODY | DECIDING:
        assert {415, 422} <= seen[label].keys(), (label, seen[label])
    assert seen["POST /bandits"][201] >= 5
    assert all(seen[label][200] >= 20 for label in DECIDING), seen
    assert seen["PUT /decisions/{decision_id}/reward"][201] >= 1, "ids of decisions came back with rewards"
    assert live.ask("GET", "/health") == {"status": "ok"}


def test_with_keys(tmp_path):
    live = Live(tmp_path, require_keys=True, log=Log(io.StringIO()))
    try:
        _, secret = create_key(live.database, "all", ["admin"])
        headers = {"authorization": f"Bearer {secret}"}
        wait_for(lambda: live.http.get("/health", headers=headers).status_code == 200, 20)
        live.http.post("/bandits", json=BANDIT, headers=headers).raise_for_status()
        live.http.put("/bandits/front-page/items", json={"items": ITEMS}, headers=headers).raise_for_status()
        began = time.monotonic()
        seen, wrong = explored(live, 2, headers, coverage={"enabled": False})
        assert not wrong, "\n\n".join(wrong[:5])
        assert len(seen) >= 20
        for label, statuses in seen.items():
            assert statuses[401] >= 1, (label, statuses, time.monotonic() - began)
            assert any(status < 300 for status in statuses), (label, statuses)
    finally:
        live.close()
