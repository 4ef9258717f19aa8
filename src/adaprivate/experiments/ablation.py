"""What each idea of the noise-aware policies is worth, alone and in its absence, on the synthetic world.

"Alone" starts at AdaPrivate-UCB as published and adds one idea, then several. "Channels" lets noise-aware choose its
channel or holds it to one. "Without" starts at noise-aware-greedy with Gaussian sums and takes one idea of theirs away.
Shaped noise is measured where it can matter: features whose spread falls as 1/coordinate, the catalogue being the arms of
that world. Other worlds: a mean reward that is not the centre, and features of length 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import environments
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import ROUNDS, measured, played
from adaprivate.simulation import Run, mean_sem, policy_settings

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "What is each idea of the noise-aware policies worth?"
SEEDS = 200
PAPER: dict[tuple[str, str], float] = {}
FULL, PUBLISHED, DEFAULT = "noise-aware-greedy", "adaprivate-ucb", "noise-aware"
EXACT, CENTRED = {"calibration": "exact"}, {"centre": 0.5}
SUMS = {"channel": "gaussian"}
POSTERIOR = {**SUMS, "centre": 0.0, "intercept": 0.0, "noise": "independent", "batch_size": 300, "growth": 1.0}
STEEP, LOW, SHORT = {"decay": 1.0}, {"offset": -1.5}, {"norms": 0.2}
ALL = "together: all, Gaussian sums (noise-aware-greedy)"
ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("published", PUBLISHED, {}, {}),
    ("alone: exact sigma", PUBLISHED, EXACT, {}),
    ("alone: centring", PUBLISHED, CENTRED, {}),
    ("alone: square-root noise", PUBLISHED, {"noise": "sqrt"}, {}),
    ("alone: posterior (with exact sigma)", FULL, POSTERIOR, {}),
    ("together: exact sigma, centring, square-root noise", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt"}, {}),
    ("together: the same and ridge 80", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt", "ridge": 80.0}, {}),
    (ALL, FULL, SUMS, {}),
    ("channels: chosen (noise-aware)", DEFAULT, {}, {}),
    ("channels: gaussian", DEFAULT, SUMS, {}),
    ("channels: items", DEFAULT, {"channel": "items"}, {}),
    ("channels: flip", DEFAULT, {"channel": "flip"}, {}),
    ("without: informative noise (square-root)", FULL, {**SUMS, "noise": "sqrt"}, {}),
    ("without: correlated noise (independent)", FULL, {**SUMS, "noise": "independent"}, {}),
    ("without: centring", FULL, {**SUMS, "centre": 0.0, "intercept": 0.0}, {}),
    ("without: intercept (centre trusted)", FULL, {**SUMS, "intercept": 0.0}, {}),
    ("without: adapting the prior", FULL, {**SUMS, "adapt_ridge": False}, {}),
    ("without: adapting the prior, ridge 1", FULL, {**SUMS, "adapt_ridge": False, "ridge": 1.0}, {}),
    ("without: growing batches (300 each)", FULL, {**SUMS, "batch_size": 300, "growth": 1.0}, {}),
    ("mean reward .18: published", PUBLISHED, {}, LOW),
    ("mean reward .18: noise-aware", DEFAULT, {}, LOW),
    ("mean reward .18: noise-aware, base rate known", DEFAULT, {"base_rate": 0.182}, LOW),
    ("mean reward .18: all, Gaussian sums", FULL, SUMS, LOW),
    ("mean reward .18: no intercept", FULL, {**SUMS, "intercept": 0.0}, LOW),
    ("mean reward .18: base rate known", FULL, {**SUMS, "base_rate": 0.182}, LOW),
    ("length .2: published", PUBLISHED, {}, SHORT),
    ("length .2: noise-aware", DEFAULT, {}, SHORT),
    ("length .2: all, Gaussian sums", FULL, SUMS, SHORT),
    ("steep features: published", PUBLISHED, {}, STEEP),
    ("steep features: all, Gaussian sums", FULL, SUMS, STEEP),
    ("steep features: all, shaped noise", FULL, {**SUMS, "shaped": True}, STEEP),
]
SETTINGS: list[Mapping[str, Any]] = [
    {"row": row, "policy": policy, "options": {**options, "epsilon": epsilon}, "world": world, "epsilon": epsilon}
    for row, policy, options, world in ROWS
    for epsilon in (0.1, 1.0, 5.0)
]
QUICK = [setting for setting in SETTINGS if setting["epsilon"] == 1.0 and setting["row"] in (ROWS[0][0], ALL, ROWS[-1][0])]


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


def answer(rows: Sequence[Row]) -> str:
    """Regret at epsilon 1 with no idea and with all, and which of them is missed most."""
    regret = {row["row"]: mean_sem([run.regret for run in row["runs"]])[0] for row in rows if row["epsilon"] == 1.0}
    without = {name: value for name, value in regret.items() if name.startswith("without: ")}
    worst = max(without, key=lambda name: without[name], default=None)
    missed = f" Missed most: {worst.removeprefix('without: ')}, {without[worst]:.0f} without it." if worst else ""
    return f"At epsilon 1 regret is {regret[ROWS[0][0]]:.0f} as published and {regret[ALL]:.0f} with all of them.{missed}"


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
