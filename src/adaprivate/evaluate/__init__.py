"""Judging results: means with their uncertainty, and paired comparisons."""

from adaprivate.evaluate.statistics import Paired, Summary, paired, summary

__all__ = ["Paired", "Summary", "paired", "summary"]
