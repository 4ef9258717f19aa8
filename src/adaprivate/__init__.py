"""Differentially private bandits."""

from adaprivate import privacy

__version__ = "0.1.0"
__all__ = ["__version__", "privacy"]
