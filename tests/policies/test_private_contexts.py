"""noise-aware-joint: its learner knows contexts by noisy releases alone, its posterior is the stated one; what it says."""

import dataclasses
import json
import math
from functools import partial

import numpy as np
import polars as pl
import pytest

import adaprivate as ap
from adaprivate import policies, privacy
from adaprivate.check import InputError
from adaprivate.compiled import streams
from adaprivate.environments import environment
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Release
from adaprivate.mechanisms.units import joint
from adaprivate.policies.noise_aware.joint import NoiseAwareJointSettings
from adaprivate.policies.noise_aware.private_contexts import add_private_rows
from adaprivate.privacy import Guarantee
from adaprivate.purposes import Purpose
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import policy_settings, run_all
from adaprivate.testing.books import open_noise
from adaprivate.testing.suite import same_state

D, ROUNDS = 3, 60


def settings(**options):
    return NoiseAwareJointSettings(**{"dimension": D, "rounds": ROUNDS, "batch_size": 6, **options})


def learned(made, contexts, releases):
    """The learner after rounds with these contexts (candidates of each round), fed with these releases."""
    learner = Learner(made.learner(), streams(7, Purpose.EXPLORATION, Purpose.CHOICE))
    ends, actions = list(made.plan.ends), []
    for number, candidates in enumerate(contexts):
        action = np.zeros(1, dtype=np.int64)
        learner.choose(candidates[None].copy(), action)
        actions.append(int(action[0]))
        learner.counted(candidates[action[0]].copy())
        if number + 1 in ends:
            batch = ends.index(number + 1)
            learner.read(Release(batch, releases[batch].copy()))
    return learner, actions


def test_a_learner_is_a_function_of_what_was_released_whatever_the_contexts():
    made, rng = settings(), np.random.default_rng(0)
    releases = rng.normal(size=(len(made.plan.ends), made.plan.size)) * 5 + 3
    few = 0.5 * rng.normal(size=(ROUNDS, 4, D))
    many = 0.2 * rng.normal(size=(ROUNDS, 9, D))
    (one, first), (two, second) = (learned(made, contexts, releases) for contexts in (few, many))
    assert first != second
    assert same_state(one.state, two.state)
    assert one.to_bytes() == two.to_bytes()
    releases[0, 0] += 1.0  # and they do matter
    assert not same_state(one.state, learned(made, few, releases)[0].state)


def test_a_learner_of_public_contexts_would_not_pass():
    """The same of a policy that may look at contexts: the test above has power."""
    made = policies.settings("adaprivate-ucb", {"dimension": D, "rounds": ROUNDS, "batch_size": 6})
    rng = np.random.default_rng(0)
    releases = rng.normal(size=(10, D))
    states = [learned(made, 0.5 * rng.normal(size=(ROUNDS, 4, D)), releases)[0].state for _ in range(2)]
    assert not same_state(*states)


def test_nothing_public_in_use_depends_on_contexts():
    made, rng = settings(), np.random.default_rng(1)
    one, two = (Policy(made, source=Secure()) for _ in range(2))
    for number in range(ROUNDS):
        decisions = [policy.decide(rng.normal(size=(4, D))) for policy in (one, two)]
        assert (one.version, one.round) == (two.version, two.round)
        assert decisions[0].version == decisions[1].version
        one.learn(decisions[0], 1.0)
        if number % 2:
            two.learn(decisions[1], None)
    assert one.version > 3


def test_before_the_first_release_a_learner_holds_its_prior_alone():
    made = settings()
    policy = Policy(made, source=Secure())
    for _ in range(5):
        policy.learn(policy.decide(np.eye(D)), 1.0)
    fresh, now = made.learner(), policy.learner.state
    for field in ("root", "coordinates", "mean", "rows"):
        np.testing.assert_array_equal(getattr(fresh, field), getattr(now, field))


@pytest.mark.parametrize(("intercept", "rate"), [(0.0, None), (0.3, None), (0.3, 0.1)])
def test_the_posterior_is_the_stated_one(intercept, rate):
    """Beside ten lines of NumPy: the statistic, the raised design, M with the error of A, the prior."""
    made = settings(intercept=intercept, adapt_ridge=False, reward_variance=0.2, base_rate=rate)
    state, unit = made.learner(), made.unit
    size, k, sigma = unit.width(D), 4, made.noise_multiplier
    rng = np.random.default_rng(3)
    rows = rng.normal(size=state.rows.shape) * 4
    rows[:, :size] += 30.0
    information, weighted = np.zeros((size, size)), np.zeros(size)
    b = unit.constant / joint.GRID
    ends = np.array(made.plan.ends)
    args = (
        k,
        rows,
        ends,
        state.decoder,
        state.influence,
        sigma,
        unit.louder,
        b,
        unit.stretch,
        0.2,
        0.6,
        information,
        weighted,
    )
    add_private_rows(*args)

    w, a, n = state.decoder[k, : k + 1], state.influence[k, : k + 1], np.diff(ends[: k + 1], prepend=0)
    read = w @ rows[: k + 1]
    i, j = joint.listed(size, intercept > 0)
    A = np.zeros((size, size))
    A[i, j] = A[j, i] = read[: len(i)]
    if intercept:
        A[-1, -1] = b**2 * (a @ n)
    values, V = np.linalg.eigh(A)
    edge = 4 * sigma * np.linalg.norm(w) * math.sqrt(size)
    assert (values < edge).any()
    louder = 1.0 if rate is None else 2 * (1 - 102 / 1024)  # of the centre, on the grid
    H = V @ np.diag(np.maximum(values, edge)) @ V.T
    M = 0.2 * (a**2 @ n) / (a @ n) * H + (w @ w) * sigma**2 * (louder**2 + 4 * 0.6) * np.eye(size)
    D_inverse = np.diag(1 / np.array([unit.stretch] * D + [b] * (intercept > 0)))
    wanted = D_inverse @ H.T @ np.linalg.inv(M) @ H @ D_inverse
    np.testing.assert_allclose(information, wanted, rtol=1e-9)
    np.testing.assert_allclose(weighted, D_inverse @ H.T @ np.linalg.inv(M) @ read[len(i) :], rtol=1e-9)


def test_a_policy_in_use_reads_what_its_book_releases():
    """With exact noise, kept silent, theta is that of regression on everything released, shrunk by prior and floor."""
    made = settings(rounds=400, epsilon=30.0, batch_size=None)
    policy, rng = Policy(made, source=Secure()), np.random.default_rng(0)
    theta = np.array([0.3, -0.2, 0.1])
    with open_noise(silent=True):
        for _ in range(400):
            x = rng.normal(size=(4, D))
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            decision = policy.decide(x)
            policy.learn(decision, float(np.clip(0.5 + x[decision.action] @ theta, 0, 1)))
        policy.finish()
    assert np.linalg.norm(policy.state.mean[:D] - theta) < 0.1
    assert abs(policy.state.mean[D]) < 0.05


def test_the_same_releases_carry_two_guarantees():
    policy = ap.policy("noise-aware-joint", dimension=3, rounds=100, epsilon=1.0, delta=1e-5, source=Secure())
    statement = policy.guarantee
    (rewards,) = statement.also
    assert (statement.unit, statement.neighbours, rewards.unit, rewards.neighbours) == (
        "joint",
        "replace",
        "event",
        "replace",
    )
    assert statement.epsilon == rewards.epsilon == pytest.approx(1.0, rel=1e-6)
    assert statement.mu == rewards.mu == pytest.approx(1 / privacy.gaussian_sigma(1.0, 1e-5))
    assert statement.exact
    assert rewards.exact
    hidden = privacy.CONDITIONS["own-action-hidden"]
    assert hidden in statement.assumptions
    assert hidden not in rewards.assumptions
    for one in (statement, rewards):
        assert privacy.CONDITIONS["independent-rounds"] in one.assumptions
        assert privacy.CONDITIONS["exact-noise"] in one.enforced
        assert privacy.CONDITIONS["public-features"] not in (*one.assumptions, *one.enforced)
    text = str(statement)
    assert "the context and the reward of any one round, against everyone who does not see that round's action" in text
    assert "The same releases also protect the value of any one reward, against everyone" in text
    assert text.count("It holds only if you keep to:") == 2
    assert "The same releases also protect" in statement.sentence
    stored = json.loads(statement.to_json())
    assert stored["also"][0]["unit"] == "event"
    assert Guarantee.from_json(statement.to_json()) == statement
    tampered = {**stored, "also": [{**stored["also"][0], "epsilon": 0.5}]}
    with pytest.raises(InputError, match="to say what the fields say"):
        Guarantee.from_json(json.dumps(tampered))
    with pytest.raises(InputError, match="to be a list of guarantees"):
        Guarantee.from_json(json.dumps({**stored, "also": "event"}))


def test_simulated_noise_says_of_both_that_nobody_is_protected():
    statement = settings().guarantee()
    assert statement.simulated
    assert statement.also[0].simulated
    assert statement.sentence.startswith("SIMULATED NOISE, NOBODY IS PROTECTED.")


def test_contexts_cost_the_noise_of_rewards_alone():
    ours = settings(epsilon=2.0)
    theirs = policies.settings("noise-aware-greedy", {"dimension": D, "rounds": ROUNDS, "epsilon": 2.0})
    assert ours.noise_multiplier == theirs.noise_multiplier


def test_exact_noise_is_saved_and_continued_and_refuses_a_second_time(tmp_path):
    made = settings(horizon=30, rounds=30)
    policy, rng = Policy(made, source=Secure()), np.random.default_rng(2)
    for _ in range(40):  # beyond the rounds planned: it goes on
        policy.learn(policy.decide(rng.normal(size=(3, D))), 1.0)
    policy.save(tmp_path / "policy")
    before, version = policy.state, policy.version
    again = ap.load(tmp_path / "policy")
    assert same_state(again.state, before)
    for _ in range(30):
        again.learn(again.decide(rng.normal(size=(3, D))), 0.0)
    assert again.version > version > 3
    with pytest.raises(InputError):
        ap.load(tmp_path / "policy")


def test_a_missing_reward_counts_as_the_centre_and_a_base_rate_is_one():
    assert settings().missing == settings().plan.centre == 0.5
    told = settings(base_rate=0.1)
    assert told.missing == told.plan.centre == 0.1
    assert told.plan.scales[-1] == 2 * (1 - 102 / 1024)  # of (r - c) e; that of products is as it was
    np.testing.assert_array_equal(told.plan.scales[:9], settings().plan.scales[:9])
    assert settings().guarantee().exact
    assert not told.guarantee().exact  # the constant b keeps two rows from being opposite
    assert told.guarantee().epsilon == settings().guarantee().epsilon


def test_logs_are_refused_as_their_contexts_are_public():
    log = pl.DataFrame({"action": [0, 1] * 50, "reward": [1.0, 0.0] * 50, "propensity": [0.5] * 100})
    with pytest.raises(InputError, match="contexts of a log are taken as public"):
        ap.evaluate(log, ["noise-aware-joint"], ["replay"], epsilon=1.0)


def test_it_learns_about_as_much_as_with_public_contexts_and_more_than_its_rivals():
    """8 seeds of the paper's world in 10 dimensions: far below the jointly private rival, near ours on public ones."""
    place = environment("synthetic", {"dimension": 10})

    def regret(name, **options):
        made = policy_settings(name, place, 5_000, {"epsilon": 2.0, **options})
        return float(np.mean([run.regret for run in run_all([made], place, range(8))[0]]))

    ours = regret("noise-aware-joint")
    assert ours < 1.35 * regret("noise-aware-greedy", channel="gaussian")
    assert ours < 0.7 * regret("jdp-linucb-gaussian", calibration="tight", release="batched")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"v": -1.0}, r"Expected v=-1\.0 >= 0"),
        ({"batch_size": 100}, "Expected batch_size=100 <= 60"),
        ({"noise": "tree"}, "Expected noise='tree' in"),
        ({"intercept": 1.0}, "intercept"),
        ({"base_rate": 0.0}, "base_rate"),
        ({"growth": 1.0, "rounds": 10_000, "batch_size": 1}, "Expected batches=3048 <= 2048"),
    ],
)
def test_refuses_bad_settings(options, message):
    with pytest.raises(InputError, match=message):
        settings(**options)


def test_settings_of_a_stored_plan_are_the_stored_ones():
    made = settings()
    other = dataclasses.replace(made, noise="sqrt").under(made.plan)
    assert other.plan is made.plan
    np.testing.assert_array_equal(other.learner().decoder, made.learner().decoder)


SECRET, DIAGNOSIS = 0.1234567, "sleeplessness"


def said(error):
    """All texts of an exception: of its own, of its attributes, and of those that it came from, shown or not."""
    texts = []
    while error is not None:
        texts += [repr(error), str(vars(error))]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def expect_refusals(*calls):
    """Each of these calls (function, arguments) is refused, and no text of the refusal holds a secret."""
    for function, *arguments in calls:
        with pytest.raises((InputError, ValueError)) as refusal:
            function(*arguments)
        texts = said(refusal.value)
        assert str(SECRET)[2:] not in texts
        assert DIAGNOSIS not in texts


@pytest.mark.parametrize("name", ["noise-aware-joint", "ldp-linucb"])
@pytest.mark.parametrize("source", [{"seed": 0}, {"source": Secure()}], ids=["simulated", "exact"])
def test_no_refusal_repeats_a_context(name, source):
    """Candidates are private here, and whoever reads the logs must not learn them from what was wrong with one."""
    policy = ap.policy(name, dimension=D, rounds=ROUNDS, **source)
    catalogue = ap.Catalogue(np.eye(D))
    rows = [[SECRET, DIAGNOSIS, 0.1], [SECRET, math.nan, 0.1], [SECRET] * 4, {"diagnosis": DIAGNOSIS}, DIAGNOSIS, SECRET]
    for row in [*rows, [[SECRET], SECRET]]:
        expect_refusals(
            (policy.decide, [row]),
            (policy.decide, row),
            (policy.decide_many, [[row], [row]]),
            (policy.propensities, [row]),
            (policy.observe, row, 0.5),
            (partial(policy.decide, among=[row]), catalogue),
        )
    expect_refusals((policy.decide, [[SECRET, 0.5, 0.1], [0.3]]), (policy.decide, [[1e200, SECRET, 0.0]]))
    assert (policy.decided, policy.round) == (0, 0)


@pytest.mark.parametrize(
    "field",
    [
        {"name": "age", "kind": "number", "low": 0, "high": 1},
        {"name": "hour", "kind": "cyclic", "period": 24},
        {"name": "ill", "kind": "category", "values": ["a", "b"], "other": False},
        {"name": "place", "kind": "hashed", "buckets": 4},
        {"name": "rest", "kind": "vector", "length": 2, "norm": 1},
    ],
    ids=lambda field: field["kind"],
)
def test_no_refusal_of_a_featuriser_repeats_a_context(field):
    """It serves policies whose contexts are private, too."""
    made = ap.Featuriser.from_dict({"context": [field], "items": {"kind": "one-hot", "most": 3}})
    name, kinds = field["name"], field["kind"]
    odd = [[SECRET, [DIAGNOSIS]], {DIAGNOSIS: 1}, DIAGNOSIS.encode(), [[SECRET], SECRET], [DIAGNOSIS] * 2]
    for value in odd if kinds == "hashed" else [*odd, DIAGNOSIS]:
        expect_refusals(
            (made.build, {name: value}, [0, 1]),
            (made.context_vectors, [{name: value}]),
            (made.build, [value], [0, 1]),
        )
    far = [50 + SECRET] * made.context_length
    expect_refusals(
        (made.build, {DIAGNOSIS: 1, name: None}, [0, 1]),
        (made.build, far, [0, 1]),
        (made.context_vectors, DIAGNOSIS),
        (made.context_vectors, [DIAGNOSIS]),
    )
    bare = ap.Featuriser.from_dict({"items": {"kind": "one-hot", "most": 3}, "interactions": "none"})
    expect_refusals((bare.build, {DIAGNOSIS: 1}, [0, 1]))
