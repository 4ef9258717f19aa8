"""What can be wrong with a call: errors and warnings. Nothing else is imported here, so the command line starts at once."""

from __future__ import annotations


class LittleToLearnWarning(UserWarning):
    """A policy foresees that little can be learned with these rounds, dimensions and epsilon."""


class ClippedWarning(UserWarning):
    """All candidates of a decision, or more than a few percent of all, were longer than 1 and were clipped."""


class InputError(ValueError):
    """An argument does not meet its stated condition."""
