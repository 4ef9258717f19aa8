"""Privacy statements of the papers, recomputed: the epsilon each one states and the one it gives.

A stated epsilon is a promise: it *agrees* when the true epsilon is no larger (it may be far smaller: the noise is then
wasted, not the privacy), and is *unsound-as-published* when the true epsilon is larger. A plain number agrees when it is
ours to within one unit of its last printed digit (papers round or truncate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import privacy
from adaprivate.experiments import Cell, Row
from adaprivate_papers._cells import near

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Ou et al. 2024, Shariff & Sheffet 2018"
QUESTION = "Do the papers keep the privacy they state?"
DELTA = 1e-5


def _eq_2_8(epsilon: float) -> float:
    return privacy.gaussian_epsilon(privacy.zcdp_sigma(epsilon, DELTA), DELTA)


def _eq_3_6(rate: float) -> float:
    return privacy.sampled_gaussian_epsilon(privacy.published_sampled_gaussian_sigma(1.0, DELTA, rate), DELTA, rate)


def _user_clipping(batches: int, neighbours: str) -> float:
    reach = privacy.users(1.0, batches, neighbours).sensitivity
    return privacy.gdp_epsilon(reach / privacy.zcdp_sigma(5.0, DELTA), DELTA)


def _dp_svd(epsilon: float) -> float:
    return privacy.gdp_epsilon(math.sqrt(2) / privacy.zcdp_sigma(epsilon, DELTA), DELTA)


def _argmax_theorem(delta: float) -> tuple[float, float]:
    """Ou et al., Theorem 7 with Lemma 12, two arms, one pull: what it states and what the argmax really gives."""
    mu = 1 / math.sqrt(2)
    return mu * math.sqrt(math.log(1 / (2 * delta))) / 2, privacy.gdp_epsilon(mu, delta)


def _shariff_sheffet(delta: float) -> float:
    return privacy.gdp_epsilon(1 / (4 * math.log(4 / delta)), delta)


def _statements() -> list[tuple[str, str, str, float, float]]:
    """Kind, row, column, stated, ours."""
    found: list[tuple[str, str, str, float, float]] = []
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        found.append(("epsilon", "AdaPrivate-TS Eq. 2.8 (zCDP)", f"epsilon {epsilon:g}", epsilon, _eq_2_8(epsilon)))
    for rate in (0.1, 0.3, 0.5, 0.7):
        found.append(("epsilon", "AdaPrivate-TS Eq. 3.6 (sampling)", f"epsilon 1, q {rate:g}", 1.0, _eq_3_6(rate)))
    for batches in (1, 5, 20):
        for neighbours in privacy.NEIGHBOURS:
            column = f"epsilon 5, {batches} {'batch' if batches == 1 else 'batches'}, {neighbours}"
            found.append(("epsilon", "AdaPrivate-TS Sec 6.1 (users)", column, 5.0, _user_clipping(batches, neighbours)))
    for epsilon in (1.0, 2.0, 5.0, 10.0):
        found.append(("epsilon", "AdaPrivate-TS Sec 6.3 (DP-SVD)", f"epsilon {epsilon:g}", epsilon, _dp_svd(epsilon)))
    for events, printed in ((1, 0.450), (5, 0.018), (10, 0.0045)):
        ours = privacy.zcdp_rho(5.0, DELTA) / privacy.group_rho(1.0, [events])
        found.append(
            ("number", "AdaPrivate-TS Sec 4.6 (groups)", f"rho, {events} event{'s' * (events > 1)}", printed, ours)
        )
    for mu, printed in ((1, 4.88), (5, 35.57), (10, 96.71)):
        found.append(
            ("number", "Ou et al. (GDP to epsilon)", f"mu {mu}, delta 1e-6", printed, privacy.gdp_epsilon(mu, 1e-6))
        )
    for delta in (1e-5, 1e-6):
        stated, true = _argmax_theorem(delta)
        found.append(("epsilon", "Ou et al. Theorem 7 (argmax)", f"delta {delta:g}", stated, true))
    for delta in (0.1, 1e-5):
        found.append(
            ("epsilon", "Shariff-Sheffet Gaussian tree", f"epsilon 1, delta {delta:g}", 1.0, _shariff_sheffet(delta))
        )
    return found


SETTINGS: list[Mapping[str, Any]] = [
    {"kind": kind, "row": row, "column": column, "index": index}
    for index, (kind, row, column, _, _) in enumerate(_statements())
]
PAPER = {(row, column): stated for _, row, column, stated, _ in _statements()}


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """Recompute one statement."""
    return {**setting, "ours": _statements()[setting["index"]][4]}


def _cell(kind: str, row: str, column: str, ours: float) -> Cell:
    stated = PAPER[row, column]
    if kind == "epsilon":
        return Cell(row, column, stated, ours, None, "agrees" if ours <= stated else "unsound-as-published")
    digits = len(f"{stated:g}".partition(".")[2])
    return near(row, column, stated, ours, None, 10.0 ** -max(digits, 2 if stated > 1 else 3))


def compare(rows: Sequence[Row]) -> list[Cell]:
    """A verdict per statement."""
    return [_cell(r["kind"], r["row"], r["column"], r["ours"]) for r in rows]


def answer(rows: Sequence[Row]) -> str:
    """How many statements are kept, and the one that is furthest from it."""
    cells = compare(rows)
    broken = [cell for cell in cells if cell.verdict == "unsound-as-published"]
    if not broken:
        return f"Yes: all {len(cells)} statements hold."
    worst = max(broken, key=lambda cell: cell.ours / (cell.paper or 1.0))
    return (
        f"{len(broken)} of {len(cells)} statements are unsound as published. Furthest off: {worst.row}, {worst.column}, "
        f"states {worst.paper:g} and gives {worst.ours:.3g}."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """True epsilon over stated epsilon, one point per statement."""
    cells = [cell for cell, row in zip(compare(rows), rows, strict=True) if row["kind"] == "epsilon"]
    labels = [f"{cell.row}, {cell.column}" for cell in cells]
    ratios = [max(cell.ours / (cell.paper or 1.0), 1e-2) for cell in cells]
    colours = ["tab:red" if cell.verdict.startswith("unsound") else "tab:blue" for cell in cells]
    axes.scatter(ratios, range(len(cells)), c=colours, s=22)
    axes.hlines(range(len(cells)), 1, ratios, colors=colours, lw=1)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cells)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("true epsilon / stated epsilon (red: more is lost than was promised; 0.01 stands for 0.01 or less)")
