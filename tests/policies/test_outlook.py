"""What the noise-aware policies choose by the first offers: the design seen, the forecasts written out, and the choice."""

import dataclasses
import math
import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaprivate import LittleToLearnWarning, environments, policies, privacy
from adaprivate.mechanisms.informative import Informative
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.policies.noise_aware import outlook as rules
from adaprivate.policies.noise_aware.outlook import (
    LITTLE,
    Choice,
    Design,
    Outlook,
    best_forecast,
    choose,
    design,
    forecasts,
    score_precision,
)
from adaprivate.policies.noise_aware.state import CHANNELS
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import policy_settings, run_all


def alike(one, other):
    """The same choice; its forecast but for the last digits, which depend on how linear algebra adds."""
    return dataclasses.replace(one, forecast=other.forecast) == other and math.isclose(
        one.forecast, other.forecast, rel_tol=1e-12
    )


KINDS = ["noise-aware", "noise-aware-ts", "noise-aware-ucb", "noise-aware-greedy"]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def fresh(rounds, candidates, d, seed=0):
    return list(unit(np.random.default_rng([seed, 1]).standard_normal((rounds, candidates, d))))


def catalogued(rounds, candidates, d, items, seed=0):
    rng = np.random.default_rng([seed, 2])
    rows = unit(rng.standard_normal((items, d)))
    return [rows[rng.choice(items, candidates, replace=False)] for _ in range(rounds)]


def blocked(rounds, classes, p, seed=0):
    contexts = unit(np.random.default_rng([seed, 3]).uniform(0.1, 1, (rounds, p)))
    return [np.kron(np.eye(classes), context) for context in contexts]


def sharing(rounds, candidates, d, size, seed=0):
    """Candidates z_a + size c, c the same for all of a round."""
    rng = np.random.default_rng([seed, 4])
    return list(unit(rng.standard_normal((rounds, candidates, d)) + size * rng.standard_normal((rounds, 1, d))))


def seen(groups, catalogue=None):
    return design(np.vstack(groups), np.repeat(np.arange(len(groups)), [len(group) for group in groups]), catalogue)


def public(rounds, epsilon, d, **options):
    """The public numbers of a policy's forecast."""
    return policies.settings("noise-aware", {"dimension": d, "rounds": rounds, "epsilon": epsilon, **options}).outlook


# --- the design -----------------------------------------------------------------------------------------------------


def within(groups):
    """The covariance of candidates around the mean of their round, element by element."""
    d = groups[0].shape[1]
    total, freedom = np.zeros((d, d)), 0
    for group in groups:
        mean = sum(group) / len(group)
        for row in group:
            total += np.outer(row - mean, row - mean)
        freedom += len(group) - 1
    return total / freedom


@pytest.mark.parametrize(("rounds", "candidates", "d"), [(15, 5, 4), (49, 5, 20), (30, 2, 3), (3, 6, 8)])
def test_fresh_features_never_come_back(rounds, candidates, d):
    groups = fresh(rounds, candidates, d)
    found = seen(groups)
    assert (found.dimension, found.candidates, found.items, found.turnover) == (d, candidates, math.inf, 1.0)
    assert not found.blocks
    assert found.length == pytest.approx(1.0)
    assert found.spread == pytest.approx(np.trace(within(groups)), rel=1e-12)
    assert found.effective == pytest.approx(d, rel=0.25)  # though so few rows cannot fill so many directions
    spectrum = np.array(found.spectrum)
    assert len(spectrum) == d
    assert spectrum.min() > 0
    assert spectrum.sum() == pytest.approx(found.spread, rel=0.01)
    assert spectrum.sum() ** 2 / (spectrum**2).sum() == pytest.approx(found.effective, rel=0.02)


def test_directions_that_hardly_vary_are_not_counted():
    groups = [group * [1.0, 1.0, 0.01, 0.01, 0.01] for group in fresh(60, 5, 5)]
    found = seen(groups)
    assert found.effective == pytest.approx(2, rel=0.1)
    values = np.linalg.eigvalsh(within(groups))
    np.testing.assert_allclose(found.spectrum[-2:], values[-2:], rtol=0.1)
    assert max(found.spectrum[:3]) < 0.01 * found.spectrum[-1]


@pytest.mark.parametrize("items", [12, 40, 100])
def test_the_number_of_items_is_estimated_by_how_often_they_return(items):
    """40 rounds of four: within a tenth on average over 40 worlds, and never off by half."""
    estimates = [seen(catalogued(40, 4, 5, items, seed)).items for seed in range(40)]
    assert np.mean(estimates) == pytest.approx(items, rel=0.1)
    assert all(0.5 * items < estimate < 1.6 * items for estimate in estimates)
    assert all(seen(catalogued(40, 4, 5, items, seed), catalogue=77).items == 77.0 for seed in range(3))


@pytest.mark.parametrize(("draws", "distinct"), [(10, 9), (100, 20), (480, 479), (50, 2), (3, 2), (7, 1)])
def test_so_many_items_make_so_many_distinct_draws(draws, distinct):
    """N (1 - (1 - 1/N)^n) of them, for n draws of N."""
    count = rules._items(draws, distinct)
    expected = count * (1 - (1 - 1 / count) ** draws) if count > 1 else 1.0
    assert expected == pytest.approx(distinct, abs=1e-5)
    assert rules._items(draws, draws) == math.inf


def test_fixed_candidates_have_no_turnover():
    rows = fresh(1, 6, 4)[0]
    found = seen([rows[np.random.default_rng(t).permutation(6)] for t in range(20)])
    assert found.turnover == 0.0
    assert found.items == pytest.approx(6, rel=1e-6)
    assert found.candidates == 6.0
    half = seen([rows[[0, 1, 2 + t % 2, 4 + t % 2]] for t in range(20)])
    assert half.turnover == 0.5


def test_one_hot_candidates_are_items_and_no_blocks():
    rng = np.random.default_rng(4)
    found = seen([np.eye(10)[rng.choice(10, 4, replace=False)] for _ in range(40)])
    assert not found.blocks
    assert found.items == pytest.approx(10, rel=0.05)
    assert found.effective > 5


@pytest.mark.parametrize("size", [1.0, 3.0, 5.0])
def test_a_shared_component_is_told_of_but_is_no_difference(size):
    """Candidates then have covariance I/d in all, of which 1 / (1 + size^2) is within a round."""
    found = seen(sharing(80, 5, 6, size))
    assert found.spread == pytest.approx(1 / (1 + size**2), rel=0.15)
    assert sum(found.spectrum) == pytest.approx(1.0, rel=0.1)
    assert found.shared == pytest.approx(1 + size**2, rel=0.15)
    assert sum(found.shares) == pytest.approx(1.0)
    assert max(found.shares) < 2 / 6


def test_directions_that_only_rounds_vary_in_say_nothing_of_differences():
    """Two coordinates of the candidate beside two of the round."""
    rng = np.random.default_rng(6)
    groups = [np.hstack([rng.standard_normal((4, 2)), np.tile(2 * rng.standard_normal(2), (4, 1))]) / 9 for _ in range(60)]
    found = seen(groups)
    assert np.sort(found.shares)[:2] == pytest.approx([0.0, 0.0], abs=0.02)
    of_round = np.argsort(found.shares)[:2]
    assert np.array(found.spectrum)[of_round] * 81 == pytest.approx([4.0, 4.0], rel=0.4)


@pytest.mark.parametrize(
    "groups",
    [fresh(49, 5, 20), fresh(15, 2, 3), catalogued(40, 4, 5, 12), catalogued(1, 5, 5, 5) * 20, blocked(30, 4, 3)],
    ids=["fresh", "pairs", "items", "fixed", "blocks"],
)
def test_candidates_drawn_one_by_one_share_nothing(groups):
    found = seen(groups)
    assert found.shares == ()
    assert found.shared == 1.0
    assert found.scale == found.spread


@pytest.mark.parametrize(("classes", "p"), [(3, 2), (7, 5), (2, 10)])
def test_class_times_context_is_seen(classes, p):
    groups = blocked(30, classes, p)
    found = seen(groups)
    assert found.blocks
    assert found.candidates == classes
    assert found.spread == found.length == pytest.approx(1.0)
    assert found.items == math.inf
    contexts = np.array([group[0, :p] for group in groups])
    squares = [(contexts[i] @ contexts[j]) ** 2 for i in range(30) for j in range(30) if i != j]
    assert found.effective == pytest.approx(min(p, max(1.0, 1 / np.mean(squares))), rel=1e-9)
    assert sum(found.spectrum) == pytest.approx(1.0, rel=0.05)
    shared = [group.copy() for group in groups]
    shared[-1][:, 0] = 0.1  # one coordinate that two candidates share, in one round
    assert not seen(shared).blocks
    assert not seen([group[:1] for group in groups]).blocks  # nothing to share it with


def test_candidates_may_vary_in_number():
    groups = [group[: 1 + t % 4] for t, group in enumerate(fresh(20, 4, 3))]
    found = seen(groups)
    assert found.candidates == 2.5
    assert found.turnover == 1.0
    assert found.spread == pytest.approx(np.trace(within(groups)), rel=1e-12)


@pytest.mark.parametrize(
    "groups",
    [
        fresh(1, 5, 3),
        fresh(12, 1, 3),
        fresh(1, 1, 3),
        [np.zeros((4, 3))] * 6,
        [np.zeros((1, 3))],
        [np.vstack([np.zeros((2, 3)), group]) for group in fresh(5, 2, 3)],
        [np.full((4, 3), 1e-200)] * 3,
        [1e-160 * group for group in blocked(5, 3, 2)],
        [np.ones((3, 1))] * 4,
        [np.full((3, 3), 0.5)] * 4,
    ],
    ids=["one round", "one candidate", "one vector", "zeros", "a zero", "some zeros", "tiny", "tiny blocks", "1d", "alike"],
)
def test_whatever_is_offered_gives_finite_numbers(groups):
    found = seen(groups)
    finite(found)
    for epsilon in (0.1, 5.0):
        for channels in (CHANNELS, *((one,) for one in CHANNELS)):
            for rounds in (1, 30, 10_000):
                finite_choice(choose(found, public(rounds, epsilon, found.dimension), channels, None), channels, rounds)


def finite(found):
    assert all(np.isfinite(found.spectrum))
    assert min(found.spectrum) > 0
    assert 0 < found.spread < math.inf
    assert 0 < found.length < math.inf
    assert 1 <= found.effective <= found.dimension
    assert 0 <= found.turnover <= 1
    assert found.items >= 1


def finite_choice(choice, channels, rounds):
    numbers = {name: value for name, value in dataclasses.asdict(choice).items() if name != "channel"}
    assert all(math.isfinite(value) for value in numbers.values()), numbers
    assert choice.channel in channels
    assert choice.ridge > 0
    assert choice.precision > 0
    assert choice.block >= 1
    assert choice.growth > 1
    assert 0 <= choice.first <= rounds
    assert 0 < choice.rate <= 1
    assert choice.width == 0.85 or 0.3 <= choice.width <= 0.5
    assert 0 <= choice.forecast <= 1


NUMBERS = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e-9, 0.5]), st.floats(-1, 1, allow_nan=False))


@st.composite
def any_offers(draw):
    d, counts = draw(st.integers(1, 4)), draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    rows = np.array(draw(st.lists(NUMBERS, min_size=d * sum(counts), max_size=d * sum(counts)))).reshape(-1, d)
    rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return np.split(rows, np.cumsum(counts)[:-1])


@given(
    groups=any_offers(),
    epsilon=st.floats(1e-3, 20.0),
    rounds=st.integers(1, 10**6),
    channels=st.sampled_from([CHANNELS, *((one,) for one in CHANNELS)]),
    base_rate=st.one_of(st.none(), st.floats(1e-3, 0.999)),
)
def test_whatever_finite_offers_arrive_the_choice_is_finite(groups, epsilon, rounds, channels, base_rate):
    found = seen(groups)
    finite(found)
    finite_choice(
        choose(found, public(rounds, epsilon, found.dimension, base_rate=base_rate), channels, None), channels, rounds
    )


@pytest.mark.parametrize("groups", [fresh(10, 4, 5), catalogued(10, 4, 5, 8), blocked(12, 3, 4), fresh(10, 1, 5)])
@pytest.mark.parametrize("factor", [0.1, 1e-3, 1e-6])
def test_the_scale_of_features_is_that_of_the_prior_alone(groups, factor):
    """No forecast depends on it, that of sums neither: directions are summed."""
    whole, small = seen(groups), seen([factor * group for group in groups])
    assert small.spread == pytest.approx(factor**2 * whole.spread)
    assert small.length == pytest.approx(factor**2 * whole.length)
    np.testing.assert_allclose(small.spectrum, factor**2 * np.array(whole.spectrum), rtol=1e-6)
    assert dataclasses.astuple(small)[:5] == dataclasses.astuple(whole)[:5]
    assert small.effective == pytest.approx(whole.effective)
    one, other = (choose(found, public(500, 1.0, whole.dimension), CHANNELS, None) for found in (whole, small))
    assert other.ridge == pytest.approx(factor**2 * one.ridge)
    assert dataclasses.replace(other, ridge=one.ridge, forecast=one.forecast) == one
    assert other.forecast == pytest.approx(one.forecast)


def test_where_nothing_was_offered_the_unit_vectors_stand_in():
    expected = design(np.eye(3), np.arange(3))
    assert design(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)) == expected
    assert seen([np.zeros((4, 3))] * 6) == seen([np.full((1, 3), 1e-13)]) == expected


def test_where_no_two_differ_it_counts_how_rounds_do():
    """As if there had been one candidate each time."""
    single = fresh(10, 1, 4)
    found = seen([np.repeat(group, 3, axis=0) for group in single])
    assert found.spread == pytest.approx(1.0)
    np.testing.assert_allclose(found.effective, seen(single).effective, rtol=0.5)
    assert choose(found, public(1000, 1.0, 4), CHANNELS, None).ridge > 1


# --- the forecasts, written out -------------------------------------------------------------------------------------


def test_the_public_numbers_are_those_of_the_noise():
    """Break-even of flips and one Gaussian release, isotropic: n/d of 9.5, 12.6, 15, 22, 115."""
    for epsilon, n_by_d in ((0.1, 9.5), (0.5, 12.6), (1.0, 15.0), (2.0, 22.0), (5.0, 115.0)):
        numbers = public(10_000, epsilon, 20)
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert numbers.flip_noise == pytest.approx(keep * (1 - keep) / (2 * keep - 1) ** 2, rel=1e-10)
        z = np.arange(-20_000, 20_001)
        law = np.exp(-epsilon * np.abs(z)) * math.tanh(epsilon / 2)
        assert law.sum() == pytest.approx(1)
        assert numbers.item_noise == pytest.approx(law @ z**2, rel=1e-9)
        sigma = privacy.gaussian_sigma(epsilon, 1e-5)
        assert numbers.noise_variance == pytest.approx(sigma**2 / (1 - 0.3**2))
        n = np.linspace(1, 200, 200_000)
        better = n * numbers.flip_information < n**2 / (numbers.reward_variance * n + sigma**2)
        assert n[np.argmax(better)] == pytest.approx(n_by_d, rel=0.06)


def blocks_of(start, rounds):
    """The sizes of an item's blocks that close within so many of its rounds."""
    growth, done, waiting, sizes = 1.1 + 0.2 * math.log10(start), 0, 0, []
    for _ in range(int(rounds)):
        waiting += 1
        if waiting >= max(start, (growth - 1) * done):
            sizes.append(waiting)
            done, waiting = done + waiting, 0
    return sizes


def naive(found, o, precision):
    """The share learned, for every plan: a mean over times of sqrt(sum of w I s / (1 + I s))."""
    T, v = o.rounds, o.reward_variance
    flip = 1 / (v + o.flip_noise)
    edges = [T * (k / 64) ** 2 for k in range(65)]
    D = len(found.spectrum)
    whole = [lam / sum(found.spectrum) for lam in found.spectrum]
    prior_length = math.sqrt(found.spread * (sum(found.spectrum) if found.shares else found.spread))

    def share(information):
        total = 0.0
        for low, high in pairwise(edges):
            explained = 0.0
            for lam, share_of in zip(found.spectrum, found.shares or whole, strict=True):
                if found.blocks:
                    s, w = (4 * v) ** 2 * (1 / (4 * found.effective) + 1 / 12) / (D * lam), 1 / D
                else:
                    s, w = 1 / (precision * prior_length), share_of
                told = information((low + high) / 2, lam) * s
                explained += w * told / (1 + told)
            total += (high - low) / T * math.sqrt(explained)
        return total

    plans = {("flip", T, 1): share(lambda t, lam: flip * lam * t)}
    flips = [0]
    while o.first_batch * 2 ** (len(flips) - 1) < 0.6 * T:
        flips.append(o.first_batch * 2 ** (len(flips) - 1))

    def rows(t, lam, n1):
        g = 0.0 if t - n1 < o.first_batch else (t - n1) / 1.05
        return flip * lam * min(t, n1) + (g * lam) ** 2 / (v * g * lam + 3 * o.noise_variance * found.length)

    for n1 in flips:
        plans["gaussian", n1, 1] = share(lambda t, lam, n1=n1: rows(t, lam, n1))
    if found.items < T / 3:
        if found.turnover < 0.25:
            rates = [1.0]
        else:  # the best of K uniform ranks falls into an eighth with probability (b/8)^K - (a/8)^K
            K = max(1.0, found.candidates)
            rates = [0.5 + 4 * (((a + 1) / 8) ** K - (a / 8) ** K) for a in range(8)]

        def items(t, lam, n1, start):
            gained = 0.0
            for rate in rates:
                count = max(t - n1, 0.0) / found.items * rate
                gained += sum(b * b / (v * b + o.item_noise) for b in blocks_of(start, count)) / len(rates)
            return flip * lam * min(t, n1) + found.items * lam * gained

        for n1 in flips[:4]:
            for start in (1, 2, 3, 5, 8, 12, 20, 30, 50, 100):
                plans["items", n1, start] = share(lambda t, lam, n1=n1, start=start: items(t, lam, n1, start))
    else:
        plans["items", 0, 1] = share(lambda t, lam: lam * t / (v + o.item_noise))
    return plans


FORESEEN = {
    "fresh": (fresh(15, 5, 3), 600, 1.0, {}),
    "fresh, base rate": (fresh(15, 5, 3), 600, 3.0, {"base_rate": 0.1}),
    "items": (catalogued(15, 5, 3, 8), 300, 1.0, {}),
    "items, by favour": (catalogued(15, 5, 3, 8), 90, 2.0, {}),
    "fixed": (catalogued(1, 4, 3, 4) * 10, 200, 0.5, {}),
    "blocks": (blocked(15, 3, 2), 400, 2.0, {}),
    "few rounds": (fresh(3, 5, 2), 10, 5.0, {}),
    "shared": (sharing(15, 5, 3, 3.0), 2000, 0.5, {}),
}


@pytest.mark.parametrize("case", FORESEEN)
def test_forecasts_are_their_formulas(case):
    groups, rounds, epsilon, options = FORESEEN[case]
    found = seen(groups)
    numbers = public(rounds, epsilon, found.dimension, **options)
    precision = rules.score_precision(found, numbers.reward_variance)
    made, written = forecasts(found, numbers, precision), naive(found, numbers, precision)
    assert made.keys() == written.keys()
    for plan, value in written.items():
        assert made[plan] == pytest.approx(value, rel=1e-9), plan
    favour = 0.02 if found.items <= 20 * found.dimension else 0.0
    favoured = {plan: value + favour * (plan[0] == "items") for plan, value in written.items()}
    best = max(favoured, key=favoured.get)
    assert (max(written, key=written.get)[0] == best[0]) == (case != "items, by favour")
    choice = choose(found, numbers, CHANNELS, None)
    assert (choice.channel, choice.first, choice.block) == best
    assert choice.forecast == pytest.approx(written[best], rel=1e-9)
    assert choice.growth == pytest.approx(1.1 + 0.2 * math.log10(choice.block))
    for channel in CHANNELS:
        alone = {plan: value for plan, value in written.items() if plan[0] == channel}
        picked = choose(found, numbers, (channel,), None)
        if alone:
            assert (picked.channel, picked.first, picked.block) == max(alone, key=alone.get)
        else:
            assert picked.channel == "items"


# --- the choice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "rounds", "epsilon", "channel"),
    [
        (fresh(49, 5, 20), 10_000, 0.1, "gaussian"),  # 500 d rounds
        (fresh(49, 5, 20), 10_000, 0.5, "gaussian"),
        (fresh(49, 5, 20), 10_000, 1.0, "gaussian"),
        (fresh(49, 5, 20), 10_000, 5.0, "flip"),
        (fresh(49, 5, 20), 1_000, 0.5, "flip"),  # 50 d rounds
        (fresh(49, 5, 20), 1_000, 5.0, "flip"),
        (fresh(15, 5, 3), 10_000, 2.0, "gaussian"),
        (fresh(15, 5, 3), 90, 0.5, "flip"),
        (fresh(40, 5, 100), 10_000, 1.0, "flip"),
        (sharing(49, 5, 20, 3.0), 10_000, 0.1, "gaussian"),  # differences are a tenth of what sums tell of
        (sharing(49, 5, 20, 3.0), 10_000, 0.5, "gaussian"),
        (sharing(49, 5, 20, 3.0), 10_000, 1.0, "gaussian"),
        (sharing(49, 5, 20, 3.0), 10_000, 5.0, "flip"),
        (sharing(49, 5, 20, 2.0), 10_000, 0.5, "gaussian"),
        (sharing(89, 5, 40, 5.0), 10_000, 0.1, "gaussian"),
        (catalogued(15, 5, 3, 10), 1_000, 0.1, "items"),
        (catalogued(15, 5, 3, 10), 10_000, 1.0, "items"),
        (catalogued(1, 5, 5, 5) * 20, 5_000, 1.0, "items"),
        (blocked(21, 3, 2), 10_000, 5.0, "flip"),
        (blocked(21, 3, 2), 10_000, 0.1, "gaussian"),
    ],
)
def test_channels_are_chosen_where_they_pay(groups, rounds, epsilon, channel):
    found = seen(groups)
    choice = choose(found, public(rounds, epsilon, found.dimension), CHANNELS, None)
    assert choice.channel == channel
    assert choice.intercept == (not found.blocks)
    assert choice.rate == (pytest.approx(1 / 3) if found.blocks else 0.5)
    assert choice.width == (0.85 if found.turnover < 0.25 else 0.3)


def test_what_is_foreseen_with_a_shared_component_is_reached():
    """Ten runs each; before, flips were taken at both epsilons, .15 and .6 foreseen, and .3 and .78 reached."""
    place = environments.environment("synthetic", {"arms": 0, "shared": 3.0, "signal": 4.0})
    for epsilon, least in ((0.1, 0.5), (0.5, 0.84)):
        settings = policy_settings("noise-aware", place, 10_000, {"epsilon": epsilon})
        with warnings.catch_warnings():
            warnings.simplefilter("error", LittleToLearnWarning)
            runs = run_all([settings], place, range(10))[0]
        reached = float(np.mean([run.learned_share for run in runs]))
        assert reached > least
        found = seen(sharing(49, 5, 20, 3.0))
        assert choose(found, settings.outlook, CHANNELS, None).forecast == pytest.approx(reached, abs=0.1)


def groups_of_people(rounds, items, seed=0):
    """(1, one of 2, one of 7) / sqrt(3) x one-hot items."""
    rng = np.random.default_rng([seed, 5])
    contexts = np.hstack(
        [np.ones((rounds, 1)), np.eye(2)[rng.integers(2, size=rounds)], np.eye(7)[rng.integers(7, size=rounds)]]
    )
    return [np.kron(np.eye(items), context / math.sqrt(3)) for context in contexts]


def told_of(groups, means, precision=1.0):
    """What flips tell, without their noise, of candidates that are played in turn: precision, and precision x mean."""
    played = np.array([np.append(group[t % len(group)], 1.0) for t, group in enumerate(groups)])
    earned = np.array([mean[t % len(mean)] - 0.5 for t, mean in enumerate(means)])
    return precision * played.T @ played, precision * played.T @ earned


def right_by(groups, told, weighted):
    offers, rounds = np.vstack(groups), np.repeat(np.arange(len(groups)), len(groups[0]))
    return rules.one_right(seen(groups), offers, rounds, told, weighted, 0.5)


def test_one_right_class_is_not_assumed_but_read_from_releases():
    groups = groups_of_people(400, 7)
    d = groups[0].shape[1]
    assert right_by(groups, np.zeros((d + 1, d + 1)), np.zeros(d + 1)) == 0.5
    classes = [np.eye(7)[int(np.argmax(group[0, 3:10]))] for group in groups]  # each of the seven groups has its own
    assert right_by(groups, *told_of(groups, classes, precision=4.0)) > 0.9
    for mean in (0.3, 0.7):
        assert right_by(groups, *told_of(groups, [[mean] * 7] * 400)) == 0.0
    assert right_by(groups, *told_of(groups, [[0.7] * 7] * 400, precision=1e-4)) == 0.5


def test_how_likely_one_right_class_is_sets_rate_prior_and_forecast():
    groups = groups_of_people(60, 8)
    found, numbers = seen(groups), public(7231, 1.0, 80)
    sure, undecided, other = (choose(found, numbers, CHANNELS, None, right) for right in (1.0, 0.5, 0.0))
    assert (sure.intercept, sure.rate, sure.deviation) == (False, 1 / 8, 0.0)
    assert (other.intercept, other.rate, other.deviation) == (True, 0.5, pytest.approx(0.2))
    assert (undecided.intercept, undecided.rate) == (True, 5 / 16)
    assert undecided.deviation == pytest.approx(math.sqrt(0.02 + (3 / 16) ** 2))  # the mixture's
    assert sure.ridge == undecided.ridge == pytest.approx(other.ridge / 16)
    assert (sure.width, other.width) == (pytest.approx(0.3), 0.5)
    assert other.forecast < undecided.forecast < sure.forecast
    for right, variance in ((1.0, 1.0), (0.0, 1 / 36)):  # the forecast of flips, written out
        s = (1 / (4 * found.effective) + 1 / 12) * variance / 80
        edges = [7231 * (k / 64) ** 2 for k in range(65)]
        value = 0.0
        for low, high in pairwise(edges):
            told = numbers.flip_information * (low + high) / 2 * s
            value += (high - low) / 7231 * math.sqrt(told / (1 + told))
        precision = score_precision(found, 0.25, right)
        assert forecasts(found, numbers, precision, right)["flip", 7231, 1] == pytest.approx(value)


@pytest.mark.parametrize("seed", range(4))
def test_rewards_of_mean_seven_tenths_are_not_taken_for_classes(seed):
    """Eight items that earn .65 to .75 in 14 groups: reached is about .47 of what can be learned in 7,231 rounds.

    By 1 in 8 as the mean reward .91 was foreseen, and items that were not tried seemed hopeless.
    """
    policy = made(dimension=80, rounds=7231, epsilon=1.0, seed=seed)
    rng = np.random.default_rng([seed, 6])
    for group in groups_of_people(170, 8, seed):
        decision = policy.decide(group)
        policy.learn(decision, bool(rng.random() < 0.65 + 0.1 * (np.argmax(group[decision.action]) // 10) / 7))
    policy.advance()
    choice = policy.settings.choice
    assert choice.intercept
    assert choice.rate > 0.4
    assert choice.forecast == pytest.approx(0.47, abs=0.12)


def test_a_base_rate_that_is_told_says_whether_one_class_is_right():
    for rate, right in ((0.7, 0.0), (0.125, 1.0), (0.14, 1.0), (0.3, 0.0)):
        settings = policies.settings("noise-aware", {"dimension": 80, "rounds": 7231, "base_rate": rate})
        assert settings._one_right(seen(groups_of_people(40, 8)), settings.learner()) == right


def test_blocks_grow_as_epsilon_falls():
    found = seen(catalogued(15, 5, 3, 10))
    blocks = [choose(found, public(10_000, epsilon, 3), CHANNELS, None).block for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0)]
    assert blocks == sorted(blocks, reverse=True)
    assert blocks[0] >= 30
    assert blocks[-1] == 1


def test_the_prior_is_that_of_scores():
    """tau = .5/sqrt(d), or sqrt(1/(4 p) + 1/6) in blocks, times 4 v; ridge = spread / tau^2, precision rounded."""
    for found, tau in (
        (seen(fresh(40, 5, 6)), 0.5 / math.sqrt(6)),
        (seen(catalogued(40, 4, 3, 40)), 0.5 / math.sqrt(3)),
        (few := seen(catalogued(40, 3, 5, 6)), 0.5 / math.sqrt(few.effective)),
        (same := seen(catalogued(1, 5, 5, 5) * 20), 0.7 / math.sqrt(same.effective)),
        (blocks := seen(blocked(30, 4, 3)), math.sqrt(1 / (4 * blocks.effective) + 1 / 6)),
    ):
        for rate, v in ((None, 0.25), (0.1, 0.09)):
            numbers = public(1000, 1.0, found.dimension, base_rate=rate)
            choice = choose(found, numbers, CHANNELS, None)
            assert choice.ridge == pytest.approx(found.spread / (4 * v * tau) ** 2, rel=1e-12)
            octaves = 4 * math.log2(choice.precision)
            assert octaves == pytest.approx(round(octaves), abs=1e-9)
            assert abs(octaves - 4 * math.log2(1 / (4 * v * tau) ** 2)) <= 0.5 + 1e-9
            assert choose(found, numbers, CHANNELS, 33.0) == dataclasses.replace(choice, ridge=33.0)


def test_many_items_are_not_favoured():
    """The same forecasts, but for how many items there are for each dimension: 20 at most are favoured."""
    few = seen(catalogued(15, 5, 3, 10))
    for items in (60.0, 61.0):
        found = dataclasses.replace(few, items=items)
        numbers = public(10_000, 5.0, 3)
        by_plan = forecasts(found, numbers, score_precision(found, 0.25))
        best = {name: max(value for plan, value in by_plan.items() if plan[0] == name) for name in CHANNELS}
        ahead = max(best["flip"], best["gaussian"]) - best["items"]
        assert 0 < ahead < 0.02
        assert (choose(found, numbers, CHANNELS, None).channel == "items") == (items == 60.0)


# --- in a policy ----------------------------------------------------------------------------------------------------


def made(name="noise-aware", seed=0, **options):
    return Policy(policies.settings(name, {"dimension": 3, "rounds": 1000, **options}), seed=seed, source=None)


OFFERS = {"fresh": fresh(30, 5, 3), "items": catalogued(30, 5, 3, 10), "one": fresh(30, 1, 3)}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("case", OFFERS)
@pytest.mark.parametrize("channel", ["auto", *CHANNELS])
def test_nothing_that_is_chosen_depends_on_rewards_or_noise(name, case, channel):
    plans = []
    for seed, rewards in ((0, np.zeros(30)), (1, np.ones(30)), (2, np.random.default_rng(1).uniform(size=30))):
        policy = made(name, seed=seed, channel=channel)
        for offered, reward in zip(OFFERS[case], rewards, strict=True):
            policy.learn(policy.decide(offered), float(reward))
        plans.append(policy.settings.plan.to_bytes())
        assert alike(policy.settings.choice, made_choice(policy.settings, OFFERS[case]))
    assert plans[0] == plans[1] == plans[2]
    assert plan_from_bytes(plans[0]).choice == dataclasses.asdict(policy.settings.choice)


def made_choice(settings, groups):
    """By the rules, from the decisions that are scouted."""
    found = choose(seen(groups[: settings.scouted]), settings.outlook, settings.channels, settings.ridge)
    return dataclasses.replace(found, first=max(settings.scouted, found.first) if settings.channel == "auto" else 0)


@pytest.mark.parametrize("channel", ["auto", *CHANNELS])
def test_rounds_that_others_decided_offer_nothing(channel):
    """The unit vectors stand for what is not known."""
    policy = made(channel=channel)
    for t, offered in enumerate(OFFERS["fresh"]):
        policy.observe(offered[0], float(t % 2))
    policy.advance()
    assert alike(policy.settings.choice, made_choice(policy.settings, [row[None] for row in np.eye(3)]))
    assert isinstance(policy.settings.choice, Choice)


@pytest.mark.parametrize("case", OFFERS)
def test_candidates_considered_have_been_seen(case):
    """As in replay, where others decided: the choice is that of a policy that decided itself."""
    policy, asked = made(), made()
    for t, offered in enumerate(OFFERS[case]):
        policy.learn(policy.decide(offered), 0.5)
        asked.observe(offered[asked.consider(offered)], float(t % 2))
        policy.propensities(offered * 0.5)  # which are asked of a copy
    policy.advance()
    asked.advance()
    assert policy.settings.choice == asked.settings.choice
    assert alike(policy.settings.choice, made_choice(policy.settings, OFFERS[case]))


@pytest.mark.parametrize("batch_size", [400, 550, 999, 1000])
def test_sums_are_not_chosen_where_no_batch_would_end_in_time(batch_size):
    """Batches of more than half of all rounds, at an epsilon that calls for sums: scouting alone leaves no room for one."""
    options = {"batch_size": batch_size, "epsilon": 0.01}
    policy = made(**options)
    free = choose(seen(OFFERS["fresh"]), policy.settings.outlook, CHANNELS, None)
    for offered in fresh(1001, 2, 3, seed=4):
        policy.learn(policy.decide(offered), 0.5)
    policy.advance()
    assert free.channel == ("gaussian" if batch_size < 900 else "flip")
    assert policy.settings.choice.channel == ("gaussian" if batch_size == 400 else "flip")
    assert policy.round == 1001
    assert policy.version == (400 if batch_size == 400 else 1001)


def test_more_candidates_than_can_be_kept_are_no_obstacle():
    policy = made(dimension=2, rounds=400)
    rng = np.random.default_rng(5)
    groups = [unit(rng.standard_normal((count, 2))) for count in (300, 200, 100, 600, 80, 3, 5, 5, 5, 5, 5, 5, 5, 5, 5)]
    for offered in groups:
        policy.learn(policy.decide(offered), 1.0)
    kept = [groups[i][:120] for i in (0, 1, 2, 3, 5, 6, 7, 8)]  # at most 120 of a decision, 480 in all
    settings = policy.settings
    found = choose(seen(kept), settings.outlook, settings.channels, None)
    assert alike(settings.choice, dataclasses.replace(found, first=max(settings.scouted, found.first)))
    huge = made(dimension=2, rounds=400)
    for _ in range(15):
        huge.learn(huge.decide(unit(rng.standard_normal((700, 2)))), 1.0)
    assert huge.settings.choice.ridge == pytest.approx(8, rel=0.1)


def test_planning_for_a_million_rounds_is_little_work(monkeypatch):
    """One fit of few batches, some dozen forecasts of a few dozen releases each: whatever the rounds."""
    fits, forecast, releases = [], [], []
    fit, share, searched = Informative.__init__, rules.explained, np.searchsorted

    def fitted(self, steps, *args, **options):
        fits.extend([steps] * (steps > 3))  # less is tried on every strategy when settings are checked
        fit(self, steps, *args, **options)

    def foreseen(seen, outlook, precision, told, right=True):
        forecast.append(told.size)
        return share(seen, outlook, precision, told, right)

    def found(released, *args, **options):
        releases.append(len(released))
        return searched(released, *args, **options)

    monkeypatch.setattr(Informative, "__init__", fitted)
    monkeypatch.setattr(rules, "explained", foreseen)
    settings = policies.settings("noise-aware", {"dimension": 8, "rounds": 10**6, "epsilon": 0.3})
    learner = settings.learner()
    groups = catalogued(settings.scouted, 5, 8, 40)
    rows = np.vstack(groups)
    learner.offers[: len(rows)], learner.offered_in[: len(rows)] = rows, np.repeat(np.arange(len(groups)), 5)
    learner.scalars["offers"] = len(rows)
    with monkeypatch.context() as patched:
        patched.setattr(rules.np, "searchsorted", found)
        longer = settings.extended(learner)
    assert isinstance(longer.choice, Choice)
    assert max(releases) < 300
    assert len(releases) == 40
    assert len(forecast) < 70
    assert sum(forecast) < 70 * 64 * 8
    alone = dataclasses.replace(settings, channel="gaussian")
    gaussian = alone.extended(alone.learner())
    assert gaussian.rows is not None
    assert gaussian.rows.tables.decoder.shape == (len(gaussian.ends),) * 2
    assert len(fits) <= 1
    assert len(gaussian.ends) < 120
    twice = gaussian.extended(alone.learner())
    assert len(twice.ends) < len(gaussian.ends) + 12  # one more fit, of a few batches
    assert twice.rows is not None
    assert len(twice.rows.epochs) == 2
    assert len(fits) <= 2
    assert isinstance(seen(groups), Design)
    assert isinstance(settings.outlook, Outlook)


def test_a_policy_says_once_that_little_can_be_learned():
    """By the number that was foreseen, and what would help: each of them alone does."""
    options = {"dimension": 60, "rounds": 600, "epsilon": 0.5, "delta": 1.1e-6}
    groups = fresh(40, 5, 60)

    def played():
        policy = made(**options)
        for group in groups:
            policy.learn(policy.decide(group), 1.0)

    with pytest.warns(LittleToLearnWarning, match=r"about 0\.0\d .* 60 dimensions, 600 rounds and epsilon 0\.5") as said:
        played()
    assert len(said) == 1
    helps = str(said[0].message).partition("each alone: ")[2]
    rounds = int(re.search(r"([\d,]+) rounds", helps)[1].replace(",", ""))
    found = seen(groups[:30])
    before, after = (best_forecast(found, public(T, 0.5, 60), CHANNELS) for T in (600, rounds))
    assert before < LITTLE < 0.2 < after
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy = made(dimension=3, rounds=5_000, epsilon=1.0)
        for group in fresh(40, 5, 3):
            policy.learn(policy.decide(group), 1.0)
