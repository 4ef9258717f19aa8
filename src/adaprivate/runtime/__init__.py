"""A policy in use: it decides, learns, is saved and loaded, from many threads."""
