"""Rivals that protect contexts too (joint privacy)."""
