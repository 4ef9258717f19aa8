"""Accounting beside Google's dp-accounting: seconds, and by how much the answers differ.

Theirs are privacy-loss distributions on a grid (losses rounded up by at most the grid), or Renyi curves; ours are closed
forms where there are any. A positive difference is ours above theirs, as a share of theirs. Of Gaussian noise, composed
or not, and of noise on a sampled batch, both state the same curve. Of zCDP ours looks for the best order where theirs
tries those of a list (224 of them): ours is the smaller. Of discrete Laplace noise ours is the price of any pure
mechanism of that epsilon, theirs of this one: ours is never smaller.
"""

from __future__ import annotations

import math
import time

from adaprivate import privacy
from adaprivate.privacy.price import GaussianPrice, PurePrice, compose
from measuring import target, worst

DELTA, GRID = 1e-5, 1e-4
TINY = {"grid": {"gaussian": ((2.0, 1),), "sampled": ((2.0, 0.3),), "zcdp": (0.1,), "laplace": ((0.5, 2),)}}
FULL = {
    "gaussian": tuple((sigma, count) for sigma in (0.7, 1.0, 2.0, 5.0, 20.0) for count in (1, 10, 100)),
    "sampled": tuple((sigma, rate) for sigma in (0.8, 1.0, 2.0, 5.0) for rate in (0.01, 0.1, 0.5)),
    "zcdp": (0.001, 0.01, 0.1, 0.5, 2.0),
    "laplace": tuple((epsilon, count) for epsilon in (0.05, 0.2, 1.0) for count in (1, 10, 50)),
    "sigma": (0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
}
QUICK = {what: cases[::2] for what, cases in FULL.items()}


def gaussian(sigma, count):
    from dp_accounting.pld import privacy_loss_distribution as pld

    ours = lambda: compose([GaussianPrice(1 / sigma)] * count).epsilon(DELTA)  # noqa: E731
    made = lambda: pld.from_gaussian_mechanism(sigma, value_discretization_interval=GRID)  # noqa: E731
    return ours, lambda: made().self_compose(count).get_epsilon_for_delta(DELTA)


def sampled(sigma, rate):
    from dp_accounting.pld import privacy_loss_distribution as pld

    def theirs():
        made = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=GRID)
        return made.get_epsilon_for_delta(DELTA)

    return lambda: privacy.sampled_gaussian_epsilon(sigma, DELTA, rate), theirs


def zcdp(rho):
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [64 * 1.05**k for k in range(72)]

    def theirs():
        return rdp.compute_epsilon(orders, [rho * order for order in orders], DELTA)[0]

    return lambda: privacy.zcdp_epsilon_tight(rho, DELTA), theirs


def laplace(epsilon, count):
    from dp_accounting.pld import privacy_loss_distribution as pld

    def theirs():
        made = pld.from_discrete_laplace_mechanism(epsilon, value_discretization_interval=GRID)
        return made.self_compose(count).get_epsilon_for_delta(DELTA)

    return lambda: compose([PurePrice(epsilon)] * count).epsilon(DELTA), theirs


def sigma(epsilon):
    from dp_accounting.pld import privacy_loss_distribution as pld

    def delta_of(noise):
        return pld.from_gaussian_mechanism(noise, value_discretization_interval=GRID).get_delta_for_epsilon(epsilon)

    return lambda: privacy.gaussian_sigma(epsilon, DELTA), lambda: _bisect(delta_of)


def _bisect(delta_of):
    """The least sigma, to a thousandth: what a caller of theirs writes."""
    low, high = 0.1, 200.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_of(middle) > DELTA else (low, middle)
    return high


CASES = {
    "gaussian": (gaussian, "Gaussian noise composed: epsilon"),
    "sampled": (sampled, "Gaussian noise on a sampled batch: epsilon"),
    "zcdp": (zcdp, "zCDP to (epsilon, delta): epsilon"),
    "laplace": (laplace, "discrete Laplace noise composed: epsilon"),
    "sigma": (sigma, "sigma of Gaussian noise for (epsilon, delta)"),
}


def answered(function, least):
    """The answer, and the best processor time of as many calls as fill this many seconds."""
    value, best, spent = function(), math.inf, 0.0
    while spent < least:
        started = time.process_time()
        value = function()
        seconds = time.process_time() - started
        best, spent = min(best, seconds), spent + max(seconds, 1e-7)
    return float(value), best


def measured(quick, *, grid=None):
    rows, raw, targets = [], [], []
    for what, cases in (grid or (QUICK if quick else FULL)).items():
        make, name = CASES[what]
        ours_all, theirs_all, apart = 0.0, 0.0, []
        for case in cases:
            ours, theirs = make(*(case if isinstance(case, tuple) else (case,)))
            (mine, mine_s), (other, other_s) = answered(ours, 0.002), answered(theirs, 0.02)
            ours_all, theirs_all = ours_all + mine_s, theirs_all + other_s
            apart.append((mine - other) / other)
            one = {"what": what, "case": case, "ours": mine, "theirs": other}
            raw.append(one | {"us": 1e6 * mine_s, "theirs us": 1e6 * other_s})
        row = {"what": name, "cases": len(cases), "ours, us": 1e6 * ours_all / len(cases)}
        row |= {"theirs, us": 1e6 * theirs_all / len(cases), "theirs / ours": theirs_all / ours_all}
        rows.append(row | {"least difference": min(apart), "largest difference": max(apart)})
        if what in ("gaussian", "sampled", "sigma"):
            what_differs = f"{name}: largest difference (their grid is {GRID})"
            targets.append(target(what_differs, worst(apart), most=0.01))
    return {
        "beside dp-accounting, delta 1e-5": rows,
        "raw": raw,
        "targets": targets,
        "notes": __doc__.partition("\n\n")[2].replace("\n", " ").strip(),
    }
