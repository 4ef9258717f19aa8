"""Every policy on fixed arms against a literal reference, action by action; and the samplers they share."""

import math

import numpy as np
import pytest
from scipy import stats

from adaprivate import environments, policies
from adaprivate.compiled import normal, streams, uniform
from adaprivate.policies.arms.base import beta
from adaprivate.policies.arms.lazy import kl_upper
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import run_all

FALSE_ALARM = 1e-6
SEED = 11


class Reference:
    """A published algorithm as printed: choose() an arm, learn() its reward; the same random numbers as the policy."""

    def __init__(self, settings):
        self.s, self.N, self.t = settings, settings.dimension, 0  # t: rounds played
        self.rng = streams(SEED, 3, 4)
        self.noise = settings.noise_tables([SEED])[0]
        self.n = [0] * self.N
        self.sums = [0.0] * self.N
        self.begin()

    def begin(self):
        pass

    def normal(self):
        return normal(self.rng, 0)

    def binary(self, reward):
        return float(uniform(self.rng, 1) < reward) if 0 < reward < 1 else reward

    def learn(self, arm, reward):
        self.n[arm] += 1
        self.sums[arm] += reward
        self.t += 1


class Sampling(Reference):
    """Algorithm 2, and the filter when there is a limit."""

    def begin(self):
        self.spent, self.only = [0.0] * self.N, None

    def choose(self):
        b, c = self.s.pair
        if self.t < b * self.N:
            return self.t // b
        if self.only is None and self.s.limit >= 0:
            price = [1 / (c * (n + 1)) if n else 0.0 for n in self.n]
            if max(s + p for s, p in zip(self.spent, price, strict=True)) > self.s.limit:
                self.only = int(np.argmax(self.n))
            else:
                self.spent = [s + p for s, p in zip(self.spent, price, strict=True)]
        if self.only is not None:
            return self.only
        return int(
            np.argmax(
                [s / (n + 1) + math.sqrt(c / (n + 1)) * self.normal() for s, n in zip(self.sums, self.n, strict=True)]
            )
        )


class UCB1(Reference):
    def choose(self):
        if self.t < self.N:
            return self.t
        return int(np.argmax([s / n + math.sqrt(2 * math.log(self.t) / n) for s, n in zip(self.sums, self.n, strict=True)]))


class BetaThompson(Reference):
    def choose(self):
        return int(np.argmax([beta(self.rng, 1 + s, 1 + n - s) for s, n in zip(self.sums, self.n, strict=True)]))

    def learn(self, arm, reward):
        super().learn(arm, self.binary(reward))


class Lazy(Reference):
    """Buffers of 1, 2, 4, ...; the newest alone counts."""

    def begin(self):
        self.mean, self.size, self.buffer, self.k = [0.0] * self.N, [0] * self.N, [[] for _ in range(self.N)], [0] * self.N
        self.held = None

    def index(self, mean, n, log_t):
        return mean + math.sqrt(4 * log_t / n) + 4 * log_t / (self.s.epsilon * n)

    def choose(self):
        if self.t < self.N:
            return self.t
        if self.held is None or not self.s.holds:
            log_t = math.log(self.t + 1)
            self.held = int(np.argmax([self.index(m, n, log_t) for m, n in zip(self.mean, self.size, strict=True)]))
        return self.held

    def full(self, arm):
        return len(self.buffer[arm]) == max(1, 2 * self.size[arm])

    def learn(self, arm, reward):
        self.buffer[arm].append(reward)
        super().learn(arm, reward)
        if self.full(arm):
            self.size[arm] = len(self.buffer[arm])
            self.mean[arm] = (sum(self.buffer[arm]) + self.noise[self.k[arm], arm]) / self.size[arm]
            self.k[arm] += 1
            self.buffer[arm] = []
            self.held = None


class LazyTS(Lazy):
    def index(self, mean, n, log_t):
        raised = min(1, max(0, mean + 3 * log_t / (self.s.epsilon * n)))
        return beta(self.rng, raised * n + 1, (1 - raised) * n + 1)

    def learn(self, arm, reward):
        super().learn(arm, self.binary(reward))


class AdaP(Lazy):
    """Episodes: an arm is held until its pulls have doubled, and its mean is that of the episode."""

    def full(self, arm):
        return len(self.buffer[arm]) == max(1, self.n[arm] - len(self.buffer[arm]))

    def index(self, mean, n, log_t):
        return mean + math.sqrt(3.1 * log_t / (2 * n)) + 3.1 * log_t / (self.s.epsilon * n)


class AdaPKL(AdaP):
    def index(self, mean, n, log_t):
        p = min(1, max(0, mean + 3.1 * log_t / (self.s.epsilon * n)))
        return kl_upper(p, 3.1 * log_t / n)


class AdaC(AdaP):
    def index(self, mean, n, log_t):
        rho = 1 / (2 * self.s.sigma**2)
        return mean + math.sqrt((1 / (2 * n) + 1 / (rho * n * n)) * 3.1 * log_t)


class SuccessiveElimination(Reference):
    def begin(self):
        self.left, self.e = list(range(self.N)), 1
        self.plan()

    def plan(self):
        S, e, T, gap = len(self.left), self.e, self.s.rounds, 2.0**-self.e
        R = max(32 * math.log(8 * S * e * e * T) / gap**2, 8 * math.log(4 * S * e * e * T) / (self.s.epsilon * gap)) + 1
        self.R = math.ceil(R)
        self.rewards = {arm: [] for arm in self.left}
        self.turn = 0

    def choose(self):
        return self.left[self.turn % len(self.left)]

    def learn(self, arm, reward):
        super().learn(arm, reward)
        self.turn += 1
        self.rewards[arm].append(reward)
        if len(self.left) > 1 and all(len(self.rewards[a]) == self.R for a in self.left):
            S, e, T = len(self.left), self.e, self.s.rounds
            mean = {a: (sum(self.rewards[a]) + self.noise[e - 1, a]) / self.R for a in self.left}
            h = math.sqrt(math.log(8 * S * e * e * T) / (2 * self.R))
            c = math.log(4 * S * e * e * T) / (self.R * self.s.epsilon)
            self.left = [a for a in self.left if max(mean.values()) - mean[a] <= 2 * h + 2 * c]
            self.e += 1
            self.plan()


class Tree:
    """A running sum whose every dyadic node has noise of its own."""

    def __init__(self):
        self.values, self.nodes = [], {}

    def add(self, value, fresh):
        self.values.append(value)
        n, level = len(self.values), 0
        while n % 2 ** (level + 1) == 0:
            level += 1
        self.nodes[n - 2**level, n] = fresh

    def sum(self):
        noise, end = 0.0, len(self.values)
        while end:
            begin = end - (end & -end)
            noise += self.nodes[begin, end]
            end = begin
        return sum(self.values) + noise


class DPTS(Reference):
    def begin(self):
        self.C, self.r, self.tree = [0.0] * self.N, [-1] * self.N, [Tree() for _ in range(self.N)]

    def choose(self):
        if self.t < self.N:
            return self.t
        theta = []
        for j, n in enumerate(self.n):
            mean = (self.C[j] + self.tree[j].sum()) / n
            raised = mean + 6 * math.sqrt(8) * math.log2(n + 1) * math.log2(self.t + 1) / (self.s.epsilon * n)
            raised = min(1, max(0, raised))
            theta.append(beta(self.rng, raised * n + 1, (1 - raised) * n + 1))
        return int(np.argmax(theta))

    def learn(self, arm, reward):
        reward = self.binary(reward)
        t, scale, tree = self.t, 2 / self.s.epsilon, self.tree[arm]
        super().learn(arm, reward)
        r = self.r[arm]
        if self.n[arm] == 2 ** (r + 2) - 1:
            self.C[arm] += sum(tree.values) + reward + scale * self.noise[self.s.rounds + (r + 1) * self.N + arm, 0]
            self.tree[arm], self.r[arm] = Tree(), r + 1
        else:
            tree.add(reward, scale * (r + 1) * self.noise[t, 0])


class MishraThakurtaUCB(Reference):
    def begin(self):
        self.tree = [Tree() for _ in range(self.N)]

    def choose(self):
        if self.t < self.N:
            return self.t
        T, k, log_t, log_T = self.s.rounds, self.N, math.log(self.t + 1), math.log(self.s.rounds)
        cover = k * log_T**2 * math.log(k * T * log_T / self.s.confidence) / self.s.epsilon
        scores = []
        for n, tree in zip(self.n, self.tree, strict=True):
            r = tree.sum()
            if self.s.bonus == "published":
                scores.append(r / n + math.sqrt(2 * log_t / n) + cover / n)
            else:
                scores.append(max(r, 0) / n + math.sqrt(max(r, 0) * log_t) / n + log_t / n)
        return int(np.argmax(scores))

    def learn(self, arm, reward):
        self.tree[arm].add(reward, self.noise[self.t, 0])
        super().learn(arm, reward)


class MishraThakurtaTS(Reference):
    def begin(self):
        self.tree, self.phase, self.gap, self.looks = [Tree() for _ in range(self.N)], 1, 1.0, 0
        self.queue, self.seen = (
            self.turns(192 * self.N * math.log2(self.s.rounds) / self.s.epsilon),
            [[] for _ in range(self.N)],
        )
        if self.s.warmup == "none":
            self.phase, self.queue = 2, self.turns(1)

    def turns(self, pulls):
        return list(range(self.N)) * math.ceil(pulls)

    def choose(self):
        if self.phase < 3:
            return self.queue[0]
        theta = []
        for tree in self.tree:
            n = len(tree.values)
            r = min(n, max(0, tree.sum()))
            theta.append(beta(self.rng, r + 1, n - r + 1))
        return int(np.argmax(theta))

    def learn(self, arm, reward):
        k, eps, log_T = self.N, self.s.epsilon, math.log2(self.s.rounds)
        if self.phase == 1:
            self.seen[arm].append(reward)
        else:
            levels = int(math.log2(self.s.rounds)) + 1
            self.tree[arm].add(reward, levels * 2 * k / eps * self.noise[self.t, 0])
        super().learn(arm, reward)
        if self.phase == 3:
            return
        self.queue.pop(0)
        if self.queue:
            return
        if self.phase == 2:
            self.phase = 3
            return
        row = self.s.rounds + self.looks * k
        m = len(self.seen[0])
        mean = sorted(sum(x) / m + 2 * k / (eps * m) * self.noise[row + j, 0] for j, x in enumerate(self.seen))
        self.looks, self.seen, self.gap = self.looks + 1, [[] for _ in range(k)], self.gap / 2
        if mean[-1] - mean[-2] > self.gap:
            self.phase, self.queue = 2, self.turns(192 * log_T**3 / eps / self.gap**2)
        else:
            self.queue = self.turns(192 * k * log_T / eps / self.gap**2)


CASES = [
    ("thompson", Sampling, 400, {}),
    ("modified-thompson", Sampling, 400, {"eta": 2.0, "prepulls": 7}),
    ("filtered-thompson", Sampling, 400, {"eta": 1.5, "prepulls": 3, "variance": 2.0}),
    ("filtered-thompson", Sampling, 400, {"eta": 1.5, "prepulls": 0, "variance": 5.0}),
    ("ucb1", UCB1, 400, {}),
    ("beta-thompson", BetaThompson, 400, {}),
    ("anytime-lazy-ucb", Lazy, 400, {"epsilon": 2.0}),
    ("lazy-dp-ts", LazyTS, 400, {"epsilon": 2.0}),
    ("adap-ucb", AdaP, 400, {"epsilon": 2.0}),
    ("adap-klucb", AdaPKL, 400, {"epsilon": 2.0}),
    ("adac-ucb", AdaC, 400, {"epsilon": 2.0}),
    ("dp-se", SuccessiveElimination, 7_000, {"epsilon": 0.2}),
    ("dp-ts", DPTS, 400, {"epsilon": 300.0}),
    ("mishra-thakurta-ucb", MishraThakurtaUCB, 400, {"epsilon": 500.0}),
    ("mishra-thakurta-ucb", MishraThakurtaUCB, 400, {"epsilon": 100.0, "bonus": "experiments"}),
    ("mishra-thakurta-ts", MishraThakurtaTS, 4_000, {"epsilon": 30_000.0}),
    ("mishra-thakurta-ts", MishraThakurtaTS, 400, {"epsilon": 300.0, "warmup": "none"}),
]


@pytest.mark.parametrize(
    ("name", "reference", "rounds", "options"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_chooses_as_the_reference(name, reference, rounds, options):
    settings = policies.settings(name, {"dimension": 3, "rounds": rounds, **options})
    policy, literal = Policy(settings, seed=SEED, source=None), reference(settings)
    rng = np.random.default_rng(5)
    rewards = np.where(rng.random((rounds, 1)) < 0.9, rng.random((rounds, 3)) < [0.3, 0.8, 0.5], rng.random((rounds, 3)))
    arms, actions = np.eye(3), []
    for t in range(rounds):
        decision = policy.decide(arms)
        assert decision.action == literal.choose(), t
        policy.learn(decision, float(rewards[t, decision.action]))
        literal.learn(decision.action, float(rewards[t, decision.action]))
        actions.append(decision.action)
    assert len(set(actions)) == 3
    counts = np.bincount(actions, minlength=3)
    assert counts.max() > counts.min()
    ends = {"dp-se": lambda: literal.e == 2, "mishra-thakurta-ts": lambda: literal.phase == 3}
    assert ends.get(name, lambda: True)()
    if settings.name == "filtered-thompson":
        assert literal.only is not None


def test_looks_at_the_gap_end_with_their_noise():
    """Equal arms at an enormous epsilon: phase 1 would look on for ever, each look with noise of its own."""
    settings = policies.settings("mishra-thakurta-ts", {"dimension": 2, "rounds": 400, "epsilon": 1e15})
    policy = Policy(settings, seed=0, source=None)
    for _ in range(400):
        policy.learn(policy.decide(np.eye(2)), 0.5)
    policy.advance()
    looks = (len(settings.noise_tables([0])[0]) - 400) // 2
    assert 1 < policy.state.scalars[0]["looks"] <= looks
    assert policy.state.scalars[0]["phase"] == 3


def test_beta_sampler_has_the_beta_law():
    """Kolmogorov-Smirnov at one in a million; a third more or less of a parameter is told apart."""
    rng = streams(1, 3, 4)
    for a, b in ((1.0, 1.0), (1.0, 40.0), (7.5, 2.0), (300.0, 200.0)):
        draws = [beta(rng, a, b) for _ in range(20_000)]
        assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > FALSE_ALARM
        assert stats.kstest(draws, stats.beta(a * 1.5, b).cdf).pvalue < FALSE_ALARM
        assert stats.kstest(draws, stats.beta(a, b / 1.5).cdf).pvalue < FALSE_ALARM


def test_beta_thompson_plays_as_often_as_numpys_own_does():
    """Pulls of the best of three arms over 200 runs: within five standard errors (one in a million) of NumPy's, and not of
    the Gaussian policy's."""
    means, rounds, runs = np.array([0.3, 0.8, 0.5]), 120, 200
    rng = np.random.default_rng(8)
    literal = np.zeros(runs)
    for i in range(runs):
        ones, zeros = np.ones(3), np.ones(3)
        for _ in range(rounds):
            arm = rng.beta(ones, zeros).argmax()
            hit = rng.random() < means[arm]
            ones[arm] += hit
            zeros[arm] += not hit
        literal[i] = ones[1] + zeros[1] - 2

    def away(name, pulls):
        world = environments.environment("bernoulli-arms", {"means": tuple(means)})
        settings = policies.settings(name, {"dimension": 3, "rounds": rounds})
        found = np.array([run.state for run in run_all([settings], world, range(runs), jobs=1, keep_state=pulls)[0]])
        return abs(found.mean() - literal.mean()) / math.sqrt((found.var(ddof=1) + literal.var(ddof=1)) / runs)

    assert away("beta-thompson", lambda state: state.ones[1] + state.zeros[1] - 2) < 5
    assert away("thompson", lambda state: state.learner.pulls[1]) > 5


def test_kl_upper_confidence_bound_solves_its_equation():
    for p, level in ((0.0, 0.3), (0.2, 0.05), (0.7, 1.0), (0.99, 1e-4)):
        q = kl_upper(p, level)
        divergence = (p * math.log(p / q) if p else 0.0) + (1 - p) * math.log((1 - p) / (1 - q))
        assert divergence == pytest.approx(level, rel=1e-6)
        assert q >= p
    assert kl_upper(1.0, 0.5) == 1.0
