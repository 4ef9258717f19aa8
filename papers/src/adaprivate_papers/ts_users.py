"""AdaPrivate-TS (Riyazat & Ukwatta), Sections 4.6 and 6.1: protecting a user with many events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adaprivate import privacy
from adaprivate.experiments import ROUNDS, Cell, Row, unsound
from adaprivate.simulation import mean_sem
from adaprivate_papers._cells import OF_TUNED, PAPER_SEEDS, cell, level, near, unprinted, with_our_spread
from adaprivate_papers._plots import error_bars
from adaprivate_papers._world import BEST_FEATURES, beside_linucb, measured, prepared

USER_ROUNDS, DELTA, CLAIMED = 20_000, 1e-5, 5.0
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


_SMALL = [*_settings(("uniform",), VISITS, (5.0,), 400), *_settings(("sessions",), (5,), (5.0,), 400)]


def true_epsilon(k: int, claimed: float = CLAIMED) -> float:
    """The least epsilon of the published noise for someone with k events: attained, so no better statement holds."""
    clip = k**0.5
    reached = privacy.clipped_reach(k, clip, attained=True)
    return privacy.gdp_epsilon(reached / (clip * privacy.zcdp_sigma(claimed, DELTA)), DELTA)


class UserLevel:
    """Protecting people, not events: every scheme at the epsilon it really gives, for k = 5, 10 and 20 visits a person.

    Sec 6.1 of AdaPrivate-TS clips a person with k events to sqrt(k) per batch, adds noise sqrt(k) / sqrt(2 rho) and states
    epsilon 5. The rows "as published" are that policy on people who really return; beside the claim stands the least
    epsilon that it gives some of them, those who answer alike within a batch. Every other row keeps the epsilon of its
    column for all rewards of any one person:

    - the ledger (``unit="user"`` of the noise-aware policies): visits weighted along what is new in them, along themselves
      ("scalar"), or all alike, which is what group privacy pays; and the first visit of each person alone
    - norm clipping on the same posterior, in three batches a person, or by shares
    - the paper's clipping with noise for the worst way to spread k events over batches
    - randomised response, told once a person or k times at epsilon / k

    Random play, LinUCB without privacy and the noise-aware policy at event level, which protects one reward and so is the
    limit, stand beside them. People are 1/k of the rounds and come evenly, by Zipf's law or in sessions of 10; on MovieLens
    they are its own users, each with tastes of their own, and k is what the policies are told. Schemes that must be told
    how often people come are told k. What the paper prints (percent of LinUCB at k = 10 and 20) is of a world without
    people, and is compared with theirs in `group-privacy`.
    """

    NAME = "user-level"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 6.1, and our own user level; docs/privacy.md"
    QUESTION = "What does it cost to protect people instead of events?"
    SEEDS = 20
    SETTINGS: list[Mapping[str, Any]] = [*_settings(KINDS, VISITS, EPSILONS, USER_ROUNDS)]
    QUICK: list[Mapping[str, Any]] = [{**setting, "world": {**setting["world"], "dimension": 5}} for setting in _SMALL]
    PARTIAL = True
    PAPER = {(f"uniform, k = {k}: {PUBLISHED}", TRUE): CLAIMED for k in VISITS}

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """The setting's runs, and the epsilon that its policy states."""
        row = measured(setting, seeds)
        statement = prepared(setting)[0].guarantee()
        stated = None if statement is None else statement.epsilon
        return {**row, "stated": stated, "unit": None if statement is None else statement.unit}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """The published claim beside what it gives; regret and learned share of every scheme at its true epsilon."""
        cells: list[Cell] = []
        for row in rows:
            name, epsilon = row["row"], row["epsilon"]
            at = "" if epsilon is None or row["scheme"] == PUBLISHED else f"epsilon {epsilon:g}: "
            if row["scheme"] == PUBLISHED:
                true, printed = true_epsilon(row["visits"]), self.PAPER.get((name, TRUE))
                verdict = "not-in-paper" if printed is None else "unsound-as-published"
                cells.append(Cell(name, TRUE, printed, true, None, verdict, computed=True))
            cells.append(unprinted(name, f"{at}regret", row["regret"], row["regret_sem"]))
            share, sem = mean_sem([100 * run.learned_share for run in row["runs"]])
            cells.append(unprinted(name, f"{at}{SHARE}", share, sem))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """What the ledger and group privacy cost beside the event level, at the largest epsilon run and ten visits."""
        here = [
            row for row in rows if row["kind"] == rows[0]["kind"] and row["visits"] == (10 if 10 in VISITS else VISITS[0])
        ]
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

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
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
            look = {"lw": 1.0, "ls": "--"} if exposed else {"lw": 1.6}
            error_bars(axes, [row["visits"] for row in mine], shares, capsize=3, label=scheme, **look)
        ticks = sorted({row["visits"] for row in here})
        axes.set(xlabel=f"visits per person ({kind})", ylabel="learned share, % (bars: two standard errors)")
        axes.set_xticks(np.array(ticks))
        axes.legend(fontsize=7)


RHO = privacy.zcdp_rho(CLAIMED, DELTA)
LEVEL, BUDGET = "% of LinUCB", "rho per event"
OURS = ("ledger", "ledger, scalar", "group privacy", "first visit", "randomised response, 1", "randomised response, k")
"""Schemes of `user-level` that keep epsilon for people who really return."""
NAIVE, CLIPPED, SOUND, SPACED = "k^2 rho", "clipped at sqrt k, published", "clipped, sound", "one event a batch"


def sigma(rule: str, events: int) -> float:
    """The noise on b that a rule gives to persons with so many events."""
    published, exact = 1 / math.sqrt(2 * RHO), 1 / privacy.gdp_mu(CLAIMED, DELTA)
    root = math.sqrt(events)
    return {
        NAIVE: events * published,
        CLIPPED: root * published,
        SOUND: privacy.clipped_reach(events, root) * exact,
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
_FIRST = ("ledger", "randomised response, 1")


class GroupPrivacy:
    """Sec 4.6 and 6.1: protecting a person with k events at epsilon 5.

    The rho of group privacy (epsilon 5 divided by k^2) reproduces to the printed digits. The rewards printed beside it in
    Sec 4.6 do not, read as percent of LinUCB (random play alone earns about 86) or as the learned share; Sec 6.1 itself
    prints 90.6 where Sec 4.6 prints 14.2, for the same k = 10, epsilon and rule. Its own numbers, with noise k / sqrt(2
    rho), reproduce.

    Clipping each person to sqrt(k) per batch (Sec 6.1) with noise sqrt(k) / sqrt(2 rho) does not give epsilon 5: a replaced
    person can move one batch by twice the clip, and several batches, each with noise of its own. The cells "truly at least"
    are attained by a way to spread k events over batches; the rewards earned so are unsound as published. The sound rows
    pay for the worst spread, or enforce one event per person and batch, which needs k rho instead of k^2 rho. The synthetic
    world has no persons for these rows: each is AdaPrivate-TS with the noise that the rule asks for, and clipping's bias is
    left out. The rows after them are schemes of `user-level` on the same world with k visits of each person, at a true
    epsilon of 5.

    No deviation is printed; the paper's seeds are taken to spread as ours do.
    """

    NAME = "group-privacy"
    SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Sec 4.6 and 6.1"
    QUESTION = "What does it take to protect a person with many events?"
    SEEDS = PAPER_SEEDS
    PAPER = {
        **{(f"{NAIVE}, k = {k}", BUDGET): rho for k, rho in _BUDGETS.items()},
        **{(f"{rule}, k = {k}", f"{column} (Sec 4.6)"): v for (rule, k), v in _LEVELS.items() for column in (LEVEL, SHARE)},
        **{(f"{rule}, k = {k}", f"{LEVEL} (Sec 6.1)"): value for (rule, k), value in _SEC_6.items()},
        **{(f"{CLIPPED}, k = {k}", TRUE): CLAIMED for k in (10, 20)},
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
            "policy": schemes(events)[rule][0],
            "options": {**schemes(events)[rule][1], "epsilon": CLAIMED},
            "world": {"people": ROUNDS // events},
        }
        for rule in OURS
        for events in (5, 10, 20)
    ]
    QUICK = [s for s in SETTINGS if s["rule"] not in OURS or (s["rule"] in _FIRST and s["events"] == 10)]
    run = staticmethod(beside_linucb)

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Budgets, rewards by either reading, and what the published clipping gives."""
        cells: list[Cell] = []
        for row in rows:
            name, rule, k = row["row"], row["rule"], row["events"]
            if rule == NAIVE and k in _BUDGETS:
                ours = RHO / privacy.group_rho(1.0, [k])
                digits = len(f"{_BUDGETS[k]:g}".partition(".")[2])
                cells.append(replace(near(name, BUDGET, _BUDGETS[k], ours, None, 0.5 * 10.0**-digits), computed=True))
            if rule == CLIPPED:
                true = privacy.gdp_epsilon(privacy.clipped_reach(k, math.sqrt(k), attained=True) / row["sigma"], DELTA)
                cells.append(Cell(name, TRUE, CLAIMED, true, None, "unsound-as-published", computed=True))
            share, share_sem = mean_sem([100 * run.learned_share for run in row["runs"]])
            for column, ours, sem in ((LEVEL, row["percent"], row["percent_sem"]), (SHARE, share, share_sem)):
                sections = [section for section in ("Sec 4.6", "Sec 6.1") if (name, f"{column} ({section})") in self.PAPER]
                for section in sections:
                    titled = f"{column} ({section})"
                    found = cell(name, titled, with_our_spread(self.PAPER[name, titled], sem, len(row["runs"])), ours, sem)
                    cells.append(unsound(found) if rule == CLIPPED else found)
                if not sections:
                    cells.append(unprinted(name, column, ours, sem))
            cells.append(unprinted(name, OF_TUNED, row["percent_of_tuned"], row["percent_of_tuned_sem"]))
        return cells

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Percent of LinUCB against the number of events a person may have, one line for each rule."""
        for rule in (NAIVE, CLIPPED, SOUND, SPACED, *OURS):
            ours = [row for row in rows if row["rule"] == rule]
            style = {"ls": "--"} if rule == CLIPPED else {}
            error_bars(axes, [row["events"] for row in ours], [level(row) for row in ours], capsize=3, label=rule, **style)
        for printed, mark, label in ((_LEVELS, "x", "printed, Sec 4.6"), (_SEC_6, "+", "printed, Sec 6.1")):
            axes.plot([k for _, k in printed], list(printed.values()), mark, color="black", label=label)
        axes.axhline(86, color="0.6", lw=0.8, label="random play")
        axes.set(xlabel="events per person", ylabel="% of LinUCB at epsilon 5 per person (dashed: not really 5)")
        axes.legend(fontsize=8)


EXPERIMENTS = (UserLevel, GroupPrivacy)
