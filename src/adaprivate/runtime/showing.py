"""What a policy shows of itself: texts, notebooks, remarks, the log. All of it public; no reward comes here."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from adaprivate import check
from adaprivate.notebook import facts_html, lines_html

log = logging.getLogger("adaprivate")
"""Public events alone: plans, releases by their number, clipping. Nothing that depends on a reward."""
log.addHandler(logging.NullHandler())


ENOUGH_SEEN = 100
"""Fewer candidates than this are no reason to warn that many were clipped, unless one decision's are all too long."""


class Shown:
    """What a policy does to be seen; see :class:`~adaprivate.runtime.policy.Policy`."""

    def __repr__(self: Any) -> str:
        counts = f"{self.decided} decisions, {self.round} rounds, {self.version} releases"
        channel = "" if self._channel is None else f", channel {self._channel}"
        return f"<{self.settings.name}: {counts}{channel}, {self._noise}>"

    def _repr_html_(self: Any) -> str:
        facts = {"decisions": self.decided, "rounds": self.round, "releases": self.version, "noise": self._noise}
        guarantee = self.guarantee
        promise = "<p>Not private: it protects nobody.</p>" if guarantee is None else guarantee._repr_html_()
        known = facts if self._channel is None else facts | {"channel": self._channel}
        return facts_html(self.settings.name, known, lines_html("", self.remarks), promise)

    @property
    def _channel(self: Any) -> str | None:
        channel: str | None = getattr(getattr(self.settings, "choice", None), "channel", None)
        return channel

    @property
    def _noise(self: Any) -> str:
        return "exact noise" if self.source is not None else "simulated noise"

    @property
    def remarks(self: Any) -> list[str]:
        """What makes the guarantee weak, if anything does: a large epsilon, or a delta that is large for so many.

        How many it protects: people who came, where it protects people, else rounds planned for, a reward each.
        """
        guarantee = self.guarantee
        seen = self.people
        many = self.settings.rounds if seen is None else seen["people"]
        return [] if guarantee is None else guarantee.remarks(many)

    def _note_clipped(self: Any, clipped: int, seen: int) -> None:
        """Take in how many candidates were clipped; more than a few percent are worth a warning, if contexts are public."""
        if not clipped:
            self._clipping.seen += seen
            return
        self.clipped += clipped
        self._clipping.count("candidates", clipped, seen)
        if self._clipped_said:
            return
        if clipped == seen > 1:
            which = f"All {seen:,} candidates shown at once"
        elif self._clipping.seen >= ENOUGH_SEEN and self._clipping.warning() is not None:
            which = f"{self._clipping.share:.0%} of {self._clipping.seen:,} candidates"
        else:
            return
        self._clipped_said = True
        guarantee = self.guarantee
        if guarantee is None or not {"joint", "local"} & {g.unit for g in (guarantee, *guarantee.also)}:
            text = (
                f"{which} were longer than 1 and were clipped: the guarantee holds, but their lengths "
                "are lost. Scale features by public constants; ap.Featuriser does."
            )
            log.warning("%s: %s", self.settings.name, text)
            warnings.warn(text, check.ClippedWarning, stacklevel=3)

    def _log_releases(self: Any, before: int) -> None:
        """Those after this one, and now made."""
        for version in range(before + 1, self.version + 1):
            log.debug("%s: release %d, round %d", self.settings.name, version, self.round)
