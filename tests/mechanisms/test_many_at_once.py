"""Rounds counted together are what they are one by one, to the last bit: sums, clipping, learners, releases."""

import numpy as np
import pytest

from adaprivate import check, policies
from adaprivate.mechanisms.noise import Secure
from adaprivate.mechanisms.plan import Shape
from adaprivate.mechanisms.units import Event, EventSum
from adaprivate.runtime.engines import ExactEngine


def events(rng, count, dimension):
    """Features short, long, unit, tiny, zero and aligned, as they may come; rewards of all kinds."""
    rows = rng.normal(size=(count, dimension)) * 10.0 ** rng.uniform(-3, 0.5, size=(count, 1))
    rows[::7] /= np.linalg.norm(rows[::7], axis=1, keepdims=True)
    rows[::11] = 0.0
    rows[::13] = np.eye(dimension)[rng.integers(dimension, size=len(rows[::13]))]
    return rows, np.where(rng.random(count) < 0.5, rng.random(count), rng.integers(2, size=count))


@pytest.mark.parametrize("shape", [None, Shape(np.diag([2.0, 0.3, 1.0, 7.0])), Shape(np.tri(4) + np.eye(4))])
@pytest.mark.parametrize("centre", [0.0, 0.5, 0.03])
def test_sums(shape, centre):
    rng = np.random.default_rng(5)
    rows, rewards = events(rng, 2_000, 4)
    one, many = (EventSum(4, noise=Secure(), centre=centre, shape=shape) for _ in range(2))
    for row, reward in zip(rows, rewards, strict=True):
        one.add(row, float(reward))
    for begin in (0, 1, 900):
        end = {0: 1, 1: 900, 900: 2_000}[begin]
        many.add_many(rows[begin:end], rewards[begin:end])
    assert one.state().tolist() == many.state().tolist()
    assert one.clipped == many.clipped > 0


@pytest.mark.parametrize("rewards", [[0.5, 1.5], [np.nan, 0.0], [-0.1, 1.0]])
def test_rewards_out_of_range_are_refused_and_nothing_is_counted(rewards):
    sums = EventSum(2, noise=Secure())
    with pytest.raises(check.InputError, match="not repeated here"):
        sums.add_many(np.zeros((2, 2)), np.array(rewards))
    assert sums.state().tolist() == [0, 0]


@pytest.mark.parametrize("begun", ["learner", "book"])
def test_a_round_that_is_half_counted_is_not_counted_with_others(begun):
    settings = policies.settings("adaprivate-ts", {"dimension": 4, "rounds": 90, "batch_size": 30})
    engines = [ExactEngine(settings, Secure(), np.zeros((2, 16), dtype=np.uint64), lambda: None) for _ in range(2)]
    rows, rewards = np.random.default_rng(3).uniform(-0.4, 0.4, size=(5, 4)), np.ones(5)
    if begun == "learner":
        engines[0].learner.counted(rows[0])
    else:
        engines[0].book.add(Event(0, rows[0], 1.0))
    before = engines[0].learner.to_bytes(), engines[0].book.to_bytes()
    assert not engines[0].count_many(0, rows, rewards)
    assert before == (engines[0].learner.to_bytes(), engines[0].book.to_bytes())
    if begun == "learner":
        engines[0].count(0, rows[0], 1.0)
        assert engines[0].count_many(1, rows[1:], rewards[1:])
        assert engines[1].count_many(0, rows, rewards)
        assert engines[0].learner.to_bytes() == engines[1].learner.to_bytes()
        assert engines[0].book.to_bytes() == engines[1].book.to_bytes()


class Recorded(Secure):
    """Exact noise of 0, so that two runs can be compared; protects nobody."""

    def gaussian(self, values, scale):
        return np.array([float(v) / 2**40 for v in np.asarray(values).ravel()]).reshape(np.shape(values))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("noise-aware", {"channel": "gaussian"}),
        ("noise-aware-ts", {"channel": "gaussian", "intercept": 0.0}),
        ("adaprivate-ts", {"batch_size": 30}),
        ("adaprivate-ucb", {"batch_size": 30, "noise": "tree", "centre": 0.5}),
    ],
)
def test_engines(name, options):
    rng = np.random.default_rng(2)
    settings = policies.settings(name, {"dimension": 4, "rounds": 400, **options})
    rows, rewards = events(rng, 300, 4)
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    engines = [ExactEngine(settings, Recorded(), np.zeros((2, 16), dtype=np.uint64), lambda: None) for _ in range(2)]
    together = 0
    for engine in engines:
        number = 0
        while number < 300:
            if number == getattr(engine.settings, "planned", None):
                engine.extend()
            plan = getattr(engine.plan, "sums", engine.plan)
            ends = [end for end in plan.ends if end > number] + [300]
            end = min(ends[0], 300, *([engine.settings.planned] if hasattr(engine.settings, "planned") else []))
            if engine is engines[1] and engine.count_many(number, rows[number:end], rewards[number:end]):
                together += end - number
                number = end
                continue
            engine.count(number, rows[number], float(rewards[number]))
            number += 1
    assert together > 250
    assert engines[0].learner.to_bytes() == engines[1].learner.to_bytes()
    assert engines[0].book.to_bytes() == engines[1].book.to_bytes()
    assert engines[0].book.batch == engines[1].book.batch >= 3
