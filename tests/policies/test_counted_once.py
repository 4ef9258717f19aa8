"""Whatever interrupts a lesson, no event is counted twice; and what simulation rests on is checked."""

import numpy as np
import pytest

import adaprivate
from adaprivate import environments
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Book, SumBook
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.runtime.decisions import RewardRefusedError
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import percent_of, policy_settings, run_all

STEPS = [
    (Book, "add"),
    (Learner, "counted"),
    (SumBook, "close"),
    (Learner, "read"),
    (Policy, "_counted"),
]


def once(patched, kind, method, after):
    """Interrupt the next call of this method, before it begins or when all is done."""
    original = getattr(kind, method)
    calls = []

    def interrupts(self, *arguments):
        calls.append(method)
        if len(calls) > 1:
            return original(self, *arguments)
        if after:
            original(self, *arguments)
        raise KeyboardInterrupt

    patched.setattr(kind, method, interrupts)
    return calls


def quiet(monkeypatch):
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))


def played(rounds):
    policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=50, batch_size=3, source=Secure())
    policy.learner.rng[...] = 5  # the same exploration for twins
    for _ in range(rounds):
        policy.learn(policy.decide(np.eye(3)), 1.0)
    return policy


MOMENTS = {
    "decide": lambda policy: policy.decide(np.eye(3)),
    "decide_many": lambda policy: policy.decide_many(np.eye(3)[None]),
    "advance": Policy.advance,
    "finish": Policy.finish,
}


@pytest.mark.parametrize(
    ("step", "after"), [*((step, False) for step in STEPS), *((step, True) for step in STEPS)], ids=str
)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_round_is_counted_once_and_nothing_is_lost(kit, monkeypatch, step, after, moment):
    """Wherever an interruption comes while an exact round is counted and released, the policy ends as its twin."""
    quiet(monkeypatch)
    policy, twin = played(3), played(3)
    assert kit.everything(policy) == kit.everything(twin)
    last = policy._open[2].decision
    with monkeypatch.context() as patched:
        calls = once(patched, *step, after)
        with pytest.raises(KeyboardInterrupt):
            MOMENTS[moment](policy)
        assert len(calls) == 1
        with pytest.raises(RewardRefusedError) as refused:
            policy.learn(last, 0.0)
        assert refused.value.reason == ("late" if (step[1], after) == ("_counted", True) else "repeated")
        policy.advance()
    twin.advance()
    assert kit.everything(policy) == kit.everything(twin)
    assert (policy.round, policy.version, policy.book.round, policy.book.batch) == (3, 1, 3, 1)
    assert policy.learner.done.tolist() == [3, 1]
    assert policy.state.scalars[0]["batch"] == 1
    for one in (policy, twin):  # and it goes on, over the end of the next batch
        for _ in range(4):
            one.learn(one.decide(np.eye(3)), 0.5)
        one.finish()
    assert kit.everything(policy) == kit.everything(twin)
    assert (policy.round, policy.version) == (7, 2)


@pytest.mark.parametrize(
    ("step", "after"), [*((step, False) for step in STEPS), *((step, True) for step in STEPS)], ids=str
)
def test_an_interrupted_round_is_saved_whole(kit, monkeypatch, step, after, tmp_path):
    """Stopped by a key and saved at once, as programs do when they end."""
    quiet(monkeypatch)
    policy, twin = played(3), played(3)
    with monkeypatch.context() as patched:
        once(patched, *step, after)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    loaded.advance()
    twin.advance()
    assert kit.everything(loaded) == kit.everything(twin)
    assert (loaded.round, loaded.version, loaded.book.round, loaded.book.batch) == (3, 1, 3, 1)


@pytest.mark.parametrize("after", [False, True])
def test_an_interruption_inside_an_addition_may_lose_its_event_but_never_counts_it_twice(monkeypatch, after):
    """The one step that is not made good: three rewards of 1 add up to three or, if that one is lost, to two."""
    quiet(monkeypatch)
    released = []
    close = SumBook.close
    monkeypatch.setattr(SumBook, "close", lambda book: released.append(close(book)) or released[-1])
    policy = played(3)
    with monkeypatch.context() as patched:
        once(patched, SumBook, "_enter", after)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        policy.advance()
    policy.advance()
    assert (policy.round, policy.version, policy.book.round, policy.learner.done[0]) == (3, 1, 3, 3)
    assert released[0][0].values.sum() == pytest.approx(3 if after else 2)


@pytest.mark.parametrize("method", ["close", "_enter"])
def test_noise_of_an_interrupted_release_is_drawn_for_one_that_is_seen(monkeypatch, method):
    """A release is read as it was drawn: interrupted after it, no second noise is drawn for the batch."""
    drawn = []
    gaussian = Secure.gaussian

    def counted(self, rows, scale):
        drawn.append(gaussian(self, rows, scale))
        return drawn[-1]

    monkeypatch.setattr(Secure, "gaussian", counted)
    policy = played(3)
    with monkeypatch.context() as patched:
        once(patched, *((Learner, "read") if method == "close" else (SumBook, "_enter")), False)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        assert len(drawn) == (method == "close")
        policy.advance()
    policy.advance()
    assert len(drawn) == policy.version == 1


def test_altering_the_features_of_a_decision_changes_nothing():
    one, two = (adaprivate.policy("lints", dimension=3, rounds=50, seed=0) for _ in range(2))
    altered, plain = one.decide(np.eye(3)), two.decide(np.eye(3))
    altered.features[:] = 5
    one.learn(altered, 1.0)
    two.learn(plain, 1.0)
    one.advance()
    two.advance()
    assert np.array_equal(one.state.learner.coordinates, two.state.learner.coordinates)


def test_features_too_long_for_the_guarantee_stop_a_simulation():
    world = environments.environment("synthetic", {"dimension": 3})

    class Long:
        name, dimension, candidates = "long", 3, 5

        def world(self, seed):
            made = world.world(seed)
            return made._replace(arms=10 * made.arms)

    with pytest.raises(InputError, match=r"features\|\^2=.* <= 1 in long"):
        run_all([policy_settings("adaprivate-ts", world, 400, {"batch_size": 100})], Long(), [0])


def test_percentages_need_the_same_seeds():
    world = environments.environment("synthetic", {"dimension": 3})
    runs = run_all([policy_settings("random", world, 50, {})], world, range(3))[0]
    with pytest.raises(InputError, match="those of the baseline"):
        percent_of(runs, runs[:2])


def test_interruptions_pass_through_unless_finished_work_is_wanted():
    world = environments.environment("synthetic", {"dimension": 3})

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([policy_settings("random", world, 50, {})], world, range(40), jobs=1, progress=stop)
