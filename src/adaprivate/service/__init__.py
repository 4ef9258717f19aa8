"""The decision service: decides over HTTP, takes rewards when they come, and releases each batch of them once.

Everything durable is in a database; a worker holds public state only. Rewards are read in
:mod:`~adaprivate.service.arriving` and :mod:`~adaprivate.service.closing`, and nowhere else.
"""
