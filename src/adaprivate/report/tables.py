"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from adaprivate.logs.format import number
from adaprivate.report.verdicts import VERDICTS, counts, meanings, plural, said


def cell_table(title: str, cells: Sequence[Any]) -> Table:
    """Ours, one line a cell; where papers print values, those and verdicts beside it."""
    printed = any(cell.paper is not None for cell in cells)
    table = Table(title=title, title_justify="left")
    table.add_column("")
    table.add_column("")
    for heading in ("paper", "ours") if printed else ("ours",):
        table.add_column(heading, justify="right")
    if printed:
        table.add_column("verdict")
    previous = None
    for cell in cells:
        ours = number(cell.ours) + (f" ± {number(cell.sem)}" if cell.sem is not None else "")
        values: list[Any] = [cell.row if cell.row != previous else "", cell.column, ours]
        if printed:
            verdict = VERDICTS.get(cell.verdict)
            values.insert(2, number(cell.paper))
            values.append(Text(said(cell), style=verdict.style) if verdict else "")
        table.add_row(*values)
        previous = cell.row
    return table


def verdict_line(cells: Iterable[Any]) -> str:
    """How many printed values agree, differ, or are unsound; empty where no paper prints any."""
    found = counts(cells)
    return "Printed values: " + ", ".join(f"{n} {plural(v, n)}" for v, n in found.items()) if found else ""


def meaning_lines(cells: Iterable[Any]) -> list[str]:
    """What the verdicts that occur mean, a line each."""
    return [f"{VERDICTS[verdict].word}: {words}" for verdict, words in meanings(cells).items()]


def listing(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table of texts."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    return table


def checked_tables(facts: dict[str, Any]) -> list[Table | str]:
    """What is known of some data; of a log also what is wrong with it, and what is worth knowing."""
    apart = ("faults", "remarks", "places_are", "false_alarm", "columns")
    named = {name: value for name, value in facts.items() if name not in apart}
    named |= {f"column of {word}": name for word, name in facts.get("columns", {}).items()}
    shown: list[Table | str] = [listing(facts["path"], ("", ""), ((name, str(value)) for name, value in named.items()))]
    if "faults" not in facts:
        return shown
    for title, key in (("faults", "faults"), ("worth knowing", "remarks")):
        if not facts[key]:
            continue
        table = Table(title=title, title_justify="left")
        for heading in ("column", "what is wrong" if key == "faults" else "", "rows", f"first {facts['places_are']}"):
            table.add_column(heading, justify="right" if heading == "rows" else "left")
        for one in facts[key]:
            places = ", ".join(f"{place:,}" for place in one["places"])
            table.add_row(one["column"] or "", one["wrong"], f"{one['rows']:,}", places)
        shown.append(table)
    return shown if facts["faults"] else [*shown, "No faults."]


POLICY_WORDS = (
    "protects: event, one reward; user, all of one person's; joint, context and reward of a round; local, what a person's "
    "own client sends. ε alone: delta is 0. real data: whether source=Secure() draws exact noise for it; --json says for "
    "which options, and what each guarantee rests on."
)
"""What the columns of the table of policies mean."""


def policy_table(entries: Sequence[dict[str, Any]]) -> Table:
    """One row a policy, those to start with first; fits 100 columns."""
    table = Table(title="policies", title_justify="left")
    table.add_column("start", justify="right")
    table.add_column("policy: what it does", max_width=41)
    for heading in ("chooses", "protects", "promises", "real data"):
        table.add_column(heading, no_wrap=True)
    started = [entry for entry in entries if entry["start_here"] is not None]
    for entry in entries:
        private = entry["units"] != ["none"]
        name = Text(entry["name"], style="bold")
        what = entry["recommended_for"] or entry["summary"]
        table.add_row(
            str(entry["start_here"] or ""),
            Text.assemble(name, f"\n{what}"),
            entry["chooses"],
            "\n".join(entry["units"]),
            entry["promises"].replace("epsilon", "ε").replace("delta", "δ").replace(" or ", "\nor ") if private else "-",
            entry["production_noise"].replace("some options", "some") if private else "-",
            end_section=entry is started[-1] if started else False,
        )
    return table


def facts_table(title: str, facts: Iterable[tuple[str, float | None, str]]) -> Table:
    """Name, value and meaning, one line a fact."""
    return listing(title, ("", "", ""), ((name, number(value), meaning) for name, value, meaning in facts))


def audit_table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """What is claimed and what an attack proves at least, one line for each thing attacked."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("epsilon claimed", "at least", "mu claimed", "at least", "share"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        numbers = [number(row[key]) for key in ("claimed_epsilon", "measured_epsilon", "claimed_mu", "measured_mu")]
        verdict = Text("holds", style="green") if row["holds"] else Text("BROKEN", style="bold red")
        table.add_row(row["policy"], *numbers, f"{row['share']:.2f}", verdict)
    return table


def simulation_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Reward, regret and what was learned, one line for each policy and epsilon."""
    table = Table(
        title=f"{rows[0]['environment']}: {rows[0]['rounds']:,} rounds, {rows[0]['seeds']} seeds", title_justify="left"
    )
    table.add_column("policy", no_wrap=True, min_width=max(len(row["policy"]) for row in rows))
    for heading in ("epsilon", "% of LinUCB", "of tuned", "learned share", "regret", "rounds/s"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["policy"],
            number(row["epsilon"] or row["stated_epsilon"] or None),  # where eta is given instead, what it is
            _with_sem(row["percent_of_linucb"], row["percent_sem"], 1),
            _with_sem(row["percent_of_tuned_linucb"], row["percent_of_tuned_linucb_sem"], 1),
            _with_sem(100 * row["learned_share"], row["learned_share_sem"] and 100 * row["learned_share_sem"], 1) + " %",
            _with_sem(row["regret_mean"], row["regret_sem"], 0),
            f"{row['rounds_per_second'] / 1e6:.2g} M",
        )
    return table


def remarks_of(rows: Iterable[dict[str, Any]]) -> list[str]:
    """What makes guarantees of these rows weak, each once, with the policies it is said of."""
    said: dict[str, dict[str, None]] = {}
    for row in rows:
        for remark in row["remarks"]:
            said.setdefault(remark, {})[row["policy"]] = None
    return [f"{', '.join(names)}: {remark}" for remark, names in said.items()]


def _with_sem(value: float | None, sem: float | None, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:,.{digits}f}" + (f" ± {sem:,.{digits}f}" if sem is not None else "")


def _plan_regret(row: dict[str, Any], world: str) -> str:
    wrong = row["wrong_commitments"]
    text = _with_sem(row["regret"][world], row["regret_sem"][world], 0)
    return text + (f"\n{100 * wrong[world]:.0f} % wrong" if wrong else "")


def plan_advice(rows: Sequence[dict[str, Any]]) -> str:
    """What to take at one epsilon, and which policies would do better or as well."""
    epsilon = f"epsilon {rows[0]['epsilon']:g}: "
    lines = []
    for row in rows:
        if row["recommended"]:
            told = ", ".join(f"{key}={value}" for key, value in row.get("options", {}).items())
            lines.append(f"{epsilon}take {row['policy']}{f' ({told})' * bool(told)}. {row['guarantee']}")
    if not lines:
        return f"{epsilon}none of these policies can run with exact noise."
    for standing, words in (("tied", "no telling from it (within two standard errors)"), ("ahead", "less regret")):
        for row in (row for row in rows if row["standing"] == standing):
            note = "" if row["exact_noise"] else "; simulation only, it has no exact noise"
            pure = " and delta = 0" if row["delta"] == 0 else ""
            lines.append(f"  {row['policy']}: {words}{pure}{note}.")
    return "\n".join(lines)


def plan_table(rows: Sequence[dict[str, Any]]) -> Table:
    """One line a policy: what it promises, its parameters and its regret in each simulated world, the best first."""
    first = rows[0]
    title = f"{first['arms']} arms, {first['rounds']:,} rounds, epsilon {first['epsilon']:g}"
    table = Table(title=title, title_justify="left")
    for heading in ("policy", "delta", "with exact noise", "seeds", "parameters"):
        table.add_column(heading, no_wrap=heading == "policy")
    worlds = list(first["regret"])
    for world in worlds:
        table.add_column(f"regret, {world}", justify="right")
    table.add_column("of random play's", justify="right")
    for row in sorted(rows, key=lambda row: float(row["regret_share"])):
        table.add_row(
            row["policy"] + {"recommended": " *", "tied": " ="}.get(row["standing"], ""),
            f"{row['delta']:g}",
            "yes" if row["exact_noise"] else "simulation only",
            f"{row['seeds']}",
            ", ".join(f"{name} {value:.3g}" for name, value in row["parameters"].items()),
            *(_plan_regret(row, world) for world in worlds),
            f"{100 * row['regret_share']:.1f} ± {100 * row['regret_share_sem']:.1f} %",
        )
    return table
