"""Batches folded into others: the posterior stays what it is to a stated tolerance, and the memory it takes is bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adaprivate import plan, policies
from adaprivate.policies.noise_aware import folding
from adaprivate.runtime.policy import Policy


def nbytes(state: Any) -> int:
    """Of all arrays of a state."""
    return sum(nbytes(part) if hasattr(part, "_fields") else part.nbytes for part in state)


def planned(name: str, dimension: int, rounds: int, **options: Any) -> list[Any]:
    """The states of a run: before the first rounds, and planned on by what they showed."""
    settings: Any = policies.settings(name, {"dimension": dimension, "rounds": rounds, **options})
    state = settings.start(settings.noise_tables([0])[0])
    longer = settings.extended(state.learner)
    return [state, longer.carried(longer.start(longer.noise_tables([0])[0]), state)]


def played(monkeypatch: pytest.MonkeyPatch, least: int, rounds: int, room: int = 0, **options: Any) -> Any:
    """The learner after rounds that others decided, with so many places."""
    monkeypatch.setattr(folding, "ROOM", room)
    monkeypatch.setattr(folding, "LEAST", least)
    settings = policies.settings("noise-aware-greedy", {"dimension": 3, "rounds": rounds, "channel": "gaussian", **options})
    policy = Policy(settings, seed=4)
    rng = np.random.default_rng(8)
    features = rng.standard_normal((rounds, 3)) * np.linspace(0.2, 0.5, rounds)[:, None] * [1.0, 0.7, 0.4]
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    rewards = (rng.random(rounds) < 0.5 + features @ [0.3, -0.2, 0.1]).astype(float)
    for number in range(rounds):
        who = {"user": int(rng.integers(300))} if options.get("unit") == "user" else {}
        policy.observe(features[number], float(rewards[number]), **who)
    policy.finish()
    return policy.state.learner


def apart(one: Any, other: Any) -> tuple[float, float]:
    """How far two posteriors are from one another: their means in standard deviations, their covariances relatively."""
    root = np.linalg.inv(one.root)
    covariance = root @ other.root @ other.root.T @ root.T
    return float(np.linalg.norm(root @ (other.mean - one.mean))), float(np.abs(covariance - np.eye(len(root))).max())


CASES: dict[str, tuple[int, dict[str, Any], tuple[float, float]]] = {
    "events": (6000, {}, (1e-4, 2e-3)),
    "much noise": (6000, {"epsilon": 0.1}, (1e-4, 2e-3)),
    "little noise": (6000, {"epsilon": 5.0}, (1e-4, 2e-3)),
    "no intercept": (6000, {"intercept": 0.0}, (1e-4, 2e-3)),
    "a world that changes": (6000, {"memory": 800.0}, (1e-4, 2e-3)),
    "planned on twice": (6000, {"horizon": 1500}, (1e-4, 2e-3)),
    "few batches": (600, {}, (1e-4, 2e-3)),
    "people": (3000, {"unit": "user"}, (0.02, 0.1)),
}
"""Rounds, options, and how far means (in standard deviations) and covariances (relatively) may be apart. Features become
longer all the while."""


@pytest.mark.parametrize("case", CASES)
def test_folded_batches_leave_the_posterior_as_it_is(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    rounds, options, tolerance = CASES[case]
    whole = played(monkeypatch, 6, rounds, room=2**30, **options)
    folded = played(monkeypatch, 6, rounds, **options)
    assert len(folded.held) == 6 < len(whole.held)
    assert np.array_equal(whole.held, np.arange(len(whole.held)))
    assert folded.held.max() == whole.scalars["batch"][0]
    assert len(set(folded.held.tolist())) == 6
    assert whole.scalars["batch"] == folded.scalars["batch"]
    mean, covariance = apart(whole, folded)
    assert mean < tolerance[0]
    assert covariance < tolerance[1]


def folded(columns: Any, sizes: Any) -> tuple[int, Any, Any]:
    """What is free after batches of these columns (from now on) and sizes were folded; sums of f f' and f e' before: 1."""
    steps, count = columns.shape
    influence = np.zeros((count - 1 + steps, count - 1 + steps))
    influence[count - 1 :, :count] = columns
    sizes = np.concatenate([sizes, np.zeros(steps - 1)])
    designs, crosses = np.ones((count, 1)), np.ones((count, 1, 1))
    out = folding.fold(count - 1, np.arange(count), sizes, influence, influence.copy(), designs, crosses)
    return int(out), designs[:, 0], crosses[:, 0, 0]


def test_no_batch_is_folded_into_another_with_a_negative_weight() -> None:
    """Sums of f f' stay positive semidefinite; those of f e' may be taken off, as least squares say."""
    rng, negative = np.random.default_rng(2), 0
    for _ in range(200):
        columns = rng.normal(size=(8, 4))
        columns[:, 3] = np.sqrt(np.maximum(columns[:, 0] ** 2 - 0.5 * columns[:, 1] ** 2, 0.01))
        out, designs, crosses = folded(columns, np.ones(4))
        kept = np.arange(4) != out
        assert designs[out] == crosses[out] == 0
        assert designs[kept].min() >= 1
        negative += crosses[kept].min() < 1
    assert negative > 100


def test_of_batches_that_are_unlike_the_one_that_says_least_is_folded() -> None:
    """What is lost is a share of all that is read, so that a batch of next to nothing may go whatever its column is."""
    columns = np.array([[1.0, 0.1, 0.5], [0.1, 1.0, 0.5], [0.1, 0.1, 0.3], [0.4, 0.1, 0.3]])
    assert folded(columns, np.array([1e-6, 1.0, 1.0]))[0] == 0
    assert folded(columns, np.array([1.0, 1e-6, 1.0]))[0] == 1
    assert folded(columns, np.array([1.0, 1.0, 1.0]))[0] == 2


@pytest.mark.parametrize(("count", "tolerance"), [(3, 0.2), (4, 0.1)])
def test_with_less_room_it_is_rougher_and_goes_on(monkeypatch: pytest.MonkeyPatch, count: int, tolerance: float) -> None:
    whole, folded = played(monkeypatch, 6, 2000, room=2**30), played(monkeypatch, count, 2000)
    assert len(folded.held) == count
    assert max(apart(whole, folded)) < tolerance


@pytest.mark.parametrize("name", ["noise-aware", "noise-aware-ts", "noise-aware-greedy"])
def test_the_state_of_500_dimensions_and_a_million_rounds_is_below_30_megabytes(name: str) -> None:
    for options in ({}, {"channel": "gaussian"}):
        assert max(nbytes(state) for state in planned(name, 500, 10**6, **options)) < 30e6


def test_memory_grows_with_the_square_of_the_dimension_and_hardly_with_the_rounds() -> None:
    sizes = {rounds: nbytes(planned("noise-aware-ts", 300, rounds, channel="gaussian")[1]) for rounds in (10**6, 10**8)}
    assert sizes[10**8] < sizes[10**6] * 1.1
    large = nbytes(planned("noise-aware-ts", 600, 10**6, channel="gaussian")[1])
    assert large < 4.0 * sizes[10**6]


def test_small_problems_hold_every_batch() -> None:
    for dimension, rounds in ((20, 10**8), (50, 10**6)):
        learner = planned("noise-aware-ts", dimension, rounds, channel="gaussian")[1].learner
        assert len(learner.held) == len(learner.rows) + 1


@pytest.mark.parametrize("options", [{}, {"channel": "gaussian"}, {"unit": "user"}, {"epsilon": 0.1}])
def test_a_hundred_million_rounds_are_planned(options: dict[str, Any]) -> None:
    """Batches grow, so there are few of them, whatever the rounds; ``plan`` foresees such runs too."""
    settings: Any = policies.settings("noise-aware", {"dimension": 20, "rounds": 10**8, **options})
    longer = settings.extended(settings.learner())
    learner = longer.learner()
    assert nbytes(learner) < 2e6
    assert len(longer.ends) < 150
    if len(longer.ends):
        assert 0.9e8 < longer.ends[-1] <= 10**8


def test_plan_foresees_a_billion_rounds() -> None:
    shares = [plan(dimension=20, candidates=10, rounds=rounds, epsilon=0.1).rows[0] for rounds in (10**7, 10**9)]
    assert shares[0]["learned_share"] < shares[1]["learned_share"]
