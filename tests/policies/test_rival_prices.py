"""What one reward really moves in everything a rival releases, measured on the compiled policies, against its price."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import chi2

from adaprivate import policies, privacy
from adaprivate.runtime.policy import Policy

ROUNDS, D = 60, 3
FALSE_ALARM = 1e-6


def made(name, **options):
    return policies.settings(name, {"dimension": D, "rounds": ROUNDS, **options})


def features(seed):
    """One candidate a round, so that choices are forced and neighbours differ by the reward alone."""
    x = np.random.default_rng([seed, 66]).standard_normal((ROUNDS, 1, D))
    return x / np.linalg.norm(x, axis=2, keepdims=True)


def released(settings, x, rewards, noise, field):
    """This field of the state after every round in which something was released: {round: vector}."""
    policy = Policy(settings, seed=0, source=None)
    policy._engine._state = settings.start(noise)
    value = getattr(getattr(policy.state, "learner", policy.state), field)
    found, before = {}, value.copy()
    for t in range(ROUNDS):
        policy.learn(policy.decide(x[t]), float(rewards[t]))
        policy.advance()
        if (value != before).any():
            found[t + 1] = before = value.copy()
    return found


def neighbours(settings, x, changed, field):
    """What is released, with the same noise, of two streams that differ in one reward: the rounds, and the differences."""
    rewards = np.random.default_rng(9).uniform(0.2, 0.8, ROUNDS)
    rewards[changed] = 1.0
    other = rewards.copy()
    other[changed] = 0.0
    table = settings.noise_tables([0])[0]
    silent = np.zeros_like(table) + 0.001 * np.arange(1, len(table) + 1)[:, None]  # alike in both, so that a release shows
    one, two = (released(settings, x, r, silent, field) for r in (rewards, other))
    assert list(one) == list(two)  # no boundary depends on a reward
    ones = released(settings, x, rewards, silent + 1, field)
    gains = np.array([ones[t][0] - one[t][0] for t in one])  # what the policy multiplies its noise by
    return list(one), np.array([one[t] - two[t] for t in one]), gains


SUMS = [
    ("adac-oful", {}),
    ("rarely-switching", {"growth": 3.0}),
    ("coreset-elimination", {"first_phase": 5}),
    ("batched-aggregation", {"batch_size": 7}),
]


@pytest.mark.parametrize(("name", "options"), SUMS)
@pytest.mark.parametrize("changed", [0, 13, 31])
def test_a_reward_enters_one_release_of_a_sum(name, options, changed):
    """And moves it by the length of its features, at most 1: with noise of 1 / mu that is the price."""
    settings = made(name, **options)
    rounds, moves, _ = neighbours(settings, features(3), changed, "statistic")
    if name != "coreset-elimination":
        moves = np.diff(moves, axis=0, prepend=0)  # running sums: the noise of each release is that of its increment
    sizes = np.linalg.norm(moves, axis=1)
    hit = [t > changed for t in rounds].index(True)
    assert sizes[hit] == pytest.approx(1.0)
    assert np.delete(sizes, hit) == pytest.approx(0.0, abs=1e-12)
    assert settings.plan.price().mu == pytest.approx(1 / settings.noise_multiplier)


ESTIMATES = [
    ("zcdp-episodic", {"first_episode": 5, "growth": 1.2}, 1),
    ("zcdp-episodic", {"first_episode": 5, "growth": 1.2, "mode": "split"}, None),
    ("zcdp-episodic", {"first_episode": 5, "growth": 1.2, "mode": "published-unsound", "trigger": 1.0}, None),
    ("dgs-linucb", {}, None),
]


@pytest.mark.parametrize(("name", "options", "releases"), ESTIMATES)
def test_estimates_released_again_cost_what_they_move(name, options, releases):
    settings = made(name, **options)
    parts = ROUNDS if name == "dgs-linucb" else settings.releases if options.get("mode") == "split" else 1
    std = settings.noise_multiplier * math.sqrt(parts)
    spent = []
    for changed in (0, 13, 37):
        _, moves, gains = neighbours(settings, features(4), changed, "parameter")
        sizes = np.linalg.norm(moves, axis=1) / gains
        assert sizes.max() <= 1 + 1e-9  # the noise covers the worst direction
        assert (sizes > 1e-9).sum() == (releases or len(sizes) - np.argmax(sizes > 1e-9))
        spent.append((sizes**2).sum() / std**2)
    assert max(spent) <= settings.price().mu ** 2 * (1 + 1e-9)
    if settings.unsound:
        assert max(spent) > 1.5 / settings.noise_multiplier**2  # what was stated is really exceeded
        assert settings.guarantee().epsilon > settings.epsilon


def spent_by_a_tree(settings, x, changed):
    """Squares of what a reward moves in each node's noise at sensitivity 1 / least eigenvalue, and l1 moves times t."""
    rounds, moves, _ = neighbours(settings, x, changed, "parameter")
    d = settings.dimension
    theta = {0: np.zeros(d), **dict(zip(rounds, moves, strict=True))}
    squares, weighted, A = 0.0, 0.0, settings.ridge * np.eye(d)
    for t in range(1, ROUNDS + 1):
        A += np.outer(x[t - 1, 0], x[t - 1, 0])
        fresh = theta[t] - theta[t - (t & -t)]  # the difference carries the noise of one node alone
        squares += np.linalg.norm(fresh) ** 2 * np.linalg.eigvalsh(A)[0] ** 2
        weighted += np.abs(fresh).sum() * t
    return squares, weighted


def test_a_tree_over_estimates_spends_more_than_it_states_and_less_than_we_print():
    settings = made("dgs-linucb", form="tree-unsound", ridge=0.5, dimension=2)
    stated, levels = 1 / settings.noise_multiplier, ROUNDS.bit_length()
    # the first reward is alone on its axis until a node of sixteen rounds explores it: its weight falls within that node
    axes = np.eye(2)[[1] + [0] * 31 + [1] * (ROUNDS - 32)][:, None, :]
    for x in (axes, np.concatenate([features(5)[:, :, :2], features(6)[:, :, :2]])[:ROUNDS]):
        for changed in (0, 1, 20):
            squares, weighted = spent_by_a_tree(settings, x, changed)
            assert math.sqrt(squares / levels) * stated <= settings.price().mu
            laplace = dataclasses.replace(settings, form="laplace-tree-unsound")
            assert laplace.epsilon / math.log2(ROUNDS) * weighted <= laplace.price().pure_epsilon
    squares, weighted = spent_by_a_tree(settings, axes, 0)
    mu = math.sqrt(squares / levels) * stated
    assert mu > 4 * stated
    assert privacy.gaussian_epsilon(1 / mu, settings.delta) > 3 * settings.epsilon
    assert weighted / math.log2(ROUNDS) > 2  # times epsilon: what the prototype's Laplace noise gives on one of its axes


def test_the_bound_of_a_tree_by_hand():
    """Six rounds: blocks ending at 3, 5 (one round) and 6 (two) do not hold the first; three levels."""
    settings = made("dgs-linucb", form="tree-unsound", rounds=6, dimension=2)
    assert settings.levels == 3
    assert (settings.price().mu * settings.noise_multiplier) ** 2 == pytest.approx(1 + (4 + 4 + 9) / 3)
    laplace = made("dgs-linucb", form="laplace-tree-unsound", rounds=6, dimension=2, ridge=0.5, epsilon=2.0)
    assert laplace.price().pure_epsilon == pytest.approx(2 * math.sqrt(2) * 21 / 0.5 / math.log2(6))


def test_a_message_moves_by_at_most_three_over_root_two():
    settings = made("ldp-linucb")
    silent = np.zeros_like(settings.noise_tables([0])[0])

    def message(x, reward):
        policy = Policy(settings, seed=0, source=None)
        policy._engine._state = settings.start(silent)
        policy.learn(policy.decide(x[None, :]), reward)
        policy.advance()
        server = policy.state.learner
        return np.concatenate([server.statistic, server.gram[np.triu_indices(D)]])

    rng = np.random.default_rng(6)
    largest = settings.participation.change
    assert largest == pytest.approx(3 / math.sqrt(2))
    for _ in range(300):
        x, y = rng.standard_normal((2, D))
        x, y = x / np.linalg.norm(x), -x / np.linalg.norm(x) + rng.uniform(0, 2) * y
        y /= np.linalg.norm(y)
        assert np.linalg.norm(message(x, float(rng.integers(2))) - message(y, float(rng.integers(2)))) <= largest + 1e-12
    c, s = math.cos(math.pi / 12), math.sin(math.pi / 12)  # 120 degrees apart, off-diagonal entries alike
    worst = message(np.array([c, s, 0.0]), 1.0) - message(np.array([-s, -c, 0.0]), 1.0)
    assert np.linalg.norm(worst) == pytest.approx(largest)


def zcdp(epsilon, delta=1e-5):
    log_term = math.log(1 / delta)
    return 1 / (math.sqrt(2) * (math.sqrt(epsilon + log_term) - math.sqrt(log_term)))  # 1 / sqrt(2 rho), Eq. 2.8


SCALES = [
    ("adac-oful", {"epsilon": 2.0}, zcdp(2.0)),
    ("rarely-switching", {"growth": 0.4}, zcdp(1.0)),
    ("zcdp-episodic", {"first_episode": 2, "growth": 1.0}, zcdp(1.0)),
    ("zcdp-episodic", {"first_episode": 2, "growth": 1.0, "mode": "split"}, math.sqrt(30) * zcdp(1.0)),
    ("zcdp-episodic", {"first_episode": 2, "growth": 1.0, "mode": "published-unsound"}, zcdp(1.0)),
    ("dgs-linucb", {"epsilon": 3.0}, math.sqrt(60) * zcdp(3.0)),
    ("dgs-linucb", {"form": "tree-unsound"}, math.sqrt(6) * zcdp(1.0)),  # nodes of 1, 2, ..., 32 rounds
    ("coreset-elimination", {"first_phase": 1}, math.sqrt(5) * zcdp(1.0)),  # 1 + 2 + 4 + 8 + 16 <= 60
    ("coreset-elimination", {"first_phase": 1, "calibration": "zcdp"}, zcdp(1.0)),
    ("batched-aggregation", {"batch_size": 2}, math.sqrt(30) * zcdp(1.0)),
    ("ldp-linucb", {}, 4 * math.sqrt(2 * math.log(2.5e5))),
    ("ldp-linucb", {"calibration": "exact"}, 3 / math.sqrt(2) * 3.7306),
]


@pytest.mark.parametrize(("name", "options", "sigma"), SCALES)
def test_the_noise_has_the_stated_scale(name, options, sigma):
    settings = made(name, **options)
    table = settings.noise_tables(range(30))
    if name in ("adac-oful", "rarely-switching", "batched-aggregation"):
        table = np.diff(table, axis=1, prepend=0)

    def fits(scale):
        total = (table**2).sum() / scale**2
        return chi2.ppf(FALSE_ALARM / 2, table.size) < total < chi2.ppf(1 - FALSE_ALARM / 2, table.size)

    assert fits(sigma)
    assert not fits(sigma * 2 / 3)
    assert not fits(sigma * 3 / 2)


def test_laplace_nodes_have_the_prototypes_scale():
    table = made("dgs-linucb", form="laplace-tree-unsound", epsilon=1.5).noise_tables(range(30))
    scale = math.log2(ROUNDS) / 1.5
    # |Laplace| is exponential: 2 sum / scale is chi-squared with two degrees a draw
    total = 2 * np.abs(table).sum() / scale
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 2 * table.size)
    assert low < total < high
    assert not low < total * 1.5 < high
    assert not low < total / 1.5 < high


def test_true_epsilons():
    """Fourteen estimates of all history at a stated epsilon of 1 cost 3.2; a division nobody needs protects more."""
    fourteen = made("zcdp-episodic", rounds=14, first_episode=1, growth=1.0, mode="published-unsound")
    assert fourteen.releases == 14
    assert fourteen.guarantee().epsilon == pytest.approx(3.2, abs=0.05)
    assert fourteen.guarantee().nominal_epsilon == 1.0
    for name, options in (("coreset-elimination", {"first_phase": 1}), ("batched-aggregation", {"batch_size": 12})):
        split = made(name, **options)
        assert split.guarantee().epsilon == pytest.approx(privacy.gaussian_epsilon(math.sqrt(5) * zcdp(1.0), 1e-5))
        assert split.guarantee().nominal_epsilon == 1.0
    local = made("ldp-linucb").guarantee()
    assert (local.unit, local.neighbours, local.exact) == ("local", "replace", True)
    assert local.epsilon < 1
    assert not made("ldp-linucb", epsilon=60.0).unsound
    beyond = made("ldp-linucb", epsilon=300.0)  # the classical calibration ends to hold
    assert beyond.unsound
    assert beyond.guarantee().epsilon > 300


@pytest.mark.parametrize("growth", [0.0, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("ridge", [0.01, 0.9])
def test_releases_never_exceed_their_bound(growth, ridge):
    """Features along the axes in turn grow the determinant fastest; the guard is never what stops them."""
    settings = made("rarely-switching", growth=growth, ridge=ridge)
    x = np.eye(D)[np.arange(ROUNDS) % D][:, None, :]
    policy = Policy(settings, seed=0, source=None)
    logdet, at_release, count = 0.0, 0.0, 0
    A = ridge * np.eye(D)
    for t in range(ROUNDS):
        policy.learn(policy.decide(x[t]), 0.5)
        A += np.outer(x[t, 0], x[t, 0])
        logdet = np.linalg.slogdet(A / ridge)[1]
        if logdet > at_release + math.log1p(growth) + 1e-12:
            at_release, count = logdet, count + 1
    policy.advance()
    assert policy.state.scalars[0]["releases"] == count <= settings.releases
