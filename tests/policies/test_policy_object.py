"""A policy in use: it serves what the simulation plays, and is made from clear settings."""

import inspect

import numpy as np
import pytest

import adaprivate
from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure, Simulated
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import run_one

D, ROUNDS = 5, 60
WORLD = environments.environment("synthetic", {"dimension": D, "arms": 30, "candidates": 4})
CASES = [
    ("random", {}),
    ("lints", {"centre": 0.5}),
    ("linucb", {}),
    ("adaprivate-ts", {"batch_size": 7, "forced_exploration": 2.0}),
    ("adaprivate-ts", {"batch_size": 7, "noise": "tree", "theta_0": (0.1, 0.0, 0.0, 0.3, -0.2)}),
    ("adaprivate-ts-adaptive", {"batch_size": 7, "schedule": "growing"}),
    ("adaprivate-ts-amp", {"batch_size": 7}),
    ("adaprivate-ucb", {"batch_size": 7, "centre": 0.5}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("seed", [0, 12, 18])
def test_serving_is_the_simulation(kit, name, options, seed, replay):
    """Seeds 12 and 18 included: candidates of norm 1 tie there up to rounding in round one."""
    policy = kit.made(name, seed, rounds=300, **options)
    candidates, means, rewards = replay(WORLD, seed, 300)
    lost = earned = 0.0
    for t in range(300):
        decision = policy.decide(candidates[t])
        policy.learn(decision, float(rewards[t, decision.action]))
        lost += means[t].max() - means[t, decision.action]
        earned += rewards[t, decision.action]
    policy.advance()
    run = run_one(policy.settings, WORLD, seed, policy.settings.noise_tables([seed])[0])
    assert earned == run.reward
    assert lost == pytest.approx(run.regret, rel=1e-12)
    kit.assert_same_state(policy.state, run.state, atol=1e-9)
    assert policy.clipped == 0


@pytest.mark.parametrize("seed", [12, 18])
def test_serving_is_the_simulation_on_the_papers_world(seed, replay):
    world = environments.environment("synthetic")
    settings = policies.settings("linucb", {"dimension": 20, "rounds": 200})
    policy = Policy(settings, seed=seed, source=None)
    candidates, means, rewards = replay(world, seed, 200)
    lost = 0.0
    for t in range(200):
        decision = policy.decide(candidates[t])
        policy.learn(decision, float(rewards[t, decision.action]))
        lost += means[t].max() - means[t, decision.action]
    assert lost == pytest.approx(run_one(settings, world, seed, settings.noise_tables([seed])[0]).regret, rel=1e-12)


def test_decisions_say_what_was_chosen_and_known(kit):
    policy = kit.made(batch_size=7)
    candidates, rewards = kit.offers()
    for t in range(ROUNDS):
        decision = policy.decide(candidates[t])
        assert decision.version == policy.version == t // 7 == policy.state.learner.scalars[0]["batch"]
        assert decision.round == policy.round == t
        assert decision.propensity is None
        x = candidates[t, decision.action]
        np.testing.assert_allclose(decision.features, x / max(1, np.linalg.norm(x)), rtol=1e-14)
        policy.learn(decision, float(rewards[t]))


def test_lists_integers_and_other_layouts_are_the_same_candidates(kit):
    candidates, _ = kit.offers()
    action = kit.made().decide(candidates[0]).action
    for form in (candidates[0].tolist(), np.asfortranarray(candidates[0]), tuple(map(tuple, candidates[0]))):
        assert kit.made().decide(form).action == action
    assert kit.made().decide(np.eye(D, dtype=int)).action in range(D)
    untouched = 3 * candidates[0]
    before = untouched.copy()
    kit.made().decide(untouched)
    assert np.array_equal(untouched, before)  # clipping is done on a copy


def test_features_over_norm_1_are_clipped_and_counted(kit):
    policy = kit.made("linucb")
    unit = np.eye(D)[:3]
    policy.learn(policy.decide(unit * np.array([[1.0], [2.0], [50.0]])), 1.0)
    assert policy.clipped == 2
    policy.learn(policy.decide(unit), 1.0)
    assert policy.clipped == 2
    long, short = kit.made(seed=4), kit.made(seed=4)
    for _ in range(20):
        one, two = long.decide(unit * 1e3), short.decide(unit)
        assert one.action == two.action
        assert np.linalg.norm(one.features) <= 1 + 1e-15
        long.learn(one, 1.0)
        short.learn(two, 1.0)
    long.advance()
    short.advance()
    kit.assert_same_state(long.state, short.state, atol=1e-12)


@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_deciding_twice_counts_the_first_as_unrewarded(kit, centre):
    candidates, rewards = kit.offers()
    for build in (lambda: kit.made(centre=centre), lambda: kit.made("linucb", centre=centre)):
        twice, told = build(), build()
        for t in range(20):
            twice.decide(candidates[t])
            told.learn(told.decide(candidates[t]), None)
        assert twice.round == told.round == 19  # whether the last one was rewarded does not show
        twice.advance()
        told.advance()
        assert twice.round == told.round == 20
        twice.learn(twice.decide(candidates[20]), float(rewards[20]))
        told.learn(told.decide(candidates[20]), float(rewards[20]))
        assert kit.everything(twice) == kit.everything(told)
        none, at_centre = build(), build()
        none.learn(none.decide(candidates[0]), None)
        at_centre.learn(at_centre.decide(candidates[0]), centre)
        assert kit.everything(none) == kit.everything(at_centre)
        none.advance()
        at_centre.advance()
        assert kit.everything(none) == kit.everything(at_centre)


SETUP = {"dimension": D, "rounds": ROUNDS, "batch_size": 7}
MISTAKES = [
    ({"name": "nonesuch", "seed": 0}, r"^Expected policy='nonesuch' in \{"),
    (
        {"name": "adaprivate-ts", **SETUP},
        r"^Expected seed=0, to try things out, or source=ap\.Secure\(\), for real",
    ),
    (
        {"name": "adaprivate-ts", **SETUP, "seed": 0, "source": Secure()},
        r"^Expected seed=0 not to come with source=Secure\(\): it repeats the noise\.$",
    ),
    ({"name": "adaprivate-ts", **SETUP, "source": Simulated(0)}, r"^Expected source="),
    ({"name": "adaprivate-ts", **SETUP, "seed": -1}, r"^Expected seed=-1 >= 0"),
    ({"name": "adaprivate-ts", **SETUP, "seed": 1.5}, r"^Expected seed=1\.5 to be a whole number"),
    ({"name": "adaprivate-ts", **SETUP, "seed": 0, "alpha": 1.0}, r"^Expected option='alpha' in \{"),
    ({"name": "lazy-dp-ts", "seed": 0, "rounds": 10}, r"^Expected dimension to be given for lazy-dp-ts\.$"),
    ({"name": "lints", "dimension": 2, "rounds": 9, "source": Secure()}, r"^Expected source='Secure\(\)' for a policy"),
    ({"name": "adaprivate-ts-amp", **SETUP, "source": Secure()}, r"^Expected sampling_rate=0\.5 == 1 with exact noise"),
    ({"name": "adaprivate-ts", **SETUP, "statistics": "ab", "source": Secure()}, r"^Expected statistics='ab' == b"),
    ({"name": "adaprivate-ts", **SETUP, "seed": 0, "epsilon": -1.0}, r"^Expected epsilon=-1\.0 > 0"),
    ({"name": "adaprivate-ts", **SETUP, "seed": 0, "theta_0": (1.0,)}, r"^Expected theta_0\.shape=\(1,\) == \(5,\)"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_in_making_one_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        adaprivate.policy(**arguments)


@pytest.mark.parametrize("name", policies.names())
def test_every_setting_can_be_given_by_name(name):
    """No setting of a policy may share its name with an argument of ``adaprivate.policy`` itself."""
    assert not set(policies.options(name)) & set(inspect.signature(adaprivate.policy).parameters)


def borderline():
    """Vectors whose squared norm is 1e300 up to rounding: finite if added up in one order, and not in another."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        some = rng.random(2) * 0.55e150
        last = np.sqrt(1e300 - (some * some).sum())
        for ulps in (0, 1, -1):
            yield np.array([*some, last * (1 + ulps * 2.2e-16)])


CALLS = {
    "decide": lambda policy, rows: policy.decide(rows),
    "odds": lambda policy, rows: policy.decide(rows, propensity=True),
    "many": lambda policy, rows: policy.decide_many(rows[None]),
    "consider": lambda policy, rows: policy.consider(rows),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("window", [0, 2])
def test_candidates_at_the_edge_of_what_is_finite_are_refused_or_clipped(call, window):
    policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=4000, batch_size=10, seed=1, reward_window=window)
    policy.decide(np.eye(3))
    for row in borderline():
        decided, counted, clipped = policy.decided, policy.round, policy.clipped
        try:
            CALLS[call](policy, np.vstack([0.5 * np.eye(3)[:2], row]))
        except InputError as error:
            assert str(error) == "Expected candidates to have norms <= 1e150."  # noqa: PT017
            assert (policy.decided, policy.round, policy.clipped) == (decided, counted, clipped)
            policy.decide(np.eye(3))
        else:
            assert policy.clipped == clipped + (call != "consider")
    assert all(np.linalg.norm(entry.features) <= 1 + 1e-9 for entry in policy._open.values())


@pytest.mark.parametrize("call", CALLS)
def test_what_compiled_code_finds_infinite_is_refused_whatever_was_found_before(call, monkeypatch):
    policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=40, batch_size=10, seed=1)
    monkeypatch.setattr(policy._engine, "choose_many", lambda candidates, actions: -1)
    with pytest.raises(InputError, match=r"^Expected candidates to have norms <= 1e150\.$"):
        CALLS[call](policy, np.eye(3))
    assert (policy.decided, policy.clipped) == (0, 0)
    monkeypatch.undo()
    assert policy.decide(np.eye(3)).round == 0
