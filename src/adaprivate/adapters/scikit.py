"""A policy as a classifier of scikit-learn: a row comes, the policy chooses a class and learns whether it was right.

Guarantee. What a policy learns of a row is one bit, its reward: was the chosen class the row's label? The rewards are what
is protected, each by the (epsilon, delta) of the policy. X is public, and so are the classes and the order of the rows;
then a row's label enters through that bit alone, and is protected as it is. This is not DP-SGD: nothing is promised about
X. A row that is given twice (two passes, two folds, two estimators) is two events, and the budgets of all of them add up.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from adaprivate import check, policies
from adaprivate.adapters.making import made, plain_features, settings_of
from adaprivate.check import Array, Floats
from adaprivate.features import Clipping
from adaprivate.privacy import Guarantee

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "Expected scikit-learn >= 1.6 to be installed for adaprivate's classifier: pip install scikit-learn"
    ) from error

PROTECTS = "whether the class chosen for any one row was right, and so that row's label (X and the classes are public)"
ONCE = "every row is given once, to one estimator: passes, folds and copies each spend a budget of their own"
PUBLIC_CLASSES = "the set of classes is public, though it was read from y"
PREPARED = "X, its preparation and the order of its rows do not depend on any label"


class PrivateBanditClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A contextual bandit as an online classifier: ``partial_fit`` plays each row once, ``predict`` is greedy.

    It sees less than other classifiers: of a row whose class it did not choose it never learns the label.

    policy: a linear policy's name. epsilon, delta: what is spent on each row. norm: a public bound of the rows' norm;
    longer rows are clipped to it. classes: the public set of classes; without it ``fit`` reads it from y, and takes it for
    public. rounds: how many rows are expected (default: those of the first call). options: other settings of the policy, by
    name. random_state: None for exact noise, which protects; a whole number for simulated noise, which protects nobody.

    After fitting: ``classes_``, ``n_features_in_``, ``policy_``, ``chosen_`` (the classes chosen while the rows of the last
    call were played: public) and ``guarantee_``, the statement to print.
    """

    def __init__(
        self,
        policy: str = "noise-aware",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        norm: float = 1.0,
        classes: Any = None,
        rounds: int | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.policy = policy
        self.epsilon = epsilon
        self.delta = delta
        self.norm = norm
        self.classes = classes
        self.rounds = rounds
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Start anew, with a new budget, and play every row once, in order."""
        return self._play(X, y, self.classes, reset=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Play these rows too. The first call needs ``classes``, here or in the constructor."""
        first = not hasattr(self, "policy_")
        if first and classes is None:
            classes = self.classes
            check.expect(classes is not None, "classes", None, "to be given with the first call of partial_fit")
        return self._play(X, y, classes, reset=first)

    def _play(self, X: Any, y: Any, classes: Any, *, reset: bool) -> Self:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, ensure_min_samples=1)
        check_classification_targets(y)
        if reset:
            self._start(X, y, classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise check.InputError("Expected classes to be those of the first call to partial_fit.")
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if not np.array_equal(self.classes_[places], y):
            raise check.InputError("Expected y to hold the stated classes alone; what else it holds is private.")
        every, chosen, clipping = np.arange(len(self.classes_)), np.zeros(len(X), dtype=np.int64), Clipping()
        for number, (row, place) in enumerate(zip(X, places.tolist(), strict=True)):
            decision = self.policy_.decide(self._featuriser.build({"context": row}, every, clipping))
            self.policy_.learn(decision, decision.action == place)
            chosen[number] = decision.action
        if clipping.warning() is not None:
            long = f"{clipping.share:.0%} of the rows are longer than norm={self.norm:g} and were clipped"
            warnings.warn(f"{long}: scale X by public constants.", check.ClippedWarning, stacklevel=3)
        self.policy_.advance()  # whatever the rewards were: what is released by now is what predictions see
        self.chosen_ = self.classes_[chosen]
        return self

    def _start(self, X: Floats, y: Array, classes: Any) -> None:
        self._classes_from_y = classes is None
        self.classes_ = np.unique(y if classes is None else classes)
        check.expect(len(self.classes_) >= 2, "number of classes", len(self.classes_), ">= 2: one class leaves no choice")
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31))
        self._featuriser = plain_features(X.shape[1], len(self.classes_), self.norm)
        settings = settings_of(self.policy, self._featuriser, self.rounds or len(X), self._options())
        self.policy_ = made(settings, seed)
        self._estimate()

    def _options(self) -> dict[str, Any]:
        known = policies.options(self.policy)
        spent = {name: value for name, value in (("epsilon", self.epsilon), ("delta", self.delta)) if name in known}
        return {**spent, **(self.options or {})}

    def _estimate(self) -> Floats:
        """The mean of theta given what was released: public."""
        state = getattr(self.policy_.state, "learner", self.policy_.state)
        known = hasattr(state, "root") and hasattr(state, "coordinates")
        check.expect(known, "policy", self.policy, "to estimate by ridge regression, for greedy predictions")
        theta: Floats = (state.root @ state.coordinates)[: self._featuriser.dimension]
        return theta.reshape(len(self.classes_), -1)

    def decision_function(self, X: Any) -> Floats:
        """How good each class looks for each row, from what was released alone: larger is better; no probability."""
        check_is_fitted(self, "policy_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        clipped = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / self.norm) / self.norm
        theta = self._estimate()
        scores: Floats = (theta[:, 0] + clipped @ theta[:, 1:].T) / np.sqrt(2.0)
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> Array:
        """The class that looks best for each row. It spends nothing."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        chosen: Array = self.classes_[best]
        return chosen

    @property
    def guarantee_(self) -> Guarantee | None:
        """What is promised of the rows played, and what that rests on; None when the policy is not private."""
        check_is_fitted(self, "policy_")
        stated = self.policy_.guarantee
        if stated is None or stated.unit != "event":
            return stated
        read = (PUBLIC_CLASSES,) if self._classes_from_y else ()
        return dataclasses.replace(stated, protects=PROTECTS, assumptions=(*stated.assumptions, PREPARED, ONCE, *read))
