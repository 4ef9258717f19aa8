"""Requests that nobody should send: each is refused in a moment, by the name of its field, and nothing of it is stored."""

import json
import time

import pytest
import sqlalchemy as sa
from tests.service.calling import Caller, database_of, new_service, with_bandit
from tests.service.conftest import KINDS

from adaprivate.service import schema
from adaprivate.service.sizing import MOST_OFFERED

JSON = {"content-type": "application/json"}
HERE = "@here@"
SECRET = "7316251849"
"""Digits of a reward that would be recognised anywhere."""
FEATURISER = {
    "context": [
        {"name": "hour", "kind": "number", "low": 0, "high": 24},
        {"name": "device", "kind": "category", "values": ["phone", "desk"], "other": False},
        {"name": "topic", "kind": "hashed", "buckets": 4, "missing": "none"},
        {"name": "taste", "kind": "vector", "length": 2, "norm": 1.0, "missing": [0, 0]},
    ],
    "items": {"kind": "features", "length": 3, "norm": 1.0},
}
LONGEST = 20.0
"""Seconds of processor time that a refusal may take: a few, on any machine, however busy."""


@pytest.fixture(scope="module", params=KINDS)
def caller(request, tmp_path_factory):
    """A plain bandit (page), one of people with a featuriser (people), and one whose clients flip (local)."""
    folder = tmp_path_factory.mktemp("wrong")
    service = new_service(folder, database_of(request, folder), clock=lambda: 1_000_000.0)
    with Caller(service, owns_service=True) as found:
        with_bandit(found)
        people = {"policy": "noise-aware", "dimension": None, "unit": "user", "featuriser": FEATURISER, "batch_size": None}
        with_bandit(found, "people", **people)
        with_bandit(found, "local", policy="noise-aware", local=True)
        yield found


def stored(caller):
    """Everything that is stored, as counts."""
    tables = (schema.bandits, schema.items, schema.decisions, schema.requests, schema.rewards, schema.late, schema.releases)
    with caller.service.database.reading() as connection:
        counts = [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
        columns = (schema.bandits.c.name, schema.bandits.c.decided, schema.bandits.c.catalogue, schema.bandits.c.state)
        return counts, connection.execute(sa.select(*columns).order_by(schema.bandits.c.id)).all()


def sent(caller, method, path, body, **options):
    """The answer to a body of these bytes."""
    content = body if isinstance(body, bytes) else body.encode()
    began, used = time.monotonic(), time.process_time()
    answer = caller(method, path, content=content, **{"headers": JSON, **options})
    assert min(time.monotonic() - began, time.process_time() - used) < LONGEST, (path, body[:200])
    return answer


def refused(answer, field, statuses=(422,)):
    """That it is a problem of this field (or one below it), or of no field where the body is no JSON."""
    assert answer.status_code in statuses, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["detail"].endswith(".")
    assert len(found["detail"]) < 1_000
    if answer.status_code == 422:
        named = found.get("field") or ""
        assert named.startswith(field or ""), (field, found)
    assert SECRET not in answer.text
    return found


def filled(body, value):
    """A body with this JSON in the place that is marked."""
    text = json.dumps(body)
    assert text.count(f'"{HERE}"') == 1
    return text.replace(f'"{HERE}"', value)


def deep(depth, inside="1"):
    return "[" * depth + inside + "]" * depth


NO_NUMBER = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", '"1"', '""', "[]", "[1]", "{}", '{"a": 1}', deep(50)]
NO_REAL = [*NO_NUMBER, "true", "9" * 401, "-" + "9" * 401]
NO_WHOLE = [*NO_REAL, "1.5", "0", "-1", str(10**400), str(2**63)]
NO_TEXT = ["1", "1.5", "true", "[]", "{}", '["a"]', "NaN", '""', json.dumps("x" * 201)]
NO_TRUTH = ["1", "0", '"true"', "[]", "{}", "null", "NaN"]
NO_ITEM = [*NO_TEXT, '"a\\u0000b"', '"\\n"', '"\\u007f"']
BROKEN = [
    b'"\xff"',
    b'"\xc3("',
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"a\x00b"',
    b'"a\nb"',
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"--1",
]
BROKEN += [b"nul", b"'a'", b'"a', b"[1,]", b"{1: 2}", b"[" * 100_000, b'{"a":' * 50_000, b"[" * 5_000 + b"]" * 5_000]
BROKEN += [b"9" * 100_000, b"1e" + b"9" * 100, b"\xef\xbb\xbf1", b""]
"""What no JSON is, or nothing that anybody would read: as the value of any field."""

NEW = {"name": "new", "policy": "noise-aware", "dimension": 3, "rounds": 1_000}
ASK = {"candidates": ["a", "b"]}
DESCRIBED = {"candidates": [{"id": "x", "features": [0.1, 0.2, 0.3]}]}
VISIT = {"candidates": ["a", "b"], "user": "anna", "context": {"hour": 9, "device": "phone"}}
ROUTES = [
    ("POST", "/bandits", NEW),
    ("PUT", "/bandits/page/items", {"items": {"a": [1, 0, 0]}}),
    ("POST", "/bandits/page/decisions", ASK),
    ("POST", "/bandits/page/decisions:batch", {"decisions": [ASK]}),
    ("POST", "/bandits/people/decisions", VISIT),
    ("PUT", "/decisions/1p0-00000000000000000000/reward", {"reward": 1}),
    ("POST", "/rewards:batch", {"rewards": [{"decision_id": "1p0-00000000000000000000", "reward": 1}]}),
]


def places(body, path=()):
    """Every place of a document, with the document in which it is marked."""
    yield path, HERE
    if isinstance(body, dict | list):
        for name, value in body.items() if isinstance(body, dict) else enumerate(body):
            for place, inside in places(value, (*path, name)):
                copy = body.copy()
                copy[name] = inside
                yield place, copy


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=[f"{method} {path}" for method, path, _ in ROUTES])
def test_what_is_no_json_anywhere_in_a_body(caller, method, path, body):
    before = stored(caller)
    for _, marked in places(body):
        text = json.dumps(marked).encode()
        assert text.count(f'"{HERE}"'.encode()) == 1
        for value in BROKEN:
            refused(sent(caller, method, path, text.replace(f'"{HERE}"'.encode(), value)), None, (400, 422))
    for whole in (b"null", b"5", b'"x"', b"[]", b"true", b"[{}]", json.dumps([body]).encode()):
        refused(sent(caller, method, path, whole), None)
    refused(sent(caller, method, path, json.dumps({**body, "more": 1})), "more")
    refused(sent(caller, method, path, json.dumps({**body, "x" * 5_000: 1})), "xxx")
    refused(sent(caller, method, path, json.dumps(body) + "{}"), None, (400,))
    assert stored(caller) == before


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=[f"{method} {path}" for method, path, _ in ROUTES])
def test_names_that_come_twice(caller, method, path, body):
    """Only the last would count: whoever reads the first, a proxy perhaps, would see another request."""
    before = stored(caller)
    tried = 0
    for place, marked in places(body):
        if not place or isinstance(place[-1], int):
            continue
        name, value = json.dumps(place[-1]), json.dumps(at(body, place))
        text = json.dumps(marked)
        for again in (f"{value}, {name}: {value}", f"{value},{name}\t:0.{SECRET}, {name} : {value}"):
            answer = sent(caller, method, path, text.replace(f'"{HERE}"', again))
            refused(answer, str(place[0]), (422,))
            assert "once" in answer.json()["detail"] or again.count(SECRET)
            tried += 1
    assert tried >= 2
    escaped = json.dumps(body).replace(
        f'"{next(iter(body))}"', f'"\\u{ord(next(iter(body))[0]):04x}{next(iter(body))[1:]}"', 1
    )
    twice = escaped[:-1] + ", " + json.dumps(body)[1:]
    refused(sent(caller, method, path, twice), next(iter(body)), (422,))
    assert stored(caller) == before


def at(body, place):
    for part in place:
        body = body[part]
    return body


def test_a_colon_in_a_text_is_no_name(caller):
    texts = ['x": ', '"a":"b"', 'a\\":', ":::", '{"user": 1, "user": 2}']
    for text in texts:
        body = {**VISIT, "user": text, "candidates": [{"id": text, "features": [0.1, 0.2, 0.3]}]}
        assert caller.post("/bandits/people/decisions", body).json()["item"] == text


CREATE = {
    "name": [
        *NO_TEXT,
        "null",
        '"A"',
        '"a b"',
        '"../x"',
        '"a/b"',
        '"-x"',
        '"a\\n"',
        '"\\u0000"',
        '"é"',
        f'"{"x" * 65}"',
        '".."',
    ],
    "policy": [*NO_TEXT, "null", '"nothing"', '"../../secret"', '"\\u0000"', '"ucb1"', '"random"', '"ldp-linucb"'],
    "dimension": [*NO_WHOLE, "null", "257", "2000", "1000000000"],
    "rounds": [*NO_WHOLE, "null", "1000000001", "1000000000000"],
    "epsilon": [*NO_REAL, "null", "0", "-0.0", "-1", "1e-7", "1e5", "5e-324", "1.7976931348623157e308"],
    "delta": [*NO_REAL, "null", "-1e-9", "0", "1", "0.999999999999", "0.9999999999999999", "1e-300"],
    "batch_size": [*NO_WHOLE, "1001", "1000000000"],
    "reward_window": [*NO_REAL, "null", "-1", "-5e-324", "1e9"],
    "unit": [*NO_TEXT, "null", '"everyone"', '"EVENT"', '"joint"'],
    "holdback": [*NO_REAL, "null", "-0.1", "0.51", "1"],
    "default_item": NO_ITEM,
    "keep_rewards": NO_TRUTH,
    "local": NO_TRUTH,
    "base_rate": [*NO_REAL, "0", "1", "-0.1", "1e-5", "5e-324"],
    "missing": [*NO_REAL, "-0.1", "1.1"],
    "featuriser": ["1", '"x"', "[]", "true", "{}", "NaN", '{"items": {}}', '{"items": 5}', '{"kind": "features"}'],
    "options": ["1", '"x"', "[]", "true", "null", "NaN", json.dumps({f"o{n}": 1 for n in range(101)})],
}


@pytest.mark.parametrize("field", CREATE)
def test_bandits_that_cannot_be(caller, field):
    before = stored(caller)
    for value in CREATE[field]:
        refused(sent(caller, "POST", "/bandits", filled({**NEW, field: HERE}, value)), field)
    assert stored(caller) == before


FEATURISERS = {
    "context": ["5", "{}", '"x"', "[5]", "[null]", "[{}]", deep(40)],
    "items": ["5", "[]", "null", "{}", '{"kind": "nothing"}', '{"kind": ["features"]}', '{"kind": "features"}'],
    "interactions": ["5", "[]", "null", '"some"'],
    "other": ["1"],
}
FEATURISERS["items"] += [
    json.dumps({"kind": "features", "length": length}) for length in (0, -1, 1.5, "3", None, [3], 10**18, 257)
]
FEATURISERS["items"] += [json.dumps({"kind": "one-hot", "most": most}) for most in (0, -1, 10**18, 10**6, "3")]
FEATURISERS["items"] += [json.dumps({"kind": "features", "length": 3, "norm": norm}) for norm in (0, -1, 1e300, "1", [])]
FEATURISERS["context"] += [
    json.dumps([{"name": "x", **field}])
    for field in (
        {"kind": "hashed", "buckets": 10**18},
        {"kind": "hashed", "buckets": 0},
        {"kind": "number"},
        {"kind": "number", "low": 1, "high": 1},
        {"kind": "number", "low": "0", "high": 1},
        {"kind": "number", "low": -1e308, "high": 1e308},
        {"kind": "category", "values": []},
        {"kind": "category", "values": ["a", "a"]},
        {"kind": "category", "values": [[1]]},
        {"kind": "category", "values": ["a"] * 5_000},
        {"kind": "category", "values": [str(n) for n in range(20_000)]},
        {"kind": "vector", "length": 10**18},
        {"kind": "vector", "length": 2, "missing": [1e300, 1]},
        {"kind": "cyclic", "period": 0},
        {"kind": "cyclic", "period": 1, "extra": 1},
        {"kind": "number", "low": 0, "high": 1, "name": "a b"},
        {"kind": "number", "low": 0, "high": 1, "name": "\x00"},
        {"kind": "number", "low": 0, "high": 1, "name": "x" * 101},
    )
]


def test_featurisers_that_cannot_be(caller):
    before = stored(caller)
    for part, values in FEATURISERS.items():
        for value in values:
            described = {**FEATURISER, part: HERE}
            refused(
                sent(caller, "POST", "/bandits", filled({**NEW, "dimension": None, "featuriser": described}, value)), "feat"
            )
    twice = {**FEATURISER, "context": FEATURISER["context"] * 2}
    refused(sent(caller, "POST", "/bandits", json.dumps({**NEW, "featuriser": twice})), "featuriser.context[4].name")
    refused(sent(caller, "POST", "/bandits", json.dumps({**NEW, "featuriser": FEATURISER})), "dimension")
    refused(sent(caller, "POST", "/bandits", json.dumps({**NEW, "delta": 5e-324})), "policy")
    assert stored(caller) == before


WRONG_KINDS = [
    None,
    True,
    3,
    -1,
    1e300,
    "x",
    "",
    [],
    [1],
    {},
    {"a": 1},
    [[1]],
    [["a"]],
    [None],
    "é" * 200,
    "\x00",
    [[[[1]]]],
]
TEXTS = {"channel", "noise", "weights", "schedule", "calibration", "statistics"}
"""Options that are words."""


@pytest.mark.parametrize("policy", ["noise-aware", "noise-aware-ts", "adaprivate-ts", "batched-aggregation", "rr-linucb"])
def test_options_of_a_wrong_kind(caller, policy):
    """Whatever is given for an option: the bandit is made, or refused by that option's name; nothing else happens."""
    from adaprivate import policies

    own = [name for name in policies.options(policy) if name not in NEW and name not in CREATE]
    refusals = 0
    for option in [*own, "nothing", "dimension", "name", "__class__"]:
        for value in WRONG_KINDS:
            before = stored(caller)
            body = {
                **NEW,
                "policy": policy,
                "rounds": 500,
                "name": f"option-{option}-{policy}"[:64].lower().replace("__", "x"),
            }
            answer = sent(caller, "POST", "/bandits", json.dumps({**body, "options": {option: value}}))
            if answer.status_code in (201, 409):
                assert option not in TEXTS | {"nothing", "dimension", "name", "__class__"}, (option, value)
                continue
            refused(answer, "options" if option not in ("local", "unit") else "")
            assert stored(caller) == before
            refusals += 1
    assert refusals > 100


HEAVY = [
    {"rounds": 10**9, "batch_size": 1, "options": {"growth": 1.0}},
    {"rounds": 10**9, "batch_size": 1, "options": {"growth": 1.0001, "channel": "gaussian"}},
    {"dimension": 256, "rounds": 100_000, "batch_size": 1, "options": {"growth": 1.0}},
    {"dimension": 256, "rounds": 2_000, "batch_size": 1, "options": {"growth": 1.0, "channel": "gaussian"}},
    {
        "dimension": 256,
        "rounds": 2_000,
        "batch_size": 1,
        "options": {"growth": 1.0, "channel": "gaussian", "noise": "sqrt"},
    },
    {"dimension": 256, "rounds": 10**9, "batch_size": 1, "options": {"channel": "gaussian"}},
    {"dimension": 256, "rounds": 10**9, "batch_size": 1, "unit": "user"},
    {"dimension": 256, "rounds": 10**9, "options": {"horizon": 1, "channel": "gaussian"}},
    {"rounds": 2_048, "batch_size": 1, "unit": "user", "options": {"growth": 1.0}},
    {"rounds": 2_048, "batch_size": 1, "options": {"growth": 1.0, "channel": "gaussian"}},
    {"rounds": 10**9, "batch_size": 1, "policy": "adaprivate-ts"},
    {"rounds": 10**9, "batch_size": 1, "policy": "adaprivate-ts", "options": {"schedule": "growing", "growth": 1.0}},
    {"rounds": 2_048, "batch_size": 1, "policy": "adaprivate-ts", "options": {"noise": "optimal"}},
]


@pytest.mark.parametrize("settings", HEAVY, ids=range(len(HEAVY)))
def test_bandits_that_would_take_minutes_or_gigabytes(caller, settings):
    before = stored(caller)
    refused(sent(caller, "POST", "/bandits", json.dumps({**NEW, **settings})), "batch_size")
    assert stored(caller) == before


def test_catalogues_of_a_plan_that_are_too_long(caller):
    for count, dimension in ((100_000, 3), (1_000, 256)):
        listed = [[0.5] * dimension] * count
        body = json.dumps({**NEW, "dimension": dimension, "options": {"catalogue": listed, "channel": "gaussian"}})
        refused(sent(caller, "POST", "/bandits", body), "options.catalogue", (422, 413))


ITEM = [
    *(value for value in NO_REAL if value != "null"),
    "1e151",
    "-1.7976931348623157e308",
]


def test_items_that_cannot_be(caller):
    before = stored(caller)
    path = "/bandits/page/items"
    for value in ["null", "1", "[]", "{}", '"x"', "true", "NaN"]:
        refused(sent(caller, "PUT", path, filled({"items": HERE}, value)), "items")
    for value in [
        "1",
        '"x"',
        "{}",
        "[]",
        "true",
        "[1]",
        "[1, 2]",
        "[1, 2, 3, 4]",
        json.dumps([0.1] * 2_001),
        deep(60),
        "[[1, 2, 3]]",
    ]:
        refused(sent(caller, "PUT", path, filled({"items": {"a": HERE}}, value)), "items")
    for value in ITEM:
        refused(sent(caller, "PUT", path, filled({"items": {"a": [0, HERE, 0]}}, value)), "items")
    for name in ("", "x" * 201, "a\x00b", "\n", "\x7f", "\u200b", "\u202e", "\x85", "\ue000", "\ufffe"):
        refused(sent(caller, "PUT", path, json.dumps({"items": {"a": [1, 0, 0], name: [0, 1, 0]}})), "items")
    refused(sent(caller, "PUT", path, json.dumps({"items": {f"one {n}": None for n in range(4)}})), "items")
    many = {f"i{number}": None for number in range(100_001)}
    refused(sent(caller, "PUT", path, json.dumps({"items": many})), "items")
    assert stored(caller) == before


ASKS = {
    "candidates": [
        "1",
        '"a"',
        "{}",
        "[]",
        "true",
        '[["a"]]',
        "[1]",
        "[null]",
        '["a", "a"]',
        '["a", "nowhere"]',
        '[""]',
        '["a", {}]',
    ],
    "context": [
        "1",
        '"x"',
        "[]",
        "[1]",
        "true",
        "NaN",
        '{"hour": {}}',
        '{"hour": [[1]]}',
        '{"": 1}',
        '{"%s": 1}' % ("x" * 201),
    ],
    "user": ["1.5", "true", "[]", "{}", "NaN", '""', str(2**63), "9" * 401, json.dumps("x" * 201), "1e3"],
    "propensity": NO_TRUTH,
}
ASKS["candidates"] += [json.dumps(["a"] * 10_001), json.dumps([f"{n}" for n in range(10_000)]), '["a\\u0000"]', deep(60)]
ASKS["candidates"] += [
    filled([{"id": "x", "features": [0.1, HERE, 0.3]}], value) for value in [*ITEM, "null", '"0.1"', "[0.1]"]
]
ASKS["candidates"] += [filled([{"id": HERE, "features": [0.1, 0.2, 0.3]}], value) for value in [*NO_ITEM, "null"]]
ASKS["candidates"] += [
    filled([{"id": "x", "features": HERE}], value) for value in ["[]", "[1]", "[1, 2, 3, 4]", "null", "{}", '"x"', deep(50)]
]
ASKS["candidates"] += ['[{"id": "x"}]', '[{"features": [1, 2, 3]}]', '[{"id": "x", "features": [1, 2, 3], "more": 1}]']
ASKS["candidates"] += [json.dumps([{"id": "x", "features": [0.1, 0.2, 0.3]}] * 2)]
ASKS["context"] += [json.dumps({f"{number}": 1 for number in range(1_001)}), '{"hour": "%s"}' % ("x" * 10_001)]


@pytest.mark.parametrize("field", ASKS)
def test_asks_that_cannot_be_met(caller, field):
    before = stored(caller)
    for value in ASKS[field]:
        for name, plain in (("page", ASK), ("people", VISIT)):
            body = {**plain, field: HERE}
            refused(sent(caller, "POST", f"/bandits/{name}/decisions", filled(body, value)), field)
            many = {"decisions": [plain, body]}
            found = sent(caller, "POST", f"/bandits/{name}/decisions:batch", filled(many, value))
            refused(found, f"decisions[1].{field}", (422, 413))
    assert stored(caller) == before


def test_contexts_and_people_that_do_not_fit(caller):
    before = stored(caller)
    contexts = {
        "hour": ["null", '"9"', "true", "[9]", "NaN", "1e400", "9" * 401],
        "device": ["null", "1.5", '"fridge"', "[]", json.dumps("x" * 9_000), '"\\u0000"'],
        "topic": ["1.5", "[1]", "[]"],
        "taste": ["1", '"x"', "[]", "[1]", "[1, 2, 3]", '[1, "2"]', "[1, null]", "[true, false]", json.dumps([1] * 2_001)],
        "elsewhere": ["1"],
    }
    for field, values in contexts.items():
        for value in values:
            body = {**VISIT, "context": {**VISIT["context"], field: HERE}}
            refused(sent(caller, "POST", "/bandits/people/decisions", filled(body, value)), "context")
    for wrong, field in (
        ({**VISIT, "user": None}, "user"),
        ({"candidates": ["a"], "user": "anna"}, "context"),
        ({**VISIT, "context": {"hour": 9}}, "context"),
    ):
        refused(sent(caller, "POST", "/bandits/people/decisions", json.dumps(wrong)), field)
    refused(sent(caller, "POST", "/bandits/page/decisions", json.dumps({"user": "anna"})), "user")
    refused(sent(caller, "POST", "/bandits/page/decisions", json.dumps({"context": {}})), "context")
    assert stored(caller) == before


@pytest.mark.parametrize(
    "user", ["x" * 200, "\x00", "\n\t", "\u202e\U0001f600", "' OR 1=1 --", "../..", -(2**63), 2**63 - 1, 0]
)
def test_people_may_be_called_anything(caller, user):
    """Of a name only a keyed number is kept."""
    assert caller.post("/bandits/people/decisions", {**VISIT, "user": user}).status_code == 200


REWARDS = [
    *NO_NUMBER,
    "null",
    "9" * 401,
    f"{SECRET}",
    f"-0.{SECRET}",
    f'"0.{SECRET}"',
    f"[0.{SECRET}]",
    '{"reward": 1}',
    "1.0000001",
]
REWARDS += [f'1, "more": 0.{SECRET}', f'{{"value": 0.{SECRET}}}', f"1e{SECRET}", "-5e-324", f"0.{SECRET}e1", "2", "-1"]


@pytest.mark.parametrize("name", ["page", "local"])
def test_rewards_that_cannot_be(caller, name):
    token = caller.post(f"/bandits/{name}/decisions", {}).json()["decision_id"]
    before = stored(caller)
    values = REWARDS + ([f"0.{SECRET}", "0.5", "1e-300"] if name == "local" else [])
    for value in values:
        field = "more" if "more" in value else "reward"
        refused(sent(caller, "PUT", f"/decisions/{token}/reward", filled({"reward": HERE}, value)), field)
        many = {"rewards": [{"decision_id": token, "reward": 1}, {"decision_id": token, "reward": HERE}]}
        refused(sent(caller, "POST", "/rewards:batch", filled(many, value)), f"rewards[1].{field}")
    for value in [*NO_TEXT, "null"]:
        many = {"rewards": [{"decision_id": token, "reward": 1}, {"decision_id": HERE, "reward": 1}]}
        refused(sent(caller, "POST", "/rewards:batch", filled(many, value)), "rewards[1].decision_id")
    for value in [
        "null",
        "{}",
        "[]",
        "5",
        '"x"',
        json.dumps([{"decision_id": token, "reward": 1}] * 10_001),
        "[null]",
        "[[]]",
    ]:
        refused(sent(caller, "POST", "/rewards:batch", filled({"rewards": HERE}, value)), "rewards", (422, 413))
    assert stored(caller) == before
    assert SECRET not in caller.log


def test_minus_nothing_is_nothing(caller):
    token = caller.post("/bandits/page/decisions", {}).json()["decision_id"]
    assert sent(caller, "PUT", f"/decisions/{token}/reward", '{"reward": -0.0}').status_code == 201
    for same in ("0", "0.0", "-0.0", "false", "0e400", "-1e-400"):
        assert sent(caller, "PUT", f"/decisions/{token}/reward", f'{{"reward": {same}}}').json() == {"status": "duplicate"}


def test_ids_that_name_no_decision(caller):
    tokens = {name: caller.post(f"/bandits/{name}/decisions", {}).json()["decision_id"] for name in ("page", "local")}
    page, local = tokens["page"], tokens["local"]
    before = stored(caller)
    wrong = [
        local[:12] + page[12:],  # another bandit's decision, by its own mark
        page.partition("-")[0] + "-" + local.partition("-")[2],
        page[:-1] + ("0" if page[-1] != "0" else "1"),
        page[:12] + "h" + page[13:],
        page[:12] + "P" + page[13:],
        page[:13] + "f" * 15 + "-" + "0" * 20,
        page[:13] + "f" * 16 + "-" + "0" * 20,
        page.upper(),
        page + "0",
        " " + page,
        "x" * 200,
        "0" * 12 + "p0-" + "0" * 20,
        "\u0660" * 12 + "p0-" + "0" * 20,
        "..",
        "' OR 1=1 --",
    ]
    for token in wrong:
        answer = caller.put(f"/decisions/{quoted(token)}/reward", {"reward": 1})
        refused(answer, None, (404,))
        many = {"rewards": [{"decision_id": token, "reward": 1}]}
        assert caller.post("/rewards:batch", many).json() == {"statuses": ["unknown"]}
    assert stored(caller) == before


def quoted(text):
    return "".join(f"%{byte:02x}" for byte in text.encode())


NAMES = [
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "PAGE",
    "page%0a",
    "%ff",
    "x" * 65,
    "x" * 5_000,
    "page ",
    "%20",
]
NAMES += ["page;drop", "'", "p%C3%A4ge", "none", "-", "page:", "page:pause:pause", "{name}", "*"]
BELOW = [
    ("GET", ""),
    ("GET", "/items"),
    ("PUT", "/items"),
    ("GET", "/series"),
    ("GET", "/arrivals"),
    ("GET", "/log.parquet"),
    ("POST", ":pause"),
    ("POST", ":resume"),
    ("POST", "/decisions"),
    ("POST", "/decisions:batch"),
]


def test_names_that_are_none(caller):
    before = stored(caller)
    for name in NAMES:
        for method, below in BELOW:
            if name == "page:" and below == "":
                continue
            body = {"PUT": {"items": {"a": [1, 0, 0]}}, "POST": {"decisions": [{}]} if "batch" in below else {}}.get(method)
            answer = caller(method, f"/bandits/{name}{below}", **({"json": body} if body is not None else {}))
            refused(answer, None, (404, 405))
    assert stored(caller) == before


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=[f"{method} {path}" for method, path, _ in ROUTES])
def test_bodies_of_another_kind_and_other_methods(caller, method, path, body):
    before = stored(caller)
    text = json.dumps(body)
    for kind in (
        "",
        "text/plain",
        "application/xml",
        "multipart/form-data",
        "application/json;charset=utf-16",
        "json",
        "*/*",
    ):
        answer = sent(caller, method, path, text, headers={"content-type": kind})
        refused(answer, None, (415,))
    refused(sent(caller, method, path, text, headers={**JSON, "content-encoding": "br"}), None, (415,))
    refused(sent(caller, method, path, text, headers={**JSON, "content-length": str(10**12)}), None, (413,))
    for other in ("DELETE", "PATCH", "TRACE", "PROPFIND", "OPTIONS", "X" * 100):
        answer = sent(caller, other, path, text)
        refused(answer, None, (405,))
        assert method in answer.headers["allow"]
    assert stored(caller) == before


def test_bodies_that_are_too_large(caller):
    before = stored(caller)
    large = b'{"user": "' + b"x" * (5 * 2**20) + b'"}'
    for method, path, _ in ROUTES:
        if path.endswith("/items"):
            large_items = b'{"items": {"a": [' + b"0," * (33 * 2**20) + b"0]}}"
            refused(sent(caller, method, path, large_items), None, (413,))
        else:
            refused(sent(caller, method, path, large), None, (413,))
    assert stored(caller) == before


def listed(entry, count):
    return "[" + ",".join([entry] * count) + "]"


def numbered(value, count):
    return "{" + ",".join(f'"x{number}": {value}' for number in range(count)) + "}"


LABORIOUS = [
    ("POST", "/bandits/page/decisions", {"candidates": HERE}, listed("5", 10_000)),
    ("POST", "/bandits/page/decisions", {"candidates": HERE}, listed('{"id": 5, "features": ["a", "b", "c"]}', 10_000)),
    ("POST", "/bandits/page/decisions:batch", {"decisions": HERE}, listed('{"candidates": [5, 5, 5]}', 10_000)),
    ("POST", "/bandits/people/decisions", {"context": HERE}, numbered(listed("[]", 1_000), 600)),
    ("POST", "/bandits/page/decisions", {"user": HERE}, numbered("1", 200_000)),
    ("POST", "/rewards:batch", {"rewards": HERE}, listed('{"decision_id": 5, "reward": 7, "x": 1}', 10_000)),
    ("PUT", "/bandits/page/items", {"items": HERE}, numbered('["a"]', 90_000)),
    ("POST", "/bandits", {"options": HERE}, f'{{"centre": {listed(deep(180), 10_000)}}}'),
    ("POST", "/bandits", {"featuriser": HERE}, f'{{"items": {listed(deep(9), 90_000)}}}'),
]


@pytest.mark.parametrize(("method", "path", "body", "value"), LABORIOUS, ids=range(len(LABORIOUS)))
def test_bodies_that_are_wrong_a_hundred_thousand_times(caller, method, path, body, value):
    before = stored(caller)
    (field,) = body
    plain = {**NEW, "dimension": None} if path == "/bandits" else {}
    refused(sent(caller, method, path, filled({**plain, **body}, value)), field)
    many = json.dumps(plain)[:-1] + (", " if plain else "") + numbered("1", 200_000)[1:]
    refused(sent(caller, method, path, many), "")
    assert stored(caller) == before


def test_more_decisions_than_can_be_worked_on_at_once(caller):
    """All items of a large catalogue, thousands of times, is a short request."""
    with_bandit(caller, "large")
    catalogue = {f"i{number}": [number / 8_000, 0.1, 0.0] for number in range(4_000)}
    assert caller.put("/bandits/large/items", {"items": catalogue}).json() == {
        "items": 4_000,
        "clipped": 0,
        "warning": None,
    }
    before = stored(caller)
    for count in (10_000, 5_000, MOST_OFFERED // (4_000 * 16) + 1):
        body = json.dumps({"decisions": [{}] * count})
        refused(sent(caller, "POST", "/bandits/large/decisions:batch", body), None, (413,))
    body = json.dumps({"decisions": [{"propensity": False}] * 2_000})
    refused(sent(caller, "POST", "/bandits/large/decisions:batch", body), None, (413,))
    for wrong in ({"decisions": [{}] * 10_001}, {"decisions": []}):
        refused(sent(caller, "POST", "/bandits/large/decisions:batch", json.dumps(wrong)), "decisions")
    assert stored(caller) == before
    few = json.dumps({"decisions": [{}] * 20})
    assert sent(caller, "POST", "/bandits/large/decisions:batch", few).status_code == 200
    many = json.dumps({"decisions": [{"candidates": ["i1", "i2"], "propensity": False}] * 10_000})
    found = sent(caller, "POST", "/bandits/large/decisions:batch", many).json()["decisions"]
    assert [one["round"] for one in found] == [*range(20, 10_020)]


def test_queries_and_keys_that_are_none(caller):
    path = "/bandits/page/log.parquet"
    for query in ("rewards=", "rewards=1", "rewards=True", "rewards=true&rewards=true", "rewards=%00", "rewards=tru%65%65"):
        refused(caller.get(f"{path}?{query}"), "rewards")
    before = stored(caller)
    for key in (b"", b"x" * 201, b"caf\xe9", b"\x00", b"a\tb", b"\xf0\x9f\x98\x80"):
        answer = caller.post("/bandits/page/decisions", {}, headers={"idempotency-key": key})
        refused(answer, "Idempotency-Key")
    assert stored(caller) == before


def test_a_misspelt_field_is_told_what_it_perhaps_was(caller):
    body = {"name": "misspelt", "dimension": 3, "epsilonn": 1.0}
    found = refused(caller.post("/bandits", json=body), "epsilonn")
    assert found["detail"] == ("Expected no field epsilonn (did you mean epsilon?): nothing of that name is known here.")
