"""A front page that learns what to show to readers who are made up: they like one thing in the morning, another at night.

Needs the decision service (adaprivate serve). Clicks reach it by adaprivate.client and nowhere else; only this program,
which makes them up, knows the true share that it prints. Articles shown at random would have 9 %, the best ones 24 %.
"""

import argparse
import contextlib
import itertools
import random
import time

from adaprivate.client import Client, UnavailableError

CLICKS = {  # how likely a reader is to click an article, by the time of day
    "morning": {"politics": 0.12, "sports": 0.04, "science": 0.06, "culture": 0.02, "weather": 0.25, "puzzles": 0.03},
    "evening": {"politics": 0.05, "sports": 0.22, "science": 0.07, "culture": 0.14, "weather": 0.02, "puzzles": 0.08},
}
EDITION = {"name": "edition", "kind": "category", "values": list(CLICKS), "other": False}
BANDIT = {
    "featuriser": {"context": [EDITION], "items": {"kind": "one-hot", "most": 6}, "interactions": "products"},
    "rounds": 50_000,
    "epsilon": 1.0,
    "base_rate": 0.1,  # about one in ten clicks, and
    "missing": 0.0,  # who does not click reports nothing
    "reward_window": 2.0,  # seconds: these readers click at once
    "holdback": 0.1,  # one in ten sees a random article, so that what learning earns can be measured
    "default_item": "weather",
}
EVERY = 500


def run(url: str, key: str | None, rounds: int | None, pace: float, seed: int) -> None:
    """Show articles to these readers, and report their clicks."""
    with Client(url, key) as service:
        service.wait(120)
        service.create("front-page", exist_ok=True, **BANDIT)  # from an earlier run: go on with it
        service.items("front-page", dict.fromkeys(CLICKS["morning"]))
        clicks, began = 0, time.monotonic()
        for number in itertools.count(1) if rounds is None else range(1, rounds + 1):
            reader = random.Random(f"{seed}-{number}")
            edition, mood = reader.choice(list(CLICKS)), reader.random()
            shown = service.decide("front-page", context={"edition": edition}, default="weather")
            if mood < CLICKS[edition][shown.item]:
                clicks += 1
                with contextlib.suppress(UnavailableError):  # the service is away: not learned from
                    service.reward(shown, True)
            if number % EVERY == 0:
                print(f"{number:>8,} readers: {clicks / EVERY:6.1%} of the last {EVERY} clicked", flush=True)
                clicks = 0
            time.sleep(max(0.0, began + number / pace - time.monotonic()))
        print(f"{rounds:,} readers have been here.", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="where the service is")
    parser.add_argument("--key", help="what opens it, where it needs one: with scope admin")
    parser.add_argument("--rounds", type=int, help="readers to send (default: without end)")
    parser.add_argument("--pace", type=float, default=200.0, help="readers a second, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the readers")
    with contextlib.suppress(KeyboardInterrupt):
        run(**vars(parser.parse_args()))
