"""What privacy costs on the paper's synthetic world: ours, the published policy, randomised response, and none.

Learned share: 0 is random play, 100 the best candidate in every round. All policies meet the same rounds on the same seeds,
and every private one protects the value of one reward. Epsilon is the true one, but for AdaPrivate-TS as published, where
it is the stated one and the true one smaller (0.74 at 1): its line lies to the right of where it belongs. So that it does
not lose by its calibration alone, a repaired AdaPrivate-UCB stands beside it: the least noise that gives epsilon, shared
between releases ("sqrt"), and the public constant 1/2 taken off rewards, which randomised response is given too.

This is one world, and the one that the noise-aware policies were first made for. `channels` compares them on many: on
labelled tables randomised response keeps level with ours; docs/noise-aware.md says where ours loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import ROUNDS, Cell, Row
from adaprivate.simulation import mean_sem
from adaprivate_papers._cells import OF_TUNED, unprinted
from adaprivate_papers._plots import error_band
from adaprivate_papers._world import beside_linucb

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "What does privacy cost?"
SEEDS = 40
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
OURS, FLIPS = "noise-aware (ours)", "randomised response"
PUBLISHED, REPAIRED = "AdaPrivate-TS, published", "AdaPrivate-UCB, repaired"
TUNED, LINUCB, RANDOM = "tuned LinUCB, not private", "LinUCB, not private", "random play"
PRIVATE: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("noise-aware", {}),
    REPAIRED: ("adaprivate-ucb", {"calibration": "exact", "noise": "sqrt", "centre": 0.5}),
    FLIPS: ("rr-linucb", {"centre": 0.5}),
    PUBLISHED: ("adaprivate-ts", {}),
}
OTHERS = {TUNED: "tuned-linucb", LINUCB: "linucb", RANDOM: "random"}
MEASURES = {"share": "learned share, %", "regret": "regret"}


def _settings(epsilons: Sequence[float], **more: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = [
        {"row": row, "epsilon": epsilon, "policy": policy, "options": {**options, "epsilon": epsilon}, **more}
        for row, (policy, options) in PRIVATE.items()
        for epsilon in epsilons
    ]
    return found + [{"row": row, "epsilon": None, "policy": policy, **more} for row, policy in OTHERS.items()]


SETTINGS = _settings(EPSILONS)
QUICK = _settings((1.0, 5.0), rounds=2_000)


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one epsilon."""
    row = beside_linucb(setting, seeds)
    share, sem = mean_sem([100 * run.learned_share for run in row["runs"]])
    return {**row, "share": share, "share_sem": sem}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Learned share, regret, and reward as percent of tuned LinUCB's; no paper prints these."""
    cells = []
    for row in rows:
        at = "" if row["epsilon"] is None else f"epsilon {row['epsilon']:g}: "
        for what, key in (("learned share, %", "share"), ("regret", "regret"), (OF_TUNED, "percent_of_tuned")):
            cells.append(unprinted(row["row"], f"{at}{what}", row[key], row[f"{key}_sem"]))
    return cells


def answer(rows: Sequence[Row]) -> str:
    """What ours loses of the reward at epsilon 1 and at the ends, and what the others lose."""
    lost = {(row["row"], row["epsilon"]): f"{max(0.0, 100 - row['percent_of_tuned']):.1f} %" for row in rows}
    epsilons = sorted({epsilon for _, epsilon in lost if epsilon is not None})
    at = 1.0 if 1.0 in epsilons else epsilons[0]
    ends = " and ".join(f"{lost[OURS, e]} at epsilon {e:g}" for e in dict.fromkeys((epsilons[0], epsilons[-1])) if e != at)
    return (
        f"At epsilon {at:g} ours earns {lost[OURS, at]} less than the best policy here without privacy, randomised "
        f"response {lost[FLIPS, at]} and AdaPrivate-TS as published {lost[PUBLISHED, at]}"
        + (f"; ours {ends}." if ends else ".")
    )


def plot(rows: Sequence[Row], axes: Any, measure: str = "share") -> None:
    """What is learned at every epsilon; bands are two standard errors."""
    for place, name in enumerate(PRIVATE):
        here = [row for row in rows if row["row"] == name]
        at, mean = [row["epsilon"] for row in here], [row[measure] for row in here]
        look: dict[str, Any] = {"lw": 3.0 if name == OURS else 1.6, "color": f"C{place}"}
        axes.plot(at, mean, "o--" if name in (REPAIRED, PUBLISHED) else "o-", label=name, **look)
        error_band(axes, at, [(row[measure], row[f"{measure}_sem"]) for row in here], f"C{place}")
    for name, dashes in ((TUNED, "-"), (LINUCB, "--"), (RANDOM, ":")):
        for row in (row for row in rows if row["row"] == name):
            axes.axhline(row[measure], ls=dashes, color="0.45", lw=1.2, label=name)
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    what = f"{MEASURES[measure]} after {rows[0].get('rounds', ROUNDS):,} rounds (bands: two standard errors)"
    axes.set(xlabel="epsilon (larger: less privacy)", ylabel=what)
    axes.legend(fontsize=8)


def plot_regret(rows: Sequence[Row], axes: Any) -> None:
    """What is lost at every epsilon; bands are two standard errors."""
    plot(rows, axes, "regret")
