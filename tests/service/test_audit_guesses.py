"""Guesses which of two neighbouring worlds the service lived in, through HTTP, by the bounds of `adaprivate audit`.

Exact noise takes no seed: claims are refuted at 1 - 1e-6, so that nobody is alarmed by chance; shares are those of 99.9 %.
`benchmarks/service_audit.py` plays many times as long.
"""

import contextlib
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.service.guessing import EXACT, Canaries, ServiceTarget, neighbours

from adaprivate.audit import Claim, audited
from adaprivate.mechanisms.noise import Secure
from adaprivate.privacy import gdp_mu
from adaprivate.service import reading, schema
from adaprivate.service.core import Service

SURE = 1 - 1e-6
EPSILON, DELTA = 2.0, 1e-5
SUMS = {"policy": "adaprivate-ts", "rounds": 2, "batch_size": 2, "dimension": 2, "epsilon": EPSILON, "options": EXACT}
GAUSSIAN = Claim(EPSILON, DELTA, gdp_mu(EPSILON, DELTA), True)


@pytest.fixture
def folder():
    """Where nothing waits for a disk, if there is such a place."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as found:
        yield Path(found)


# With n guesses a bound lies about z sqrt(p (1 - p) / n) below the truth, z = 3.1 at 99.9 %; a run of bad luck of as much
# again leaves these shares: false alarms below 0.1 %.
@pytest.mark.parametrize(("kind", "runs", "share"), [("sums", 80, 0.5), ("flips", 40, 0.75), ("holdback", 20, 0.4)])
def test_every_reward_costs_what_is_claimed_and_hardly_less(folder, kind, runs, share):
    with contextlib.closing(Canaries(folder, kind, EPSILON)) as canaries:
        found = canaries.guessed(runs, seed=1)
    assert found.at(SURE) <= found.claimed
    assert found.at(0.999) >= share * found.claimed


def test_noise_that_is_too_small_is_found(folder, monkeypatch):
    really = Secure.gaussian
    monkeypatch.setattr(Secure, "gaussian", lambda source, values, scale: really(source, values, scale / 2))
    with contextlib.closing(Canaries(folder, "sums", EPSILON)) as canaries:
        found = canaries.guessed(40, seed=1)
    assert found.at(SURE) > found.claimed


def on_arrival():
    """A batch closes as soon as all its rewards are in."""
    really = Service.reward

    def reward(service, entries):
        answers = really(service, entries)
        with service.database.reading() as connection:
            whole = connection.scalar(sa.select(sa.func.count()).select_from(schema.rewards)) == 2
        if whole:
            clock, service.clock = service.clock, lambda: 1e12
            service.close_due()
            service.clock = clock
        return answers

    return Service, "reward", reward


def counted():
    """Status says how many rewards wait."""
    really = reading.status

    def status(connection, room):
        return really(connection, room) | {"n": connection.scalar(sa.select(sa.func.count()).select_from(schema.rewards))}

    return reading, "status", status


@pytest.mark.parametrize("plant", [None, on_arrival, counted])
def test_a_whole_run_tells_nothing_unless_a_leak_is_planted(folder, plant, monkeypatch):
    if plant is not None:
        monkeypatch.setattr(*plant())
    pair = neighbours(2, 0)["missing"]
    with contextlib.closing(ServiceTarget(folder, SUMS, pair, GAUSSIAN)) as target:
        found = audited(target, trials=100)
    assert found.holds == (plant is None), found
    assert (found.direct_epsilon > EPSILON) == (plant is not None)
