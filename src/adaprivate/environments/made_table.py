"""A labelled table that is made, not read: classes are mixtures of Gaussians, columns are correlated.

Played exactly as ``classification`` plays a recorded one: each class is an arm, and only the right one earns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from adaprivate import check
from adaprivate.data.features import SCALINGS
from adaprivate.environments.classification import ClassificationWorld, table_world
from adaprivate.environments.people import PeopledWorld, check_people, peopled

PARTS = 2
"""Gaussians that make up a class."""


@dataclass(frozen=True)
class MadeTable:
    """A table of ``rows`` with ``columns`` numbers and one of ``classes``: a row comes, reward 1 for its class.

    separation: how far the centres of a class's two Gaussians lie from the middle of all, in standard deviations of one.
    noise: the share of rows whose class is drawn at random instead. scaling: as in ``classification``. Every seed has a
    table of its own. ``people`` and ``visits``: as in ``synthetic``.
    """

    name: ClassVar[str] = "made-table"
    columns: int = 10
    classes: int = 5
    separation: float = 3.0
    noise: float = 0.0
    rows: int = 5000
    scaling: str = "clip"
    people: int = 0
    visits: str = "uniform"

    def __post_init__(self) -> None:
        check.whole("columns", self.columns, at_least=1)
        check.whole("classes", self.classes, at_least=2)
        check.real("separation", self.separation, above=0)
        check.real("noise", self.noise, at_least=0, at_most=1)
        check.whole("rows", self.rows, at_least=2)
        check.one_of("scaling", self.scaling, SCALINGS)
        check_people(self.people, self.visits)

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


EXAMPLES = (MadeTable(), MadeTable(columns=3, classes=3, noise=0.2, rows=300, scaling="max-norm"))
