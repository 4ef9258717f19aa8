"""RarelySwitching: LinUCB that updates when the design matrix has grown, its reward sum released with noise.

Paper: Abbasi-Yadkori, Pal & Szepesvari 2011 (rarely switching OFUL), made private as the AdaPrivate-TS paper names it.
Guarantee: (epsilon, delta), event, replace one reward, by docs/privacy.md "Releases that choose their moment".
Deviates: reconstructed. No paper defines it beside AdaC-OFUL, which is the private rarely switching OFUL; here it is that
    algorithm without the part of the width that pays for noise, and a frozen ellipsoid instead of a frozen optimistic
    parameter, since candidates change from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.rivals.switching import SwitchingSettings


@dataclass(frozen=True, kw_only=True)
class RarelySwitchingSettings(SwitchingSettings):
    """LinUCB frozen between releases, which come when det A has grown by a factor of 1 + ``growth``."""

    name: ClassVar[str] = "rarely-switching"


EXAMPLES = (
    RarelySwitchingSettings(dimension=4, rounds=60),
    RarelySwitchingSettings(dimension=3, rounds=50, growth=0.5, noise="tree", calibration="exact"),
)
