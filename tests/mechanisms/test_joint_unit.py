"""Context and reward of a round as the unit: what one row moves, in whole numbers, and the noise that covers it."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated, strategy
from adaprivate.mechanisms.noise import EVENT_BITS, NOISE_BITS
from adaprivate.mechanisms.plan import BatchPlan, Epoch, plan_from_bytes
from adaprivate.mechanisms.units import Event, joint, named
from adaprivate.mechanisms.units.joint import GRID, JointSum, JointUnit
from adaprivate.testing.books import open_noise


def pair(kappa, e, r):
    """(kappa svec(e e'), (r - 1/2) e)."""
    i, j = np.triu_indices(len(e))
    svec = np.outer(e, e)[i, j] * np.where(i == j, 1, math.sqrt(2))
    return np.concatenate([kappa * svec, (r - 0.5) * e])


@pytest.mark.parametrize("square", [0.05, 1 / 8, 0.13, 0.2, 0.5])
def test_a_replaced_row_moves_the_pair_by_the_stated_reach_and_no_more(square):
    kappa, rng = math.sqrt(square), np.random.default_rng(0)
    reach = privacy.centred_joint_sensitivity(kappa)
    assert (reach == pytest.approx(1.0, abs=1e-12)) is (square <= 1 / 8)
    for _ in range(4000):
        e, f = rng.normal(size=(2, int(rng.integers(1, 5))))
        e *= rng.uniform() ** 0.1 / np.linalg.norm(e)
        f = f * (rng.uniform() ** 0.1 / np.linalg.norm(f)) if rng.uniform() < 0.7 else rng.choice([-1, 1]) * e
        r, s = rng.uniform(size=2).round(int(rng.integers(0, 3)))
        assert np.linalg.norm(pair(kappa, e, r) - pair(kappa, f, s)) <= reach * (1 + 1e-12)
    cosine = min(1.0, 1 / (8 * square))  # attained: of unit vectors, with rewards 0 and 1; by the reward alone up to 1/8
    e, f = np.array([1.0, 0.0]), np.array([cosine, math.sqrt(1 - cosine**2)])
    assert np.linalg.norm(pair(kappa, e, 1.0) - pair(kappa, f, 0.0)) == pytest.approx(reach, rel=1e-12)
    assert np.linalg.norm(pair(kappa, e, 1.0) - pair(kappa, -f, 1.0)) == pytest.approx(reach, rel=1e-12)


def squared_moves(intercept, dimension=2):
    """8 x the squared move, in whole numbers, between any two rows and rewards of the grid as the collector rounds them."""
    unit = JointUnit(intercept)
    made, found = JointSum(dimension, noise=Secure(), intercept=intercept), set()
    steps = np.arange(-joint.GRID, joint.GRID + 1) / joint.GRID / unit.stretch
    for x in itertools.product(steps * (1 + 1e-12), repeat=dimension):
        for r in range(joint.GRID + 1):
            made.add(np.array(x), r / joint.GRID)
            found.add(tuple(made.take()))
    sums = np.array(sorted(found), dtype=np.int64)
    rows, columns = joint.listed(unit.width(dimension), unit.constant > 0)
    weights = np.concatenate([np.where(rows == columns, 1, 2), np.full(unit.width(dimension), 8)])
    assert np.allclose(8 / unit.scales(dimension) ** 2, weights, rtol=1e-12)  # the noise is what these weights stand for
    assert (unit.scales(dimension) ** 2 * weights >= 8).all()  # rounded up, if at all
    square = (sums * sums) @ weights
    cross = (sums * weights) @ sums.T
    return square[:, None] + square - 2 * cross


@pytest.mark.parametrize("intercept", [0.0, 0.4])
def test_no_two_rows_of_a_coarse_grid_are_further_apart_than_one(intercept, monkeypatch):
    """Brute force in integers on a grid of eighths: 1 is attained, and exceeded by none."""
    monkeypatch.setattr(joint, "GRID", 8)
    most = squared_moves(intercept).max()
    assert most <= 8 * 8**4
    assert most == 8 * 8**4 or intercept > 0  # with a constant of 3/8, the longest row of this grid is shorter than 1


def test_a_larger_share_for_the_matrix_or_another_centre_breaks_the_bound(monkeypatch):
    monkeypatch.setattr(joint, "GRID", 8)
    made = JointSum(2, noise=Secure())
    rows = {}
    for x in ((1.0, 0.0), (0.5, 0.75), (0.625, 0.75), (-0.75, 0.625)):
        for r in (0.0, 1.0):
            made.add(np.array(x), r)
            rows[x, r] = made.take().astype(float)
    moves = [a - b for a in rows.values() for b in rows.values()]
    right = JointUnit().scales(2) * 64
    assert max(np.linalg.norm(move / right) for move in moves) == pytest.approx(1.0)
    louder = np.where(right > 100, right / math.sqrt(1.6), right)  # kappa^2 = 0.2
    assert max(np.linalg.norm(move / louder) for move in moves) > 1.01
    with pytest.raises(InputError, match=r"Expected centre=0\.3 == 1/2"):
        JointUnit().collector(2, noise=Secure(), centre=0.3, shape=None)


def test_sums_are_whole_products_of_rounded_rows_that_nothing_has_rounded_again():
    rng = np.random.default_rng(1)
    made, plain = JointSum(3, noise=Secure(), intercept=0.3), JointSum(3, noise=Simulated(0), intercept=0.3)
    x, r = rng.normal(size=(40, 3)), rng.uniform(size=40)
    expected = np.zeros((4, 4), dtype=object)
    vector = np.zeros(4, dtype=object)
    for features, reward in zip(x, r, strict=True):
        made.add(features, reward)
        plain.add(features, reward)
        unit = features / max(1.0, np.linalg.norm(features))
        row = [*np.trunc(unit * math.sqrt(1 - (307 / 1024) ** 2) * 1024).astype(int).tolist(), 307]
        assert sum(entry**2 for entry in row) <= 2**20
        expected = expected + np.array([[a * b for b in row] for a in row], dtype=object)
        vector = vector + np.array([(math.floor(1024 * reward + 0.5) - 512) * a for a in row], dtype=object)
    i, j = np.triu_indices(4)
    total = made.take()
    assert total.tolist() == [*expected[i, j].tolist()[:-1], *vector.tolist()]  # the corner, 307^2 a round, is public
    assert all(type(entry) is int for entry in total)
    np.testing.assert_array_equal(plain.take() * 2.0**EVENT_BITS, total.astype(float))
    assert made.clipped == int((np.linalg.norm(x, axis=1) > 1).sum())
    assert not made.take().any()


def plan(name="sqrt", noise_multiplier=3.0, **options):
    epochs = (Epoch(0, 3, strategy(name, 3)),)
    return BatchPlan(
        delta=1e-5,
        dimension=3,
        ends=(4, 8, 12),
        noise_multiplier=noise_multiplier,
        epochs=epochs,
        unit=JointUnit(0.3),
        centre=0.5,
        decoded=False,
        **options,
    )


def test_every_number_of_a_release_has_its_own_scale_of_noise_and_pays_for_its_discreteness():
    made = plan()
    mechanism = made.mechanism(made.epochs[0], Secure())
    book = made.book(Secure())
    with open_noise(silent=True) as seen:
        for number in range(4):
            book.add(Event(number, np.array([0.6, 0.0, -0.8]), 1.0))
        book.close()
    (draw,) = seen
    i, j = joint.listed(4, True)
    wanted = np.concatenate([np.where(i == j, math.sqrt(8), 2.0), np.ones(4)])
    np.testing.assert_allclose(
        draw.scales, 3.0 * made.epochs[0].strategy.sensitivity() * wanted * 2.0**NOISE_BITS, rtol=1e-12
    )
    assert (draw.scales >= 3.0 * made.epochs[0].strategy.sensitivity() * wanted * 2.0**NOISE_BITS).all()
    assert len(i) == 9
    assert mechanism.slack >= Secure().slack(float(mechanism.row_std), 3 * 13)
    assert made.price(exact_noise=True).mu == 1 / 3


def test_exact_and_simulated_noise_have_the_same_law():
    """Of A's diagonal, off it, and of b apart: their standard deviations over 80 runs (false alarm 1e-6, with power)."""
    made = plan("independent")
    i, j = joint.listed(4, True)
    kinds = {"diagonal": np.flatnonzero(i == j), "off": np.flatnonzero(i != j), "b": np.arange(9, 13)}
    events = [Event(number, np.array([0.6, 0.0, -0.8]), 1.0) for number in range(4)]

    def released(source):
        book = made.book(source)
        for event in events:
            book.add(event)
        return book.close()[0].values

    with open_noise(silent=True):
        clear = released(Secure())
    exact = np.array([released(Secure()) for _ in range(80)]) - clear
    simulated = np.array([released(Simulated(seed)) for seed in range(80)]) - clear
    tables = made.noise_tables(range(80))[:, 0]
    for noise in (exact, simulated, tables):
        for kind, scale in (("diagonal", math.sqrt(8)), ("off", 2.0), ("b", 1.0)):
            drawn = noise[:, kinds[kind]] / (3.0 * scale)
            low, high = chi2.ppf([5e-8, 1 - 5e-8], drawn.size) / drawn.size
            square = float((drawn**2).mean())
            assert low < square < high
            assert not low < square * 4 / 9 < high
            assert not low < square * 9 / 4 < high


def test_a_plan_and_its_book_survive_storage():
    made = plan(continues=True)
    again = plan_from_bytes(made.to_bytes())
    assert again.unit == made.unit == named("joint")(intercept=0.3)
    assert (again.size, again.ends) == (made.size, made.ends)
    book, rng = made.book(Secure()), np.random.default_rng(0)
    for number in range(3):
        book.add(Event(number, rng.normal(size=3), 0.7))
    kept = type(book).from_bytes(book.to_bytes(), again, Secure())
    for one in (book, kept):
        one.add(Event(3, np.array([0.1, 0.2, 0.3]), 0.0))
    with open_noise(silent=True):
        np.testing.assert_array_equal(book.close()[0].values, kept.close()[0].values)


def test_bad_input():
    with pytest.raises(InputError, match="intercept"):
        JointUnit(1.0)
    with pytest.raises(InputError, match=r"Expected intercept=0\.0005 == 0, or >= "):
        JointUnit(0.0005)
    with pytest.raises(InputError, match="None where contexts are private"):
        JointUnit().collector(2, noise=Secure(), centre=0.5, shape=object())
    with pytest.raises(InputError):
        JointSum(2, noise=Secure()).add([0.1, 0.2], 1.5)
    with pytest.raises(InputError, match=r"state\.shape"):
        JointSum(2, noise=Secure()).restore(np.zeros(3))
    assert GRID == 1024
