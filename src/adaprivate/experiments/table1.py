"""Table 1: AdaPrivate-TS and -UCB as percent of non-private LinUCB on the synthetic world.

Random play already earns about 86 percent, so the learned share, printed beside it, is the honest scale. The paper's claim
that TS beats UCB is tested on the same seeds: the last rows are the paired difference TS - UCB in percentage points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import beside_linucb, paired_points
from adaprivate.experiments._synthetic import PAPER_SEEDS, Printed, cell, means, percent_cells, plot_regret, printed_levels

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Table 1"
SEEDS = PAPER_SEEDS
EPSILONS = (0.5, 1.0, 2.0, 5.0)
NAMES = {"AdaPrivate-UCB": "adaprivate-ucb", "AdaPrivate-TS": "adaprivate-ts"}
LEAD = "TS - UCB (points)"
PRINTED: Printed = {
    ("Linear TS (not private)", "any epsilon"): (101.2, 1.1),
    **printed_levels(
        EPSILONS,
        {
            "AdaPrivate-UCB": ((92.2, 2.1), (95.2, 2.3), (96.9, 1.9), (98.2, 1.5)),
            "AdaPrivate-TS": ((93.5, 1.5), (96.7, 1.7), (98.2, 1.9), (98.7, 2.0)),
            LEAD: ((1.3, 0.0), (1.5, 0.0), (1.3, 0.0), (0.5, 0.0)),
        },
    ),
}
PAPER = means(PRINTED)
SETTINGS: list[Mapping[str, Any]] = [
    {"row": "Random", "column": "any epsilon", "policy": "random"},
    {"row": "LinUCB (not private)", "column": "any epsilon", "policy": "linucb"},
    {"row": "Linear TS (not private)", "column": "any epsilon", "policy": "lints"},
    *(
        {"row": row, "column": f"epsilon {epsilon:g}", "policy": policy, "options": {"epsilon": epsilon}}
        for row, policy in NAMES.items()
        for epsilon in EPSILONS
    ),
]
run = beside_linucb


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Levels, then the paired advantage of TS over UCB."""
    cells = percent_cells(rows, PRINTED)
    cells += [
        Cell(r["row"], f"{r['column']}, learned share", None, 100 * r["learned_share"], None, "not-in-paper") for r in rows
    ]
    cells.sort(key=lambda c: [r["row"] for r in rows].index(c.row))
    found = {(row["row"], row["column"]): row["runs"] for row in rows}
    baseline = found["LinUCB (not private)", "any epsilon"]
    for column in (column for row, column in PRINTED if row == LEAD):
        points, sem = paired_points(found["AdaPrivate-TS", column], found["AdaPrivate-UCB", column], baseline)
        cells.append(cell(LEAD, column, PRINTED[LEAD, column], points, sem))
    return cells


_COLOURS = {"Random": "0.6", "LinUCB (not private)": "black", "Linear TS (not private)": "tab:green"}
_SHADES = {"AdaPrivate-UCB": "Blues", "AdaPrivate-TS": "Reds"}


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret over rounds: one colour per policy, darker with more privacy budget."""
    from matplotlib import colormaps

    def styled(row: Row) -> Row:
        if row["row"] in _COLOURS:
            return {**row, "label": row["row"], "style": {"color": _COLOURS[row["row"]]}}
        depth = 0.35 + 0.2 * [f"epsilon {epsilon:g}" for epsilon in EPSILONS].index(row["column"])
        return {**row, "style": {"color": colormaps[_SHADES[row["row"]]](depth)}}

    plot_regret([styled(row) for row in rows], axes)
