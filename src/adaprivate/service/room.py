"""What a worker keeps in memory of a bandit: all of it public but its keys."""

from __future__ import annotations

import numpy as np

from adaprivate.mechanisms.noise import Noise
from adaprivate.service.bandit import Bandit
from adaprivate.service.closing import Batch
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
        plan = bandit.settings.plan
        self.books = {POLICY: template(plan, source)}
        if bandit.spec.holdback:
            self.books[HOLDBACK] = template(holdback_plan(bandit), source)

    @property
    def default_item(self) -> str | None:
        """What to show where nothing can be decided."""
        return self.bandit.spec.default_item or next(iter(self.catalogue.positions), None)
