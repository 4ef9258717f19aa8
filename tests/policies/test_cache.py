"""The compiler's cache: a second run compiles nothing, an edit is always seen, and accounting never wakes the compiler."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import adaprivate

PACKAGE = Path(adaprivate.__file__).parent
RUN = """
import json
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(str(event.data.get("dispatcher")))
    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
import adaprivate
from adaprivate import environments, policies
from adaprivate.simulation import episode, run_one

world = environments.environment("synthetic", {"dimension": 3, "arms": 9, "candidates": 3})
settings = policies.settings("lints", {"dimension": 3, "rounds": 200})
run = run_one(settings, world, 1, settings.noise_tables([1])[0])
print(json.dumps({
    "file": adaprivate.__file__,
    "regret": run.regret,
    "random": run.random,
    "misses": sum(episode.stats.cache_misses.values()),
    "compiled": compiled,
}))
"""


def python(code, folder, *arguments, **variables):
    """Run Python with the package of this folder; what it printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG_CACHE"))}
    environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


def test_a_second_run_compiles_nothing_and_an_edit_is_always_seen(tmp_path):
    package, cache = tmp_path / "source" / "adaprivate", tmp_path / "cache"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def run():
        return json.loads(python(RUN, package.parent, ADAPRIVATE_CACHE=str(cache)))

    first = run()
    assert Path(first["file"]).parent == package
    assert first["misses"] == 1
    assert first["compiled"]
    kept = files(cache)
    assert kept
    second = run()
    assert second["misses"] == 0
    assert second["compiled"] == []
    assert files(cache) == kept
    assert second["regret"] == first["regret"]

    # the last candidate instead of the best, in a function that the loop only reaches through others
    edit(
        package / "policies" / "core" / "linear.py",
        "return min(int(the_best(best)), last)",
        "return last",
    )
    flipped = run()
    assert flipped["misses"] == 1
    assert flipped["regret"] > 1.5 * first["regret"]
    assert flipped["random"] == first["random"]
    assert kept.items() <= files(cache).items()

    edit(
        package / "policies" / "core" / "linear.py",
        "return last",
        "return min(int(the_best(best)), last)",
    )
    assert run() == second  # undone: the first run's code is found again

    edit(package / "environments" / "synthetic.py", "means[a] = world.means[", "means[a] = 0.5 * world.means[")
    halved = run()
    assert halved["misses"] == 1
    assert halved["random"] == pytest.approx(first["random"] / 2)


TWO = """
import json
import numpy as np
import adaprivate
from adaprivate.runtime.learner import learn_and_choose

misses, actions = {}, {}
for name in ("random", "linucb"):
    before = sum(learn_and_choose.stats.cache_misses.values())
    policy = adaprivate.policy(name, dimension=2, rounds=20, seed=0)
    actions[name] = [policy.decide(np.eye(2)).action for _ in range(20)]
    misses[name] = sum(learn_and_choose.stats.cache_misses.values()) - before
print(json.dumps({"misses": misses, "actions": actions}))
"""


def test_an_edit_to_one_policy_leaves_the_others_compiled(tmp_path):
    package, cache = tmp_path / "source" / "adaprivate", tmp_path / "cache"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def run():
        return json.loads(python(TWO, package.parent, ADAPRIVATE_CACHE=str(cache)))

    first = run()
    assert first["misses"] == {"random": 1, "linucb": 1}
    assert 0 < sum(first["actions"]["random"]) < 20
    edit(package / "policies" / "linear" / "baselines.py", "return below(", "return 0 * below(")
    second = run()
    assert second["misses"] == {"random": 1, "linucb": 0}
    assert second["actions"] == first["actions"] | {"random": [0] * 20}

    file = package / "policies" / "linear" / "baselines.py"  # no compiled function is made of a comment
    file.write_text("# Baselines\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert run()["misses"] == {"random": 0, "linucb": 0}

    edit(package / "compiled.py", '"reassoc", ', "")  # all are made of this
    assert run()["misses"] == {"random": 1, "linucb": 1}


def test_a_cache_that_cannot_be_written_is_replaced(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    code = "import adaprivate.compiled; print(adaprivate.code_cache.folder())"
    folder = python(code, PACKAGE.parent, ADAPRIVATE_CACHE=str(blocked), TMPDIR=str(tmp_path)).strip()
    assert Path(folder).is_dir()
    assert Path(folder).is_relative_to(tmp_path)


WITHOUT = [
    ("import adaprivate; adaprivate.privacy.gaussian_sigma(1.0, 1e-5)", ()),
    ("import adaprivate.mechanisms; adaprivate.mechanisms.strategy('tree', 8)", ()),
    ("from adaprivate.logs import summary; summary([1.0, 2.0])", ()),
    ("from adaprivate.cli import main; main()", ("--help",)),
    ("from adaprivate.cli import main; main()", ("version",)),
    ("from adaprivate.cli import main; main()", ("simulate", "--help")),
    ("from adaprivate.cli import main; main()", ("list", "mechanisms")),
    ("from adaprivate.cli import main; main()", ("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "9")),
]


@pytest.mark.parametrize(("code", "arguments"), WITHOUT, ids=[str(i) for i in range(len(WITHOUT))])
def test_accounting_and_help_do_not_import_the_compiler(code, arguments):
    guarded = (
        "import sys\n"
        "try:\n"
        f"    {code}\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "assert 'numba' not in sys.modules\n"
        "print('clean')\n"
    )
    assert python(guarded, PACKAGE.parent, *arguments).endswith("clean\n")
