"""Recorded data for tests: the folder that ADAPRIVATE_DATA names, or small made sets where it names none.

Tests run on every core already: here, in workers and in processes that tests start, linear algebra keeps to one thread.
"""

import os
import shutil
import tempfile
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read once, when NumPy is first imported

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from tests import programs  # noqa: E402

_made: list[Path] = []


def made_jester(folder, complete=60, others=90, jokes=100):
    """The matrix of Jester's .csv: people who rated every joke, and people who rated some."""
    rng = np.random.default_rng(1)
    people = complete + others
    taste = rng.standard_normal((people, 4)) + np.array([1.5, 0, 0, 0])
    scores = taste @ rng.standard_normal((4, jokes)) * 2 + rng.standard_normal((people, jokes))
    ratings = np.round(np.clip(scores, -10, 10), 2)
    missing = rng.random((people, jokes)) < 0.4
    missing[:complete] = False
    missing[complete:, 0] = True
    ratings[missing] = 99
    folder.mkdir(parents=True)
    lines = [",".join([str((row != 99).sum()), *(f"{value:g}" for value in row)]) for row in ratings]
    (folder / "jester-data-1.csv").write_text("\n".join(lines) + "\n")


def made_movielens(folder, people=160, films=260):
    """ratings.dat: one to five stars, an id for every person and film with gaps between."""
    rng = np.random.default_rng(2)
    taste = rng.standard_normal((people, 4)) + np.array([1.5, 0, 0, 0])
    scores = 3.4 + taste @ rng.standard_normal((4, films)) * 0.6 + 0.4 * rng.standard_normal((people, films))
    stars = np.clip(np.round(scores), 1, 5).astype(int)
    rated = rng.random((people, films)) < 0.5
    folder.mkdir(parents=True)
    lines = [f"{2 * u + 1}::{3 * i + 2}::{stars[u, i]}::{978300000 + u}" for u, i in zip(*np.nonzero(rated), strict=True)]
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")


def made_table(folder, rows=400):
    """X and y: three classes around three points."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, rows)
    folder.mkdir(parents=True)
    np.savez(folder / "data.npz", X=rng.standard_normal((rows, 4)) + np.eye(3, 4)[y] * 3, y=y)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Tests that lack the same program are told of in one line: pytest joins skips of one place and reason."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, programs.Absent):
        report.longrepr = (programs.__file__, 1, f"Skipped: {call.excinfo.value}")
    return report


def pytest_configure(config):
    if not os.environ.get("ADAPRIVATE_DATA"):
        base = Path(tempfile.mkdtemp(prefix="adaprivate-made-data-"))
        _made.append(base)
        made_jester(base / "jester")
        made_movielens(base / "movielens")
        made_table(base / "classification")
        os.environ["ADAPRIVATE_DATA"] = str(base)


def pytest_unconfigure(config):
    for base in _made:
        os.environ.pop("ADAPRIVATE_DATA", None)
        shutil.rmtree(base, ignore_errors=True)


def pytest_report_header(config):
    return f"recorded data: {'small sets made for these tests' if _made else os.environ['ADAPRIVATE_DATA']}"
