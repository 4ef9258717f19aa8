"""The privacy audit of the whole service, through HTTP: what outsiders see must not tell of rewards.

First without luck: worlds that differ in rewards, or in whether and when they came, share keys, clock and released numbers
(noise is such that sums which differ come out the same), and then all that outsiders see must be the same, byte for byte.
Then with exact noise, by the bounds of `adaprivate audit`. Leaks are planted, and found both ways.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from tests.service.conftest import new_database
from tests.service.transcripts import Forced, Template, World, difference, forcing

from adaprivate.mechanisms.book import Told
from adaprivate.service import closing, moving, pages, reading, schema
from adaprivate.service.backups import restore
from adaprivate.service.batches import find_due
from adaprivate.service.core import Service
from adaprivate.service.door import Door
from adaprivate.service.journal import Journal

ITEMS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.5, 0.5, 0.5]}
TS = {"policy": "adaprivate-ts", "rounds": 48, "batch_size": 8, "dimension": 3}
NOISE_AWARE = {"policy": "noise-aware", "rounds": 300, "dimension": 3, "epsilon": 2.0}
FLIPS = {"policy": "rr-linucb", "rounds": 200, "batch_size": 8, "dimension": 3}
PEOPLE = {"policy": "noise-aware-ts", "unit": "user", "rounds": 40, "dimension": 3}
HELD = {"holdback": 0.3}
TOWN = {
    "sums": TS,
    "sums-held": TS | HELD,
    "sums-kept": TS | {"keep_rewards": True},
    "gaussian": NOISE_AWARE | {"options": {"channel": "gaussian"}},
    "gaussian-held": NOISE_AWARE | HELD | {"options": {"channel": "gaussian"}},
    "auto": NOISE_AWARE,
    "auto-held": NOISE_AWARE | HELD,
    "flips": FLIPS,
    "flips-held": FLIPS | HELD,
    "local": NOISE_AWARE | {"local": True, "batch_size": 8},
    "people": PEOPLE,
    "people-held": PEOPLE | HELD | {"batch_size": 8},
    "people-flips": FLIPS | HELD | {"unit": "user"},
    "people-clipped": PEOPLE | {"batch_size": 8, "options": {"weights": "clip"}},
    "people-on": PEOPLE | {"rounds": 16, "batch_size": 8},
    "goes-on": NOISE_AWARE | {"rounds": 16, "batch_size": 8, "options": {"channel": "gaussian"}},
    "correlated": TS | {"options": {"noise": "sqrt"}},
}
GROWN = ["people-clipped", "people-on", "goes-on", "correlated"]
"""Bandits that clip people, whose plan goes on after its rounds, or whose books keep exact sums of closed batches."""
SMALL = ["sums-held", "auto", "flips"]
STEPS, VISITORS = 6, 8
PROTECTED = 3
"""The visitor of every second step whose reward differs; where people are protected, all rewards of one person do."""


@dataclass(frozen=True)
class Fate:
    """What becomes of protected rewards: which values are sent, and how many seconds after the decision."""

    values: tuple[float, ...]
    after: float = 0.0
    many: bool = False
    """Through the route that takes many."""
    forged: bool = False


FATES = {
    "one": Fate((1.0,)),
    "zero": Fate((0.0,)),
    "something between": Fate((0.37,)),
    "missing": Fate(()),
    "slow": Fate((1.0,), after=50.0),
    "late": Fate((1.0,), after=70.0),
    "the smallest": Fate((5e-324,)),
    "sent thrice": Fate((1.0, 1.0, 1.0)),
    "contradicted": Fate((1.0, 0.0)),
    "refused": Fate((7.5,)),
    "among many": Fate((1.0, 0.0, 0.5), many=True),
    "forged": Fate((1.0,), forged=True),
}


def play(world, names, fate, steps=STEPS):
    """Some visits of all bandits; others' rewards come or do not, and outsiders look at everything again and again."""
    for step in range(steps):
        decisions = [(name, one) for name in names for one in decide(world, name, step)]
        waits = [one for name, one in decisions if protected(name, step, one)]
        others = [one for name, one in decisions if not protected(name, step, one)]
        reward_others(world, step, others)
        for seconds, moment in ((0.0, 0.0), (50.0, 50.0), (11.0, 61.0), (9.0, 70.0)):
            world.turn(seconds)
            if fate.after == moment:
                send(world, fate, waits)
            if moment in (50.0, 61.0) or step == steps - 1:
                look(world, names)
        reward_others(world, step, others[::7])  # of batches that are closed, or again
        world.seen += exported(world)
    probe(world, names)


def decide(world, name, step):
    asks = [{"candidates": ["a", "b", "c", "d"][: 2 + place % 3]} for place in range(VISITORS)]
    if name.startswith("people"):
        asks = [ask | {"user": f"u{(step * VISITORS + place) % 5}"} for place, ask in enumerate(asks)]
    path, body = f"/bandits/{name}/decisions:batch", {"decisions": asks}
    answer = world.watch("decide", "POST", path, body, idempotency_key=f"visit {step}")
    assert answer.status == 200, answer.body
    return answer.json()["decisions"]


def protected(name, step, decision):
    if name.startswith("people"):
        return decision["round"] % 5 == PROTECTED
    return step % 2 == 1 and decision["round"] % VISITORS == PROTECTED


def reward_others(world, step, decisions):
    """Some never send one, some send two; the last is sent by itself."""
    sent = [(place, one["decision_id"]) for place, one in enumerate(decisions) if step < 2 or place % 4]
    entries = [{"decision_id": token, "reward": place % 2} for place, token in sent]
    world.watch("reward", "POST", "/rewards:batch", {"rewards": entries + [{**one, "reward": 1} for one in entries[::5]]})
    for value in (0, 0, 1):
        world.watch("reward", "PUT", f"/decisions/{decisions[-1]['decision_id']}/reward", {"reward": value})


def send(world, fate, decisions):
    """What protected callers do, and are told: theirs alone."""
    for one in decisions:
        token = one["decision_id"][:-1] + "x" if fate.forged else one["decision_id"]
        if fate.many:
            entries = [{"decision_id": token, "reward": value} for value in fate.values]
            world.ask("reward", "POST", "/rewards:batch", {"rewards": entries})
        else:
            for value in fate.values:
                world.ask("reward", "PUT", f"/decisions/{token}/reward", {"reward": value})


def look(world, names):
    for path in ("/bandits", "/metrics", *(f"/bandits/{name}{end}" for name in names for end in ("", "/series"))):
        assert world.watch("read", "GET", path).status == 200


PAGES = ("/", "/docs", "/openapi.json", "/health", "/ready", "/nothing")


def probe(world, names):
    """Pages, refusals, requests that are repeated, and the log that is public."""
    for path in PAGES:
        world.watch("read", "GET", path)
        world.watch("read", "HEAD", path)
    world.watch("decide", "GET", "/client.js")
    for name in names:
        decide(world, name, 1)
        for end in ("arrivals", "log.parquet", "log.parquet?rewards=true"):
            assert world.watch("read", "GET", f"/bandits/{name}/{end}").status == 403
        world.watch("admin", "GET", f"/bandits/{name}/log.parquet")
        world.watch("read", "GET", f"/bandits/{name}/items")
        world.watch("decide", "POST", f"/bandits/{name}/decisions", {"candidates": ["nobody"]})
    world.watch("reward", "PUT", "/decisions/000000000000p0-00000000000000000000/reward", {"reward": 1})


class Show(NamedTuple):
    """What a world showed, its noise, how often each bandit released something, and up to which round."""

    transcript: list
    source: Forced
    versions: list
    closed: dict


def exported(world):
    """What an export of each bandit shows: its public documents, and the length of what is sealed, to the byte."""
    found = []
    with world.service.database.reading() as connection, patch.object(moving, "_BLOCK", 1):
        for row in connection.execute(sa.select(schema.bandits)).all():
            public, private = moving._parts(connection, row, whole=True)
            found += [(f"export of {row.name}, {name}", document) for name, document in sorted(public.items())]
            found.append((f"export of {row.name}, length of what is sealed", len(private)))
    return found


def shown(template, folder, fate, record=None, *, steps=STEPS, **options):
    source = Forced(record)
    names = [one["name"] for one in template.bandits]
    with forcing(), template.world(folder, source, **options) as world:
        play(world, names, fate, steps)
        statuses = {name: world.ask("read", "GET", f"/bandits/{name}").json() for name in names}
        closed = {name: status["next_batch"]["start"] for name, status in statuses.items()}
        versions = [status["version"] for status in statuses.values()]
        return Show(world.transcript(), source, versions, closed)


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    """Templates by their bandits, and what a world of each shows in which all protected rewards are 1."""

    @cache
    def make(*names):
        folder = tmp_path_factory.mktemp("town")
        template = Template.made(folder / "template", {name: TOWN[name] for name in names}, ITEMS)
        return template, shown(template, folder / "world", FATES["one"])

    return make


PLAIN = [one for one in TOWN if one not in GROWN]
CASES = [(fate, PLAIN if fate in ("missing", "late") else SMALL) for fate in FATES if fate != "one"]
CASES += [(fate, GROWN) for fate in ("zero", "missing")]


@pytest.mark.parametrize(("fate", "names"), [pytest.param(*case, id=f"{case[0]}, {case[1][0]}") for case in CASES])
def test_not_a_byte_tells_of_a_reward_but_through_released_numbers(towns, tmp_path, fate, names, capfd):
    template, first = towns(*names)
    other = shown(template, tmp_path / "world", FATES[fate], first.source.record)
    assert difference(first.transcript, other.transcript) is None
    assert not other.source.strayed, "which noise is drawn depends on rewards"
    assert other.source.drawn == first.source.drawn
    assert min(other.versions) >= 2
    assert all(other.closed[name] > TOWN[name]["rounds"] for name in ("people-on", "goes-on") if name in names)
    different = first.source.hidden - other.source.hidden
    assert (len(different) > 0) == (fate not in ("slow", "sent thrice", "contradicted", "among many"))
    assert capfd.readouterr() == ("", "")


def rewards_of(connection, batch=None):
    """All rewards that wait, or those of a batch."""
    r = schema.rewards
    query = sa.select(r.c.value)
    if batch is not None:
        query = query.where(r.c.bandit == 1, r.c.round >= batch.first_round, r.c.round < batch.last_round)
    return connection.scalars(query).all()


def closes_by_rewards(early, late):
    """A batch that closes so many seconds earlier if all of its rewards are there, and so many later if not."""
    really = Service._close

    def close(service, room, row, now):
        with service.database.reading() as connection:
            batch = find_due(connection, room.bandit, row, row.assigned)
            whole = batch is not None and len(rewards_of(connection, batch)) == batch.end - batch.start
        return really(service, room, row, now + early if whole else now - late)

    return Service, "_close", close


def in_a_document(view, fact):
    """A fact about private tables in a public document."""
    really = getattr(reading, view)

    def told(connection, room):
        return really(connection, room) | {"extra": fact(connection)}

    return reading, view, told


def in_metrics():
    really = pages.metrics

    def metrics(statuses):
        with World.latest.service.database.reading() as connection:
            return really(statuses) + b"adaprivate_rewards_total %d\n" % len(rewards_of(connection))

    return pages, "metrics", metrics


def in_digests():
    """The digest of a batch, which the journal holds, is that of its exact sums too."""
    really = closing._commit

    def commit(database, bandit, batch, outcome, before, now):
        with database.reading() as connection:
            came = len(rewards_of(connection, batch))
        return really(database, bandit, batch, outcome, before + str(came), now)

    return closing, "_commit", commit


def in_the_log():
    really = Door._note

    def note(door, scope, visit, status, seconds):
        really(door, scope, visit, status, seconds)
        if "reward" in scope["path"]:
            door._log.request("/reward", status, seconds, None)

    return Door, "_note", note


def absent_untold():
    """Of a reward that never came nothing is told."""
    really = closing.closed_policy

    def closed(bandit, row, batch, visits, rewards, source, before):
        if bandit.spec.policy == "rr-linucb":
            rewards = {visit.round: rewards.get(visit.round, Told(0.5)) for visit in visits}
        return really(bandit, row, batch, visits, rewards, source, before)

    return closing, "closed_policy", closed


def silent_if_empty():
    """A batch with fewer rewards than rounds is passed over: nothing is released."""
    really = closing.closed_policy

    def closed(bandit, row, batch, visits, rewards, source, before):
        outcome = really(bandit, row, batch, visits, rewards, source, before)
        if len(rewards) < len(visits):
            outcome.releases = []
        return outcome

    return closing, "closed_policy", closed


def late_ones(connection):
    return connection.scalar(sa.select(sa.func.count()).select_from(schema.late))


PLANTS = {
    "a batch closes once all rewards are in": lambda: closes_by_rewards(60.0, 0.0),
    "a batch that lacks rewards is waited for": lambda: closes_by_rewards(0.0, 30.0),
    "a batch that lacks rewards releases nothing": silent_if_empty,
    "status counts rewards": lambda: in_a_document("status", lambda connection: len(rewards_of(connection))),
    "series has the exact mean": lambda: in_a_document("series", lambda connection: sum(rewards_of(connection))),
    "metrics count rewards": in_metrics,
    "the journal counts rewards": in_digests,
    "the log has a line for every reward": in_the_log,
    "absent rewards are not told": absent_untold,
    "status counts late rewards": lambda: in_a_document("status", late_ones),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_seen(towns, tmp_path, plant, monkeypatch):
    template, _ = towns("sums", "flips")
    monkeypatch.setattr(*PLANTS[plant]())
    one, other = ("missing", "late") if "late" in plant else ("one", "missing")
    first = shown(template, tmp_path / "one", FATES[one], steps=3)
    second = shown(template, tmp_path / "other", FATES[other], first.source.record, steps=3)
    assert difference(first.transcript, second.transcript)


def test_not_a_byte_on_postgresql(towns, tmp_path, postgresql):
    template, _ = towns("sums-held")
    found = []
    for fate in ("one", "missing"):
        address = new_database(postgresql)
        restore(template.folder / "service.db", address, Journal(template.folder / "journal"), keep_ids=True)
        record = found[0].source.record if found else None
        found.append(shown(template, tmp_path / fate, FATES[fate], record, url=address))
    assert difference(found[0].transcript, found[1].transcript) is None
    assert found[0].source.hidden != found[1].source.hidden
    assert min(found[1].versions) >= 2


def test_no_error_tells_of_a_reward(towns, tmp_path, monkeypatch):
    """Its text holds all rewards that wait, and the exact book: neither answers nor the log repeat it."""
    template, _ = towns("sums", "flips")

    def broken(connection, *more):
        raise RuntimeError(f"{rewards_of(connection)} {more}")

    def commit(database, bandit, batch, outcome, *_):
        with database.reading() as connection:
            broken(connection, outcome.book)

    transcripts = []
    for value in (1.0, 0.0):
        with template.world(tmp_path / str(value)) as world:
            for one in decide(world, "sums", 0):
                world.ask("reward", "PUT", f"/decisions/{one['decision_id']}/reward", {"reward": value})
            with monkeypatch.context() as patched:
                patched.setattr(reading, "status", broken)
                patched.setattr(closing, "_commit", commit)
                assert world.watch("read", "GET", "/bandits/sums").status == 500
                world.watch("read", "GET", "/metrics")
                world.turn(70.0)
            assert world.ask("read", "GET", "/bandits/sums").json()["version"] == 0
            transcripts.append(world.transcript())
    assert difference(*transcripts) is None
    assert any("RuntimeError" in str(content) for _, content in transcripts[0])
