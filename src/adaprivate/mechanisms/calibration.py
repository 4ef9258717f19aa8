"""The least noise for an (epsilon, delta), before anyone's data is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adaprivate import check, mechanisms, privacy
from adaprivate.privacy import GaussianPrice, Guarantee, Participation, Price, SampledGaussianPrice


@dataclass(frozen=True)
class Calibration:
    """How much noise, what it costs, and what a looser published calibration would have used.

    ``sigma`` is the standard deviation of the noise on each released row (a batch sum, a tree node, a row of C s);
    ``prefix_std`` that of the noise in the running sum after each batch. ``mu`` is ``None`` with sampling, whose curve is
    not Gaussian.
    """

    sigma: float
    mu: float | None
    rho: float
    sigma_zcdp: float
    epsilon: float
    delta: float
    prefix_std: tuple[float, ...]
    guarantee: Guarantee
    sampling_rate: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "sigma": self.sigma,
            "mu": self.mu,
            "rho": self.rho,
            "sigma_zcdp": self.sigma_zcdp,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "prefix_std": list(self.prefix_std),
            "sampling_rate": self.sampling_rate,
            "guarantee": self.guarantee.to_dict(),
        }

    def facts(self) -> list[tuple[str, float | None, str]]:
        """Name, value and meaning of each number, for people."""
        found = [
            ("sigma", self.sigma, "standard deviation of the noise on every released row"),
            ("mu", self.mu, "Gaussian-DP parameter"),
            ("rho", self.rho, "zCDP budget of Eq. 2.8 of AdaPrivate-TS for the same (epsilon, delta)"),
            ("sigma by zCDP", self.sigma_zcdp, "what the looser Eq. 2.8 of AdaPrivate-TS would add"),
        ]
        if self.sampling_rate is not None:
            rescaled = self.sigma / self.sampling_rate
            found.append(("sigma / q", rescaled, "noise after the unbiased rescaling: compare it with no sampling"))
        if self.prefix_std:
            found.append(("largest", max(self.prefix_std), f"standard deviation over {len(self.prefix_std)} running sums"))
            rms = math.sqrt(math.fsum(s * s for s in self.prefix_std) / len(self.prefix_std))
            found.append(("root mean square", rms, "of the same"))
        return found


def participation(
    unit: str,
    *,
    sensitivity: float,
    batches_per_user: int | None,
    separation: int,
    clip: float | None,
    neighbours: str,
) -> Participation:
    """Whom to protect, from the words of the command line; what does not apply is refused rather than ignored."""
    check.one_of("neighbours", neighbours, privacy.NEIGHBOURS)
    if check.one_of("unit", unit, ("event", "user")) == "event":
        for name, value in (("batches_per_user", batches_per_user), ("clip", clip)):
            check.expect(value is None, name, value, "to be given with unit=user only")
        check.expect(separation == 1, "separation", separation, "to be given with unit=user only")
        check.expect(neighbours == "replace", "neighbours", neighbours, "== replace for unit=event")
        return privacy.events(reward_range=sensitivity)
    check.expect(batches_per_user is not None, "batches_per_user", batches_per_user, ">= 1 for unit=user")
    check.expect(clip is not None, "clip", clip, "> 0 for unit=user")
    check.expect(sensitivity == 1, "sensitivity", sensitivity, "to be given with unit=event only (a user's is the clip)")
    return privacy.users(clip or 0.0, batches_per_user or 0, neighbours, separation)


def calibrate(
    epsilon: float,
    delta: float,
    *,
    sensitivity: float = 1.0,
    batches: int | None = None,
    noise: str = "independent",
    unit: str = "event",
    batches_per_user: int | None = None,
    separation: int = 1,
    clip: float | None = None,
    neighbours: str = "replace",
    sampling_rate: float | None = None,
) -> Calibration:
    """The least noise that gives (epsilon, delta) to one event or user, over all releases together."""
    mu = privacy.gdp_mu(epsilon, delta)
    protected = participation(
        unit,
        sensitivity=check.real("sensitivity", sensitivity, above=0),
        batches_per_user=batches_per_user,
        separation=separation,
        clip=clip,
        neighbours=neighbours,
    )
    if batches is None:
        check.expect(noise == "independent", "noise", noise, "to be given with batches")
        reach = protected.sensitivity
        prefix: tuple[float, ...] = ()
    else:
        check.one_of("noise", noise, sorted(mechanisms.strategies()))
        strategy = mechanisms.strategy(noise, check.whole("batches", batches, at_least=1))
        reach = protected.change * strategy.sensitivity(protected.batches, protected.separation)
        prefix = tuple(strategy.prefix_std().tolist())
    attained = batches is None or strategy.attained(protected.batches)
    price: Price = GaussianPrice(mu, exact=attained)
    sigma = reach / mu
    conditions: tuple[str, ...] = ("exact-noise",)
    if sampling_rate is not None:
        check.expect(unit == "event", "unit", unit, "== event with sampling_rate")
        check.expect(noise == "independent", "noise", noise, "== independent with sampling_rate")
        multiplier = privacy.sampled_gaussian_sigma(epsilon, delta, sampling_rate)
        check.expect(multiplier > 0, "sampling_rate", sampling_rate, f"> {delta:g}, the delta")
        price, sigma = SampledGaussianPrice(multiplier, sampling_rate), multiplier * reach
        prefix = tuple(std / sampling_rate for std in prefix)
        conditions = (*conditions, "secret-sample")
    return Calibration(
        sigma=sigma,
        mu=mu if sampling_rate is None else None,
        rho=privacy.zcdp_rho(epsilon, delta),
        sigma_zcdp=privacy.zcdp_sigma(epsilon, delta, reach),
        epsilon=price.epsilon(delta),
        delta=delta,
        prefix_std=tuple(sigma * std for std in prefix),
        guarantee=privacy.guarantee(price, protected, delta, conditions=conditions),
        sampling_rate=sampling_rate,
    )
