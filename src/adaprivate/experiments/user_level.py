"""Protecting people, not events: every scheme at the epsilon it really gives, for k = 5, 10 and 20 visits a person.

Sec 6.1 of AdaPrivate-TS clips a person with k events to sqrt(k) per batch, adds noise sqrt(k) / sqrt(2 rho) and states
epsilon 5. The rows "as published" are that policy on people who really return; beside the claim stands the least epsilon
that it gives some of them, those who answer alike within a batch. Every other row keeps the epsilon of its column for all
rewards of any one person:

- the ledger (``unit="user"`` of the noise-aware policies): visits weighted along what is new in them, along themselves
  ("scalar"), or all alike, which is what group privacy pays; and the first visit of each person alone
- norm clipping on the same posterior, in three batches a person, or by shares
- the paper's clipping with noise for the worst way to spread k events over batches
- randomised response, told once a person or k times at epsilon / k

Random play, LinUCB without privacy and the noise-aware policy at event level, which protects one reward and so is the
limit, stand beside them. People are 1/k of the rounds and come evenly, by Zipf's law or in sessions of 10; on MovieLens
they are its own users, each with tastes of their own, and k is what the policies are told. Schemes that must be told how
often people come are told k. What the paper prints (percent of LinUCB at k = 10 and 20) is of a world without people, and
is compared with theirs in `group-privacy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._measured import measured, prepared
from adaprivate.experiments._recorded import BEST_FEATURES
from adaprivate.simulation import mean_sem

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 6.1, and our own user level; docs/privacy.md"
QUESTION = "What does it cost to protect people instead of events?"
SEEDS = 20
ROUNDS, DELTA, CLAIMED = 20_000, 1e-5, 5.0
VISITS = (5, 10, 20)
EPSILONS = (1.0, 5.0)
PUBLISHED, TRUE, SHARE = "clipped at sqrt k, as published", "epsilon, truly at least", "learned share, %"
UNPROTECTED = ("random", "tuned-linucb, not private", "event level, the limit")
KINDS = ("uniform", "zipf", "sessions", "movielens")


def schemes(k: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every scheme that keeps its epsilon for people, told that they make k visits: its policy and options."""
    ours, user = "noise-aware-greedy", {"unit": "user", "counted_visits": k}
    return {
        "ledger": (ours, user),
        "ledger, noise-aware": ("noise-aware", user),
        "ledger, scalar": (ours, {**user, "weights": "scalar"}),
        "group privacy": (ours, {**user, "weights": "equal"}),
        "first visit": (ours, {**user, "counted_visits": 1}),
        "norm clip, 3 batches": (ours, {**user, "weights": "clip"}),
        "norm clip, shares": (ours, {**user, "weights": "clip-shares"}),
        "clipped at sqrt k, sound": ("adaprivate-ts-user", {"counted_visits": k}),
        "randomised response, 1": ("rr-linucb", {**user, "centre": 0.5, "counted_visits": 1}),
        "randomised response, k": ("rr-linucb", {**user, "centre": 0.5}),
    }


def _place(kind: str, k: int, rounds: int) -> dict[str, Any]:
    if kind == "movielens":
        return {"environment": kind, "world": dict(BEST_FEATURES[kind]), "rounds": rounds}
    return {"environment": "synthetic", "world": {"people": max(1, rounds // k), "visits": kind}, "rounds": rounds}


def _settings(kinds: Sequence[str], visits: Sequence[int], epsilons: Sequence[float], rounds: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind in kinds:
        for k in visits:
            where = {"kind": kind, "visits": k, **_place(kind, k, rounds)}
            limits = zip(UNPROTECTED[:2], ("random", "tuned-linucb"), strict=True)
            found += [{**where, "scheme": name, "epsilon": None, "policy": policy} for name, policy in limits]
            told = {"epsilon": CLAIMED, "delta": DELTA, "calibration": "published-unsound", "counted_visits": k}
            found.append(
                {**where, "scheme": PUBLISHED, "epsilon": CLAIMED, "policy": "adaprivate-ts-user", "options": told}
            )
            for epsilon in epsilons:
                event = {UNPROTECTED[2]: ("noise-aware-greedy", {"channel": "gaussian"})}
                for name, (policy, options) in (event | schemes(k)).items():
                    own = {**options, "epsilon": epsilon}
                    found.append({**where, "scheme": name, "epsilon": epsilon, "policy": policy, "options": own})
    return [{"row": f"{s['kind']}, k = {s['visits']}: {s['scheme']}", **s} for s in found]


SETTINGS: list[Mapping[str, Any]] = [*_settings(KINDS, VISITS, EPSILONS, ROUNDS)]
_SMALL = [*_settings(("uniform",), VISITS, (5.0,), 400), *_settings(("sessions",), (5,), (5.0,), 400)]
QUICK: list[Mapping[str, Any]] = [{**setting, "world": {**setting["world"], "dimension": 5}} for setting in _SMALL]
PARTIAL = True
PAPER = {(f"uniform, k = {k}: {PUBLISHED}", TRUE): CLAIMED for k in VISITS}


def true_epsilon(k: int, claimed: float = CLAIMED) -> float:
    """The least epsilon of the published noise for someone with k events: attained, so no better statement holds."""
    clip = k**0.5
    reached = privacy.clipped_reach(k, clip, attained=True)
    return privacy.gdp_epsilon(reached / (clip * privacy.zcdp_sigma(claimed, DELTA)), DELTA)


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """The setting's runs, and the epsilon that its policy states."""
    row = measured(setting, seeds)
    statement = prepared(setting)[0].guarantee()
    stated = None if statement is None else statement.epsilon
    return {**row, "stated": stated, "unit": None if statement is None else statement.unit}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """The published claim beside what it gives; regret and learned share of every scheme at its true epsilon."""
    cells: list[Cell] = []
    for row in rows:
        name, epsilon = row["row"], row["epsilon"]
        at = "" if epsilon is None or row["scheme"] == PUBLISHED else f"epsilon {epsilon:g}: "
        if row["scheme"] == PUBLISHED:
            true, printed = true_epsilon(row["visits"]), PAPER.get((name, TRUE))
            verdict = "not-in-paper" if printed is None else "unsound-as-published"
            cells.append(Cell(name, TRUE, printed, true, None, verdict, computed=True))
        cells.append(Cell(name, f"{at}regret", None, row["regret"], row["regret_sem"], "not-in-paper"))
        share, sem = mean_sem([100 * run.learned_share for run in row["runs"]])
        cells.append(Cell(name, f"{at}{SHARE}", None, share, sem, "not-in-paper"))
    return cells


def answer(rows: Sequence[Row]) -> str:
    """What the ledger and group privacy cost beside the event level, at the largest epsilon that was run and ten visits."""
    here = [row for row in rows if row["kind"] == rows[0]["kind"] and row["visits"] == (10 if 10 in VISITS else VISITS[0])]
    last = max((row["epsilon"] for row in here if row["epsilon"] is not None), default=None)
    regret = {row["scheme"]: row["regret"] for row in here if row["epsilon"] == last}
    event = regret.get(UNPROTECTED[2])
    if event is None or not {"ledger", "group privacy"} <= set(regret):
        return "The schemes to compare were not run."
    return (
        f"With ten visits a person, who come by the law {here[0]['kind']!r}, at epsilon {last:g}: the ledger has "
        f"{regret['ledger'] / event:.1f} times the regret of protecting single rewards, group privacy "
        f"{regret['group privacy'] / event:.1f} times."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Learned share against the visits of a person, people coming evenly; dashed where no person is protected so."""
    kind = rows[0]["kind"]
    here = [row for row in rows if row["kind"] == kind]
    last = max((row["epsilon"] for row in here if row["epsilon"] is not None), default=None)
    for scheme in dict.fromkeys(row["scheme"] for row in here):
        mine = [row for row in here if row["scheme"] == scheme and row["epsilon"] in (None, last)]
        if not mine:
            continue
        shares = [mean_sem([100 * run.learned_share for run in row["runs"]]) for row in mine]
        exposed = scheme in (*UNPROTECTED, PUBLISHED)
        axes.errorbar(
            [row["visits"] for row in mine],
            [share for share, _ in shares],
            yerr=[2 * (sem or 0.0) for _, sem in shares],
            capsize=3,
            label=scheme,
            lw=1.0 if exposed else 1.6,
            **({"ls": "--"} if exposed else {}),
        )
    ticks = sorted({row["visits"] for row in here})
    axes.set(xlabel=f"visits per person ({kind})", ylabel="learned share, % (bars: two standard errors)")
    axes.set_xticks(np.array(ticks))
    axes.legend(fontsize=7)
