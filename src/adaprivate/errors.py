"""What can be wrong with a call: errors and warnings. Nothing else is imported here, so the command line starts at once."""

from __future__ import annotations


class LittleToLearnWarning(UserWarning):
    """A policy foresees that little can be learned with these rounds, dimensions and epsilon."""


class ClippedWarning(UserWarning):
    """All candidates of a decision, or more than a few percent of all, were longer than 1 and were clipped."""


class InputError(ValueError):
    """An argument does not meet its stated condition."""


class NotEnteredError(InputError):
    """An event did not enter a sum, which is as it was. ``by`` is the mark of that sum, and leads to nothing private."""

    def __init__(self, text: str, by: object = None) -> None:
        super().__init__(text)
        self.by = by
