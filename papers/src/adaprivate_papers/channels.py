"""Which private policy is the best default? Many worlds, in two halves.

DEVELOPMENT worlds may be looked at while constants are chosen. SET_ASIDE worlds are of the same kinds with other parameters
and other seeds: they say whether the choice holds elsewhere, so nothing may be changed once they have been looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.experiments import Cell, Row
from adaprivate.simulation import mean_sem, policy_settings, run_all
from adaprivate_papers._cells import unprinted
from adaprivate_papers._world import BEST_FEATURES, CENTRES, played


class World(NamedTuple):
    """An environment with its options, for so many rounds."""

    environment: str
    options: dict[str, Any]
    rounds: int
    base_rate: float | None = None
    """The mean reward of random play, where policies are told."""
    most_seeds: int | None = None
    """A cap where rounds are slow."""


FIRST_SEED, FIRST_SEED_SET_ASIDE = 0, 1_000_000
DEVELOPMENT: dict[str, World] = {
    "the paper's": World("synthetic", {}, 10_000),
    "linear": World("synthetic-linear", {}, 10_000),
    "short": World("synthetic", {}, 1_000),
    "d 3, K 10": World("synthetic", {"dimension": 3, "candidates": 10}, 10_000),
    "d 5, K 2, long": World("synthetic", {"dimension": 5, "candidates": 2}, 100_000),
    "d 50, K 20": World("synthetic", {"dimension": 50, "candidates": 20}, 10_000),
    "d 100, K 50": World("synthetic", {"dimension": 100, "arms": 400, "candidates": 50}, 10_000, most_seeds=6),
    "fresh, d 20": World("synthetic", {"arms": 0}, 10_000),
    "fresh, d 50": World("synthetic", {"dimension": 50, "arms": 0}, 10_000),
    "a shared component": World("synthetic", {"arms": 0, "shared": 3.0, "signal": 4.0}, 10_000),
    "5 fixed": World("synthetic", {"arms": 5}, 10_000),
    "20 fixed, d 5": World("synthetic", {"dimension": 5, "arms": 20, "candidates": 20}, 10_000),
    "one-hot, 5 of 20": World("synthetic", {"arms": 20, "features": "one-hot"}, 10_000),
    "one-hot, 10 of 100": World(
        "synthetic",
        {"dimension": 100, "arms": 100, "candidates": 10, "features": "one-hot", "signal": 5.0},
        10_000,
        None,
        6,
    ),
    "1 % clicks, known": World(
        "synthetic", {"dimension": 5, "arms": 40, "candidates": 8, "base_rate": 0.01}, 50_000, base_rate=0.01
    ),
    "3 % clicks, known": World(
        "synthetic", {"dimension": 12, "arms": 40, "candidates": 8, "base_rate": 0.03}, 50_000, base_rate=0.03
    ),
    "3 % clicks, not known": World("synthetic", {"dimension": 12, "arms": 40, "candidates": 8, "base_rate": 0.03}, 50_000),
    "90 % base rate": World("synthetic", {"dimension": 10, "base_rate": 0.9, "signal": 3.0}, 10_000),
    "norm 0.2": World("synthetic", {"norms": 0.2}, 10_000),
    "norms 0.05 to 1": World("synthetic", {"norms": (0.05, 1.0)}, 10_000),
    "falling spectrum": World("synthetic", {"decay": 1.0}, 10_000),
    "rank-deficient": World("rank-deficient", {}, 10_000),
    "needle": World("needle", {}, 10_000),
    "drifting": World("drifting", {}, 20_000),
    "made table, 10 columns, 5 classes": World("made-table", {}, 10_000),
    "made table, 30 columns, 3 classes": World("made-table", {"columns": 30, "classes": 3, "noise": 0.2}, 10_000, None, 6),
    "made table, 5 columns, 20 classes": World("made-table", {"columns": 5, "classes": 20}, 10_000, None, 4),
    "digits": World("classification", {"data": "sklearn:digits"}, 4_000, None, 2),
    "covtype": World("classification", {}, 10_000, None, 2),
    "jester": World("jester", BEST_FEATURES["jester"], 30_000, CENTRES["jester"]),
    "movielens": World("movielens", BEST_FEATURES["movielens"], 60_000, CENTRES["movielens"]),
}
SET_ASIDE: dict[str, World] = {
    "d 8, K 3": World("synthetic", {"dimension": 8, "candidates": 3}, 1_500),
    "d 35, K 8": World("synthetic", {"dimension": 35, "arms": 150, "candidates": 8}, 6_000),
    "d 70, K 30": World("synthetic", {"dimension": 70, "arms": 250, "candidates": 30}, 40_000, most_seeds=4),
    "linear, d 12": World("synthetic-linear", {"dimension": 12, "candidates": 4}, 6_000),
    "fresh, d 8": World("synthetic", {"dimension": 8, "arms": 0, "candidates": 8}, 6_000),
    "fresh, d 35": World("synthetic", {"dimension": 35, "arms": 0, "candidates": 3}, 40_000, most_seeds=6),
    "a shared component, d 12": World(
        "synthetic", {"dimension": 12, "arms": 0, "candidates": 8, "shared": 2.0, "signal": 3.0}, 6_000
    ),
    "6 fixed, d 8": World("synthetic", {"dimension": 8, "arms": 6, "candidates": 6}, 6_000),
    "40 fixed, d 35": World("synthetic", {"dimension": 35, "arms": 40, "candidates": 40}, 40_000, most_seeds=6),
    "one-hot, 3 of 12": World("synthetic", {"dimension": 12, "arms": 12, "candidates": 3, "features": "one-hot"}, 1_500),
    "one-hot, 8 of 60": World(
        "synthetic", {"dimension": 60, "arms": 60, "candidates": 8, "features": "one-hot", "signal": 4.0}, 6_000
    ),
    "2 % clicks, known": World(
        "synthetic", {"dimension": 8, "arms": 60, "candidates": 8, "base_rate": 0.02}, 40_000, base_rate=0.02
    ),
    "2 % clicks, not known": World("synthetic", {"dimension": 8, "arms": 60, "candidates": 8, "base_rate": 0.02}, 40_000),
    "80 % base rate": World("synthetic", {"dimension": 35, "base_rate": 0.8, "signal": 3.0}, 6_000),
    "norm 0.1": World("synthetic", {"dimension": 8, "norms": 0.1}, 6_000),
    "norms 0.02 to 0.4": World("synthetic", {"dimension": 12, "norms": (0.02, 0.4)}, 6_000),
    "falling spectrum, d 35": World("synthetic", {"dimension": 35, "decay": 0.7}, 6_000),
    "rank-deficient, d 12": World("rank-deficient", {"dimension": 12, "rank": 3, "candidates": 4}, 6_000),
    "needle, d 8": World("needle", {"dimension": 8, "arms": 12, "candidates": 4, "gap": 0.3}, 6_000),
    "drifting, d 8": World("drifting", {"dimension": 8, "candidates": 8, "period": 3_000}, 6_000),
    "made table, 20 columns, 4 classes": World(
        "made-table", {"columns": 20, "classes": 4, "separation": 2.5}, 6_000, None, 6
    ),
    "made table, 8 columns, 12 classes": World(
        "made-table", {"columns": 8, "classes": 12, "noise": 0.1, "separation": 4.0}, 6_000, None, 6
    ),
    "wine": World("classification", {"data": "sklearn:wine"}, 1_500),
    "breast_cancer": World("classification", {"data": "sklearn:breast_cancer"}, 6_000),
    "jester, d 20": World("jester", {"dimension": 20, "scaling": "clip"}, 6_000, CENTRES["jester"]),
    "movielens, d 20": World("movielens", {"dimension": 20, "scaling": "unit"}, 20_000, CENTRES["movielens"]),
}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DELTA = 1e-5
ALLOWED = 0.02
"""How far below the best of the yardsticks a default may be."""


class Entry(NamedTuple):
    """A policy with options of its own; those it does not know are left out."""

    policy: str
    options: dict[str, Any]
    told: str | None = "centre"
    """The option that takes the base rate where that is public; None: it is not told."""


GAUSSIAN = "noise-aware-ts, gaussian"
EXACT = "adaprivate-ucb, exact"
POLICIES: dict[str, Entry] = {
    "random": Entry("random", {}),
    "linucb": Entry("linucb", {}, told=None),
    "tuned-linucb": Entry("tuned-linucb", {}),
    "rr-linucb": Entry("rr-linucb", {}),
    "rr-lints": Entry("rr-lints", {}),
    EXACT: Entry("adaprivate-ucb", {"calibration": "exact"}),
    GAUSSIAN: Entry("noise-aware-ts", {"channel": "gaussian"}, told="base_rate"),
    "noise-aware": Entry("noise-aware", {}, told="base_rate"),
}
"""By the name in tables. A policy that does not exist is left out."""
OURS = ("noise-aware",)
RIVALS = ("rr-linucb", "rr-lints", EXACT, GAUSSIAN)
YARDSTICKS = ("rr-linucb", EXACT, GAUSSIAN)


def settings(
    worlds: Mapping[str, World] = DEVELOPMENT, epsilons: Sequence[float] = EPSILONS, first_seed: int = FIRST_SEED
) -> list[Mapping[str, Any]]:
    """A setting for each of these worlds at each epsilon."""
    return [
        {"row": name, "column": f"epsilon {epsilon:g}", **world._asdict(), "epsilon": epsilon, "first_seed": first_seed}
        for name, world in worlds.items()
        for epsilon in epsilons
    ]


def best(row: Row, among: Sequence[str]) -> str | None:
    """Which of these policies learned most in this world; None where none of them ran."""
    present = [name for name in among if name in row["shares"]]
    return max(present, key=lambda name: float(np.mean(row["shares"][name])), default=None)


def ahead(row: Row, ours: str, among: Sequence[str]) -> tuple[float, float | None]:
    """Our learned share minus that of the best of these, seed by seed, and its standard error."""
    theirs = best(row, among)
    if theirs is None:
        return 0.0, None
    return mean_sem(np.subtract(row["shares"][ours], row["shares"][theirs]))


class Channels:
    """Which private policy is the best default? Ours and its rivals over many worlds, at equal (epsilon, delta).

    Learned share: 0 is random play, 1 the best candidate in every round. In every world and at every epsilon all policies
    meet the same rounds on the same seeds. Where the base rate of rewards is public, every policy is told it (rivals as
    their centre); LinUCB stays as published. "Ours minus the best" is paired by seed; ours should not be more than 0.02
    below the best of the yardsticks: rr-linucb, adaprivate-ucb with exact noise, Gaussian noise alone. The best is picked
    on the same seeds, which favours it. These worlds may be looked at while constants are chosen; those of
    channels-set-aside may not.

    A world whose data is missing (ADAPRIVATE_DATA, scikit-learn) is left out and named.
    """

    NAME = "channels"
    SOURCE = "our own comparison; no table is printed"
    QUESTION = "Which private policy is the best default?"
    SEEDS = 20
    KEPT = True
    PARTIAL = True
    SETTINGS = settings()
    QUICK = settings({name: DEVELOPMENT[name]._replace(rounds=400) for name in ("short", "one-hot, 5 of 20")}, (1.0,))

    def run(self, setting: Mapping[str, Any], seeds: int, only: Iterable[str] | None = None) -> Row:
        """The learned share of every policy (or of these alone) in this world on every seed; why, if there is none."""
        count = min(seeds, setting["most_seeds"] or seeds)
        chosen = range(setting["first_seed"], setting["first_seed"] + count)
        wanted = [name for name in (POLICIES if only is None else only) if POLICIES[name].policy in policies.names()]
        try:
            place = environments.environment(setting["environment"], setting["options"])
            place.world(chosen[0])
        except InputError as error:
            return {**setting, "left_out": str(error)}
        built = {}
        for name in wanted:
            entry = POLICIES[name]
            values = {"epsilon": setting["epsilon"], "delta": DELTA, **entry.options}
            if entry.told and setting["base_rate"] is not None:
                values[entry.told] = setting["base_rate"]
            built[name] = policy_settings(entry.policy, place, setting["rounds"], values)
        at_this_epsilon = [name for name in wanted if "epsilon" in policies.options(POLICIES[name].policy)]
        runs = dict(zip(at_this_epsilon, run_all([built[name] for name in at_this_epsilon], place, chosen), strict=True))
        for name in wanted:
            if name not in runs:
                runs[name] = list(played(built[name], place, chosen))
        return {**setting, "shares": {name: [run.learned_share for run in runs[name]] for name in wanted}}

    def compare(self, rows: Sequence[Row]) -> list[Cell]:
        """How often ours is good enough and where not; then every world: shares, the best, ours minus the best rival."""
        found = [row for row in rows if "shares" in row]
        cells = []
        for ours in OURS:
            mine = [row for row in found if ours in row["shares"]]
            if not mine:
                continue
            for name, among in (("the yardsticks", YARDSTICKS), ("all private rivals", RIVALS)):
                good = float(np.mean([ahead(row, ours, among)[0] >= -ALLOWED for row in mine]))
                cells.append(unprinted(ours, f"not more than {ALLOWED:g} below the best of {name}, % of cells", 100 * good))
            for row in mine:
                gap, sem = ahead(row, ours, YARDSTICKS)
                if gap < -ALLOWED:
                    where = f"{row['row']}, {row['column']}: minus {best(row, YARDSTICKS)}"
                    cells.append(unprinted(f"{ours} falls short", where, gap, sem))
        for row in found:
            cells += [unprinted(row["row"], f"{row['column']}: {name}", *mean_sem(v)) for name, v in row["shares"].items()]
            winner = best(row, [*RIVALS, *OURS])
            if winner is not None:
                cells.append(unprinted(row["row"], f"{row['column']}: best is {winner}", *mean_sem(row["shares"][winner])))
            for ours in OURS:
                if ours in row["shares"]:
                    column = f"{row['column']}: {ours} minus {best(row, RIVALS)}"
                    cells.append(unprinted(row["row"], column, *ahead(row, ours, RIVALS)))
        missing = {row["row"]: row["left_out"] for row in rows if "left_out" in row}
        for name, why in missing.items():
            cells.append(unprinted("left out", f"{name}: {why}", float(sum(row["row"] == name for row in rows))))
        return cells

    def answer(self, rows: Sequence[Row]) -> str:
        """How often the default is good enough, and where it is furthest from it."""
        ours = OURS[0]
        gaps = {
            f"{r['row']}, {r['column']}": ahead(r, ours, RIVALS)[0] for r in rows if "shares" in r and ours in r["shares"]
        }
        if not gaps:
            return "No world could be played."
        good, worst = sum(gap >= -ALLOWED for gap in gaps.values()), min(gaps, key=lambda where: gaps[where])
        return (
            f"{ours} is at most {ALLOWED:g} of learned share below the best private rival in {good} of {len(gaps)} cells; "
            f"where it does worst ({worst}) its share less that one's is {gaps[worst]:.3f}."
        )

    def plot(self, rows: Sequence[Row], axes: Any) -> None:
        """Who wins where: a colour for the best private policy of every world and epsilon, and its learned share."""
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        found = [row for row in rows if "shares" in row]
        names, columns = list(dict.fromkeys(r["row"] for r in found)), list(dict.fromkeys(r["column"] for r in found))
        private = [*RIVALS, *OURS]
        colours = ("#e69f00", "#f0e442", "#bbbbbb", "#56b4e9", "#2fb58c", "#cc79a7", "#e08a4a", "#8fa8e0")
        grid = np.full((len(names), len(columns)), np.nan)
        for row in found:
            winner = best(row, private)
            if winner is not None:
                y, x = names.index(row["row"]), columns.index(row["column"])
                grid[y, x] = private.index(winner)
                axes.text(x, y, f"{np.mean(row['shares'][winner]):.2f}", ha="center", va="center", fontsize=6)
        shown = colours[: len(private)]
        axes.imshow(grid, cmap=ListedColormap(shown), vmin=-0.5, vmax=len(private) - 0.5, aspect="auto")
        axes.set_xticks(range(len(columns)), columns, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=6)
        patches = [Patch(color=colour, label=name) for colour, name in zip(shown, private, strict=True)]
        axes.legend(handles=patches, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_title("the best private policy and its learned share", fontsize=9)


class ChannelsSetAside(Channels):
    """The comparison of channels on worlds and seeds that nobody looked at while constants were chosen.

    The same kinds of worlds as those of channels with other parameters. Run it when everything is decided: whoever changes
    something after looking at it needs new worlds. Its quick form plays those of channels.
    """

    NAME = "channels-set-aside"
    QUESTION = "Does the choice of a default hold in worlds that nobody looked at?"
    SETTINGS = settings(SET_ASIDE, first_seed=FIRST_SEED_SET_ASIDE)


EXPERIMENTS = (Channels, ChannelsSetAside)
