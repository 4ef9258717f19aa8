"""Features of norm at most 1 from contexts and items, by public constants alone (docs/features.md). No reward comes in."""

from adaprivate.features.clipping import Clipping, clipping_warning
from adaprivate.features.featuriser import Featuriser

__all__ = ["Clipping", "Featuriser", "clipping_warning"]
