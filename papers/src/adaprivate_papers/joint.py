"""What private contexts cost: noise-aware-joint beside its rivals, and beside ours where contexts are public.

The world is the synthetic one of the AdaPrivate-TS paper, in 5, 10 and 20 dimensions. Jointly private, at the same epsilon:
ours, and Shariff & Sheffet's policy with the least noise its guarantee allows, by a tree and in batches. With public
contexts, for reference: ours held to Gaussian sums, the same noise on the same sums of rewards, which sets the mark that
private contexts are measured by; ours with every channel; randomised response. Without privacy: tuned LinUCB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adaprivate.experiments import Cell, Row
from adaprivate.simulation import mean_sem
from adaprivate_papers._cells import unprinted
from adaprivate_papers._world import measured

SOURCE = "our own policy; docs/noise-aware.md"
QUESTION = "What does it cost to keep contexts private?"
SEEDS = 40
EPSILONS = (1.0, 5.0)
DIMENSIONS = (5, 10, 20)
OURS, MARK = "noise-aware-joint", "contexts public: noise-aware-greedy, Gaussian sums"
TIGHT = {"calibration": "tight"}
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: (OURS, {}),
    f"{OURS}, no exploration": (OURS, {"v": 0.0}),
    "jdp-linucb-gaussian, tight, tree": ("jdp-linucb-gaussian", TIGHT),
    "jdp-linucb-gaussian, tight, batches of 300": ("jdp-linucb-gaussian", {**TIGHT, "release": "batched"}),
    MARK: ("noise-aware-greedy", {"channel": "gaussian"}),
    "contexts public: noise-aware-ts, Gaussian sums": ("noise-aware-ts", {"channel": "gaussian"}),
    "contexts public: noise-aware": ("noise-aware", {}),
    "contexts public: rr-linucb": ("rr-linucb", {}),
}
CLEAR: dict[str, tuple[str, dict[str, Any]]] = {"random": ("random", {}), "tuned-linucb, not private": ("tuned-linucb", {})}


def settings(dimensions: Sequence[int], epsilons: Sequence[float], rounds: Sequence[int]) -> list[Mapping[str, Any]]:
    """Every policy in every world, at every epsilon."""
    rows: list[Mapping[str, Any]] = []
    for T in rounds:
        for d in dimensions:
            where = {"world": {"dimension": d}, "rounds": T}
            rows += [{"row": row, "policy": p, "epsilon": None, **where} for row, (p, _) in CLEAR.items()]
            rows += [
                {"row": row, "policy": policy, "options": {"epsilon": epsilon, **options}, "epsilon": epsilon, **where}
                for epsilon in epsilons
                for row, (policy, options) in POLICIES.items()
            ]
    return rows


SETTINGS = settings(DIMENSIONS, EPSILONS, (10_000, 100_000))
QUICK = settings((5,), (1.0,), (2_000,))


def run(setting: Mapping[str, Any], seeds: int) -> Row:
    """One policy at one epsilon, in one world."""
    row = measured(setting, seeds)
    regrets = [run.regret for run in row.pop("runs")]
    return {**row, "regrets": regrets}


def _place(row: Row) -> tuple[int, int]:
    return row["world"]["dimension"], row["rounds"]


def compare(rows: Sequence[Row]) -> list[Cell]:
    """Regret, and that of ours relative to what the same noise on rewards alone leaves, seed by seed."""
    cells = []
    for row in rows:
        d, T = _place(row)
        epsilon = "" if row["epsilon"] is None else f", epsilon {row['epsilon']:g}"
        cells.append(unprinted(row["row"], f"d {d}, T {T}{epsilon}: regret", row["regret"], row["regret_sem"]))
    for mark in (row for row in rows if row["row"] == MARK):
        ours = next(r for r in rows if r["row"] == OURS and _place(r) == _place(mark) and r["epsilon"] == mark["epsilon"])
        scale = 100 / mark["regret"]
        more = mean_sem([scale * (a - b) for a, b in zip(ours["regrets"], mark["regrets"], strict=True)])
        d, T = _place(mark)
        column = f"d {d}, T {T}, epsilon {mark['epsilon']:g}: % more regret than with public contexts"
        cells.append(unprinted(OURS, column, *more))
    return cells


def answer(rows: Sequence[Row]) -> str:
    """Regret of ours relative to public contexts and to the best jointly private rival, over all worlds."""
    more, less = [], []
    for row in (row for row in rows if row["row"] == OURS):
        here = {r["row"]: r["regret"] for r in rows if _place(r) == _place(row) and r["epsilon"] == row["epsilon"]}
        more.append(row["regret"] / here[MARK])
        less.append(row["regret"] / min(regret for name, regret in here.items() if name.startswith("jdp")))
    return (
        f"{OURS} has {min(more):.2f} to {max(more):.2f} times the regret of the same sums with public contexts, and "
        f"{min(less):.2f} to {max(less):.2f} times that of the best jointly private rival."
    )


def plot(rows: Sequence[Row], axes: Any) -> None:
    """Regret of every policy in every world, relative to random play."""
    places = list(dict.fromkeys((*_place(row), row["epsilon"]) for row in rows if row["epsilon"] is not None))
    random = {_place(row): row["regret"] for row in rows if row["row"] == "random"}
    for label in POLICIES:
        here = {(*_place(row), row["epsilon"]): row for row in rows if row["row"] == label}
        level = [here[place]["regret"] / random[place[:2]] for place in places]
        axes.plot(level, range(len(places)), "o" if label.startswith(OURS) else "x", ms=4, label=label)
    axes.set_yticks(range(len(places)), [f"d {d}, T {T}, epsilon {e:g}" for d, T, e in places], fontsize=7)
    axes.set(xscale="log", xlabel="regret, relative to random play")
    axes.legend(fontsize=6)
