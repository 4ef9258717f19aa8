"""coba's own experiments drive our learners: the real package, with every kind of context and action that it has."""

import copy
import pickle

import coba as cb
import numpy as np
import pytest
from coba.context import CobaContext, NullLogger
from coba.primitives import Categorical
from coba.safety import SafeLearner

import adaprivate as ap
from adaprivate.adapters import CobaLearner, plain_features
from adaprivate.check import InputError

ACTIONS = ["a", "b", "c"]
FEATURES = plain_features(2, 3)


def interactions(count=60, seed=0, actions=ACTIONS):
    """The best action is the one that lies in the context's direction."""
    rng = np.random.default_rng(seed)
    ways = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    for _ in range(count):
        angle = rng.uniform(0, 2 * np.pi)
        context = (float(np.cos(angle)), float(np.sin(angle)))
        yield cb.SimulatedInteraction(context, actions, (ways @ context > 0.5).astype(float).tolist())


class World:
    """An environment from interactions."""

    def __init__(self, made, **params):
        self._made, self.params = list(made), params

    def read(self):
        return self._made


@pytest.fixture(autouse=True)
def raised(monkeypatch):
    """coba notes what learners raise and goes on; here it stops."""

    class Raises(NullLogger):
        def log(self, message):
            if isinstance(message, Exception):
                raise message
            return super().log(message)

    monkeypatch.setattr(CobaContext, "_logger", Raises())


def played(learner, made, **how):
    return list(cb.SequentialCB(["reward", "action", "probability"], **how).evaluate(World(made), learner))


@pytest.mark.parametrize(
    ("name", "options"), [("noise-aware", {}), ("rr-linucb", {}), ("adaprivate-ts", {"batch_size": 20})]
)
def test_it_plays_as_the_policy_itself_does(name, options):
    """Asked and told through coba: the same choices as by decide and learn, round for round."""
    learner = CobaLearner(name, FEATURES, rounds=300, seed=3, epsilon=4.0, **options)
    found = played(learner, interactions(300))
    policy = ap.policy(name, dimension=FEATURES.dimension, rounds=300, seed=3, epsilon=4.0, **options)
    for row, one in zip(found, interactions(300), strict=True):
        decision = policy.decide(FEATURES.build({"context": one["context"]}, [0, 1, 2]), propensity=True)
        policy.learn(decision, one["rewards"][decision.action])
        assert (row["action"], row["reward"]) == (ACTIONS[decision.action], one["rewards"][decision.action])
        assert row["probability"] == pytest.approx(decision.propensity, abs=1e-12)


def test_an_experiment_beside_cobas_own_learners():
    """The table of learners says what is promised; each environment meets a copy that has learned nothing yet."""
    learner = CobaLearner("noise-aware", FEATURES, rounds=400, seed=1, epsilon=20.0)
    worlds = [World(interactions(400, seed), seed=seed) for seed in (0, 1)]
    result = cb.Experiment(worlds, [learner, cb.RandomLearner()]).run(quiet=True, processes=1)
    rows = list(result.learners.to_dicts())
    assert [row["family"] for row in rows] == ["noise-aware", "Random"]
    assert rows[0]["epsilon"] == 20.0
    assert rows[0]["guarantee"].startswith("SIMULATED NOISE, NOBODY IS PROTECTED.")
    assert learner._made is None  # both played a copy
    rewards = {}
    for row in result.interactions.to_dicts():
        rewards.setdefault((row["learner_id"], row["environment_id"]), []).append(row["reward"])
    for world in (0, 1):
        assert len(rewards[0, world]) == 400
        assert np.mean(rewards[0, world]) > np.mean(rewards[1, world]) + 0.2  # 0.9 and 0.35, 0.024 each


def test_batches_are_asked_before_they_are_told():
    """In batches of 7 all 7 are predicted by what was known before; every reward still counts."""
    learner = CobaLearner("rr-linucb", FEATURES, rounds=140, seed=1, epsilon=8.0)
    batched = cb.Environments(World(interactions(140))).batch(7)[0]
    found = list(cb.SequentialCB().evaluate(batched, learner))
    learner.policy.finish()
    assert len(found) == learner.policy.round == 140
    policy = ap.policy("rr-linucb", dimension=FEATURES.dimension, rounds=140, seed=1, epsilon=8.0)
    made = list(interactions(140))
    for start in range(0, 140, 7):
        part = made[start : start + 7]
        decisions = policy.decide_many([FEATURES.build({"context": one["context"]}, [0, 1, 2]) for one in part])
        for decision, one, row in zip(decisions, part, found[start : start + 7], strict=True):
            assert row["action"] == ACTIONS[decision.action]
            policy.learn(decision, one["rewards"][decision.action])


def test_it_learns_from_what_others_decided():
    """Off-policy: the logged actions' rewards are told, and then it knows what is best."""
    made = list(interactions(600))
    rng = np.random.default_rng(1)
    logged = []
    for one in made:
        k = int(rng.integers(3))
        logged.append(cb.LoggedInteraction(one["context"], ACTIONS[k], one["rewards"][k], 1 / 3, actions=ACTIONS))
    for policy in ("noise-aware", "rr-linucb"):
        learner = CobaLearner(policy, FEATURES, rounds=600, seed=1, epsilon=20.0)
        played(learner, logged, learn="off", eval="ips")
        learner.policy.finish()
        assert learner.policy.round == 600
        right = [one["rewards"][ACTIONS.index(learner.predict(one["context"], ACTIONS)[0])] for one in interactions(200, 9)]
        assert np.mean(right) > 0.6  # at random 0.33; of every three contexts some have no good action at all


@pytest.mark.parametrize("policy", ["noise-aware", "adaprivate-ts"])
def test_scores_are_probabilities(policy):
    """Those of Thompson sampling are computed to about 1e-5, each by itself."""
    options = {"batch_size": 10} if policy == "adaprivate-ts" else {}
    learner = CobaLearner(policy, FEATURES, rounds=100, seed=0, epsilon=1.0, **options)
    played(learner, interactions(40))
    safe = SafeLearner(learner)
    assert safe.has_score
    for one in interactions(5, 7):
        scores = [safe.score(one["context"], ACTIONS, action) for action in ACTIONS]
        assert sum(scores) == pytest.approx(1.0, abs=1e-3)
        assert safe.predict(one["context"], ACTIONS)[1] in scores
    if policy == "adaprivate-ts":
        assert min(scores) > 0.0


def test_without_probabilities_it_predicts_an_action_alone():
    learner = CobaLearner("rr-linucb", FEATURES, rounds=60, seed=0, epsilon=1.0, probabilities=False)
    found = played(learner, interactions(30))
    assert all("probability" not in row for row in found)
    assert {row["action"] for row in found} <= set(ACTIONS)


HOUR = {"name": "hour", "kind": "number", "low": 0, "high": 24}
DEVICE = {"name": "device", "kind": "category", "values": ["phone", "desktop"], "other": False}
ONE_HOT = {"kind": "one-hot", "most": 3}


@pytest.mark.parametrize(
    ("fields", "items", "context", "actions", "meant"),
    [
        ([], ONE_HOT, None, ["a", "b"], (None, [0, 1])),
        ([HOUR], ONE_HOT, 6, ["a", "b"], ({"hour": 6}, [0, 1])),
        ([HOUR], ONE_HOT, (6,), ["a", "b"], ({"hour": 6}, [0, 1])),
        ([HOUR, DEVICE], ONE_HOT, (6, "phone"), [(1, 0), (0, 1)], ({"hour": 6, "device": "phone"}, [0, 1])),
        (
            [HOUR, DEVICE],
            ONE_HOT,
            {"hour": 6, "device": "phone"},
            [{"x": 1}, {"y": 2}],
            ({"hour": 6, "device": "phone"}, [0, 1]),
        ),
        (
            [{"name": "v", "kind": "vector", "length": 3}],
            ONE_HOT,
            (0.1, 0.2, 0.3),
            [3, 4],
            ({"v": [0.1, 0.2, 0.3]}, [0, 1]),
        ),
        (
            [{"name": "v", "kind": "vector", "length": 3}],
            ONE_HOT,
            {"0": 0.1, 2: 0.3},
            [3, 4],
            ({"v": [0.1, 0, 0.3]}, [0, 1]),
        ),
        ([{"name": "v", "kind": "vector", "length": 1}], ONE_HOT, 0.3, [3, 4], ({"v": [0.3]}, [0, 1])),
        ([HOUR], {"kind": "features", "length": 2}, (6,), [(0.6, 0.8), {1: 0.5}], ({"hour": 6}, [[0.6, 0.8], [0.0, 0.5]])),
        ([HOUR], {"kind": "features", "length": 1}, (6,), [0.5, 1.0], ({"hour": 6}, [[0.5], [1.0]])),
    ],
)
def test_contexts_and_actions_of_every_kind(fields, items, context, actions, meant):
    """Each goes through coba's own last step, and becomes the features that the featuriser makes of what is meant."""
    featuriser = ap.Featuriser(fields, items)
    learner = CobaLearner("rr-linucb", featuriser, rounds=10, seed=0, epsilon=1.0)
    assert np.array_equal(learner._candidates(context, actions), featuriser.build(*meant))
    found = played(learner, [cb.SimulatedInteraction(context, actions, [0.0, 1.0])] * 6)
    assert len(found) == 6


def test_categories_come_as_coba_encodes_them():
    """coba makes one-hot numbers of its categoricals before learners see them: a vector field takes them."""
    featuriser = plain_features(4, 2, norm=2.0)
    made = [
        cb.SimulatedInteraction(
            (0.5, Categorical(word, ["x", "y", "z"])), [Categorical(a, ["p", "q"]) for a in "pq"], [1, 0]
        )
        for word in "xyzzy"
    ]
    learner = CobaLearner("rr-linucb", featuriser, rounds=10, seed=0, epsilon=1.0)
    assert len(played(learner, made)) == 5
    assert list(learner._places) == [(1, 0), (0, 1)]


def test_rewards_of_another_range():
    """-1 and 1 are the bits 0 and 1: the same play. What lies outside is refused, and not repeated."""
    bits = played(CobaLearner("rr-linucb", FEATURES, rounds=80, seed=2, epsilon=2.0), interactions(80))
    signs = [cb.SimulatedInteraction(o["context"], ACTIONS, [2 * r - 1 for r in o["rewards"]]) for o in interactions(80)]
    learner = CobaLearner("rr-linucb", FEATURES, rounds=80, seed=2, epsilon=2.0, reward_range=(-1, 1))
    assert [row["action"] for row in played(learner, signs)] == [row["action"] for row in bits]
    with pytest.raises(InputError, match=r"^Expected reward to be a number from -1 to 1; it is private and not shown\.$"):
        learner.learn((0.0, 1.0), "a", 1.7)
    assert learner.policy.decided == 80


def test_rewards_from_zero_are_scaled_too():
    """0 and 5 are the bits 0 and 1: the same play, and 2.5 is one half."""
    bits = played(CobaLearner("rr-linucb", FEATURES, rounds=80, seed=2, epsilon=2.0), interactions(80))
    fives = [cb.SimulatedInteraction(o["context"], ACTIONS, [5 * r for r in o["rewards"]]) for o in interactions(80)]
    learner = CobaLearner("rr-linucb", FEATURES, rounds=80, seed=2, epsilon=2.0, reward_range=(0, 5))
    assert [row["action"] for row in played(learner, fives)] == [row["action"] for row in bits]
    assert learner._earned(2.5) == 0.5


def test_exact_noise_without_a_seed():
    """The guarantee is no simulation's. A learner in use is not copied: two would release the same batch."""
    learner = CobaLearner("noise-aware", FEATURES, rounds=60, epsilon=1.0)
    assert learner.params["guarantee"].startswith("This protects the value of any one reward")
    assert copy.deepcopy(learner).params == pickle.loads(pickle.dumps(learner)).params == learner.params
    played(learner, interactions(30))
    assert learner.policy.source is not None
    with pytest.raises(InputError):
        copy.deepcopy(learner)


@pytest.mark.parametrize(
    ("name", "options"), [("noise-aware-joint", {}), ("noise-aware", {"local": True, "channel": "flip"})]
)
def test_exact_noise_is_for_single_rewards(name, options):
    """What is promised where contexts or actions are hidden does not hold in a harness that sees them."""
    learner = CobaLearner(name, FEATURES, rounds=60, epsilon=1.0, **options)
    for use in (lambda: learner.params, lambda: learner.predict((0.0, 1.0), ACTIONS)):
        with pytest.raises(InputError, match="to protect single rewards: harnesses see contexts and actions"):
            use()


def test_what_the_guarantee_rests_on_is_said_where_it_is_stated():
    """coba's learn="dm", "dr" and "ips" make rewards of their own: the learner cannot see it, so it says it beforehand."""
    learner = CobaLearner("noise-aware", FEATURES, rounds=60, epsilon=25.0, delta=0.03, reward_range=(-9, 9))
    sentence, *rest = learner.params["guarantee"].split("\n")
    assert sentence.startswith("This protects the value of any one reward")
    assert [line.partition(" is above")[0] for line in rest[:2]] == ["Remark: epsilon = 25", "Remark: delta = 0.03"]
    assumed = rest[rest.index("It holds only if you keep to:") + 1 :]
    assert f"  - {ap.privacy.CONDITIONS['own-reward']}" in assumed
    assert f"  - {ap.privacy.CONDITIONS['no-replay']}" in assumed
    logged = [
        cb.LoggedInteraction(one["context"], "a", one["rewards"][0], 1 / 3, actions=ACTIONS) for one in interactions(4)
    ]
    played(learner, logged, learn="ips", eval="ips")
    assert learner.policy.decided > 0


def test_nothing_offered_has_no_probability_and_no_place():
    learner = CobaLearner("rr-linucb", FEATURES, rounds=9, seed=0)
    with pytest.raises(InputError, match=r"^Expected action='z' to be one of the actions offered\.$"):
        learner.score((0.0, 1.0), ACTIONS, "z")
    for nested in (["a", [1, 2]], {"a": [1]}):
        with pytest.raises(
            InputError, match=r"^Expected action=.* to be a value, a list of values, or a mapping to values"
        ):
            learner.predict((0.0, 1.0), [nested, "b"])
    assert learner.score((0.0, 1.0), ACTIONS, "b") >= 0


def test_what_is_not_private_says_so():
    assert CobaLearner("linucb", FEATURES, rounds=60, seed=0).params["guarantee"] == "not private"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: CobaLearner("dp-se", FEATURES, rounds=9, seed=0), "not to be one on fixed arms"),
        (lambda: CobaLearner("noise-aware", FEATURES, rounds=9, seed=0, unit="user"), "nobody here says whose a round is"),
        (lambda: CobaLearner("noise-aware", FEATURES, rounds=9, seed=0, dimension=9), "option='dimension' not to be given"),
        (lambda: CobaLearner("noise-aware", FEATURES, rounds=9, seed=0, reward_range=(1, 1)), r"reward_range\[1\]=1 > 1"),
        (lambda: CobaLearner("rr-linucb", FEATURES, rounds=9, seed=0).predict((0, 1), []), "actions=.. to be a list"),
        (lambda: CobaLearner("rr-linucb", FEATURES, rounds=9, seed=0).predict((0, 1), list("abcd")), "<= 2"),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()
