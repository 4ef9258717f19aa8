"""Evaluations as people read them: a table, and what to keep in mind about it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

COMPOSITION = (
    "Each row, and each run on this log, learns from the same rewards. Each guarantee is for one run. If you publish "
    "several runs, their epsilons add up (privacy.compose)."
)
"""What to keep in mind about several evaluations of one log."""


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def evaluation_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Value, interval and effective sample size, one line for each policy and epsilon; the log's own first."""
    log = rows[0]
    people = "" if log["log_people"] is None else f" by {log['log_people']:,} people"
    offered = f"{log['log_candidates']} candidates of {log['log_dimension']} features"
    title = f"{log['log_rows']:,} decisions{people} between {offered}"
    table = Table(title=title, title_justify="left")
    within = f"{100 * log['confidence']:g} % within"
    marked = any(row["few"] for row in rows) or bool(log["log_few"])
    for heading in (
        "policy",
        "epsilon",
        "estimator",
        "reward per round" + _range(rows, "\n({} .. {})"),
        within,
        "worth rows",
        *(["few"] if marked else []),
    ):
        table.add_column(heading, justify="left" if heading in ("policy", "estimator") else "right")
    if log["log_value"] is not None:
        own = f"{number(log['log_low'])} .. {number(log['log_high'])}"
        few = [_carried(log["log_rewarded"]) if log["log_few"] else ""] if marked else []
        table.add_row("as logged", "-", "mean", number(log["log_value"]), own, number(log["log_rows"]), *few)
    for row in rows:
        within = f"{number(row['low'])} .. {number(row['high'])}"
        size = number(row["effective_sample_size"])
        few = [_carried(row["rewarded"]) if row["few"] else ""] if marked else []
        table.add_row(row["policy"], number(row["epsilon"]), row["estimator"], number(row["value"]), within, size, *few)
    return table


def _range(rows: Sequence[dict[str, Any]], text: str) -> str:
    """The text with the range of rewards, where that is not 0 to 1."""
    least, most = rows[0]["log_reward_range"]
    return "" if (least, most) == (0, 1) else text.format(number(least), number(most))


def _carried(rewards: float) -> str:
    return f"{number(rewards)} reward" + ("" if rewards == 1 else "s")


def guarantees(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What each policy promises, and on what that rests."""
    return list(dict.fromkeys(f"{row['policy']}: {row['guarantee']}{_conditions(row)}" for row in rows))


def evaluation_notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What each policy promises, and what to keep in mind about its estimate."""
    loud = [doubt for doubt in rows[0]["log_doubts"] if "CONTRADICT" in doubt]
    notes = [*loud]
    notes += guarantees(rows)
    notes += [f"{row['policy']}: {row['published']}" for row in rows if row["published"] is not None]
    notes.append(COMPOSITION)
    notes += _target(rows)
    notes += dict.fromkeys(_assumed(row) for row in rows if row["assumed_base_rate"] is not None)
    notes += dict.fromkeys(
        f"{row['policy']} learned from {row['people']:,} people. {row['visits_counted']:,} visits counted; "
        f"{row['visits_beyond']:,} were beyond {row['visits_counting']} of their user."
        for row in rows
        if row["people"] is not None
    )
    if any(row["few"] for row in rows) or rows[0]["log_few"]:
        notes.append(
            "few: so few rewards carry the value (or, near 1, so few rows without one), or so much would change with one "
            "more of the largest weight, that the usual interval would be too short; this one is wider, for rare events. "
            "It covers as often as it says unless far larger weights are possible than are known (docs/logs.md)."
        )
    notes += dict.fromkeys(_odd(row) for row in rows if row["odd_weights"])
    notes += dict.fromkeys(f"{row['estimator']}: {row['assumes']}" for row in rows if row["assumes"] is not None)
    notes += _learned_from(rows)
    notes += [doubt for doubt in rows[0]["log_doubts"] if doubt not in loud]
    if not rows[0]["released"]:
        notes.append("Computed from raw rewards, for those who may see the log; --release-epsilon makes it fit to publish.")
    return notes


def _target(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What values and intervals are of, by how many runs of a policy they were made from."""
    notes = []
    if several := sorted({row["seeds"] for row in rows if row["seeds"] > 1}):
        notes.append(
            f"Each value is the mean of {' or '.join(map(str, several))} runs of the policy. Its interval is for the "
            "policy's expected reward per round when it is run afresh on such a log, with new random draws of its own."
        )
    alone = dict.fromkeys(row["policy"] for row in rows if row["run_noise"] == "left out")
    if alone:
        notes.append(
            f"{', '.join(alone)}: the value is of one run; its interval leaves out how much another run would differ"
            + (", for every further run would cost the policy's epsilon again." if rows[0]["released"] else " (--seeds 5).")
        )
    return notes


def _assumed(row: dict[str, Any]) -> str:
    """What a policy assumed of the mean reward, and how to state it."""
    rate = f"{row['assumed_base_rate']:.2g}{_range([row], ' on the scale from 0 to 1')}"
    how = f"starts from a mean reward of {rate} and corrects it by what it releases"
    if not row["learns_base_rate"]:
        how = f"takes the mean reward to be {rate} and does not correct it"
    return (
        f"{row['policy']}, {row['estimator']}: base_rate was not given. The policy {how}. If a mean reward is publicly "
        "known, state it with --option base_rate=P. Do not compute it from this log's rewards: the guarantee would not "
        "cover that."
    )


def _odd(row: dict[str, Any]) -> str:
    """That weights do not average 1, and what that means."""
    return (
        f"{row['policy']}: weights of {row['estimator']} average {number(row['mean_weight'])}, not 1: what the policy "
        "chooses was hardly ever logged, or propensities are wrong. Trust neither its value nor its interval."
    )


def _learned_from(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Why estimators differ: what a policy had learned from when it was judged."""
    replayed = dict.fromkeys(
        f"{row['policy']} learned as it went, from {row['rows']:,} rows" for row in rows if row["estimator"] == "replay"
    )
    split = [row for row in rows if row["estimator"] != "replay"]
    if not (replayed and split):
        return []
    names = ", ".join(dict.fromkeys(row["estimator"] for row in split))
    first = rows[0]["log_rows"] - split[0]["rows"]
    return [
        f"replay is of a policy that learns ({'; '.join(replayed)}); {names} of what it has learned from the first "
        f"{first:,} rows, on the other {split[0]['rows']:,}: they answer two questions."
    ]


def _conditions(row: dict[str, Any]) -> str:
    """What makes a row's guarantee weak, and what it rests on, a line for each."""
    parts = (("The software enforces:", row["enforced"]), ("It holds only if you keep to:", row["assumptions"]))
    weak = "".join(f"\n  {remark}" for remark in row["remarks"])
    return weak + "".join("\n  " + "\n    - ".join((heading, *texts)) for heading, texts in parts if texts)


def as_text(rows: Sequence[dict[str, Any]], width: int = 120) -> str:
    """The table and its notes as plain text."""
    console = Console(file=io.StringIO(), width=width)
    for part in (evaluation_table(rows), *evaluation_notes(rows)):
        console.print(part, highlight=False, markup=isinstance(part, Table))
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue().rstrip("\n")
