"""A news front page whose clicks are rare and late: three readers in a hundred click, and often long afterwards.

The decision service runs here, started by this program unless --url names one. It is told what is known beforehand: the
base rate, that nothing is reported of who does not click, and how long a batch waits for clicks (reward_window). Clicks
that come later are refused ("late"), and their readers count as readers who did not click. Time is pressed: a second here
stands for an hour there. Only this program, which makes the readers up, knows the true shares that it prints.
"""

import argparse
import heapq
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from adaprivate.client import Client

CLICKS = {"politics": 0.015, "sports": 0.02, "science": 0.01, "culture": 0.02, "weather": 0.075, "puzzles": 0.04}
ARRIVE = 0.3
"""Seconds after which a click comes, in the mean; each reader's own is exponential."""
AT_ONCE = 100


def play(url: str, rounds: int, window: float, epsilon: float, seed: int) -> dict[str, float]:
    """Show articles to these readers, and report their clicks when they come."""
    at_random, best = sum(CLICKS.values()) / len(CLICKS), max(CLICKS.values())
    rng, waiting, statuses, shares = random.Random(seed), [], [], []
    with Client(url, timeout=30.0) as service:
        service.wait(120)
        known = {"base_rate": 0.03, "missing": 0.0, "reward_window": window}
        name = f"late-clicks-{seed}"
        service.create(name, dimension=len(CLICKS), rounds=rounds, epsilon=epsilon, **known)
        rows = {item: [float(item == other) for other in CLICKS] for item in CLICKS}
        service.items(name, rows)
        for start in range(0, rounds, AT_ONCE):
            decisions = service.decide_many(name, [{} for _ in range(min(AT_ONCE, rounds - start))])
            shares.append(sum(CLICKS[one.item] for one in decisions) / len(decisions))
            for one in decisions:
                mood, delay = rng.random(), rng.expovariate(1 / ARRIVE)
                if mood < CLICKS[one.item]:
                    heapq.heappush(waiting, (time.monotonic() + delay, one.decision_id))
            statuses += _report(service, waiting, time.monotonic())
            time.sleep(ARRIVE / 4)  # readers do not come all at once
        time.sleep(max(0.0, max(waiting)[0] - time.monotonic()) if waiting else 0.0)
        statuses += _report(service, waiting, float("inf"))
    third = len(shares) // 3
    first, last = sum(shares[:third]) / third, sum(shares[-third:]) / third
    late = statuses.count("late")
    print(f"{rounds:,} readers at epsilon {epsilon:g}: {len(statuses)} clicked, {late} of these clicks came too late\n")
    print(f"  articles at random would have {at_random:6.2%} clicks, the best one {best:.2%}")
    print(f"  shown to the first third      {first:6.2%}")
    print(f"  shown to the last third       {last:6.2%}\n")
    gain = (last - at_random) / (best - at_random)
    print(f"In the end it earned {gain:.0%} of what could be earned beyond random articles: ", end="")
    print("it learned." if gain > 0.25 else "little, with so few clicks and this epsilon.")
    return {"first": first, "last": last, "late": late, "clicks": len(statuses), "gain": gain}


def _report(service: Client, waiting: list[tuple[float, str]], now: float) -> list[str]:
    due = []
    while waiting and waiting[0][0] <= now:
        due.append((heapq.heappop(waiting)[1], True))
    return service.reward_many(due) if due else []


def run(url: str | None, rounds: int, window: float, epsilon: float, seed: int) -> dict[str, float]:
    """Play against this service, or against one that is started for it and ended with it."""
    if url is not None:
        return play(url, rounds, window, epsilon, seed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / 'adaprivate.db'}"
        command = [sys.executable, "-m", "adaprivate", "serve", "--port", str(port), "--database", database]
        service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return play(f"http://127.0.0.1:{port}", rounds, window, epsilon, seed)
        finally:
            service.terminate()
            service.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="where a service is (default: one is started)")
    parser.add_argument("--rounds", type=int, default=12_000, help="readers")
    parser.add_argument("--window", type=float, default=0.5, help="seconds for which a batch waits for clicks")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the readers")
    run(**vars(parser.parse_args()))
