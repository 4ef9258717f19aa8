"""Local messages with exact noise; their law and price: adaprivate.testing.messages."""

import math

import numpy as np
import pytest
from scipy import stats

import adaprivate
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.mechanisms.units import Event
from adaprivate.runtime.policy import Policy
from adaprivate.testing.suite import same_state

PLAN = MessagePlan(delta=1e-5, dimension=2, rounds=5, noise_multiplier=2.0, centre=0.25)
GRID = 2**20


def settings(**options):
    return policies.settings("ldp-linucb", {"dimension": 2, "rounds": 20, **options})


def test_factors_are_truncated_and_products_are_not():
    x, reward = [0.3, -0.4], 0.7
    a, b, weight = math.floor(0.3 * GRID), -math.floor(0.4 * GRID), math.floor(0.7 * GRID) - GRID // 4
    assert PLAN.whole(x, reward).tolist() == [weight * a, weight * b, a * a, a * b, b * b]
    assert all(type(number) is int for number in PLAN.whole(x, reward))


def test_a_context_is_within_the_unit_ball_in_integers():
    rng = np.random.default_rng(0)
    plan = MessagePlan(delta=1e-5, dimension=5, rounds=5, noise_multiplier=2.0)
    for length in (0.5, 1.0, 1.0 + 1e-12, 7.0):
        x = rng.standard_normal(5)
        whole = plan.whole(length * x / np.linalg.norm(x), 1.0)
        upper = np.triu_indices(5)
        squares = [int(n) for n, i, j in zip(whole[5:], *upper, strict=True) if i == j]
        assert sum(squares) <= 2**40
        assert sum(squares) >= 0.999 * 2**40 * min(1.0, length) ** 2


def test_messages_have_the_stated_law():
    """Kolmogorov-Smirnov at 1e-9 over 2,500 numbers; two thirds and three halves of the scale are told apart."""
    clear = np.array([int(n) for n in PLAN.whole([0.6, 0.8], 1.0)]) / 2.0**40
    noise = (np.array([PLAN.message([0.6, 0.8], 1.0, Secure()) for _ in range(500)]) - clear).ravel()
    sigma = 2.0 * 3 / math.sqrt(2)
    assert stats.kstest(noise, stats.norm(0, sigma).cdf).pvalue > 1e-9
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(noise, stats.norm(0, wrong * sigma).cdf).pvalue < 1e-9


def test_the_price_holds_the_slack_of_one_message():
    exact, ideal = PLAN.price(exact_noise=True), PLAN.price()
    assert ideal.slack == 0
    assert exact.slack == pytest.approx(5 * Secure().slack(PLAN.sigma, 1))
    assert exact.mu == ideal.mu == 0.5
    assert PLAN.sigma >= 2.0 * privacy.joint_sensitivity(1.0, "replace")


def test_the_guarantee_is_local_and_says_what_clients_must_do():
    policy = Policy(settings(), source=Secure())
    statement = policy.guarantee
    assert (statement.unit, statement.neighbours) == ("local", "replace")
    kept = ("reward-range", "feature-norm", "exact-noise", "secret-noise")
    assert set(statement.enforced) == {privacy.CONDITIONS[name] for name in kept}
    for name in ("client-message", "one-message", "own-action-hidden", "independent-rounds", "no-replay"):
        assert privacy.CONDITIONS[name] in statement.assumptions
    ideal = settings().guarantee()
    assert ideal.epsilon <= statement.epsilon <= ideal.epsilon * (1 + 1e-9)


def test_a_book_makes_a_message_of_every_round_and_no_more():
    book = PLAN.book(Secure())
    for number in range(5):
        book.add(Event(number, np.array([0.6, 0.8]), 1.0))
        with pytest.raises(InputError, match="to be closed before the next round"):
            book.add(Event(number + 1, np.array([0.6, 0.8]), 1.0))
        stored = book.to_bytes()
        first, after = book.close()
        second, _ = type(book).from_bytes(stored, PLAN, Secure()).close()
        assert book.to_bytes() == stored
        assert first.batch == second.batch == number
        assert first.values.tolist() != second.values.tolist()
        book = after
    book.add(Event(5, np.array([0.6, 0.8]), 1.0))
    assert not book.due
    assert (PLAN.end_of(4), PLAN.end_of(5)) == (5, None)
    assert plan_from_bytes(PLAN.to_bytes()) == PLAN


def test_in_use_it_is_saved_and_goes_on(tmp_path):
    policy = Policy(settings(), source=Secure())
    for number in range(12):
        policy.learn(policy.decide(np.eye(2)), None if number % 2 else 1.0)
    policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    assert same_state(loaded.state, policy.state)
    assert loaded.book.to_bytes() == policy.book.to_bytes()
    assert loaded.version == 11
    for _ in range(12):  # beyond its rounds nothing more is sent
        loaded.learn(loaded.decide(np.eye(2)), 1.0)
    loaded.finish()
    assert (loaded.round, loaded.version, int(loaded.state.scalars["round"][0])) == (24, 20, 20)


@pytest.mark.parametrize(
    ("multiplier", "message"),
    [(40_000.0, r"^Expected sigma=.* < 65536 for exact noise\.$"), (1e-7, "^Expected noise_multiplier=1e-07 large enough")],
)
def test_noise_that_the_grid_cannot_hold_is_refused(multiplier, message):
    plan = MessagePlan(delta=1e-5, dimension=2, rounds=5, noise_multiplier=multiplier)
    for refused in (lambda: plan.guarantee("x", exact_noise=True), lambda: plan.book(Secure())):
        with pytest.raises(InputError, match=message):
            refused()


def test_only_exact_noise_makes_messages():
    for made in (lambda: PLAN.message([0.6, 0.8], 1.0, Simulated(0)), lambda: PLAN.book(Simulated(0))):
        with pytest.raises(InputError, match=r"^Expected source='Simulated' to be exact"):
            made()
