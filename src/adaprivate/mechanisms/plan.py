"""Plans: whom a policy protects, at which price, and what it releases of their rewards, when and with which noise.

A plan is public and fixed before the first round. It is the only place that knows sensitivity, price and guarantee.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from adaprivate import check, privacy
from adaprivate.check import Floats
from adaprivate.grid import AS_IS, DIRECTED, DIRECTED_WHOLE
from adaprivate.mechanisms import history, laws, packing, units
from adaprivate.mechanisms.arm_sampler import LARGEST, ArmSampler
from adaprivate.mechanisms.book import ArmBook, RewardBook, SumBook
from adaprivate.mechanisms.catalogue import Shape
from adaprivate.mechanisms.contributions import EventCollector, directed
from adaprivate.mechanisms.laws import AdditiveLaw, GaussianLaw, RewardLaw
from adaprivate.mechanisms.noise import Noise, Secure, Simulated, SimulatedReplicas
from adaprivate.mechanisms.plan_base import KEPT, NOTHING_KEPT, SUMS_KEPT, Plan, SimulationPlan
from adaprivate.mechanisms.prefix import NoisyRows, PrefixSum, Strategy
from adaprivate.mechanisms.units import EventUnit, Unit
from adaprivate.mechanisms.units.visits import UserVisitsUnit
from adaprivate.privacy import Participation, Price
from adaprivate.purposes import Purpose

__all__ = [
    "KEPT",
    "BatchPlan",
    "Epoch",
    "Plan",
    "RewardPlan",
    "SamplingPlan",
    "SimulationPlan",
    "encoder_of",
    "plan_from_bytes",
]


class Epoch(NamedTuple):
    """Batches ``first`` up to ``last`` (not included): one mechanism, independent of all others."""

    first: int
    last: int
    strategy: Strategy


def encoder_of(batches: int, epochs: Sequence[Epoch]) -> Floats:
    """C of these epochs' batches, its columns of norm 1 at most."""
    C = np.zeros((batches, batches))
    for first, last, strategy in epochs:
        C[first:last, first:last] = strategy.matrix() / strategy.sensitivity()
    return C


@dataclass(frozen=True, kw_only=True)
class BatchPlan(Plan):
    """Sums of (reward - centre) x features over batches, released with noise when their last round is counted.

    ``unit``: whom it protects. ``law``: its noise, ``noise_multiplier`` times what one unit can move. ``epochs``: how
    batches share noise. ``ends``: the round after which each batch is released; further rounds are not.
    ``decoded``: whether running sums are released, or every batch's row of C s as it is, scaled to columns of norm 1.
    ``intercept``: whether 1 follows the features. ``direction``: whether features enter by their direction alone, at norm 1
    (with a catalogue, the whole event in the shape's coordinates). ``shape``: coordinates in which the noise is round;
    ``catalogue``: whether they come from a public catalogue. ``sampling_rate``: the probability with which a reward enters
    its batch, ``sampling_exact`` whether its price is attained.
    ``continues``: whether a longer plan may follow, so that what comes after the last batch is kept for its next one.
    ``refusal``: the setting that rules exact noise out (name, value, condition).
    """

    dimension: int
    ends: tuple[int, ...]
    noise_multiplier: float
    epochs: tuple[Epoch, ...]
    unit: Unit = EventUnit()  # noqa: RUF009  # frozen and without state
    law: AdditiveLaw = GaussianLaw()  # noqa: RUF009
    centre: float = 0.0
    decoded: bool = True
    intercept: bool = False
    direction: bool = False
    shape: Shape | None = None
    catalogue: bool = False
    sampling_rate: float = 1.0
    sampling_exact: bool = False
    continues: bool = False
    refusal: tuple[str, object, str] | None = None

    def __post_init__(self) -> None:
        if self.unit.participation.batches > 1:
            check.expect(len(self.epochs) <= 1, "epochs", len(self.epochs), "<= 1 for a unit that enters several batches")
        if self.sampling_rate != 1:
            plain = self.unit == EventUnit() and self.law == GaussianLaw()
            check.expect(plain, "sampling_rate", self.sampling_rate, "== 1 but for Gaussian noise on events")

    @property
    def participation(self) -> Participation:
        base = self.unit.participation
        return dataclasses.replace(base, conditions=(*base.conditions, "catalogue")) if self.catalogue else base

    @property
    def also(self) -> tuple[Participation, ...]:
        return self.unit.also

    @property
    def conditions(self) -> tuple[str, ...]:
        return ("secret-sample",) if self.sampling_rate < 1 else ()

    def price(self, *, exact_noise: bool = False) -> Price:
        if self.sampling_rate < 1:
            return privacy.SampledGaussianPrice(self.noise_multiplier, self.sampling_rate, self.sampling_exact)
        slacks = [self.mechanism(epoch, Secure()).slack for epoch in self.epochs if exact_noise]
        # A reward enters one epoch and a person may enter all of them: total variation adds up.
        slack = math.fsum(slacks) if self.unit.needs_user else max(slacks, default=0.0)
        attained = self.unit.attained and all(e.strategy.attained(self.unit.participation.batches) for e in self.epochs)
        return self.law.price(self.noise_multiplier, slack, attained)

    @property
    def retention(self) -> str:
        keeping = [epoch for epoch in self.epochs if epoch.strategy.kept]
        if not keeping:
            return NOTHING_KEPT
        most = max(epoch.strategy.kept for epoch in keeping)
        whole = any(epoch.strategy.kept == epoch.last - epoch.first - 1 for epoch in keeping)
        which = "each released batch" if whole else f"the last {most} released batches"
        until = " or ".join(str(self.ends[epoch.last - 1]) for epoch in keeping)
        return f"The exact sums of {which} are kept until the release after round {until}. {SUMS_KEPT}"

    def refuse_exact_noise(self, policy: str) -> None:
        if self.refusal is not None:
            check.expect(False, *self.refusal)
        check.expect(self.sampling_rate == 1, "sampling_rate", self.sampling_rate, "== 1 with exact noise")

    def end_of(self, batch: int) -> int | None:
        return self.ends[batch] if batch < len(self.ends) else None

    def goes_on_in(self, longer: BatchPlan) -> bool:
        """Whether a longer plan begins with this one, so that a book may go on under it."""
        for field in dataclasses.fields(self):
            one, other = getattr(self, field.name), getattr(longer, field.name)
            if field.name == "shape" and one is not None and other is not None:
                one, other = one.root.tobytes(), other.root.tobytes()
            elif field.name == "ends":
                other = other[: len(one)]
            elif field.name == "epochs":
                one = [(e.first, e.last, e.strategy.matrix().tobytes()) for e in one]
                other = [(e.first, e.last, e.strategy.matrix().tobytes()) for e in other[: len(one)]]
            if one != other:
                return False
        return True

    def enters_like(self, other: BatchPlan) -> bool:
        """Whether events enter both in the same way, and a first batch of the same rounds."""
        free = ("delta", "nominal_epsilon", "ends", "epochs", "continues", "shape")
        same = all(getattr(self, f.name) == getattr(other, f.name) for f in dataclasses.fields(self) if f.name not in free)
        roots = [None if plan.shape is None else plan.shape.root.tobytes() for plan in (self, other)]
        return same and roots[0] == roots[1] and self.ends[0] == other.ends[0]

    @property
    def size(self) -> int:
        """The length of a release."""
        return self.unit.size(self.dimension + self.intercept)

    @property
    def scales(self) -> Floats:
        """The noise of each number of a release, relative to the others'."""
        found = self.unit.scales(self.dimension + self.intercept)
        return np.ones(self.size) if found is None else found

    @property
    def way(self) -> int:
        """How features enter a sum that makes the event of them itself."""
        if not self.direction:
            return AS_IS
        return DIRECTED_WHOLE if self.catalogue else DIRECTED

    def event(self, features: Floats) -> Floats:
        """What is summed up of these features, or of each row of them."""
        if self.direction and not self.catalogue:
            features = directed(features)
        event = features
        if self.intercept:
            event = np.ones((*features.shape[:-1], features.shape[-1] + 1))
            event[..., :-1] = features
        return directed(event, self.shape) if self.direction and self.catalogue else event

    def epoch_of(self, batch: int) -> Epoch:
        """The epoch that this batch belongs to."""
        return next(epoch for epoch in self.epochs if epoch.first <= batch < epoch.last)

    def mechanism(self, epoch: Epoch, source: Noise, replicas: int = 1) -> PrefixSum:
        """What releases the batches of an epoch, in coordinates where its noise is round (replicas side by side)."""
        kind = PrefixSum if self.decoded else NoisyRows
        built = kind(
            epoch.strategy,
            dimension=self.size * replicas,
            noise_multiplier=self.noise_multiplier,
            noise=source,
            participation=self.unit.participation,
            scales=np.tile(self.scales, replicas),
            law=self.law,
        )
        built.coordinates = self.shape
        return built

    def collector(self, source: Noise) -> EventCollector:
        """The sum of a batch, every unit kept within its reach."""
        return self.unit.collector_for(self, source)

    def published(self, epoch: Epoch, released: Floats) -> Floats:
        """What a mechanism released, as learners read it: back from round coordinates, rows scaled to columns of norm 1."""
        scaled = released if self.decoded else released / epoch.strategy.sensitivity()
        return scaled if self.shape is None else scaled @ self.shape.root.T

    @property
    def release_covariance(self) -> Floats:
        """The covariance of the noise in any one release of rows, as learners read it."""
        if not self.epochs:
            return np.zeros((self.size, self.size))
        row_std, reach = self.mechanism(self.epochs[0], Simulated(0)).row_std, self.epochs[0].strategy.sensitivity()
        covariance = np.diag(self.scales**2) if self.shape is None else self.shape.covariance
        return np.asarray(row_std**2 * covariance / reach**2)

    def noise_tables(self, seeds: Sequence[int]) -> Floats:
        """The simulated noise of every release (seeds, batches, size), each seed's as if it were drawn alone."""
        source = SimulatedReplicas([(seed, Purpose.NOISE) for seed in seeds])
        rows: list[Floats] = []
        for epoch in self.epochs:
            mechanism = self.mechanism(epoch, source, len(seeds))
            for _ in range(epoch.first, epoch.last):
                noise = mechanism.release(np.zeros(mechanism.dimension)).reshape(len(seeds), self.size)
                rows.append(noise if self.decoded else noise / epoch.strategy.sensitivity())
        table = np.array(rows).reshape(len(rows), len(seeds), self.size).swapaxes(0, 1)
        if self.shape is not None:
            table = table @ self.shape.root.T
        return np.ascontiguousarray(table if self.sampling_rate == 1 else table / self.sampling_rate)

    def encoder(self) -> Floats:
        """C of all batches, its columns of norm 1 at most: how their sums enter rows."""
        return encoder_of(len(self.ends), self.epochs)

    def book(self, source: Noise) -> SumBook:
        """An empty book with this source of noise."""
        return SumBook(self, source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        return packing.to_bytes(
            {
                "kind": "batch",
                **{field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in _OWN},
                "unit": [self.unit.name, dataclasses.asdict(self.unit)],  # type: ignore[call-overload]
                "law": [self.law.name, dataclasses.asdict(self.law)],  # type: ignore[call-overload]
                "shape": None if self.shape is None else self.shape.root,
                "epochs": [(e.first, e.last, *history.stored(e.strategy)) for e in self.epochs],
            }
        )


_OWN = ("unit", "law", "shape", "epochs")


@dataclass(frozen=True, kw_only=True)
class RewardPlan(Plan):
    """Every reward told with noise of its own as soon as it is known, by a law of that kind.

    ``unit``: whom it protects; of people the first few rewards are told, and pay together, and for the others a constant
    stands.
    """

    law: RewardLaw
    centre: float = 0.0
    unit: Unit = EventUnit()  # noqa: RUF009  # frozen and without state

    def __post_init__(self) -> None:
        fits = isinstance(self.unit, EventUnit | UserVisitsUnit)
        check.expect(fits, "unit", self.unit.name, "in {event, user-visits} for rewards that are told one by one")

    @property
    def told(self) -> int:
        """How many rewards of one unit are told."""
        return self.unit.visits if isinstance(self.unit, UserVisitsUnit) else 1

    @property
    def participation(self) -> Participation:
        return self.unit.participation if self.unit.needs_user else privacy.told_rewards()

    def price(self, *, exact_noise: bool = False) -> Price:
        return self.law.price(self.told)

    @property
    def retention(self) -> str:
        return "Of a reward only what was told of it is kept, with its noise."

    def end_of(self, batch: int) -> int:
        return batch + 1

    @property
    def size(self) -> int:
        """The length of a release."""
        return 1

    def book(self, source: Noise) -> RewardBook:
        """An empty book with this source of noise."""
        return RewardBook(self, source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        law = [self.law.name, dataclasses.asdict(self.law)]  # type: ignore[call-overload]
        plain = {"delta": self.delta, "nominal_epsilon": self.nominal_epsilon, "centre": self.centre}
        unit = [self.unit.name, dataclasses.asdict(self.unit)]  # type: ignore[call-overload]
        return packing.to_bytes({"kind": "reward", **plain, "law": law, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class SamplingPlan(Plan):
    """Private by sampling: for every choice, a sample around the mean reward of each of ``arms`` arms.

    ``mu``: what the samples of ``rounds`` rounds cost a reward at most. ``variance``: c of their law, see
    :class:`~adaprivate.mechanisms.arm_sampler.ArmSampler`. ``most_pulls``: a bound on the pulls of an arm before the last.
    """

    arms: int
    rounds: int
    mu: float
    variance: float
    most_pulls: float

    @property
    def participation(self) -> Participation:
        return privacy.arm_events()

    def price(self, *, exact_noise: bool = False) -> Price:
        slack = ArmSampler(self.arms, self.variance, Secure()).slack(self.rounds) if exact_noise else 0.0
        return privacy.GaussianPrice(self.mu, slack, exact=False)

    @property
    def retention(self) -> str:
        return "The exact sum of each arm's rewards is kept for good: every choice is a sample around it."

    def refuse_exact_noise(self, policy: str) -> None:
        most = LARGEST / (self.most_pulls + 1)
        fits = self.variance < most
        check.expect(fits, "variance", self.variance, f"< {most:.6g} for exact noise over {self.rounds} rounds")
        ArmSampler(self.arms, self.variance, Secure())

    def book(self, source: Noise) -> ArmBook:
        """An empty book with this source of noise."""
        return ArmBook(self, source)

    def to_bytes(self) -> bytes:
        """The whole plan: public."""
        return packing.to_bytes({"kind": "sampling", **dataclasses.asdict(self)})


def plan_from_bytes(data: bytes) -> Any:
    """The plan that ``to_bytes`` wrote."""
    stored = packing.from_bytes(data)
    known = isinstance(stored, dict) and stored.get("kind") in (
        "batch",
        "reward",
        "sampling",
        "channels",
        "blocks",
        "messages",
    )
    check.expect(known, "data", "something else", "to be a plan")
    kind = stored.pop("kind")
    if kind == "sampling":
        return SamplingPlan(**stored)
    if kind == "channels":
        from adaprivate.mechanisms.channels import restored_plan

        return restored_plan(stored)
    if kind == "blocks":
        from adaprivate.mechanisms import blocks

        return blocks.restored_plan(stored)
    if kind == "messages":
        from adaprivate.mechanisms import messages

        return messages.restored_plan(stored)
    name, options = stored["law"]
    law = laws.named(name)(**options)
    unit_name, unit_options = stored.get("unit", (EventUnit.name, {}))  # of old, plans of told rewards had none
    if kind == "reward":
        return RewardPlan(**{**stored, "law": law, "unit": units.named(unit_name)(**unit_options)})
    epochs = [
        Epoch(first, last, history.restored(name, matrix, last - first)) for first, last, name, matrix in stored["epochs"]
    ]
    own = {"law": law, "unit": units.named(unit_name)(**unit_options), "epochs": tuple(epochs)}
    shape = None if stored["shape"] is None else Shape(stored["shape"])
    refusal = None if stored["refusal"] is None else tuple(stored["refusal"])
    return BatchPlan(**{**stored, **own, "shape": shape, "ends": tuple(stored["ends"]), "refusal": refusal})
