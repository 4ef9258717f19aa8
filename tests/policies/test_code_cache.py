"""What a compiled function is kept under: all that it is made of, and nothing else; and what is removed."""

import importlib
import json
import os
import subprocess
import sys
import textwrap
import time
from typing import NamedTuple

import numba
import numpy as np
import pytest

from adaprivate import code_cache, environments, policies, simulation
from adaprivate.compiled import Dispatch, bound, entry, kernel, routine
from adaprivate.runtime import learner as serving


def python(code, *folders, **variables):
    """Run Python with these folders first in its path; what it printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG_CACHE"))}
    path = os.pathsep.join([*map(str, folders), *(folder for folder in sys.path if folder)])
    environment |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


MODULE = """
import enum
from typing import NamedTuple
import numba
import numpy as np
from adaprivate.compiled import Dispatch, entry, kernel, routine
{imports}

class Colour(enum.Enum):
    RED = {red}

class A(NamedTuple):
    x: np.ndarray

class B(NamedTuple):
    x: np.ndarray

class Both(NamedTuple):
    first: A
    second: B

SCALE = {scale}
TABLE = np.array([{table}])
KIND = {kind}

def act(state, y):
    raise TypeError

acts = Dispatch(act)

@routine
def far(x):
    return x[0] + {far}

@kernel
def near(x):
    return x[0] * SCALE + {near}

def adder(k):
    @numba.njit
    def add(y):
        return y + k
    return add

add = adder({cell})

@acts.of(A)
def _a(state, y):
    return add(near(state.x)) + y + TABLE[0] + KIND(1) + Colour.RED.value

@acts.of(B)
def _b(state, y):
    return far(state.x) + y

@acts.of(Both)
def _both(state, y):
    return act(state.first, y) + act(state.second, y)

@entry
def run(state, y):
    return act(state, y)

def settings():
    '''Says something.'''
    return {unrelated}
"""
ORIGINAL = {
    "imports": "",
    "red": 1,
    "scale": "2.0",
    "table": "3.0",
    "kind": "numba.int64",
    "far": "0.5",
    "near": "0.25",
    "cell": 7,
    "unrelated": 0,
}


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """The keys of ``run`` for A, for B and for both, of a module with these texts."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(**changed):
        (tmp_path / "foreign.py").write_text(MODULE.format(**(ORIGINAL | changed)), encoding="utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("foreign", None)
        module = importlib.import_module("foreign")
        x = np.zeros(1)
        states = {"A": module.A(x), "B": module.B(x), "Both": module.Both(module.A(x), module.B(x))}
        return {name: code_cache.key(module.run.py_func, [numba.typeof(s), numba.float64]) for name, s in states.items()}

    yield made
    sys.modules.pop("foreign", None)


@pytest.mark.parametrize(
    ("changed", "seen_by"),
    [
        ({"unrelated": 1}, []),
        ({"imports": "# a comment\n"}, []),
        ({"near": "0.26"}, ["A", "Both"]),
        ({"scale": "2.5"}, ["A", "Both"]),
        ({"table": "3.5"}, ["A", "Both"]),
        ({"kind": "numba.float64"}, ["A", "Both"]),
        ({"cell": 8}, ["A", "Both"]),
        ({"red": 2}, ["A", "Both"]),
        ({"far": "0.6"}, ["B", "Both"]),
    ],
    ids=str,
)
def test_an_edit_is_seen_by_what_is_made_of_it(keys, changed, seen_by):
    before, after = keys(), keys(**changed)
    assert [name for name in before if before[name] != after[name]] == seen_by
    assert keys() == before


OF_ARRAYS = """
from adaprivate.compiled import Dispatch, entry

def best(x):
    raise TypeError

def _in_any_case(x):
    return x[0] + {plain}

bests = Dispatch(best, _in_any_case)

@entry
def run(x):
    return best(x)
"""


def test_an_edit_is_seen_where_no_state_is_among_the_arguments(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    for plain in (1, 1, 2):
        (tmp_path / "of_arrays.py").write_text(OF_ARRAYS.format(plain=plain), encoding="utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("of_arrays", None)
        run = importlib.import_module("of_arrays").run
        found.append(code_cache.key(run.py_func, [numba.typeof(np.zeros(1))]))
    sys.modules.pop("of_arrays", None)
    assert found[0] == found[1] != found[2]


def test_what_cannot_be_read_closely_stands_for_its_whole_package(keys, tmp_path):
    """A function that is not compiled, for which another module has an overload: numba finds it, we cannot."""
    other = tmp_path / "other.py"
    code = "import numba.extending\ndef plain(x):\n    return 1\n"
    code += "@numba.extending.overload(plain)\ndef _(x):\n    return lambda x: {}\n"
    other.write_text(code.format(1), encoding="utf-8")
    uses = {"imports": "from other import plain", "near": "plain(1)"}
    before = keys(**uses)
    other.write_text(code.format(2), encoding="utf-8")
    sys.modules.pop("other")
    code_cache._package.cache_clear()
    after = keys(**uses)
    sys.modules.pop("other")
    assert {name for name in before if before[name] != after[name]} == {"A", "Both"}


def test_every_policy_and_world_can_be_read_closely(monkeypatch):
    def refuse(module):
        raise AssertionError(f"all of {module} would have to be read")

    monkeypatch.setattr(code_cache, "_package", refuse)
    found = {}
    worlds = {name: numba.typeof(environments.environment(name).world(0)) for name in ("synthetic", "rank-deficient")}
    for name in policies.names():
        kind = policies.settings_class(name)
        example = next(one for one in importlib.import_module(kind.__module__).EXAMPLES if type(one) is kind)
        state = numba.typeof(example.start(example.noise_tables([0])[0]))
        for function in (serving.choose, serving.learn):
            found[name, function.__name__] = code_cache.key(function.py_func, [state])
        for world, kind in worlds.items():
            found[name, world] = code_cache.key(simulation.episode.py_func, [state, kind])
    assert found["adaprivate-ts", "choose"] != found["adaprivate-ucb", "choose"]
    assert found["noise-aware-ts", "choose"] == found["noise-aware-ucb", "choose"]  # one state, whatever the rule
    assert found["noise-aware-ts", "synthetic"] != found["noise-aware-ts", "rank-deficient"]
    assert found["linucb", "choose"] != found["linucb", "learn"]


FOREIGN = """
from typing import NamedTuple
import numpy as np
from adaprivate.compiled import routine
from adaprivate.policies.core.dispatch import selects, updates
from foreign_maths import last

class Mine(NamedTuple):
    counts: np.ndarray

class Other(NamedTuple):
    counts: np.ndarray

@routine
def root_of(matrix):
    return np.linalg.cholesky(matrix)[0, 0]

@selects.of(Mine)
def _select(state, candidates, rng):
    return last(candidates)

@updates.of(Mine)
def _update(state, features, reward, rng):
    state.counts[0, 0] += 3.0
    state.counts[0, 0] = root_of(state.counts)

@selects.of(Other)
def _select_other(state, candidates, rng):
    return 0
"""
MATHS = """
from adaprivate.compiled import kernel

@kernel
def last(candidates):
    return candidates.shape[0] - {}
"""
USE = """
import json
import numpy as np
import foreign
from adaprivate.compiled import streams
from adaprivate.runtime.learner import choose, learn

rng = streams(0, 1, 2)
state = foreign.Mine(np.array([[1.0]]))
actions = np.zeros(1, dtype=np.int64)
choose(state, np.zeros((1, 5, 2)), rng, actions)
action = int(actions[0])
choose(foreign.Other(np.zeros((1, 1))), np.zeros((1, 5, 2)), rng, actions)
other = int(actions[0])
learn(state, np.zeros(2), 1.0, -1, rng)
learned = state.counts[0, 0]
state.counts[0, 0] = -9.0
try:
    learn(state, np.zeros(2), 1.0, -1, rng)
    failed = ""
except np.linalg.LinAlgError as error:
    failed = str(error)
misses = {f.__name__: sum(f.stats.cache_misses.values()) for f in (choose, learn, foreign.root_of)}
print(json.dumps({"action": action, "other": other, "learned": learned, "failed": failed, "misses": misses}))
"""


def test_a_policy_of_another_package_is_kept_and_its_edits_are_seen(tmp_path):
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    (source / "foreign.py").write_text(FOREIGN, encoding="utf-8")
    (source / "foreign_maths.py").write_text(MATHS.format(1), encoding="utf-8")

    def use():
        return json.loads(python(USE, source, ADAPRIVATE_CACHE=str(cache)).stdout)

    first = use()
    assert (first["action"], first["other"], first["learned"]) == (4, 0, 2.0)
    assert "positive definite" in first["failed"]
    assert first["misses"] == {"choose": 2, "learn": 1, "root_of": 1}
    assert use() == first | {"misses": {"choose": 0, "learn": 0, "root_of": 0}}

    (source / "foreign_maths.py").write_text(MATHS.format(2), encoding="utf-8")
    assert use() == first | {"action": 3, "misses": {"choose": 1, "learn": 0, "root_of": 0}}

    # a step that compiled code calls by name is gone, or damaged, while its caller is still there
    for damage in (lambda file: file.unlink(), lambda file: file.write_bytes(b"?")):
        (file,) = cache.rglob("root_of-*.nbc")
        damage(file)
        assert use() == first | {"action": 3, "misses": {"choose": 0, "learn": 0, "root_of": 1}}

    (source / "foreign.py").write_text(FOREIGN.replace("[0, 0]\n\n@selects.of(Mine)", "[0, 0] + 1.0\n\n@selects.of(Mine)"))
    assert use() == first | {"action": 3, "learned": 3.0, "misses": {"choose": 0, "learn": 1, "root_of": 1}}


class State(NamedTuple):
    x: np.ndarray


def _grow(state):
    raise TypeError


grows = Dispatch(_grow)


@routine
def doubled(x):
    for i in range(x.shape[0]):
        x[i] *= 2.0


@kernel
def double_of(state):
    doubled(state.x)


@grows.of(State)
def _grow_state(state):
    double_of(state)


@entry
def grow(state):
    _grow(state)


def test_binding_compiles_once_and_calls_nothing():
    state = State(np.ones(3))
    assert not grow.signatures
    grown = bound(grow, state)
    assert len(grow.signatures) == 1
    assert (state.x == 1).all()
    grow(state)
    grown(state)
    bound(grow, State(np.ones(2)))
    assert len(grow.signatures) == 1
    assert (state.x == 4).all()


def test_only_what_was_not_used_for_long_is_removed(tmp_path):
    now = time.time()

    def made(name, days, marker=True):
        place = tmp_path / name
        place.mkdir()
        (place / "episode-0.nbc").write_bytes(b"code")
        if marker:
            (place / "used").touch()
            os.utime(place / "used", (now - 86400 * days,) * 2)
        os.utime(place, (now - 86400 * days,) * 2)

    for name, days in {"0" * 16: 1, "1" * 16: 29, "2" * 16: 31, "3" * 16 + ".old-" + "0" * 32: 0}.items():
        made(name, days)
    made("4" * 16, 400, marker=False)
    made("notes", 400)
    made("5" * 17, 400)
    (tmp_path / ("6" * 16)).symlink_to(tmp_path / "notes")
    (tmp_path / ("7" * 16)).write_text("a file", encoding="utf-8")
    os.utime(tmp_path / ("7" * 16), (0, 0))
    rest = {"notes", "5" * 17, "6" * 16, "7" * 16}
    code_cache.remove_unused(tmp_path, now=now)
    assert {path.name for path in tmp_path.iterdir()} == {"0" * 16, "1" * 16} | rest
    assert (tmp_path / "notes" / "episode-0.nbc").exists()
    code_cache.remove_unused(tmp_path, now=now, most=1)
    assert {path.name for path in tmp_path.iterdir()} == {"0" * 16} | rest
    code_cache.remove_unused(tmp_path / "nowhere", now=now)


def test_a_new_folder_is_the_occasion_and_use_is_marked(tmp_path):
    old, cache = tmp_path / "adaprivate" / ("0" * 16), tmp_path
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    code = """
        import numpy as np
        import foreign_maths
        foreign_maths.use(np.zeros((3, 2)))
    """
    maths = MATHS.format(1) + "\nfrom adaprivate.compiled import entry\n\n@entry\ndef use(x):\n    return last(x)\n"
    (tmp_path / "foreign_maths.py").write_text(maths, encoding="utf-8")
    python(textwrap.dedent(code), tmp_path, ADAPRIVATE_CACHE=str(cache))
    assert not old.exists()
    (place,) = (tmp_path / "adaprivate").iterdir()
    os.utime(place / "used", (0, 0))
    python(textwrap.dedent(code), tmp_path, ADAPRIVATE_CACHE=str(cache))
    assert time.time() - (place / "used").stat().st_mtime < 3600


SAY = """
import time
import numba
import numba.extending
import threading
from adaprivate import compiled
from adaprivate.compiled import entry

def in_the_background(function):
    threading.Thread(target=function, args=(1,), daemon=True).start()

def slow(x):
    pass

@numba.extending.overload(slow)
def _(x):
    time.sleep({})
    return lambda x: x + 1

@{}
def use(x):
    return slow(x)

@entry
def again(x):
    return slow(x)

{}
"""


@pytest.mark.parametrize(
    ("seconds", "decorator", "call", "said"),
    [
        (1.5, "entry", "use(1); again(2)", 1),
        (1.5, "entry", "compiled._announcer._patience = 60.0; use(1)", 0),
        (0.7, "entry", "use(1); again(2.5)", 1),  # a second in all
        (1.5, "numba.njit", "use(1)", 0),  # somebody else's code
        (1.5, "entry", "import sys; sys.stderr = None; use(1)", 0),
        (30.0, "entry", "compiled._announcer._patience = 9.0; in_the_background(use); time.sleep(0.5)", 0),
    ],
)
def test_compiling_is_said_once_after_a_second(tmp_path, seconds, decorator, call, said):
    file = tmp_path / "said.py"
    file.write_text(SAY.format(seconds, decorator, call), encoding="utf-8")
    done = python("import said", tmp_path, ADAPRIVATE_CACHE=str(tmp_path))
    assert done.stdout == ""
    assert done.stderr == "compiling (once; later runs start at once) ...\n" * said
