"""How one protected unit may touch a stream of batches, and how far it can then move what is released.

The unit is an event (one reward), a user (all their rewards) or a whole row (context and reward, "joint"). The largest
change it can make to one batch's sum, the number of batches it may enter and their least separation fix the sensitivity
of any linear release; the proofs are in docs/privacy.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from adaprivate import check
from adaprivate.check import Floats

UNITS = ("event", "user", "joint", "local")
NEIGHBOURS = ("replace", "add-remove")


@dataclass(frozen=True)
class Participation:
    """One protected unit's reach: at most ``change`` (l2) per batch, in at most ``batches`` batches, ``separation`` apart.

    ``conditions`` names what this reach rests on (keys of :data:`adaprivate.privacy.guarantee.CONDITIONS`).
    """

    unit: str
    neighbours: str
    change: float
    batches: int = 1
    separation: int = 1
    protects: str = "the value of any one reward"
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check.one_of("unit", self.unit, UNITS)
        check.one_of("neighbours", self.neighbours, NEIGHBOURS)
        check.real("change", self.change, above=0)
        check.whole("batches", self.batches, at_least=1)
        check.whole("separation", self.separation, at_least=1)

    @property
    def sensitivity(self) -> float:
        """The l2 change of all batch sums together: what independent noise on every batch must cover."""
        return self.change * math.sqrt(self.batches)

    def allows(self, reach: Participation) -> bool:
        """Whether a unit that touches the stream like ``reach`` stays within this participation."""
        return (
            self.unit == reach.unit
            and self.neighbours == reach.neighbours
            and reach.change <= self.change
            and reach.batches <= self.batches
            and (self.batches == 1 or reach.separation >= self.separation)
        )

    @property
    def summary(self) -> str:
        """In a few words."""
        text = f"one {self.unit} ({self.neighbours}) moves a sum by at most {self.change:g}"
        return text if self.batches == 1 else f"{text}, in at most {self.batches} batches, {self.separation} apart"


_STREAM = ("public-schedule", "public-features", "secret-noise", "no-replay")


def events(reward_range: float = 1.0, feature_norm: float = 1.0) -> Participation:
    """One reward replaced by another: it enters one batch and moves its sum by at most range x norm."""
    change = check.real("reward_range", reward_range, above=0) * check.real("feature_norm", feature_norm, above=0)
    return Participation("event", "replace", change, conditions=("reward-range", "feature-norm", "one-batch", *_STREAM))


def told_rewards() -> Participation:
    """One reward in [0, 1] replaced by another, when each is told by itself with noise of its own."""
    return Participation("event", "replace", 1.0, conditions=("reward-range", "one-batch", *_STREAM))


def told_people() -> Participation:
    """All rewards of one person, when the first few are told one by one with noise of their own, and no others."""
    return Participation(
        "user",
        "replace",
        1.0,
        protects="all rewards of any one person",
        conditions=("reward-range", "one-batch", "user-visits", "user-identity", "public-visits", *_STREAM),
    )


def channelled(*, local: bool = False, gaussian: bool = False) -> Participation:
    """One reward in [0, 1] replaced by another, when each takes one of several channels, by a public rule.

    ``gaussian``: whether sums of features are among them. ``local``: rewards are flipped before they are sent here.
    """
    own = (*(("feature-norm",) if gaussian else ()), *(("client-flip",) if local else ()))
    conditions = ("reward-range", "one-channel", *own, "released-schedule", "public-features", "secret-noise", "no-replay")
    whom = "the value of any one reward" + (", against whoever runs this software too" if local else "")
    return Participation("event", "replace", 1.0, protects=whom, conditions=conditions)


def arm_events() -> Participation:
    """One reward in [0, 1] of a fixed set of arms replaced by another: it enters releases about its own arm alone."""
    return Participation(
        "event", "replace", 1.0, conditions=("reward-range", "one-arm", "released-schedule", "secret-noise", "no-replay")
    )


def users(clip: float, batches: int, neighbours: str, separation: int = 1) -> Participation:
    """All rewards of one person, clipped to norm ``clip`` per batch, in at most ``batches`` batches.

    Removing the person moves a batch sum by at most ``clip``; replacing them by at most ``2 clip``.
    """
    clip = check.real("clip", clip, above=0)
    factor = 2 if check.one_of("neighbours", neighbours, NEIGHBOURS) == "replace" else 1
    return Participation(
        "user",
        neighbours,
        factor * clip,
        batches,
        separation,
        protects="all rewards of any one person",
        conditions=("user-clip", "user-batches", "user-identity", *_STREAM),
    )


def people() -> Participation:
    """All rewards of one person, each weighted by a public ledger: together they move what is released by at most 1."""
    return Participation(
        "user",
        "replace",
        1.0,
        protects="all rewards of any one person",
        conditions=("reward-range", "one-batch", "user-ledger", "user-identity", "public-visits", *_STREAM),
    )


def rows(weight: float, neighbours: str) -> Participation:
    """One (context, reward) row behind the pair (x x', weight * r x): joint privacy."""
    return Participation(
        "joint",
        neighbours,
        joint_sensitivity(weight, neighbours),
        protects="the context and the reward of any one round, against everyone who does not see that round's action",
        conditions=(
            "reward-range",
            "feature-norm",
            "one-batch",
            "public-schedule",
            "independent-rounds",
            "own-action-hidden",
            "secret-noise",
            "no-replay",
        ),
    )


def messages() -> Participation:
    """One person's context and reward behind the message (r x, upper triangle of x x'), noised before it is sent."""
    return Participation(
        "local",
        "replace",
        joint_sensitivity(1.0, "replace"),
        protects="the context and the reward behind any one message, from the server too",
        conditions=(
            "reward-range",
            "feature-norm",
            "one-message",
            "client-message",
            "independent-rounds",
            "own-action-hidden",
            "secret-noise",
            "no-replay",
        ),
    )


def centred_rows() -> Participation:
    """One (context, reward) row behind (svec(x x') / sqrt(8), (r - 1/2) x), replaced: moved by at most 1, as by r alone."""
    return dataclasses.replace(rows(1.0, "replace"), change=1.0)


def rewards_of_private_rows() -> Participation:
    """One reward replaced, its row's context kept: the pair of :func:`centred_rows` moves by at most 1, whoever looks."""
    conditions = tuple(name for name in centred_rows().conditions if name != "own-action-hidden")
    whom = "the value of any one reward, against everyone, those who see that round's action included"
    return Participation("event", "replace", 1.0, protects=whom, conditions=conditions)


def centred_joint_sensitivity(share: float) -> float:
    """The l2 reach of one replaced row over (share svec(x x'), (r - 1/2) x), with |x| <= 1 and r in [0, 1]."""
    k = check.real("share", share, above=0)
    return 1.0 if k * k <= 1 / 8 else math.sqrt(2) * (k + 1 / (8 * k))


def joint_sensitivity(weight: float, neighbours: str) -> float:
    """The l2 reach of one row over (svec(x x'), weight * r x), with |x| <= 1 and r in [0, 1]."""
    w = check.real("weight", weight, above=0)
    if check.one_of("neighbours", neighbours, NEIGHBOURS) == "add-remove":
        return math.sqrt(1 + w * w)
    return math.sqrt(2) * (1 + w * w / 2) if w * w <= 2 else 2 * w


def group_mu(mu: float, events_per_batch: Iterable[int]) -> float:
    """The mu of a person with this many events in each batch, when one event is mu-GDP (independent batch noise)."""
    counts = [check.whole("events_per_batch", n, at_least=0) for n in events_per_batch]
    return check.real("mu", mu, at_least=0) * math.sqrt(sum(n * n for n in counts))


def clipped_reach(events: int, clip: float, *, attained: bool = False) -> float:
    """How far a person's replaced rewards can move all batch sums together (l2), clipped per person and batch.

    n events, of norm 1 and rewards in [0, 1], move one batch by at most min(n, 2 clip). ``attained``: by half of them along
    x and half along -x, the rewards swapped, which is no bound.
    """

    def move(n: int) -> float:
        return min((n + 1) // 2, clip) + min(n // 2, clip) if attained else min(n, 2 * clip)

    best = [0.0]
    for n in range(1, check.whole("events", events, at_least=1) + 1):
        best.append(max(best[n - m] + move(m) ** 2 for m in range(1, n + 1)))
    return math.sqrt(best[events])


def group_rho(rho: float, events_per_batch: Iterable[int]) -> float:
    """The same for rho-zCDP: rho times the sum of squares."""
    return check.real("rho", rho, at_least=0) * group_mu(1.0, events_per_batch) ** 2


def toeplitz_sensitivity(coefficients: Floats, batches: int = 1, separation: int = 1) -> float:
    """The largest norm of a sum of admissible columns of the lower-triangular Toeplitz matrix of these coefficients.

    Needs coefficients that are nonnegative and nonincreasing; then the earliest columns, as close as allowed, are worst
    (Kalinin & Lampert 2024), and aligned contributions are too.
    """
    c = check.floats("coefficients", coefficients, (None,))
    steps = len(c)
    falling = bool((c >= 0).all() and (np.diff(c) <= 0).all())
    if batches > 1:
        check.expect(falling, "coefficients", c.tolist(), "nonnegative and nonincreasing")
    total = c.copy()
    for start in range(separation, min(batches * separation, steps), separation):
        total[start:] += c[: steps - start]
    return float(np.linalg.norm(total))


def matrix_sensitivity(matrix: Floats, batches: int = 1, separation: int = 1) -> float:
    """An upper bound on the norm of a sum of admissible columns, each times a unit vector of its own; exact for one batch.

    The squared norm is at most the sum of |G| over pairs of chosen columns, G the Gram matrix. Bounding each chosen
    column's row sum by the best admissible pattern through it, and then the sum of those bounds by the best pattern, is
    a bound for every pattern at once.
    """
    C = check.floats("matrix", matrix, (None, None))
    if batches == 1:
        return float(np.sqrt((C * C).sum(axis=0).max()))
    gram = np.abs(C.T @ C)
    through = np.array([_best_through(gram[i], i, batches, separation) for i in range(len(gram))])
    return math.sqrt(_best_pattern(through, batches, separation)[batches])


def _best_pattern(values: Floats, batches: int, separation: int) -> list[float]:
    """The largest sum of at most m of these nonnegative values, ``separation`` apart, for m = 0 .. batches."""
    n = len(values)
    best = np.zeros(n + 1)
    results = [0.0]
    for _ in range(batches):
        start = np.maximum(np.arange(n) - separation + 1, 0)
        taken = values + best[start]
        best = np.concatenate([[0.0], np.maximum.accumulate(taken)])
        results.append(float(best[-1]))
    return results


def _best_through(row: Floats, index: int, batches: int, separation: int) -> float:
    left = _best_pattern(row[: max(index - separation + 1, 0)], batches - 1, separation)
    right = _best_pattern(row[index + separation :], batches - 1, separation)
    return float(row[index]) + max(left[m] + right[batches - 1 - m] for m in range(batches))


class UserLedger:
    """Admits each user to at most ``batches`` batches, ``separation`` apart: what a user-level guarantee rests on."""

    def __init__(self, batches: int, separation: int = 1) -> None:
        self.batches = check.whole("batches", batches, at_least=1)
        self.separation = check.whole("separation", separation, at_least=1)
        self._entered: dict[str, tuple[int, int]] = {}

    def admits(self, user: str, batch: int) -> bool:
        """Whether this user's event may enter this batch."""
        check.expect(isinstance(user, str) and user != "", "user", type(user).__name__, "to be a non-empty str")
        batch = check.whole("batch", batch, at_least=0)
        count, last = self._entered.get(user, (0, -1))
        check.expect(batch >= last, "batch", batch, f">= {last}, the batch this user was last in")
        return not count or batch == last or (count < self.batches and batch - last >= self.separation)

    def admit(self, user: str, batch: int) -> bool:
        """The same; a first admission to a batch is counted."""
        admitted = self.admits(user, batch)
        count, last = self._entered.get(user, (0, -1))
        if admitted and batch != last:
            self._entered[user] = (count + 1, batch)
        return admitted

    @property
    def people(self) -> int:
        """How many users were admitted."""
        return len(self._entered)

    def state(self) -> dict[str, tuple[int, int]]:
        """For each user: batches entered, and the last of them."""
        return dict(self._entered)

    def restore(self, state: dict[str, tuple[int, int]]) -> None:
        """Continue from an earlier :meth:`state`."""
        try:
            self._entered = {str(user): (int(count), int(last)) for user, (count, last) in state.items()}
        except (AttributeError, TypeError, ValueError):
            raise check.InputError(
                "Expected state to be what state() gave: {user: (batches entered, last of them)}."
            ) from None
