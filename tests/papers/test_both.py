"""Noise on A and b: the compiled policies against a transcription in NumPy, and what they promise."""

import math

import numpy as np
import pytest

from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import normal, streams
from adaprivate.mechanisms import PrefixSum, Secure
from adaprivate.policies.adaprivate import batched
from adaprivate.runtime.named import load, policy
from adaprivate.runtime.policy import Policy

SIZE = {"dimension": 3, "rounds": 60, "batch_size": 10}


class Literal:
    """A and b released in batches: a transcription in NumPy, one step after another."""

    def __init__(self, settings, seed, rule, width):
        self.settings, self.rule, self.width = settings, rule, width
        self.noise = settings.noise_tables([seed])[0]
        self.rng = streams(seed, 3, 4)
        d = settings.dimension
        self.released_A, self.released_b = settings.ridge * np.eye(d), np.zeros(d)
        self.A, self.b, self.t, self.k = settings.ridge * np.eye(d), np.zeros(d), 0, 0

    def choose(self, candidates):
        inverse = np.linalg.inv(self.released_A)
        mean = inverse @ self.released_b
        if self.rule == "ucb":
            bonus = np.sqrt(np.einsum("ai,ij,aj->a", candidates, inverse, candidates))
            return int(np.argmax(candidates @ mean + self.width * bonus))
        values, basis = np.linalg.eigh(inverse)
        root = basis @ np.diag(np.sqrt(values)) @ basis.T
        z = np.array([normal(self.rng, 0) for _ in mean])
        return int(np.argmax(candidates @ (mean + self.width * root @ z)))

    def learn(self, x, reward):
        self.A += np.outer(x, x)
        self.b += reward * x
        self.t += 1
        if self.t % self.settings.batch_size == 0:
            d = len(x)
            row, self.k = self.noise[self.k], self.k + 1
            upper = np.zeros((d, d))
            upper[np.triu_indices(d)] = row[d:]
            noisy = self.A + upper + np.triu(upper, 1).T
            values, basis = np.linalg.eigh(noisy)
            self.released_A = basis @ np.diag(np.maximum(values, self.settings.ridge)) @ basis.T
            self.released_b = self.b + row[:d]


@pytest.mark.parametrize(("name", "rule", "width"), [("adaprivate-ucb", "ucb", 1.0), ("adaprivate-ts", "ts", 0.7)])
@pytest.mark.parametrize("options", [{}, {"calibration": "exact", "epsilon": 8.0}, {"noise": "tree", "ridge": 0.5}])
def test_both_is_its_transcription(name, rule, width, options):
    extra = {"v": width} if rule == "ts" else {"alpha": width}
    settings = policies.settings(name, {"statistics": "ab", **SIZE, **options, **extra})
    ours = Policy(settings, seed=5, source=None)
    theirs = Literal(settings, 5, rule, width)
    rng = np.random.default_rng(0)
    for _ in range(SIZE["rounds"]):
        candidates = rng.uniform(-0.5, 0.5, (4, 3))
        decision = ours.decide(candidates)
        assert decision.action == theirs.choose(candidates)
        reward = float(rng.random())
        ours.learn(decision, reward)
        theirs.learn(candidates[decision.action], reward)
    ours.finish()
    root = ours.state.learner.root
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(theirs.released_A), rtol=1e-9)
    assert np.linalg.eigvalsh(theirs.released_A)[0] >= settings.ridge * (1 - 1e-9)


def test_both_without_noise_releases_the_plain_statistics():
    plain, both = (policy("adaprivate-ts", seed=1, statistics=s, **SIZE) for s in ("b", "ab"))
    for one in (plain, both):
        one._engine._state = one.settings.start(np.zeros_like(one.settings.noise_tables([1])[0]))
    rng = np.random.default_rng(2)
    for t in range(SIZE["rounds"]):
        row, reward = rng.standard_normal((1, 3)), float(rng.random())
        for one in (plain, both):
            one.learn(one.decide(row), reward)
            one.advance()
        if (t + 1) % SIZE["batch_size"] == 0:
            roots = [one.state.learner.root for one in (plain, both)]
            np.testing.assert_allclose(roots[0] @ roots[0].T, roots[1] @ roots[1].T, rtol=1e-9, atol=1e-12)
            means = [one.state.learner.root @ one.state.learner.coordinates for one in (plain, both)]
            np.testing.assert_allclose(*means, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("calibration", "neighbours", "change"), [("zcdp", "add-remove", 1), ("exact", "replace", 2**0.5)])
def test_both_splits_the_budget_evenly(calibration, neighbours, change, monkeypatch):
    whole, half = (
        policies.settings("adaprivate-ucb", {**SIZE, "statistics": s, "calibration": calibration}) for s in ("b", "ab")
    )
    assert half.noise_multiplier == pytest.approx(math.sqrt(2) * whole.noise_multiplier, rel=1e-12)
    built = []

    def kept(*arguments, **options):
        built.append(PrefixSum(*arguments, **options))
        return built[-1]

    with monkeypatch.context() as patched:
        patched.setattr(batched, "PrefixSum", kept)
        batched.design_noise(half.plan, range(2), neighbours)
    (design,) = built
    assert design.row_std == pytest.approx(change * half.noise_multiplier, rel=1e-12)
    diagonal = [1, 0, 0, 1, 0, 1] * 2
    np.testing.assert_allclose(design.scales, [1 if on else math.sqrt(0.5) for on in diagonal])
    # 4,000 seeds: a standard deviation off by 7 % is 6 standard errors (false alarm below 1e-6 for all six entries).
    table = half.noise_tables(range(4000))[:, 3, 3:]
    expected = change * half.noise_multiplier * math.sqrt(4) * design.scales[:6]
    np.testing.assert_allclose(table.std(axis=0), expected, rtol=0.07)
    assert abs(np.corrcoef(half.noise_tables(range(4000))[:, 0].T) - np.eye(9)).max() < 6 / math.sqrt(4000)


def test_both_states_the_privacy_of_its_noise_on_b():
    sigma = math.sqrt(2) * privacy.zcdp_sigma(1.0, 1e-5)
    stated = policies.settings("adaprivate-ts", {**SIZE, "statistics": "ab"}).guarantee()
    assert stated.epsilon == pytest.approx(privacy.gaussian_epsilon(sigma, 1e-5), rel=1e-9)
    assert stated.nominal_epsilon == 1.0
    with pytest.raises(InputError, match="statistics"):
        policy("adaprivate-ts", source=Secure(), statistics="ab", **SIZE)
    with pytest.raises(InputError, match="statistics"):
        policy("adaprivate-ts-amp", seed=0, statistics="ab", **SIZE)
    with pytest.raises(InputError, match="statistics"):
        policy("adaprivate-ts", seed=0, statistics="a", **SIZE)


def test_both_continues_from_a_file(tmp_path):
    first = policy("adaprivate-ucb", seed=3, statistics="ab", **SIZE)
    rng = np.random.default_rng(4)
    for t in range(SIZE["rounds"]):
        if t == 25:
            first.save(tmp_path / "saved")
            second = load(tmp_path / "saved")
        candidates, reward = rng.standard_normal((3, 3)), float(rng.random())
        choices = [one.decide(candidates) for one in ((first,) if t < 25 else (first, second))]
        assert len({choice.action for choice in choices}) == 1
        for one, choice in zip((first, second) if t >= 25 else (first,), choices, strict=True):
            one.learn(choice, reward)


def test_decay_on_top_of_sampling():
    settings = policies.settings("adaprivate-ts-amp", {**SIZE, "v": 1.5, "gamma": 0.5, "calibration": "published-unsound"})
    plain = policies.settings("adaprivate-ts-amp", {**SIZE, "calibration": "published-unsound"})
    assert (settings.exploration, settings.exploration_decay) == (1.5, 0.5)
    assert (plain.exploration, plain.exploration_decay) == (1.0, 1.0)
    assert settings.guarantee().epsilon == plain.guarantee().epsilon > 7
