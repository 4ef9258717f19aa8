"""What each idea of the noise-aware policies is worth, and how they should explore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate import environments
from adaprivate.experiments import ROUNDS, Cell, Row
from adaprivate.simulation import Run, mean_sem, policy_settings
from adaprivate_papers._cells import unprinted
from adaprivate_papers._world import measured, played, runs

WORLDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "the paper's": ("synthetic", {}, 10_000),
    "linear": ("synthetic-linear", {}, 10_000),
    "short": ("synthetic", {}, 2_000),
    "two of many, d 5": ("synthetic", {"dimension": 5, "candidates": 2}, 10_000),
    "twenty of many, d 50": ("synthetic", {"dimension": 50, "candidates": 20}, 10_000),
    "five fixed": ("synthetic", {"arms": 5, "candidates": 5}, 10_000),
    "twenty fixed, d 5": ("synthetic", {"dimension": 5, "arms": 20, "candidates": 20}, 10_000),
    "two fixed, d 5": ("synthetic", {"dimension": 5, "arms": 2, "candidates": 2}, 10_000),
    "rank-deficient": ("rank-deficient", {}, 10_000),
    "needle": ("needle", {}, 10_000),
    "needle, twenty fixed": ("needle", {"arms": 20, "candidates": 20}, 10_000),
    "needle, two fixed": ("needle", {"dimension": 5, "arms": 2, "candidates": 2, "gap": 0.1}, 10_000),
    "gap": ("gap", {}, 10_000),
    "drifting": ("drifting", {}, 10_000),
}
"""Name: environment, its options, rounds."""
FULL, PUBLISHED, DEFAULT = "noise-aware-greedy", "adaprivate-ucb", "noise-aware"
EXACT, CENTRED = {"calibration": "exact"}, {"centre": 0.5}
SUMS = {"channel": "gaussian"}
POSTERIOR = {**SUMS, "centre": 0.0, "intercept": 0.0, "noise": "independent", "batch_size": 300, "growth": 1.0}
STEEP, LOW, SHORT = {"decay": 1.0}, {"offset": -1.5}, {"norms": 0.2}
ALL = "together: all, Gaussian sums (noise-aware-greedy)"
ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("published", PUBLISHED, {}, {}),
    ("alone: exact sigma", PUBLISHED, EXACT, {}),
    ("alone: centring", PUBLISHED, CENTRED, {}),
    ("alone: square-root noise", PUBLISHED, {"noise": "sqrt"}, {}),
    ("alone: posterior (with exact sigma)", FULL, POSTERIOR, {}),
    ("together: exact sigma, centring, square-root noise", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt"}, {}),
    ("together: the same and ridge 80", PUBLISHED, {**EXACT, **CENTRED, "noise": "sqrt", "ridge": 80.0}, {}),
    (ALL, FULL, SUMS, {}),
    ("channels: chosen (noise-aware)", DEFAULT, {}, {}),
    ("channels: gaussian", DEFAULT, SUMS, {}),
    ("channels: items", DEFAULT, {"channel": "items"}, {}),
    ("channels: flip", DEFAULT, {"channel": "flip"}, {}),
    ("without: informative noise (square-root)", FULL, {**SUMS, "noise": "sqrt"}, {}),
    ("without: correlated noise (independent)", FULL, {**SUMS, "noise": "independent"}, {}),
    ("without: centring", FULL, {**SUMS, "centre": 0.0, "intercept": 0.0}, {}),
    ("without: intercept (centre trusted)", FULL, {**SUMS, "intercept": 0.0}, {}),
    ("without: adapting the prior", FULL, {**SUMS, "adapt_ridge": False}, {}),
    ("without: adapting the prior, ridge 1", FULL, {**SUMS, "adapt_ridge": False, "ridge": 1.0}, {}),
    ("without: growing batches (300 each)", FULL, {**SUMS, "batch_size": 300, "growth": 1.0}, {}),
    ("mean reward .18: published", PUBLISHED, {}, LOW),
    ("mean reward .18: noise-aware", DEFAULT, {}, LOW),
    ("mean reward .18: noise-aware, base rate known", DEFAULT, {"base_rate": 0.182}, LOW),
    ("mean reward .18: all, Gaussian sums", FULL, SUMS, LOW),
    ("mean reward .18: no intercept", FULL, {**SUMS, "intercept": 0.0}, LOW),
    ("mean reward .18: base rate known", FULL, {**SUMS, "base_rate": 0.182}, LOW),
    ("length .2: published", PUBLISHED, {}, SHORT),
    ("length .2: noise-aware", DEFAULT, {}, SHORT),
    ("length .2: all, Gaussian sums", FULL, SUMS, SHORT),
    ("steep features: published", PUBLISHED, {}, STEEP),
    ("steep features: all, Gaussian sums", FULL, SUMS, STEEP),
    ("steep features: all, shaped noise", FULL, {**SUMS, "shaped": True}, STEEP),
]


class Ablation:
    """What each idea of the noise-aware policies is worth, alone and in its absence, on the synthetic world.

    "Alone" starts at AdaPrivate-UCB as published and adds one idea, then several. "Channels" lets noise-aware choose its
    channel or holds it to one. "Without" starts at noise-aware-greedy with Gaussian sums and takes one idea of theirs away.
    Shaped noise is measured where it can matter: features whose spread falls as 1/coordinate, the catalogue being the arms
    of that world. Other worlds: a mean reward that is not the centre, and features of length 0.2.
    """

    NAME = "ablation"
    SOURCE = "our own policy; docs/noise-aware.md"
    QUESTION = "What is each idea of the noise-aware policies worth?"
    SEEDS = 200
    SETTINGS: list[Mapping[str, Any]] = [
        {"row": row, "policy": policy, "options": {**options, "epsilon": epsilon}, "world": world, "epsilon": epsilon}
        for row, policy, options, world in ROWS
        for epsilon in (0.1, 1.0, 5.0)
    ]
    QUICK = [
        setting for setting in SETTINGS if setting["epsilon"] == 1.0 and setting["row"] in (ROWS[0][0], ALL, ROWS[-1][0])
    ]

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """One variant; with shaped noise every world brings its own catalogue."""
        options = dict(setting["options"])
        if not options.pop("shaped", False):
            return measured(setting, seeds)
        place: Any = environments.environment("synthetic", setting["world"])
        found: list[Run] = []
        for seed in range(seeds):
            items = tuple(map(tuple, place.world(seed).arms.tolist()))
            shaped = policy_settings(setting["policy"], place, ROUNDS, {**options, "catalogue": items})
            found += played(shaped, place, range(seed, seed + 1))
        return {**setting, "runs": tuple(found)}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Regret and learned share of every variant."""
        cells = []
        for row in rows:
            for what, values in (
                ("regret", [run.regret for run in row["runs"]]),
                ("learned share, %", [100 * run.learned_share for run in row["runs"]]),
            ):
                cells.append(unprinted(row["row"], f"epsilon {row['epsilon']:g}: {what}", *mean_sem(values)))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """Regret at epsilon 1 with no idea and with all, and which of them is missed most."""
        regret = {row["row"]: mean_sem([run.regret for run in row["runs"]])[0] for row in rows if row["epsilon"] == 1.0}
        without = {name: value for name, value in regret.items() if name.startswith("without: ")}
        worst = max(without, key=lambda name: without[name], default=None)
        missed = f" Missed most: {worst.removeprefix('without: ')}, {without[worst]:.0f} without it." if worst else ""
        return (
            f"At epsilon 1 regret is {regret[ROWS[0][0]]:.0f} as published and {regret[ALL]:.0f} with all of them.{missed}"
        )

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Regret of every variant, a colour for each epsilon."""
        labels = list(dict.fromkeys(row["row"] for row in rows))
        for place, epsilon in enumerate(dict.fromkeys(row["epsilon"] for row in rows)):
            here = [row for row in rows if row["epsilon"] == epsilon]
            at = [labels.index(row["row"]) + 0.25 * (place - 1) for row in here]
            values = [mean_sem([run.regret for run in row["runs"]]) for row in here]
            axes.barh(
                at, [m for m, _ in values], 0.24, xerr=[2 * (s or 0.0) for _, s in values], label=f"epsilon {epsilon:g}"
            )
        axes.set_yticks(range(len(labels)), labels, fontsize=6)
        axes.invert_yaxis()
        axes.set_xlabel("regret over 10,000 rounds (bars: two standard errors)")
        axes.legend(fontsize=7)


EPSILON = 1.0
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "noise-aware": ("noise-aware", {}),
    "ts, default": ("noise-aware-ts", {}),
    "ts, v 1/4": ("noise-aware-ts", {"v": 0.25, "fading": 0.0}),
    "ts, v 1": ("noise-aware-ts", {"v": 1.0, "fading": 0.0}),
    "ucb, alpha 1": ("noise-aware-ucb", {"alpha": 1.0}),
    "ucb, alpha 2": ("noise-aware-ucb", {"alpha": 2.0}),
    "greedy": ("noise-aware-greedy", {}),
}


def settings(rules: Mapping[str, tuple[str, dict[str, Any]]], worlds: Sequence[str]) -> list[Mapping[str, Any]]:
    """Every rule in every world."""
    return [{"row": world, "column": rule, "rules": rules} for world in worlds for rule in rules]


class Exploration:
    """Where Thompson sampling, an upper bound and greedy choice win, on the same posterior: regret relative to the best.

    Greedy choice is as good as any wherever the candidates vary by themselves, and the worst by far where the same few are
    offered every round: it stops learning of those it does not play. An upper bound costs little where candidates vary, for
    all are then about equally uncertain; noise-aware makes it wider where they stay the same. Thompson sampling pays for
    its noise where candidates vary, and at the small scale of its default locks in where they stay the same.
    """

    NAME = "exploration"
    SOURCE = "our own policy; docs/noise-aware.md"
    QUESTION = "When is it better to sample, to be optimistic, or to be greedy?"
    SEEDS = 100
    SETTINGS = settings(RULES, list(WORLDS))
    QUICK = settings({rule: RULES[rule] for rule in ("noise-aware", "ts, default", "greedy")}, ["short"])

    def run(self, setting: Mapping[str, Any], seeds: int) -> Row:
        """One rule in one world."""
        environment, world, rounds = WORLDS[setting["row"]]
        policy, options = setting["rules"][setting["column"]]
        played = runs(policy, seeds, environment=environment, world=world, rounds=rounds, epsilon=EPSILON, **options)
        return {**setting, "regrets": [run.regret for run in played]}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """Regret, and regret relative to the best rule of the world."""
        cells = []
        for world in dict.fromkeys(row["row"] for row in rows):
            here = {row["column"]: mean_sem(row["regrets"]) for row in rows if row["row"] == world}
            best = min(mean for mean, _ in here.values())
            for rule, (mean, sem) in here.items():
                cells.append(unprinted(world, f"{rule}: regret", mean, sem))
                share = None if sem is None else sem / best
                cells.append(unprinted(world, f"{rule}: relative to the best", mean / best, share))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """How far each rule is from the best of every world, at worst."""
        worlds: dict[str, dict[str, float]] = {}
        for row in rows:
            worlds.setdefault(row["row"], {})[row["column"]] = mean_sem(row["regrets"])[0]
        at_worst: dict[str, float] = {}
        for found in worlds.values():
            for rule, regret in found.items():
                at_worst[rule] = max(at_worst.get(rule, 1.0), regret / min(found.values()))
        told = ", ".join(f"{rule} {times:.2g}" for rule, times in sorted(at_worst.items(), key=lambda item: item[1]))
        return f"Each rule's regret where it does worst of {len(worlds)}, in times that of the best rule there: {told}."

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Regret relative to the best rule of each world."""
        worlds = list(dict.fromkeys(row["row"] for row in rows))
        best = {world: min(mean_sem(row["regrets"])[0] for row in rows if row["row"] == world) for world in worlds}
        for rule in dict.fromkeys(row["column"] for row in rows):
            here = [row for row in rows if row["column"] == rule]
            level = [mean_sem(row["regrets"])[0] / best[row["row"]] for row in here]
            axes.plot(level, [worlds.index(row["row"]) for row in here], "o", ms=4, label=rule)
        axes.set_yticks(range(len(worlds)), worlds, fontsize=7)
        axes.set(xscale="log", xlabel=f"regret relative to the best rule, epsilon {EPSILON:g}")
        axes.legend(fontsize=7)


EXPERIMENTS = (Ablation, Exploration)
