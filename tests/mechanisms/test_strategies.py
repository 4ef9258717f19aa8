"""Every prefix-sum strategy streams what its dense matrix says, at its price, and refuses what it must."""

import math
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms.blt import Blt
from adaprivate.mechanisms.independent import Independent
from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.optimal import Optimal
from adaprivate.mechanisms.prefix import PrefixSum
from adaprivate.mechanisms.toeplitz import Banded, SquareRoot
from adaprivate.mechanisms.tree import Honaker, Tree

FAMILY = {
    "independent": Independent,
    "tree": Tree,
    "honaker": Honaker,
    "sqrt": SquareRoot,
    "banded": partial(Banded, bands=5),
    "blt": Blt,
    "optimal": Optimal,
}
ODD_AND_EVEN = (1, 2, 3, 7, 8, 12, 33)
every_strategy = pytest.mark.parametrize("name", FAMILY)
both_arithmetics = pytest.mark.parametrize("exact", [False, True], ids=["floats", "integers"])


class Given(Noise):
    """Adds the noise it was given, row by row, and keeps the rows it was shown."""

    def __init__(self, exact, noise=None):
        self.exact, self.left, self.rows, self.scales = exact, noise, [], []

    def gaussian(self, values, scale):
        assert values.dtype == (object if self.exact else np.float64)
        assert not self.exact or all(type(v) is int for v in values.ravel())
        self.rows.extend(values)
        self.scales.extend(np.broadcast_to(scale, values.shape))
        clean = np.array([[v / 2**40 for v in row] for row in values]) if self.exact else values
        if self.left is None:
            return clean
        noise, self.left = self.left[: len(values)], self.left[len(values) :]
        return clean + noise

    def slack(self, scale, draws):
        return 0.0

    def laplace(self, values, scale):
        raise NotImplementedError


def dense(name, strategy):
    """C from its definition."""
    steps = strategy.steps
    if name == "independent":
        return np.eye(steps)
    if name in ("tree", "honaker"):
        ends = [(k, 2**level) for k in range(1, steps + 1) for level in range(20) if k % 2**level == 0]
        return np.array([[float(k - size <= j < k) for j in range(steps)] for k, size in ends])
    if name == "optimal":
        return strategy.matrix()
    if name == "blt":
        column = [1.0] + [float(strategy.omegas @ strategy.thetas**k) for k in range(steps - 1)]
    elif name == "banded":
        assert len(strategy.coefficients) == min(5, steps)
        column = [*strategy.coefficients, *[0.0] * steps]
    else:
        column = [round(math.comb(2 * k, k) / 4**k * 2**20) / 2**20 for k in range(steps)]
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


def dense_decoder(name, C):
    """The matrix that turns all rows into running sums, each from the rows released by then."""
    steps = C.shape[1]
    last = np.array([np.flatnonzero(row).max() for row in C])
    decoder = np.zeros((steps, len(C)))
    for k in range(steps):
        if name == "tree":
            covered = 0
            while covered <= k:
                size = 2 ** ((k + 1 - covered).bit_length() - 1)
                block = (np.arange(steps) >= covered) & (np.arange(steps) < covered + size)
                decoder[k, np.flatnonzero((block == C).all(axis=1))] = 1
                covered += size
        else:  # the least-variance unbiased estimate; for square C there is only one
            decoder[k, last <= k] = (np.arange(steps) <= k) @ np.linalg.pinv(C[last <= k])
    return decoder


def run(strategy, increments, noise):
    mechanism = PrefixSum(strategy, dimension=increments.shape[1], noise_multiplier=2.0, noise=noise)
    prefixes = np.array([mechanism.release(s) for s in increments])
    return prefixes, np.array(noise.rows), mechanism


def stream(steps, dimension=3, seed=0):
    drawn = np.random.default_rng(seed).integers(-(2**24), 2**24, (steps, dimension))
    return np.array([[int(v) for v in row] for row in drawn], dtype=object).reshape(steps, dimension)


@every_strategy
@pytest.mark.parametrize("steps", ODD_AND_EVEN)
def test_the_matrix_is_the_definition_and_its_largest_column_the_sensitivity(name, steps):
    strategy = FAMILY[name](steps)
    C = dense(name, strategy)
    np.testing.assert_allclose(strategy.matrix(), C, rtol=0, atol=1e-14)
    assert strategy.rows == len(C)
    extra = 2**-20 * math.sqrt(steps) if name == "blt" else 1e-12
    largest = np.linalg.norm(C, axis=0).max()
    assert largest - 1e-12 <= strategy.sensitivity() <= largest + extra
    std = np.linalg.norm(dense_decoder(name, C), axis=1)
    np.testing.assert_allclose(strategy.prefix_std(), std, rtol=1e-9)


@every_strategy
@both_arithmetics
@pytest.mark.parametrize("steps", [1, 7, 12])
def test_streaming_is_the_dense_product(name, exact, steps):
    strategy, integers = FAMILY[name](steps), stream(steps)
    floats = integers.astype(float) / 2**20
    C = dense(name, strategy)
    noise = np.random.default_rng(1).normal(size=(len(C), 3))
    prefixes, rows, _ = run(strategy, integers if exact else floats, Given(exact, noise))
    np.testing.assert_allclose(prefixes, dense_decoder(name, C) @ (C @ floats + noise), rtol=0, atol=1e-9)
    np.testing.assert_allclose(rows.astype(float) / (2**40 if exact else 1), C @ floats, rtol=0, atol=1e-9)
    if exact and name != "blt":
        coefficients = np.array([[int(c * 2**20) for c in row] for row in C], dtype=object)
        assert (rows == coefficients @ integers).all()
    silent, _, _ = run(strategy, integers if exact else floats, Given(exact))
    assert (np.round(silent * 2**20) == np.cumsum(integers, axis=0)).all()
    np.testing.assert_allclose(silent, np.cumsum(floats, axis=0), rtol=0, atol=2**-30)


@every_strategy
@both_arithmetics
@pytest.mark.parametrize(("change", "direction"), [(1.0, [0.6, 0.8, 0.0]), (2.0**-20, [0.0, 1.0, 0.0])])
def test_the_price_covers_every_batch_and_is_attained(name, exact, change, direction):
    strategy, shifts = FAMILY[name](12), []
    difference = np.array([int(v * change * 2**20) for v in direction], dtype=object)
    for batch in range(12):
        integers = stream(12, seed=batch)
        neighbour = integers.copy()
        neighbour[batch] = neighbour[batch] + difference
        rows = []
        for increments in (integers, neighbour):
            noise, reach = Given(exact), privacy.events(reward_range=change)
            mechanism = PrefixSum(strategy, dimension=3, noise_multiplier=1.7, noise=noise, participation=reach)
            for increment in increments if exact else increments.astype(float) / 2**20:
                mechanism.release(increment)
            rows.append(np.array(noise.rows))
        moved = (rows[1] - rows[0]).astype(float) / (2**40 if exact else 1)
        shifts.append(np.linalg.norm(moved / np.array(noise.scales)))
    assert mechanism.price.mu == pytest.approx(1 / 1.7, rel=1e-15)
    assert max(shifts) <= mechanism.price.mu * (1 + (1e-12 if exact else 1e-7))
    assert max(shifts) >= mechanism.price.mu * (1 - 2e-5)


def test_integer_buffers_round_by_less_than_one_unit():
    strategy = Blt(200)
    thetas, omegas = [Fraction(t) for t in strategy.thetas], [Fraction(o) for o in strategy.omegas]
    column = [Fraction(1)] + [sum(o * t**k for o, t in zip(omegas, thetas, strict=True)) for k in range(12)]
    state, integers = strategy.start(1, True), stream(13, 1)
    for step in range(13):
        row, state = strategy.encode(state, step, integers[step])
        true = sum(column[step - j] * integers[j, 0] for j in range(step + 1)) * 2**20
        assert 0 <= true - row[0, 0] < 1 + 1e-9


def test_blt_covers_a_stream_chosen_to_round_apart_from_its_neighbour():
    """The smallest change there is, in batch 1; each later increment is picked so that the next row rounds up."""

    def whole(number):
        return np.array([number], dtype=object)

    strategy = Blt(64)
    states, moved = [strategy.start(1, True)] * 2, []
    for step in range(64):
        futures = []
        for choice in range(40 if step else 1):
            pair = [strategy.encode(s, step, whole(choice + (i if step == 0 else 0))) for i, s in enumerate(states)]
            after = [strategy.encode(s, step + 1, whole(0))[0][0, 0] for _, s in pair]
            futures.append((after[1] - after[0], choice, pair))
        pair = max(futures, key=lambda future: future[:2])[2]
        moved.append(pair[1][0][0, 0] - pair[0][0][0, 0])
        states = [s for _, s in pair]
    shift = math.sqrt(sum(m * m for m in moved)) / 2**20
    linear = privacy.toeplitz_sensitivity(strategy.coefficients())
    extra = strategy.sensitivity() - linear
    assert 0.3 * extra < shift - linear < extra < 1e-5


@pytest.mark.parametrize(("build", "vectors"), [(Tree, 2 * 17), (Honaker, 2 * 17), (Banded, 2 * 16 + 1), (Blt, 2 * 4 + 1)])
def test_a_hundred_thousand_batches_need_little_memory(build, vectors):
    increments, noise = np.random.default_rng(0).normal(size=(3000, 5)), Given(False)
    tracemalloc.start()
    strategy = build(100_000)
    std = strategy.prefix_std()
    mechanism = PrefixSum(strategy, dimension=5, noise_multiplier=1.0, noise=noise)
    for increment in increments:
        prefix = mechanism.release(increment)
        noise.rows, noise.scales = [], []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(prefix, increments.sum(axis=0), rtol=0, atol=1e-9)
    assert std.shape == (100_000,)
    assert sum(array.nbytes for array in mechanism.state.stream) <= vectors * 5 * 8
    assert peak < 40e6


@every_strategy
@both_arithmetics
def test_refusals_leave_the_state_as_it_was(name, exact):
    class Broken(Given):
        broken = False

        def gaussian(self, values, scale):
            noisy = super().gaussian(values, scale)
            if self.broken:
                raise OSError("no randomness")
            return noisy

    increments = stream(6) if exact else stream(6).astype(float)
    noise = Broken(exact)
    mechanism = PrefixSum(FAMILY[name](6), dimension=3, noise_multiplier=1.0, noise=noise)
    for step, increment in enumerate(increments):
        before, arrays = mechanism.state, [np.copy(a) for a in mechanism.state.stream]
        for wrong in ([1, 2], [[1, 2, 3]], [1.0, math.nan, 0.0], [math.inf, 0.0, 0.0], ["a", "b", "c"]):
            with pytest.raises(InputError):
                mechanism.release(np.array(wrong))
        shown, noise.broken = len(noise.rows), True
        with pytest.raises(OSError, match="no randomness"):
            mechanism.release(increment)
        noise.broken = False
        assert mechanism.state is before
        assert all((a == b).all() for a, b in zip(arrays, mechanism.state.stream, strict=True))
        again = len(noise.rows)
        mechanism.release(increment)
        assert (np.array(noise.rows[shown:again]) == np.array(noise.rows[again:])).all()
        assert mechanism.state.step == step + 1
    with pytest.raises(InputError, match=r"Expected releases=7 <= 6"):
        mechanism.release(increments[0])
    assert mechanism.state.step == 6


@every_strategy
@pytest.mark.parametrize("steps", [0, 2.0, "3"])
def test_steps_are_checked(name, steps):
    with pytest.raises(InputError, match="Expected steps="):
        FAMILY[name](steps)
