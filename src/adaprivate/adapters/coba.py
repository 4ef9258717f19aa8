"""A policy as a learner of coba: predict, learn, score.

coba asks a learner what it would do, and tells it later what was done and earned, by it or by somebody else; in batches it
asks many times before it tells. So predictions make no decision (``Policy.consider``), and what is told is counted as it
comes (``Policy.observe``). coba itself is not imported: it takes any object with these methods.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from adaprivate import check
from adaprivate.adapters.making import made, plain_features, promised, settings_of
from adaprivate.check import Floats
from adaprivate.features import Featuriser
from adaprivate.features.fields import Vector
from adaprivate.features.items import OneHot
from adaprivate.privacy import CONDITIONS, Guarantee
from adaprivate.runtime.policy import Policy

__all__ = ["CobaLearner", "plain_features"]


class CobaLearner:
    """A policy of adaprivate, for coba's experiments.

    ``featuriser``: how a context and an action become features, by public constants (``plain_features`` for dense contexts
    and a few actions). ``rounds``: how many are expected. ``reward_range``: rewards from the first to the second number are
    mapped to 0 .. 1, others refused. ``seed``: for experiments; without it noise is exact and protects. ``probabilities``:
    whether predictions say how likely they were. ``options``: the policy's settings, such as ``epsilon=1.0``.

    The guarantee is about single rewards; contexts and actions are taken for public. coba copies a learner for every
    environment before it is used: each copy has a budget of its own.
    """

    def __init__(
        self,
        policy: str,
        featuriser: Featuriser | Mapping[str, object],
        *,
        rounds: int,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        probabilities: bool = True,
        **options: Any,
    ) -> None:
        self.featuriser = featuriser if isinstance(featuriser, Featuriser) else Featuriser.from_dict(featuriser)
        self.settings = settings_of(policy, self.featuriser, rounds, options)
        self.seed = None if seed is None else check.whole("seed", seed, at_least=0)
        check.expect(len(reward_range) == 2, "reward_range", reward_range, "to be two numbers")
        low = check.real("reward_range[0]", reward_range[0])
        self._range = (low, check.real("reward_range[1]", reward_range[1], above=low))
        self._probabilities = bool(probabilities)
        self._places: dict[Hashable, int] = {}
        self._made: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The policy itself, made when first used."""
        if self._made is None:
            self._made = made(self.settings, self.seed)
        return self._made

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised; coba can tell rewards that it made of other rounds', and this rests on that it does not."""
        found = promised(self.settings, self.seed)
        if found is None:
            return None
        return dataclasses.replace(found, assumptions=(*found.assumptions, CONDITIONS["own-reward"]))

    @property
    def params(self) -> dict[str, Any]:
        """For the table of learners: the policy's name, what it spends, and what that promises."""
        guarantee = self.guarantee
        return {
            "family": self.settings.name,
            "epsilon": None if guarantee is None else float(f"{guarantee.epsilon:.6g}"),
            "delta": None if guarantee is None else guarantee.delta,
            "rounds": self.settings.rounds,
            "seed": self.seed,
            "guarantee": "not private" if guarantee is None else guarantee.text(self.settings.rounds),
        }

    def predict(self, context: Any, actions: Sequence[Any]) -> Any:
        """The action that would be chosen now, and its probability if that was asked for."""
        candidates = self._candidates(context, actions)
        if not self._probabilities:
            return {"action": actions[self.policy.consider(candidates)]}
        odds = self.policy.propensities(candidates).probability
        chosen = self.policy.consider(candidates)
        return actions[chosen], float(odds[chosen])

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """The probability with which this action would be chosen now."""
        candidates = self._candidates(context, actions)
        try:
            place = list(actions).index(action)
        except ValueError:
            raise check.InputError(f"Expected action={action!r:.60} to be one of the actions offered.") from None
        return float(self.policy.propensities(candidates).probability[place])

    def learn(self, context: Any, action: Any, reward: float | None, probability: float | None = None) -> None:
        """Count a round: what was done in it, by this learner or by another, and what that earned."""
        self.policy.observe(self._candidates(context, [action])[0], None if reward is None else self._earned(reward))

    def _earned(self, reward: float) -> float:
        low, high = self._range
        if not (isinstance(reward, numbers.Real) and low <= reward <= high):
            raise check.InputError(f"Expected reward to be a number from {low:g} to {high:g}; it is private and not shown.")
        return (float(reward) - low) / (high - low)

    # --- coba's contexts and actions ----------------------------------------------------------------------------------

    def _candidates(self, context: Any, actions: Sequence[Any] | None) -> Floats:
        batched = hasattr(context, "is_batch") or hasattr(actions, "is_batch")
        check.expect(not batched, "context", "a batch", "to be one: coba then asks for one after another")
        check.expect(bool(actions), "actions", actions, "to be a list of at least one")
        assert actions is not None
        return self.featuriser.build(self._context(context), self._items(actions))

    def _context(self, context: Any) -> Any:
        """By field name: coba's contexts are None, one value, a sequence, or a mapping."""
        fields = self.featuriser.context
        names = [field.name for field in fields]
        if not fields:
            return None
        if isinstance(context, Mapping) or hasattr(context, "keys"):
            given = dict(context.items())
            whole = len(fields) == 1 and isinstance(fields[0], Vector) and names[0] not in given
            return {names[0]: _dense(given, fields[0].width)} if whole else given
        if len(fields) == 1:
            vector = isinstance(fields[0], Vector)
            return {names[0]: context if vector == _listed(context) else [context] if vector else context[0]}
        values = [context] if not _listed(context) else list(context)
        wanted = f"== {len(names)}, one for each field: {', '.join(names)}"
        check.expect(len(values) == len(names), "len(context)", len(values), wanted)
        return dict(zip(names, values, strict=True))

    def _items(self, actions: Sequence[Any]) -> list[Any]:
        """Places of one-hot items, in the order in which actions were first met (they are public), or rows of features."""
        if isinstance(self.featuriser.items, OneHot):
            return [self._places.setdefault(_key(action), len(self._places)) for action in actions]
        return [_row(action, self.featuriser.items.length) for action in actions]


def _listed(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _key(action: Any) -> Hashable:
    try:
        key: Hashable = (
            frozenset(action.items()) if hasattr(action, "keys") else tuple(action) if _listed(action) else action
        )
        hash(key)
    except TypeError:
        words = "to be a value, a list of values, or a mapping to values: none inside another"
        raise check.InputError(f"Expected action={action!r:.60} {words}.") from None
    return key


def _row(action: Any, length: int) -> list[float]:
    if hasattr(action, "keys"):
        return _dense(dict(action.items()), length)
    return list(action) if _listed(action) else [action]


def _dense(sparse: Mapping[Any, float], length: int) -> list[float]:
    """The numbers of a mapping whose keys are places; those that are absent are 0, as everywhere in coba."""
    row = [0.0] * length
    for key, value in sparse.items():
        place = int(key) if isinstance(key, str) and key.isdecimal() else key
        row[check.whole("context key", place, at_least=0, at_most=length - 1)] = value
    return row
