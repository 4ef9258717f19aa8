"""Context and items to features: x = (1, c) (x) z, scaled by public constants so that its norm is at most 1.

*Norm.* Every context field has coordinates of norm at most 1, so with F fields |(1, c)|^2 <= 1 + F; items have |z| <= N.
The norm of an outer product is the product of the norms, so |x| = |(1, c)| |z| / (sqrt(1 + F) N) <= 1.

The constants are those of the description alone. None is computed from data, so preparing features this way spends nothing
("public-preparation" in docs/privacy.md). No reward comes here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from adaprivate import check
from adaprivate.check import Array, Floats
from adaprivate.features.clipping import Clipping
from adaprivate.features.fields import ROUNDING, Description, Field, described, differ, field_of, mapping, numbers
from adaprivate.features.items import ItemFeatures, Items, OneHot, items_of

INTERACTIONS = ("none", "products", "blocks")
MOST = 10_000
"""A dimension that policies can still hold the square of in memory."""


@dataclass(frozen=True, init=False)
class Featuriser:
    """A public description of how features are made, and the making. See docs/features.md.

    ``context``: fields, each a dict with ``name``, ``kind`` and what the kind asks for.
    ``items``: ``{"kind": "features", "length": ..., "norm": ...}`` or ``{"kind": "one-hot", "most": ...}``.
    ``interactions``: "products" of (1, context) with the item's features; "blocks", the same for one-hot items, with the
    numbers of an item side by side; or "none", the item alone.
    """

    context: tuple[Field, ...]
    items: Items
    interactions: str

    def __init__(
        self, context: Sequence[Mapping[str, object]], items: Mapping[str, object], interactions: str = "products"
    ):
        listed = isinstance(context, Sequence) and not isinstance(context, str | bytes)
        check.expect(listed, "featuriser.context", context, "to be a list of fields")
        fields = tuple(field_of(f"featuriser.context[{place}]", given) for place, given in enumerate(context))
        differ("featuriser.context", ".name", (field.name for field in fields))
        object.__setattr__(self, "context", fields)
        object.__setattr__(self, "items", items_of("featuriser.items", items))
        object.__setattr__(self, "interactions", check.one_of("featuriser.interactions", interactions, INTERACTIONS))
        if interactions == "none":
            check.expect(not fields, "featuriser.interactions", interactions, "to come without context fields")
        if interactions == "blocks":
            one_hot = isinstance(self.items, OneHot)
            check.expect(one_hot, "featuriser.interactions", interactions, "to come with one-hot items")
        check.expect(self.dimension <= MOST, "featuriser.dimension", self.dimension, f"<= {MOST}")

    @classmethod
    def from_dict(cls, description: object) -> Self:
        """The featuriser that :meth:`to_dict` described."""
        text = Description("featuriser", description, ("context", "items", "interactions"))
        return cls(
            text.value("context", ()),  # type: ignore[arg-type]
            text.value("items"),  # type: ignore[arg-type]
            text.value("interactions", "products"),  # type: ignore[arg-type]
        )

    def to_dict(self) -> dict[str, object]:
        """The public description, ready for JSON."""
        context = [{"name": field.name, **described(field)} for field in self.context]
        return {"context": context, "items": described(self.items), "interactions": self.interactions}

    def __repr__(self) -> str:
        return f"Featuriser.from_dict({self.to_dict()!r})"

    # --- sizes and names ----------------------------------------------------------------------------------------------

    @cached_property
    def context_length(self) -> int:
        """How many coordinates a context has: |c|."""
        return sum(field.width for field in self.context)

    @property
    def item_length(self) -> int:
        """How many coordinates an item has: |z|."""
        return self.items.length

    @cached_property
    def dimension(self) -> int:
        """How many features a candidate has: (1 + |c|) |z|."""
        return (1 + self.context_length) * self.items.length

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for every coordinate, such as ``hour*article_3``."""
        parts = ["", *(f"{name}*" for field in self.context for name in field.coordinates)]
        items = [f"{self.items.name}_{place}" for place in range(self.items.length)]
        if self.interactions == "blocks":
            return tuple(part + item for item in items for part in parts)
        return tuple(part + item for part in parts for item in items)

    @cached_property
    def _places(self) -> tuple[tuple[Field, int, int], ...]:
        ends = np.cumsum([field.width for field in self.context]).tolist()
        return tuple((field, end - field.width, end) for field, end in zip(self.context, ends, strict=True))

    @cached_property
    def _scale(self) -> float:
        return 1.0 / (math.sqrt(1.0 + len(self.context)) * self.items.norm)

    @cached_property
    def _longest(self) -> float:
        return math.sqrt(len(self.context)) * (1.0 + ROUNDING)

    # --- contexts -----------------------------------------------------------------------------------------------------

    def context_vector(self, context: object, clipping: Clipping | None = None) -> tuple[Floats, int]:
        """The coordinates (|c|,) of a context, a dict by field name (None: none is given), and how many were clipped."""
        vector = np.zeros(self.context_length)
        return vector, self._fill(vector, "context", context, clipping)

    def context_vectors(self, contexts: Sequence[object], clipping: Clipping | None = None) -> Floats:
        """The coordinates (n, |c|) of n contexts."""
        listed = isinstance(contexts, Sequence) and not isinstance(contexts, str | bytes)
        check.expect(listed, check.Unsaid("contexts"), contexts, "to be a list of contexts")
        vectors = np.zeros((len(contexts), self.context_length))
        for place, context in enumerate(contexts):
            self._fill(vectors[place], f"contexts[{place}]", context, clipping)
        return vectors

    def _fill(self, vector: Floats, where: str, context: object, clipping: Clipping | None) -> int:
        given = {} if context is None else mapping(check.Unsaid(where), context)
        clipped = found = 0
        for field, start, end in self._places:
            name = field.name
            value = given.get(name)
            found += name in given
            if value is None:
                value = field.missing
                if value is None:
                    raise check.InputError(f"Expected {where}.{name} to be given: its description has no 'missing'.")
            beyond = field.fill(vector[start:end], value, check.Unsaid(f"{where}.{name}"))
            clipped += beyond
            if clipping is not None and field.bounded:
                clipping.count(name, beyond)
        if found != len(given):
            names = [field.name for field in self.context]
            unknown = next(key for key in given if key not in names)
            asked = check.Unsaid(f"{where} field")
            check.expect(bool(names), asked, unknown, "to be absent: no field is described")
            check.one_of(asked, unknown, names)
        return clipped

    # --- candidates ---------------------------------------------------------------------------------------------------

    def item_vectors(self, items: object, clipping: Clipping | None = None) -> tuple[Array, int]:
        """Items as :meth:`build` takes them: rows (K, |z|) within their norm, or positions; and how many were clipped."""
        if isinstance(self.items, OneHot):
            return self.items.positions(items, 1).copy(), 0
        rows, clipped = self.items.rows(items, 1)
        if clipping is not None:
            clipping.count("items", clipped, len(rows))
        return rows.copy(), clipped

    def build(self, context: object, items: object, clipping: Clipping | None = None) -> Floats:
        """The features (K, dimension) of K candidates.

        ``context``: a dict, or what :meth:`context_vector` made of it.
        ``items``: rows (K, |z|); of one-hot items, positions (K,) will do.
        """
        if not isinstance(context, np.ndarray) and (context is None or isinstance(context, Mapping)):
            context = self.context_vector(context, clipping)[0]
        return self._product(self._prepared("context", context, ()), items, clipping)

    def build_many(self, contexts: object, items: object, clipping: Clipping | None = None) -> Floats:
        """The features (n, K, dimension) of n times K candidates: contexts (n, |c|) as :meth:`context_vectors` makes them.

        ``items``: rows (n, K, |z|), or positions (n, K) of one-hot items; the same ones for everyone are
        ``np.broadcast_to(items, (n, *items.shape))``.
        """
        return self._product(self._prepared("contexts", contexts, (None,)), items, clipping)

    def _prepared(self, name: str, context: object, leading: tuple[None, ...]) -> Floats:
        """(1, c), scaled for the product with items. A c that is too long is refused: no context is."""
        shape = (*leading, self.context_length)
        if not (isinstance(context, np.ndarray) and context.dtype == np.float64 and context.ndim == len(shape)):
            context = numbers(name, context, shape)
        if leading:
            longest = math.sqrt(np.einsum("ni,ni->n", context, context).max(initial=0.0))
        else:
            longest = math.hypot(*context.tolist())
        if context.shape[-1] != self.context_length or not longest <= self._longest:  # or NaN
            numbers(name, context, shape)
            check.expect(False, check.Unsaid(f"{name}.norm"), longest, f"<= {self._longest:g}, as context_vector makes it")
        whole = np.empty((*context.shape[:-1], 1 + self.context_length))
        whole[..., 0] = self._scale
        np.multiply(context, self._scale, out=whole[..., 1:])
        return whole

    def _product(self, whole: Floats, items: object, clipping: Clipping | None) -> Floats:
        leading = whole.ndim
        if isinstance(self.items, ItemFeatures):
            rows, clipped = self.items.rows(items, leading)
            self._expect_as_many(whole, rows)
            if clipping is not None:
                clipping.count("items", clipped, rows.size // self.items.length)
            product = np.multiply(whole[..., None, :, None], rows[..., None, :], order="C")
            return product.reshape(*rows.shape[:-1], self.dimension)
        positions = self.items.positions(items, leading)
        self._expect_as_many(whole, positions)
        flat, width = positions.reshape(-1), whole.shape[-1]
        repeated = whole if leading == 1 else np.repeat(whole, positions.shape[-1], axis=0)
        if self.interactions == "blocks":
            features = np.zeros((flat.size, self.items.most, width))
            features[np.arange(flat.size), flat] = repeated
        else:
            features = np.zeros((flat.size, width, self.items.most))
            features[np.arange(flat.size), :, flat] = repeated
        return features.reshape(*positions.shape, self.dimension)

    @staticmethod
    def _expect_as_many(whole: Floats, items: Array) -> None:
        if whole.ndim == 2:
            check.expect(len(items) == len(whole), "len(items)", len(items), f"== {len(whole)}, one for each context")
