"""A policy that was not told its dimension: it takes it from the first candidates it is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from adaprivate import check
from adaprivate.mechanisms import Secure
from adaprivate.notebook import facts_html, lines_html
from adaprivate.policies.core.propensities import Propensities
from adaprivate.privacy import Guarantee
from adaprivate.runtime.catalog import Catalogue, catalogue_of, expect_few, sets_of
from adaprivate.runtime.decision import Decision, RewardRefusedError
from adaprivate.runtime.inputs import expect_finite, expect_observes, offered_of, users_of
from adaprivate.runtime.policy import Policy

UNKNOWN = "not known before the first candidates are shown"
_NEEDED = ("_engine", "_lock", "_dimension", "_arms", "_needs_user", "_origin")
"""What only a policy that knows its dimension has."""


def _refuse() -> NoReturn:
    raise check.InputError(f"Expected dimension to be given: it is {UNKNOWN}.")


def _name(policy: Waiting) -> str:
    return str(policy._settings_of(1).name)


def _expect_fit(example: Policy, shown: object, among: Sequence[object], users: Sequence[object], asked: object) -> None:
    """Raise for what goes with the candidates and is refused in every dimension."""
    if isinstance(shown, Catalogue):
        stocks = [shown._offer(places, shown.dimension) for places in among]
        if example.logs_propensities if asked is None else asked:
            expect_few(stocks)
    for user in users:
        example._person(user)


class Waiting(Policy):
    """A policy before its dimension is known. What asks for it is refused; the first candidates make it a :class:`Policy`.

    ``settings_of``: its settings at a dimension; ``given``: what else :class:`Policy` is made with. Threads that show it
    their first candidates at the same time find one policy.
    """

    def __init__(self, settings_of: Callable[[int], Any], **given: Any) -> None:
        self._settings_of, self._given = settings_of, given
        self._first = threading.Lock()
        self._example: Policy | None = Policy(settings_of(1), **given)
        """One of the least dimension: what is refused of it is refused now."""
        for name in ("reward_range", "reward_window", "logs_propensities", "decided", "round", "version", "clipped"):
            setattr(self, name, getattr(self._example, name))

    def _begin(self, name: str, shown: object, axes: int, expect: Callable[[Policy, int], None]) -> None:
        """Become a policy of the dimension of what is shown: wholly, or not at all.

        ``expect`` raises for what else is wrong with this call, by the example and the length of what is shown.
        """
        with self._first:
            if type(self) is not Waiting:  # by another thread
                return
            shape = check.floats(name, shown, (None,) * axes).shape
            dimension = shape[-1]
            if axes > 1:
                expect_finite(offered_of(shown, axes, dimension), shown)
            assert self._example is not None
            expect(self._example, shape[0])
            before = dict(self.__dict__)
            try:
                self._example = None
                Policy.__init__(self, self._settings_of(dimension), **self._given)
            except BaseException:
                for name in self.__dict__.keys() - before.keys():
                    del self.__dict__[name]
                self.__dict__.update(before)
                raise
            self.__class__ = Policy  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        if name in _NEEDED:
            _refuse()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # Another thread may begin it in the middle of any of these: they look up nothing of this class by ``self``.

    # --- what begins it -----------------------------------------------------------------------------------------------

    def decide(
        self, candidates: object, *, among: object = None, user: object = None, propensity: bool | None = None
    ) -> Decision:
        catalogue_of(candidates, among)

        def expect(example: Policy, length: int) -> None:
            _expect_fit(example, candidates, [among], [user], propensity)

        Waiting._begin(self, "candidates", candidates, 2, expect)
        return self.decide(candidates, among=among, user=user, propensity=propensity)

    def decide_many(
        self,
        candidates: object,
        *,
        among: Sequence[object] | None = None,
        users: Sequence[object] | None = None,
        propensity: bool | None = None,
    ) -> list[Decision]:
        many = catalogue_of(candidates, among)
        each = [] if many is None else sets_of(among)

        def expect(example: Policy, length: int) -> None:
            count = length if many is None else len(each)
            _expect_fit(example, many, each, [None] * count if users is None else users_of(users, count), propensity)

        Waiting._begin(self, "candidates", candidates, 3 if many is None else 2, expect)
        return self.decide_many(candidates, among=among, users=users, propensity=propensity)

    def consider(self, candidates: object) -> int:
        Waiting._begin(self, "candidates", candidates, 2, lambda example, length: None)
        return self.consider(candidates)

    def propensities(self, candidates: object, *, draws: int = 512) -> Propensities:
        check.whole("draws", draws, at_least=8)

        def expect(example: Policy, length: int) -> None:
            _expect_fit(example, candidates, [None], [], True)

        Waiting._begin(self, "candidates", candidates, 2, expect)
        return self.propensities(candidates, draws=draws)

    def observe(self, features: object, reward: float | bool | None, *, user: object = None) -> None:

        def expect(example: Policy, length: int) -> None:
            expect_observes(example.reward_window)
            _expect_fit(example, None, [], [user], False)

        Waiting._begin(self, "features", features, 1, expect)
        self.observe(features, reward, user=user)

    # --- what is known before -----------------------------------------------------------------------------------------

    @property
    def source(self) -> Secure | None:
        source: Secure | None = self._given.get("source")
        return source

    @property
    def guarantee(self) -> Guarantee | None:
        """What it will promise, where that is the same in every dimension."""
        exact = self.source is not None
        first, other = (self._settings_of(d).guarantee(exact_noise=exact) for d in (1, 17))
        check.expect(first == other, "dimension", None, f"to be given: the guarantee rests on it, and it is {UNKNOWN}")
        found: Guarantee | None = first
        return found

    @property
    def remarks(self) -> list[str]:
        example = self._example
        return [] if example is None else example.remarks  # begun, it has said them when it was made

    @property
    def people(self) -> dict[str, int] | None:
        example = self._example
        return None if example is None else example.people

    @property
    def open_decision(self) -> None:
        return None

    # ``policy.learn(policy.decide(...), reward)`` looks learn up before it decides: what is begun by then, does it

    def learn(self, decision: Decision | str, reward: float | bool | None) -> None:
        if type(self) is not Waiting:
            return Policy.learn(self, decision, reward)
        raise RewardRefusedError("foreign", "Expected decision to be one of this policy's: it has made none.")

    def advance(self) -> None:
        """Nothing, where there are no rounds yet."""
        if type(self) is not Waiting:
            Policy.advance(self)

    def finish(self) -> None:
        """Nothing, where there are no rounds yet."""
        if type(self) is not Waiting:
            Policy.finish(self)

    def save(self, path: str | Path) -> None:
        """Refused, where there is nothing to go on from yet."""
        if type(self) is Waiting:
            _refuse()
        Policy.save(self, path)

    def to_bytes(self, saved: str = "") -> bytes:
        """Refused, where there is nothing to go on from yet."""
        if type(self) is Waiting:
            _refuse()
        return Policy.to_bytes(self, saved)

    def __repr__(self) -> str:
        return f"<{_name(self)}: dimension {UNKNOWN}, {self._noise}>"

    def _repr_html_(self) -> str:
        try:
            guarantee = self.guarantee
            promise = "<p>Not private: it protects nobody.</p>" if guarantee is None else guarantee._repr_html_()
        except check.InputError as error:
            promise = lines_html("", [str(error)])
        return facts_html(_name(self), {"dimension": UNKNOWN, "noise": self._noise}, lines_html("", self.remarks), promise)
