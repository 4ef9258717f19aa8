"""Other libraries on the same work: choose among K candidates of dimension d, then learn one reward, one round at a time.

Every library runs in a process and an environment of its own (``peers/peers.toml``), by a driver of its own
(``peers/NAME.py``); rounds of runs take turns, each keeps its best. ``peers/stream.py`` says what is learned; data are in
the form that the library's Python interface takes before the clock starts, and the first 300 rounds (compiling, planning)
are not counted. Vowpal Wabbit's takes text: writing it is not timed, parsing it is, inside decide, as for whoever uses its
Python binding. Regret is of the first 1,000 rounds, on the same contexts and clicks for all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from measuring import target

HERE = Path(__file__).resolve().parent
ENVIRONMENTS, DRIVERS = HERE / ".envs", HERE / "peers"
SHAPES = ((20, 5), (5, 25), (50, 20))
OURS = ("lints", "linucb", "adaprivate-ts", "noise-aware-ts", "noise-aware", "noise-aware-ts:secure", "noise-aware:secure")
PRIVATE, EXACT = "noise-aware-ts", "noise-aware-ts:secure"
ROUNDS = 20_000
"""Rounds that everyone plays who is fast enough."""
TINY = {"shapes": ((5, 3),), "repeats": 1, "seconds": 0.2, "ours": ("lints",), "names": ()}


def listed():
    """What stands in peers.toml."""
    return tomllib.loads((DRIVERS / "peers.toml").read_text(encoding="utf-8"))


def installed(name, requires):
    """The interpreter of a library's environment, made if there is none; OSError says why not."""
    folder = ENVIRONMENTS / name
    python, mark = folder / "bin" / "python", folder / "installed"
    asked = hashlib.sha256("\n".join([sys.version, *requires]).encode()).hexdigest()
    if mark.exists() and mark.read_text() == asked and python.exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *requires]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired as error:
        raise OSError("pip took longer than 600 s") from error
    if done.returncode:
        raise OSError(f"pip: {_last(done.stderr)}")
    mark.write_text(asked)
    return python


def _last(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1] if lines else "no output"


def run(python, driver, variant, shape, seconds, seed=1):
    """One run of a driver; OSError says why there is none."""
    d, k = shape
    command = [python, DRIVERS / f"{driver}.py", "--variant", variant, "--dimension", str(d), "--candidates", str(k)]
    command += ["--seconds", str(seconds), "--seed", str(seed), "--rounds", str(ROUNDS)]
    environment = os.environ.copy()
    if driver != "ours":  # theirs is an environment of its own
        environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    except subprocess.TimeoutExpired as error:
        raise OSError("a run took longer than 120 s") from error
    if done.returncode:
        raise OSError(_last(done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def measured(quick, *, shapes=SHAPES, repeats=None, seconds=None, ours=OURS, names=None):
    repeats = repeats or (1 if quick else 3)
    seconds = seconds or (0.4 if quick else 0.8)
    learners, failed, about = [("ours", variant, sys.executable) for variant in ours], [], []
    for name, entry in listed().items():
        if names is not None and name not in names:
            continue
        about.append({"library": entry["requires"][0], "what": entry["what"], "how its work differs": entry["work"]})
        try:
            python = installed(name, entry["requires"])
            learners += [(name, variant, python) for variant in entry["learners"]]
        except OSError as error:
            failed.append({"library": name, "learner": "all", "why not": str(error)})
    tables, charts, best = {}, [], {}
    for shape in shapes:
        for _ in range(repeats):
            for name, variant, python in learners:
                if any(row["library"] == name and row["learner"] == variant for row in failed):
                    continue
                try:
                    found = run(python, name, variant, shape, seconds)
                except OSError as error:
                    failed.append({"library": name, "learner": variant, "why not": str(error)})
                    continue
                known = best.setdefault(shape, {}).get((name, variant))
                if known is None or found["round"] < known["round"]:
                    best[shape][name, variant] = found
        rows = [_row(name, variant, found, best[shape]) for (name, variant), found in best[shape].items()]
        title = f"d {shape[0]}, K {shape[1]}: microseconds of processor time, best of {repeats}"
        tables[title] = rows
        bars = {f"{row['library']} {row['learner']}": row["a round"] for row in rows}
        title = f"decide and learn once, d {shape[0]}, K {shape[1]}"
        charts.append({"title": title, "bars": bars, "label": "microseconds of processor time"})
    return {
        "what is compared": about,
        **tables,
        **({"not measured": failed} if failed else {}),
        "targets": list(goals(best, shapes)) if PRIVATE in ours else [],
        "charts": charts,
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").replace("``", "`").strip()
        + f" Who is slow plays fewer rounds than {ROUNDS:,}: as many as fit into {seconds:g} s."
        " A round, and its two halves, are timed in stretches of their own, and so do not quite add up."
        f" Ratios are theirs / {PRIVATE} (simulated noise) and theirs / {EXACT} (exact noise), releases included."
        " linucb of coba and ours are the same algorithm, and so those of MABWiser and contextualbandits: equal regrets say"
        " that nobody was given other work.",
    }


def _row(name, variant, found, best):
    row = {"library": name, "learner": variant, "rounds": found["rounds"]}
    for what, key in (("a round", "round"), ("decide", "decide"), ("learn", "learn")):
        row[what] = round(1e6 * found[key], 3)
    for title, ours in (("ratio", PRIVATE), ("ratio, exact", EXACT)):
        if ("ours", ours) in best and name != "ours":
            row[title] = found["round"] / best["ours", ours]["round"]
    share = found["regret"] / found["regret of chance"]
    return row | {"regret": round(found["regret"], 1), "of chance's": round(share, 2)}


def goals(best, shapes):
    """A hundred times MABWiser and contextualbandits; ten, and with exact noise five, times Vowpal Wabbit (its fastest)."""
    for shape in shapes:
        found = best.get(shape, {})
        ours, theirs = (found.get((who, "linucb"), {}).get("regret", math.nan) for who in ("ours", "coba"))
        size = f"d {shape[0]}, K {shape[1]}"
        apart = abs(ours - theirs) / ours
        yield target(f"our linucb's regret and coba's, relative difference, {size}", apart, most=1e-9)
        for name, ours, least in (
            *(("mabwiser", PRIVATE, 100.0), ("contextualbandits", PRIVATE, 100.0)),
            *(("vowpalwabbit", PRIVATE, 10.0), ("vowpalwabbit", EXACT, 5.0)),
        ):
            theirs = [one["round"] for (library, _), one in found.items() if library == name]
            mine = found.get(("ours", ours))
            value = min(theirs) / mine["round"] if theirs and mine else math.nan
            yield target(f"fastest {name} / {ours}, {size}", value, least=least)


def install():
    """Every environment; what fails is said, and again in the results."""
    for name, entry in listed().items():
        try:
            installed(name, entry["requires"])
        except OSError as error:
            sys.stderr.write(f"{name} cannot be measured: {error}\n")


if __name__ == "__main__":
    install()
