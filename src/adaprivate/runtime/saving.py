"""A policy as bytes and back."""

from __future__ import annotations

import dataclasses
from typing import Any

from adaprivate import check, policies
from adaprivate.mechanisms import Secure, packing
from adaprivate.mechanisms.book import Told
from adaprivate.runtime.decisions import Decision, Open, Origin

_MAGIC = b"adaprivate policy 2\n"
_COUNTERS = ("reward_window", "logs_propensities", "decided", "round", "version", "clipped")


def packed(policy: Any, saved: str) -> bytes:
    """Everything that a policy is, the open decisions too: private. ``saved`` names this copy."""
    stored = {
        "policy": policy.settings.name,
        "settings": dataclasses.asdict(policy.settings),
        "exact": policy.source is not None,
        "saved": saved,
        "reward_range": list(policy.reward_range),
        "id": policy._origin.id,
        "key": policy._origin._key.hex(),
        **{name: getattr(policy, name) for name in _COUNTERS},
        "open": [
            [*e.decision[:4], e.features, e.reward, type(e.reward) is Told, e.decision.origin.life, e.person]
            for e in policy._open.values()
        ],
        "parts": policy._engine.parts(),
    }
    return _MAGIC + packing.to_bytes(stored)


def unpacked(data: bytes) -> dict[str, Any]:
    """The values that :func:`packed` wrote."""
    check.expect(data[: len(_MAGIC)] == _MAGIC, "data", "something else", "to begin as saved policies do")
    stored = packing.from_bytes(data[len(_MAGIC) :])
    check.expect(isinstance(stored, dict), "data", type(stored).__name__, "to be a saved policy")
    return dict(stored)


def restored(kind: type[Any], stored: dict[str, Any]) -> Any:
    """The policy, of this class, that these values describe."""
    try:
        values = stored["settings"]
        if values.get("theta_0") is not None:
            values["theta_0"] = tuple(values["theta_0"])
        exact = bool(stored["exact"])
        policy = kind(
            policies.settings(stored["policy"], values),
            seed=None if exact else check.whole("seed", stored["parts"]["seed"]),
            source=Secure() if exact else None,
            reward_window=stored["reward_window"],
            propensities=stored["logs_propensities"],
            reward_range=tuple(stored.get("reward_range", (0.0, 1.0))),
        )
        policy._engine.restore(stored["parts"])
        for name in ("decided", "round", "version", "clipped"):
            setattr(policy, name, check.whole(name, stored[name], at_least=0))
        policy._look_ahead()
        policy._engine.opened(policy.decided - policy.round)  # whatever was chosen and not made when it was saved
        policy._origin = Origin(str(stored["id"]), bytes.fromhex(stored["key"]))
        for action, version, propensity, number, features, reward, told, life, *person in stored["open"]:
            vector = check.floats("open", features, (policy.settings.dimension,))
            origin = Origin(policy._origin.id, policy._origin._key, str(life))
            decision = Decision(action, version, propensity, number, vector.copy(), origin)
            policy._open[number] = Open(
                decision, vector, int(person[0]) if person else -1, Told(reward) if told else reward
            )
        return policy
    except check.InputError:
        raise
    except Exception as error:  # whatever a damaged file lacks
        raise check.InputError(f"Expected data to be whole ({type(error).__name__}).") from None
