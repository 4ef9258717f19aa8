"""Functions and files that a call passes: python benchmarks/journeys.py [POLICY] [OPTION=VALUE ...] [--json].

Files of adaprivate in which a Python function ran, the functions, and the modules imported. Compiled code is not seen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adaprivate as ap

INSIDE = "src/adaprivate/"


def traced(action: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """The result of an action, and how many functions, files and imports it took."""
    functions: set[tuple[str, int, str]] = set()
    before = len([name for name in sys.modules if name.startswith("adaprivate")])

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and INSIDE in code.co_filename and code.co_name != "<module>":
            functions.add((code.co_filename, code.co_firstlineno, code.co_name))

    sys.setprofile(note)
    try:
        result = action()
    finally:
        sys.setprofile(None)
    imported = len([name for name in sys.modules if name.startswith("adaprivate")]) - before
    files = {file for file, *_ in functions}
    return result, {"functions": len(functions), "files": len(files), "imported": imported}


def journeys(name: str, options: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The life of one policy with exact noise, call by call."""
    offered = iter(np.random.default_rng(0).normal(size=(400, 5, 4)) / 4)

    def made() -> Any:
        return ap.policy(name, rounds=400, **options, source=ap.mechanisms.Secure())

    def until_released() -> None:
        before = policy.version
        while policy.version == before:
            policy.learn(policy.decide(next(offered)), 1.0)

    found = {}
    policy, found["make the first policy"] = traced(made)
    _, found["make another"] = traced(made)
    decision, found["first decide"] = traced(lambda: policy.decide(next(offered)))
    _, found["learn"] = traced(lambda: policy.learn(decision, 1.0))
    _, found["second decide"] = traced(lambda: policy.decide(next(offered)))
    _, found["third decide"] = traced(lambda: policy.decide(next(offered)))
    _, found["until a release"] = traced(until_released)
    return found


def option(text: str) -> tuple[str, Any]:
    """The name and the value of an option."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", nargs="?", default="noise-aware")
    parser.add_argument("options", nargs="*", metavar="OPTION=VALUE", help="settings; values that are not JSON are texts")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = journeys(given.policy, dict(map(option, given.options)))
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{given.policy:24} functions  files  imported modules")
    for journey, counts in found.items():
        print(f"{journey:24} {counts['functions']:9,} {counts['files']:6,} {counts['imported']:9,}")


if __name__ == "__main__":
    main()
