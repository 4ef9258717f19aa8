"""BLAS has one thread where we ask for it, and what it had before afterwards, whoever leaves last."""

import threading

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_limits

from adaprivate import blas, environments, policies, simulation
from adaprivate.mechanisms import informative, optimal


def threads():
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


def test_the_threads_are_given_back_though_two_overlap():
    with threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        entered, may_leave = threading.Event(), threading.Event()

        def other():
            with blas.one_thread():
                entered.set()
                may_leave.wait(10)

        second = threading.Thread(target=other)
        with blas.one_thread():
            with blas.one_thread():
                second.start()
                assert entered.wait(10)
            assert threads() == {1}
        assert threads() == {2}
        may_leave.set()
        second.join()
        assert threads() == {2}


def test_planning_and_simulated_runs_use_one(monkeypatch):
    seen = []

    def spy(module, name):
        original = getattr(module, name)

        def counted(*arguments, **options):
            seen.append((name, threads()))
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    spy(optimal, "eigh")
    spy(informative, "cholesky")
    spy(simulation, "run_one")
    with threadpool_limits(2, user_api="blas"):
        optimal.Optimal(5, np.array([1.0, 2.0, 3.0, 4.0, 5.5]))
        informative.Informative(5, row_std=1.25)
        place = environments.environment("synthetic", {"dimension": 3, "arms": 9, "candidates": 3})
        simulation.run_all([policies.settings("random", {"dimension": 3, "rounds": 10})], place, [0, 1], jobs=2)
        assert threads() == {2}
    assert {name for name, _ in seen} == {"eigh", "cholesky", "run_one"}
    assert all(found == {1} for _, found in seen)
