"""Table 1: AdaPrivate-TS and -UCB as percent of non-private LinUCB on the synthetic world.

Random play already earns about 86 percent, so the learned share, printed beside it, is the honest scale. The paper's claim
that TS beats UCB is tested on the same seeds: the last rows are the paired difference TS - UCB in percentage points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import beside_linucb, paired_points
from adaprivate.experiments._synthetic import PAPER_SEEDS, Printed, cell, means, percent_cells, printed_levels

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Table 1"
QUESTION = "Do AdaPrivate-TS and -UCB earn what Table 1 says, and does TS beat UCB?"
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


def answer(rows: Sequence[Row]) -> str:
    """Who is ahead, and by how much."""
    leads = [cell for cell in compare(rows) if cell.row == LEAD]
    ours, theirs = [cell.ours for cell in leads], [cell.paper or 0.0 for cell in leads]
    return (
        f"TS is {min(ours):+.1f} to {max(ours):+.1f} points from UCB on the same seeds, where {min(theirs):+.1f} to "
        f"{max(theirs):+.1f} is printed."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Percent of LinUCB against epsilon, ours with a band of two standard errors, what is printed as crosses."""
    for place, name in enumerate(NAMES):
        here = {row["options"]["epsilon"]: row for row in rows if row["row"] == name}
        at, mean = list(here), [row["percent"] for row in here.values()]
        spread = [2 * (row["percent_sem"] or 0.0) for row in here.values()]
        axes.plot(at, mean, "o-", lw=1.8, color=f"C{place}", label=f"{name}, ours")
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        axes.fill_between(at, low, high, color=f"C{place}", alpha=0.12, lw=0)
        axes.plot(at, [PAPER[name, f"epsilon {e:g}"] for e in at], "x", ms=7, color=f"C{place}", label=f"{name}, printed")
    for row, look in zip(
        (row for row in rows if row["policy"] in ("random", "linucb", "lints")), (":", "-", "--"), strict=True
    ):
        axes.axhline(row["percent"], ls=look, color="0.45", lw=1.2, label=row["row"])
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set(xlabel="epsilon, as stated", ylabel="reward, % of LinUCB without privacy (bands: two standard errors)")
    axes.legend(fontsize=8)
