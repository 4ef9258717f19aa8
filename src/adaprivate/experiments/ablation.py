"""What each idea of the noise-aware policies is worth, alone and in its absence, on the synthetic world.

"Alone" starts at AdaPrivate-UCB as published and adds one idea, then several. "Without" starts at noise-aware-greedy and
takes one away. Shaped noise is measured where it can matter: features whose spread falls as 1/coordinate, the catalogue
being the arms of that world. The last rows are worlds whose mean reward is not the centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import environments
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import ROUNDS, measured, played
from adaprivate.simulation import Run, mean_sem, policy_settings

SOURCE = "our own policy; docs/noise-aware.md"
SEEDS = 200
PAPER: dict[tuple[str, str], float] = {}
FULL, PUBLISHED = "noise-aware-greedy", "adaprivate-ucb"
EXACT, CENTRED = {"calibration": "exact"}, {"centre": 0.5}
POSTERIOR = {"centre": 0.0, "intercept": 0.0, "noise": "independent", "batch_size": 300, "growth": 1.0}
STEEP, LOW = {"decay": 1.0}, {"offset": -1.5}
ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("published", PUBLISHED, {}, {}),
    ("alone: exact sigma", PUBLISHED, EXACT, {}),
    ("alone: centring", PUBLISHED, CENTRED, {}),
    ("alone: square-root noise", PUBLISHED, {"noise": "sqrt"}, {}),
    ("alone: posterior (with exact sigma)", FULL, POSTERIOR, {}),
    ("together: exact sigma, centring, square-root noise", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt"}, {}),
    ("together: the same and ridge 80", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt", "ridge": 80.0}, {}),
    ("together: all (noise-aware-greedy)", FULL, {}, {}),
    ("without: informative noise (square-root)", FULL, {"noise": "sqrt"}, {}),
    ("without: correlated noise (independent)", FULL, {"noise": "independent"}, {}),
    ("without: centring", FULL, {"centre": 0.0, "intercept": 0.0}, {}),
    ("without: intercept (base rate known)", FULL, {"intercept": 0.0}, {}),
    ("without: adapting the prior", FULL, {"adapt_ridge": False}, {}),
    ("without: adapting the prior, ridge 1", FULL, {"adapt_ridge": False, "ridge": 1.0}, {}),
    ("without: growing batches (300 each)", FULL, {"batch_size": 300, "growth": 1.0}, {}),
    ("mean reward .18: published", PUBLISHED, {}, LOW),
    ("mean reward .18: all", FULL, {}, LOW),
    ("mean reward .18: no intercept", FULL, {"intercept": 0.0}, LOW),
    ("mean reward .18: base rate known", FULL, {"intercept": 0.0, "centre": 0.182}, LOW),
    ("steep features: published", PUBLISHED, {}, STEEP),
    ("steep features: all", FULL, {}, STEEP),
    ("steep features: all, shaped noise", FULL, {"shaped": True}, STEEP),
]
SETTINGS: list[Mapping[str, Any]] = [
    {"row": row, "policy": policy, "options": {**options, "epsilon": epsilon}, "world": world, "epsilon": epsilon}
    for row, policy, options, world in ROWS
    for epsilon in (0.1, 1.0, 5.0)
]
QUICK = [
    setting for setting in SETTINGS if setting["epsilon"] == 1.0 and setting["row"] in (ROWS[0][0], ROWS[7][0], ROWS[-1][0])
]


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One variant; with shaped noise every world brings its own catalogue."""
    options = dict(setting["options"])
    if not options.pop("shaped", False):
        return measured(setting, seeds)
    place: Any = environments.environment("synthetic", setting["world"])
    found: list[Run] = []
    for seed in range(seeds):
        items = tuple(map(tuple, place.world(seed).arms.tolist()))
        shaped = policy_settings(setting["policy"], place, ROUNDS, {**options, "catalogue": items})
        found += played(shaped, place, range(seed, seed + 1))
    return {**setting, "runs": tuple(found)}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret and learned share of every variant."""
    cells = []
    for row in rows:
        for what, values in (
            ("regret", [run.regret for run in row["runs"]]),
            ("learned share, %", [100 * run.learned_share for run in row["runs"]]),
        ):
            cells.append(Cell(row["row"], f"epsilon {row['epsilon']:g}: {what}", None, *mean_sem(values), "not-in-paper"))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret of every variant, a colour for each epsilon."""
    labels = list(dict.fromkeys(row["row"] for row in rows))
    for place, epsilon in enumerate(dict.fromkeys(row["epsilon"] for row in rows)):
        here = [row for row in rows if row["epsilon"] == epsilon]
        at = [labels.index(row["row"]) + 0.25 * (place - 1) for row in here]
        values = [mean_sem([run.regret for run in row["runs"]]) for row in here]
        axes.barh(at, [m for m, _ in values], 0.24, xerr=[2 * (s or 0.0) for _, s in values], label=f"epsilon {epsilon:g}")
    axes.set_yticks(range(len(labels)), labels, fontsize=6)
    axes.invert_yaxis()
    axes.set_xlabel("regret over 10,000 rounds (bars: two standard errors)")
    axes.legend(fontsize=7)
