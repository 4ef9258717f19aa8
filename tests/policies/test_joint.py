"""Jointly private UCB: Algorithm 1 of Shariff & Sheffet in NumPy, its tree, its noise, bounds and calibration."""

import dataclasses
import math

import numba
import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

from adaprivate import environments, policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import normal
from adaprivate.mechanisms import Secure
from adaprivate.policies.core.tables import stream_of
from adaprivate.policies.joint.perturbed import begin
from adaprivate.policies.joint.shariff import ROW_SQUARE, ROWS
from adaprivate.runtime.learner import learn
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import run_all

FALSE_ALARM = 1e-6
GAUSSIAN, WISHART, UNSHIFTED = "jdp-linucb-gaussian", "jdp-linucb-wishart", "jdp-linucb-wishart-unshifted"
NAMES = (GAUSSIAN, WISHART, UNSHIFTED)


def made(name, dimension=3, rounds=60, **options):
    return policies.settings(name, {"dimension": dimension, "rounds": rounds, **options})


def started(settings, seed=0):
    return settings.start(settings.noise_tables([seed])[0])


def released_noise(state, rounds):
    """The noise of every release, H's triangle then h, without any data."""
    nothing, rng, rows = np.zeros(len(state.gram)), np.zeros((2, 16), dtype=np.uint64), []
    for _ in range(rounds):
        learn(state, nothing, 0.5, -1, rng)
        rows.append(state.above[0].copy())
    return np.array(rows)


@numba.njit
def _normals(words, out):
    for i in range(len(out)):
        out[i] = normal(words, 0)


def unpacked(row, d):
    H = np.zeros((d, d))
    H[np.tril_indices(d)] = row[: -d or None]
    return H + np.tril(H, -1).T, row[-d:]


# --- the published table of noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "rounds", "nodes", "published", "tight"),
    [
        (0.1, 10**4, 15, 114.3, 8.41),
        (0.1, 10**6, 21, 135.2, 9.95),
        (0.1, 5 * 10**7, 27, 153.3, 11.28),
        (1e-5, 10**4, 15, 399.7, 28.90),
        (1e-5, 10**6, 21, 472.9, 34.19),
        (1e-5, 5 * 10**7, 27, 536.2, 38.77),
    ],
)
def test_node_noise_of_both_calibrations(delta, rounds, nodes, published, tight):
    for calibration, printed in (("published", published), ("tight", tight)):
        settings = made(GAUSSIAN, 5, rounds, delta=delta, calibration=calibration)
        assert settings.nodes == nodes
        assert settings.scale == pytest.approx(printed, rel=6e-4)


def test_published_bounds_and_degrees():
    # Upsilon and k as printed in the audit's recomputation of the paper's formulas, n = 5e7, alpha = 1 / n
    for delta, upsilon, degrees in ((0.1, 91545, 139115), (1e-5, 320115, 1246733)):
        gaussian, wishart = (made(name, 5, 5 * 10**7, delta=delta) for name in (GAUSSIAN, WISHART))
        bounds = gaussian.bounds()
        assert bounds.rho_min == pytest.approx(upsilon, rel=1e-5)
        assert (bounds.rho_max, bounds.shift) == pytest.approx((3 * upsilon, 2 * upsilon), rel=1e-5)
        assert wishart.degrees == degrees
        size, reach = math.sqrt(27 * degrees), math.sqrt(5) + math.sqrt(2 * math.log(8 * 25e14))
        shift = 2 * (size - reach) ** 2 - 8 * size * reach  # Eq. 4
        low = math.sqrt(5) + math.sqrt(2 * math.log(2 * 25e14))
        assert wishart.bounds() == pytest.approx(
            (8 * size * reach, 16 * size * reach, math.sqrt(2 * size * low), -shift), rel=1e-9
        )


def test_tight_degrees():
    assert made(WISHART, 5, 5 * 10**7, calibration="tight").degrees == 387  # docs/privacy.md


@pytest.mark.parametrize("name", NAMES)
def test_what_is_promised(name):
    published, tight = (made(name, 5, 10**4, calibration=calibration).guarantee() for calibration in ("published", "tight"))
    assert (published.unit, published.neighbours) == ("joint", "replace")
    assert privacy.CONDITIONS["own-action-hidden"] in published.assumptions
    assert published.simulated
    assert published.nominal_epsilon == 1
    assert published.epsilon < 0.06
    assert tight.nominal_epsilon is None
    assert 0.9 < tight.epsilon <= 1
    if name == GAUSSIAN:
        # 14 of the 15 nodes that are counted hold a row
        mu = math.sqrt(14 / 15) / (4 * math.log(4e5))
        assert published.epsilon == pytest.approx(privacy.gdp_epsilon(mu, 1e-5))
        assert made(name, 5, 2**13, calibration="tight").guarantee().epsilon == pytest.approx(1, rel=1e-6)


def test_reach_of_one_row():
    """Random and worst pairs of rows: the released entries move by no more than the price says, and that is attained."""
    rng = np.random.default_rng(0)

    def change(x, y, other, z):
        H, h = np.outer(x, x) - np.outer(other, other), y * x - z * other
        return math.sqrt((H * H).sum() + 2 * h @ h)

    x = rng.standard_normal(4)
    x /= np.linalg.norm(x)
    assert change(x, 1, -x, 1) == pytest.approx(ROWS.change, rel=1e-12)
    for _ in range(2000):
        rows = rng.standard_normal((2, 4))
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1 if rng.uniform() < 0.3 else 0)
        assert change(rows[0], rng.uniform(-1, 1), rows[1], rng.choice([-1, 1])) <= ROWS.change


# --- the algorithm ----------------------------------------------------------------------------------------------------


class Literal:
    """Algorithm 1 with Prop. 4, one inverse and one determinant per round, given (H_t, h_t)."""

    def __init__(self, settings):
        self.settings, self.bounds = settings, settings.bounds()
        self.G, self.u = np.zeros((settings.dimension,) * 2), np.zeros(settings.dimension)
        self.V, self.u_noisy = self.bounds.shift * np.eye(settings.dimension), self.u

    def receive(self, H, h):
        self.V, self.u_noisy = self.G + H + self.bounds.shift * np.eye(len(h)), self.u + h

    def beta(self):
        n, d = self.settings.rounds, len(self.u)
        rho_min, rho_max, gamma, _ = self.bounds
        inside = 2 * math.log(2 * n) + np.linalg.slogdet(self.V)[1] - d * math.log(rho_min)  # alpha = 1 / n
        return math.sqrt(inside) + math.sqrt(rho_max) + gamma  # sigma = S = 1

    def choose(self, candidates):
        inverse = np.linalg.inv(self.V)
        bonus = np.sqrt(np.einsum("ai,ij,aj->a", candidates, inverse, candidates))
        scores = candidates @ inverse @ self.u_noisy + self.beta() * bonus
        best = 0  # the first among equals, up to rounding
        for a, score in enumerate(scores):
            if score > scores[best] + 1e-12 * (1 + abs(scores[best])):
                best = a
        return best

    def learn(self, x, reward):
        self.G = self.G + np.outer(x, x)
        self.u = self.u + (2 * reward - 1) * x


def offers(settings, seed=0):
    rng = np.random.default_rng([seed, 97])
    candidates = rng.standard_normal((settings.rounds, 6, settings.dimension))
    return candidates / np.linalg.norm(candidates, axis=2, keepdims=True), rng.integers(0, 2, settings.rounds)


def tree_noise(settings, seed, rounds):
    """Gaussian noise of every release by the definition: a normal matrix for each block, summed over the blocks of t."""
    d = settings.dimension
    entries = d * (d + 1) // 2 + d
    normals = np.empty(rounds * entries)
    _normals(stream_of(settings.noise_tables([seed])[0]), normals)
    size = np.ones(entries)
    size[np.cumsum(np.arange(1, d + 1)) - 1] = math.sqrt(2)
    blocks = {}
    releases = []
    for t, row in enumerate(normals.reshape(rounds, entries) * size * settings.scale, start=1):
        level = (t & -t).bit_length() - 1
        blocks[level, t >> level] = row
        inside = [(bit, t >> bit) for bit in range(t.bit_length()) if t >> bit & 1]
        releases.append(sum(blocks[block] for block in inside))
    return np.array(releases)


def test_gaussian_policy_is_algorithm_1_action_by_action():
    for seed, options in ((0, {}), (1, {"calibration": "tight"}), (2, {"calibration": "tight", "rho_min": 300.0})):
        settings = made(GAUSSIAN, 3, 200, epsilon=50.0, **options)
        noise = tree_noise(settings, seed, settings.rounds)
        policy, literal = Policy(settings, seed=seed, source=None), Literal(settings)
        candidates, rewards = offers(settings, seed)
        chosen = []
        for offered, reward, row in zip(candidates, rewards, noise, strict=True):
            decision = policy.decide(offered)
            assert decision.action == literal.choose(offered)
            chosen.append(decision.action)
            policy.learn(decision, float(reward))
            policy.advance()
            literal.learn(offered[decision.action], reward)
            np.testing.assert_allclose(policy.state.above[0], row, rtol=1e-9, atol=1e-9 * settings.scale)
            literal.receive(*unpacked(row, 3))
            assert policy.state.scalars[0]["width"] == pytest.approx(literal.beta(), rel=1e-9)
        assert len(set(chosen)) > 3
        assert policy.state.scalars[0]["repaired"] == 0


@pytest.mark.parametrize("name", [WISHART, UNSHIFTED])
def test_wishart_policies_are_algorithm_1_given_their_noise(name):
    settings = made(name, 4, 100, calibration="tight", epsilon=2.0)
    policy, literal = Policy(settings, seed=3, source=None), Literal(settings)
    candidates, rewards = offers(settings)
    literal.receive(*unpacked(policy.state.above[0], 4))
    for offered, reward in zip(candidates, rewards, strict=True):
        decision = policy.decide(offered)
        assert decision.action == literal.choose(offered)
        policy.learn(decision, float(reward))
        policy.advance()
        literal.learn(offered[decision.action], reward)
        literal.receive(*unpacked(policy.state.above[0], 4))
        assert policy.state.scalars[0]["width"] == pytest.approx(literal.beta(), rel=1e-9)


def test_batched_release_waits_for_its_batch_and_adds_the_factorised_noise():
    settings = made(GAUSSIAN, 3, 50, calibration="tight", release="batched", batch_size=7, epsilon=20.0)
    table = settings.noise_tables([4])[0]
    assert table.shape == (7, 9)
    policy, literal = Policy(settings, seed=4, source=None), Literal(settings)
    candidates, rewards = offers(settings)
    for t, (offered, reward) in enumerate(zip(candidates, rewards, strict=True), start=1):
        decision = policy.decide(offered)
        assert decision.action == literal.choose(offered)
        policy.learn(decision, float(reward))
        literal.learn(offered[decision.action], reward)
        if t % 7 == 0:
            literal.receive(*unpacked(table[t // 7 - 1], 3))
    # the noise: standard deviations of the square-root strategy, sqrt(2) larger on the diagonal
    tables = settings.noise_tables(range(2000))
    std = settings.mechanism(Secure()).prefix_std()
    diagonal = np.array([1, 0.5, 1, 0.5, 0.5, 1, 0.5, 0.5, 0.5])
    scaled = tables**2 / (std[:, None] ** 2 * diagonal)
    low, high = chi2.ppf([FALSE_ALARM, 1 - FALSE_ALARM], 2000) / 2000
    assert np.all((scaled.mean(axis=0) > low) & (scaled.mean(axis=0) < high))
    assert not np.all((2 / 3) ** 2 * scaled.mean(axis=0) > low)
    assert not np.all((3 / 2) ** 2 * scaled.mean(axis=0) < high)
    assert settings.largest_std == pytest.approx(std.max() / math.sqrt(2))
    assert settings.guarantee().epsilon == pytest.approx(20, rel=1e-6)


def test_without_noise_it_is_its_parent():
    """The noise alone is taken away: what is left is the parent with ridge ``shift`` and the width of these bounds."""
    settings = made(GAUSSIAN, 5, 400, epsilon=50.0, calibration="tight")
    quiet, literal = Policy(settings, seed=1, source=None), Literal(settings)
    noisy = quiet.state.scalars[0]
    noisy["scale"] = 0.0
    begin(quiet.state)
    parent = made("oful", 5, 400)
    plain = Policy(parent, seed=2, source=None)
    scalars = plain.state.scalars[0]
    assert scalars["shift"] == scalars["rho_min"] == parent.bounds().rho_min
    scalars["shift"], scalars["rho_min"] = noisy["shift"], noisy["rho_min"]
    scalars["constant"] = settings.bounds().gamma + math.sqrt(settings.bounds().rho_max)
    begin(plain.state)
    candidates, rewards = offers(settings)
    for offered, reward in zip(candidates, rewards, strict=True):
        decisions = [policy.decide(offered) for policy in (quiet, plain)]
        assert decisions[0].action == decisions[1].action == literal.choose(offered)
        for policy, decision in zip((quiet, plain), decisions, strict=True):
            policy.learn(decision, float(reward))
        literal.learn(offered[decisions[0].action], reward)
        literal.receive(np.zeros((5, 5)), np.zeros(5))


def test_with_a_constant_width_the_parent_is_linucb():
    place = environments.environment("gap", {"dimension": 5, "candidates": 9})
    for width in (0.5, 2.0):
        oful = made("oful", 5, 3000, subgaussian=0.0, parameter_bound=width)
        linucb = made("linucb", 5, 3000, alpha=width / 2, centre=0.5)  # y = 2 (r - 1/2): the same, halved
        ours, theirs = run_all([oful, linucb], place, [0, 1], jobs=1)
        for one, two in zip(ours, theirs, strict=True):
            assert (one.reward, one.regret) == (two.reward, two.regret)
            assert np.array_equal(one.curve, two.curve)


def test_nothing_is_released_after_the_last_round():
    settings = made(GAUSSIAN, 3, 20)
    policy = Policy(settings, seed=0, source=None)
    for _ in range(20):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    policy.advance()
    before = policy.state.statistic.copy(), policy.state.root.copy(), policy.state.above.copy()
    for _ in range(50):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    policy.advance()
    assert np.array_equal(before[0], policy.state.statistic)
    assert np.array_equal(before[1], policy.state.root)
    assert np.array_equal(before[2], policy.state.above)


# --- the noise --------------------------------------------------------------------------------------------------------


def leaves(settings, seed, rounds):
    """The noise of single rounds' nodes: what a release after an odd round adds to the one before it."""
    state = started(settings, seed)
    noise = np.vstack([state.above[0], released_noise(state, rounds)])
    return noise[1::2] - noise[:-1:2] + (state.resting[0] if len(state.resting) else 0.0)


def test_gaussian_nodes_have_their_law():
    settings = made(GAUSSIAN, 4, 4000)
    found = leaves(settings, 0, 4000) / settings.scale
    found[:, [0, 2, 5, 9]] /= math.sqrt(2)  # the diagonal
    for column in found.T:
        assert kstest(column, norm.cdf).pvalue > FALSE_ALARM / 14
        for wrong in (2 / 3, 3 / 2):
            assert kstest(column * wrong, norm.cdf).pvalue < FALSE_ALARM
    correlation = np.corrcoef(found.T) - np.eye(14)
    assert np.abs(correlation).max() < 6.5 / math.sqrt(2000)  # 91 pairs, false alarm below 1e-6 in all


@pytest.mark.parametrize("degrees", [8, 40, 100_000])
def test_wishart_nodes_have_their_law(degrees):
    settings = made(WISHART, 4, 4000)
    settings.__dict__["degrees"] = degrees
    d, rows = 4, leaves(settings, 1, 4000) / ROW_SQUARE
    pairs = [unpacked(row, d) for row in rows]
    traces = np.array([np.trace(H) for H, _ in pairs])
    projections = np.array([h @ np.linalg.solve(H, h) for H, h in pairs])
    lowest = np.array([1 / np.linalg.inv(H)[0, 0] for H, _ in pairs])
    # of Z' Z and Z' z with independent normal Z (k, d) and z (k)
    for values, law in ((traces, d * degrees), (projections, d), (lowest, degrees - d + 1)):
        assert kstest(values, chi2(law).cdf).pvalue > FALSE_ALARM / 3
        if law < 1000:
            for wrong in (2 / 3, 3 / 2):
                assert kstest(values * wrong, chi2(law).cdf).pvalue < FALSE_ALARM
    for i, j in ((0, 1), (2, 3)):
        scaled = np.array([H[i, j] for H, _ in pairs]) / math.sqrt(degrees)
        assert abs(scaled.mean()) < 5 * scaled.std() / math.sqrt(len(scaled))
        assert scaled.var() == pytest.approx(1, rel=0.3)


def violations(settings, seeds, stretch=1.0, keep_resting=True):
    """The share of (seed, round) at which the bounds of Definition 3 fail, with the noise that much larger."""
    bounds, d, failed = settings.bounds(), settings.dimension, 0
    for seed in range(seeds):
        state = started(settings, seed)
        if not keep_resting:
            state.resting[:], state.above[:] = 0, 0
        for row in released_noise(state, settings.rounds):
            H, h = unpacked(stretch * row, d)
            H += bounds.shift * np.eye(d)
            values = np.linalg.eigvalsh(H)
            inside = bounds.rho_min <= values[0] and values[-1] <= bounds.rho_max
            failed += not (inside and h @ np.linalg.solve(H, h) <= bounds.gamma**2)
    return failed / seeds / settings.rounds


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_bounds_of_propositions_9_and_11_hold(name, calibration):
    """Rounds of one run are dependent: a run fails if any of its rounds does, with probability at most alpha / 2."""
    settings = made(name, 5, 63, calibration=calibration, failure_probability=0.1)
    share, seeds = violations(settings, 40), 40
    most = binom.ppf(1 - FALSE_ALARM, seeds, 0.05)
    assert share * seeds * 63 <= most  # more failing rounds than that would need more failing runs
    assert violations(settings, 5, stretch=8.0 if name == GAUSSIAN else 1.5) > 0.2
    if name != GAUSSIAN:
        assert violations(settings, 5, keep_resting=False) > 0.2  # fewer than m nodes: Prop. 9 needs them all


def test_memory_does_not_grow_with_the_rounds():
    sizes = [sum(leaf.nbytes for leaf in started(made(GAUSSIAN, 5, n))) for n in (2**10, 2**20, 2**40)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])  # one row of `above` per doubling
    assert sizes[2] < 20_000


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_refuses_bad_settings(name):
    for option, value in (
        *(("epsilon", v) for v in (0, -1, math.nan, math.inf, "1", True)),
        *(("delta", v) for v in (0, 1, -0.1, math.nan)),
        *(("failure_probability", v) for v in (0, 1, 2, math.nan)),
        *(("rho_min", v) for v in (0, -1, math.nan)),
        *(("subgaussian", v) for v in (-1, math.nan)),
        ("parameter_bound", -1),
        ("calibration", "exact"),
        *(("dimension", v) for v in (0, 2.0, None)),
        *(("rounds", v) for v in (0, -1, 1e3, 2**60)),
    ):
        with pytest.raises(InputError, match=rf"^Expected {option}(=| to be given)"):
            made(name, **{option: value})
    with pytest.raises(InputError, match=r"^Expected source="):
        Policy(made(name), seed=None, source=Secure())


def test_refuses_what_its_variant_cannot_do():
    with pytest.raises(InputError, match=r"^Expected rho_min=5 to be None"):
        made(UNSHIFTED, rho_min=5)
    with pytest.raises(InputError, match=r"^Expected epsilon=5.0 to need more noise"):
        made(UNSHIFTED, 1, 2, epsilon=5.0, delta=0.1, calibration="tight", failure_probability=1e-9)
    with pytest.raises(InputError, match=r"^Expected option='release' in"):
        made(WISHART, release="batched")
    for option, value in (("release", "never"), ("noise", "none"), ("batch_size", 0), ("batch_size", 61)):
        with pytest.raises(InputError, match=rf"^Expected {option}(=| to be given)"):
            made(GAUSSIAN, **{"release": "batched", option: value})


def test_one_round_and_one_dimension_work():
    for name in (*NAMES, "oful"):
        policy = Policy(made(name, np.int64(1), np.int64(1)), seed=0, source=None)
        policy.learn(policy.decide([[1.0], [-1.0]]), 1.0)
        policy.advance()
        *arrays, scalars, _ = policy.state
        assert all(np.isfinite(leaf).all() for leaf in (*arrays, *scalars[0]))
    assert dataclasses.replace(made("oful"), failure_probability=0.3).alpha == 0.3
