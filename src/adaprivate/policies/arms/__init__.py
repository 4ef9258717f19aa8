"""Policies on a fixed set of arms: every round offers the same N unit vectors, and the context is empty."""
