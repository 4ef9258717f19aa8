"""Who is let in: keys and their scopes, keys for one bandit, and what protects a service that needs none."""

import hashlib
import re
import time
from base64 import b64encode

import pytest
import sqlalchemy as sa
from tests.service.calling import BANDIT, Caller, database_of, new_service, refused, with_bandit
from tests.service.conftest import KINDS

from adaprivate.check import InputError
from adaprivate.service import access, schema
from adaprivate.service.faults import Fault
from adaprivate.service.lean import LeanRoute

ROUTES = [
    ("GET", "/", "read"),
    ("GET", "/docs", "read"),
    ("GET", "/openapi.json", "read"),
    ("GET", "/health", "read"),
    ("GET", "/ready", "read"),
    ("GET", "/metrics", "read"),
    ("GET", "/client.js", "decide"),
    ("GET", "/bandits", "read"),
    ("POST", "/bandits", "admin"),
    ("GET", "/bandits/page", "read"),
    ("GET", "/bandits/page/items", "read"),
    ("PUT", "/bandits/page/items", "admin"),
    ("GET", "/bandits/page/series", "read"),
    ("GET", "/bandits/page/arrivals", "admin"),
    ("GET", "/bandits/page/log.parquet", "admin"),
    ("POST", "/bandits/page:pause", "admin"),
    ("POST", "/bandits/page:resume", "admin"),
    ("POST", "/bandits/page/decisions", "decide"),
    ("POST", "/bandits/page/decisions:batch", "decide"),
    ("PUT", "/decisions/1p0-00000000000000000000/reward", "reward"),
    ("POST", "/rewards:batch", "reward"),
]


@pytest.fixture(scope="module", params=KINDS)
def keyed(request, tmp_path_factory):
    """A service that needs keys, and one key of each scope."""
    folder = tmp_path_factory.mktemp("keyed")
    service = new_service(folder, database_of(request, folder))
    keys = {scope: access.create_key(service.database, scope, [scope])[1] for scope in access.SCOPES}
    with Caller(service, require_keys=True, address="203.0.113.9", owns_service=True) as caller:
        admin = {"authorization": f"Bearer {keys['admin']}"}
        for name in ("page", "other"):
            assert caller.post("/bandits", {**BANDIT, "name": name}, headers=admin).status_code == 201
            items = {"items": {"a": None, "b": None}}
            assert caller.put(f"/bandits/{name}/items", items, headers=admin).status_code == 200
        yield caller, keys


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_route_is_listed_here(keyed):
    caller, keys = keyed
    document = caller.get("/openapi.json", headers=bearer(keys["read"])).json()
    declared = {
        (
            method.upper(),
            path.replace("{name}", "page").replace("{decision_id}", "1p0-00000000000000000000"),
            one["x-scope"],
        )
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }
    assert declared == set(ROUTES)
    mounted = {(method, route.path_format, route.scope) for route in caller.app.router.routes for method in route.methods}
    assert {type(route) for route in caller.app.router.routes} == {LeanRoute}, "whatever else would be let in unseen"
    assert len(mounted) == len(declared) == len(caller.app.router.routes)
    assert document["components"]["securitySchemes"].keys() == {"bearer", "header", "basic"}
    assert document["security"]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_scopes_are_exact_and_admin_has_all(keyed, method, path, scope):
    caller, keys = keyed
    for own, key in keys.items():
        answer = caller(method, path, headers=bearer(key))
        if own in (scope, "admin"):
            assert answer.status_code not in (401, 403), (own, answer.text)
        else:
            assert scope in refused(answer, 403, "forbidden")
        if method == "GET":
            assert caller("HEAD", path, headers=bearer(key)).status_code == answer.status_code


@pytest.mark.parametrize(
    ("method", "path"), [*((method, path) for method, path, _ in ROUTES), ("GET", "/nowhere"), ("OPTIONS", "/bandits")]
)
def test_nothing_is_open_without_a_key(keyed, method, path):
    caller, keys = keyed
    wrong = [
        {},
        bearer("adp_" + "x" * 43),
        bearer(""),
        bearer(hashlib.sha256(keys["admin"].encode()).hexdigest()),
        {"authorization": keys["admin"]},
        {"authorization": "Basic " + keys["admin"]},
        {"authorization": "Basic " + b64encode(keys["admin"].encode()).decode()},
        {"x-api-key": keys["admin"][:-1]},
    ]
    for headers in wrong:
        answer = caller(method, path, headers=headers)
        refused(answer, 401, "unauthorised")
        challenges = answer.headers.get_list("www-authenticate")
        assert [one.partition(" ")[0] for one in challenges] == ["Bearer", "Basic"]


def test_keys_come_in_three_headers_and_one_query(keyed):
    caller, keys = keyed
    basic = b64encode(f"anyone:{keys['read']}".encode()).decode()
    for headers in (bearer(keys["read"]), {"x-api-key": keys["read"]}, {"authorization": f"Basic {basic}"}):
        assert caller.get("/health", headers=headers).status_code == 200
    assert caller.get(f"/client.js?key={keys['decide']}").status_code == 200
    refused(caller.get(f"/health?key={keys['read']}"), 401, "unauthorised")
    refused(caller.get("/nowhere", headers=bearer(keys["read"])), 404, "not-found")
    assert keys["decide"] not in caller.log
    assert "key=" not in caller.log


def test_a_key_for_one_bandit_opens_no_other(keyed):
    caller, keys = keyed
    database = caller.service.database
    own = {scope: access.create_key(database, "own", [scope], "page")[1] for scope in access.SCOPES}
    wait_until(lambda: caller.get("/health", headers=bearer(own["admin"])).status_code == 200)
    ask = {"candidates": ["a", "b"]}
    assert caller.post("/bandits/page/decisions", ask, headers=bearer(own["decide"])).status_code == 200
    refused(caller.post("/bandits/other/decisions", ask, headers=bearer(own["decide"])), 403, "forbidden")
    refused(caller.post("/bandits/none/decisions", ask, headers=bearer(own["decide"])), 403, "forbidden")
    refused(caller.post("/bandits/other:pause", headers=bearer(own["admin"])), 403, "forbidden")
    refused(caller.post("/bandits", {**BANDIT, "name": "third"}, headers=bearer(own["admin"])), 403, "forbidden")
    listed = caller.get("/bandits", headers=bearer(own["read"])).json()["bandits"]
    assert [one["name"] for one in listed] == ["page"]
    metrics = caller.get("/metrics", headers=bearer(own["read"])).text
    assert 'bandit="page"' in metrics
    assert 'bandit="other"' not in metrics
    tokens = [
        caller.post(f"/bandits/{name}/decisions", ask, headers=bearer(keys["decide"])).json()["decision_id"]
        for name in ("page", "other")
    ]
    rewarded = [caller.put(f"/decisions/{token}/reward", {"reward": 1}, headers=bearer(own["reward"])) for token in tokens]
    assert rewarded[0].status_code == 201
    refused(rewarded[1], 403, "forbidden", "decision_id")
    many = {"rewards": [{"decision_id": token, "reward": 1} for token in tokens]}
    refused(caller.post("/rewards:batch", many, headers=bearer(own["reward"])), 403, "forbidden", "rewards[1].decision_id")
    again = caller.post("/rewards:batch", many, headers=bearer(keys["reward"]))
    assert again.json() == {"statuses": ["duplicate", "recorded"]}


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_a_key_for_one_bandit_sees_no_other_on_any_route(keyed, method, path, scope):
    caller, _ = keyed
    key = access.create_key(caller.service.database, "own", access.SCOPES, "page")[1]
    wait_until(lambda: caller.get("/health", headers=bearer(key)).status_code == 200)
    elsewhere = path.replace("/page", "/other")
    if elsewhere != path:
        refused(caller(method, elsewhere, headers=bearer(key)), 403, "forbidden")
        refused(caller(method, elsewhere.replace("other", "%6fther"), headers=bearer(key)), 403, "forbidden")
    elif method == "GET":
        assert not re.search(r'"other"', caller.get(path, headers=bearer(key)).text)


def test_keys_are_shown_once_and_kept_as_hashes(tmp_path, database_url):
    service = new_service(tmp_path, database_url)
    identity, secret = access.create_key(service.database, "shop", ["reward", "decide", "reward"], clock=lambda: 5.0)
    (key,) = access.list_keys(service.database)
    assert (key.id, key.name, key.scopes, key.bandit) == (identity, "shop", {"decide", "reward"}, None)
    assert key.to_dict()["scopes"] == ["decide", "reward"]
    with service.database.reading() as connection:
        row = connection.execute(sa.select(schema.api_keys)).one()
    assert row.hash == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(row)
    assert len(secret) == 4 + 43
    assert access.create_key(service.database, "shop", ["read"])[1] != secret
    with pytest.raises(InputError, match="scope"):
        access.create_key(service.database, "shop", ["write"])
    with pytest.raises(InputError, match="scope"):
        access.create_key(service.database, "shop", [])
    with pytest.raises(InputError, match="bandit"):
        access.create_key(service.database, "shop", ["read"], "none")
    with pytest.raises(InputError, match="id"):
        access.revoke_key(service.database, "none")
    access.revoke_key(service.database, identity, clock=lambda: 7.0)
    access.revoke_key(service.database, identity, clock=lambda: 9.0)
    assert access.list_keys(service.database)[0].revoked_at == 7.0
    service.close()


def test_keys_made_and_revoked_while_it_runs(keyed, monkeypatch):
    caller, _ = keyed
    database = caller.service.database
    identity, secret = access.create_key(database, "guest", ["read"])
    wait_until(lambda: caller.get("/health", headers=bearer(secret)).status_code == 200)
    with monkeypatch.context() as patch:

        def fail():
            raise Fault("unavailable", "Planted.")

        patch.setattr(database, "reading", fail)
        time.sleep(2.5)  # the table was to be read again meanwhile
        assert caller.get("/health", headers=bearer(secret)).status_code == 200, "known keys go on"
        refused(caller.get("/health", headers=bearer("adp_unknown")), 401, "unauthorised")
    access.revoke_key(database, identity)
    wait_until(lambda: caller.get("/health", headers=bearer(secret)).status_code == 401)


def test_no_request_asks_the_database_for_its_key(tmp_path, database_url):
    service = new_service(tmp_path, database_url)
    secret = access.create_key(service.database, "one", ["read"])[1]
    ticks = [0.0]
    ring = access.Keyring(service.database, clock=lambda: ticks[0])
    ring.refresh()
    statements = []
    sa.event.listen(service.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    for _ in range(50):
        assert ring.find(secret) is not None
        ring.refresh_for_stranger()
    assert statements == []
    ticks[0] = 0.3
    for _ in range(50):
        ring.refresh_for_stranger()
    assert sum("api_keys" in text for text in statements) == 1, "strangers make it look again, now and then"
    service.close()


# --- without keys -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory):
    service = new_service(tmp_path_factory.mktemp("open"))
    with Caller(service, allow_origins=["https://www.example.org"], owns_service=True) as caller:
        with_bandit(caller)
        yield caller


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "LOCALHOST", "app.localhost:80", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "[::1]"],
)
def test_names_of_this_machine(unlocked, host):
    assert unlocked.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example:8000",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "[2001:db8::1]:8000",
        "",
        "xlocalhost",
    ],
)
def test_names_that_were_pointed_here(unlocked, host):
    for method, path in (("GET", "/bandits"), ("POST", "/bandits/page/decisions")):
        refused(unlocked(method, path, headers={"host": host}), 421, "misdirected")


def test_only_this_machine_and_no_proxy(unlocked):
    for address in ("10.0.0.7", "203.0.113.9", "::ffff:203.0.113.9", "fe80::1%eth0", "somewhere"):
        refused(unlocked.get("/bandits", address=address), 403, "forbidden")
    for address in ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
        assert unlocked.get("/bandits", address=address).status_code == 200
    for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host"):
        refused(unlocked.get("/bandits", headers={name: "127.0.0.1"}), 403, "forbidden")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "https://www.example.org.evil"])
def test_pages_from_elsewhere_change_nothing(unlocked, origin):
    headers = {"origin": origin}
    before = unlocked.get("/bandits/page").json()["rounds"]
    refused(unlocked.post("/bandits/page/decisions", {}, headers=headers), 403, "forbidden")
    refused(unlocked.post("/bandits/page:pause", headers=headers), 403, "forbidden")
    refused(unlocked.put("/decisions/1p0-00000000000000000000/reward", {"reward": 1}, headers=headers), 403, "forbidden")
    assert unlocked.get("/bandits/page").json()["rounds"] == before
    read = unlocked.get("/bandits", headers=headers)
    assert "access-control-allow-origin" not in read.headers, "what it may ask for it may not read"
    asked = unlocked("OPTIONS", "/bandits", headers={**headers, "access-control-request-method": "POST"})
    assert "access-control-allow-origin" not in asked.headers
    assert asked.status_code == 405


def test_pages_of_this_service_and_of_allowed_origins(unlocked):
    own = {"origin": "http://localhost:8000"}
    assert unlocked.post("/bandits/page/decisions", {}, headers=own).status_code == 200
    allowed = {"origin": "https://www.example.org"}
    answer = unlocked.post("/bandits/page/decisions", {}, headers=allowed)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://www.example.org"
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers
    wrong = unlocked.post("/bandits/page/decisions", {"x": 1}, headers=allowed)
    assert wrong.headers["access-control-allow-origin"] == "https://www.example.org", "so that the page can read why"
    asked = {
        **allowed,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type, idempotency-key",
    }
    flight = unlocked("OPTIONS", "/decisions/x/reward", headers=asked)
    assert flight.status_code == 204
    assert flight.content == b""
    assert {"PUT", "POST"} <= {one.strip() for one in flight.headers["access-control-allow-methods"].split(",")}
    names = {one.strip() for one in flight.headers["access-control-allow-headers"].split(",")}
    assert {"authorization", "content-type", "idempotency-key", "x-api-key"} <= names


def test_keys_do_not_let_other_pages_in(keyed):
    caller, keys = keyed
    basic = b64encode(f":{keys['admin']}".encode()).decode()  # which browsers send along unasked
    headers = {"authorization": f"Basic {basic}", "origin": "http://evil.example"}
    refused(caller.post("/bandits/page:pause", headers=headers), 403, "forbidden")


def test_origins_and_hosts_are_checked_at_the_start(tmp_path):
    service = new_service(tmp_path)
    for wrong in ("www.example.org", "https://www.example.org/", "ftp://x", "https://", "*"):
        with pytest.raises(InputError, match="allow_origin"):
            Caller(service, allow_origins=[wrong])
    with Caller(service, require_keys=True, allow_origins=["*"]) as caller:
        asked = caller("OPTIONS", "/bandits", headers={"origin": "https://any", "access-control-request-method": "POST"})
        assert asked.headers["access-control-allow-origin"] == "https://any"
    service.close()
    for host in ("0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org"):
        assert not access.is_loopback(host)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        assert access.is_loopback(host)
