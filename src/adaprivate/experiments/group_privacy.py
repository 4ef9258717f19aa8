"""Sec 4.6 and 6.1: protecting a person with k events at epsilon 5.

The rho of group privacy (epsilon 5 divided by k^2) reproduces to the printed digits. The rewards printed beside it in Sec
4.6 do not, read as percent of LinUCB (random play alone earns about 86) or as the learned share; Sec 6.1 itself prints 90.6
where Sec 4.6 prints 14.2, for the same k = 10, epsilon and rule. Its own numbers, with noise k / sqrt(2 rho), reproduce.

Clipping each person to sqrt(k) per batch (Sec 6.1) with noise sqrt(k) / sqrt(2 rho) does not give epsilon 5: a replaced
person can move one batch by twice the clip, and several batches, each with noise of its own. The cells "truly at least"
are attained by a way to spread k events over batches; the rewards earned so are unsound as published. The sound rows pay
for the worst spread, or enforce one event per person and batch, which needs k rho instead of k^2 rho. The synthetic world
has no persons for these rows: each is AdaPrivate-TS with the noise that the rule asks for, and clipping's bias is left out.
The rows after them are schemes of `user-level` on the same world with k visits of each person, at a true epsilon of 5.

No deviation is printed; the paper's seeds are taken to spread as ours do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adaprivate import privacy
from adaprivate.experiments import Cell, Row, compared, unsound, user_level
from adaprivate.experiments._measured import OF_TUNED, ROUNDS, beside_linucb
from adaprivate.experiments._synthetic import PAPER_SEEDS, cell, with_our_spread
from adaprivate.simulation import mean_sem

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 4.6 and 6.1"
QUESTION = "What does it take to protect a person with many events?"
SEEDS = PAPER_SEEDS
EPSILON, DELTA = 5.0, 1e-5
RHO = privacy.zcdp_rho(EPSILON, DELTA)
LEVEL, SHARE, TRUE, BUDGET = "% of LinUCB", "learned share, %", "epsilon, truly at least", "rho per event"
OURS = ("ledger", "ledger, scalar", "group privacy", "first visit", "randomised response, 1", "randomised response, k")
"""Schemes of `user-level` that keep epsilon for people who really return."""
worst_change = privacy.clipped_reach
NAIVE, CLIPPED, SOUND, SPACED = "k^2 rho", "clipped at sqrt k, published", "clipped, sound", "one event a batch"


def sigma(rule: str, events: int) -> float:
    """The noise on b that a rule gives to persons with so many events."""
    published, exact = 1 / math.sqrt(2 * RHO), 1 / privacy.gdp_mu(EPSILON, DELTA)
    root = math.sqrt(events)
    return {
        NAIVE: events * published,
        CLIPPED: root * published,
        SOUND: worst_change(events, root) * exact,
        SPACED: root * exact,
    }[rule]


_LEVELS = {(NAIVE, 1): 80.4, (NAIVE, 5): 26.0, (NAIVE, 10): 14.2}
_SEC_6 = {(NAIVE, 10): 90.6, (NAIVE, 20): 87.4, (CLIPPED, 10): 96.4, (CLIPPED, 20): 94.8}
_BUDGETS = {1: 0.450, 5: 0.018, 10: 0.0045}
_CASES = [
    *((NAIVE, k) for k in (1, 5, 10, 20)),
    *((CLIPPED, k) for k in (10, 20)),
    *((SOUND, k) for k in (10, 20)),
    *((SPACED, k) for k in (1, 5, 10, 20)),
]
PAPER = {
    **{(f"{NAIVE}, k = {k}", BUDGET): rho for k, rho in _BUDGETS.items()},
    **{(f"{rule}, k = {k}", f"{column} (Sec 4.6)"): v for (rule, k), v in _LEVELS.items() for column in (LEVEL, SHARE)},
    **{(f"{rule}, k = {k}", f"{LEVEL} (Sec 6.1)"): value for (rule, k), value in _SEC_6.items()},
    **{(f"{CLIPPED}, k = {k}", TRUE): EPSILON for k in (10, 20)},
}
SETTINGS: list[Mapping[str, Any]] = [
    {
        "row": f"{rule}, k = {events}",
        "rule": rule,
        "events": events,
        "sigma": sigma(rule, events),
        "policy": "adaprivate-ts",
        "options": {"epsilon": privacy.zcdp_epsilon(1 / (2 * sigma(rule, events) ** 2), DELTA)},
    }
    for rule, events in _CASES
] + [
    {
        "row": f"{rule}, k = {events}",
        "rule": rule,
        "events": events,
        "policy": user_level.schemes(events)[rule][0],
        "options": {**user_level.schemes(events)[rule][1], "epsilon": EPSILON},
        "world": {"people": ROUNDS // events},
    }
    for rule in OURS
    for events in (5, 10, 20)
]
_FIRST = ("ledger", "randomised response, 1")
QUICK = [s for s in SETTINGS if s["rule"] not in OURS or (s["rule"] in _FIRST and s["events"] == 10)]
run = beside_linucb


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Budgets, rewards by either reading, and what the published clipping gives."""
    cells: list[Cell] = []
    for row in rows:
        name, rule, k = row["row"], row["rule"], row["events"]
        if rule == NAIVE and k in _BUDGETS:
            ours = RHO / privacy.group_rho(1.0, [k])
            digits = len(f"{_BUDGETS[k]:g}".partition(".")[2])
            off, tolerance = abs(ours - _BUDGETS[k]), 0.5 * 10.0**-digits
            cells.append(replace(compared(name, BUDGET, _BUDGETS[k], ours, None, off, tolerance), computed=True))
        if rule == CLIPPED:
            true = privacy.gdp_epsilon(worst_change(k, math.sqrt(k), attained=True) / row["sigma"], DELTA)
            cells.append(Cell(name, TRUE, EPSILON, true, None, "unsound-as-published", computed=True))
        share, share_sem = mean_sem([100 * run.learned_share for run in row["runs"]])
        for column, ours, sem in ((LEVEL, row["percent"], row["percent_sem"]), (SHARE, share, share_sem)):
            sections = [section for section in ("Sec 4.6", "Sec 6.1") if (name, f"{column} ({section})") in PAPER]
            for section in sections:
                titled = f"{column} ({section})"
                found = cell(name, titled, with_our_spread(PAPER[name, titled], sem, len(row["runs"])), ours, sem)
                cells.append(unsound(found) if rule == CLIPPED else found)
            if not sections:
                cells.append(Cell(name, column, None, ours, sem, "not-in-paper"))
        tuned = row["percent_of_tuned"], row["percent_of_tuned_sem"]
        cells.append(Cell(name, OF_TUNED, None, *tuned, "not-in-paper"))
    return cells


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Percent of LinUCB against the number of events a person may have, one line for each rule."""
    for rule in (NAIVE, CLIPPED, SOUND, SPACED, *OURS):
        ours = [row for row in rows if row["rule"] == rule]
        bars = [2 * (row["percent_sem"] or 0.0) for row in ours]
        style = {"ls": "--"} if rule == CLIPPED else {}
        axes.errorbar([r["events"] for r in ours], [r["percent"] for r in ours], yerr=bars, capsize=3, label=rule, **style)
    for printed, mark, label in ((_LEVELS, "x", "printed, Sec 4.6"), (_SEC_6, "+", "printed, Sec 6.1")):
        axes.plot([k for _, k in printed], list(printed.values()), mark, color="black", label=label)
    axes.axhline(86, color="0.6", lw=0.8, label="random play")
    axes.set(xlabel="events per person", ylabel="% of LinUCB at epsilon 5 per person (dashed: not really 5)")
    axes.legend(fontsize=8)
