"""Our classifier under scikit-learn's own checks, in its pipelines, and against the policy itself."""

import functools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import adaprivate as ap
from adaprivate.adapters import PrivateBanditClassifier, plain_features
from adaprivate.check import InputError

NOT_HERE = ("check_array_api_input", "check_classifier_data_not_an_array")
"""Skip themselves: they need other array packages and pandas, which are not test extras. Every other check must pass."""


@parametrize_with_checks([PrivateBanditClassifier()])
def test_scikit_learns_own_checks(estimator, check):
    """Those that fix random_state see simulated noise, the others exact noise."""
    if getattr(check, "func", check).__name__ not in NOT_HERE:
        check(estimator)


def blobs(count, seed=0, spread=0.15):
    """Three classes by their names, around three points of norm 0.7."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    return 0.7 * np.eye(3)[labels] + spread * rng.standard_normal((count, 3)), np.array(["ash", "elm", "oak"])[labels]


@pytest.mark.parametrize("policy", ["noise-aware", "rr-linucb", "linucb"])
def test_it_plays_as_the_policy_itself_does(policy):
    """In two parts, with all classes known: the choices of decide and learn, row for row."""
    X, y = blobs(200)
    spent = {} if policy == "linucb" else {"epsilon": 4.0}
    ours = PrivateBanditClassifier(policy, random_state=5, norm=2.0, classes=["oak", "elm", "ash"], rounds=200, **spent)
    chosen = np.concatenate([ours.partial_fit(X[part], y[part]).chosen_ for part in (slice(0, 80), slice(80, 200))])
    features = plain_features(3, 3, 2.0)
    itself = ap.policy(policy, dimension=features.dimension, rounds=200, seed=5, **spent)
    for row, label, found in zip(X, y, chosen, strict=True):
        decision = itself.decide(features.build({"context": row}, [0, 1, 2]))
        itself.learn(decision, ours.classes_[decision.action] == label)
        assert ours.classes_[decision.action] == found
    itself.advance()
    assert (ours.policy_.round, ours.policy_.version) == (itself.round, itself.version) == (200, itself.version)


def test_predictions_are_greedy_on_what_was_released():
    """Without privacy that is ridge regression on the choices' rewards, recomputed here; clipped rows included."""
    X, y = blobs(300)
    ours = PrivateBanditClassifier("linucb", norm=0.8, random_state=0).fit(X, y)
    features = plain_features(3, 3, 0.8)
    places = np.searchsorted(ours.classes_, ours.chosen_)
    played = np.array([features.build({"context": row}, [k])[0] for row, k in zip(X, places, strict=True)])
    theta = np.linalg.solve(np.eye(12) + played.T @ played, played.T @ (ours.chosen_ == y))
    rows = 3 * blobs(20, 1)[0]
    wanted = np.array([features.build({"context": row}, [0, 1, 2]) @ theta for row in rows])
    assert np.allclose(ours.decision_function(rows), wanted, atol=1e-9)
    assert (ours.predict(rows) == ours.classes_[wanted.argmax(axis=1)]).all()


def test_rows_that_are_too_long_are_told_of():
    X, y = blobs(60)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ap.ClippedWarning)
        PrivateBanditClassifier("linucb", norm=0.1, random_state=0).fit(X, y)
        PrivateBanditClassifier("linucb", norm=1e3, random_state=0).fit(X, y)
    assert [str(one.message).partition(" and")[0] for one in told] == ["100% of the rows are longer than norm=0.1"]


def test_predicting_changes_nothing():
    X, y = blobs(100)
    one, other = (PrivateBanditClassifier("noise-aware-ts", random_state=0).fit(X, y) for _ in range(2))
    one.predict(X)
    assert (one.partial_fit(X, y).chosen_ == other.partial_fit(X, y).chosen_).all()


def test_it_learns_with_exact_noise():
    """Three quarters right where a guess has a third: 400 unseen rows, a standard deviation of 0.024."""
    X, y = blobs(1_500)
    ours = PrivateBanditClassifier(epsilon=2.0, norm=1.0).fit(X, y)
    assert ours.policy_.source is not None
    assert ours.score(*blobs(400, 1)) > 0.75


def test_a_label_reaches_releases_through_its_one_bit():
    """Labels that change what was not chosen change nothing at all; one that changes the bit moves one reward."""
    X, y = blobs(120)
    ours = functools.partial(PrivateBanditClassifier, "linucb", random_state=1, classes=["ash", "elm", "oak"])
    first = ours().fit(X, y)
    wrong = np.flatnonzero(first.chosen_ != y)
    other = y.copy()
    for row in wrong:  # another class that was not chosen either
        other[row] = next(name for name in first.classes_ if name not in (y[row], first.chosen_[row]))
    assert len(wrong) > 5
    second = ours().fit(X, other)
    assert (second.chosen_ == first.chosen_).all()
    assert np.array_equal(second.decision_function(X), first.decision_function(X))


def test_the_guarantee_says_what_is_protected_and_what_is_not():
    X, y = blobs(60)
    text = str(PrivateBanditClassifier(classes=["ash", "elm", "oak"]).fit(X, y).guarantee_)
    assert text.startswith(
        "This protects whether the class chosen for any one row was right, and so that row's label (X and"
    )
    assert "(epsilon = 1, delta = 1e-05, event-level)" in text
    assert "every row is given once, to one estimator" in text
    assert "read from y" not in text
    assert "the set of classes is public, though it was read from y" in str(PrivateBanditClassifier().fit(X, y).guarantee_)
    simulated = str(PrivateBanditClassifier(random_state=0).fit(X, y).guarantee_)
    assert simulated.startswith("SIMULATED NOISE, NOBODY IS PROTECTED.")
    assert PrivateBanditClassifier("linucb", random_state=0).fit(X, y).guarantee_ is None


def test_in_a_pipeline_after_public_constants():
    """Grey values of 0 to 16, of which 64 have a norm of at most 128; half of that is rarely reached."""
    X, y = load_digits(return_X_y=True)
    kept = y < 3
    scale = FunctionTransformer(functools.partial(np.multiply, 1 / 64))
    ours = make_pipeline(scale, PrivateBanditClassifier(epsilon=4.0, random_state=0, classes=[0, 1, 2]))
    ours.set_params(privatebanditclassifier__epsilon=8.0)
    assert clone(ours)[-1].epsilon == 8.0
    scores = cross_val_score(ours, X[kept], y[kept], cv=2)
    assert scores.min() > 0.7  # a guess: 0.33, and 268 rows


def test_refusals():
    X, y = blobs(40)
    with pytest.raises(InputError, match="y to hold the stated classes alone; what else it holds is private"):
        PrivateBanditClassifier(classes=["ash", "elm"], random_state=0).fit(X, y)
    with pytest.raises(InputError, match=r"number of classes=1 >= 2"):
        PrivateBanditClassifier(random_state=0).fit(X, ["elm"] * 40)
    with pytest.raises(InputError, match=r"classes to be given with the first call"):
        PrivateBanditClassifier(random_state=0).partial_fit(X, y)
    with pytest.raises(InputError, match=r"classes to be those of the first call"):
        PrivateBanditClassifier(random_state=0).fit(X, y).partial_fit(X, y, classes=["ash", "elm"])
    with pytest.raises(InputError, match="not to be one on fixed arms"):
        PrivateBanditClassifier("dp-se", random_state=0).fit(X, y)
    exact = PrivateBanditClassifier().fit(X, y)
    with pytest.raises(InputError):
        pickle.dumps(exact)  # two copies would release the same batch


@pytest.mark.parametrize("blocked", ["sklearn", "coba"])
def test_neither_package_is_needed_before_it_is_asked_for(blocked):
    """Without coba its learner works as it is; without scikit-learn one clear line says what is missing."""
    code = f"""
import sys
import warnings
sys.modules[{blocked!r}] = None
import adaprivate.adapters as adapters
adapters.CobaLearner("rr-linucb", adapters.plain_features(2, 2), rounds=5, seed=0, epsilon=1.0)
assert "sklearn" not in sys.modules or sys.modules["sklearn"] is None
try:
    adapters.PrivateBanditClassifier
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    missing = "Expected scikit-learn >= 1.6 to be installed for adaprivate's classifier: pip install scikit-learn\n"
    assert done.stdout == (missing if blocked == "sklearn" else "")
