"""What every mechanism must do, found by discovery: a new file is tested with no edit here."""

import importlib
import pickle

import numpy as np
import pytest

from adaprivate import mechanisms, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import PrefixSum, Secure, Simulated

FOUND = mechanisms.examples()
STREAMS = [example for example in FOUND if isinstance(example.build(Simulated(0)), PrefixSum)]
IDS = [example.name for example in FOUND]
EXPECTED = [
    *("gaussian", "laplace", "noisy-max", "symmetric-gaussian", "wishart", "catalogue"),
    *("independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"),
]


def secure(example):
    """The mechanism with exact noise, or None where none exists (it must then say so clearly)."""
    try:
        return example.build(Secure())
    except InputError as error:
        if "exact" not in str(error):
            raise
        return None


def zero(mechanism):
    return np.full(mechanism.shape, 0, dtype=object) if mechanism.noise.exact else np.zeros(mechanism.shape)


def test_every_mechanism_is_found_once():
    assert sorted(IDS) == sorted(set(IDS))
    assert set(EXPECTED) <= set(IDS)


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_is_documented(example):
    assert len(example.summary) > 20
    assert importlib.import_module(example.module).__doc__


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_prices_itself_consistently(example):
    for mechanism in filter(None, (example.build(Simulated(0)), secure(example))):
        price = mechanism.price
        for delta in (1e-3, 1e-6):
            epsilon = price.epsilon(delta)
            assert 0 < epsilon < 1e3
            assert price.delta(epsilon) <= delta * (1 + 1e-9)
        assert price.epsilon(1e-6) >= price.epsilon(1e-3)
        if np.isfinite(price.mu):
            assert price.epsilon(1e-5) <= privacy.gdp_epsilon(price.mu, 1e-5) * (1 + 1e-6)


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_states_its_guarantee_and_says_when_noise_is_only_simulated(example):
    conditions = {privacy.CONDITIONS["secret-noise"], privacy.CONDITIONS["exact-noise"]}
    statement = example.build(Simulated(0)).guarantee(1e-5)
    assert conditions <= set(statement.assumptions)
    assert privacy.Guarantee.from_json(statement.to_json()) == statement
    real = secure(example)
    if real is not None:
        assert conditions <= set(real.guarantee(1e-5).enforced)


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_same_seed_same_noise_and_only_then(example):
    one, two, other = (example.build(Simulated(seed)) for seed in (1, 1, 2))
    first = one.release(zero(one))
    assert np.array_equal(first, two.release(zero(two)))
    assert not np.array_equal(first, other.release(zero(other)))


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_secure_noise_differs_every_time(example):
    if secure(example) is None:
        return
    one, two = ([m.release(zero(m)).tolist() for m in (secure(example) for _ in range(4))] for _ in range(2))
    assert one != two  # four of each: a release may be one index of 40, then equal by chance once in 2.5 million


@pytest.mark.parametrize("example", FOUND, ids=IDS)
def test_refuses_bad_input_and_loses_nothing(example):
    for mechanism in filter(None, (example.build(Simulated(3)), secure(example))):
        shape = mechanism.shape
        bad = [np.zeros((*shape, 2)), np.full(shape, np.nan), np.full(shape, np.inf), "text", None]
        for value in bad:
            with pytest.raises(InputError, match=r"^Expected "):
                mechanism.release(value)
        released = mechanism.release(zero(mechanism))
        if not mechanism.noise.exact:
            untouched = example.build(Simulated(3))
            assert np.array_equal(released, untouched.release(zero(untouched)))


@pytest.mark.parametrize("example", STREAMS, ids=[example.name for example in STREAMS])
def test_streams_survive_saving_midway(example):
    whole, part = example.build(Simulated(5)), example.build(Simulated(5))
    rng = np.random.default_rng(0)
    increments = rng.normal(size=(whole.strategy.steps, whole.dimension))
    expected = [whole.release(s) for s in increments]
    half = len(increments) // 2
    got = [part.release(s) for s in increments[:half]]
    resumed = example.build(Simulated(5))
    resumed.state = pickle.loads(pickle.dumps(part.state))
    resumed.noise = part.noise
    got += [resumed.release(s) for s in increments[half:]]
    assert np.array_equal(expected, got)


@pytest.mark.parametrize("example", STREAMS, ids=[example.name for example in STREAMS])
def test_streams_estimate_the_running_sum(example):
    """Without noise the release is the running sum itself, in floats and in exact integers."""

    class Silent(Simulated):
        def gaussian(self, values, scale):
            return np.asarray(values, dtype=float) * (2.0**-40 if self.exact else 1.0)

    rng = np.random.default_rng(1)
    for exact in (False, True):
        noise = Silent(0)
        noise.exact = exact
        mechanism = example.build(noise)
        increments = rng.integers(-(2**20), 2**20, size=(mechanism.strategy.steps, mechanism.dimension))
        unit = 1 if not exact else 2.0**20
        total = np.zeros(mechanism.dimension)
        for s in increments:
            total = total + s / unit
            assert mechanism.release(s.astype(object) if exact else s) == pytest.approx(total, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("example", STREAMS, ids=[example.name for example in STREAMS])
def test_the_price_is_what_neighbouring_streams_show(example):
    """Rows of two streams that differ by one unit vector in one batch, in units of the noise, against mu."""
    mechanism = example.build(Simulated(0))
    shifts = []
    for batch in range(mechanism.strategy.steps):
        rows = []
        state = mechanism.strategy.start(1, False)
        for step in range(mechanism.strategy.steps):
            increment = np.array([1.0 if step == batch else 0.0])
            new, state = mechanism.strategy.encode(state, step, increment)
            _, state = mechanism.strategy.decode(state, step, np.asarray(new, dtype=float))
            rows.extend(new[:, 0])
        shifts.append(np.linalg.norm(rows) * mechanism.participation.change / mechanism.row_std)
    assert max(shifts) <= mechanism.price.mu * (1 + 1e-12)
    assert max(shifts) == pytest.approx(mechanism.price.mu, rel=1e-6)
