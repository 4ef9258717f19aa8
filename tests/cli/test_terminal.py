"""What a person at a terminal sees: everything else here writes to a pipe, where no progress is shown."""

import os
import pty
import re
import subprocess
import sys

import pytest

from adaprivate.cli.terminal import progress

SIMULATE = ["simulate", "--policy", "random", "--policy", "filtered-thompson", "--environment", "bernoulli-arms"]
PLAN = ["plan", "--dimension", "3", "--candidates", "3", "--rounds", "300", "--epsilon", "1", "--simulate", "--seeds", "2"]


def at_a_terminal(arguments, **environment):
    """The exit code, and what was written to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "adaprivate", *arguments]
    inherited = {name: value for name, value in os.environ.items() if name != "ADAPRIVATE_QUIET"}  # other tests' --quiet
    surroundings = {**inherited, "TERM": "xterm", "COLUMNS": "80", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings) as running:
        os.close(theirs)
        parts = []
        while True:
            try:
                parts.append(os.read(ours, 65536))
            except OSError:  # as Linux says that nobody has it open any more
                break
            if not parts[-1]:
                break
    os.close(ours)
    return running.returncode, b"".join(parts).decode()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([*SIMULATE, "--rounds", "3000", "--seeds", "2", "--option", "eta=1", "--option", "arms=3"], "filtered-thompson"),
        (PLAN, "Rewards are predicted"),
    ],
    ids=["simulate", "plan"],
)
def test_progress_is_shown_and_results_too(arguments, shown):
    code, text = at_a_terminal(arguments)
    assert code == 0, text
    assert "Traceback" not in text
    assert re.search(r"[\d,]+ rounds/s|simulating", text)
    assert shown in text


@pytest.mark.parametrize("unit", ["rounds", "settings"])
def test_a_bar_before_and_after_its_speed_is_known(monkeypatch, capfd, unit):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("ADAPRIVATE_QUIET", raising=False)
    with progress(10, "counting", unit=unit, silent=False) as advance:
        for _ in range(10):
            advance(1)
    written = capfd.readouterr().err
    assert "counting" in written
    assert "10/10" in written


def test_an_epsilon_that_options_say_another_way_is_in_the_table():
    code, text = at_a_terminal([*SIMULATE, "--rounds", "300", "--seeds", "2", "--option", "eta=1"], ADAPRIVATE_QUIET="1")
    assert code == 0
    assert "4.377" in text  # eta = 1 at delta 1e-5
