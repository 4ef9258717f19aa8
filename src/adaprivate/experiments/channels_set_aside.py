"""The comparison of channels on worlds and seeds that nobody looked at while constants were chosen.

The same kinds of worlds as those of channels with other parameters. Run it when everything is decided: whoever changes
something after looking at it needs new worlds. Its quick form plays those of channels.
"""

from __future__ import annotations

from adaprivate.experiments import channels
from adaprivate.experiments._channel_worlds import FIRST_SEED_SET_ASIDE, SET_ASIDE

SOURCE = channels.SOURCE
QUESTION = "Does the choice of a default hold in worlds that nobody looked at?"
SEEDS = channels.SEEDS
KEPT = True
PARTIAL = True
PAPER: dict[tuple[str, str], float] = {}
SETTINGS = channels.settings(SET_ASIDE, first_seed=FIRST_SEED_SET_ASIDE)
QUICK = channels.QUICK
run, compare, answer, plot = channels.run, channels.compare, channels.answer, channels.plot
