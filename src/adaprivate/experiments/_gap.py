"""What the experiments of Shariff & Sheffet, Section D, share: policies in the gap world, regret on their scale.

Rewards there are -1 or +1, here 0 or 1, so regret is doubled. Their non-private LinUCB has the width of Prop. 4: `oful`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaprivate.experiments import Row
from adaprivate.experiments._measured import measured

ROUNDS = 50_000_000
BUDGET = {"epsilon": 1.0, "delta": 0.1}
GAPS = (0.0, 0.1)
TWICE = 2.0


def in_gap(setting: Mapping[str, Any], seeds: int) -> Row:
    """Regret of the setting's policy and its curve on every seed, in plain values that can be kept."""
    runs = measured({**setting, "environment": "gap"}, seeds)["runs"]
    return {
        **setting,
        "environment": "gap",
        "regrets": [TWICE * run.regret for run in runs],
        "curves": [(TWICE * run.curve).tolist() for run in runs],
        "seconds": [run.seconds for run in runs],
    }
