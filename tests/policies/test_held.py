"""Compiled code that finds a state by its address sees all of it, as it is now, and nothing else."""

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import adaprivate
from adaprivate.compiled import entry, record
from adaprivate.held import Held, taken


class Inner(NamedTuple):
    matrix: Any
    flag: bool


class Outer(NamedTuple):
    words: Any
    inner: Inner
    share: float
    count: int
    scalars: Any
    empty: Any


@entry
def _seen(held, out):
    state = taken(held)
    out[0] = state.words[2]
    out[1] = state.inner.matrix[1, 2]
    out[2] = 1.0 if state.inner.flag else 0.0
    out[3] = state.share
    out[4] = state.count
    out[5] = state.scalars[0].width
    out[6] = state.empty.shape[0] * 10 + state.empty.shape[1]
    state.inner.matrix[0, 0] += 1.0
    state.scalars[0].rounds += 1


def outer():
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    return Outer(
        np.array([1, 2, 3], np.int32), Inner(matrix, True), -2.5, -7, record(rounds=0, width=0.25), np.zeros((0, 4))
    )


def seen(held):
    out = np.zeros(7)
    held.bound(_seen, out)(held.address, out)
    return out.tolist()


def test_every_part_is_found_and_changes_in_place():
    state = outer()
    held = Held(state)
    assert seen(held) == [3, 5, 1, -2.5, -7, 0.25, 4]
    state.words[2], state.scalars["width"] = 9, 0.5
    assert seen(held) == [9, 5, 1, -2.5, -7, 0.5, 4]
    assert state.inner.matrix[0, 0] == state.scalars["rounds"][0] == 2


def test_what_is_held_is_kept_alive():
    held = Held(outer())
    trash = [np.full(1000, np.nan) for _ in range(50)]
    assert seen(held) == [3, 5, 1, -2.5, -7, 0.25, 4]
    assert len(trash) == 50


@pytest.mark.parametrize("how", [copy.deepcopy, lambda held: pickle.loads(pickle.dumps(held))], ids=["deep", "pickle"])
def test_copies_are_of_their_own(how):
    held = Held(outer())
    twin = how(held)
    twin.value.words[2] = 4
    assert (seen(held)[0], seen(twin)[0]) == (3, 4)
    assert held.value.scalars["rounds"][0] == twin.value.scalars["rounds"][0] == 1


def test_what_has_no_address_is_not_held():
    with pytest.raises(TypeError, match="a str is not held"):
        Held((np.zeros(1), "text"))


def test_a_state_that_is_replaced_is_held_anew():
    policy = adaprivate.policy("lints", dimension=3, rounds=50, seed=0)
    for _ in range(3):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    before = policy.state
    policy._engine._state = policy.settings.start(policy.settings.noise_tables([0])[0])
    kept = str(before)
    policy.learn(policy.decide(np.eye(3)), 1.0)
    policy.finish()
    assert str(before) == kept
    assert str(policy.state) != kept
