"""What plans predict: closed forms against Monte Carlo, limits, and the whole of it against simulation."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit, logit

from adaprivate import environments, privacy
from adaprivate.planning import fixed, prediction
from adaprivate.planning.confirmed import error_of, outside
from adaprivate.planning.prediction import Curve, Task, predicted
from adaprivate.planning.prospect import OURS, prospect
from adaprivate.planning.worlds import World

USUAL = World(12, 5, math.inf, 0.5, 2 / math.sqrt(12))
RARE = World(8, 6, math.inf, 0.04, 0.8)
ARMS = World(6, 6, 6, 0.3, 0.7, arms=True)


def drawn(world, count=40_000, seed=0):
    """Scores of candidates in units of their standard deviation, as the environment draws them."""
    x = np.random.default_rng(seed).standard_normal((count, world.candidates, world.dimension))
    return math.sqrt(world.dimension) * x[..., 0] / np.linalg.norm(x, axis=-1)


@pytest.mark.parametrize("world", [USUAL, RARE, World(3, 10, math.inf, 0.7, 1.1)], ids=["usual", "rare", "d 3"])
def test_the_worlds_rates_are_those_of_candidates_drawn(world):
    """Fixed draws, four standard errors."""
    rates = expit(world.offset + world.spread * drawn(world))
    for value, sample in ((world.base_rate, rates.mean(axis=1)), (world.best, rates.max(axis=1))):
        assert value == pytest.approx(sample.mean(), abs=4 * sample.std() / math.sqrt(len(sample)) + 1e-3 * value)


@pytest.mark.parametrize("rho", [0.3, 0.8])
def test_what_is_played_by_estimates_of_this_correlation(rho):
    """Unit vectors, the estimate of theta at an angle: fixed draws, four standard errors and the rule's nodes."""
    x = np.random.default_rng(1).standard_normal((40_000, RARE.candidates, RARE.dimension))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    chosen = (rho * x[..., 0] + math.sqrt(1 - rho**2) * x[..., 1]).argmax(axis=1)
    scores = math.sqrt(RARE.dimension) * x[np.arange(len(x)), chosen, 0]
    rates = expit(RARE.offset + RARE.spread * scores)
    rate, variance = RARE.played(np.array([rho]))
    assert rate[0] == pytest.approx(rates.mean(), abs=4 * rates.std() / 200 + 0.005 * RARE.gain)
    assert variance[0] == pytest.approx((rates * (1 - rates)).mean(), rel=0.01)
    assert RARE.played(np.ones(1))[0][0] == pytest.approx(RARE.best, rel=1e-6)


def test_the_best_candidate_says_how_much_rates_differ():
    assert RARE.with_best(RARE.best).spread == pytest.approx(RARE.spread, rel=1e-4)
    assert USUAL.with_best(0.7).best == pytest.approx(0.7, abs=1e-6)
    assert dataclasses.replace(USUAL, spread=9.0).usual == USUAL


def test_options_are_those_of_a_world_with_these_rates():
    world = environments.environment("synthetic", RARE.options()).world(0)
    assert np.linalg.norm(world.theta) == pytest.approx(RARE.signal)
    assert world.numbers[0] == pytest.approx(RARE.offset, abs=0.1)
    arms = environments.environment("synthetic", ARMS.options())
    assert (arms.candidates, arms.arms, arms.features) == (6, 6, "one-hot")


def test_a_policy_is_planned_by_the_rules_by_which_it_will_choose():
    """Its first batch, its noise and the round from which on it does not flip are those of the settings themselves."""
    from adaprivate import policies

    for world, rounds, told in ((USUAL, 9_000, False), (RARE, 700, True)):
        task = Task(world, rounds, 0.8, 1e-6, told)
        options = {"dimension": world.dimension, "rounds": rounds, "epsilon": 0.8, "delta": 1e-6}
        settings = policies.settings(OURS, {**options, **({"base_rate": world.base_rate} if told else {})})
        assert task.outlook == settings.outlook
        assert task.choice.first >= settings.scouted
        people = policies.settings(OURS, {**options, "unit": "user"})
        assert task.outlook.noise_variance == pytest.approx(people.outlook.noise_variance / 4)


def test_information_of_a_ledger_of_people_is_that_of_single_rewards_where_nobody_returns():
    """A visit that counts once weighs 1: the same sums as at event level, Gaussian alone."""
    t = np.array([500.0, 4_000.0])
    alone = Task(USUAL, 4_000, 1.0, people=10**9, counted_visits=1)
    spectrum, variance = np.full((1, 12), 1 / 12), np.full(2, 0.25)
    told = prediction._told(alone, OURS, t, variance, spectrum, 0.5)
    rows = t[:, None] / 1.05 / 12
    noise = privacy.gaussian_sigma(1.0, 1e-5) ** 2 / 0.91
    assert told == pytest.approx(np.broadcast_to(rows**2 / (0.25 * rows + 2.7 * noise), told.shape), rel=1e-4)


def test_people_who_come_unevenly_tell_less():
    even = Task(USUAL, 8_000, 0.5, people=800)
    alike = dataclasses.replace(even, often=((500.0, 3.0), (300.0, 3.0)))
    zipf = dataclasses.replace(even, often=tuple((1.0, 1 / k) for k in range(1, 801)))
    assert predicted(alike).mean == pytest.approx(predicted(even).mean)
    assert predicted(zipf).mean < predicted(even).mean - 0.05
    assert predicted(dataclasses.replace(zipf, rounds=16_000)).mean > predicted(zipf).mean


def test_without_noise_all_policies_are_predicted_alike():
    task = Task(USUAL, 10_000, 25.0)
    assert predicted(task).mean == pytest.approx(predicted(task, "tuned-linucb").mean, abs=1e-3)
    assert predicted(task, "rr-linucb").mean == pytest.approx(predicted(task, "tuned-linucb").mean, abs=1e-3)


@pytest.mark.parametrize("world", [USUAL, RARE, ARMS, World(10, 4, 80, 0.5, 0.6)], ids=["usual", "rare", "arms", "items"])
def test_more_of_what_helps_helps(world):
    def share(epsilon=1.0, rounds=8_000, spread=world.spread, **other):
        return predicted(Task(dataclasses.replace(world, spread=spread), rounds, epsilon, **other)).mean

    assert share(epsilon=0.3) < share() < share(epsilon=3.0) < 1
    assert share(rounds=2_000) < share() < share(rounds=32_000)
    assert share(spread=world.spread / 2) < share()
    if not world.fixed:
        assert share(people=800) < share()


def test_when_it_has_learned():
    curve = Curve(np.array([10.0, 20, 40]), np.array([0.25, 0.25, 0.5]), np.array([0.2, 0.6, 0.7]))
    assert curve.mean == pytest.approx(0.55)
    assert curve.until(0.5) == pytest.approx(17.5)
    assert curve.until(0.1) == 10
    assert curve.until(0.8) is None


def test_fixed_arms_have_the_rates_assumed():
    rates = fixed.rates_of(ARMS)
    assert rates.mean(axis=1) == pytest.approx(np.full(len(rates), 0.3))
    assert (logit(rates) - logit(rates).mean(axis=1, keepdims=True)).std() == pytest.approx(0.7, rel=0.15)


@pytest.mark.parametrize(
    ("task", "seeds"),
    [
        (Task(World(7, 4, math.inf, 0.5, 0.8), 3_000, 1.0), 24),
        (Task(World(7, 7, 7, 0.5, 0.8, arms=True), 3_000, 1.0), 40),
        (Task(World(7, 4, 150, 0.5, 0.8), 3_000, 2.0, people=600), 24),
    ],
    ids=["features", "arms", "people"],
)
def test_predictions_are_near_to_simulation_and_others_would_not_be(task, seeds):
    """Seeds are fixed. Within the stated error and two standard errors; a fifth of the epsilon would be told apart."""
    plan = prospect(task, [task.epsilon], rates_known=False).simulate(seeds, first_seed=7_000_000)
    assert not outside(task)
    (mean, sem), (row,) = plan.measured[OURS, task.epsilon], plan.rows
    assert (row["measured_share"], row["measured_sem"]) == (mean, sem)
    far = predicted(dataclasses.replace(task, epsilon=task.epsilon / 5)).mean
    assert abs(row["learned_share"] - mean) <= row["error"] + 2 * sem
    assert abs(far - mean) > error_of(far) + 2 * sem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 200}, "rounds 200 is not within 1000 to 100000"),
        ({"epsilon": 50.0}, "epsilon 50 is not within 0.05 to 5"),
        ({"people": 5}, "people come 800 times"),
        ({"world": World(5, 5, 5, 0.5, 0.9)}, "the same candidates with features"),
        ({"world": World(5, 4, 10, 0.5, 0.9)}, "fewer than 30 items"),
        ({"world": World(45, 4, math.inf, 0.5, 0.3)}, "fewer than 100 rounds for each dimension"),
        ({"world": ARMS, "people": 400}, "people among fixed candidates"),
        ({"people": 400, "often": ((400.0, 1.0),)}, "people do not come evenly"),
    ],
)
def test_what_was_not_confirmed_says_so(change, words):
    assert not outside(Task(USUAL, 4_000, 1.0))
    found = outside(dataclasses.replace(Task(USUAL, 4_000, 1.0), **change))
    assert any(words in reason for reason in found)
