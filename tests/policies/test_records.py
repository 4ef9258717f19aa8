"""Records have named fields, and their types do not depend on how a setting was written. Every public byte is a field's."""

import base64
import contextlib
import ctypes
import dataclasses
import io
import json
import pickle
import zlib

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import policies
from adaprivate.compiled import record
from adaprivate.mechanisms import packing
from adaprivate.policies.core.propensities import copied
from adaprivate.runtime.learner import Learner
from adaprivate.testing.suite import play

M_PERTURB = -6
"""The option of glibc's allocator that fills memory with a byte when it is handed out and when it is let go of."""


def arrays(state):
    return [found for part in state for found in arrays(part)] if isinstance(state, tuple) else [state]


def dtypes(state):
    return [array.dtype for array in arrays(state)]


@contextlib.contextmanager
def memory_full_of(byte):
    """New memory holds this byte: small blocks that NumPy keeps for later, and large ones where the allocator can do so."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_PERTURB, byte)
    try:
        litter(byte)
        yield
    finally:
        if mallopt is not None:
            mallopt(M_PERTURB, 0)


def litter(byte):
    """Let go of arrays of every size that NumPy keeps for later, each full of this byte."""
    kept = [np.full(size, byte, np.uint8) for size in range(1, 1024) for _ in range(8)]
    kept.clear()


def shown(state):
    """The ways in which somebody may send a public state away, as bytes."""
    whole = io.BytesIO()
    for array in arrays(state):
        np.save(whole, array)
    bases = [bytes(sorted(a.base.tobytes())) for a in arrays(state) if isinstance(a.base, np.ndarray)]
    # sorted: where a part of a larger array begins depends on its address
    return [pickle.dumps(state), whole.getvalue(), packing.to_bytes({"parts": state}), *bases]


def test_fields_have_the_type_of_what_they_are_given():
    made = record(width=1.0, round=3, adapts=True)
    assert made.dtype.names == ("width", "round", "adapts")
    assert [made.dtype[name] for name in made.dtype.names] == [np.float64, np.int64, np.int64]
    assert made.dtype.isalignedstruct  # numba compiles slower code for others
    assert made[0].tolist() == (1.0, 3, 1)


@pytest.mark.parametrize("name", policies.names())
def test_a_setting_of_1_is_one_of_1_0(name):
    """A whole number in a record would be cut to whole numbers for ever: a width times its decay becomes 0."""
    for settings in policies.examples(name):
        whole = {
            field.name: int(value)
            for field in dataclasses.fields(settings)
            if type(value := getattr(settings, field.name)) is float and value == int(value)
        }
        other = dataclasses.replace(settings, **whole)
        table = settings.noise_tables([0])[0]
        assert dtypes(other.start(table)) == dtypes(settings.start(table))


@pytest.mark.parametrize("name", policies.names())
def test_every_byte_of_a_state_is_a_fields(name):
    """What memory held before may be rewards. So no byte lies between fields, and none of a state is left unwritten."""
    for settings in policies.examples(name):
        table = settings.noise_tables([0])[0]
        ways = []
        for byte in (0x00, 0xA5):
            with memory_full_of(byte):
                state = settings.start(table)
                litter(byte)
                ways.append([*shown(state), *shown(copied(state))])
        assert ways[0] == ways[1]
        for kind in dtypes(state):
            assert not kind.names or sum(kind[name].itemsize for name in kind.names) == kind.itemsize


@pytest.mark.parametrize("name", ["adaprivate-ts", "noise-aware", "noise-aware-joint"])
def test_every_byte_of_a_learner_in_use_is_a_fields(name):
    """The same of what compiled code leaves behind, after releases, and of copies of a learner."""
    options = {"channel": "gaussian"} if name == "noise-aware" else {}
    candidates, rewards = np.random.default_rng(0).normal(size=(40, 3, 3)) / 3, np.linspace(0.0, 1.0, 40)
    ways = []
    for byte in (0x00, 0xA5):
        with memory_full_of(byte):
            policy = ap.policy(name, dimension=3, rounds=60, batch_size=6, seed=0, **options)
            play(policy, candidates, rewards)
            litter(byte)
            copy = Learner(policy.state.learner, policy._engine.rng).copy()
            ways.append([*shown(policy.state.learner), pickle.dumps(copy.state), copy.to_bytes()])
    assert ways[0] == ways[1]
    assert policy.version >= 2


def test_a_bool_fills_a_word():
    """Memory that was a reward's does not show in a record, in a copy of it, nor in what is stored of either."""
    secret = np.float64(0.7310585786300049)
    found = b""
    for _ in range(20):
        made = record(adapts=True, width=1.0, learns=False, round=3)
        np.full(made.nbytes // 8, secret)  # let go of at once: the next array of this size gets its memory
        found += made.copy().tobytes() + np.repeat(made, 3).tobytes() + pickle.dumps(copied((made,)))
    assert secret.tobytes()[1:] not in found
    assert secret.tobytes()[:7] not in found


def test_records_stored_with_bools_are_read():
    """Records once held a bool in one byte; what was stored so goes on, but for the bytes between."""
    kind = np.dtype([("adapts", np.bool_), ("width", np.float64)], align=True)
    raw = np.full(kind.itemsize, 255, np.uint8).view(kind)
    raw["adapts"], raw["width"] = True, 0.5
    fields = [[name, kind[name].str] for name in kind.names]
    part = {"array": fields, "shape": [1], "data": base64.b64encode(raw.tobytes()).decode()}
    read = packing.from_bytes(zlib.compress(json.dumps({"parts": part}).encode()))["parts"]
    assert read.dtype == record(adapts=True, width=0.5).dtype
    assert read.tobytes() == record(adapts=True, width=0.5).tobytes()
