"""What the experiments rest on, where it is certain: closed forms, brute force, and verdicts no seed can change."""

import math

import numpy as np
import pytest

from adaprivate import experiments, mechanisms, privacy
from adaprivate_papers import _cells, ts_theory, ts_users


def cells(name, seeds=2, keep=lambda setting: True):
    chosen = experiments.experiment(name)
    found = chosen.compare([chosen.run(setting, seeds) for setting in chosen.settings if keep(setting)])
    return {(cell.row, cell.column): cell for cell in found}


def test_growth_exponent_of_a_power():
    sizes = [10, 100, 1000]
    values = np.outer([90.0, 100.0, 110.0], np.array(sizes) ** 0.7)
    slope, sem = _cells.growth_exponent(sizes, values)
    assert slope == pytest.approx(0.7)
    assert sem == pytest.approx(0.0, abs=1e-12)
    assert _cells.growth_exponent(sizes, values[:1])[1] is None
    assert _cells.growth_exponent(sizes, -values)[0] == 0.0


def test_noise_that_adds_up_grows_as_the_root():
    found = cells("noise-growth", keep=lambda setting: setting["kind"] == "two arms" or setting["rounds"] >= 20_000)
    for batches in (1024, 4096, 16384):
        bound = found["two arms, independent noise", f"lower bound, K = {batches}, in sigma sqrt K"]
        assert bound.ours == pytest.approx(0.516, abs=5e-4)
    exponents = {row: cell for (row, column), cell in found.items() if column == ts_theory.EXPONENT}
    assert exponents["two arms, independent noise"].ours == pytest.approx(0.5, abs=0.005)
    assert exponents["two arms, independent noise"].verdict == "differs"
    for noise in ("tree", "sqrt", "blt"):
        assert exponents[f"two arms, {noise} noise"].ours < 0.13
    last = "added regret, T = 160000"
    assert (
        found["synthetic, centred, independent noise", last].ours > 3 * found["synthetic, centred, sqrt noise", last].ours
    )


def test_two_arms_by_simulation():
    # 40,000 runs; the error of each mean is below 0.5 %, allowed 3 %.
    batches, gap = 16, 0.4
    strategy = mechanisms.strategy("tree", batches)
    std = strategy.sensitivity() * strategy.prefix_std()
    noise = std * np.random.default_rng(0).standard_normal((40_000, batches))
    wrong = noise < -gap * np.arange(1, batches + 1)
    expected = ts_theory.two_arms_regret(np.array([gap]), std)[0]
    assert 2 * gap * wrong.sum(axis=1).mean() == pytest.approx(expected, rel=0.03)


def test_proposition_4_passes_and_wrong_covariances_fail():
    rows = [ts_theory.Proposition4().run(setting, 4) for setting in ts_theory.Proposition4.SETTINGS]
    for row in rows:
        right = ts_theory.covariance(row, row["factor"])
        assert ts_theory.p_value(row["deviations"], right) > 1e-6  # false alarm 1e-6 each
        for wrong in (2 / 3 * right, 3 / 2 * right, ts_theory.covariance(row, 0.0)):
            assert ts_theory.p_value(row["deviations"], wrong) < 1e-6
    assert [row["factor"] for row in rows[:3]] == pytest.approx([1, 4, 16])
    for row in rows[1:]:
        assert ts_theory.p_value(row["deviations"], ts_theory.covariance(row, 1.0)) < 1e-6
    verdicts = [cell.verdict for cell in ts_theory.Proposition4().compare(rows) if cell.column == ts_theory.PART]
    assert verdicts == ["agrees", "differs", "differs", "not-in-paper"]


def test_p_values_are_uniform_when_all_is_right():
    rng = np.random.default_rng(1)
    root = np.array([[2.0, 0, 0], [1.0, 0.5, 0], [-1.0, 0.3, 0.1]])
    found = [ts_theory.p_value(rng.standard_normal((600, 3)) @ root.T, root @ root.T) for _ in range(600)]
    assert abs(np.mean(found) - 0.5) < 5 * math.sqrt(1 / 12 / 600)  # five standard errors: false alarm 6e-7
    assert 0.05 < np.mean(np.array(found) < 0.1) < 0.17


def test_forced_rounds_are_rare():
    found = cells("forced-exploration", keep=lambda setting: setting["options"]["epsilon"] == 1.0)
    share = found["AdaPrivate-TS, epsilon 1, forced", "forced rounds, %, at most"]
    t = np.arange(1, 10_001)
    assert share.verdict == "agrees"
    assert share.ours == pytest.approx(100 * np.minimum(1, np.log(t) / t).mean(), abs=0.25)  # 5 standard errors


def test_group_budgets():
    for events, printed in ((1, 0.450), (5, 0.018), (10, 0.0045)):
        assert round(ts_users.RHO / events**2, 4 if events == 10 else 3) == printed
    assert ts_users.sigma(ts_users.NAIVE, 10) == pytest.approx(10.545, abs=1e-3)
    assert ts_users.sigma(ts_users.SPACED, 10) == pytest.approx(2.820, abs=1e-3)


@pytest.mark.parametrize("events", [1, 2, 5, 8])
@pytest.mark.parametrize("clip", [0.7, 1.0, 2.3, 100.0])
def test_worst_spread_of_events(events, clip):
    def attained(n):
        return max(min(m, clip) + min(n - m, clip) for m in range(n + 1))

    def partitions(n, largest):
        return [[]] if n == 0 else [[m, *p] for m in range(1, min(n, largest) + 1) for p in partitions(n - m, m)]

    splits = partitions(events, events)
    assert privacy.clipped_reach(events, clip, attained=True) ** 2 == pytest.approx(
        max(sum(attained(n) ** 2 for n in split) for split in splits)
    )
    assert privacy.clipped_reach(events, clip) ** 2 == pytest.approx(
        max(sum(min(n, 2 * clip) ** 2 for n in split) for split in splits)
    )


def test_clipping_as_published_is_unsound():
    found = cells("group-privacy", keep=lambda setting: setting["rule"] == ts_users.CLIPPED)
    for events in (10, 20):
        cell = found[f"{ts_users.CLIPPED}, k = {events}", ts_users.TRUE]
        assert cell.verdict == "unsound-as-published"
        assert cell.ours > 10


@pytest.mark.parametrize("dimension", [5, 20, 50])
def test_effective_dimension_is_at_least_the_cube(dimension):
    even = ts_theory.spectrum(0.0, dimension)
    assert ts_theory.effective_dimension(even) == pytest.approx(dimension**3)
    steep = ts_theory.spectrum(2.0, dimension)
    i = np.arange(1, dimension + 1)
    assert ts_theory.effective_dimension(steep) == pytest.approx((i**-2.0).sum() ** 2 * (i**4.0).sum())
    assert ts_theory.effective_dimension(steep) > dimension**3


def test_trace_follows_the_definition():
    setting = {"row": "", "spectrum": "mu_i ~ i^-2", "dimension": 10}
    trace = ts_theory.EffectiveDimension().run(setting, 4)["trace"].mean()
    assert trace == pytest.approx(ts_theory.effective_dimension(ts_theory.spectrum(2.0, 10)), rel=0.3)


def test_noise_on_the_design_costs():
    found = cells("table4", seeds=12)
    assert found["+ noise on b only", "gain, points"].ours > 2
    exact, published = "TS, sampling q=0.5, exact noise", "+ sampling q=0.5, published noise"
    assert found[exact, "% of LinUCB"].ours < found[published, "% of LinUCB"].ours
    assert found[exact, "% of LinUCB"].ours < found["TS, exact noise, no sampling", "% of LinUCB"].ours
