"""All linear policies on the paper's synthetic world at equal true privacy: reward, learned share, regret.

Equal true privacy: every policy's calibration is exact, or its nominal epsilon is solved for, so that the epsilon its
guarantee proves is the one in the column. Policies protect different things, so they are listed by privacy notion, and
lists of different notions are not to be compared: an *event* guarantee protects the value of one reward and takes features
as public; a *joint* one protects context and reward of a round from everyone else; a *local* one from the server too.

Policies run with their own defaults; rows with a comma are settings that their descriptions leave open, chosen by hand
and not tuned here. "Centred": the public constant 1/2 is taken off every reward. That costs no privacy and replaces the
intercept these linear models lack; from epsilon 1 on it helps most of them, also without privacy, and below 0.5 it does
not. At equal true privacy a divided budget and a whole one are the same, so CoreSet-Elimination and Batched-Aggregation
(then AdaPrivate-UCB) have one row each. Options that are unsound as published are left out: at its true epsilon
zCDP-Episodic's is "split", and DGS-LinUCB's trees are drowned in noise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from adaprivate import environments, policies
from adaprivate.experiments import Cell, Row
from adaprivate.experiments._synthetic import PAPER_SEEDS, ROUNDS, Frozen
from adaprivate.policies import Settings
from adaprivate.simulation import mean_sem, policy_settings, run_all

SOURCE = "our own comparison; no table is printed"
SEEDS = PAPER_SEEDS
PAPER: dict[tuple[str, str], float] = {}
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-5
TOLERANCE, STEPS = 1e-4, 25
"""How close true epsilons must be to count as equal, relative; how many factors of e around it are searched."""
NOT_PRIVATE, PERFECT = "not private", "epsilon 0"
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "adac-oful": {"practical width": {"bonus_rule": "practical"}},
    "rarely-switching": {"growth 10": {"growth": 10.0}},
    "zcdp-episodic": {"split": {"mode": "split"}},
    "ldp-linucb": {"width / 100": {"alpha": 0.01}},
}
"""Further settings of a policy, by the name of the row."""


def linear_policies() -> list[str]:
    """Every policy that scores feature vectors of a stated dimension, and so runs in the synthetic world."""
    return [name for name in policies.names() if {"dimension", "rounds"} <= set(policies.options(name))]


def _default(policy: str, option: str) -> Any:
    return next((f.default for f in dataclasses.fields(policies.settings_class(policy)) if f.name == option), None)


def all_rows() -> list[Mapping[str, Any]]:
    """Every policy and variant at every epsilon."""
    rows: list[Mapping[str, Any]] = []
    for policy in linear_policies():
        budgets: Sequence[float | None] = EPSILONS if "epsilon" in policies.options(policy) else (None,)
        centred = {"centred": {"centre": 0.5}} if _default(policy, "centre") == 0 else {}
        for label, options in {"": {}, **centred, **VARIANTS.get(policy, {})}.items():
            name = f"{policy}, {label}" if label else policy
            rows += [{"row": name, "policy": policy, "options": options, "epsilon": budget} for budget in budgets]
    return rows


SETTINGS = all_rows()


@lru_cache(maxsize=512)
def at_true_epsilon(policy: str, options: Frozen, epsilon: float) -> Settings:
    """The policy with the nominal epsilon at which its guarantee proves this one, or the most below it that it can."""
    place = environments.environment("synthetic", {})
    offered: Sequence[str] = getattr(policies.settings_class(policy), "calibrations", tuple)()
    tight = [{"calibration": word} for word in ("exact", "tight") if word in offered]

    def made(nominal: float, own: Mapping[str, Any]) -> Settings:
        return policy_settings(policy, place, ROUNDS, {**own, **dict(options), "epsilon": nominal, "delta": DELTA})

    for own in tight:
        if math.isclose(_proved(made(epsilon, own)), epsilon, rel_tol=TOLERANCE):
            return made(epsilon, own)

    def excess(log_nominal: float) -> float:
        return _proved(made(math.exp(log_nominal), {})) - epsilon

    low = high = math.log(epsilon)
    while excess(low) > 0 and low > math.log(epsilon) - STEPS:
        low -= 1
    while excess(high) <= 0 and high < math.log(epsilon) + STEPS:
        high += 1
    if excess(low) <= 0 < excess(high):
        root = float(brentq(excess, low, high, xtol=1e-6))
        low = next((at for at in (root, root - 2e-6, root - 1e-3) if excess(at) <= epsilon * TOLERANCE), low)
    else:
        low = high if excess(low) <= 0 else low
    return made(math.exp(low), {})


def _proved(settings: Settings) -> float:
    """The epsilon that the guarantee states; infinity without one."""
    statement = settings.guarantee()
    return math.inf if statement is None else statement.epsilon


def notion(settings: Settings) -> str:
    """What is protected, in the words of the lists: unit and neighbours."""
    statement = settings.guarantee()
    if statement is None:
        return NOT_PRIVATE
    return PERFECT if statement.epsilon == 0 == statement.delta else f"{statement.unit}, {statement.neighbours}"


@lru_cache(maxsize=512)
def _measured(policy: str, options: Frozen, epsilon: float | None, seeds: int) -> Row:
    place = environments.environment("synthetic", {})
    chosen = (
        policy_settings(policy, place, ROUNDS, dict(options))
        if epsilon is None
        else at_true_epsilon(policy, options, epsilon)
    )
    runs = run_all([chosen], place, range(seeds))[0]
    return {
        "notion": notion(chosen),
        "true_epsilon": None if epsilon is None else _proved(chosen),
        "reward": mean_sem([run.reward for run in runs]),
        "learned_share": mean_sem([100 * run.learned_share for run in runs]),
        "regret": mean_sem([run.regret for run in runs]),
    }


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one true epsilon."""
    options = tuple(sorted(setting["options"].items()))
    return {**setting, **_measured(setting["policy"], options, setting["epsilon"], seeds)}


def _by_notion(rows: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """{notion: {row: its rows by epsilon}}, the best on average first; the unprotected and the oblivious first of all."""
    lists: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        lists.setdefault(row["notion"], {}).setdefault(row["row"], []).append(row)

    def level(entries: list[Row]) -> float:
        return -float(np.mean([row["learned_share"][0] for row in entries]))

    order = sorted(lists, key=lambda name: (name != NOT_PRIVATE, name != PERFECT, name))
    return {name: dict(sorted(lists[name].items(), key=lambda item: level(item[1]))) for name in order}


def compare(rows: Sequence[Row]) -> list[Cell]:
    """A list for each notion, the best first: learned share, regret and reward at every true epsilon."""
    cells: list[Cell] = []
    for name, list_ in _by_notion(rows).items():
        for label, entries in list_.items():
            for row in entries:
                column = "any epsilon" if row["epsilon"] is None else f"true epsilon {row['epsilon']:g}"
                if row["epsilon"] is not None and not math.isclose(row["true_epsilon"], row["epsilon"], rel_tol=0.01):
                    cells.append(
                        Cell(
                            f"[{name}] {label}",
                            f"{column} is not reached, but",
                            None,
                            row["true_epsilon"],
                            None,
                            "not-in-paper",
                        )
                    )
                for what, key in (("learned share, %", "learned_share"), ("regret", "regret"), ("reward", "reward")):
                    ours, sem = row[key]
                    cells.append(Cell(f"[{name}] {label}", f"{column}: {what}", None, ours, sem, "not-in-paper"))
    return cells


_STYLES = ("-", "--", ":", "-.")


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Learned share against the true epsilon: a line style for each privacy notion, a colour for each policy."""
    from matplotlib import colormaps

    lists = _by_notion(rows)
    names = list(dict.fromkeys(row["row"].partition(",")[0] for row in rows))
    colours = {name: colormaps["tab20"](place % 20) for place, name in enumerate(names)}
    for notion_name in (NOT_PRIVATE, PERFECT):
        for label, (row, *_) in lists.pop(notion_name, {}).items():
            axes.axhline(row["learned_share"][0], color="0.75", lw=1, zorder=0)
            axes.annotate(f"{label} ({notion_name})", (EPSILONS[0], row["learned_share"][0] + 0.5), fontsize=6, color="0.4")
    units = []
    for style, (notion_name, list_) in zip(_STYLES * 3, lists.items(), strict=False):
        units.append(f"{style} {notion_name}")
        for label, entries in list_.items():
            policy, _, variant = label.partition(", ")
            share = [row["learned_share"][0] for row in entries]
            bars = [2 * (row["learned_share"][1] or 0.0) for row in entries]
            look = {"ls": style, "color": colours[policy], "mfc": "white" if variant else colours[policy]}
            look["marker"] = "o" if variant in ("", "centred") else "s"
            named = f"[{notion_name}] {label}"
            axes.errorbar(
                [row["epsilon"] for row in entries], share, yerr=bars, ms=4, lw=1, elinewidth=0.5, label=named, **look
            )
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    unit = "; ".join(units)
    axes.set_xlabel(
        f"true epsilon at delta {DELTA:g}, for the privacy unit {unit}\n(lines of different units do not compare)"
    )
    axes.set_ylabel("learned share, % (bars: two standard errors)")
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
