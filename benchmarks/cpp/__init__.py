"""The engine's rounds written by hand in C++, compiled by g++ where they are run: what its speed is measured against.

One function for each policy; each plays an episode of ``synthetic`` as ``run_one`` would, with the same random numbers, and
returns (processor seconds of this thread, regret). The regret is that of ``run_one`` up to rounding: check it.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from adaprivate import compiled
from adaprivate.compiled import streams
from adaprivate.purposes import Purpose

FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
_FOLDER = tempfile.TemporaryDirectory(prefix="adaprivate-cpp-")


@lru_cache
def library(dimension, candidates):
    """The compiled library for this d and K."""
    file = Path(_FOLDER.name) / f"episode-{dimension}-{candidates}.so"
    sizes = f"-DDIMENSION={dimension}", f"-DCANDIDATES={candidates}"
    subprocess.run(["g++", *FLAGS, *sizes, str(Path(__file__).with_name("episode.cpp")), "-o", str(file)], check=True)
    found = ctypes.CDLL(str(file))
    found.thompson.restype = found.optimistic.restype = ctypes.c_double
    found.use_tables(*map(_pointer, (compiled._LIMITS, compiled._WIDTHS, compiled._HEIGHTS)))
    return found


def thompson(policy, place, seed, noise):
    """``adaprivate-ts`` with these settings and this table of noise."""
    world, running = place.world(seed), policy.start(noise)
    own, shared = streams(seed, Purpose.EXPLORATION, Purpose.CHOICE), streams(seed, Purpose.ROUNDS, Purpose.REWARDS)
    s, book = running.learner.scalars[0], running.book
    if s["decay"] != 1 or s["gamma"] != 0 or book.scalars[0]["sampling_rate"] != 1 or running.learner.prior.any():
        raise ValueError("Expected Thompson sampling with the defaults.")
    ends, noise = np.ascontiguousarray(book.ends), np.ascontiguousarray(book.noise)
    arrays = (world.arms, world.means, world.order), (ends, len(ends), noise)
    numbers = float(policy.ridge), float(s["width"]), float(book.scalars[0]["centre"])
    return _timed(library(place.dimension, place.candidates).thompson, arrays, policy.rounds, numbers, (own, shared))


def optimistic(policy, place, seed, noise=None):
    """``linucb`` with these settings."""
    world, running = place.world(seed), policy.start(policy.noise_tables([seed])[0] if noise is None else noise)
    shared = streams(seed, Purpose.ROUNDS, Purpose.REWARDS)
    numbers = float(policy.ridge), float(running.learner.scalars[0]["width"]), float(running.book.scalars[0]["centre"])
    arrays = (world.arms, world.means, world.order), ()
    return _timed(library(place.dimension, place.candidates).optimistic, arrays, policy.rounds, numbers, (shared,))


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def _argument(value):
    if isinstance(value, np.ndarray):
        return _pointer(value)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def _timed(function, arrays, rounds, numbers, words):
    (arms, means, order), more = arrays
    values = arms, means, order, len(arms), rounds, *more, *numbers, *words
    arguments = [_argument(value) for value in values]
    started = time.thread_time()
    regret = function(*arguments)
    return time.thread_time() - started, regret
