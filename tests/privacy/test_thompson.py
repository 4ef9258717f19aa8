"""The privacy of Thompson sampling: formulas against brute force, printed values and minimisation by hand."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from adaprivate import privacy
from adaprivate.check import InputError

PAPER_MEANS = (0.75, 0.625, 0.5, 0.375, 0.25)


def worst_mu(rounds, arms, prepulls, variance):
    """The largest cost of one reward over every sequence of actions: rounds that sample while its arm has data."""
    worst = 0.0
    free = rounds - prepulls * arms
    for actions in itertools.product(range(arms), repeat=free):
        pulls, cost = [prepulls] * arms, [0.0] * arms
        for action in actions:
            cost = [c + (1 / (variance * (n + 1)) if n else 0.0) for c, n in zip(cost, pulls, strict=True)]
            pulls[action] += 1
        worst = max(worst, *cost)
    return math.sqrt(worst)


@pytest.mark.parametrize(("rounds", "arms", "prepulls"), [(7, 2, 0), (9, 2, 1), (11, 2, 3), (10, 3, 1)])
def test_mu_is_the_worst_over_all_action_sequences(rounds, arms, prepulls):
    for variance in (1.0, 2.5):
        claimed = privacy.thompson_mu(rounds, arms, prepulls=prepulls, variance=variance)
        worst = worst_mu(rounds, arms, prepulls, variance)
        assert worst <= claimed * (1 + 1e-12)
        if prepulls:
            assert worst == pytest.approx(claimed)  # attained: an arm never played again
        else:
            assert worst == pytest.approx(claimed * math.sqrt((rounds - 1) / rounds))  # round 1 knows nothing
        assert claimed <= privacy.published_thompson_mu(rounds, prepulls=prepulls, variance=variance)


def test_printed_values():
    assert privacy.published_thompson_mu(100_000) == pytest.approx(316.23, abs=5e-3)
    assert privacy.thompson_mu(100_000, 5) == pytest.approx(223.61, abs=5e-3)
    for b, c, eta in ((99, 1000, 1), (3999, 25, 1), (399, 62.5, 2), (1999, 2, 5)):
        assert privacy.published_thompson_mu(100_000, prepulls=b, variance=c) == pytest.approx(eta)
    for mu, epsilon in ((1, 4.887), (5, 35.566), (10, 96.717)):
        assert privacy.gdp_epsilon(mu, 1e-6) == pytest.approx(epsilon, abs=6e-4)
        with mpmath.workdps(60):
            curve = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            assert float(curve) == pytest.approx(1e-6, rel=5e-3)


def test_the_renyi_route_is_the_best_order_of_theorem_8():
    for rounds, delta in ((1, 1e-5), (1000, 1e-6), (100_000, 1e-3)):
        orders = 1 + np.geomspace(1e-5, 1e3, 400_001)
        stated = (orders * rounds / 4 + math.log(1 / delta) / (orders - 1)).min()
        assert privacy.thompson_rdp_epsilon(rounds, delta) == pytest.approx(stated, rel=1e-6)
        assert privacy.thompson_rdp_epsilon(rounds, delta) >= privacy.gdp_epsilon(math.sqrt(rounds / 2), delta)


def test_the_standard_route_is_the_best_split_of_delta():
    rounds, delta = 1000, 1e-5
    shares = delta / (1 + np.exp(-np.linspace(-20, 20, 4001)))

    def composed(price):
        values = []
        for spent in shares:
            e = price(spent / rounds)
            values.append(e * math.sqrt(2 * rounds * math.log(1 / (delta - spent))) + rounds * e * math.expm1(e))
        return min(values)

    mu = math.sqrt(0.5)
    for arms in (2, 10):
        stated = composed(lambda d, arms=arms: mu / 2 * math.sqrt(math.log((arms - 1) / (2 * d))))
        assert privacy.published_thompson_standard_epsilon(rounds, arms, delta) == pytest.approx(stated, rel=1e-5)
    sound = composed(lambda d: privacy.gdp_epsilon(mu, d))
    assert privacy.thompson_standard_epsilon(rounds, delta) == pytest.approx(sound, rel=1e-4)
    assert sound > stated > privacy.thompson_rdp_epsilon(rounds, delta)


def test_predicted_regret_is_what_runs_show():
    """Against regrets measured elsewhere (three runs each, T = 100,000, the paper's Bernoulli arms)."""
    measured = {(99, 1000): 15728, (399, 250): 9636, (1999, 50): 4409, (3999, 25): 5520, (399, 62.5): 4420, (99, 40): 3357}
    for (b, c), regret in measured.items():
        assert privacy.thompson_regret(PAPER_MEANS, 100_000, prepulls=b, variance=c) == pytest.approx(regret, rel=0.04)
    assert privacy.thompson_regret((0.5, 0.5, 0.5), 1000) == 0
    assert privacy.thompson_regret((1.0, 0.0), 100, prepulls=60) == pytest.approx(40)  # the run ends in the pre-pulls
    assert privacy.thompson_regret((0.0, 1.0), 100, prepulls=60) == pytest.approx(60)


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("eta", [1.0, 2.0, 5.0])
def test_calibrated_pairs_spend_the_budget_and_no_more(eta, published):
    found = privacy.calibrate_thompson(rounds=100_000, arms=5, eta=eta, published=published)
    assert found.best.regret == min(pair.regret for pair in found.pairs)
    for pair in found.pairs:
        assert pair.mu <= eta
        assert pair.variance >= 1
        if pair.variance > 1:
            assert pair.mu == pytest.approx(eta)
        true = privacy.thompson_mu(100_000, 5, prepulls=pair.prepulls, variance=pair.variance)
        assert true <= eta if pair.prepulls or not published else true <= pair.mu
    assert 0 < found.best.prepulls < 20_000


def test_budgets_by_epsilon_and_delta():
    found = privacy.calibrate_thompson(rounds=10_000, arms=3, epsilon=4.886554, delta=1e-6)
    assert found.eta == pytest.approx(1, rel=1e-5)
    assert found.best == privacy.calibrate_thompson(rounds=10_000, arms=3, eta=found.eta).best


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: privacy.thompson_mu(0, 5), "Expected rounds=0 >= 1."),
        (lambda: privacy.thompson_mu(10, 1), "Expected arms=1 >= 2."),
        (lambda: privacy.thompson_mu(10, 5, variance=0.0), "Expected variance=0.0 > 0."),
        (lambda: privacy.thompson_variance(1e-170, 100, 2, 1), "Expected eta=1e-170 >= 1e-09."),
        (lambda: privacy.calibrate_thompson(rounds=100, arms=2, eta=1e-200), "Expected eta=1e-200 >= 1e-09."),
        (
            lambda: privacy.calibrate_thompson(rounds=100, arms=2, eta=1, means=(5, -3)),
            "Expected means=(5, -3) between 0 and 1.",
        ),
        (lambda: privacy.calibrate_thompson(rounds=100, arms=31, eta=1), "Expected arms=31 <= 30."),
        (lambda: privacy.thompson_regret((0.5, 1.1), 100), "Expected means=(0.5, 1.1) between 0 and 1."),
        (lambda: privacy.calibrate_thompson(rounds=10, arms=2), "Expected eta to be given, or epsilon and delta."),
        (
            lambda: privacy.calibrate_thompson(rounds=10, arms=2, eta=1, epsilon=1),
            "Expected epsilon=1 not to be given with eta.",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
