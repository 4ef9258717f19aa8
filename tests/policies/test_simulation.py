"""The simulation loop: the same world for everyone, the same numbers on any machine size, one clear line for a mistake."""

import math
from functools import partial
from typing import NamedTuple

import numba
import numpy as np
import polars as pl
import pytest

from adaprivate import environments, policies, simulation
from adaprivate.compiled import below, streams
from adaprivate.policies.core.dispatch import selects, updates
from adaprivate.report import simulation_table
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import episode, run_one, simulate, whole_state

WORLD = environments.environment("synthetic", {"dimension": 5, "arms": 30, "candidates": 4})
NAMES = ["adaprivate-ts", "adaprivate-ucb", "lints", "linucb", "random"]


def made(name, rounds=80, **options):
    if name.startswith("adaprivate"):
        options = {"batch_size": 9, **options}
    return policies.settings(name, {"dimension": 5, "rounds": rounds, **options})


run_all = partial(simulation.run_all, keep_state=whole_state)


def leaves(state):
    return [leaf for part in state for leaf in leaves(part)] if isinstance(state, tuple) else [state]


def same(one, two):
    """Two runs agree in every bit, their time excepted."""
    assert (one.seed, one.reward, one.regret, one.best, one.random) == (
        two.seed,
        two.reward,
        two.regret,
        two.best,
        two.random,
    )
    assert np.array_equal(one.curve, two.curve)
    assert type(one.state) is type(two.state)
    assert [leaf.tolist() for leaf in leaves(one.state)] == [leaf.tolist() for leaf in leaves(two.state)]


def all_same(one, two):
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)


def test_one_job_or_two_same_numbers():
    chosen = [made(name) for name in NAMES]
    all_same(run_all(chosen, WORLD, range(6), jobs=1), run_all(chosen, WORLD, range(6), jobs=2))


def test_a_policy_does_not_care_which_others_run():
    together = run_all([made(name) for name in NAMES], WORLD, range(4))
    for place, name in enumerate(NAMES):
        all_same(run_all([made(name)], WORLD, range(4)), [together[place]])
    backwards = run_all([made(name) for name in reversed(NAMES)], WORLD, range(4))
    all_same(backwards[::-1], together)


@pytest.mark.parametrize("noise", ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"])
def test_neither_chunks_nor_other_seeds_matter(noise, monkeypatch):
    chosen = [made("adaprivate-ts", noise=noise)]
    whole = run_all(chosen, WORLD, range(24), jobs=1)
    for size in (1, 5):
        monkeypatch.setattr(simulation, "CHUNK", size)
        all_same(run_all(chosen, WORLD, range(24), jobs=1), whole)
    all_same(run_all(chosen, WORLD, [17, 3]), [[whole[0][17], whole[0][3]]])
    same(run_one(chosen[0], WORLD, 5, chosen[0].noise_tables([5])[0]), whole[0][5])


def test_other_seeds_are_other_worlds_and_other_noise():
    one, two = run_all([made("adaprivate-ts")], WORLD, [0, 1])[0]
    assert one.best != two.best
    assert not np.array_equal(one.state.book.noise, two.state.book.noise)


class Recorder(NamedTuple):
    """Writes down what it is offered; plays the first candidate, or one at random."""

    seen: np.ndarray
    rewards: np.ndarray
    counts: np.ndarray


@selects.of(Recorder)
def _select(state, candidates, rng):
    t = state.counts[0]
    for a in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            state.seen[t, a, j] = candidates[a, j]
    if state.counts[1] > 0:
        return below(rng, 0, candidates.shape[0])
    return 0


@updates.of(Recorder)
def _update(state, features, reward, rng):
    state.rewards[state.counts[0]] = reward
    state.counts[0] += 1


@pytest.mark.parametrize("name", ["synthetic", "rank-deficient"])
def test_every_policy_meets_the_same_world(name, replay):
    options = {"dimension": 6, "arms": 12, "candidates": 3, **({"rank": 2, "period": 7} if name != "synthetic" else {})}
    place = environments.environment(name, options)
    rounds, seed = 50, 4
    loop = numba.njit(episode.py_func)  # the same loop, kept out of the cache on disk
    recorded = []
    for random in (0, 1):
        state = Recorder(np.zeros((rounds, 3, 6)), np.zeros(rounds), np.array([0, random]))
        own, shared = streams(seed, 3, 4), streams(seed, 1, 2)
        totals, world, curve = np.zeros(5), place.world(seed), np.zeros(10)
        for first, last in ((0, 17), (17, rounds)):  # as policies play that plan on in between
            loop(state, world, first, last, rounds, 3, 6, own, shared, totals, curve)
        assert curve[-1] == totals[1]
        assert np.all(np.diff(curve, prepend=0) >= 0)
        recorded.append((state, totals))
    candidates, means, rewards = replay(place, seed, rounds)
    for state, totals in recorded:
        assert np.array_equal(state.seen, candidates)
        assert totals[2] == pytest.approx(means.max(axis=1).sum(), rel=1e-13)
        assert totals[3] == pytest.approx(means.mean(axis=1).sum(), rel=1e-13)
        assert totals[0] == state.rewards.sum()
    assert np.array_equal(recorded[0][0].rewards, rewards[:, 0])
    assert not np.array_equal(recorded[0][0].rewards, recorded[1][0].rewards)
    real = run_all(
        [policies.settings(n, {"dimension": 6, "rounds": rounds}) for n in ("lints", "linucb", "random")], place, [seed]
    )
    assert {(runs[0].best, runs[0].random) for runs in real} == {(recorded[0][1][2], recorded[0][1][3])}


class Stop:
    """A progress callback that is interrupted at its n-th call."""

    def __init__(self, calls, error=KeyboardInterrupt):
        self.left, self.error = calls, error

    def __call__(self, rounds):
        self.left -= 1
        if self.left == 0:
            raise self.error


def test_an_interruption_keeps_the_seeds_all_have_finished():
    chosen, seeds = [made("lints"), made("random")], range(8)
    whole = run_all(chosen, WORLD, seeds, jobs=1)
    kept = run_all(chosen, WORLD, seeds, jobs=1, progress=Stop(3), keep_finished=True)  # three of the four pieces of work
    assert [run.seed for run in kept[0]] == [run.seed for run in kept[1]] in ([0, 1, 2, 3], [4, 5, 6, 7])
    all_same(kept, [[runs[run.seed] for run in kept[0]] for runs in whole])
    table = simulate(["lints"], rounds=50, seeds=8, jobs=1, progress=Stop(5))  # five of six: 6 and 2 seeds, 3 policies
    assert table["seeds"].to_list() in ([6], [2])


def test_an_interruption_before_any_seed_is_finished_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        run_all([made("lints"), made("random")], WORLD, range(8), jobs=1, progress=Stop(1), keep_finished=True)


def test_other_errors_are_passed_on():
    with pytest.raises(RuntimeError):
        run_all([made("lints")], WORLD, range(8), jobs=2, progress=Stop(1, RuntimeError))


def test_progress_adds_up():
    seen = []
    run_all([made("lints"), made("random")], WORLD, range(11), jobs=2, progress=seen.append)
    assert sum(seen) == 2 * 11 * 80


def test_simulate_columns_and_values():
    seeds, rounds = [3, 4, 5, 9], 200
    options = {"dimension": 5, "arms": 30, "candidates": 4, "batch_size": 20, "alpha": 0.5}
    table = simulate(
        ["adaprivate-ucb", "random"], rounds=rounds, seeds=seeds, epsilon=[1, 5.0], delta=1e-6, options=options
    )
    assert table["policy"].to_list() == ["adaprivate-ucb", "adaprivate-ucb", "random"]
    assert table["epsilon"].to_list() == [1, 5, None]
    assert table["delta"].to_list() == [1e-6, 1e-6, None]
    assert table["alpha"].to_list() == [0.5, 0.5, None]
    assert set(table["environment_arms"]) == {30}
    assert set(table["seeds"]) == {4}
    chosen = [
        *(policies.settings(n, {"dimension": 5, "rounds": rounds}) for n in ("linucb", "tuned-linucb")),  # their defaults
        *(made("adaprivate-ucb", rounds, batch_size=20, alpha=0.5, epsilon=e, delta=1e-6) for e in (1.0, 5.0)),
        made("random", rounds),
    ]
    base, tuned, *others = run_all(chosen, WORLD, seeds)
    for row, runs in zip(table.to_dicts(), others, strict=True):
        reward = np.array([r.reward for r in runs])
        regret = np.array([r.regret for r in runs])
        best, floor = np.array([r.best for r in runs]), np.array([r.random for r in runs])
        assert row["reward_mean"] == pytest.approx(reward.sum() / 4)
        assert row["reward_sem"] == pytest.approx(math.sqrt(((reward - reward.mean()) ** 2).sum() / 3 / 4))
        assert row["regret_mean"] == pytest.approx(regret.sum() / 4)
        for yardstick, name, sem in (
            (base, "percent_of_linucb", "percent_sem"),
            (tuned, "percent_of_tuned_linucb", "percent_of_tuned_linucb_sem"),
        ):
            theirs = np.array([r.reward for r in yardstick])
            ratio = reward.sum() / theirs.sum()
            assert row[name] == pytest.approx(100 * ratio)
            residual = reward - ratio * theirs
            linear = math.sqrt((residual**2).sum() / 3 / 4) / theirs.mean()  # the residuals add up to nothing
            assert row[sem] == pytest.approx(100 * linear)
        share = (best - regret - floor) / (best - floor)
        assert row["learned_share"] == pytest.approx(share.mean())
        assert row["learned_share_sem"] == pytest.approx(share.std(ddof=1) / 2)
        assert row["rounds_per_second"] > 0
    assert table["guarantee"][0] == chosen[2].guarantee().sentence


def test_runs_add_up(replay):
    """Reward, regret and curve of a run, from the world and the policy's own choices replayed one by one."""
    settings = made("random", 60)
    run = run_one(settings, WORLD, 8, settings.noise_tables([8])[0], points=20)
    candidates, means, rewards = replay(WORLD, 8, 60)
    player = Policy(settings, seed=8)
    actions = []
    for t in range(60):
        actions.append(player.decide(candidates[t]).action)
        player.learn(player.open_decision, 0.0)
    played = np.arange(60), np.array(actions)
    lost = np.cumsum(means.max(axis=1) - means[played])
    assert run.reward == rewards[played].sum()
    assert run.regret == pytest.approx(lost[-1], rel=1e-12)
    np.testing.assert_allclose(run.curve, lost[2::3], rtol=1e-12)
    assert run.best == pytest.approx(means.max(axis=1).sum(), rel=1e-12)
    assert run.learned_share == pytest.approx(1 - lost[-1] / (run.best - run.random))


def test_the_yardstick_is_100_percent_of_itself_and_one_seed_has_no_error():
    for name, percent, sem in (
        ("linucb", "percent_of_linucb", "percent_sem"),
        ("tuned-linucb", "percent_of_tuned_linucb", "percent_of_tuned_linucb_sem"),
    ):
        row = simulate([name], rounds=50, seeds=1).to_dicts()[0]
        assert row[percent] == 100
        assert row["reward_sem"] is row["regret_sem"] is row[sem] is row["learned_share_sem"] is None


def test_rewards_may_all_be_zero():
    """With few rounds the yardstick may earn nothing: no number is made up, and the table stays JSON."""
    for seed in range(6):
        row = simulate(["random"], rounds=1, seeds=[seed]).to_dicts()[0]
        for name in ("percent_of_linucb", "percent_of_tuned_linucb"):
            assert row[name] is None or math.isfinite(row[name])
        assert simulation_table([row]).row_count == 1


def test_one_name_will_do_and_what_is_printed_is_what_matters():
    table = simulate("random", rounds=50, seeds=2)
    other = simulate(policies=["random"], rounds=50, seeds=2)
    assert table.drop("rounds_per_second").equals(other.drop("rounds_per_second"))
    printed = str(table)
    assert "learned_share" in printed
    assert "environment_arms" not in printed
    assert f"{table.width - 8} more columns" in printed
    assert "environment_arms" in table.columns
    some = table.select("policy", "environment_arms")
    assert "environment_arms" in str(some)
    assert "learned_share" in table._repr_html_()


def test_many_rows_keep_every_column():
    table = simulate(
        ["adaprivate-ts", "adaprivate-ucb"], rounds=5, seeds=1, epsilon=list(range(1, 103)), options={"batch_size": 5}
    )
    assert isinstance(table, pl.DataFrame)
    assert {"v", "alpha"} <= set(table.columns)


def test_growing_batches_end_and_the_unfinished_one_is_never_released():
    long, short = (made("adaprivate-ts", n, schedule="growing", batch_size=10) for n in (129, 80))
    assert long.ends.tolist() == [10, 25, 47, 80]  # batches of 10, 15, 22, 33; the next would end at 130
    assert made("adaprivate-ts", 130, schedule="growing", batch_size=10).ends.tolist() == [10, 25, 47, 80, 130]
    assert made("adaprivate-ts", 130, batch_size=40).ends.tolist() == [40, 80, 120]
    runs = [run_one(settings, WORLD, 2, settings.noise_tables([2])[0]) for settings in (long, short)]
    assert [run.state.learner.scalars[0]["batch"] for run in runs] == [4, 4]
    assert [run.state.book.scalars[0]["batch"] for run in runs] == [4, 4]
    assert [run.state.learner.scalars[0]["round"] for run in runs] == [129, 80]
    assert np.array_equal(runs[0].state.learner.statistic, runs[1].state.learner.statistic)
    assert np.array_equal(runs[0].state.book.sums, runs[1].state.book.sums)  # what is never released is not kept
