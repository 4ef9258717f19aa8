"""LinTS on flipped rewards: randomised response tells one bit of every reward, and plain Thompson sampling learns from it.

Paper: Warner 1965 for the flips; the simplest private baseline there is, which no paper of the field compares with.
Guarantee: epsilon | event, replace one reward, or unit="user": all of a person; docs/privacy.md "Randomised response".
Deviates: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from adaprivate.policies.rivals.lints import LinTSSettings
from adaprivate.policies.rivals.randomised_response import FlippedSettings


@dataclass(frozen=True, kw_only=True)
class FlippedLinTSSettings(FlippedSettings, LinTSSettings):
    """Thompson sampling from N(A^-1 b, v^2 A^-1), every reward seen as a flipped bit."""

    name: ClassVar[str] = "rr-lints"


EXAMPLES = (
    FlippedLinTSSettings(dimension=4, rounds=60),
    FlippedLinTSSettings(dimension=3, rounds=50, epsilon=3.0, centre=0.5),
    FlippedLinTSSettings(dimension=3, rounds=50, epsilon=4.0, centre=0.5, unit="user", counted_visits=2),
)
