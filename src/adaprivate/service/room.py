"""What a worker keeps in memory of a bandit: all of it public but its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa

from adaprivate.mechanisms.noise import Noise
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.service.bandit import Bandit
from adaprivate.service.batches import Batch, find_due
from adaprivate.service.deciding import Catalogue, Snapshot


class Room:
    """A bandit, its items, and the learner of its last closed batch."""

    def __init__(self, bandit: Bandit, plans: Mapping[int, bytes], source: Noise, clock: Callable[[], float]) -> None:
        self.bandit = bandit
        self._clock = clock
        self.catalogue = Catalogue(-1, (), np.zeros((0, bandit.dimension)), {})
        self.snapshot: Snapshot | None = None
        self.state = "open"
        self.reason: str | None = None
        self.void: list[Any] = []
        """Entries of the column."""
        self.whole = False
        """Whether the journal has seen all that was published."""
        self.erased: dict[int, int] | None = None
        """Limits, by stream, below which all spent rewards are known to be deleted."""
        self.looked_at = 0.0
        self.due: dict[tuple[int, int], Batch] = {}
        """Batches all of whose rounds are assigned, by stream and number."""
        self.pauses: dict[int, tuple[float, float]] = {}
        """Streams whose batch could not be closed: how long to wait, and until when."""
        self.books: dict[int, Any] = {stream: plan_from_bytes(plan).book(source) for stream, plan in plans.items()}
        """By stream an empty book, of which rewards that arrive may ask what is to be stored in their place."""

    def next_due(self, connection: sa.Connection, row: Any, assigned: int) -> Batch | None:
        """The next batch of the stream that ``row`` of its books is about, if all its rounds are assigned."""
        key = (row.stream, row.version)
        batch = self.due.get(key)
        if batch is None:
            batch = find_due(connection, self.bandit, row, assigned)
        if batch is not None:
            # All its rounds are assigned. Where it is due later than a window from now, a clock was ahead meanwhile.
            batch = batch._replace(due_at=min(batch.due_at, self._clock() + self.bandit.spec.reward_window))
            self.due = {k: v for k, v in self.due.items() if k[0] != row.stream} | {key: batch}
        return batch

    @property
    def default_item(self) -> str | None:
        """What to show where nothing can be decided."""
        return self.bandit.spec.default_item or next(iter(self.catalogue.positions), None)
