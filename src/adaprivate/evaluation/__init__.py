"""Judging results: means with their uncertainty, paired comparisons, and policies on decisions that others made."""

from adaprivate.evaluation.statistics import Paired, Summary, paired, summary

__all__ = ["Paired", "Summary", "paired", "summary"]
