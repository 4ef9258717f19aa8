"""The grid of exact noise: what is private is whole numbers, and these say of what."""

EVENT_BITS = 20
"""Features, and what an event contributes, are whole multiples of 2^-20."""
REWARD_BITS = 30
"""Rewards are, of 2^-30, before they are multiplied with features."""
LARGEST = 2**62
"""Whole numbers that receive exact noise are smaller in size."""
AS_IS, DIRECTED, DIRECTED_WHOLE = 0, 1, 2
"""Ways to enter a sum: as given; features scaled to norm 1; the whole event scaled to norm 1 where the noise is round."""
