"""A labelled table as a bandit: each class is an arm, and only the right one earns. The table is recorded, or made.

Each round one row is drawn evenly. Candidate c has the row in block c, zeros elsewhere: every column minus its mean and
divided by its standard deviation (public constants: those of the table itself unless it is private), an intercept of 1, all
divided by the largest norm, or cut at the median norm ("clip"). The dimension is classes x (columns + 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from adaprivate import check, data
from adaprivate.check import Floats, option
from adaprivate.compiled import Streams, below
from adaprivate.data.item_features import SCALINGS, scaled
from adaprivate.environments.protocol import VISITS, PeopledWorld, draws, peopled


class ClassificationWorld(NamedTuple):
    """Rows, intercept included, and the class of each; shared by all seeds."""

    rows: Floats
    labels: npt.NDArray[np.int64]


@draws.of(ClassificationWorld)
def _draw(
    world: ClassificationWorld, round_index: int, candidates: Floats, means: Floats, rewards: Floats, rng: Streams
) -> None:
    row = below(rng, 0, world.rows.shape[0])
    width = world.rows.shape[1]
    for a in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            candidates[a, j] = 0.0
        for j in range(width):
            candidates[a, a * width + j] = world.rows[row, j]
        means[a] = 1.0 if world.labels[row] == a else 0.0
        rewards[a] = means[a]


def table_world(table: Floats, labels: npt.NDArray[np.int64], scaling: str) -> ClassificationWorld:
    """The world of these rows and classes, counted from 0."""
    spread = table.std(axis=0)
    rows = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    whole = scaled(np.hstack([rows, np.ones((len(rows), 1))]), scaling)
    return ClassificationWorld(np.ascontiguousarray(whole), labels)


@lru_cache(maxsize=4)
def _prepared(path: str, label: str | None, scaling: str) -> tuple[ClassificationWorld, int]:
    found = data.labelled(path, label=label)
    return table_world(found.rows, found.label, scaling), len(found.classes)


@dataclass(frozen=True)
class Classification:
    """Any labelled table: a row comes, each class is a candidate, reward 1 for the right class.

    data: an .npz with X and y, or a CSV or parquet file with a column of labels (named label, class, target or y, or by
    ``label``); by default the folder covtype in ADAPRIVATE_DATA. "sklearn:digits" (or wine, breast_cancer, iris) is a table
    that scikit-learn brings along, where it is installed. ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "classification"
    recorded: ClassVar[bool] = True
    label: str | None = None
    scaling: str = option("clip", check.one_of, options=SCALINGS)
    data: str | None = None
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)
        for name, value in (("label", self.label), ("data", self.data)):
            check.expect(value is None or isinstance(value, str), name, value, "to be text")

    def _found(self) -> tuple[ClassificationWorld, int]:
        return _prepared(str(data.folder(("covtype", "classification"), self.data)), self.label, self.scaling)

    @property
    def dimension(self) -> int:
        """A block of columns and an intercept for each class."""
        world, classes = self._found()
        return classes * int(world.rows.shape[1])

    @property
    def candidates(self) -> int:
        """One for each class."""
        return self._found()[1]

    def world(self, seed: int) -> ClassificationWorld | PeopledWorld:
        """The same table for every seed; rows come in another order."""
        return peopled(self._found()[0], self.people, self.visits, seed)


PARTS = 2
"""Gaussians that make up a class."""


@dataclass(frozen=True)
class MadeTable:
    """A table of ``rows`` with ``columns`` numbers and one of ``classes``: a row comes, reward 1 for its class.

    Classes are mixtures of Gaussians, columns are correlated; it is played exactly as ``classification`` is.
    separation: how far the centres of a class's two Gaussians lie from the middle of all, in standard deviations of one.
    noise: the share of rows whose class is drawn at random instead. scaling: as in ``classification``. Every seed has a
    table of its own. ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "made-table"
    columns: int = option(10, check.whole, at_least=1)
    classes: int = option(5, check.whole, at_least=2)
    separation: float = option(3.0, check.real, above=0)
    noise: float = option(0.0, check.real, at_least=0, at_most=1)
    rows: int = option(5000, check.whole, at_least=2)
    scaling: str = option("clip", check.one_of, options=SCALINGS)
    people: int = option(0, check.whole, at_least=0)
    visits: str = option("uniform", check.one_of, options=VISITS)

    def __post_init__(self) -> None:
        check.options(self)

    @property
    def dimension(self) -> int:
        """A block of columns and an intercept for each class."""
        return self.classes * (self.columns + 1)

    @property
    def candidates(self) -> int:
        """One for each class."""
        return self.classes

    def world(self, seed: int) -> ClassificationWorld | PeopledWorld:
        """The table of this seed."""
        return peopled(_made(self, seed), self.people, self.visits, seed)


@lru_cache(maxsize=64)
def _made(settings: MadeTable, seed: int) -> ClassificationWorld:
    rng = np.random.default_rng([seed, 0])
    columns = settings.columns
    centres = rng.standard_normal((settings.classes, PARTS, columns))
    centres *= settings.separation / np.maximum(np.linalg.norm(centres, axis=2, keepdims=True), 1e-300)
    labels = rng.integers(settings.classes, size=settings.rows)
    part = rng.integers(PARTS, size=settings.rows)
    rows = centres[labels, part] + rng.standard_normal((settings.rows, columns))
    turn, _ = np.linalg.qr(rng.standard_normal((columns, columns)))
    rows = rows * np.arange(1.0, columns + 1) ** -0.5 @ turn  # a falling spectrum, turned: columns share what varies most
    wrong = rng.random(settings.rows) < settings.noise
    labels[wrong] = rng.integers(settings.classes, size=int(wrong.sum()))
    return table_world(rows, labels, settings.scaling)


EXAMPLES = (
    Classification(),
    MadeTable(),
    MadeTable(columns=3, classes=3, noise=0.2, rows=300, scaling="max-norm"),
)
