"""What was measured as tables, as a picture, and as targets met or missed."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

from measuring import met

HERE = Path(__file__).resolve().parent

RESERVED = ("targets", "charts", "notes", "raw")
KINDS = {"full": "in full", "quick": "a first look (--quick)", "tiny": "sizes for tests, numbers without meaning (--tiny)"}
CHANGED = "Not measured on this code, as far as git knows:"
BEGIN, END = "<!-- bench: written by bench.py -->", "<!-- end of bench -->"


def number(value):
    """Three figures, and as many as there are of whole numbers."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value).replace("|", "\\|").replace("\n", " ")
    if isinstance(value, int) or (abs(value) >= 100 and math.isfinite(value)):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(rows):
    """Rows as Markdown; a column for every key that any of them has."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(number(row[key]) if key in row else "" for key in columns) + " |" for row in rows]
    return "\n".join(lines)


def plain(value):
    return not isinstance(value, dict | list)


def sections(name, value):
    """One entry of what a part found: rows become a table, dictionaries of numbers a line, and what is deeper follows."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return [f"**{name}**\n\n{table(value)}"]
    if isinstance(value, list):
        return [f"**{name}**: " + ", ".join(map(number, value))]
    if not isinstance(value, dict):
        return [f"**{name}**: {number(value)}"]
    if value and all(isinstance(row, dict) and all(map(plain, row.values())) for row in value.values()):
        return [f"**{name}**\n\n{table([{'': key, **row} for key, row in value.items()])}"]
    line = {key: entry for key, entry in value.items() if plain(entry)}
    first = [f"**{name}**: " + ", ".join(f"{key}: {number(entry)}" for key, entry in line.items())] if line else []
    deeper = [sections(f"{name}, {key}", entry) for key, entry in value.items() if key not in line]
    return first + [piece for pieces in deeper for piece in pieces]


def goals(part):
    """The targets of a part that are given as such."""
    found = part.get("found", {}).get("targets", [])
    return [goal for goal in found if isinstance(goal, dict) and "what" in goal and ("least" in goal or "most" in goal)]


def judged(results):
    """A row for every target, and for every part that failed."""
    rows = []
    for name, part in results["parts"].items():
        if "failed" in part:
            rows.append({"part": name, "target": "to run", "measured": part["failed"], "": "**failed**"})
        for goal in goals(part):
            bound = f">= {number(goal['least'])}" if "least" in goal else f"<= {number(goal['most'])}"
            verdict = "met" if met(goal) else "**missed**"
            none = goal["value"] is None or math.isnan(goal["value"])
            value = "not measured" if none else number(goal["value"])
            rows.append({"part": name, "target": f"{goal['what']} {bound}", "measured": value, "": verdict})
    for name in results.get("asked", ()):
        if name not in results["parts"]:
            rows.append({"part": name, "target": "to be measured", "measured": "not measured", "": "**missed**"})
    return rows


def verdicts(results):
    """The targets as a table, and how many were met."""
    rows = judged(results)
    if not rows:
        return "No targets."
    kept = sum(row[""] == "met" for row in rows)
    return f"{kept} of {len(rows)} targets met.\n\n{table(rows)}"


def head(results):
    """When, at which commit, on what."""
    place, of = results["machine"], results["versions"]
    return (
        f"{results['date']}, commit {results['commit']}, {KINDS[results['scale']]}. "
        + ", ".join(f"{key}: {value}" for key, value in place.items())
        + ". "
        + ", ".join(f"{key} {value}" for key, value in of.items())
        + "."
        + older(results)
    )


def older(results):
    """Which parts were measured at other times and commits than the last run."""
    now = results["date"], results["commit"]
    runs = {}
    for name, part in results["parts"].items():
        at = part.get("date", now[0]), part.get("commit", now[1])
        if at != now:
            runs.setdefault(at, []).append(name)
    said = "; ".join(f"{', '.join(names)}: {date}, commit {commit}" for (date, commit), names in runs.items())
    return f" Measured earlier: {said}." if said else ""


def changed(results, root=HERE.parent):
    """Which parts were measured on other code (benchmarks/, src/) than is here, by git; nothing where there is none."""

    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)

    code = ("--", "src", ":(glob)benchmarks/**/*.py", ":(glob)benchmarks/**/*.cpp", ":(glob)benchmarks/**/*.toml")
    if git("rev-parse", "HEAD").returncode:
        return ""
    runs = {}
    for name, part in results["parts"].items():
        runs.setdefault(part.get("commit", results["commit"]), []).append(name)
    said = []
    for commit, names in runs.items():
        clean = commit.removesuffix("-dirty")
        since = git("rev-list", "--count", f"{clean}..HEAD")
        if since.returncode:
            said.append(f"{', '.join(names)}: measured at commit {commit}, which is not known here")
        elif clean != commit or git("diff", "--quiet", clean, *code).returncode:
            said.append(f"{', '.join(names)}: measured at commit {commit}, {since.stdout.strip()} commits before this")
    return f"{CHANGED} {'; '.join(said)}." if said else ""


def opening(results):
    """What stands above the targets."""
    return "\n\n".join(filter(None, [changed(results), head(results)]))


def markdown(results):
    """The whole of it, but whether code has changed since, which each commit may change."""
    pieces = ["# What was measured", head(results), "![Pictures of it](bench.svg)", "## Targets", verdicts(results)]
    for name, part in results["parts"].items():
        pieces.append(f"## {name}: {part.get('title', 'failed')}")
        if "failed" in part:
            pieces.append(f"Failed after {part['seconds']} s: {part['failed']}")
            continue
        for key, value in part["found"].items():
            pieces += [] if key in RESERVED else sections(key, value)
        notes = part["found"].get("notes", [])
        pieces += [notes] if isinstance(notes, str) else notes
        pieces.append(f"Measured in {part['seconds']} s, {part['date']}, commit {part['commit']}, {KINDS[part['scale']]}.")
    return "\n\n".join(pieces) + "\n"


def picture(results, path):
    """Every chart: ``x`` and ``series`` (lines, logarithmic axes), or ``bars`` with a ``line`` to reach."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure

    charts = [chart for part in results["parts"].values() for chart in part.get("found", {}).get("charts", [])]
    across = 2
    down = max(1, math.ceil(len(charts) / across))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 8}):
        figure = Figure(figsize=(5.2 * across, 3.4 * down), layout="constrained")
        for place, chart in enumerate(charts):
            axes = figure.add_subplot(down, across, place + 1)
            if "bars" in chart:
                names = list(chart["bars"])
                axes.barh(range(len(names)), list(chart["bars"].values()), color="#4878a8")
                axes.set_yticks(range(len(names)), names)
                axes.invert_yaxis()
                if "line" in chart:
                    axes.axvline(chart["line"], color="#b04030", linewidth=1)
                axes.set_xscale("log" if chart.get("log", True) else "linear")
                axes.set_xlabel(chart.get("label", ""))
            else:
                for name, values in chart["series"].items():
                    points = [(x, y) for x, y in zip(chart["x"], values, strict=True) if y is not None]
                    axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=name)
                axes.set_xscale("log")
                axes.set_yscale("log")
                axes.set_xlabel(chart["over"])
                axes.set_ylabel(chart["label"])
                axes.legend(frameon=False, fontsize=7)
            axes.set_title(chart["title"], fontsize=9)
            axes.spines[["top", "right"]].set_visible(False)
        if not charts:
            figure.text(0.5, 0.5, "nothing to draw", ha="center")
        figure.savefig(path, metadata={"Date": None})


def write(results, folder):
    """bench.md and bench.svg."""
    text = markdown(results).replace(head(results), opening(results), 1)
    (folder / "bench.md").write_text(text, encoding="utf-8")
    picture(results, folder / "bench.svg")


def include(results, readme):
    """The targets in a page, between two marks."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if rest:
        readme.write_text(f"{before}{BEGIN}\n{opening(results)}\n\n{verdicts(results)}\n{END}{after}", encoding="utf-8")
