"""docs/logs.md, from its first line to its last: the log it makes, every command, and the Python that does the same.

Where the Open Bandit sample is not at hand a made one of the same columns stands in.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|bash|json)\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [line for kind, block in BLOCKS if kind == "bash" for line in block.splitlines()]
PYTHON = [block for kind, block in BLOCKS if kind == "python"]


def made_open_bandit(folder, n=1_500):
    rng = np.random.default_rng(0)
    table = {
        "timestamp": [f"2019-11-24 00:{k // 60:02d}:{k % 60:02d}.5+00:00" for k in range(n)],
        "item_id": rng.integers(8, size=n),
        "position": rng.integers(1, 4, size=n),
        "click": (rng.random(n) < 0.01).astype(int),
        "propensity_score": np.full(n, 1 / 8),
    }
    table |= {f"user_feature_{k}": rng.choice([f"{k}a", f"{k}b", f"{k}c"], n) for k in range(2)}
    items = {"item_id": np.arange(8), "item_feature_0": rng.standard_normal(8), "item_feature_1": list("aabbccdd")}
    folder.mkdir()
    pl.DataFrame(table).write_parquet(folder / "random_all.parquet")
    pl.DataFrame(items).write_parquet(folder / "item_context_all.parquet")


def run(*command, folder, data=None):
    environment = {**os.environ, **({"ADAPRIVATE_DATA": str(data)} if data else {})}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the first piece of Python was run, and the featuriser was saved."""
    place = tmp_path_factory.mktemp("tutorial")
    run("-c", PYTHON[0], folder=place)
    (description,) = (block for kind, block in BLOCKS if kind == "json")
    (place / "features.json").write_text(description)
    return place


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{n}" for n in range(len(COMMANDS))])
def test_command(command, folder, tmp_path):
    data = Path(os.environ.get("ADAPRIVATE_DATA", tmp_path))
    if not (data / "obd-small").exists():
        data = tmp_path
        made_open_bandit(data / "obd-small")
    program, *arguments = shlex.split(command.replace("$ADAPRIVATE_DATA", str(data)))
    assert program == "adaprivate"
    if "obd-small" in command:  # 80 candidates of 224 features: one run of each policy is enough here
        arguments += ["--seeds", "1"]
    said = run("-m", "adaprivate", *arguments, folder=folder, data=data)
    if "check" in arguments:
        assert "No faults." in said
    if "describe" in arguments:
        assert json.loads(said)["items"]["kind"] == "columns"
    if "evaluate" in arguments:
        assert "as logged" in said


def test_python_gives_the_table(folder):
    said = run("-c", PYTHON[1], folder=folder)
    assert "6,000 decisions by" in said
    values = json.loads(said.splitlines()[-1].partition("]")[0] + "]")
    assert len(values) == 3
    assert values[2] > values[0]  # noise-aware against random play


def test_there_is_a_command_for_every_step():
    assert len(COMMANDS) == 5
    assert len(PYTHON) == 2
