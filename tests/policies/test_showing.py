"""What policies, decisions and guarantees show of themselves: short, for notebooks too, and never a reward."""

import logging
import pickle
import warnings

import numpy as np
import pytest
from tests.reaching import reached

import adaprivate as ap
from adaprivate import privacy
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Book
from adaprivate.mechanisms.contributions import Collector
from adaprivate.runtime.decision import Open
from adaprivate.whole import WholeSum

REWARD = 0.7182818284


def guarantee(**changes):
    fields = {
        "unit": "event",
        "neighbours": "replace",
        "protects": "<any> reward",
        "epsilon": 1.0,
        "delta": 1e-5,
        "mu": None,
    }
    return privacy.Guarantee(**(fields | changes))


def test_a_guarantee_is_short_in_code_and_whole_in_a_notebook():
    found = guarantee(enforced=("this",), assumptions=("that",), also=(guarantee(unit="user"),))
    assert repr(found) == "<Guarantee: event-level, epsilon = 1, delta = 1e-05>"
    assert repr(guarantee(simulated=True)).endswith("simulated noise: nobody is protected>")
    page = found._repr_html_()
    assert "&lt;any&gt; reward" in page
    assert "<any>" not in page
    assert "<li>this</li>" in page
    assert "<li>that</li>" in page
    assert "user-level" in page


def test_remarks_on_weak_guarantees():
    assert guarantee().remarks() == guarantee().remarks(100_000) == []
    assert guarantee(epsilon=20.0).remarks() == []
    assert "epsilon = 20.1 is above 20" in str(guarantee(epsilon=20.1))
    assert "delta = 1e-05 is above 1 / 100,001" in guarantee().remarks(100_001)[0]
    assert guarantee(delta=0.0).remarks(10**9) == []


@pytest.fixture
def policy():
    options = {"dimension": 3, "rounds": 60, "batch_size": 10}
    return ap.policy("adaprivate-ts", **options, source=Secure())


def test_nothing_shown_depends_on_a_reward(policy, caplog):
    caplog.set_level(logging.DEBUG, "adaprivate")
    shown = []
    for _ in range(25):
        decision = policy.decide(np.eye(3))
        policy.learn(decision, REWARD)
        shown += [repr(decision), decision._repr_html_(), repr(policy), policy._repr_html_()]
    assert repr(decision) == f"Decision(action={decision.action}, version=2, propensity=None, round=24)"
    assert [record.getMessage() for record in caplog.records] == [
        f"adaprivate-ts: release {n}, round {10 * n}" for n in (1, 2)
    ]
    sums = {f"{REWARD * count:.4g}" for count in range(1, 26)}
    for text in [*shown, caplog.text]:
        assert "0.718" not in text
        assert not any(f"={total}" in text or f">{total}<" in text for total in sums)


def test_exact_policies_log_what_makes_them_weak(caplog):
    ap.policy("adaprivate-ts", dimension=3, rounds=60, batch_size=10, delta=0.1, source=Secure())
    assert "delta = 0.1 is above 1 / 60" in caplog.text


LONG = 2 * np.eye(3) + 0.1


def clipped_by(policy, decisions=40, candidates=LONG):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(decisions):
            policy.decide(candidates)
    return [str(found.message) for found in caught if found.category is ap.ClippedWarning]


def test_many_clipped_candidates_are_worth_one_warning(policy, caplog):
    (said,) = clipped_by(policy, candidates=[[2, 0, 0], [0, 0.5, 0], [0, 0, 0.5]])
    assert said.startswith("33% of 102 candidates were longer than 1 and were clipped")
    assert said in caplog.text


def test_candidates_that_are_all_too_long_are_worth_it_at_once(policy, caplog):
    assert clipped_by(policy, 1, [[2, 0, 0], [0, 0.5, 0], [0, 0, 0.5]]) == []
    (said,) = clipped_by(policy, 1, 100 * np.eye(3))
    assert said.startswith("All 3 candidates shown at once were longer than 1 and were clipped")
    assert said in caplog.text
    assert clipped_by(policy, 20) == []


def test_private_contexts_are_not_told_of(caplog):
    joint = ap.policy("noise-aware-joint", dimension=3, rounds=60, seed=0)
    assert clipped_by(joint) == []
    assert joint.clipped == 120
    assert "clipped" not in caplog.text


HANDED_OUT = {
    "gaussian": ("noise-aware", {"channel": "gaussian"}),
    "items": ("noise-aware", {"channel": "items"}),
    "people": ("noise-aware", {"unit": "user"}),
    "joint": ("noise-aware-joint", {}),
}


@pytest.mark.parametrize("kind", HANDED_OUT)
def test_nothing_handed_out_leads_to_a_reward(kind):
    """Decisions, guarantees, the learner, remarks and probabilities: their attributes, texts and pickles hold none."""
    name, options = HANDED_OUT[kind]
    policy = ap.policy(name, dimension=3, rounds=60, source=Secure(), batch_size=6, **options)
    rewards = np.random.default_rng(0).uniform(size=20)
    for number, reward in enumerate(rewards):
        decision = policy.decide(np.eye(3), **({"user": number % 4} if kind == "people" else {}))
        policy.learn(decision, float(reward))
    given = {"decision": decision, "token": decision.token, "guarantee": policy.guarantee, "remarks": policy.remarks}
    given |= {"propensities": policy.propensities(np.eye(3)), "copy": policy.learner.copy(), "text": repr(policy)}
    for one in reached(policy.learner, *given.values()):
        assert not isinstance(one, Book | Collector | Open | WholeSum | Secure)
        assert not (isinstance(one, float) and one in rewards)
        assert not (isinstance(one, np.ndarray) and one.dtype == np.float64 and np.isin(one, rewards).any())
    for one in given.values():
        stored, shown = pickle.dumps(one), repr(one)
        assert not any(reward.tobytes() in stored for reward in rewards)
        assert not any(repr(float(reward))[:9] in shown for reward in rewards)
