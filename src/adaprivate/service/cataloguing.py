"""The public catalogue of a bandit: items and their features. No position is used again: old decisions stay readable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from adaprivate import check
from adaprivate.check import Floats
from adaprivate.runtime.learner import LONGEST, within_reach
from adaprivate.service import schema
from adaprivate.service.bandit import Bandit
from adaprivate.service.database import locked
from adaprivate.service.deciding import Catalogue

MOST_ITEMS = 1_000_000
LONGEST_ID = 200


def item_length(bandit: Bandit) -> int:
    """How many numbers describe an item."""
    return bandit.dimension if bandit.featuriser is None else int(bandit.featuriser.item_length)


def catalogue_of(connection: sa.Connection, bandit: Bandit) -> Catalogue:
    """The items as they are stored."""
    i = schema.items
    number = connection.scalar(sa.select(schema.bandits.c.catalogue).where(schema.bandits.c.id == bandit.id))
    query = sa.select(i.c.id, i.c.features, i.c.active, i.c.position).where(i.c.bandit == bandit.id).order_by(i.c.position)
    rows = connection.execute(query).all()
    features = np.zeros((len(rows), item_length(bandit)))
    for row in rows:
        features[row.position] = np.frombuffer(row.features, dtype=np.float64)
    positions = {row.id: row.position for row in rows if row.active}
    return Catalogue(int(number or 0), tuple(row.id for row in rows), features, positions)


def replace_items(connection: sa.Connection, bandit: Bandit, items: Mapping[str, Sequence[float] | None]) -> int:
    """Offer these items from now on; how many had features longer than 1, which are clipped."""
    check.expect(1 <= len(items) <= MOST_ITEMS, "len(items)", len(items), f">= 1 and <= {MOST_ITEMS}")
    for name in items:
        fits = 0 < len(name) <= LONGEST_ID and name.isprintable()
        check.expect(fits, "item", name, f"to be 1 to {LONGEST_ID} printable characters")
    i, b = schema.items, schema.bandits
    connection.execute(locked(sa.select(b.c.id).where(b.c.id == bandit.id)))
    before = catalogue_of(connection, bandit)
    latest = {name: position for position, name in enumerate(before.ids)}
    wanted, clipped = _features(bandit, items, before, latest)
    kept: list[int] = []
    new: list[dict[str, object]] = []
    for name, row in zip(items, wanted, strict=True):
        place = latest.get(name)
        if place is not None and np.array_equal(before.features[place], row):
            kept.append(place)
        else:
            position = len(before.ids) + len(new)
            new.append({"bandit": bandit.id, "position": position, "id": name, "features": row.tobytes(), "active": True})
    connection.execute(i.update().where(i.c.bandit == bandit.id).values(active=False))
    for begin in range(0, len(kept), 500):
        some = kept[begin : begin + 500]
        connection.execute(i.update().where(i.c.bandit == bandit.id, i.c.position.in_(some)).values(active=True))
    if new:
        connection.execute(i.insert(), new)
    connection.execute(b.update().where(b.c.id == bandit.id).values(catalogue=b.c.catalogue + 1))
    return clipped


def _features(
    bandit: Bandit, items: Mapping[str, Sequence[float] | None], before: Catalogue, latest: Mapping[str, int]
) -> tuple[Floats, int]:
    """The features of these items, those given checked and clipped, the others one-hot."""
    length = item_length(bandit)
    rows = np.zeros((len(items), length))
    for index, (name, given) in enumerate(items.items()):
        if given is not None:
            rows[index] = check.floats(f"items.{name}", given, (length,))
    taken = {int(np.argmax(row)) for row in (*before.features, *rows) if _one_hot(row)}
    free = (place for place in range(length) if place not in taken)
    for index, (name, given) in enumerate(items.items()):
        if given is not None:
            continue
        place = latest.get(name)
        if place is not None and _one_hot(before.features[place]):
            rows[index] = before.features[place]
            continue
        own = next(free, None)
        check.expect(own is not None, f"items.{name}", None, f"to find a place: all {length} are taken, for good")
        rows[index, own] = 1.0
    large = np.abs(rows).max(initial=0.0) > 1e150
    check.expect(not large, "items", "features beyond 1e150", "to be smaller")
    if bandit.featuriser is not None:
        if bandit.featuriser.items.kind == "one-hot":
            described = next((name for name, features in items.items() if features is not None), None)
            one_hot = "to be null: items of this bandit are one-hot"
            check.expect(described is None, f"items.{described}", "features", one_hot)
            return rows, 0
        bounded, longer = bandit.featuriser.item_vectors(rows)
        return np.ascontiguousarray(bounded), longer
    clipped = int(((rows * rows).sum(axis=1) > LONGEST).sum())
    return np.ascontiguousarray(within_reach(rows)), clipped


def _one_hot(row: Floats) -> bool:
    return bool(np.count_nonzero(row) == 1 and row.max() == 1.0)
