"""A machine with Python and make alone: what needs more is skipped in one line, or is an error where it is required."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDY = (
    "tests/service/test_browser_client.py::test_the_threshold_is_exact",
    "tests/service/test_page.py::test_hostile_names_are_shown_as_text",
    "tests/test_benchmarks.py::test_what_was_measured_on_other_code_is_said",
)
BROWSER_LINE = "browser tests skipped: no Chromium; apt-get install chromium or set CHROMIUM"


@pytest.fixture
def on_a_bare_machine(tmp_path):
    """Runs pytest where nothing but Python and make is found."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, place in (("python", sys.executable), ("make", shutil.which("make"))):
        if place:
            (commands / name).symlink_to(place)

    def run(*tests, **more):
        bare = {
            name: text for name, text in os.environ.items() if name not in ("CHROMIUM", "REQUIRE_BROWSER", "REQUIRE_GIT")
        }
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**bare, "PATH": str(commands), "COLUMNS": "60", **more}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_what_a_bare_machine_lacks_is_skipped_in_one_line_each(on_a_bare_machine):
    done = on_a_bare_machine(*NEEDY)
    assert done.returncode == 0, done.stdout[-3000:]
    told = [line for line in done.stdout.splitlines() if "tests skipped: no" in line]
    assert len(told) == 2
    assert [line for line in told if line.endswith(BROWSER_LINE)]
    assert [line for line in told if line.endswith("git tests skipped: no git; apt-get install git")]


def test_a_program_that_is_required_is_an_error(on_a_bare_machine):
    done = on_a_bare_machine(NEEDY[1], REQUIRE_BROWSER="1", CHROMIUM="/nonexistent")
    assert done.returncode == 1
    assert f"{BROWSER_LINE} (an error, because REQUIRE_BROWSER is set)" in done.stdout


def test_ci_requires_what_a_bare_machine_may_lack():
    text = (ROOT / ".ci" / "run").read_text()
    assert "export REQUIRE_BROWSER=1 REQUIRE_GIT=1" in text.partition("\nmake test")[0]


def test_no_test_asks_for_a_program_in_another_way():
    """Programs are named in tests/programs.py alone; tests that read make's own files may ask for make."""
    asked = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("programs.py", "versions.py", "test_programs.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called, first = ast.unparse(node.func), node.args[0] if node.args else None
            by_name = (
                isinstance(first, ast.List)
                and bool(first.elts)
                and isinstance(first.elts[0], ast.Constant)
                and first.elts[0].value != "make"
            )
            if called.endswith("which") or (called.startswith("subprocess.") and by_name):
                asked.append(f"{path.name}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert asked == []
