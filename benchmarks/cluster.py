"""What dask workers cost beside threads: processor time per task here (client and scheduler), bytes sent and returned, and
how much of the workers' processor time is play, by the number of seeds of a block. ``python benchmarks/cluster.py``
"""

from __future__ import annotations

import pickle
import time

import psutil

from adaprivate import cluster, environments, simulation
from adaprivate.cluster import Task, alike, on_dask
from adaprivate.simulation import _compile, _run_chunk, policy_settings, run_all

ROUNDS, SEEDS = 10_000, 96


def used() -> float:
    """Seconds of processor time of all worker processes so far."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(spent.user + spent.system for spent in times)


def empty(count: int) -> tuple[float, float]:
    """Processor time and time for each of so many tasks that do next to nothing: they name a number."""
    tasks = [Task("nothing", alike.digest, (n,)) for n in range(count)]
    began, clock = time.process_time(), time.perf_counter()
    assert len(list(cluster.current().completed(tasks))) == count
    return (time.process_time() - began) / count, (time.perf_counter() - clock) / count


def main() -> None:
    """Print what was measured."""
    place = environments.environment("synthetic")
    chosen = [policy_settings(name, place, ROUNDS, {}) for name in ("noise-aware", "rr-linucb")]
    _compile(chosen[0], place)
    _compile(chosen[1], place)
    world = alike.digest(place.world(0))
    task = Task("one", _run_chunk, (chosen[0], place, list(range(25)), None, None, world))
    sent = sum(map(len, on_dask.packed(task, {})))
    one = pickle.dumps(_run_chunk(chosen[0], place, [0], set(), None, None))
    found = pickle.dumps(_run_chunk(chosen[0], place, range(25), set(), None, None))
    print(f"sent per task: {sent} bytes; returned: {len(one)} bytes for one seed, {len(found)} for 25")
    for _ in range(2):
        clock = time.perf_counter()
        runs = run_all(chosen, place, range(SEEDS), jobs=2)
        wall = time.perf_counter() - clock
        play = sum(run.seconds for row in runs for run in row)
        print(f"2 threads: {wall:.2f} s, of which {play:.2f} s of play ({play / wall:.2f} cores)")
    for workers in (1, 2):
        clock = time.perf_counter()
        with cluster.using("local", jobs=workers):
            print(f"{workers} local workers: started in {time.perf_counter() - clock:.1f} s")
            run_all(chosen, place, range(8))  # compiled code is fetched
            empty(50)
            for count in (100, 500, 500):
                spent, each = empty(count)
                print(f"  {count} empty tasks: {1e3 * spent:.2f} ms of processor time here, {1e3 * each:.2f} ms each")
            for most in (1, 4, 25):
                simulation.CHUNK = most
                began, here, clock = used(), time.process_time(), time.perf_counter()
                runs = run_all(chosen, place, range(SEEDS))
                spent, wall = used() - began, time.perf_counter() - clock
                play = sum(run.seconds for row in runs for run in row)
                print(
                    f"  blocks of up to {most}: {wall:.2f} s; workers {spent:.2f} s of processor time, {play / spent:.0%} "
                    f"play; here {time.process_time() - here:.2f} s; {play / wall / workers:.0%} of {workers} workers busy"
                )
            simulation.CHUNK = 25


if __name__ == "__main__":
    main()
