"""Other people's packages: what they add is found by name, and what is wrong with them stays theirs."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import adaprivate
from adaprivate import environments, experiments, mechanisms, policies, registry
from adaprivate.check import InputError
from adaprivate.mechanisms import PrefixSum
from adaprivate.registry import Registry

TEMPLATE = Path(__file__).parents[1] / "examples" / "adaprivate-example"

STRATEGY = '''"""Independent noise by another name."""
from adaprivate.mechanisms import PrefixSum, strategies

class Plain(strategies()["independent"]):
    """C = I, written in a package of its own."""
    name = "plain"

EXAMPLES = (lambda noise: PrefixSum(Plain(steps=6), dimension=3, noise_multiplier=1.5, noise=noise),)
'''
EXPERIMENT = '''"""Two times two, recomputed."""
from adaprivate.experiments import Cell
SOURCE = "Euclid, Book VII"
PAPER = {("two", "twice"): 4.0}
SETTINGS = [{"number": 2}]

def run(setting, seeds):
    return {"value": 2.0 * setting["number"]}

def compare(rows):
    return [Cell("two", "twice", 4.0, row["value"], None, "agrees") for row in rows]
'''
SEVERAL = '''"""Two tables of one paper."""
from adaprivate.experiments import Cell

class Sum:
    """Is one and one two?

    It is.
    """
    NAME = "their-table-1"
    SOURCE = "Euclid, Book VII"
    SETTINGS = [{"number": 1}]
    PAPER = {("one", "doubled"): 2.0}
    def run(self, setting, seeds):
        return {"value": 2.0 * setting["number"]}
    def compare(self, rows):
        return [Cell(*key, self.PAPER[key], row["value"], None, "agrees") for row in rows for key in self.PAPER]

class Product(Sum):
    """Are two and two four?"""
    NAME = "their-table-2"
    SETTINGS = [{"number": 2}]
    PAPER = {("two", "doubled"): 4.0}

EXPERIMENTS = (Sum, Product)
'''
POLICY = '''"""Thompson sampling by another name."""
from adaprivate import policies

class Settings(policies.settings_class("lints")):
    """The same, written in a package of its own."""
    name = "NAME"

EXAMPLES = (Settings(dimension=4, rounds=60),)
'''
BOTH = '''"""A policy and a mechanism, of a module that looks around while it is imported."""
from adaprivate import mechanisms, policies

class Settings(policies.settings_class("lints")):
    name = "asks"

class Plain(mechanisms.strategies()["independent"]):
    name = "plain"

def build(noise):
    return mechanisms.PrefixSum(Plain(steps=6), dimension=3, noise_multiplier=1.5, noise=noise)

assert "plain" not in mechanisms.strategies() and "asks" not in policies.names()
EXAMPLES = (Settings(dimension=4, rounds=60), build)
'''


def installed(folder, name, groups, files=None):
    """What pip leaves behind: modules on the path, and metadata with entry points; returns the folder."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{label} = {value}" for label, value in points.items()), ""]
    (about / "entry_points.txt").write_text("\n".join(lines))
    for path, text in (files or {}).items():
        (folder / path).write_text(text)
    return folder


def run(folder, *arguments):
    """A fresh process that finds this folder; what it compiles stays there."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "ADAPRIVATE_CACHE": str(folder / "cache")},
    )


def document(folder, *arguments):
    done = run(folder, "-m", "adaprivate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert arguments[0] != "list" or done.stderr == ""
    return json.loads(done.stdout)


def refusal(folder, *arguments):
    done = run(folder, "-m", "adaprivate", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def listed(folder, kind):
    return {entry["name"]: entry for entry in document(folder, "list", kind)[kind]}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The template project as pip would install it, by its own pyproject.toml."""
    folder = tmp_path_factory.mktemp("template")
    shutil.copytree(TEMPLATE / "src" / "adaprivate_example", folder / "adaprivate_example")
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return installed(folder, "adaprivate_example", project["entry-points"])


def test_the_template_is_listed_beside_what_adaprivate_has(template):
    found = listed(template, "policies")
    assert set(found) == {*policies.names(), "epsilon-greedy", "batch-greedy"}
    assert found["epsilon-greedy"]["summary"].startswith("The arm with the largest released mean")
    assert found["epsilon-greedy"]["about"].startswith("Epsilon-greedy on arms")
    assert set(listed(template, "environments")) == {*environments.names(), "lucky-arm"}


def test_the_template_is_simulated_by_its_names(template):
    options = ("--option", "explore=0.05", "--option", "arms=3", "--rounds", "3000", "--seeds", "4", "--epsilon", "2")
    rows = document(template, "simulate", "--policy", "epsilon-greedy", "--environment", "lucky-arm", *options)["rows"]
    assert [(row["policy"], row["environment"], row["explore"]) for row in rows] == [("epsilon-greedy", "lucky-arm", 0.05)]
    assert 0.5 < rows[0]["learned_share"] <= 1
    assert "epsilon = 2" in rows[0]["guarantee"]


def test_the_template_passes_its_own_tests(template):
    done = run(template, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEMPLATE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_mechanisms_and_experiments_of_other_packages(tmp_path):
    groups = {"adaprivate.mechanisms": {"plain": "their_plain"}, "adaprivate.experiments": {"ignored": "their_sum"}}
    installed(tmp_path, "theirs", groups, {"their_plain.py": STRATEGY, "their_sum.py": EXPERIMENT})
    assert listed(tmp_path, "mechanisms")["plain"]["summary"] == "C = I, written in a package of its own."
    assert listed(tmp_path, "experiments")["their-sum"]["source"] == "Euclid, Book VII"
    budget = ("calibrate", "--epsilon", "1", "--delta", "1e-5", "--batches", "5", "--noise")
    assert document(tmp_path, *budget, "plain")["sigma"] == document(tmp_path, *budget, "independent")["sigma"]
    cells = document(tmp_path, "reproduce", "their-sum", "--out", str(tmp_path / "out"))["cells"]
    assert [(cell["ours"], cell["verdict"]) for cell in cells] == [(4.0, "agrees")]


@pytest.mark.usefixtures("_forgotten")
def test_a_module_can_hold_several_experiments():
    several = ModuleType("several", "Two tables of one paper.")
    exec(SEVERAL, several.__dict__)
    adaprivate.register(several)
    for name, value in (("their-table-1", 2.0), ("their-table-2", 4.0)):
        found = experiments.experiment(name)
        (cell,) = found.compare([found.run(setting, 1) for setting in found.settings])
        assert (cell.paper, cell.ours) == (value, value)
        assert list(found.paper.values()) == [value]
    assert experiments.experiment("their-table-1").about == "Is one and one two?\n\nIt is."
    assert experiments.experiment("their-table-2").question == "Are two and two four?"
    assert experiments.module("their-table-2") is several


ASK = """
import adaprivate as ap
import adaprivate.check
for kind, name in (("policies", "syntax"), ("policies", "nothing"), ("environments", "no-module"), ("policies", "unknown")):
    try:
        print(ap.policies.settings_class(name) if kind == "policies" else ap.environments.environment(name))
    except ap.check.InputError as error:
        print(error)
"""


def test_a_broken_entry_point_is_reported_when_it_is_asked_for(tmp_path):
    theirs = {"import": "their_import", "syntax": "their_syntax", "nothing": "their_nothing", "fine": "their_fine"}
    files = {
        "their_import.py": "import no_such_module_anywhere",
        "their_syntax.py": "EXAMPLES = (",
        "their_nothing.py": "EXAMPLES = (3,)",
        "their_fine.py": POLICY.replace("NAME", "their-lints"),
    }
    groups = {"adaprivate.policies": theirs, "adaprivate.environments": {"no-module": "their_nothing:EXAMPLES"}}
    installed(tmp_path, "theirs", groups, files)
    assert set(listed(tmp_path, "policies")) == {*policies.names(), "their-lints"}
    assert set(listed(tmp_path, "environments")) == set(environments.names())
    missing = "to load, but their_import raised ModuleNotFoundError: No module named 'no_such_module_anywhere'"
    assert refusal(tmp_path, "simulate", "--policy", "import") == f"adaprivate: Expected policy='import' {missing}.\n"
    done = run(tmp_path, "-c", ASK)
    assert done.returncode == 0, done.stderr
    syntax, nothing, no_module, unknown = done.stdout.splitlines()
    assert syntax.startswith("Expected policy='syntax' to load, but their_syntax raised SyntaxError: ")
    reason = "to load, but their_nothing raised InputError: Expected module='their_nothing' to offer policies"
    assert nothing == f"Expected policy='nothing' {reason}."
    reason = "to load, but their_nothing:EXAMPLES raised InputError: Expected entry point=(3,) to be a module"
    assert no_module == f"Expected environment='no-module' {reason}."
    assert unknown.startswith("Expected policy='unknown' in {")
    assert f"}}, or import {missing}, or nothing to load, but their_nothing raised " in unknown


def test_a_name_that_two_packages_claim_is_refused_and_leaves_the_others(tmp_path):
    points = {"one": "their_one", "two": "their_two", "three": "their_three"}
    claims = {"their_one.py": "random", "their_two.py": "same", "their_three.py": "same"}
    files = {path: POLICY.replace("NAME", name) for path, name in claims.items()}
    installed(tmp_path, "theirs", {"adaprivate.policies": points}, files)
    assert set(listed(tmp_path, "policies")) == {*policies.names()} - {"random"}
    message = "adaprivate: Expected policy={!r} to be the name of one thing, not of those in {} and {}.\n"
    ours = "adaprivate.policies.linear.baselines"
    assert refusal(tmp_path, "simulate", "--policy", "random") == message.format("random", ours, "their_one")
    assert refusal(tmp_path, "simulate", "--policy", "same") == message.format("same", "their_three", "their_two")
    done = run(tmp_path, "-c", "import adaprivate as ap; print(ap.policies.settings_class('linucb').name)")
    assert done.stdout == "linucb\n"


def test_a_module_may_ask_for_strategies_while_it_is_imported(tmp_path):
    groups = {"adaprivate.policies": {"asks": "their_both"}, "adaprivate.mechanisms": {"plain": "their_both"}}
    installed(tmp_path, "theirs", groups, {"their_both.py": BOTH})
    done = run(tmp_path, "-c", "import adaprivate as ap; print(ap.policies.names(), sorted(ap.mechanisms.strategies()))")
    assert done.returncode == 0, done.stderr
    assert "'asks'" in done.stdout
    assert "'plain'" in done.stdout


# --- registered at run time, in this process --------------------------------------------------------------------------


@pytest.fixture
def _forgotten(monkeypatch):
    """What a test registers is forgotten after it."""
    for package in (policies, environments, mechanisms, experiments):
        monkeypatch.setattr(package._registry, "_given", {})
        monkeypatch.setattr(package._registry, "_table", package._registry._table)


def renamed(kind, name, of):
    base = policies.settings_class(of) if kind == "policies" else type(environments.environment(of))
    return type("Mine", (base,), {"name": name, "__doc__": "Mine."})


def module(name, *examples, about="About mine."):
    made = ModuleType(name, about)
    made.EXAMPLES = examples
    return made


def a_policy(name):
    return renamed("policies", name, "random")(dimension=3, rounds=20)


@pytest.mark.usefixtures("_forgotten")
def test_what_is_registered_is_seen_at_once_and_twice_is_harmless():
    before, places = policies.names(), environments.names()
    assert "mine" not in before
    mine = module("my_package.mine", a_policy("mine"), renamed("environments", "my-world", "needle")())
    for _ in range(2):
        adaprivate.register(mine)
        assert policies.names() == sorted([*before, "mine"])
        assert environments.names() == sorted([*places, "my-world"])
    assert policies.settings("mine", {"dimension": 2, "rounds": 9}) == type(mine.EXAMPLES[0])(dimension=2, rounds=9)
    assert policies.describe("mine") == ("Mine.", "About mine.")
    rows = adaprivate.simulate(["mine"], "my-world", rounds=50, seeds=2).to_dicts()
    assert [(row["policy"], row["environment"]) for row in rows] == [("mine", "my-world")]


@pytest.mark.usefixtures("_forgotten")
def test_a_module_that_changed_is_looked_at_afresh():
    mine = module("mine", a_policy("mine"))
    adaprivate.register(mine)
    mine.EXAMPLES = (a_policy("renamed"),)
    adaprivate.register(mine)
    assert "renamed" in policies.names()
    assert "mine" not in policies.names()


@pytest.mark.usefixtures("_forgotten")
def test_registered_by_its_dotted_name(tmp_path, monkeypatch):
    (tmp_path / "registered_by_name.py").write_text(STRATEGY + EXPERIMENT.partition("\n")[2], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    adaprivate.register("registered_by_name")
    assert mechanisms.strategy("plain", 3).matrix().tolist() == mechanisms.strategy("independent", 3).matrix().tolist()
    assert isinstance(next(e for e in mechanisms.examples() if e.name == "plain").build(mechanisms.Simulated(1)), PrefixSum)
    options = {"dimension": 3, "rounds": 40, "batch_size": 10}
    ours, theirs = (policies.settings("adaprivate-ts", {**options, "noise": noise}) for noise in ("independent", "plain"))
    assert ours.guarantee() == theirs.guarantee()
    found = experiments.experiment("registered-by-name")
    assert found.compare([found.run(found.settings[0], 1)])[0].ours == 4.0


@pytest.mark.usefixtures("_forgotten")
def test_a_name_that_exists_is_refused_and_nothing_is_added():
    home = policies._registry.module("linucb").__name__
    before = policies.names(), environments.names()
    clash = module("mine", a_policy("fresh"), a_policy("linucb"), renamed("environments", "fresh-world", "needle")())
    message = rf"^Expected policy='linucb' to be the name of one thing, not of those in {home} and mine\.$"
    with pytest.raises(InputError, match=message):
        adaprivate.register(clash)
    clash = module("mine", a_policy("fresh"), renamed("environments", "needle", "needle")())
    with pytest.raises(
        InputError, match=r"^Expected environment='needle' to be .* adaprivate\.environments\.adversarial and mine"
    ):
        adaprivate.register(clash)
    assert (policies.names(), environments.names()) == before
    adaprivate.register(clash, kind="policies")
    assert (policies.names(), environments.names()) == (sorted([*before[0], "fresh"]), before[1])
    with pytest.raises(InputError, match=r"^Expected policy='fresh' to be .* in mine and other\.$"):
        adaprivate.register(module("other", a_policy("fresh")))


@pytest.mark.usefixtures("_forgotten")
def test_a_module_that_offers_nothing_is_refused():
    kinds = "policies or environments or mechanisms or experiments or laws or units"
    for empty in (module("mine"), module("mine", 3, "random", type("Half", (), {"name": "half", "world": None})())):
        with pytest.raises(InputError, match=rf"^Expected module='mine' to offer {kinds}, by EXAMPLES"):
            adaprivate.register(empty)
    with pytest.raises(InputError, match=r"^Expected module='mine' to offer environments\.$"):
        adaprivate.register(module("mine", a_policy("mine")), kind="environments")
    with pytest.raises(InputError, match=r"^Expected kind='colours' in \{policies, environments, mechanisms, experiments"):
        adaprivate.register(module("mine", a_policy("mine")), kind="colours")
    with pytest.raises(InputError, match=r"^Expected module=3 to be a module or str\.$"):
        adaprivate.register(3)
    assert "mine" not in policies.names()


def test_an_unknown_name_is_refused_with_those_that_are_known():
    known = ", ".join(environments.names())
    with pytest.raises(InputError) as error:
        environments.environment("nowhere")
    assert str(error.value) == f"Expected environment='nowhere' in {{{known}}}."
    for odd in (None, 3, ["random"]):
        with pytest.raises(InputError, match=r"^Expected policy=.* in \{"):
            policies.settings_class(odd)


def test_a_registry_of_any_kind_lists_what_its_package_and_entry_points_offer(tmp_path, monkeypatch):
    """As laws and units will: a package of files, and the entry points of the kind's group."""
    (tmp_path / "our_laws").mkdir()
    for path, text in {"__init__": "", "second": "LAW = 2", "first": "LAW = 1", "none": ""}.items():
        (tmp_path / "our_laws" / f"{path}.py").write_text(text)
    installed(tmp_path, "theirs", {"adaprivate.laws": {"third": "their_law"}}, {"their_law.py": "LAW = 3"})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_registries", dict(registry._registries))

    def offers(module):
        return {registry.file_name(module.__name__): module.LAW} if hasattr(module, "LAW") else {}

    laws = Registry("laws", "our_laws", offers)
    assert laws.names() == ["first", "second", "their-law"]
    assert laws.values() == [1, 2, 3]
    assert laws.refused() == {}
    mine = ModuleType("mine")
    mine.LAW = 4
    adaprivate.register(mine)
    assert laws.find("mine") == 4
    assert laws.module("mine") is mine


def test_a_package_that_was_edited_or_removed_leaves_no_stale_code(template, tmp_path):
    """Compiled code of other packages is kept by their text, and reading it needs none of them."""
    folder = tmp_path / "theirs"
    shutil.copytree(template, folder, ignore=shutil.ignore_patterns("cache"))
    short = ("--rounds", "500", "--seeds", "2")
    theirs = ("simulate", "--policy", "epsilon-greedy", "--environment", "lucky-arm", *short)
    before = document(folder, *theirs)["rows"][0]["regret_mean"]
    file = folder / "adaprivate_example" / "epsilon_greedy.py"
    text = file.read_text(encoding="utf-8")
    assert text.count("state.means[arm] > state.means[best]") == 1
    file.write_text(text.replace("state.means[arm] > ", "state.means[arm] < "), encoding="utf-8")
    assert document(folder, *theirs)["rows"][0]["regret_mean"] > before
    shutil.rmtree(folder / "adaprivate_example")
    shutil.rmtree(folder / "adaprivate_example-1.0.dist-info")
    assert document(folder, "simulate", "--policy", "random", "--environment", "bernoulli-arms", *short)["rows"]


SAME_NAME = '''"""Always the FIRST arm or always the last, with a state called as another package's."""
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.policies.core.settings import PolicySettings

class State(NamedTuple):
    pulls: np.ndarray

@selects.of(State)
def _select(state, candidates, rng):
    return PLACE

@updates.of(State)
def _update(state, features, reward, rng):
    state.pulls[0] += STEP

@dataclass(frozen=True, kw_only=True)
class Settings(PolicySettings):
    """Chooses one place."""
    name = "NAME"
    plan = None

    def noise_tables(self, seeds):
        return np.zeros((len(seeds), 1))

    def start(self, noise):
        return State(np.zeros(1))

    def guarantee(self, exact_noise=False):
        return None

EXAMPLES = (Settings(dimension=3, rounds=20),)
'''
CHOOSE_BOTH = """
import sys
import numpy as np
import adaprivate
for name in sys.argv[1:]:
    policy = adaprivate.policy(name, dimension=3, rounds=20, seed=0)
    chosen = set()
    for _ in range(4):
        decision = policy.decide(np.eye(3))
        chosen.add(decision.action)
        policy.learn(decision, 1.0)
    policy.advance()
    print(name, sorted(chosen), policy.state.pulls.tolist(), type(policy.state).__qualname__)
"""


@pytest.mark.parametrize("order", [("theirs-first", "theirs-last"), ("theirs-last", "theirs-first")])
def test_states_of_one_name_in_two_packages_are_not_mixed_up(order, tmp_path):
    """Compiled in one process, and again from the cache, in either order."""
    ways = {"theirs-first": ("their_first", "0", "1"), "theirs-last": ("their_last", "candidates.shape[0] - 1", "10")}
    for name, (module, place, step) in ways.items():
        text = SAME_NAME.replace("PLACE", place).replace("STEP", step).replace("NAME", name)
        installed(tmp_path, module, {"adaprivate.policies": {name: module}}, {f"{module}.py": text})
    expected = {"theirs-first": "theirs-first [0] [4.0] State", "theirs-last": "theirs-last [2] [40.0] State"}
    for names in (order, order[::-1], order[:1]):
        done = run(tmp_path, "-c", CHOOSE_BOTH, *names)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [expected[name] for name in names]


def test_the_names_of_policies_are_read_without_importing_any():
    """Read in their sources, they are what their modules offer, each in the module that it is offered by."""
    read = {
        name: offer.module
        for name, offer in Registry("policies", "adaprivate.policies", dict, by_text=True)._all().found.items()
    }
    offered = {name: policies._registry.module(name).__name__ for name in policies.names()}
    imported = Registry("policies", "adaprivate.policies", policies._offers)
    registry._registries["policies"] = policies._registry
    assert read == {name: offer.module for name, offer in imported._all().found.items()} == offered


@pytest.mark.parametrize(("name", "room"), [("linucb", "linear"), ("noise-aware", "noise_aware")])
def test_a_policy_by_name_imports_its_own_room(name, room):
    code = f"""if True:
        import sys
        import adaprivate as ap
        ap.policy({name!r}, rounds=50, seed=0)
        rooms = [module.split(".")[2:] for module in sys.modules if module.startswith("adaprivate.policies.")]
        print(*{{room for room, *files in rooms if files}})
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"core", room}


def test_names_are_imported_where_no_source_is_installed(monkeypatch):
    monkeypatch.setattr(registry, "_source", lambda info: None)
    found = Registry("policies", "adaprivate.policies", policies._offers, by_text=True)
    registry._registries["policies"] = policies._registry
    assert found.names() == policies.names()
