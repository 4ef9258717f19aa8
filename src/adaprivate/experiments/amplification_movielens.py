"""Section 4.3 on MovieLens: what sampling rewards gains over not sampling, in points of non-private LinUCB.

The published noise of TS-Amp does not give the stated privacy (Eq. 3.6 understates the loss), so a gain earned with it is
unsound; whether its size reproduces is said apart. With noise that does give (epsilon, delta) the comparison is fair only
against TS with exact noise, and there sampling loses: less noise is paid for by fewer rewards. World and features are those
of table3-movielens. The printed gains are read as percent of non-private LinUCB, and the paper's five seeds are taken to
spread as ours do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row, compared, unsound
from adaprivate.experiments._measured import paired_points
from adaprivate.experiments._recorded import ROUNDS, on_ratings, plot_reward, quick
from adaprivate.experiments._synthetic import percent_cells

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 4.3"
QUESTION = "Does it pay to sample rewards on MovieLens?"
SEEDS = 5
EPSILONS = (1.0, 5.0)
RATES = (0.1, 0.3, 0.5, 0.7)
GAINS = {"epsilon 1": 4.6, "epsilon 5": 1.3}
PUBLISHED, EXACT = "TS-Amp q={:g}, published noise, - TS (points)", "TS-Amp q={:g}, exact noise, - TS, exact noise (points)"
PAPER = {(PUBLISHED.format(0.3), column): gain for column, gain in GAINS.items()}
_POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "TS": ("adaprivate-ts", {}),
    "TS, exact noise": ("adaprivate-ts", {"calibration": "exact"}),
    **{
        f"q={rate:g}, {word}": ("adaprivate-ts-amp", {"sampling_rate": rate, "calibration": calibration})
        for word, calibration in (("published noise", "published-unsound"), ("exact noise", "exact"))
        for rate in RATES
    },
}
SETTINGS: list[Mapping[str, Any]] = [
    {
        "environment": "movielens",
        "rounds": ROUNDS["movielens"],
        "row": row,
        "column": f"epsilon {epsilon:g}",
        "policy": policy,
        "options": {**options, "epsilon": epsilon},
    }
    for row, (policy, options) in _POLICIES.items()
    for epsilon in EPSILONS
]
QUICK = quick(SETTINGS)
run = on_ratings


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Levels, then paired gains."""
    cells = percent_cells(rows, {})
    found = {(row["row"], row["column"]): row for row in rows}
    for column in dict.fromkeys(row["column"] for row in rows):
        for name, word, against in ((PUBLISHED, "published noise", "TS"), (EXACT, "exact noise", "TS, exact noise")):
            for rate in RATES:
                ours, theirs = found[f"q={rate:g}, {word}", column], found[against, column]
                gain, sem = paired_points(ours["runs"], theirs["runs"], theirs["baseline"])
                label = name.format(rate)
                printed = PAPER.get((label, column))
                tolerance = 3 * math.sqrt(2) * (sem or 0.0)
                found_here = compared(label, column, printed, gain, sem, abs(gain - (printed or 0.0)), tolerance)
                cells.append(found_here if printed is None else unsound(found_here))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Reward over rounds at epsilon 1."""
    plot_reward([row for row in rows if row["column"] == "epsilon 1"], axes)
    axes.set_title("epsilon 1", fontsize=9)
