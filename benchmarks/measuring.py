"""What the parts share: taking turns, exponents, targets, and what is said of the machine."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np


def turns(items, repeats):
    """The best time of each item, in seconds; the items take turns. Each item returns how long it took."""
    best = dict.fromkeys(items, math.inf)
    for _ in range(repeats):
        for name, item in items.items():
            best[name] = min(best[name], item())
    return best


def timed(function, *arguments, clock=time.process_time):
    """An item: the processor time (or other clock) of one call."""

    def item():
        started = clock()
        function(*arguments)
        return clock() - started

    return item


def exponent(sizes, times, from_size=0.0):
    """The slope of log time on log size over the sizes from this one on, and its standard error (NaN of two sizes)."""
    points = [(math.log(x), math.log(y)) for x, y in zip(sizes, times, strict=True) if x >= from_size]
    x, y = np.array(points).T
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    error = math.sqrt(rest @ rest / (len(x) - 2) / (x @ x)) if len(x) > 2 else math.nan
    return slope, error


def target(what, value, *, least=None, most=None):
    """A number and what it should be at least, or at most: whether it is met is judged when it is shown."""
    return {"what": what, "value": value} | ({"least": least} if least is not None else {"most": most})


def worst(values):
    """The largest in size of what was compared; no number where nothing was, or where one of them is none."""
    sizes = [abs(value) for value in values]
    return max(sizes) if sizes and not any(map(math.isnan, sizes)) else math.nan


def met(goal):
    """Whether a target is met; a value that is no number never is."""
    value = goal["value"]
    if value is None or math.isnan(value):
        return False
    return value >= goal["least"] if "least" in goal else value <= goal["most"]


def machine():
    """The processor, cores, system, memory, compiler, and the load before anything was measured."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    compiler = shutil.which("g++")
    version = None
    if compiler:
        version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "Python": platform.python_version(),
        "C++": version or "none",
        "load before": round(os.getloadavg()[0], 2),
    }


def versions(names=("adaprivate", "numpy", "scipy", "numba", "llvmlite", "opendp", "dp-accounting")):
    """Of what is measured and what it rests on."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
