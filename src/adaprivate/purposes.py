"""What the random streams of a seed are for: every purpose has a number, and no two share one.

Streams of one seed are independent where their purposes differ. So all policies meet the same world on the same seed, and a
purpose added changes nothing that others draw.
"""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Purpose(IntEnum):
    """The purposes of a seed's streams."""

    ROUNDS = 1
    """Candidates, and which people come."""
    REWARDS = 2
    EXPLORATION = 3
    """A policy's own sampling: the normal numbers."""
    CHOICE = 4
    """A policy's other random choices: the uniform numbers."""
    VISITS = 5
    """Which people come, where they change nothing else."""
    NOISE = 10
    """Privacy noise on rewards."""
    DESIGN_NOISE = 11
    """Privacy noise on the design matrix."""
    TREE_NOISE = 12
    """Privacy noise of trees over rounds, Gaussian or Wishart."""
    LAPLACE_TREE_NOISE = 13
    FLIP_NOISE = 14
    """Randomised response."""
    FEATURE_NOISE = 20
    """Privacy noise in features that were made from ratings."""
    REPLAY = 21
    LOG = 22
    """Made logs: this and the numbers up to 29, two for each part."""
    RUN = 30
    """The seeds of several runs on one log."""
    PROPENSITY = 40
    """The numerical integration of propensities."""
    PROPENSITY_CHOICE = 41
