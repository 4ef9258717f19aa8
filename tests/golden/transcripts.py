"""What every example of every policy and of every made world does: it guards a move of code, and is no oracle.

``python -m tests.golden.transcripts`` records it anew.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.compiled import entry, streams
from adaprivate.environments.protocol import draw, visitor
from adaprivate.mechanisms import Secure
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import open_noise
from adaprivate.testing.suite import fixed_arms, offers, whose

RECORD, WORLDS = Path(__file__).with_name("policies.json"), Path(__file__).with_name("worlds.json")
ROUNDS = 40
DRAWING = ("lazy-dp-ts", "filtered-thompson", "modified-thompson", "thompson")
"""Policies on arms that draw their choices: with exact noise these differ from run to run."""


def examples():
    """Every example of every policy, by policy and place."""
    return {
        f"{name}-{place}": example for name in policies.names() for place, example in enumerate(policies.examples(name))
    }


def worlds():
    """Every example of every environment that needs no recorded data, by environment and place."""
    kinds = [type(environments.environment(name)) for name in environments.names()]
    found = {kind: sys.modules[kind.__module__].EXAMPLES for kind in kinds if not getattr(kind, "recorded", False)}
    return {
        f"{kind.name}-{place}": example
        for kind, examples in found.items()
        for place, example in enumerate(one for one in examples if type(one) is kind)
    }


@entry
def _play(world, candidates, means, rewards, people, rng):
    for t in range(len(means)):
        draw(world, t, candidates[t], means[t], rewards[t], rng)
        people[t] = visitor(world, t)


def drawn(place):
    """Candidates, mean rewards, rewards and people of a world's first rounds."""
    shape = (ROUNDS, place.candidates)
    candidates, means, rewards = np.zeros((*shape, place.dimension)), np.zeros(shape), np.zeros(shape)
    people = np.zeros(ROUNDS, dtype=np.int64)
    _play(place.world(5), candidates, means, rewards, people, streams(5, 1, 2))
    return [weighed(candidates), weighed(means), weighed(rewards), people.tolist() if people.max() > 0 else []]


def simulated(settings):
    """Actions, the round and number of releases, and what was released, in a small public world with simulated noise."""
    policy = Policy(settings, seed=3)
    candidates, levels = offers(settings)
    rewards = np.random.default_rng(7).uniform(size=candidates.shape[:2]) < levels[:, None]
    actions, earned, versions, digest = [], 0, [], 0.0
    for number, offered in enumerate(candidates):
        decision = policy.decide(offered, **whose(settings, number))
        reward = int(rewards[number, decision.action])
        policy.learn(decision, reward)
        actions.append(decision.action)
        earned += reward
        if not versions or decision.version != versions[-1][1]:
            versions.append([number, decision.version])
        if settings.private:
            digest += weighed(policy.settings.released(policy.state)) / (number + 1)
    policy.advance()
    return {"actions": letters(actions), "versions": versions, "earned": earned, "released": digest}


def exact(settings):
    """The whole numbers that meet exact noise, and how much: zeros are added in its place. None where there is no such."""
    if fixed_arms(settings) and settings.name in DRAWING:
        return None
    try:
        policy = Policy(settings, source=Secure())
    except InputError:
        return None
    candidates, levels = offers(settings)
    with open_noise(silent=True) as seen:
        for number, offered in enumerate(candidates):
            reward = int(levels[number] < 0.5)
            if fixed_arms(settings):
                policy.learn(policy.decide(offered), reward)
            else:
                policy.observe(offered[0], reward, **whose(settings, number))
        policy.advance()
    numbers = [int(value) for draw in seen for value in draw.values]
    return {
        "numbers": len(numbers),
        "digest": hashlib.sha256(repr(numbers).encode()).hexdigest()[:16],
        "scales": weighed([scale for draw in seen for scale in np.broadcast_to(draw.scales, draw.values.shape)]),
    }


def promised(settings):
    """The guarantee, as JSON says it."""
    statement = settings.guarantee()
    return None if statement is None else json.loads(statement.to_json())


def transcript(settings):
    """All of it."""
    return {"guarantee": promised(settings), "simulated": simulated(settings), "exact": exact(settings)}


def weighed(values):
    """One number that almost any change of the values, or of their order, changes."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return float(flat @ np.cos(np.arange(len(flat))))


def letters(actions):
    """Actions in one word: a, b, c ..."""
    return "".join(chr(ord("a") + action) for action in actions)


if __name__ == "__main__":
    for path, found, told in ((WORLDS, worlds(), drawn), (RECORD, examples(), transcript)):
        lines = [f"{json.dumps(key)}: {json.dumps(told(example))}" for key, example in found.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
