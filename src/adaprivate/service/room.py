"""What a worker keeps in memory of a bandit: all of it public but its keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa

from adaprivate.mechanisms.noise import Noise
from adaprivate.service.bandit import Bandit
from adaprivate.service.batches import Batch, find_due
from adaprivate.service.deciding import Catalogue, Snapshot
from adaprivate.service.holdback import holdback_plan, template
from adaprivate.service.schema import HOLDBACK, POLICY


class Room:
    """A bandit, its items, and the learner of its last closed batch."""

    def __init__(self, bandit: Bandit, source: Noise) -> None:
        self.bandit = bandit
        self.catalogue = Catalogue(-1, (), np.zeros((0, bandit.dimension)), {})
        self.snapshot: Snapshot | None = None
        self.state = "open"
        self.reason: str | None = None
        self.void: list[str] = []
        self.whole = False
        """Whether the journal has seen all that was published."""
        self.looked_at = 0.0
        self.due: dict[tuple[int, int], Batch] = {}
        """Batches all of whose rounds are assigned, by stream and number."""
        self.pauses: dict[int, tuple[float, float]] = {}
        """Streams whose batch could not be closed: how long to wait, and until when."""
        plan = bandit.settings.plan
        self.books = {POLICY: template(plan, source)}
        if bandit.spec.holdback:
            self.books[HOLDBACK] = template(holdback_plan(bandit), source)

    def next_due(self, connection: sa.Connection, row: Any, assigned: int) -> Batch | None:
        """The next batch of the stream that ``row`` of its books is about, if all its rounds are assigned."""
        key = (row.stream, row.version)
        batch = self.due.get(key)
        if batch is None:
            batch = find_due(connection, self.bandit, row, assigned)
            if batch is not None:
                self.due = {k: v for k, v in self.due.items() if k[0] != row.stream} | {key: batch}
        return batch

    @property
    def default_item(self) -> str | None:
        """What to show where nothing can be decided."""
        return self.bandit.spec.default_item or next(iter(self.catalogue.positions), None)
