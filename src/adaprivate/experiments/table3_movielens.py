"""Table 3, MovieLens: policies on held-out ratings of MovieLens 1M, as percent of non-private LinUCB.

The paper replays MovieLens 25M with a warm start it does not describe; here candidates are films that a person of
MovieLens 1M rated, so every candidate's reward is known and nothing is rejected (ten films a round, liked = at least four
stars, features from the other half of the people). So printed levels need not agree; orders and gaps are what can be
compared. TS - UCB is paired. The last rows ask whether reward drops when the first noisy batch arrives (Sec 4.2).

Random play earns 78 percent of LinUCB here: the learned share beside each level is the honest scale. Over 12 seeds UCB is
0.3 to 0.5 points above TS at every epsilon, where the paper has TS ahead from epsilon 2 on, and no dip shows. Long feature
vectors belong to popular films, which people like: always playing the longest earns 93 percent, and that is what the
jointly private policy earns at epsilon 1, hardly more at 10.

zCDP-Episodic as described spends its budget once an episode and is unsound; "sound" forgets instead. DGS-LinUCB and the
jointly private policy decompose a matrix every round and run on two and four seeds. "Better features" (cut at
the median norm, ten dimensions) and the centre were chosen on this world when the noise-aware policies were made.
"""

from __future__ import annotations

from adaprivate.experiments._recorded import on_ratings
from adaprivate.experiments._table3 import Half, plot

__all__ = ["LEVELS", "PAPER", "QUICK", "SEEDS", "SETTINGS", "SOURCE", "compare", "plot", "run"]

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Table 3, MovieLens-25M"
QUESTION = "What do private policies earn on MovieLens?"
SEEDS = 12
_HALF = Half(
    "movielens",
    ctr=(0.700, 0.012),
    lints=(94.5, 0.0),
    levels={
        "zCDP-Episodic": ((71.9, 5.2), (74.2, 4.9), (80.8, 5.0), (84.2, 7.6)),
        "AdaC-OFUL-zCDP": ((72.3, 11.9), (74.4, 12.6), (79.8, 12.1), (84.1, 11.2)),
        "RarelySwitching-zCDP": ((72.6, 10.8), (75.2, 9.9), (81.9, 10.5), (84.7, 10.2)),
        "AdaPrivate-UCB": ((71.7, 6.3), (74.8, 6.5), (80.7, 5.0), (84.6, 5.0)),
        "DGS-LinUCB": ((70.9, 2.5), (71.0, 2.5), (71.1, 2.3), (71.2, 2.0)),
        "AdaPrivate-TS": ((71.7, 6.3), (75.2, 5.8), (84.4, 6.3), (90.6, 4.9)),
        "JDP-LinUCB (joint)": ((66.5, 4.0), (67.8, 5.2), (69.4, 5.8), (71.8, 2.8)),
    },
)
LEVELS, PAPER, SETTINGS, QUICK = _HALF.levels, _HALF.paper, _HALF.settings, _HALF.quick
run, compare = on_ratings, _HALF.compare
