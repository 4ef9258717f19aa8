"""The rivals of the ledger: whatever one person answers, what is released moves no further than is paid for.

Features are forced, so that two lives differ in the rewards of one person alone; four people come in turn.
"""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from adaprivate import mechanisms, policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import streams
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.plan import BatchPlan, Epoch
from adaprivate.mechanisms.units import Event
from adaprivate.mechanisms.units.user import UserUnit
from adaprivate.purposes import Purpose
from adaprivate.runtime.engines import ExactEngine
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import open_noise
from adaprivate.testing.releases import forced, run, silent
from adaprivate.testing.suite import PEOPLE

ROUNDS = 60


def greedy(**options):
    values = {"dimension": 3, "rounds": ROUNDS, "unit": "user", "batch_size": 6, **options}
    return policies.settings("noise-aware-greedy", values)


def answered(settings, features, answers, moments, others=1.0):
    """What is released, without noise, where the first of four people answers so."""
    rewards = np.full(len(features), others)
    rewards[::PEOPLE] = answers
    return run(settings, silent(settings), features, rewards, moments)


def tries(features, count=60):
    """Answers of the first person, and the opposite: all alike, by sides of random hyperplanes, and at random."""
    rng = np.random.default_rng(8)
    mine = features[::PEOPLE]
    yield np.ones(len(mine))
    for _ in range(count):
        yield (mine @ rng.standard_normal(mine.shape[1]) > 0).astype(float)
        yield rng.integers(2, size=len(mine)).astype(float)


def largest_move(settings, features, moments, whitener):
    moves = []
    for answers in tries(features):
        one, two = (answered(settings, features, given, moments) for given in (answers, 1 - answers))
        moves.append(float(np.linalg.norm((one - two) @ whitener.T)))
    return max(moves)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("weights", ["clip", "clip-shares"])
def test_compiled_clipping_keeps_a_person_within_reach(weights, alike):
    """In coordinates where the noise is round; a person whose visits are alike goes to the limit."""
    settings = greedy(weights=weights, counted_batches=2)
    features = forced(settings, ROUNDS)
    if alike:
        features[:] = features[0]
    chosen = settings.extended(_scouted(settings, features))
    moments = [int(end) for end in chosen.ends]
    moved = largest_move(settings, features, moments, np.linalg.inv(chosen.shape.root))
    strategy = chosen.epochs[0].strategy
    reach = strategy.sensitivity(2) / strategy.sensitivity() if weights == "clip" else 1.0
    assert moved <= reach * (1 + 1e-9)
    assert moved > (0.95 if alike else 0.4) * reach
    covered = float(
        np.linalg.inv(chosen.shape.root)[0] @ chosen.batches.release_covariance @ np.linalg.inv(chosen.shape.root)[0]
    )
    assert covered**0.5 == pytest.approx(reach * chosen.noise_multiplier, rel=1e-9)


def _scouted(settings, features):
    policy = Policy(settings, seed=0)
    for number in range(settings.scouted):
        policy.observe(features[number], 0.5, user=number % PEOPLE)
    return policy.state.learner


def test_exact_clipping_in_whole_numbers_over_every_pair_of_answers():
    """A person with five visits to three batches, of which two count; missing rewards, which are the centre, among them."""
    strategy = mechanisms.strategy("sqrt", 4)
    made = BatchPlan(
        delta=1e-5,
        dimension=2,
        ends=(3, 6, 9, 12),
        noise_multiplier=2.0,
        epochs=(Epoch(0, 4, strategy),),
        unit=UserUnit(2, clip=0.5),
        centre=0.5,
        decoded=False,
    )
    features = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, -0.8], [0.0, 1.0]] * 3)
    mine = [0, 1, 3, 4, 7]
    found = []
    for answers in itertools.product((0.0, 0.5, 1.0), repeat=len(mine)):
        given = dict(zip(mine, answers, strict=True))
        collector, sums = made.collector(Secure()), []
        for number in range(12):
            collector.count(Event(number, features[number], given.get(number, 1.0), "me" if number in given else "other"))
            if number + 1 in made.ends:
                sums.append([int(entry) for entry in collector.take()])
        found.append(sums)
    table = np.array(found, dtype=np.int64)
    assert (table[:, 2] == table[0, 2]).all()  # the third batch is not entered
    rows = np.einsum("kj,njd->nkd", strategy.matrix(), table.astype(float)).reshape(len(table), -1)
    apart = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    one, two = np.unravel_index(int(np.argmax(apart)), apart.shape)
    C = [[Fraction(float(c)) for c in row] for row in strategy.matrix()]
    exact = sum(
        sum((c * int(step) for c, step in zip(row, change, strict=True)), Fraction(0)) ** 2
        for row in C
        for change in (table[one] - table[two]).T
    ) / Fraction(4**20)
    reach = Fraction(strategy.sensitivity(2)) ** 2
    assert Fraction(1, 2) * reach < exact <= reach
    row_std = made.mechanism(made.epochs[0], Secure()).row_std
    assert row_std == pytest.approx(2.0 * strategy.sensitivity(2))


def test_the_paper_s_clipping_moves_as_far_as_it_is_said_to():
    """Half of k events along x, half along -x, answers swapped: the published noise is unsound, and says by how much."""
    k, options = 5, {"dimension": 2, "rounds": 40, "batch_size": 20, "epsilon": 5.0, "counted_visits": 5}
    settings = policies.settings("adaprivate-ts-user", options)
    moves = []
    for apart in (2, 20):  # the visits of the first person are rounds 0, 4, 8, ...: in one batch, and in two
        features = np.tile([[1.0, 0.0]], (40, 1))
        features[:apart:8] *= -1
        one, two = ((features[::PEOPLE, 0] > 0).astype(float), (features[::PEOPLE, 0] < 0).astype(float))
        first, second = (np.diff(answered(settings, features, a, [20, 40]), axis=0, prepend=0) for a in (one, two))
        moves.append(float(np.linalg.norm(first - second)))
    assert max(moves) <= settings.reach
    attained = privacy.clipped_reach(k, k**0.5, attained=True)
    assert max(moves) == pytest.approx(min(5, 2 * 5**0.5) if attained > 5 else attained, rel=0.15)
    unsound = dataclasses.replace(settings, calibration="published-unsound")
    assert unsound.noise_multiplier == pytest.approx(k**0.5 * privacy.zcdp_sigma(5.0, 1e-5))
    statement = unsound.guarantee()
    assert statement.epsilon >= privacy.gdp_epsilon(attained / unsound.noise_multiplier, 1e-5) > 8
    assert statement.nominal_epsilon == 5.0
    assert settings.guarantee().epsilon == pytest.approx(5.0)
    assert statement.unit == "user"
    with pytest.raises(InputError, match="for a policy with exact noise, not adaprivate-ts-user"):
        Policy(settings, source=Secure())


def test_of_k_events_and_no_more_something_is_summed():
    settings = policies.settings(
        "adaprivate-ts-user", {"dimension": 2, "rounds": 80, "batch_size": 20, "counted_visits": 6}
    )
    features = np.tile([[0.6, 0.8]], (80, 1))
    one, two = (
        answered(settings, features, a, [20, 40, 60, 80], others=0.0) for a in (np.ones(20), np.eye(20)[:6].sum(axis=0))
    )
    assert np.array_equal(one, two)
    assert one[-1] @ [0.6, 0.8] == pytest.approx(6**0.5 + 1)  # five of the first batch, clipped, and one of the second


def flipped(**options):
    return policies.settings("rr-linucb", {"dimension": 3, "rounds": 80, "unit": "user", "centre": 0.5, **options})


def lived(settings, features, rewards):
    """The releases and the learner of a policy with exact noise, laid open and silent."""
    rng = streams(1, Purpose.EXPLORATION, Purpose.CHOICE)
    engine, read = ExactEngine(settings, Secure(), rng, lambda: None), []
    kept = engine.learner.read
    engine.learner.read = lambda release: read.append(release.values.copy()) or kept(release)
    with open_noise(silent=True):
        for number, (vector, reward) in enumerate(zip(features, rewards.tolist(), strict=True)):
            before = engine.state.root.copy()
            engine.count(number, vector.copy(), reward, number % PEOPLE)
            counts = number // PEOPLE < settings.counted_visits
            assert np.array_equal(before, engine.state.root) is not counts
    return np.array(read), engine.state


def test_visits_beyond_the_budget_are_told_of_to_nobody():
    settings = flipped(counted_visits=2)
    features = forced(settings, 80)
    rewards = np.random.default_rng(2).integers(2, size=80).astype(float)
    other = rewards.copy()
    other[2 * PEOPLE :] = 1 - other[2 * PEOPLE :]
    (one, first), (two, second) = (lived(settings, features, r) for r in (rewards, other))
    assert np.array_equal(one, two)
    assert not one[2 * PEOPLE :].any()
    assert len(one) == 80  # a release for every round, whoever came
    for a, b in zip(first, second, strict=True):
        assert a.tobytes() == b.tobytes()


def test_simulated_flips_are_those_of_the_book():
    """With next to no flips both learn the same; with flips, what is told has the law of epsilon / k (false alarm 1e-6)."""
    sure = flipped(counted_visits=2, epsilon=30.0)
    features, bits = forced(sure, 80), np.random.default_rng(4).integers(2, size=80).astype(float)
    read, known = lived(sure, features, bits)
    policy = Policy(sure, seed=0)
    for number in range(80):
        policy.observe(features[number], bits[number], user=number % PEOPLE)
    policy.finish()
    assert np.allclose(policy.state.learner.root, known.root)
    assert np.allclose(policy.state.learner.coordinates, known.coordinates)
    assert policy.state.learner.scalars["batch"] == known.scalars["batch"] == len(read)
    noisy = flipped(counted_visits=20, epsilon=20.0)
    told = []
    for seed in range(30):
        start = noisy.start(noisy.noise_tables([seed])[0])
        begun = silent(noisy)._replace(state=start)
        told += run(noisy, begun, features, np.ones(80), list(range(1, 81)))[:, 0].tolist()
    true = sum(value > 0 for value in told)
    assert stats.binomtest(true, len(told), noisy.law.keep).pvalue > 1e-6
    for epsilon in (2 / 3, 3 / 2):
        assert stats.binomtest(true, len(told), mechanisms.laws.named("randomised-response")(epsilon).keep).pvalue < 1e-6


@pytest.mark.parametrize("name", ["rr-linucb", "rr-lints"])
def test_decisions_of_people_are_enforced_and_stated(name):
    settings = policies.settings(name, {"dimension": 3, "rounds": 40, "unit": "user", "counted_visits": 3, "epsilon": 2.0})
    policy = Policy(settings, source=Secure())
    with pytest.raises(InputError, match="user to be given with every decision"):
        policy.decide(np.eye(3))
    for number in range(40):
        policy.learn(policy.decide(np.eye(3), user=f"person {number % 5}"), 1.0)
    policy.finish()
    assert policy.book.people == {"people": 5, "counted": 15, "beyond": 25}
    assert (policy.version, policy.round) == (40, 40)
    assert (policy.guarantee.unit, policy.guarantee.delta) == ("user", 0.0)
    assert policy.guarantee.epsilon <= 2.0
    with pytest.raises(InputError, match="user not to be given"):
        Policy(policies.settings(name, {"dimension": 3, "rounds": 9}), seed=0).decide(np.eye(3), user=1)


REFUSED = [
    ({"weights": "clip", "base_rate": 0.2}, r"base_rate=0\.2 == None for weights=clip"),
    ({"weights": "clip-shares", "centre": 0.3}, r"centre=0\.3 == 0\.5 for weights=clip-shares"),
    ({"weights": "clip", "horizon": 30}, r"horizon=30 == None for weights=clip"),
    ({"weights": "clip", "counted_batches": 0}, r"counted_batches=0 >= 1"),
    ({"weights": "trim"}, r"weights='trim' in \{directions, scalar, equal, clip, clip-shares\}"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_clipping_refuses_what_it_is_not_made_for(options, said):
    with pytest.raises(InputError, match=said):
        greedy(**options)


def test_clipping_states_its_noise_and_goes_no_further_than_planned():
    settings = greedy(weights="clip")
    assert settings.noise == "sqrt"
    assert settings.batches.unit == UserUnit(3, clip=0.5)
    assert settings.batches.unit.participation.change == 1.0
    policy = Policy(settings, source=Secure())
    for number in range(ROUNDS + 40):
        policy.learn(policy.decide(np.eye(3), user=number % 20), 1.0)
    policy.finish()
    assert policy.version == len(settings.ends)
    statement = policy.guarantee
    assert statement.epsilon == pytest.approx(1.0, rel=1e-6)
    assert not statement.exact
    assert {privacy.CONDITIONS[c] for c in ("user-clip", "user-batches")} <= set(statement.enforced)
    assert privacy.CONDITIONS["public-visits"] in statement.assumptions
    with pytest.raises(InputError, match="not noise-aware-greedy with weights=clip-shares"):
        Policy(greedy(weights="clip-shares"), source=Secure())


def test_the_learner_takes_clipping_to_leave_the_root_of_the_visits():
    """Of n visits to a batch sqrt(n) in all, of a batch that is not entered nothing; so do the clipped sums."""
    settings = greedy(weights="clip", counted_batches=1, dimension=8, rounds=400, batch_size=40, intercept=0.0)
    rng = np.random.default_rng(5)
    features = rng.standard_normal((400, 8))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    policy = Policy(settings, seed=0)
    for number in range(80):
        policy.observe(features[number], float(rng.integers(2)), user=number % 4)
    policy.finish()
    traces = [float(np.trace(cross)) for cross in policy.state.learner.crosses[:2]]
    assert traces == pytest.approx([4 * 10**0.5, 0.0], rel=1e-9)
    book = policy.state.book
    assert np.linalg.norm(book.sums[1]) == 0.0
    assert 0.2 < np.linalg.norm(book.sums[0]) <= 4 * 0.5
