"""The noise-aware policies against their derivation written out densely, and what one reward can move in their releases."""

import dataclasses
import math

import numba
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import chi2

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import normal
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.runtime.policy import Policy

FALSE_ALARM = 1e-6
KINDS = ["noise-aware-ts", "noise-aware-ucb", "noise-aware-greedy"]
ITEMS = ((0.9, 0.1, 0.0), (-0.5, 0.2, 0.1), (0.3, -0.1, 0.2), (0.0, 0.3, -0.4), (0.7, 0.0, 0.1))
every_kind = pytest.mark.parametrize("name", KINDS)


def settings(name="noise-aware-greedy", **options):
    return policies.settings(name, {"dimension": 3, "rounds": 90, "batch_size": 8, **options})


def made(name="noise-aware-greedy", *, seed=0, reward_window=0, **options):
    source = None if seed is not None else Secure()
    return Policy(settings(name, **options), seed=seed, source=source, reward_window=reward_window)


def offers(rounds, seed=0, most=6):
    """Candidates, each round another number of them, some too long, and rewards."""
    rng = np.random.default_rng([seed, 77])
    candidates = [0.5 * rng.standard_normal((rng.integers(1, most + 1), 3)) for _ in range(rounds)]
    return candidates, rng.uniform(size=rounds)


def fixed(rounds, seed=0):
    """One unit vector for each round, so that rewards change no action."""
    x = np.random.default_rng([seed, 78]).standard_normal((rounds, 1, 3))
    return x / np.linalg.norm(x, axis=2, keepdims=True)


def play(policy, candidates, rewards, *, count_last=True):
    """Decide and learn, round after round; the last one is counted too, or waits for the next decision."""
    actions = []
    for offered, reward in zip(candidates, rewards, strict=True):
        decision = policy.decide(offered)
        policy.learn(decision, float(reward))
        actions.append(decision.action)
    if count_last:
        policy.advance()
    return actions


def learner(policy):
    """The learner's state, whichever noise there is."""
    return policy.state if policy.source is not None else policy.state.learner


def leaves(state, name=""):
    """The arrays of a state by their names; of records, every number."""
    if isinstance(state, tuple):
        return {
            k: v
            for field, part in zip(state._fields, state, strict=True)
            for k, v in leaves(part, f"{name}.{field}").items()
        }
    return {f"{name}.{field}": state[field] for field in state.dtype.names} if state.dtype.names else {name: state}


def posterior(policy):
    """Its mean, and the covariance that choices explore by ."""
    state = learner(policy)
    root = state.root
    assert root.shape == (len(state.mean), len(state.mean))
    return state.mean, root @ root.T


def same(one, other, rtol=0.0):
    """Two policies remember the same."""
    mine, its = leaves(one.state), leaves(other.state)
    assert mine.keys() == its.keys()
    for field, leaf in mine.items():
        np.testing.assert_allclose(leaf, its[field], rtol=rtol, atol=rtol, err_msg=field)
    assert (one.round, one.version, one.decided, one.clipped) == (other.round, other.version, other.decided, other.clipped)
    assert np.array_equal(one._engine.rng, other._engine.rng)


@numba.njit
def _normals(words, out):
    for i in range(len(out)):
        out[i] = normal(words, 0)


# --- the derivation, written out ------------------------------------------------------------------------------------


class Literal:
    """All events kept, all matrices dense, one inverse for every posterior; only C is taken from the settings."""

    def __init__(self, settings, noise, words):
        s = self.settings = settings
        self.d, self.bias = s.dimension, s.intercept > 0
        self.ridge = 4 * s.dimension if s.ridge is None else s.ridge
        self.prior = np.diag([self.ridge] * self.d + [1 / 0.1**2] * self.bias)
        self.bounds = [s.horizon or s.rounds]
        while self.bounds[-1] < s.rounds:
            self.bounds.append(2 * self.bounds[-1])
        self.ends, size = [], s.batch_size
        while sum(self.ends[-1:]) + math.floor(size) <= self.bounds[-1]:
            self.ends.append(sum(self.ends[-1:]) + math.floor(size))
            size *= s.growth if self.ends[-1] <= self.bounds[0] else max(s.growth, 1.1)
        matrices = [epoch.strategy.matrix() for epoch in s.epochs]
        self.C = block_diag(*(C / np.linalg.norm(C, axis=0).max() for C in matrices))
        self.sigma = privacy.gaussian_sigma(s.epsilon, s.delta)
        whole = np.diag([1 / (1 - s.intercept**2)] * self.d + [s.intercept**-2 for _ in range(self.bias)])
        self.W = whole if s.catalogue is None else s.shape.covariance
        self.noise, self.events, self.whole, self.rows, self.priors = noise, [], [], [], set()
        self.mean, self.cov = np.zeros(len(self.prior)), np.linalg.inv(self.prior)
        self.scale, self.fade = getattr(s, "v", getattr(s, "alpha", 0.0)), getattr(s, "fading", 0.0)
        self.width = max(0.5, self.scale) if self.scale else 0.0
        self.normals = np.empty(2000 * len(self.prior))
        _normals(words.copy(), self.normals)

    def choose(self, candidates, root):
        """``root`` is the compiled policy's square root of the covariance, checked to be one: it is not unique."""
        x = candidates / np.maximum(1, np.linalg.norm(candidates, axis=1, keepdims=True))
        e = np.hstack([x, np.ones((len(x), 1))]) if self.bias else x
        if self.settings.name == "noise-aware-ts":
            z, self.normals = np.split(self.normals, [len(self.prior)])
            return int(np.argmax(x @ (self.mean + self.width * root[:, : len(z)] @ z)[: self.d])), e
        spread = np.sqrt(np.einsum("ai,ij,aj->a", e, self.cov, e))
        return int(np.argmax(e @ self.mean + (self.width * spread if self.settings.name == "noise-aware-ucb" else 0))), e

    def learn(self, e, reward):
        if self.settings.name == "noise-aware-ucb":  # the batch's rewards are foreseen, unclipped
            self.cov = np.linalg.inv(np.linalg.inv(self.cov) + np.outer(e, e) / self.settings.reward_variance)
        whole = e
        if self.settings.catalogue is not None:
            e = e / max(1, math.sqrt(e @ np.linalg.inv(self.W) @ e))
        self.events.append((len(self.rows), e, reward - self.settings.centre))
        self.whole.append(whole)
        if len(self.rows) < len(self.ends) and len(self.events) == self.ends[len(self.rows)]:
            self.release()
            return True
        return False

    def weights(self, k):
        """Cov(y)^-1 Cov(y, theta_k) for the first k + 1 rows, and the correlation of each theta with theta_k."""
        ends = np.array(self.ends[: k + 1], float)
        g = np.diff(ends, prepend=0) / self.d
        memory = math.inf if self.settings.memory is None else self.settings.memory
        R = np.exp(-np.abs(ends[:, None] - ends) / memory)
        C, v = self.C[: k + 1, : k + 1], self.settings.reward_variance
        rows = C @ (np.outer(g, g) * R / self.ridge + v * np.diag(g)) @ C.T + self.sigma**2 * np.eye(k + 1)
        return np.linalg.solve(rows, C @ (g * R[k]) / self.ridge), g, R

    def release(self):
        k, v = len(self.rows), self.settings.reward_variance
        sums = [sum((r * e for j, e, r in self.events if j == batch), np.zeros_like(self.mean)) for batch in range(k + 1)]
        self.rows.append(self.C[k, : k + 1] @ sums + self.noise[k])
        w, g, R = self.weights(k)
        a = self.C[: k + 1, : k + 1].T @ w
        G = [sum(np.outer(e, e) for j, e, _ in self.events if j == batch) for batch in range(k + 1)]
        pairs = zip(self.events, self.whole, strict=True)  # the mean reward is theta'e, e as it was before clipping
        H = sum(a[j] * R[k, j] * np.outer(e, whole) for (j, e, _), whole in pairs)
        M = v * sum(a[j] ** 2 * G[j] for j in range(k + 1)) + (w @ w) * self.sigma**2 * self.W
        change = (a * g) @ (R - np.outer(R[k], R[k])) @ (a * g) / self.ridge
        M += change / ((a * R[k]) @ g) ** 2 * H @ H.T
        statistic = w @ self.rows
        prior = self.fitted(statistic, H, M) if self.settings.adapt_ridge and self.settings.memory is None else self.prior
        self.priors.add(prior[0, 0])
        self.cov = np.linalg.inv(prior + H.T @ np.linalg.inv(M) @ H)
        self.mean = self.cov @ H.T @ np.linalg.solve(M, statistic)
        last = next(bound for bound in self.bounds if bound >= self.ends[k])
        self.width = min(self.scale * (last / self.ends[k]) ** self.fade, max(0.5, self.scale))

    def fitted(self, statistic, H, M):
        """The prior under which the statistic is likeliest, k halvings or doublings costing k^2 / 2."""
        best = (-math.inf, self.prior)
        for half_doublings in range(-8, 1):
            factor = 2 ** (half_doublings / 2)
            prior = self.prior * np.diag([factor] * self.d + [1.0] * self.bias)
            total = H @ np.linalg.inv(prior) @ H.T + M
            fit = -np.linalg.slogdet(total)[1] / 2 - statistic @ np.linalg.solve(total, statistic) / 2
            best = max(best, (fit - math.log2(factor) ** 2 / 2, prior), key=lambda pair: pair[0])
        return best[1]


CASES = {
    "defaults": {},
    "no intercept": {"intercept": 0.0, "epsilon": 20.0, "ridge": 90.0},
    "fixed ridge": {"adapt_ridge": False, "ridge": 2.0, "centre": 0.2, "reward_variance": 0.1},
    "catalogue": {"catalogue": ITEMS, "epsilon": 3.0},
    "catalogue, no intercept": {"catalogue": ITEMS, "intercept": 0.0, "adapt_ridge": False},
    "epochs": {"horizon": 30, "growth": 1.0, "batch_size": 7, "epsilon": 5.0},
    "memory": {"memory": 40.0, "epsilon": 5.0, "noise": "sqrt"},
    "memory, epochs": {"memory": 25.0, "horizon": 40, "intercept": 0.0, "adapt_ridge": False},
    "every round": {"batch_size": 1, "growth": 1.2, "epsilon": 20.0, "noise": "independent", "ridge": 200.0},
}


@every_kind
@pytest.mark.parametrize("case", CASES)
def test_every_action_and_posterior_is_the_derivations(name, case):
    options = CASES[case]
    wider = {"noise-aware-ts": {"v": 0.3, "fading": 0.7}, "noise-aware-ucb": {"alpha": 1.5}}.get(name, {})
    policy = made(name, seed=5, **options, **wider)
    literal = Literal(policy.settings, policy.state.book.noise, policy._engine.rng)
    assert policy.settings.ends.tolist() == literal.ends
    candidates, chances = offers(90)
    releases = 0
    for offered, chance in zip(candidates, chances, strict=True):
        expected, events = literal.choose(offered, policy.state.learner.root)
        decision = policy.decide(offered)
        assert decision.action == expected
        reward = float(chance < 0.5 + decision.features @ (0.6, -0.4, 0.1))
        policy.learn(decision, reward)
        releases += literal.learn(events[expected], reward)
        policy.advance()
        mean, covariance = posterior(policy)
        np.testing.assert_allclose(covariance, literal.cov, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(mean, literal.mean, rtol=1e-8, atol=1e-10)
        assert policy.state.learner.scalars[0]["width"] == pytest.approx(literal.width, rel=1e-12)
    assert releases == policy.version == np.sum(np.array(literal.ends) <= 90)
    np.testing.assert_allclose(policy.state.learner.rows[:releases], literal.rows, rtol=1e-10, atol=1e-10)
    if case in ("no intercept", "every round"):
        assert len(literal.priors) > 1  # the ridge did adapt


@every_kind
@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_without_noise_the_posterior_is_ridge_regression(name, intercept):
    """At epsilon 10^9 the noise has a standard deviation of 2e-5; then nothing but the prior stands beside the rewards."""
    options = {"epsilon": 1e9, "batch_size": 1, "growth": 1.0, "rounds": 40, "adapt_ridge": False, "centre": 0.4}
    policy = made(name, intercept=intercept, **options)
    assert policy.settings.noise_multiplier < 1e-4
    candidates, rewards = offers(40, seed=1)
    prior = np.diag([12.0] * 3 + [1 / 0.1**2] * (intercept > 0))
    events = []
    for t in range(40):
        decision = policy.decide(candidates[t])
        policy.learn(decision, rewards[t])
        policy.advance()
        events.append(np.append(decision.features, [1.0] * (intercept > 0)))
        X = np.array(events)
        ridge = np.linalg.solve(prior + X.T @ X / 0.25, X.T @ (rewards[: t + 1] - 0.4) / 0.25)
        np.testing.assert_allclose(posterior(policy)[0], ridge, atol=1e-4)
    assert np.abs(ridge).max() > 0.01


@pytest.mark.parametrize(
    "options",
    [{}, {"intercept": 0.3}, {"catalogue": ITEMS}, {"horizon": 20}, {"memory": 40.0}],
    ids=["plain", "intercept", "catalogue", "epochs", "memory"],
)
def test_the_posterior_is_as_wide_as_its_errors(options):
    """theta drawn from the prior, 400 times: errors by their stated covariance are chi-square; power at 3/2 and 2/3.

    The prior's and the rewards' tails are cut off by [0, 1] in one case in a hundred, which the test cannot see. With a
    memory theta moves between batches, as the model has it.
    """
    common = {"rounds": 60, "epsilon": 20.0, "ridge": 400.0, "reward_variance": 0.01, "adapt_ridge": False}
    plan = settings(**{"intercept": 0.0, **common, **options})
    features, rng = np.array(ITEMS * 12)[:, None, :] if plan.catalogue else fixed(60), np.random.default_rng(12)
    deviations = np.array([400**-0.5] * 3 + [0.1] * (plan.intercept > 0))
    squares = 0.0
    for seed in range(400):
        truth, means = deviations * rng.standard_normal(len(deviations)), np.empty(60)
        for start, end in zip([0, *plan.ends], [*plan.ends[plan.ends <= 60], 60], strict=False):
            kept = math.exp(-(end - start) / plan.memory) if plan.memory and start and end in plan.ends else 1.0
            truth = kept * truth + math.sqrt(1 - kept**2) * deviations * rng.standard_normal(len(deviations))
            means[start:end] = 0.5 + features[start:end, 0] @ truth[:3] + truth[3:].sum()
        policy = Policy(plan, seed=seed, source=None)
        play(policy, features, np.clip(means + rng.choice([-0.1, 0.1], 60), 0, 1))
        mean, covariance = posterior(policy)
        squares += (mean - truth) @ np.linalg.solve(covariance, mean - truth)
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 400 * len(deviations))
    assert low < squares < high
    assert not low < squares * 1.5 < high
    assert not low < squares / 1.5 < high
    assert policy.version >= 5


# --- neighbouring streams -------------------------------------------------------------------------------------------


@every_kind
def test_rewards_are_unseen_until_their_batch_is_released(name):
    candidates, rewards = offers(90, seed=2)
    one, other = made(name), made(name)
    for t in range(16):  # the last round of the second batch
        assert play(one, candidates[t : t + 1], rewards[t : t + 1]) == play(
            other, candidates[t : t + 1], rewards[t : t + 1] if t < 8 else 1 - rewards[t : t + 1]
        )
        for field in one.state.learner._fields:
            seen = np.array_equal(getattr(one.state.learner, field), getattr(other.state.learner, field))
            assert seen or (t == 15 and field in ("root", "coordinates", "mean", "rotated", "rows"))
        assert np.array_equal(one.state.book.sums, other.state.book.sums) == (t < 8)
        assert np.array_equal(one.state.book.released, other.state.book.released) == (t < 15)
    assert not np.array_equal(one.state.learner.mean, other.state.learner.mean)


RELEASES = {
    "defaults": {},
    "no intercept": {"intercept": 0.0},
    "epochs": {"horizon": 20},
    "memory": {"memory": 15.0},
    "independent": {"noise": "independent", "growth": 1.0},
    "catalogue": {"catalogue": ITEMS},
    "catalogue, epochs": {"catalogue": ITEMS, "horizon": 20, "intercept": 0.0},
}


@pytest.mark.parametrize("inside", [False, True], ids=["unit features", "items"])
@pytest.mark.parametrize("case", RELEASES)
def test_one_reward_moves_the_releases_by_mu_at_most(case, inside):
    """Whichever reward is turned from 0 to 1: by its column of C times its event, no longer than 1 / noise multiplier."""
    options = {"rounds": 50, "batch_size": 5, "epsilon": 0.7, **RELEASES[case]}
    plan = settings(**options)
    mu = privacy.gdp_mu(0.7, 1e-5)
    features = np.array(ITEMS * 10)[:, None, :] if inside else fixed(50)
    rewards = np.random.default_rng(4).integers(0, 2, 50).astype(float)

    def rows(stream):
        policy = made(seed=9, **options)
        play(policy, features, stream)
        return policy.state.learner.rows.copy()

    C = block_diag(*(epoch.strategy.matrix() / epoch.strategy.sensitivity() for epoch in plan.epochs))
    W, D = plan.shape.covariance, plan.shape.dimension
    covariance = plan.noise_multiplier**2 * W
    np.testing.assert_allclose(plan.learner().row_covariance, covariance, rtol=1e-12)
    reached = []
    for t in range(50):
        low, high = rewards.copy(), rewards.copy()
        low[t], high[t] = 0.0, 1.0
        shift = rows(high) - rows(low)
        batch = int(np.searchsorted(plan.ends, t, side="right"))
        e = np.append(features[t, 0], [1.0] * (D - 3))
        if plan.catalogue is not None:
            e = e / max(1, math.sqrt(e @ np.linalg.solve(W, e)))
        column = C[:, batch] if batch < len(plan.ends) and plan.ends[batch] <= 50 else np.zeros(len(C))
        column = np.where(plan.ends <= 50, column, 0)  # what is planned after the last round was not released
        np.testing.assert_allclose(shift, np.outer(column, e), atol=1e-11)
        reached.append(math.sqrt(np.einsum("ki,ij,kj->", shift, np.linalg.inv(covariance), shift)))
    assert max(reached) <= mu * (1 + 1e-9)
    assert max(reached) >= mu * (1 - 1e-4) or (inside and plan.catalogue is None)  # items are shorter than 1
    if not inside:  # every reward is protected alike, wherever it is released in full
        whole = np.array(reached)[: plan.ends[plan.ends <= plan.boundaries[0]][-1]]
        np.testing.assert_allclose(whole, mu, rtol=1e-4)


@pytest.mark.parametrize("case", ["defaults", "catalogue", "epochs"])
def test_with_exact_noise_too(case, monkeypatch):
    """The noise taken away and its scale recorded: the same, on the grid, in the coordinates where the noise is round."""
    scales = []

    def silent(self, rows, scale):
        scales.append(np.unique(scale).item())
        return np.asarray(rows / 2**NOISE_BITS, dtype=float)

    monkeypatch.setattr(Secure, "gaussian", silent)
    options = {"rounds": 30, "batch_size": 5, "epsilon": 0.7, **RELEASES[case]}
    features = fixed(30, seed=2)

    def rows(stream):
        scales.clear()
        policy = made(seed=None, **options)
        play(policy, features, stream)
        released = np.array([epoch.strategy.sensitivity() for epoch in policy.settings.epochs for _ in range(*epoch[:2])])
        rows = np.linalg.solve(policy.settings.shape.root, (released[:, None] * policy.state.rows).T).T
        return rows[: len(scales)] / np.array(scales)[:, None]

    base = np.random.default_rng(4).uniform(size=30)
    mu, reached = privacy.gdp_mu(0.7, 1e-5), []
    for t in range(0, 30, 3):
        low, high = base.copy(), base.copy()
        low[t], high[t] = 0.0, 1.0
        reached.append(np.linalg.norm(rows(high) - rows(low)))
    assert max(reached) <= mu * (1 + 1e-9)
    assert max(reached) >= mu * (1 - 1e-4)


@pytest.mark.parametrize("case", ["defaults", "catalogue, epochs", "memory"])
def test_the_noise_of_the_releases_has_the_stated_covariance(case):
    """Over 2000 tables: whitened, every coordinate of every row has variance 1, and no two are correlated."""
    plan = settings(**{"rounds": 50, "batch_size": 9, "growth": 1.5, "epsilon": 0.7, **RELEASES[case]})
    tables = plan.noise_tables(range(2000))
    runs, batches, D = tables.shape
    assert batches == len(plan.ends)
    np.testing.assert_array_equal(tables[17], plan.noise_tables([17])[0])

    def refused(covariance):
        white = np.linalg.solve(np.linalg.cholesky(covariance), tables.reshape(-1, D).T).T.reshape(runs, batches * D)
        squares, count = (white**2).sum(axis=0), batches * D
        low, high = chi2.ppf([FALSE_ALARM / 6 / count, 1 - FALSE_ALARM / 6 / count], runs)
        pairs = np.corrcoef(white.T)[np.triu_indices(count, 1)]
        return not (low < squares.min() and squares.max() < high) or (
            runs * (pairs**2).sum() > chi2.isf(FALSE_ALARM / 3, len(pairs))
        )

    stated = privacy.gaussian_sigma(0.7, 1e-5) ** 2 * plan.shape.covariance
    assert not refused(stated)
    assert refused(1.2**2 * stated)
    assert refused(stated / 1.2**2)
    if plan.catalogue is not None:
        assert refused(np.eye(D) * np.trace(stated) / D)


@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_every_item_of_the_catalogue_lies_in_the_ellipsoid(intercept):
    rng = np.random.default_rng(6)
    flat = np.array([[0.5, 0.1, 0.0], [0.2, 0.9, 0.0]])  # no item points along the third axis
    for items in (np.array(ITEMS), flat, rng.standard_normal((200, 3)) * [1, 0.1, 0.01], 5 * np.eye(3)):
        plan = settings(catalogue=items, intercept=intercept)
        playable = items / np.maximum(1, np.linalg.norm(items, axis=1, keepdims=True))
        events = np.hstack([playable, np.ones((len(items), 1))]) if intercept else playable
        squares = np.array([np.sum(plan.shape.whiten(event) ** 2) for event in events])
        np.testing.assert_allclose(plan.shape.covariance, plan.shape.root @ plan.shape.root.T)
        assert squares.max() <= 1 + 1e-9
        assert squares.max() >= 1 - 1e-2  # nor is there more noise than needed
        assert plan.plan.participation.conditions[-1] == "catalogue"
        policy = Policy(plan, seed=1, source=None)
        play(policy, *offers(90))
        assert all(np.isfinite(leaf).all() for leaf in leaves(policy.state).values())


# --- the horizon ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"memory": 30.0, "catalogue": ITEMS}, {"noise": "sqrt", "growth": 1.0}], ids=str)
def test_planning_further_leaves_the_first_rounds_as_they_were(options):
    plan = settings("noise-aware-ts", rounds=40, **options)
    for _ in range(3):
        longer = plan.extended()
        count = len(plan.ends)
        assert longer.planned == 2 * plan.planned
        assert longer.ends[:count].tolist() == plan.ends.tolist()
        assert longer.ends[count:].min(initial=999) > plan.planned
        for field, table in plan.tables._asdict().items():
            kept = getattr(longer.tables, field)[tuple(slice(length) for length in table.shape)]
            np.testing.assert_allclose(kept, table, rtol=1e-11, atol=1e-13, err_msg=field)
        np.testing.assert_allclose(longer.plan.encoder()[:count, :count], plan.plan.encoder(), rtol=1e-11, atol=1e-13)
        assert not longer.plan.encoder()[count:, :count].any()  # a mechanism of its own
        np.testing.assert_allclose(longer.noise_tables([3])[0][:count], plan.noise_tables([3])[0], rtol=1e-13)
        np.testing.assert_array_equal(longer.learner().widths[:count], plan.learner().widths)
        assert longer.guarantee() == plan.guarantee()
        plan = longer


@every_kind
@pytest.mark.parametrize("options", [{"epsilon": 5.0}, {"catalogue": ITEMS, "growth": 1.0, "memory": 50.0}], ids=str)
def test_going_on_after_the_plan_is_planning_by_doubling(name, options, tmp_path):
    """40 rounds planned and 200 played, saved and loaded on the way: as if planned for 200 with a horizon of 40."""
    candidates, rewards = offers(200, seed=3)
    policy, planned = made(name, rounds=40, **options), made(name, rounds=200, horizon=40, **options)
    promised = policy.guarantee
    for t in range(200):
        if t in (13, 39, 40, 41, 80, 130):  # around the ends of the plan, too
            policy.save(tmp_path / "policy.npz")
            policy = adaprivate.load(tmp_path / "policy.npz")
        decision = policy.decide(candidates[t])
        if t in (17, 40, 160):  # with the decision open
            policy.save(tmp_path / "policy.npz")
            policy = adaprivate.load(tmp_path / "policy.npz")
        policy.learn(decision, rewards[t])
        assert decision.action == play(planned, candidates[t : t + 1], rewards[t : t + 1])[0]
    policy.advance()
    same(policy, planned, rtol=1e-10)
    assert policy.version == np.sum(planned.settings.ends <= 200) > np.sum(planned.settings.ends <= 40) + 2
    assert policy.guarantee == promised
    assert policy.guarantee.epsilon <= options.get("epsilon", 1.0)


@pytest.mark.parametrize(
    ("noise", "reward_window"),
    [("informative", 0), ("informative", 3), ("sqrt", 0), ("banded", 3), ("blt", 0), ("optimal", 3), ("independent", 0)],
)
def test_exact_noise_goes_on_after_the_plan(monkeypatch, tmp_path, noise, reward_window):
    """Without the noise the rows are C times the sums, in every epoch, whatever was saved on the way."""
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))
    candidates, rewards = offers(170, seed=4)
    policy = made(seed=None, rounds=40, noise=noise, reward_window=reward_window)
    promised, versions = policy.guarantee, []
    sums, batch_of = np.zeros((99, 4)), []
    for t in range(170):
        decision = policy.decide(candidates[t])
        policy.learn(decision, rewards[t])
        batch_of.append((decision, rewards[t]))
        versions.append(policy.version)
        if t in (20, 39, 40, 43, 44, 80, 120):
            policy.save(tmp_path / "policy.npz")
            policy = adaprivate.load(tmp_path / "policy.npz")
    policy.advance()
    plan, state, done = policy.settings, policy.state, policy.version
    for number, (decision, reward) in enumerate(batch_of):
        sums[np.searchsorted(plan.ends, number, side="right")] += (reward - plan.centre) * np.append(decision.features, 1.0)
    assert policy.round == 170 - reward_window  # the last ones may still be rewarded
    assert done == np.sum(plan.ends <= policy.round)
    assert versions[-1] > versions[90] > versions[45] > versions[30] > 0
    C = block_diag(*(epoch.strategy.matrix() / epoch.strategy.sensitivity() for epoch in plan.epochs))
    np.testing.assert_allclose(state.rows[:done], (C @ sums[: len(plan.ends)])[:done], atol=1e-3)
    assert np.abs(state.rows[:done]).max() > 0.1
    assert policy.guarantee == promised


# --- rewards that come late, or not at all --------------------------------------------------------------------------


@every_kind
def test_rewards_within_the_window_count_alike(name):
    candidates, rewards = offers(90, seed=5)
    prompt, tardy = made(name, reward_window=4), made(name, reward_window=4)
    waiting, rng = {}, np.random.default_rng(6)
    for t in range(90):
        play(prompt, candidates[t : t + 1], rewards[t : t + 1], count_last=False)
        decision = tardy.decide(candidates[t])
        waiting[t + int(rng.integers(0, 5)), t] = decision
        for due, number in sorted(waiting):
            if due == t:
                tardy.learn(waiting.pop((due, number)), rewards[number])
        same(prompt, tardy)
    assert tardy.version > 3


@every_kind
def test_a_window_only_shifts_what_is_counted(name):
    """With one candidate a round, the state at decision t + 4 is what no window gives after t rewards."""
    features, rewards = fixed(90), offers(90)[1]
    shifted, plain = made(name, reward_window=4), made(name)
    for t in range(90):
        decision = shifted.decide(features[t])
        if t >= 5:
            play(plain, features[t - 5 : t - 4], rewards[t - 5 : t - 4])
        mine, its = leaves(plain.state), leaves(shifted.state)
        for field, leaf in mine.items():
            if field not in (".learner.parameter", ".learner.rotated"):  # the last sampled theta, and scratch
                np.testing.assert_array_equal(leaf, its[field], err_msg=field)
        assert shifted.round == plain.round == max(0, t - 4)
        assert shifted.version == plain.version
        shifted.learn(decision, rewards[t])


def test_missing_and_late_rewards_are_the_centre_and_move_no_release():
    candidates, rewards = offers(90, seed=7)
    options = {"reward_window": 2, "centre": 0.3}
    gaps, filled, none, full = (made(seed=8, **options) for _ in range(4))
    late = None
    for t in range(90):
        decision, lost = gaps.decide(candidates[t]), t % 3 == 0
        if late is not None and t % 3 == 0:
            with pytest.raises(
                InputError, match=rf"Expected decision\.round={late.round} to be open: rounds {gaps.round} to {t} are"
            ):
                gaps.learn(late, 1.0)  # three more were made since: too late
        late = decision if lost else late
        if not lost:
            gaps.learn(decision, rewards[t])
        play(filled, candidates[t : t + 1], [0.3 if lost else rewards[t]], count_last=False)
        none.decide(candidates[t])
        play(full, candidates[t : t + 1], rewards[t : t + 1], count_last=False)
        same(gaps, filled)
        assert gaps.version == none.version == full.version == np.sum(gaps.settings.ends <= max(0, t - 2))
    assert not none.state.book.sums.any()
    for one in (none, full):
        for part in one.state:
            assert (part.scalars[0]["round"], part.scalars[0]["batch"]) == (one.round, one.version) == (87, full.version)
    assert np.abs(none.state.learner.designs).max() > 0  # that it was played is public
    unrewarded = made(seed=8, **options)
    for offered in candidates:
        unrewarded.learn(unrewarded.decide(offered), None)
    same(unrewarded, none)


@pytest.mark.parametrize("seed", [2, None], ids=["simulated", "exact"])
def test_learning_what_cannot_be_learned_changes_nothing(kit, seed):
    policy = made(seed=seed, reward_window=2)
    candidates, rewards = offers(12, seed=8)

    def remembered():
        return kit.everything(policy)

    decisions = []
    for offered, reward in zip(candidates, rewards, strict=True):
        decisions.append(policy.decide(offered))
        policy.learn(decisions[-1], reward)
    open_again = policy.decide(candidates[0])
    before = remembered()
    for decision, reward, message in (
        (decisions[11], 0.5, r"Expected decision\.round=11 to be learned once"),
        (decisions[9], 0.5, r"Expected decision\.round=9 to be open: rounds 10 to 12 are"),
        (open_again._replace(round=40), 0.5, r"Expected decision\.round=40 to be open: rounds 10 to 12 are"),
        (None, 0.5, r"^Expected decision=NoneType to be a decision of policy [0-9a-f]{12}, or its token\.$"),
        (
            open_again,
            1.5,
            r"^Expected reward to be a number from 0 to 1, or a bool; it is private and not repeated here\.$",
        ),
        (open_again, math.nan, r"^Expected reward to be a number from 0 to 1"),
        (open_again, "1", r"^Expected reward to be a number from 0 to 1"),
    ):
        with pytest.raises(InputError, match=message):
            policy.learn(decision, reward)
        assert remembered() == before
    for bad in ([[0.1, 0.2]], [[0.1, math.nan, 0.2]], [], [[1e200, 0.0, 0.0]]):
        with pytest.raises(InputError, match="Expected candidates"):
            policy.decide(bad)
        assert remembered() == before
    policy.learn(open_again, 0.5)
    assert remembered() != before
    for window in (-1, 1.5, "2"):
        with pytest.raises(InputError, match=rf"Expected reward_window={window!r}"):
            made(reward_window=window)


@every_kind
def test_open_decisions_and_waiting_rewards_are_saved(name, tmp_path):
    candidates, rewards = offers(60, seed=9)
    whole, kept, late = made(name, reward_window=3, rounds=40), made(name, reward_window=3, rounds=40), []
    for t in range(60):
        for policy in (whole, kept):
            decision = policy.decide(candidates[t])
            if t % 4:
                policy.learn(decision, rewards[t])
            late.append((t + 2, policy, decision.token, rewards[t], decision.round % 4 == 0))
        if t % 7 == 6:
            kept.save(tmp_path / "policy.npz")
            kept = adaprivate.load(tmp_path / "policy.npz")
            assert [e.reward for e in kept._open.values()] == [e.reward for e in whole._open.values()]
            assert kept.open_decision[:4] == whole.open_decision[:4]
        for due, made_by, token, reward, open_still in late:
            if due == t and open_still:
                (whole if made_by is whole else kept).learn(token, reward)
        same(whole, kept)
    assert kept.round == 56
    kept.finish()
    whole.finish()
    same(whole, kept)
    assert kept.round == 60
    assert kept.settings.planned == 80


# --- settings -------------------------------------------------------------------------------------------------------


@every_kind
def test_settings_are_checked(name):
    for options, message in (
        ({"dimension": 0}, r"Expected dimension=0 >= 1"),
        ({"rounds": 0}, r"Expected rounds=0 >= 1"),
        ({"rounds": 10.0}, r"Expected rounds=10\.0 to be a whole number"),
        ({"epsilon": 0}, r"Expected epsilon=0 > 0"),
        ({"delta": 1.0}, r"Expected delta=1\.0 > 0 and < 1"),
        ({"batch_size": 0}, r"Expected batch_size=0 >= 1"),
        ({"batch_size": 91}, r"Expected batch_size=91 <= 90, the rounds planned for"),
        ({"batch_size": 50, "horizon": 40}, r"Expected batch_size=50 <= 40, the rounds planned for"),
        ({"growth": 0.9}, r"Expected growth=0\.9 >= 1"),
        ({"noise": "tree"}, r"Expected noise='tree' in \{"),
        ({"noise": "honaker"}, r"Expected noise='honaker' in \{"),
        ({"centre": 1.5}, r"Expected centre=1\.5 >= 0 and <= 1"),
        ({"intercept": -0.1}, r"Expected intercept=-0\.1 >= 0"),
        ({"intercept": 1.0}, r"Expected intercept=1\.0 == 0, or >= 0\.001 and < 1"),
        ({"ridge": 0.0}, r"Expected ridge=0\.0 >= 1e-09"),
        ({"adapt_ridge": 1}, r"Expected adapt_ridge=1 to be a bool"),
        ({"reward_variance": 0.3}, r"Expected reward_variance=0\.3 > 0 and <= 0\.25"),
        ({"horizon": 0}, r"Expected horizon=0 >= 1"),
        ({"memory": 0}, r"Expected memory=0 > 0"),
        ({"memory": math.inf}, r"Expected memory=inf to be finite"),
        ({"catalogue": ((0.1, 0.2),)}, r"Expected catalogue\.shape=\(1, 2\) == \(\*, 3\)"),
        ({"catalogue": np.zeros((0, 3))}, r"Expected catalogue=\[\] to hold an item other than 0"),
        ({"catalogue": ((0.1, math.nan, 0.0),)}, r"Expected catalogue\[0, 1\]=nan to be finite"),
        ({"rounds": 5000, "batch_size": 1, "growth": 1.0}, r"Expected batches=\d+ <= 2048 \(a larger batch_size"),
    ):
        with pytest.raises(InputError, match=message):
            settings(name, **options)
    own = {"noise-aware-ts": ("v", "fading"), "noise-aware-ucb": ("alpha",)}.get(name, ())
    for argument in own:
        with pytest.raises(InputError, match=rf"Expected {argument}=-1 >= 0"):
            settings(name, **{argument: -1})


def test_an_array_is_a_catalogue_too():
    given, listed = settings(catalogue=np.array(ITEMS)), settings(catalogue=[list(item) for item in ITEMS])
    assert given == listed == settings(catalogue=ITEMS)
    assert given.catalogue == ITEMS
    assert hash(given) == hash(listed)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_the_smallest_plans_run(rounds):
    policy = Policy(policies.settings("noise-aware-greedy", {"dimension": 3, "rounds": rounds}), seed=0, source=None)
    play(policy, *offers(30))
    assert policy.version > 3
    assert all(np.isfinite(leaf).all() for leaf in leaves(policy.state).values())


# --- in production --------------------------------------------------------------------------------------------------


@every_kind
def test_exact_noise_learns_the_parameter(name):
    """600 rounds at epsilon 20: as close as the posterior says (1e-6), and close (the bounds are 7 deviations away)."""
    theta, rng = np.array([0.3, -0.2, 0.1]), np.random.default_rng(11)
    policy = made(name, seed=None, rounds=600, batch_size=None, epsilon=20.0)
    for _ in range(600):
        x = rng.standard_normal((3, 3))
        decision = policy.decide(x / np.linalg.norm(x, axis=1, keepdims=True))
        policy.learn(decision, float(rng.uniform() < 0.5 + theta @ decision.features))
    policy.finish()
    plan, state = policy.settings, policy.state
    assert policy.version == len(plan.ends) == state.scalars[0]["batch"]
    assert state.scalars[0]["round"] == 600
    mean, covariance = posterior(policy)
    error = mean - np.append(theta, 0.0)
    # the prior, its ridge at most 16 x 12, pulls the mean towards 0: at most that much more in the norm of the precision
    bound = math.sqrt(chi2.isf(FALSE_ALARM, 4)) + math.sqrt(16 * 12 * theta @ theta)
    assert error @ np.linalg.solve(covariance, error) < bound**2
    assert np.abs(error[:3]).max() < 0.15
    assert theta @ mean[:3] > 0.09
    names = ("exact-noise", "secret-noise", "reward-range", "feature-norm", "one-batch", "public-schedule")
    assert {privacy.CONDITIONS[one] for one in names} <= set(policy.guarantee.enforced)
    assert not policy.guarantee.simulated
    assert policy.guarantee.epsilon <= 20.0
    assert dataclasses.replace(plan, epsilon=1.0).guarantee(exact_noise=True).epsilon == pytest.approx(1.0, rel=1e-6)
