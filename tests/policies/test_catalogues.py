"""Catalogues: items checked once, chosen among by the same choice as from the array, however many there are."""

import copy
import pickle

import numpy as np
import pytest

import adaprivate as ap
from adaprivate.compiled import borrowed, entry
from adaprivate.mechanisms import Secure
from adaprivate.policies.core.linear import TIE, highest, most_hopeful, most_optimistic
from adaprivate.policies.core.stock import LEVELS, WIDE, best_in_stock, exact_score, stocked

D = 6
N = 2100


@entry
def by_score(candidates, theta):
    return highest(borrowed(candidates), borrowed(theta))


@entry
def by_bound(root, w, width, phi, candidates):
    return most_optimistic(borrowed(root), borrowed(w), width, borrowed(phi), borrowed(candidates))


@entry
def by_hope(root, theta, width, phi, candidates):
    return most_hopeful(borrowed(root), borrowed(theta), width, borrowed(phi), borrowed(candidates))


def unit(rng, count=N, dimension=D):
    rows = rng.normal(size=(count, dimension))
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def tables(rng, theta):
    """Tables that are hard to choose from: near-ties at every scale of rounding, equal rows, climbing scores, odd sizes."""
    rows = unit(rng)
    best = 0.9 * theta / np.linalg.norm(theta)
    yield rows
    yield rows[np.argsort(rows @ theta)].copy()
    yield rows[: WIDE + 1].copy()
    yield 1e-9 * rows
    yield np.repeat(rows[:7], 300, axis=0)
    yield np.ascontiguousarray(np.repeat(rows[:1], N, axis=0))
    for size in (1e-16, 1e-14, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):  # below, at and above a step of 1 / 32767
        yield best + size * rng.normal(size=rows.shape)
    yield np.where(rng.random(rows.shape) < 0.1, rows, 0.0)
    yield np.round(rows * 4) / 8


@pytest.mark.parametrize("seed", range(6))
def test_the_highest_score_is_found_as_among_rows(seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=D) * 10.0 ** rng.integers(-3, 3)
    for rows in tables(rng, theta):
        stock = stocked(rows, coarse=True)
        for scaled in (theta, -theta, 1e-120 * theta, 1e120 * theta, 0 * theta, theta * [1, *[0] * (D - 1)]):
            assert by_score(stock, scaled) == by_score(rows, scaled)
            found = best_in_stock(stock, scaled, 0.0, np.empty((0, 0)), scaled, scaled, False, 0.0)
            assert found == (by_score(rows, scaled) if scaled.any() else -1)


def roots(rng, size):
    """S of nothing learned, of little, of much in few directions, and one that is nearly singular."""
    yield np.eye(size)
    for rounds, share in ((5, 1.0), (3000, 1.0), (10**6, 0.3)):
        seen = rng.normal(size=(50, size)) * np.where(np.arange(size) < share * size, 1.0, 1e-3)
        inverse = np.linalg.inv(np.eye(size) + seen.T @ seen * rounds / 50)
        yield np.ascontiguousarray(np.linalg.cholesky((inverse + inverse.T) / 2))
    turned = np.linalg.qr(rng.normal(size=(size, size)))[0]
    yield np.ascontiguousarray(turned * np.logspace(0, -6, size))


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_the_highest_bound_is_found_as_among_rows(seed, intercept):
    rng = np.random.default_rng([seed, intercept])
    size = D + intercept
    for root in roots(rng, size):
        theta = rng.normal(size=size)
        w = np.linalg.solve(root, theta)
        steep = np.linalg.svd(root[:D])[0][:, : D - 2]
        flat = unit(rng)  # all that is uncertain about these cancels
        for rows in (*tables(rng, theta[:D]), flat - flat @ steep @ steep.T):
            stock, phi = stocked(rows, coarse=True), np.zeros(size)
            for width in (0.0, 0.01, 1.0, 100.0):
                for known in (w, 0 * w):
                    args = root, known, width, phi
                    assert by_bound(*args, stock) == by_bound(*args, rows)
                args = root, theta, width, phi
                assert by_hope(*args, stock) == by_hope(*args, rows)


@entry
def scored_one_by_one(table, root, w, phi, tie):
    best, top = 0, -np.inf
    rows, s, v, scratch = borrowed(table), borrowed(root), borrowed(w), borrowed(phi)
    for a in range(rows.shape[0]):
        score = exact_score(rows, a, v, 0.0, s, v, scratch, True)
        if a == 0 or score > top + tie * (1.0 + abs(top)):
            best, top = a, score
    return best


def test_what_theta_loses_where_it_is_a_difference_of_large_numbers_is_allowed_for():
    """theta = S w is off by a hundredth here: what could be the best by its rows' own scores is looked at."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        u, v, w = rng.normal(size=(3, D))
        w -= v * (w @ v) / (v @ v)
        root, rows = np.eye(D) + 1e14 * np.outer(u, v), unit(rng)
        theta = root @ w
        assert 1e-4 < np.abs(theta - w).max() < 1
        found = best_in_stock(stocked(rows, coarse=True), theta, 0.0, root, w, np.zeros(D), True, TIE)
        assert found == scored_one_by_one(rows, root, w, np.zeros(D), TIE)


@pytest.mark.parametrize("d", [20, 50])
def test_what_whole_steps_take_from_a_bound_is_allowed_for(d):
    """Where only the sum of all coordinates is uncertain, half a step in each of them adds up to sqrt(d) times as much."""
    root = np.full((d, d), 1.0 / d) + 1e-9 * np.eye(d)
    step = 0.5 / LEVELS
    for places in range(int(0.85 / step / d**0.5), int(0.86 / step / d**0.5), 7):
        rows = np.zeros((WIDE + 4, d))
        rows[-1, :2] = 0.5, -0.5
        rows[3] = (places + 0.45) * step  # found first, and then surpassed by a row that is rounded down everywhere
        rows[WIDE - 1] = (places + 0.49) * step
        args = root, np.zeros(d), 1.0, np.zeros(d)
        assert by_bound(*args, rows) == by_bound(*args, stocked(rows, coarse=True)) == WIDE - 1


def test_what_single_precision_takes_from_a_bound_is_allowed_for():
    """Rows of which nearly all that is uncertain cancels: what is left of a square is less than its rounding."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        along = rng.normal(size=12)
        along /= np.linalg.norm(along)
        root = np.ascontiguousarray(np.outer(along, along) + 2e-4 * np.eye(12))
        rows = unit(rng, WIDE + 5, 12)
        rows = np.ascontiguousarray((rows - np.outer(rows @ along, along)) * rng.uniform(0.3, 0.9, size=(len(rows), 1)))
        args = root, np.zeros(12), 1.0, np.zeros(12)
        assert by_bound(*args, stocked(rows, coarse=True)) == by_bound(*args, rows)


def test_what_cannot_be_scored_coarsely_is_scored_as_ever():
    rows = unit(np.random.default_rng(1))
    stock = stocked(rows, coarse=True)
    for theta in (np.zeros(D), np.full(D, np.nan), np.full(D, np.inf), np.full(D, 1e300), np.full(D, 1e-320)):
        assert by_score(stock, theta) == by_score(rows, theta)
    nothing = stocked(np.zeros((N, D)), coarse=True)
    assert not len(nothing.coarse)
    assert by_score(nothing, np.ones(D)) == 0


def test_the_coarse_copy_is_within_half_a_step():
    rows = 0.3 * unit(np.random.default_rng(2))
    stock = stocked(rows, coarse=True)
    step = np.abs(rows).max() / LEVELS
    back = stock.coarse.transpose(0, 2, 1).reshape(-1, D)[:N] * step
    assert np.abs(back - rows).max() <= step * 0.5000001
    assert stock.coarse.nbytes <= rows.nbytes * 0.25 * (1 + WIDE / N)


def pair(name, **options):
    chosen = {"dimension": D, "rounds": 400, **({"epsilon": 1.0} if name.startswith(("noise", "ada")) else {}), **options}
    return ap.policy(name, seed=3, **chosen), ap.policy(name, seed=3, **chosen)


@pytest.mark.parametrize(
    "name", ["noise-aware-ts", "noise-aware-ucb", "noise-aware-greedy", "adaprivate-ts", "tuned-linucb", "random"]
)
def test_decisions_are_those_from_the_array(name):
    rng = np.random.default_rng(5)
    rows = 1.2 * rng.random() * unit(rng)
    rows[::50] *= 3.0  # clipped, alike
    catalogue = ap.Catalogue(rows)
    assert catalogue.clipped == (np.linalg.norm(rows, axis=1) ** 2 > 1 + 1e-9).sum()
    array, stock = pair(name)
    for number in range(150):
        places = rng.permutation(N)[: 1 + number]
        if number % 3 == 0:
            one, two = array.decide(rows), stock.decide(catalogue)
        elif number % 3 == 1:
            one, two = array.decide(rows[places]), stock.decide(catalogue, among=places)
            one = one._replace(action=places[one.action])
        else:
            mask = np.isin(np.arange(N), places)
            one, two = array.decide(rows[mask]), stock.decide(catalogue, among=mask)
            one = one._replace(action=np.flatnonzero(mask)[one.action])
        assert one.action == two.action
        assert one.features.tobytes() == two.features.tobytes() == catalogue.features[two.action].tobytes()
        reward = float(rng.random() < 0.5 + 0.4 * one.features[0])
        array.learn(one, reward)
        stock.learn(two, reward)
    assert (array.version, array.round) == (stock.version, stock.round)


def test_many_at_once_are_those_from_the_array():
    rng = np.random.default_rng(6)
    rows = unit(rng, 1500)
    array, stock = pair("noise-aware-ts", reward_window=8)
    array.logs_propensities = stock.logs_propensities = False
    for _ in range(5):
        places = np.stack([rng.permutation(1500)[:40] for _ in range(4)])
        ones = array.decide_many(rows[places])
        twos = stock.decide_many(ap.Catalogue(rows), among=places)
        assert [places[n, one.action] for n, one in enumerate(ones)] == [two.action for two in twos]
        for one, two in zip(ones, twos, strict=True):
            array.learn(one, 1.0)
            stock.learn(two, 1.0)
    mixed = stock.decide_many(ap.Catalogue(rows), among=[None, [3], range(1500)])
    assert mixed[1].action == 3


def test_exact_noise_people_and_windows(tmp_path):
    rng = np.random.default_rng(7)
    catalogue = ap.Catalogue(unit(rng), ids=range(10_000, 10_000 + N))
    policy = ap.policy(
        "noise-aware", dimension=D, rounds=300, epsilon=1.0, source=Secure(), reward_window=3, unit="user", counted_visits=5
    )
    open_ones = []
    for number in range(40):
        open_ones.append(policy.decide(catalogue, user=f"u{number % 11}"))
        if number >= 2:
            policy.learn(open_ones.pop(0).token, 1.0)
    many = policy.decide_many(catalogue, among=[None, range(9)], users=["u1", "u2"])
    assert all(one.item == 10_000 + one.action for one in many)
    policy.save(tmp_path / "kept")
    again = ap.load(tmp_path / "kept")
    waiting = again.open_decision
    assert waiting.item is None
    np.testing.assert_array_equal(waiting.features, catalogue.features[waiting.action])
    again.learn(many[1].token, 0.0)
    assert again.decide(catalogue, among=[17], user="u1").item == 10_017


def test_propensities_are_those_from_the_array_and_refused_among_too_many():
    rng = np.random.default_rng(8)
    rows = unit(rng, 1200)
    catalogue = ap.Catalogue(rows)
    array, stock = pair("adaprivate-ts", propensities=True)
    places = np.arange(3, 11)
    one, two = array.decide(rows[places]), stock.decide(catalogue, among=places)
    assert one.propensity == two.propensity
    assert 0 < two.propensity < 1
    with pytest.raises(ap.InputError, match=r"Expected candidates=1200 <= 1000 with propensities"):
        stock.decide(catalogue)
    assert stock.decided == 1
    assert stock.decide(catalogue, propensity=False).propensity is None
    before = stock.round
    with pytest.raises(ap.InputError, match=r"Expected candidates=1200 <= 1000 with propensities"):
        stock.propensities(catalogue)
    with pytest.raises(ap.InputError, match=r"Expected draws=7 >= 8"):
        stock.propensities(rows, draws=7)
    assert stock.round == before
    assert len(stock.propensities(rows).probability) == 1200


def test_a_catalogue_is_its_own():
    rng = np.random.default_rng(9)
    rows = unit(rng, 30)
    given = rows.copy()
    catalogue = ap.Catalogue(given, ids=np.array([f"item {n}" for n in range(30)]))
    given[:] = np.nan
    np.testing.assert_array_equal(catalogue.features, rows)
    decision = pair("adaprivate-ts")[0].decide(catalogue)
    assert decision.item == f"item {decision.action}"
    decision.features[:] = 7.0
    np.testing.assert_array_equal(np.asarray(catalogue), rows)
    with pytest.raises(ValueError, match="read-only"):
        catalogue.features[0, 0] = 1.0
    with pytest.raises(AttributeError, match="does not change"):
        catalogue.ids = None
    for other in (copy.deepcopy(catalogue), pickle.loads(pickle.dumps(catalogue))):
        np.testing.assert_array_equal(other.features, rows)
        assert other.ids == catalogue.ids
    assert repr(catalogue) == "Catalogue(30 items, dimension 6, 0.0 MB)"
    assert len(catalogue) == 30


@pytest.mark.parametrize(
    ("features", "ids", "text"),
    [
        ([[0.0, 1.0], [np.nan, 0.0]], None, r"Expected features\[1, 0\]=nan to be finite"),
        ([[0.0, 1.0], [1e200, 0.0]], None, r"Expected features\[1\] to have a norm <= 1e150"),
        (np.zeros((0, 2)), None, r"Expected features.shape=\(0, 2\) == \(items, dimension\), at least 1 each"),
        (np.zeros(3), None, r"Expected features.shape=\(3,\)"),
        ("abc", None, "to be an array of numbers"),
        (np.eye(2), ["tea"], r"Expected len\(ids\)=1 == 2, one for each item"),
        (np.eye(2), ["tea", "tea"], "Expected ids='tea' to come once"),
        (np.eye(2), "ab", "Expected ids of type str to be a list"),
        (np.eye(2), [[], []], "to be texts, numbers or others that can be compared"),
    ],
)
def test_bad_tables_are_refused(features, ids, text):
    with pytest.raises(ap.InputError, match=text):
        ap.Catalogue(features, ids)


@pytest.mark.parametrize(
    ("among", "text"),
    [
        ([], "Expected among to hold at least one item"),
        ([0, 30], r"Expected among\[1\] >= 0 and < 30, the items"),
        ([5, -1], r"Expected among\[1\] >= 0 and < 30, the items"),
        ([5, 4, 5], "Expected among to name every item once"),
        ([0.0, 1.0], "to be a list of whole numbers"),
        ("tea", "to be a list of whole numbers"),
        (3, "to be a list of whole numbers"),
        ([[1, 2], [3]], "to be a list of whole numbers"),
        ([True, False], r"Expected len\(among\)=2 == 30, or a list of places"),
        ([False] * 30, "to hold at least one item"),
    ],
)
def test_bad_places_are_refused_and_nothing_has_changed(among, text):
    policy = pair("adaprivate-ts")[0]
    catalogue = ap.Catalogue(unit(np.random.default_rng(1), 30))
    with pytest.raises(ap.InputError, match=text):
        policy.decide(catalogue, among=among)
    assert policy.decided == 0


def test_what_does_not_fit_is_refused():
    policy, rows = pair("adaprivate-ts")[0], unit(np.random.default_rng(1), 30)
    catalogue = ap.Catalogue(rows)
    with pytest.raises(ap.InputError, match=r"Expected candidates.dimension=3 == 6"):
        policy.decide(ap.Catalogue(np.eye(3)))
    with pytest.raises(ap.InputError, match=r"Expected among not to be given with candidates of type ndarray"):
        policy.decide(rows, among=[1])
    for among in (None, [1, 2], []):
        with pytest.raises(ap.InputError, match="to be a list with the places or the mask of each decision"):
            policy.decide_many(catalogue, among=among)
    with pytest.raises(ap.InputError, match=r"Expected len\(users\)=1 == 2"):
        policy.decide_many(catalogue, among=[None, None], users=["a"])
    arms = ap.policy("ucb1", dimension=4, rounds=50, seed=1)
    with pytest.raises(ap.InputError, match="not to be a catalogue: the arms are fixed"):
        arms.decide(ap.Catalogue(np.eye(4)))
    with pytest.warns(ap.ClippedWarning, match="20 of 20 items were longer than 1"):
        ap.Catalogue(3 * rows[:20])


def test_ties_are_broken_by_the_first():
    assert TIE > 0
    rows = np.repeat(np.eye(D), 400, axis=0)
    policy = ap.policy("linucb", dimension=D, rounds=10, seed=1)
    policy.warm_up(ap.Catalogue(rows))
    assert policy.decided == 0
    assert policy.decide(ap.Catalogue(rows)).action == 0
