"""All linear policies on the paper's synthetic world at equal true privacy: reward, learned share, regret.

Percents are of the reward of LinUCB without privacy, as published and tuned (`tuned-linucb`, a quarter of its regret).

Equal true privacy: within the sharpest calibration a policy offers (named in its row) the nominal epsilon is solved for, so
that the epsilon its guarantee proves is the one in the column. Policies protect different things, so they are listed by
privacy notion, pure and approximate apart, and lists of different notions are not to be compared: an *event* guarantee
protects the value of one reward and takes features as public; a *joint* one protects context and reward of a round from
everyone else; a *local* one from the server too.

Every policy has a row with its own defaults. Every policy but the noise-aware ones has another with the best of one grid:
{centre: default, 1/2} x {noise: default, "sqrt"} x {its named variants}, as far as it has these options. The best has the
largest learned share at true epsilon 1 on the first 4 seeds, which are also among those reported: that flatters these rows,
so what the noise-aware defaults gain over them is if anything understated. "Centre 1/2": a public constant taken off every
reward, which costs no privacy and replaces the intercept that these linear models lack.

At equal true privacy a divided budget and a whole one are the same, so Batched-Aggregation is AdaPrivate-UCB. Options that
are unsound as published are left out: at its true epsilon zCDP-Episodic's is "split", and DGS-LinUCB's trees are drowned in
noise. Wishart noise comes in whole degrees of freedom: where the column's epsilon is not reached, the row says what is.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.experiments import ROUNDS, Cell, Row
from adaprivate.policies import Settings
from adaprivate.simulation import mean_sem, policy_settings
from adaprivate_papers._cells import OF_TUNED, PAPER_SEEDS, unprinted
from adaprivate_papers._plots import error_bars
from adaprivate_papers._world import percents, played

SOURCE = "our own comparison; no table is printed"
QUESTION = "Who learns most at equal true privacy?"
SEEDS = PAPER_SEEDS
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DELTA = 1e-5
PLACE = environments.environment("synthetic", {})
Frozen = tuple[tuple[str, Any], ...]
"""Options by name, sorted."""
TOLERANCE, STEP, STEPS = 1e-4, 1e-3, 40
"""How close true epsilons must be to count as equal, and nominal ones to be tried no further (both relative); how many of
these are tried at most."""
TUNING_EPSILON, TUNING_SEEDS = 1.0, 4
NOT_PRIVATE, PERFECT = "not private", "epsilon 0"
DEFAULT, BEST = "default", "best"
OURS = "noise-aware"
"""Policies of this name are shown with their defaults alone."""
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "adac-oful": {
        "practical width": {"bonus_rule": "practical"},
        "practical width, growth 10": {"bonus_rule": "practical", "growth": 10.0},
    },
    "jdp-linucb-gaussian": {"batched": {"release": "batched"}},
    "rarely-switching": {"growth 10": {"growth": 10.0}},
    "zcdp-episodic": {"split": {"mode": "split"}},
    "ldp-linucb": {"width / 100": {"alpha": 0.01}},
}
"""The named variants of a policy."""


def linear_policies() -> list[str]:
    """Every policy that scores feature vectors of a stated dimension, and so runs in the synthetic world."""
    return [
        name
        for name in policies.names()
        if {"dimension", "rounds"} <= set(policies.options(name))
        and not getattr(policies.settings_class(name), "fixed_arms", False)
    ]


def _default(policy: str, option: str) -> Any:
    return next((f.default for f in dataclasses.fields(policies.settings_class(policy)) if f.name == option), None)


def _calibration(policy: str) -> str | None:
    """The sharpest calibration that a policy offers, where it offers several."""
    offered: Sequence[str] = getattr(policies.settings_class(policy), "calibrations", tuple)()
    return next((word for word in ("exact", "tight") if word in offered), None)


def _accepted(policy: str, options: Mapping[str, Any]) -> bool:
    """Whether the policy takes these options: sampled batches, for one, share no noise."""
    try:
        policy_settings(policy, PLACE, ROUNDS, options)
    except InputError:
        return False
    return True


def grid(policy: str) -> dict[str, Frozen]:
    """The settings that a policy's best row is chosen among, by name; its defaults have none."""
    centres: dict[str, dict[str, Any]] = {"": {}}
    if _default(policy, "centre") == 0:
        centres["centre 1/2"] = {"centre": 0.5}
    noises: dict[str, dict[str, Any]] = {"": {}}
    if _default(policy, "noise") not in (None, "sqrt") and _accepted(policy, {"noise": "sqrt"}):
        noises["noise sqrt"] = {"noise": "sqrt"}
    variants: dict[str, dict[str, Any]] = {"": {}, **VARIANTS.get(policy, {})}
    return {
        ", ".join(filter(None, (variant, noise, centre))): tuple(
            sorted({**variants[variant], **noises[noise], **centres[centre]}.items())
        )
        for variant, noise, centre in itertools.product(variants, noises, centres)
    }


def all_rows(epsilons: Sequence[float] = EPSILONS) -> list[Mapping[str, Any]]:
    """Every policy with its defaults and, if it has a grid and is not ours, with the best of it, at every epsilon."""
    rows: list[Mapping[str, Any]] = []
    for policy in linear_policies():
        budgets: Sequence[float | None] = epsilons if "epsilon" in policies.options(policy) else (None,)
        choices = (DEFAULT,) if policy.startswith(OURS) or len(grid(policy)) == 1 else (DEFAULT, BEST)
        rows += [{"policy": policy, "choice": choice, "epsilon": budget} for choice in choices for budget in budgets]
    return rows


SETTINGS = all_rows()
_FEW = ("linucb", "tuned-linucb", "random", "adaprivate-ucb", "jdp-linucb-gaussian", "mishra-thakurta-linucb")
QUICK = [setting for setting in SETTINGS if setting["policy"] in _FEW and setting["epsilon"] in (None, 1.0)]


@lru_cache(maxsize=512)
def at_true_epsilon(policy: str, options: Frozen, epsilon: float) -> Settings:
    """The policy with the nominal epsilon at which its guarantee proves this one, or the most below it that it can."""
    word = _calibration(policy)
    own: dict[str, Any] = {} if word is None else {"calibration": word}
    own["delta"] = 0.0 if _default(policy, "delta") == 0 else DELTA

    def made(nominal: float) -> Settings:
        return policy_settings(policy, PLACE, ROUNDS, {**own, **dict(options), "epsilon": nominal})

    nominal = solved(lambda nominal: _proved(made, nominal), epsilon)
    if nominal == 0:
        raise InputError(f"Expected epsilon={epsilon:g} to be one that {policy} can prove.")
    return made(nominal)


def solved(proved: Callable[[float], float], epsilon: float) -> float:
    """The nominal epsilon that proves this one, or nearly the largest that proves less; 0 if none was found.

    More is proved of a larger one, perhaps in steps (noise in whole degrees of freedom); infinity where nothing is.
    """
    low, high, nominal = 0.0, math.inf, epsilon
    for step in range(STEPS):
        now = proved(nominal)
        if now <= epsilon * (1 + TOLERANCE):
            low = nominal
            if now >= epsilon * (1 - TOLERANCE):
                break
        else:
            high = nominal
        if high - low <= STEP * low:
            break
        nominal *= epsilon / now if 0 < now < math.inf else 0.5 if now > 0 else 2.0
        if not low < nominal < high or step > STEPS // 4:
            nominal = math.sqrt(low * high) if 0 < low < high < math.inf else 2 * low if low > 0 else high / 2
    return low


def _proved(made: Callable[[float], Settings], nominal: float) -> float:
    """The epsilon that the guarantee states; infinity where there is none."""
    try:
        statement = made(nominal).guarantee()
    except InputError:
        return math.inf
    return math.inf if statement is None else statement.epsilon


def notion(settings: Settings) -> str:
    """What is protected, in the words of the lists: unit, neighbours, and whether purely."""
    statement = settings.guarantee()
    if statement is None:
        return NOT_PRIVATE
    if statement.epsilon == 0 == statement.delta:
        return PERFECT
    return f"{statement.unit}, {statement.neighbours}, {f'delta {statement.delta:g}' if statement.delta else 'pure'}"


def _chosen(policy: str, options: Frozen, epsilon: float | None) -> Settings:
    if epsilon is not None:
        return at_true_epsilon(policy, options, epsilon)
    return policy_settings(policy, PLACE, ROUNDS, dict(options))


@lru_cache(maxsize=64)
def best_of_grid(policy: str, seeds: int) -> str:
    """The name of the settings with the largest learned share at the tuning epsilon on the first seeds."""
    epsilon = TUNING_EPSILON if "epsilon" in policies.options(policy) else None

    def share(options: Frozen) -> float:
        runs = played(_chosen(policy, options, epsilon), PLACE, range(seeds))
        return float(np.mean([run.learned_share for run in runs]))

    shares = {name: share(options) for name, options in grid(policy).items()}
    return max(shares, key=lambda name: shares[name])


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one true epsilon."""
    policy, epsilon, best = setting["policy"], setting["epsilon"], setting["choice"] == BEST
    label = best_of_grid(policy, min(seeds, TUNING_SEEDS)) if best else ""
    calibration = _calibration(policy)
    name = policy if calibration is None else f"{policy} ({calibration})"
    if best:
        name += f", best of {len(grid(policy))}: {label or 'the defaults'}"
    chosen = _chosen(policy, grid(policy)[label], epsilon)
    statement, runs = chosen.guarantee(), played(chosen, PLACE, range(seeds))
    return {
        **setting,
        "row": name,
        "notion": notion(chosen),
        "true_epsilon": None if epsilon is None or statement is None else statement.epsilon,
        "reward": mean_sem([run.reward for run in runs]),
        "learned_share": mean_sem([100 * run.learned_share for run in runs]),
        "regret": mean_sem([run.regret for run in runs]),
        **percents(runs),
    }


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
    """A list for each notion, the best first: learned share, regret, reward and percents of it at every true epsilon."""
    cells: list[Cell] = []
    for name, list_ in _by_notion(rows).items():
        for label, entries in list_.items():
            for row in entries:
                column = "any epsilon" if row["epsilon"] is None else f"true epsilon {row['epsilon']:g}"
                if row["epsilon"] is not None and not math.isclose(row["true_epsilon"], row["epsilon"], rel_tol=0.01):
                    missed = f"{column} is not reached, but"
                    cells.append(unprinted(f"[{name}] {label}", missed, row["true_epsilon"]))
                for what, (ours, sem) in {
                    "learned share, %": row["learned_share"],
                    "regret": row["regret"],
                    "reward": row["reward"],
                    "% of LinUCB": (row["percent"], row["percent_sem"]),
                    OF_TUNED: (row["percent_of_tuned"], row["percent_of_tuned_sem"]),
                }.items():
                    cells.append(unprinted(f"[{name}] {label}", f"{column}: {what}", ours, sem))
    return cells


_STYLES = ("-", "--", ":", "-.")


def answer(rows: Sequence[Row]) -> str:
    """The best of every notion at true epsilon 1."""
    told = []
    for notion_name, list_ in _by_notion([row for row in rows if row["epsilon"] in (None, 1.0)]).items():
        label, (row, *_) = max(list_.items(), key=lambda item: float(item[1][0]["learned_share"][0]))
        told.append(f"{notion_name}: {label}, {row['learned_share'][0]:.0f} %")
    return f"Learned share at epsilon 1, the best of each kind of promise: {'; '.join(told)}."


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Learned share against the true epsilon: a line style for each privacy notion, a colour for each policy."""
    from matplotlib import colormaps

    lists = _by_notion(rows)
    names = list(dict.fromkeys(row["policy"] for row in rows))
    colours = {name: colormaps["tab20"](place % 20) for place, name in enumerate(names)}
    for notion_name in (NOT_PRIVATE, PERFECT):
        for label, (row, *_) in lists.pop(notion_name, {}).items():
            axes.axhline(row["learned_share"][0], color="0.6", lw=1, zorder=0, label=f"{label} ({notion_name})")
    units = []
    for style, (notion_name, list_) in zip(_STYLES * 3, lists.items(), strict=False):
        units.append(f"{style} {notion_name}")
        for label, entries in list_.items():
            policy, best = entries[0]["policy"], entries[0]["choice"] == BEST
            at, shares = [row["epsilon"] for row in entries], [row["learned_share"] for row in entries]
            look = {"ls": style, "color": colours[policy], "mfc": "white" if best else colours[policy]}
            look["marker"] = "s" if best else "o"
            named = f"[{notion_name}] {label}"
            error_bars(axes, at, shares, ms=4, lw=1, elinewidth=0.5, label=named, **look)
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    unit = f"true epsilon at delta {DELTA:g}, for the privacy unit {'; '.join(units)}"
    axes.set(
        xlabel=f"{unit}\n(lines of different units do not compare)", ylabel="learned share, % (bars: two standard errors)"
    )
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
