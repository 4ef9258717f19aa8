"""Every command and every piece of Python in the README and the guide runs, and the output they show is the real one."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/guide.md")}
TEXT = "\n".join(PAGES.values())
SERVICE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]
PYTHON = re.findall(r"```python\n(.*?)```", TEXT + SERVICE, re.DOTALL)


def test_the_readme_has_commands_and_python():
    assert len(COMMANDS) >= 6
    assert PYTHON


@pytest.mark.parametrize("command", [c for c in COMMANDS if "adaprivate " in c and "git" not in c])
def test_command(command, tmp_path):
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/adaprivate"
    done = subprocess.run(
        [sys.executable, "-m", "adaprivate", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_make_demo_in_this_checkout():
    """The fresh clone is tested by .ci/run; here the commands behind the target."""
    listing = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = [line for line in listing.splitlines() if "bin/adaprivate" in line]
    assert commands
    for command in commands:
        _, *arguments = shlex.split(command)
        subprocess.run(
            [sys.executable, "-m", "adaprivate", *arguments], cwd=ROOT, capture_output=True, timeout=600, check=True
        )
    assert (ROOT / "demo" / "index.html").exists()


@pytest.fixture
def service(tmp_path):
    """The decision service on a free port, as `adaprivate serve` starts it."""
    command = [sys.executable, "-m", "adaprivate", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


@pytest.mark.parametrize("code", [code for code in PYTHON if "adaprivate.client" in code])
def test_python_of_the_client(code, service, tmp_path):
    for _ in range(2):  # pasted twice it runs twice
        done = subprocess.run(
            [sys.executable, "-c", code.replace("http://127.0.0.1:8000", service)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "protects the value of any one reward" in done.stdout


@pytest.mark.parametrize("code", [code for code in PYTHON if "adaprivate.client" not in code])
def test_python(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr  # nor does it warn
    if "of the last 500 rounds" in code:  # it learns: a third is chance
        assert int(re.search(r"(\d+)% of the last", done.stdout)[1]) > 60
    said = done.stdout.replace("protects", "protect")
    if "guarantee" in code:
        whom = "all rewards of any one person" if '"user"' in code else "the value of any one reward"
        assert f"protect {whom}" in said
    else:  # then it shows a decision and how likely that was
        action, propensity = said.split()
        assert action in ("0", "1")
        assert 0 < float(propensity) < 1


def test_a_guarantee_is_printed_somewhere():
    assert any("guarantee" in code for code in PYTHON)


def test_shown_output_is_current():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "refresh.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_links_and_pictures_exist():
    for page, text in PAGES.items():
        for target in re.findall(r"""(?:\]\(|src="|href=")((?!http)[^)"#]+)""", text):
            assert (ROOT / page).parent.joinpath(target).exists(), target
