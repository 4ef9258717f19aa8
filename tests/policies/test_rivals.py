"""The rivals against NumPy written out, action by action; without noise each is its non-private parent."""

import math
import re

import numpy as np
import pytest

from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.runtime.policy import Policy

ROUNDS, D, ARMS = 240, 4, 5


def world(seed, catalogue=0):
    """Candidates of all lengths (or out of a catalogue of fixed arms), and rewards."""
    rng = np.random.default_rng([seed, 55])
    x = rng.standard_normal((catalogue or ROUNDS * ARMS, D))
    x *= rng.uniform(0.3, 1.0, (len(x), 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    x = x[[rng.permutation(catalogue)[:ARMS] for _ in range(ROUNDS)]] if catalogue else x.reshape(ROUNDS, ARMS, D)
    means = 0.5 + 0.5 * x @ np.array([0.6, -0.5, 0.4, -0.3])
    return x, (rng.uniform(size=(ROUNDS, 1)) < means).astype(float)


def made(name, seed, *, silent=False, **options):
    settings = policies.settings(name, {"dimension": D, "rounds": ROUNDS, **options})
    policy = Policy(settings, seed=seed, source=None)
    noise = settings.noise_tables([seed])[0]
    noise = np.zeros_like(noise) if silent else noise
    policy._engine._state = settings.start(noise)
    return policy, noise


def agree(policy, reference, seed, catalogue=0):
    """Both play the same rounds: the same action every time and the same estimate behind it."""
    candidates, rewards = world(seed, catalogue)

    def same_estimate():
        theta = reference.theta
        known = getattr(policy.state, "learner", policy.state)
        np.testing.assert_allclose(known.parameter, theta, rtol=0, atol=1e-8 * (1 + np.abs(theta).max()))

    kinds = set()
    for t in range(ROUNDS):
        decision = policy.decide(candidates[t])
        same_estimate()  # the round before has been counted now
        action = reference.choose(candidates[t])
        assert decision.action == action, f"round {t}"
        policy.learn(decision, float(rewards[t, action]))
        reference.learn(candidates[t, action], rewards[t, action])
        kinds.add(action)
    policy.finish()
    same_estimate()
    assert len(kinds) > 2


def same(one, two, seed):
    """Two policies of the library choose alike all along."""
    candidates, rewards = world(seed)
    for t in range(ROUNDS):
        first, second = one.decide(candidates[t]), two.decide(candidates[t])
        assert first.action == second.action, f"round {t}"
        one.learn(first, float(rewards[t, first.action]))
        two.learn(second, float(rewards[t, second.action]))


def ellipsoid(x, inverse):
    return np.sqrt(np.einsum("ai,ij,aj->a", x, inverse, x))


class Base:
    """LinUCB's statistics and choice."""

    def __init__(self, settings, noise):
        self.s, self.noise, self.k, self.t = settings, noise, 0, 0
        self.A, self.b, self.theta = settings.ridge * np.eye(D), np.zeros(D), np.zeros(D)
        self.bonus_matrix, self.width = self.A, settings.alpha

    def choose(self, x):
        return int(np.argmax(x @ self.theta + self.width * ellipsoid(x, np.linalg.inv(self.bonus_matrix))))

    def learn(self, x, reward):
        self.A = self.A + np.outer(x, x)
        self.b = self.b + (reward - self.s.centre) * x
        self.t += 1
        self.after(x)


class Switching(Base):
    """Specification of AdaC-OFUL and RarelySwitching."""

    def __init__(self, settings, noise):
        super().__init__(settings, noise)
        if getattr(settings, "bonus_rule", "") == "theory":
            self.width = math.sqrt(2 * math.log(1 / settings.confidence)) + math.sqrt(settings.ridge)

    def after(self, x):
        s = self.s
        if np.linalg.det(self.A) <= (1 + s.growth) * np.linalg.det(self.bonus_matrix):
            return
        self.bonus_matrix = self.A
        self.theta = np.linalg.solve(self.A, self.b + self.noise[self.k])
        self.k += 1
        if s.name == "rarely-switching":
            return
        least = np.linalg.eigvalsh(self.A)[0]
        variance = s.noise_multiplier**2 * self.k  # of independent noise
        if s.bonus_rule == "practical":
            self.width = s.alpha + s.kappa * math.sqrt(variance * D / least)
            return
        rare = math.log(s.rounds / s.confidence)
        volume = math.log(np.linalg.det(self.A) / s.ridge**D)
        self.width = math.sqrt(2 * math.log(1 / s.confidence) + volume) + math.sqrt(s.ridge) * s.parameter_norm
        self.width += math.sqrt(variance * (D + 2 * math.sqrt(D * rare) + 2 * rare) / least)


class Episodic(Base):
    """Specification of zCDP-Episodic; ``noise`` rows are those of sensitivity 1."""

    def __init__(self, settings, noise):
        super().__init__(settings, noise)
        self.M, self.started, self.length, self.logdet = self.A, 0, settings.first_episode, np.linalg.slogdet(self.A)[1]

    def after(self, x):
        s = self.s
        self.M = self.M + np.outer(x, x)
        if s.mode == "forget":
            self.bonus_matrix = self.A
        grown = np.linalg.slogdet(self.A)[1] >= self.logdet + math.log(s.trigger) - 1e-12
        if self.t - self.started < self.length or not grown:
            return
        self.theta = np.linalg.solve(self.M, self.b) + self.noise[self.k] / np.linalg.eigvalsh(self.M)[0]
        self.logdet, self.bonus_matrix = np.linalg.slogdet(self.A)[1], self.A
        self.k, self.started, self.length = self.k + 1, self.t, self.length * s.growth
        if s.mode == "forget":
            self.M, self.b = s.ridge * np.eye(D), np.zeros(D)


class Dynamic(Base):
    """Specification of DGS-LinUCB; the tree as a list of (size, noise) merged by equal size."""

    def __init__(self, settings, noise):
        super().__init__(settings, noise)
        self.nodes = []

    def after(self, x):
        self.bonus_matrix = self.A
        s = 1 / self.t if "laplace" in self.s.form else 1 / np.linalg.eigvalsh(self.A)[0]
        fresh = s * self.noise[self.t - 1]
        if self.s.form == "per-round":
            self.nodes = [(1, fresh)]
        else:
            self.nodes.append((1, fresh))
            while len(self.nodes) > 1 and self.nodes[-1][0] == self.nodes[-2][0]:
                self.nodes[-2:] = [(2 * self.nodes[-1][0], fresh)]
        self.theta = np.linalg.solve(self.A, self.b) + sum(noise for _, noise in self.nodes)


class CoreSet(Base):
    """Specification of CoreSet-Elimination for varying candidates."""

    def __init__(self, settings, noise):
        super().__init__(settings, noise)
        self.arms, self.dropped, self.fallbacks = {}, set(), 0

    def choose(self, x):
        for row in x:
            if len(self.arms) < self.s.catalogue:
                self.arms.setdefault(tuple(row), row)
        active = [a for a in range(len(x)) if tuple(x[a]) not in self.dropped]
        if not active:
            self.fallbacks += 1
            return int(np.argmax(x @ self.theta))
        return active[int(np.argmax(ellipsoid(x[active], np.linalg.inv(self.A))))]

    def after(self, x):
        s = self.s
        if self.t not in s.ends:
            return
        inverse = np.linalg.inv(self.A)
        self.theta = inverse @ (self.b + self.noise[self.k])
        live = [key for key in self.arms if key not in self.dropped]
        X = np.array([self.arms[key] for key in live])
        score = X @ self.theta
        width = s.alpha * ellipsoid(X, inverse) + s.kappa * s.noise_multiplier * np.linalg.norm(X @ inverse, axis=1)
        floor = (score - width).max()
        self.dropped |= {key for key, high in zip(live, score + width, strict=True) if high < floor}
        self.A, self.b, self.k = s.ridge * np.eye(D), np.zeros(D), self.k + 1


class Local(Base):
    """Specification of LDP-LinUCB; a row of noise is that of reward x, then of the upper triangle of x x'."""

    def __init__(self, settings, noise):
        super().__init__(settings, noise)
        self.A, self.bonus_matrix = np.zeros((D, D)), np.eye(D)

    def after(self, x):
        s, n, sigma = self.s, self.t, self.s.sigma
        row = self.noise[n - 1]
        W = np.zeros((D, D))
        W[np.triu_indices(D)] = row[D:]
        self.A = self.A + W + np.triu(W, 1).T
        self.b = self.b + row[:D]
        g = sigma * math.sqrt(n) * (4 * math.sqrt(D) + 2 * math.log(2 * s.rounds / s.confidence))
        self.bonus_matrix = self.A + 2 * g * np.eye(D)
        assert np.linalg.eigvalsh(self.bonus_matrix)[0] > g  # no eigenvalue needs raising here
        self.theta = np.linalg.solve(self.bonus_matrix, self.b)
        logT = math.log(s.rounds)
        beta = 2 * sigma * math.sqrt(D * logT) + (math.sqrt(3 * g) + sigma * math.sqrt(D * n / g)) * D * logT
        self.width = s.alpha * beta


CASES = [
    ("adac-oful", Switching, {}),
    ("adac-oful", Switching, {"growth": 0.3, "bonus_rule": "practical", "centre": 0.5, "epsilon": 4.0}),
    ("adac-oful", Switching, {"parameter_norm": 1.0, "confidence": 0.05, "ridge": 2.0, "epsilon": 8.0}),
    ("rarely-switching", Switching, {"alpha": 0.3, "epsilon": 5.0}),
    ("rarely-switching", Switching, {"growth": 10.0, "calibration": "exact"}),
    ("zcdp-episodic", Episodic, {"first_episode": 10}),
    ("zcdp-episodic", Episodic, {"first_episode": 3, "growth": 1.3, "trigger": 4.0, "centre": 0.5, "epsilon": 5.0}),
    ("zcdp-episodic", Episodic, {"first_episode": 10, "mode": "split", "ridge": 0.3}),
    ("zcdp-episodic", Episodic, {"first_episode": 7, "mode": "published-unsound", "epsilon": 6.0}),
    ("dgs-linucb", Dynamic, {"epsilon": 5.0}),
    ("dgs-linucb", Dynamic, {"form": "tree-unsound", "centre": 0.5}),
    ("dgs-linucb", Dynamic, {"form": "laplace-tree-unsound", "alpha": 0.3, "ridge": 0.1}),
    ("coreset-elimination", CoreSet, {"first_phase": 8, "epsilon": 10.0, "alpha": 0.3}),
    ("coreset-elimination", CoreSet, {"first_phase": 20, "calibration": "zcdp", "catalogue": 7, "centre": 0.5}),
    ("ldp-linucb", Local, {"epsilon": 10.0}),
    ("ldp-linucb", Local, {"calibration": "exact", "centre": 0.5, "alpha": 0.01, "epsilon": 50.0}),
]


@pytest.mark.parametrize(("name", "kind", "options"), CASES)
def test_chooses_as_its_specification(name, kind, options):
    policy, noise = made(name, 21, **options)
    reference = kind(policy.settings, noise)
    agree(policy, reference, 21, catalogue=12 if kind is CoreSet else 0)
    if kind in (Switching, Episodic):
        assert 2 < reference.k <= policy.settings.releases


@pytest.mark.parametrize(("name", "kind", "options"), CASES)
def test_without_noise_it_is_the_non_private_algorithm_on_its_schedule(name, kind, options):
    """Zeros for noise on both sides: what is left is the parent with rare updates, episodes, phases or a shifted matrix."""
    policy, noise = made(name, 22, silent=True, **options)
    assert not noise.any()
    agree(policy, kind(policy.settings, noise), 22, catalogue=12 if kind is CoreSet else 0)


EVERY_ROUND = [
    ("adac-oful", {"growth": 0.0, "bonus_rule": "practical", "kappa": 0.0, "ridge": 1.0}),
    ("rarely-switching", {"growth": 0.0}),
    ("zcdp-episodic", {"first_episode": 1, "growth": 1.0, "trigger": 1.0, "mode": "split"}),
    ("dgs-linucb", {}),
    ("dgs-linucb", {"form": "tree-unsound"}),
    ("batched-aggregation", {"batch_size": 1}),
]


@pytest.mark.parametrize(("name", "options"), EVERY_ROUND)
def test_without_noise_and_updating_every_round_it_is_linucb(name, options):
    shared = {"centre": 0.3, "alpha": 0.7}
    policy, noise = made(name, 23, silent=True, **options, **shared)
    same(policy, made("linucb", 23, **shared)[0], 23)
    assert len(noise) == ROUNDS  # it really released that often


def test_elimination_drops_arms_and_keeps_the_best():
    policy, noise = made("coreset-elimination", 24, silent=True, first_phase=8, alpha=0.3, epsilon=1e3)
    reference = CoreSet(policy.settings, noise)
    agree(policy, reference, 24, catalogue=12)
    assert 0 < len(reference.dropped) < 12
    assert reference.fallbacks > 0
    best = max(reference.arms, key=lambda x: np.array(x) @ np.array([0.6, -0.5, 0.4, -0.3]))
    assert best not in reference.dropped


def test_unsplit_aggregation_is_adaprivate_ucb():
    one, noise = made("batched-aggregation", 25, batch_size=10, calibration="zcdp")
    two, other = made("adaprivate-ucb", 25, batch_size=10)
    np.testing.assert_array_equal(noise, other)
    same(one, two, 25)
    split = made("batched-aggregation", 25, batch_size=10)[0].settings
    assert split.noise_multiplier == pytest.approx(math.sqrt(24) * one.settings.noise_multiplier)


def test_local_eigenvalues_below_the_shift_are_raised_to_it():
    policy, noise = made("ldp-linucb", 26, silent=True)
    noise[0, D:] = np.where(np.equal(*np.triu_indices(D)), -1e6, 0.0)  # far beyond what the shift covers
    candidates, _ = world(26)
    policy.learn(policy.decide(candidates[0]), 1.0)
    policy.advance()
    s = policy.settings
    g = s.sigma * (4 * math.sqrt(D) + 2 * math.log(2 * s.rounds / s.confidence))
    root = policy.state.learner.root
    np.testing.assert_allclose(root @ root.T, np.eye(D) / g, rtol=1e-9, atol=1e-15)


REFUSALS = [
    ("adac-oful", {"growth": -1.0}, r"Expected growth=-1\.0 >= 0 and"),
    ("adac-oful", {"bonus_rule": "guess"}, r"Expected bonus_rule='guess' in \{theory, practical\}\."),
    ("adac-oful", {"confidence": 1.0}, r"Expected confidence=1\.0 > 0 and < 1\."),
    ("adac-oful", {"kappa": -0.1}, r"Expected kappa=-0\.1 >= 0\."),
    ("adac-oful", {"parameter_norm": -1}, r"Expected parameter_norm=-1 >= 0\."),
    ("rarely-switching", {"noise": "none"}, r"Expected noise='none' in \{"),
    ("rarely-switching", {"ridge": 0}, r"Expected ridge=0 > 0\."),
    ("zcdp-episodic", {"mode": "seed"}, r"Expected mode='seed' in \{forget, split, published-unsound\}\."),
    ("zcdp-episodic", {"trigger": 0.5}, r"Expected trigger=0\.5 >= 1 and"),
    ("zcdp-episodic", {"first_episode": 0}, r"Expected first_episode=0 >= 1\."),
    ("zcdp-episodic", {"growth": 0.9}, r"Expected growth=0\.9 >= 1 and"),
    ("dgs-linucb", {"form": "tree"}, r"Expected form='tree' in \{per-round, tree-unsound, laplace-tree-unsound\}\."),
    ("dgs-linucb", {"alpha": -1.0}, r"Expected alpha=-1\.0 >= 0\."),
    ("coreset-elimination", {"calibration": "split"}, r"Expected calibration='split' in \{split-zcdp, zcdp, exact\}\."),
    ("coreset-elimination", {"first_phase": 2.0}, r"Expected first_phase=2\.0 to be a whole number\."),
    ("coreset-elimination", {"catalogue": 0}, r"Expected catalogue=0 >= 1\."),
    ("coreset-elimination", {"kappa": -1.0}, r"Expected kappa=-1\.0 >= 0\."),
    ("batched-aggregation", {"calibration": "split"}, r"Expected calibration='split' in \{split-zcdp, zcdp, exact\}\."),
    ("ldp-linucb", {"ridge": 2.0}, r"Expected ridge=2\.0 == 1: the noise decides the shift\."),
    ("ldp-linucb", {"confidence": 0.0}, r"Expected confidence=0\.0 > 0 and < 1\."),
    ("ldp-linucb", {"centre": 1.5}, r"Expected centre=1\.5 >= 0 and <= 1\."),
    ("ldp-linucb", {"epsilon": 0}, r"Expected epsilon=0 > 0\."),
    ("zcdp-episodic", {"growth": 1e308}, r"Expected growth=1e\+308 >= 1 and <= 1e\+06\."),
    ("rarely-switching", {"growth": 5e-324}, r"Expected growth=5e-324 == 0 or >= 1e-06\."),
    ("rarely-switching", {"growth": 1e300}, r"Expected growth=1e\+300 >= 0 and <= 1e\+06\."),
    ("rarely-switching", {"ridge": 1e-320}, r"Expected ridge=1e-320 >= 1e-09 and <= 1e\+09\."),
    *(
        (name, {"epsilon": epsilon}, rf"Expected epsilon={re.escape(str(epsilon))} >= 1e-06 and <= 10000\.")
        for name in (
            *("adac-oful", "coreset-elimination", "dgs-linucb", "ldp-linucb", "rarely-switching", "zcdp-episodic"),
            *("jdp-linucb-gaussian", "jdp-linucb-wishart", "mishra-thakurta-linucb", "mishra-thakurta-lints"),
        )
        for epsilon in (1e300, 1e-200, 1e-308)
    ),
    ("jdp-linucb-wishart", {"epsilon": 1e-5}, r"Expected epsilon=1e-05 >= 0\.0009: smaller losses are not resolved\."),
    *(
        ("jdp-linucb-wishart", {"epsilon": epsilon}, rf"Expected epsilon={epsilon} to need more noise: so few degrees of")
        for epsilon in (400, 9999.0)
    ),
]


@pytest.mark.parametrize(
    "name", [name for name in policies.names() if {"epsilon", "dimension"} <= set(policies.options(name))]
)
def test_the_ends_of_the_range_of_budgets_work_or_are_refused(name):
    """What is built has finite noise and a finite promise."""
    fixed = {"dimension": D, "rounds": 20, **({"batch_size": 10} if "batch_size" in policies.options(name) else {})}
    for epsilon in (1e-6, 1e-3, 1e3, 1e4):
        if ("wishart" in name and epsilon != 1e-3) or (name.startswith("rr-") and epsilon > 30):
            with pytest.raises(InputError, match=rf"^Expected epsilon={epsilon} "):
                policies.settings(name, {**fixed, "epsilon": epsilon})
            continue
        settings = policies.settings(name, {**fixed, "epsilon": epsilon})
        assert math.isfinite(settings.guarantee().epsilon)
        assert np.isfinite(settings.noise_tables([0])).all()
        settings.start(settings.noise_tables([0])[0])


@pytest.mark.parametrize(("name", "options", "message"), REFUSALS)
def test_wrong_settings_are_refused_by_name(name, options, message):
    with pytest.raises(InputError, match=message):
        policies.settings(
            name, {"dimension": D, "rounds": ROUNDS, **({"batch_size": 10} if "batched" in name else {}), **options}
        )


def test_runs_too_short_to_release_anything_still_run():
    candidates, rewards = world(27)
    for name, options in (("zcdp-episodic", {}), ("coreset-elimination", {})):
        settings = policies.settings(name, {"dimension": D, "rounds": 3, **options})
        assert settings.noise_tables([1, 2]).shape == (2, 0, D)
        policy = Policy(settings, seed=1, source=None)
        for t in range(3):
            policy.learn(policy.decide(candidates[t]), float(rewards[t, 0]))
        policy.advance()
        assert not policy.state.parameter.any()
        assert settings.guarantee().epsilon <= settings.epsilon
