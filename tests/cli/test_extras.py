"""A plain installation has no polars, matplotlib, service or papers: what can work does, the rest says what to install."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from adaprivate import cli, experiments, extras, registry

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WITHOUT = "import sys\nfor name in {names!r}: sys.modules[name] = None\n"
LOG = "action,reward\n0,1\n1,0\n"


def plain(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python in which no package of any extra can be imported, and no experiment."""
    script = WITHOUT.format(names=sorted([*extras.EXTRA, extras.PAPERS])) + code
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120"},
    )


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return plain("from adaprivate.cli import main; main()", *arguments, cwd=cwd)


@pytest.mark.parametrize("package", sorted(extras.EXTRA))
def test_the_extra_named_for_a_package_brings_it(package: str) -> None:
    asked = DECLARED[extras.EXTRA[package]]
    assert any(line.startswith((package + ">", package + "[")) for line in asked)


def test_a_policy_is_made_simulated_saved_and_planned_without_extras(tmp_path: Path) -> None:
    code = """
import adaprivate as ap
policy = ap.NoiseAware(dimension=2, rounds=50, source=ap.Secure())
policy.learn(policy.decide([[1.0, 0.0], [0.0, 1.0]]), True)
policy.save("policy.npz")
print(ap.load("policy.npz").guarantee)
print(ap.plan(dimension=5, candidates=3, rounds=1000, epsilon=[1.0]).rows[0]["epsilon"])
"""
    done = plain(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "epsilon" in done.stdout
    done = command("simulate", "--policy", "random", "--rounds", "50", "--seeds", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "random" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["evaluate", "log.csv", "--policy", "random"], "polars"),
        (["data", "check", "log.csv"], "polars"),
        (["demo", "--quick"], "polars"),
        (["plan", "--arms", "3", "--rounds", "100", "--epsilon", "1", "--out", "plan.svg"], "matplotlib"),
        (["serve"], "service"),
    ],
)
def test_a_command_that_needs_more_says_what_to_install_and_writes_nothing(
    arguments: list[str], package: str, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("adaprivate: Expected ")
    assert done.stderr.count("\n") == 1
    assert f"-m pip install -c constraints.txt -e '.[{extras.EXTRA.get(package, package)}]' in {ROOT}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_in_python_it_is_an_import_error_and_bad_input(tmp_path: Path) -> None:
    code = """
import adaprivate as ap
for asked in (
    lambda: ap.evaluate,
    lambda: ap.simulate(["random"], rounds=10, seeds=1),
    lambda: ap.plan(from_log="log.csv", epsilon=[1.0]),
):
    try:
        asked()
    except ImportError as error:
        assert isinstance(error, ap.InputError)
        print(error)
"""
    done = plain(code, cwd=tmp_path)
    said = f"Expected polars to be installed: {sys.executable} -m pip install -c constraints.txt -e '.[data]' in {ROOT}."
    assert done.stdout.splitlines() == [said] * 3, done.stderr


def test_a_package_of_no_extra_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), extras.needed():
        import no_such_package  # noqa: F401


def test_what_is_no_clone_is_told_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "CLONE", tmp_path)
    with pytest.raises(extras.NotInstalledError, match=r"pip install 'adaprivate\[data\]'\.$"), extras.needed():
        raise ModuleNotFoundError(name="polars")


@pytest.mark.parametrize("words", [("list", "experiments"), ("reproduce", "--list"), ("reproduce", "table1"), ("demo",)])
def test_without_the_papers_one_line_says_how_to_get_them(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, extras.PAPERS, None)
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    monkeypatch.setattr(experiments._registry, "_table", None)
    monkeypatch.setattr(sys, "argv", ["adaprivate", *words])
    monkeypatch.chdir(tmp_path)
    for clone, command in ((ROOT, f"-e papers in {ROOT}"), (tmp_path, "pip install adaprivate-papers")):
        monkeypatch.setattr(extras, "CLONE", clone)
        with pytest.raises(SystemExit, match="2"):
            cli.main()
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert said.err.startswith("adaprivate: Expected adaprivate_papers to be installed: ")
        assert said.err.endswith(f"{command}.\n")
    assert not list(tmp_path.iterdir())


def test_the_papers_are_installed_by_name_and_their_entry_points_are_their_files() -> None:
    """A module without an entry point would be found by nobody."""
    project = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["adaprivate.experiments"]
    files = sorted((ROOT / "papers" / "src" / extras.PAPERS).glob("[!_]*.py"))
    assert points == {file.stem.replace("_", "-"): f"{extras.PAPERS}.{file.stem}" for file in files}
    assert project["name"] == "adaprivate-papers"
