"""A service run and a simulation with the same exploration seeds and the recorded noise take identical decisions.

The simulation knows nothing of the service: the library's own engine counts rounds batch by batch, noise is read from the
record, and each round's streams are started by splitmix64 written out here in Python's integers.
"""

import hashlib
import struct

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import Secure
from adaprivate.runtime.engines import ExactEngine
from adaprivate.runtime.learner import Learner
from adaprivate.service import schema
from adaprivate.service.core import Ask, BanditSpec

MASK = 2**64 - 1


def finalised(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def seed_of(key, number):
    """The seed of a round: splitmix64's finaliser twice, around two words of a keyed hash."""
    one, other = struct.unpack("<QQ", hashlib.blake2b(b"exploration", key=key, digest_size=16).digest())
    word = (number * 0x9E3779B97F4A7C15 + one) & MASK
    for key_word in (other, one):
        word = (finalised(word) + key_word) & MASK
    return word


def streams_of(seed):
    rng = np.zeros((2, 16), dtype=np.uint64)
    word = seed
    for row in range(2):
        for place in range(4):
            word = (word + 0x9E3779B97F4A7C15) & MASK
            rng[row, place] = finalised(word)
    return rng


class Record:
    """Every draw of privacy noise, in order: taken down, then given back."""

    def __init__(self, monkeypatch):
        self.drawn, self.replays = [], False
        for owner, name in ((Secure, "gaussian"), (RandomisedResponse, "tell"), (DiscreteLaplace, "add")):
            monkeypatch.setattr(owner, name, self.around(getattr(owner, name), name))

    def around(self, draw, name):
        def drawn(law, value, *arguments):
            if self.replays:
                kind, before, after = self.drawn.pop(0)
                assert kind == name
                return after + (np.asarray(value - before, dtype=float) if name == "gaussian" else 0)
            after = draw(law, value, *arguments)
            self.drawn.append((name, value, after))
            return after

        return drawn


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("adaprivate-ts", {"batch_size": 12}),
        ("adaprivate-ucb", {"batch_size": 12, "options": {"noise": "tree"}}),
        ("noise-aware-ts", {"options": {"channel": "gaussian"}}),
        ("noise-aware", {}),
        ("noise-aware", {"options": {"channel": "items"}}),
        ("rr-lints", {"epsilon": 2.0}),
    ],
)
def test_identical_decisions(policy, options, workers, clock, monkeypatch):
    record = Record(monkeypatch)
    service = workers()
    service.create(BanditSpec(name="page", policy=policy, dimension=4, rounds=400, reward_window=5.0, **options))
    rng = np.random.default_rng(3)
    items = {f"i{k}": (rng.normal(size=4) / 3).tolist() for k in range(12)}
    service.put_items("page", items)
    features = {item["id"]: np.array(item["features"]) for item in service.items("page")}
    flips = policy == "rr-lints"
    offered, chosen, versions, rewards = [], [], [], []
    for _ in range(40):
        asked = [[f"i{k}" for k in rng.choice(12, size=int(rng.integers(2, 6)), replace=False)] for _ in range(7)]
        decided = service.decide([("page", [service.check("page", Ask(one)) for one in asked], None)])[0]
        for candidates, one in zip(asked, decided, strict=True):
            offered.append(candidates)
            chosen.append(one.item)
            versions.append(one.version)
            lacking = rng.random() < 0.1 and not flips  # whose flips would be drawn later, between those of others
            reward = None if lacking else float(rng.random() < 0.5)
            rewards.append(reward)
            if reward is not None:
                service.reward([(one.decision_id, reward)])
        clock.now += 6
        while service.close_due():
            pass
    with service.database.reading() as connection:
        ends = [row.end for row in connection.execute(schema.ledger.select().order_by(schema.ledger.c.batch))]
    bandit = service.room("page").bandit

    record.replays = True
    settings = policies.settings(policy, {f: getattr(bandit.settings, f) for f in policies.options(policy)})
    engine = ExactEngine(settings, Secure(), np.zeros((2, 16), dtype=np.uint64), lambda: None)
    told = {}
    if engine.book.tells:  # flipped when they came: before their rounds were counted
        told = {number: engine.arrived(reward) for number, reward in enumerate(rewards) if reward is not None}
    released, counted, found = [engine.learner.copy()], [0], []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        for number in range(start, end):
            if number == getattr(engine.settings, "planned", None):
                engine.extend()
            if getattr(engine.learner.state, "offers", np.zeros(0)).shape[0]:
                candidates = np.array([features[name] for name in offered[number]])[None]
                engine.learner.choose(candidates.copy(), np.zeros(1, dtype=np.int64))
            reward = engine.settings.missing if rewards[number] is None else told.get(number, rewards[number])
            engine.count(number, features[chosen[number]], reward)
            planned = getattr(engine.settings, "planned", None)
            if number + 1 == planned and number + 1 < engine.settings.rounds:
                engine.extend()
        released.append(engine.learner.copy())
        counted.append(end)
    for number, (candidates, version) in enumerate(zip(offered, versions, strict=True)):
        learner = Learner(released[version].copy().state, streams_of(seed_of(bandit.keys.exploration, number)))
        if "open" in (learner.state.scalars.dtype.names or ()):
            learner.state.scalars["open"] = number - counted[version]
        action = np.zeros(1, dtype=np.int64)
        learner.choose(np.array([features[name] for name in candidates])[None], action)
        found.append(candidates[action[0]])
    assert found == chosen
    assert len(ends) >= 5
    assert len(set(versions)) >= 5
