"""What the experiments of Shariff & Sheffet, Section D, share: policies in the gap world, regret on their scale.

Rewards there are -1 or +1, here 0 or 1, so regret is doubled. Their non-private LinUCB has the width of Prop. 4: `oful`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import environments
from adaprivate.experiments import Row
from adaprivate.simulation import policy_settings, run_all

SOURCE = "Shariff & Sheffet 2018, Section D"
ROUNDS = 50_000_000
BUDGET = {"epsilon": 1.0, "delta": 0.1}
GAPS = (0.0, 0.1)
TWICE = 2.0


def measured(setting: Mapping[str, Any], seeds: int) -> Row:
    """Run the setting's ``policy`` with its ``options`` for so many ``rounds``: regret and its curve on every seed."""
    place = environments.environment("gap", setting["world"])
    policy = policy_settings(setting["policy"], place, setting["rounds"], setting.get("options", {}))
    runs = run_all([policy], place, range(seeds))[0]
    return {
        **setting,
        "regrets": [TWICE * run.regret for run in runs],
        "curves": [(TWICE * run.curve).tolist() for run in runs],
        "seconds": [run.seconds for run in runs],
    }


def plot_curves(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds, bands of two standard errors; a row may bring a ``label`` and a ``style`` of its own."""
    for row in rows:
        curves = np.array(row["curves"])
        at = np.linspace(row["rounds"] / curves.shape[1], row["rounds"], curves.shape[1])
        mean = curves.mean(axis=0)
        (line,) = axes.plot(at, mean, lw=1.6, label=row.get("label", row["row"]), **row.get("style", {}))
        if len(curves) > 1:
            sem = curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
            axes.fill_between(at, mean - 2 * sem, mean + 2 * sem, color=line.get_color(), alpha=0.08, lw=0)
    axes.set_yscale("log")
    axes.set_xlabel("rounds")
    axes.set_ylabel("regret, rewards in [-1, 1] (bands: two standard errors)")
    axes.legend(fontsize=8)
