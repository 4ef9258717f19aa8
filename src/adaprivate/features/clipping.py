"""How often values lay beyond their public bounds. Counts of public features; no reward comes here.

Where contexts are private (a joint guarantee), these counts are private too: one person's context changes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from adaprivate import check

FEW = 0.03
"""The share of clipped values that is not worth a word."""
FEWEST = 5
"""So many clipped values may be chance, whatever their share."""


def clipping_warning(clipped: int, seen: int, where: Iterable[str] = ()) -> str | None:
    """A sentence if more than a few percent of the ``seen`` values were clipped, else None. ``where`` names the worst."""
    check.whole("clipped", clipped, at_least=0)
    check.whole("seen", seen, at_least=0)
    check.expect(clipped <= seen, "clipped", clipped, f"<= {seen}, the values seen")
    if clipped <= FEWEST or clipped <= FEW * seen:
        return None
    mostly = ", ".join(where)
    return (
        f"{clipped:,} of {seen:,} values ({clipped / seen:.0%}) lay beyond their public bounds and were clipped"
        + (f", mostly {mostly}" if mostly else "")
        + ": what lies beyond cannot be told apart. Wider bounds need another featuriser, and a new policy."
    )


@dataclass
class Clipping:
    """A counter that the caller keeps, one per thread: pass it as ``clipping=``, ask for ``share`` and ``warning()``."""

    clipped: int = 0
    seen: int = 0
    """How many values, of those that have bounds."""
    by_name: dict[str, int] = field(default_factory=dict)
    """How many of each context field, or of the items, were clipped."""

    def count(self, name: str, clipped: int, seen: int = 1) -> None:
        """Take in that ``clipped`` of ``seen`` values were too large."""
        self.clipped += clipped
        self.seen += seen
        if clipped:
            self.by_name[name] = self.by_name.get(name, 0) + clipped

    @property
    def share(self) -> float:
        """The share of values that were clipped."""
        return self.clipped / self.seen if self.seen else 0.0

    def warning(self) -> str | None:
        """What :func:`clipping_warning` says of these counts, with the name that was clipped most."""
        return clipping_warning(self.clipped, self.seen, sorted(self.by_name, key=lambda name: -self.by_name[name])[:1])
