"""What a type checker knows of the constructors: read by mypy, which refuses an ignored error that is none."""

from typing import TYPE_CHECKING

import adaprivate as ap
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy

if TYPE_CHECKING:
    made: Policy = ap.NoiseAware(rounds=3, epsilon=2.0, base_rate=None, seed=0, reward_range=(1, 5))
    told: Policy = ap.LinUCB(dimension=3, rounds=3, alpha=0.5, source=Secure(), reward_window=2, propensities=True)
    prior: Policy = ap.AdaPrivateTS(rounds=3, theta_0=(0.1, 0.2), v=2.0, seed=0)
    ap.NoiseAware(rounds=3, epsilom=2.0)  # type: ignore[call-arg]
    ap.NoiseAware(rounds="3")  # type: ignore[arg-type]
    ap.NoiseAware(epsilon=1.0)  # type: ignore[call-arg]
    ap.NoiseAware(3)  # type: ignore[call-arg]
    ap.RRLinUCB(rounds=3, v=1.0)  # type: ignore[call-arg]
    ap.RRLinTS(rounds=3, alpha=1.0)  # type: ignore[call-arg]
    ap.NoiseAwareUCB(rounds=3, alpha="1")  # type: ignore[arg-type]
    ap.NoiseAwareTS(rounds=3, alpha=1.0)  # type: ignore[call-arg]
    ap.AdaPrivateUCB(rounds=3, v=1.0)  # type: ignore[call-arg]
    ap.LinTS(rounds=3, epsilon=1.0)  # type: ignore[call-arg]
    ap.TunedLinUCB(rounds=3, seed="x")  # type: ignore[arg-type]
    ap.RandomPlay(rounds=3, seed=0).decides()  # type: ignore[attr-defined]
