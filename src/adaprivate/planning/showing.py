"""A plan for people: a table, advice in words, and a picture."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adaprivate import check, extras
from adaprivate.planning.confirmed import error_of, outside
from adaprivate.planning.prospect import FREE, OCTAVES, OURS, PLAIN, WORTH

if TYPE_CHECKING:
    from adaprivate.planning.prospect import Prospect

WIDTH = 120
BLUE, GREEN, GREY = "#0072b2", "#009e73", "#5a616c"
"""Those of the reports."""


def _percent(value: float | None, error: float | None = None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.0f}" + (f" ± {100 * error:.0f}" if error is not None else "") + " %"


def _rounds(value: float | None) -> str:
    if value is None:
        return "-"
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return f"{round(value, -digits):,.0f}"


def _channel(row: dict[str, Any]) -> tuple[str, str]:
    """How rewards leave, and in which batches, in words."""
    if row["channel"] == "flip":
        return "flip", "each at once"
    first = f" †{row['flips_first']:,}" if row["flips_first"] else ""
    if row["channel"] == "items":
        return "items" + first, f"blocks of {row['batch_size']}"
    return "gaussian" + first, f"{row['batch_size']}, growing"


def assumed(plan: Prospect) -> str:
    """The world that the plan assumes, in words."""
    world, task = plan.task.world, plan.task
    kinds = "the same every round" if world.fixed else "new ones every round"
    if math.isfinite(world.items) and not world.fixed:
        kinds = f"of {world.items:,.0f}"
    if task.seen.blocks:
        kinds = "class x context"
    what = (
        f"{world.candidates} arms"
        if world.arms
        else f"{world.candidates} candidates ({kinds}), {world.dimension} dimensions"
    )
    people = f" by {task.people:,} people" if task.people else ""
    log = f" From {', '.join(plan.read) or 'no column'} of {plan.source}; no other column was read." if plan.source else ""
    known = "" if plan.rates_known else " (--base-rate says otherwise)"
    if plan.source and not plan.rates_known:
        known = " - A GUESS, as the log's rewards are not read: say --base-rate, on which all of this rests -"
    return (
        f"{what}, {task.rounds:,} rounds{people}.{log} Assumed: random play earns {world.base_rate:.3g}{known}, "
        f"the best candidate on offer {world.best:.3g} on average (--best changes it)."
    )


def table(plan: Prospect) -> Any:
    """One line for each epsilon, and what stands beside it for comparison."""
    from rich.table import Table

    found = Table(title=f"What privacy costs ({plan.unit} level)", title_justify="left")
    headings = ["policy", "epsilon", "learned share"] + (["simulated"] if plan.seeds else [])
    headings += ["lost*", "channel", "batches", "half learned", "80 %"]
    for heading in headings:
        found.add_column(heading, justify="left" if heading in ("policy", "channel", "batches") else "right", no_wrap=True)

    def beside(name: str, epsilon: float | None, share: float | None, unsure: bool, curve: Any = None) -> None:
        simulated = [_percent(*plan.measured.get((name, epsilon), (None, None)))] if plan.seeds else []
        until = [_rounds(curve.until(level)) for level in (0.5, 0.8)] if curve else ["", ""]
        budget, marked = "none" if epsilon is None else f"{epsilon:g}", name + " ?" * unsure
        found.add_row(marked, budget, _percent(share), *simulated, "", "", "", *until)

    for row in plan.rows:
        simulated = [_percent(row["measured_share"], row["measured_sem"])] if plan.seeds else []
        found.add_row(
            row["policy"] + (" <" if row is plan.advised else "") + ("" if row["confirmed"] else " ?"),
            f"{row['epsilon']:g}",
            _percent(row["learned_share"], row["error"]),
            *simulated,
            f"{row['lost_per_1000']:.3g}",
            *_channel(row),
            _rounds(row["rounds_to_half"]),
            _rounds(row["rounds_to_80"]),
        )
    found.add_section()
    for row in plan.rows:
        if row["rr_linucb_share"] is not None or (PLAIN, row["epsilon"]) in plan.measured:
            beside(PLAIN, row["epsilon"], row["rr_linucb_share"], not row["confirmed"])
    beside(FREE, None, plan.without_privacy.mean, bool(outside(plan.task, FREE)), plan.without_privacy)
    found.add_row("random", "none", "0 %", *([""] if plan.seeds else []), *[""] * 5)
    return found


def advice(plan: Prospect) -> list[str]:
    """What to run, and why; then what would change the answer."""
    row, knee = plan.advised, plan.knee
    points = f"{100 * WORTH:.0f} points of learned share"
    if knee is None and max(plan.curve) < 0.5:
        why = "No knee: little is learned at any epsilon here; more rounds or fewer dimensions help (below)."
    elif knee is None:
        why = f"No knee: twice the epsilon gains {points} or more up to {OCTAVES[-1]:g}."
    elif knee <= OCTAVES[0]:
        why = f"The knee is at epsilon {OCTAVES[0]:g} or below: twice as much gains less than {points}."
    else:
        why = f"The knee is at epsilon {knee:.2g}: from there on twice as much gains less than {points}."
    below = knee is not None and row["epsilon"] < 0.99 * knee
    place = "the largest asked for" + (", though below it" if below else "")
    if knee is not None and not below:
        place = "the least asked for that is not below it"
    lines = [
        f"{why} Take epsilon {row['epsilon']:g}, {place}: {OURS}, {plan.unit} level, channel {row['channel']}. To run it:"
    ]
    lines += ["  " + line for line in commands(plan)]
    if "channel" in plan.options:
        lines.append("Offer one-hot candidates, a row for each arm. With this channel epsilon is pure: delta = 0.")
    else:
        lines.append("It finds channel and batches by itself, from the first candidates it is offered.")
    if plan.rates_known:
        lines[-1] += " Where only clicks are reported, add missing=0.0."
    rows = plan.rows
    lines.append("< the one to take. Batches: a growing one is a tenth longer than the one before.")
    if any(row["flips_first"] for row in rows):
        lines[-1] += " †n: n rewards go out as flipped bits before the channel begins."
    lines.append("What would change the answer (learned share at that epsilon):")
    for change in plan.changes:
        lines.append(
            f"  {change['change']}: {_percent(change['learned_share'])} ({100 * change['difference']:+.0f} points)"
        )
    unsure = list(dict.fromkeys(reason for row in plan.rows for reason in row["outside"]))
    yardstick = [reason for reason in outside(plan.task, FREE) if reason not in unsure]
    if unsure or yardstick:
        lines.append(f"? Not confirmed by simulation there: {'; '.join([*unsure, *yardstick])}. {_elsewhere(plan)}")
    if yardstick:
        lines[-1] += f" What is lost beside {FREE} is then less than the table says."
    if plan.contradicted:
        apart = "; ".join(
            f"{name}{'' if epsilon is None else f' at epsilon {epsilon:g}'} {_percent(share)} predicted, "
            f"{_percent(measured, sem)} simulated"
            for name, epsilon, share, measured, sem in plan.contradicted
        )
        lines.append(f"! Simulation CONTRADICTS what is predicted: {apart}. Go by what was simulated.")
    lines.append(
        "* reward per 1,000 rounds, beside tuned-linucb. Learned share: 0 % random play, 100 % the best candidate in every "
        "round. Rewards are predicted in the world assumed, not promised for yours; guarantees hold in any."
    )
    return lines


def _elsewhere(plan: Prospect) -> str:
    """Where to look for what a prediction does not know."""
    if plan.unplayable is not None:
        return f"docs/planning.md says more; --simulate does not play {plan.unplayable}."
    if plan.task.design is not None:
        return "docs/planning.md says more; --simulate plays features that are spread evenly, not those of the log."
    return f"{'' if plan.seeds else '--simulate looks, and '}docs/planning.md says more."


def commands(plan: Prospect) -> list[str]:
    """The advised policy: in Python, in simulation where an environment plays what is predicted, and for the service."""
    options, world = plan.options, plan.task.world
    words = ", ".join(f"{key}={value!r}" for key, value in options.items())
    values = world.options()
    values |= {key: options[key] for key in ("base_rate", "unit", "counted_visits", "channel") if key in options}
    values |= {**plan.task.people_options, **({} if world.base_rate == 0.5 else {"centre": world.base_rate})}
    flags = " ".join(f"--option {key}={value}" for key, value in values.items())
    body: dict[str, Any] = {"name": "my-bandit", "policy": OURS}
    own = ("counted_visits", "channel")
    body |= {key: value for key, value in options.items() if key not in own}
    if inside := {key: options[key] for key in own if key in options}:
        body["options"] = inside
    delta = f" --delta {options['delta']:g}" if "delta" in options else ""
    budget = f"--epsilon {options['epsilon']:g}{delta} --rounds {options['rounds']}"
    played = [] if plan.unplayable else [f"adaprivate simulate --policy {OURS} --policy {PLAIN} {budget} {flags}"]
    return [
        f'ap.policy("{OURS}", {words}, source=ap.Secure())',
        *played,
        f"POST /bandits {json.dumps(body)}",
    ]


def text(plan: Prospect) -> str:
    """All of it."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(file=stream, width=WIDTH, highlight=False)
    console.print(table(plan))
    return "\n".join([stream.getvalue().rstrip(), *notes(plan)])


def notes(plan: Prospect) -> list[str]:
    """What stands below the table."""
    whose = ["The log says whose decisions these are, so people are protected: --unit event is for single rewards."]
    weak = dict.fromkeys(remark for row in plan.rows for remark in row["remarks"])
    return [assumed(plan), *weak, *(whose if plan.source and plan.task.people else []), *advice(plan)]


def draw(plan: Prospect, path: Path) -> Path:
    """The picture, into this file, or as plan.svg into this folder."""
    with extras.needed():
        from matplotlib.figure import Figure

    if path.suffix.lower() not in (".png", ".svg"):
        check.expect(path.suffix == "", "out", str(path), "to end in .png or .svg, or to be a folder")
        path.mkdir(parents=True, exist_ok=True)
        path = path / "plan.svg"
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    asked = {row["epsilon"]: row["learned_share"] for row in plan.rows}
    points = sorted({**dict(zip(OCTAVES.tolist(), plan.curve, strict=True)), **asked}.items())
    epsilons, shares = np.array(points).T
    errors = np.array([error_of(share) for share in shares])
    axes.fill_between(epsilons, 100 * (shares - errors), 100 * (shares + errors), alpha=0.15, color=BLUE, lw=0)
    axes.plot(epsilons, 100 * shares, color=BLUE, lw=2, label=f"{OURS}, predicted")
    axes.plot(list(asked), [100 * share for share in asked.values()], "o", color=BLUE)
    plain = [(row["epsilon"], 100 * row["rr_linucb_share"]) for row in plan.rows if row["rr_linucb_share"] is not None]
    if plain:
        axes.plot(*zip(*plain, strict=True), "s--", ms=5, color=GREEN, label=f"{PLAIN}, predicted")
    axes.axhline(100 * plan.without_privacy.mean, color=GREY, ls=":", label=f"{FREE}, no privacy")
    for name, colour in ((OURS, BLUE), (PLAIN, GREEN)):
        found = [(epsilon, *share) for (policy, epsilon), share in plan.measured.items() if policy == name]
        if found:
            at, means, sems = zip(*found, strict=True)
            bands = [200 * (sem or 0.0) for sem in sems]
            axes.errorbar(
                at, [100 * mean for mean in means], bands, fmt="x", color=colour, capsize=3, label=f"{name}, simulated"
            )
    if plan.knee is not None:
        axes.axvline(plan.knee, color=GREY, lw=1)
        axes.annotate(f"knee {plan.knee:.2g}", (plan.knee, 3), xytext=(5, 0), textcoords="offset points", color=GREY)
    axes.set(xscale="log", ylim=(0, 102), xlabel=f"epsilon ({plan.unit} level; larger: less privacy)")
    axes.set_title("learned share, %: 0 random play, 100 the best candidate every time", loc="left", fontsize=9, color=GREY)
    axes.set_xticks(list(asked), [f"{epsilon:g}" for epsilon in asked])
    axes.minorticks_off()
    axes.grid(axis="y", color="#eeede7")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    return path
