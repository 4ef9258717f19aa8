"""The same algorithms in NumPy as the papers print them: a Cholesky factor of A in every round."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular


def half(L, b, trans):
    return solve_triangular(L, b, lower=True, trans=trans, check_finite=False)


def play(arms, means, kind, rounds, count, batch, noise):
    """The regret of one run; ``kind`` thompson or optimistic, ``batch`` 0: every reward at once."""
    rng = np.random.default_rng(0)
    d = arms.shape[1]
    A, b, waiting, k, regret = np.eye(d), np.zeros(d), np.zeros(d), 0, 0.0
    for t in range(rounds):
        offered = rng.permutation(len(arms))[:count]
        x, mean = arms[offered], means[offered]
        L = np.linalg.cholesky(A)
        w = half(L, b, "N")
        if kind == "thompson":
            scores = x @ half(L, w + rng.standard_normal(d), "T")
        else:
            scores = x @ half(L, w, "T") + np.sqrt((half(L, x.T, "N") ** 2).sum(axis=0))
        a = int(np.argmax(scores))
        regret += mean.max() - mean[a]
        A += np.outer(x[a], x[a])
        seen = (rng.random() < mean[a]) * x[a]
        if not batch:
            b += seen
            continue
        waiting += seen
        if (t + 1) % batch == 0:
            b = b + waiting + noise[k]
            waiting, k = np.zeros(d), k + 1
    return regret
