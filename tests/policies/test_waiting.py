"""A policy not told its dimension takes it from the first candidates, and is then the policy it would have been."""

import copy
import logging
import pickle
import threading

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import check, policies
from adaprivate.runtime.policy import Policy

D = 4
LINEAR = [name for name in policies.names() if not policies.settings_class(name).fixed_arms]
RNG = np.random.default_rng(3)
OFFERED = RNG.normal(size=(200, 5, D)) / 4


def played(policy, rounds=OFFERED, user=None):
    found = []
    for candidates in rounds:
        decision = policy.decide(candidates, user=user)
        policy.learn(decision, float(decision.action % 2))
        found.append(decision.action)
    return found


@pytest.mark.parametrize("name", LINEAR)
def test_it_is_the_policy_it_would_have_been(name):
    options = {"rounds": 400, "seed": 5} | ({"epsilon": 2.0} if "epsilon" in policies.options(name) else {})
    told, waits = ap.policy(name, dimension=D, **options), ap.policy(name, **options)
    rounds = OFFERED[:20]
    assert isinstance(waits, Policy)
    user = "somebody" if told._needs_user else None
    assert played(waits, rounds, user) == played(told, rounds, user)
    assert type(waits) is Policy
    assert waits.settings == told.settings
    assert str(waits.guarantee) == str(told.guarantee)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("exact", [False, True])
def test_a_guarantee_before_is_the_guarantee_after(name, exact):
    """Said beforehand only where it is the same in every dimension: held against six, from 1 to 300."""
    options = {"rounds": 500} | ({"source": ap.Secure()} if exact else {"seed": 0})
    try:
        before = ap.policy(name, **options)
    except check.InputError:
        with pytest.raises(check.InputError):
            ap.policy(name, dimension=D, **options)
        return
    after = [ap.policy(name, dimension=d, **options).guarantee for d in (1, 2, 3, 17, 40, 300)]
    if all(one == after[0] for one in after):
        assert before.guarantee == after[0]
    else:  # the last bits of the messages' slack, too
        assert name in ("mishra-thakurta-linucb", "mishra-thakurta-lints", "ldp-linucb")
        with pytest.raises(check.InputError, match="Expected dimension to be given: the guarantee rests on it"):
            _ = before.guarantee
        assert "the guarantee rests on it" in before._repr_html_()


def first(kind):
    """Each way to show it candidates."""
    return {
        "decide": lambda policy: policy.decide(OFFERED[0]),
        "decide_many": lambda policy: policy.decide_many(OFFERED[:3]),
        "observe": lambda policy: policy.observe(OFFERED[0, 0], True),
        "consider": lambda policy: policy.consider(OFFERED[0]),
        "propensities": lambda policy: policy.propensities(OFFERED[0]),
    }[kind]


@pytest.mark.parametrize("kind", ["decide", "decide_many", "observe", "consider", "propensities"])
@pytest.mark.parametrize("exact", [False, True])
def test_all_that_shows_candidates_tells_the_dimension(kind, exact):
    policy = ap.NoiseAware(rounds=50, **({"source": ap.Secure()} if exact else {"seed": 0}))
    first(kind)(policy)
    assert policy.settings.dimension == D
    with pytest.raises(check.InputError, match=r"candidates\.shape"):
        policy.decide(np.eye(D + 1))


def test_what_is_known_before(tmp_path):
    policy = ap.NoiseAware(rounds=50, source=ap.Secure(), reward_window=2)
    assert repr(policy) == "<noise-aware: dimension not known before the first candidates are shown, exact noise>"
    assert "dimension" in policy._repr_html_()
    assert policy.guarantee.epsilon == pytest.approx(1.0)
    assert (policy.decided, policy.round, policy.version, policy.reward_window) == (0, 0, 0, 2)
    assert policy.open_decision is None
    policy.advance()
    policy.finish()
    other = ap.NoiseAware(dimension=2, rounds=50, seed=0).decide(np.eye(2))
    with pytest.raises(ap.RewardRefusedError, match="to be one of policy") as refused:
        policy.learn(other, True)
    assert refused.value.reason == "foreign"
    for asked in (
        lambda: policy.save(tmp_path / "policy.npz"),
        lambda: policy.settings,
        lambda: policy.book,
        lambda: policy.warm_up(),
    ):
        with pytest.raises(check.InputError, match="Expected dimension to be given: it is not known before"):
            asked()
    assert not list(tmp_path.iterdir())
    with pytest.raises(AttributeError):
        _ = policy.dimensions
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(check.InputError):
            copied(policy)
        with pytest.raises(check.InputError):
            copied(ap.NoiseAware(rounds=50, seed=0))
    played(policy, OFFERED[:10])
    policy.save(tmp_path / "policy.npz")
    assert ap.load(tmp_path / "policy.npz").settings.dimension == D


def test_a_method_that_was_looked_up_before_it_began_does_its_work(tmp_path):
    policy = ap.RRLinUCB(rounds=50, seed=0)
    learn, advance, finish, save, to_bytes = (policy.learn, policy.advance, policy.finish, policy.save, policy.to_bytes)
    policy.learn(policy.decide(np.eye(3)), True)
    learn(policy.decide(np.eye(3)), False)
    advance()
    finish()
    assert policy.round == 2
    save(tmp_path / "policy.npz")
    assert to_bytes() == policy.to_bytes()
    assert ap.load(tmp_path / "policy.npz").round == 2


def test_what_is_refused_is_refused_at_once_and_leaves_it_waiting():
    for options in ({"epsilon": -1}, {"epsilom": 1}, {"seed": None}, {"reward_window": -1}, {"reward_range": (1, 0)}):
        with pytest.raises(check.InputError):
            ap.policy("noise-aware", **{"rounds": 50, "seed": 0} | options)
    for name in ("thompson", "dp-se"):
        with pytest.raises(check.InputError, match="dimension"):
            ap.policy(name, rounds=50, seed=0)
    policy = ap.NoiseAware(rounds=50, seed=0)
    for shown in ([[1.0, np.nan]], [1.0, 0.0], np.zeros((0, 3)), np.zeros((3, 0)), "x", [[1.0], [1.0, 0.0]]):
        with pytest.raises(check.InputError):
            policy.decide(shown)
        assert "not known" in repr(policy)
    policy.decide(np.eye(3))
    assert policy.settings.dimension == 3


CATALOGUE = ap.Catalogue(np.random.default_rng(2).normal(size=(1200, 3)) / 4)
REFUSED = {
    "no user": lambda p: p.decide(np.eye(3)),
    "no users": lambda p: p.decide_many(np.eye(3)[None]),
    "too few users": lambda p: p.decide_many(np.ones((2, 1, 3)), users=["a"]),
    "no user of an item": lambda p: p.decide(CATALOGUE),
    "no users of items": lambda p: p.decide_many(CATALOGUE, among=[None]),
    "an empty user": lambda p: p.observe([0.1, 0.2, 0.3], 1.0, user=""),
    "among rows": lambda p: p.decide(np.eye(3), among=[0], user="a"),
    "among no item": lambda p: p.decide(CATALOGUE, among=[1200], user="a"),
    "among none each": lambda p: p.decide_many(CATALOGUE, among=[0], users=["a"]),
    "among no items": lambda p: p.decide_many(CATALOGUE, among=[[0], [-1]], users=["a", "b"]),
    "odds of many": lambda p: p.decide(CATALOGUE, user="a", propensity=True),
    "odds of many, asked": lambda p: p.propensities(CATALOGUE),
    "few draws": lambda p: p.propensities(np.eye(3), draws=1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_first_call_that_is_refused_fixes_no_dimension(what):
    policy = ap.policy("noise-aware-ucb", rounds=100, unit="user", source=ap.Secure())
    with pytest.raises(check.InputError):
        REFUSED[what](policy)
    assert "not known" in repr(policy)
    policy.decide(np.eye(2), user="a")
    assert policy.settings.dimension == 2


def test_others_decisions_are_refused_before_the_dimension_is_taken_from_them():
    policy = ap.policy("noise-aware-ucb", rounds=100, seed=0, reward_window=2)
    with pytest.raises(check.InputError, match="to observe others"):
        policy.observe([0.1, 0.2], 1.0)
    with pytest.raises(check.InputError, match="user"):
        policy.decide(np.eye(3), user="a")
    assert "not known" in repr(policy)


def test_a_catalogue_or_a_prior_tells_the_dimension():
    assert ap.NoiseAware(rounds=50, seed=0, catalogue=((0.6, 0.0), (0.0, 0.6), (0.5, 0.5))).settings.dimension == 2
    assert ap.AdaPrivateTS(rounds=400, seed=0, theta_0=(0.1, 0.2, 0.3)).settings.dimension == 3


def test_people_are_asked_for_from_the_first_decision():
    policy = ap.NoiseAware(rounds=50, seed=0, unit="user")
    assert policy.people == {"people": 0, "counted": 0, "beyond": 0}
    with pytest.raises(check.InputError, match="user"):
        policy.decide(np.eye(3))
    policy.decide(np.eye(3), user="a")
    assert policy.people["people"] <= 1


def test_what_weakens_a_guarantee_is_logged_once(caplog):
    with caplog.at_level(logging.WARNING, logger="adaprivate"):
        policy = ap.RRLinUCB(rounds=50, epsilon=30.0, source=ap.Secure())
        assert len(policy.remarks) == 1
        policy.decide(np.eye(3))
    assert len(caplog.records) == 1
    assert len(policy.remarks) == 1
    with caplog.at_level(logging.WARNING, logger="adaprivate"):
        assert ap.NoiseAware(dimension=3, rounds=50, unit="user", source=ap.Secure()).remarks  # a limit that is usual
    assert len(caplog.records) == 1


@pytest.mark.parametrize("turn", range(20))
def test_two_first_calls_make_one_policy(turn):
    policy = ap.RRLinUCB(rounds=100, seed=turn, reward_window=20)
    gate, found, errors = threading.Barrier(8), [], []

    def run():
        gate.wait()
        try:
            found.append(policy.decide(OFFERED[0]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(decision.round for decision in found) == list(range(8))
    assert len({decision.origin.id for decision in found}) == 1
    for decision in found:
        policy.learn(decision, True)


@pytest.mark.parametrize(
    ("method", "shown"),
    [("decide", OFFERED[0]), ("decide_many", OFFERED[:2]), ("consider", OFFERED[0]), ("propensities", OFFERED[0])],
)
def test_a_thread_that_was_about_to_begin_it_goes_on_with_what_another_began(method, shown):
    """It has looked up the method of the policy that waits, and calls it when the class is another."""
    waits = ap.policy("adaprivate-ts", rounds=400, seed=5)
    late = getattr(waits, method)
    waits.decide(OFFERED[0])
    assert type(waits) is Policy
    late(shown)
    assert waits.decided == {"decide": 2, "decide_many": 3}.get(method, 1)


def test_what_was_about_to_be_said_of_it_is_said():
    waits = ap.policy("adaprivate-ts", rounds=400, seed=5)
    late = [waits.__repr__, waits._repr_html_, waits.advance, waits.finish, waits.to_bytes]
    waits.decide(OFFERED[0])
    for method in late:
        method()


def test_it_waits_on_where_it_fails_to_begin(monkeypatch):
    waits, seen = ap.policy("adaprivate-ts", rounds=400, seed=5), []

    def facts():
        seen.append((repr(waits), str(waits.guarantee), waits.people, waits.remarks))

    def fails(self, engine):
        facts()
        raise MemoryError

    facts()
    with monkeypatch.context() as patched:
        patched.setattr(Policy, "_look_ahead", fails)
        with pytest.raises(MemoryError):
            waits.decide(OFFERED[0])
    facts()
    assert len(set(map(str, seen))) == 1
    with pytest.raises(check.InputError, match="Expected dimension to be given"):
        _ = waits.settings
    assert played(waits) == played(ap.policy("adaprivate-ts", dimension=D, rounds=400, seed=5))
