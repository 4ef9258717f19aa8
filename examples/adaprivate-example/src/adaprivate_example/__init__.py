"""A policy and an environment for adaprivate; it finds them by the entry points in pyproject.toml."""
