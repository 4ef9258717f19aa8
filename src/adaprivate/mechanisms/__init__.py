"""Releases that price themselves."""
