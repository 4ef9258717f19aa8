"""Starting: the command, the import, compiling with an empty cache, and the tests.

Processor seconds of processes of their own, best of several; compiling is one run of 300 rounds of a policy with nothing
compiled before, and the same again from the cache. The tests' seconds are those of the last `make test` here, by the wall
clock.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTED = ROOT / "build" / "tests.xml"
"""Written by `make test`."""
POLICIES = ("adaprivate-ts", "linucb", "noise-aware")
TINY = {"repeats": 1, "policies": ("random",)}
_RUN = """
import sys
from adaprivate import environments
from adaprivate.simulation import policy_settings, run_one
place = environments.environment("synthetic")
policy = policy_settings(sys.argv[1], place, 300, {"batch_size": 100})
run_one(policy, place, 0, policy.noise_tables([0])[0])
"""


def processor(command, **environment):
    """Processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tested():
    """What the tests took when they were last run as a whole here."""
    if not TESTED.exists():
        return "not run here: `make test` writes build/tests.xml"
    suite = ElementTree.parse(TESTED).getroot().find("testsuite")
    counts = {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}
    return counts | {"seconds": float(suite.get("time")), "cores": os.cpu_count(), "begun": suite.get("timestamp")[:16]}


def measured(quick, *, repeats=None, policies=POLICIES):
    repeats = repeats or (2 if quick else 5)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "adaprivate --help": [sys.executable, "-m", "adaprivate", "--help"],
        "import adaprivate": [sys.executable, "-c", "import adaprivate"],
        "import adaprivate and its policies": [sys.executable, "-c", "import adaprivate; adaprivate.policy"],
        "import adaprivate and accounting": [sys.executable, "-c", "import adaprivate; adaprivate.privacy"],
    }
    best = {name: min(processor(command) for _ in range(repeats)) for name, command in commands.items()}
    compiling = []
    for name in policies:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-c", _RUN, name]
            cold = processor(command, ADAPRIVATE_CACHE=cache)
            warm = min(processor(command, ADAPRIVATE_CACHE=cache) for _ in range(repeats))
        compiling.append({"policy": name, "empty cache": cold, "from the cache": warm})
    return {
        "processor seconds": best,
        "processor seconds of a first run": compiling,
        "tests": tested(),
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    }
