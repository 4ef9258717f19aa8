"""Table 3, Jester: policies on people who rated every joke, as percent of non-private LinUCB.

The paper replays logged ratings and says little about how; here the ratings of all candidates are known, nothing is
rejected, and levels are those of our world (people who rated all jokes, ten jokes a round, liked = rated at least 4,
features from everyone else). So printed levels need not agree; orders and gaps are what can be compared. TS - UCB is
paired. The last rows ask whether reward drops when the first noisy batch arrives, as Sec 4.2 says of UCB and not of TS.

Random play earns 70 percent of LinUCB here, and most printed levels at epsilon 1 lie there (DGS-LinUCB's at every epsilon):
the learned share beside each level is the honest scale. Over 12 seeds UCB leads TS by 1.4 to 3.7 points at every epsilon,
where the paper has TS ahead, and no dip shows. The jointly private policy earns what always playing the longest feature
vector does (65 percent).

zCDP-Episodic as described spends its budget once an episode and is unsound; "sound" forgets instead. DGS-LinUCB and the
jointly private policy decompose a matrix every round and run on two and four seeds. "Better features" (unit
norm, ten dimensions) and the centre were chosen on this world when the noise-aware policies were made.
"""

from __future__ import annotations

from adaprivate.experiments._recorded import on_ratings
from adaprivate.experiments._table3 import Half, plot

__all__ = ["LEVELS", "PAPER", "QUICK", "SEEDS", "SETTINGS", "SOURCE", "compare", "plot", "run"]

SOURCE = "AdaPrivate-TS (Riyazat & Ukwatta), Table 3, Jester"
QUESTION = "What do private policies earn on Jester?"
SEEDS = 12
_HALF = Half(
    "jester",
    ctr=(0.363, 0.014),
    lints=(94.4, 0.0),
    levels={
        "zCDP-Episodic": ((70.8, 3.3), (71.5, 3.4), (73.3, 3.5), (75.7, 3.7)),
        "AdaC-OFUL-zCDP": ((72.3, 3.2), (73.1, 3.8), (74.5, 3.4), (76.3, 4.3)),
        "RarelySwitching-zCDP": ((67.4, 6.3), (68.0, 6.8), (70.9, 7.5), (74.6, 7.1)),
        "AdaPrivate-UCB": ((70.1, 6.2), (70.7, 6.8), (76.3, 4.1), (82.8, 2.3)),
        "DGS-LinUCB": ((70.1, 2.2), (70.1, 2.2), (70.5, 2.2), (70.0, 2.2)),
        "AdaPrivate-TS": ((73.7, 2.7), (78.5, 2.7), (81.3, 3.5), (83.3, 2.8)),
        "JDP-LinUCB (joint)": ((73.4, 2.4), (74.0, 2.8), (77.4, 1.9), (81.6, 3.5)),
    },
)
LEVELS, PAPER, SETTINGS, QUICK = _HALF.levels, _HALF.paper, _HALF.settings, _HALF.quick
run, compare = on_ratings, _HALF.compare
