"""Whatever interrupts a lesson, no event is counted twice; and what simulation rests on is checked."""

import numpy as np
import pytest

import adaprivate
from adaprivate import environments
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.book import Book, SumBook
from adaprivate.mechanisms.channels import ChannelBook
from adaprivate.mechanisms.laws.discrete_laplace import DiscreteLaplace
from adaprivate.mechanisms.laws.randomised_response import RandomisedResponse
from adaprivate.mechanisms.noise import NOISE_BITS
from adaprivate.runtime.decision import RewardRefusedError
from adaprivate.runtime.engines import SimulatedEngine
from adaprivate.runtime.learner import Learner
from adaprivate.runtime.policy import Policy
from adaprivate.simulation import percent_of, policy_settings, run_all
from adaprivate.whole import WholeSum

STEPS = [
    (Learner, "counted"),
    (Book, "add"),
    (Book, "close"),
    (Learner, "read"),
    (Policy, "_counted"),
    (Policy, "_after_count"),
]
"""In this order: the learner says where an event goes, and so counts it first."""
POLICIES = {
    "sums": ("adaprivate-ts", {"batch_size": 3}),
    "flip": ("noise-aware-ts", {"channel": "flip"}),
    "items": ("noise-aware-ts", {"channel": "items"}),
    "gaussian": ("noise-aware-ts", {"channel": "gaussian", "batch_size": 3}),
}


ERRORS = [KeyboardInterrupt, InputError]
"""What interrupts, and an error of whatever a signal's handler does: it looks like a refusal, and is none."""


def once(patched, kind, method, after, policy, error=KeyboardInterrupt):
    """Interrupt the next call of this method, before it begins or when all is done."""
    if method == "close":
        kind = type(policy.book)
    original = getattr(kind, method)
    calls = []
    waits = 2 if method == "_after_count" else 1  # that comes before counting, too

    def interrupts(self, *arguments):
        calls.append(method)
        if len(calls) != waits:
            return original(self, *arguments)
        if after:
            original(self, *arguments)
        raise error("Expected path='nowhere' to exist.")

    patched.setattr(kind, method, interrupts)
    return calls


def quiet(monkeypatch):
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))
    monkeypatch.setattr(RandomisedResponse, "tell", lambda self, reward, source: self.told(reward))
    monkeypatch.setattr(DiscreteLaplace, "add", lambda self, total, source: total)


def played(rounds, kind="sums"):
    name, options = POLICIES[kind]
    policy = adaprivate.policy(name, dimension=3, rounds=50, **options, source=Secure())
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
ALL_STEPS = [(step, after) for after in (False, True) for step in STEPS]
IDS = [f"{'after' if after else 'before'} {method}" for (_, method), after in ALL_STEPS]


@pytest.mark.parametrize(("step", "after"), ALL_STEPS, ids=IDS)
@pytest.mark.parametrize(
    ("kind", "moment"), [("sums", m) for m in MOMENTS] + [(k, "decide") for k in POLICIES if k != "sums"]
)
def test_an_interrupted_round_is_counted_once_and_nothing_is_lost(kit, monkeypatch, step, after, kind, moment):
    """Wherever an interruption comes while an exact round is counted and released, the policy ends as its twin."""
    quiet(monkeypatch)
    policy, twin = played(3, kind), played(3, kind)
    assert kit.everything(policy) == kit.everything(twin)
    last, before = policy._open[2].decision, policy.version
    with monkeypatch.context() as patched:
        calls = once(patched, *step, after, policy)
        with pytest.raises(KeyboardInterrupt):
            MOMENTS[moment](policy)
        assert len(calls) == 1 + (step[1] == "_after_count")
        with pytest.raises(RewardRefusedError) as refused:
            policy.learn(last, 0.0)
        counted = (step[1], after) == ("_counted", True) or step[1] == "_after_count"
        assert refused.value.reason == ("late" if counted else "repeated")
        policy.advance()
    twin.advance()
    assert kit.everything(policy) == kit.everything(twin)
    assert (policy.round, policy.version, policy.book.round, policy.book.batch) == (3, before + 1, 3, before + 1)
    assert policy.learner.done.tolist() == [3, before + 1]
    assert policy.state.scalars[0]["batch" if kind in ("sums", "gaussian") else "releases"] == before + 1
    for one in (policy, twin):  # and it goes on, over the end of the next batch
        for _ in range(4):
            one.learn(one.decide(np.eye(3)), 0.5 if kind == "sums" else 1.0)
        one.finish()
    assert kit.everything(policy) == kit.everything(twin)
    assert (policy.round, policy.version) == (7, twin.version)
    assert policy.version > before + 1


WITHIN = [(Learner, "counted_and_choose"), (Book, "add_next"), (Policy, "_counted"), (Policy, "_after_count")]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", WITHIN, ids=lambda step: step[1])
@pytest.mark.parametrize("kind", ["sums", "gaussian"])
def test_an_interrupted_round_within_a_batch_is_counted_once(kit, monkeypatch, step, after, kind):
    """Where a round and the choice after it are one step, the books, the learner and the releases are its twin's.

    A choice that was interrupted has used up random numbers, as ever: one candidate is offered, so that none matter.
    """
    quiet(monkeypatch)
    policy, twin = played(4, kind), played(4, kind)
    assert policy._engine.fused_until == policy.book.sums_until == 5
    with monkeypatch.context() as patched:
        calls = once(patched, *step, after, policy) if step[1] != "_after_count" else None
        if calls is None:
            original = Policy._after_count

            def interrupts(self):
                if after:
                    original(self)
                raise KeyboardInterrupt

            patched.setattr(Policy, "_after_count", interrupts)
        with pytest.raises(KeyboardInterrupt):
            policy.decide(np.eye(3)[:1])
        assert calls is None or len(calls) == 1
    assert (policy.decided, policy._busy) == (4, False)
    for one in (policy, twin):
        for _ in range(3):
            one.learn(one.decide(np.eye(3)[:1]), 0.5)
        one.finish()
    assert policy.book.to_bytes() == twin.book.to_bytes()
    assert (policy.round, policy.version) == (twin.round, twin.version) == (7, policy.book.batch)
    assert policy.learner.done.tolist() == twin.learner.done.tolist()


@pytest.mark.parametrize("kind", ["sums", "gaussian"])
def test_bad_candidates_within_a_batch_change_nothing(kit, kind):
    policy = played(4, kind)
    before = kit.everything(policy)
    with pytest.raises(InputError, match=r"^Expected candidates\[1, 2\]=nan to be finite\.$"):
        policy.decide(np.array([[1.0, 0, 0], [0, 0, np.nan]]))
    assert kit.everything(policy) == before


@pytest.mark.parametrize(("step", "after"), ALL_STEPS, ids=IDS)
@pytest.mark.parametrize("kind", POLICIES)
def test_an_interrupted_round_is_saved_whole(kit, monkeypatch, step, after, kind, tmp_path):
    """Stopped by a key and saved at once, as programs do when they end."""
    quiet(monkeypatch)
    policy, twin = played(3, kind), played(3, kind)
    with monkeypatch.context() as patched:
        once(patched, *step, after, policy)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    loaded.advance()
    twin.advance()
    assert kit.everything(loaded) == kit.everything(twin)
    assert (loaded.round, loaded.version, loaded.book.round, loaded.book.batch) == (3, twin.version, 3, twin.version)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("seed", [None, 0], ids=["exact", "simulated"])
@pytest.mark.parametrize("step", [(Policy, "_plan_on"), (Policy, "_look_ahead")], ids=["_plan_on", "_look_ahead"])
def test_an_interrupted_plan_is_made_once(kit, monkeypatch, step, seed, after):
    """What is planned at a public moment is planned once, and with the offers seen until then."""
    quiet(monkeypatch)

    def begun():
        source = Secure() if seed is None else None
        options = {"dimension": 3, "rounds": 50, "channel": "gaussian", "batch_size": 3}
        policy = adaprivate.policy("noise-aware-ts", **options, seed=seed, source=source)
        policy._engine.rng[...] = 5
        for _ in range(2):
            policy.learn(policy.decide(np.eye(3)), 1.0)
        assert (policy.settings.choice, policy.settings.planned) == (None, 2)
        return policy

    policy, twin = begun(), begun()
    with monkeypatch.context() as patched:
        calls = once(patched, *step, after, policy)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        assert len(calls) == 1
    for one in (policy, twin):
        for _ in range(5):
            one.learn(one.decide(np.eye(3)), 1.0)
        one.finish()
    assert policy.settings == twin.settings
    assert policy.settings.rounds == 50
    assert kit.everything(policy) == kit.everything(twin)
    assert policy.version > 0


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("after", [False, True])
def test_an_interruption_inside_an_addition_may_lose_its_event_but_never_counts_it_twice(monkeypatch, after, error):
    """The one step that is not made good: three rewards of 1 add up to three or, if that one is lost, to two."""
    quiet(monkeypatch)
    released = []
    close = SumBook.close
    monkeypatch.setattr(SumBook, "close", lambda book: released.append(close(book)) or released[-1])
    policy = played(3)
    with monkeypatch.context() as patched:
        once(patched, SumBook, "_enter", after, policy, error)
        with pytest.raises(error):
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
        once(patched, *((Learner, "read") if method == "close" else (SumBook, "_enter")), False, policy)
        with pytest.raises(KeyboardInterrupt):
            policy.advance()
        assert len(drawn) == (method == "close")
        policy.advance()
    policy.advance()
    assert len(drawn) == policy.version == 1


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["flip", "items", "gaussian"])
def test_an_interruption_inside_a_channel_never_counts_an_event_twice(monkeypatch, kind, after, error):
    """Rewards of 1, told truly: what is released adds up to all of them, or to one less if that one is lost."""
    quiet(monkeypatch)
    monkeypatch.setattr(ChannelBook, "arrived", lambda book, reward: reward)
    released = []
    close = ChannelBook.close
    monkeypatch.setattr(ChannelBook, "close", lambda book: released.append(close(book)[0]) or close(book))
    policy = played(3, kind)
    with monkeypatch.context() as patched:
        once(patched, ChannelBook, "_enter", after, policy, error)
        with pytest.raises(error):
            policy.advance()
        policy.advance()
    policy.advance()
    assert (policy.round, policy.book.round, policy.learner.done.tolist()) == (3, 3, [3, len(released)])
    assert policy.version == len(released)
    if kind == "flip":
        assert len(released) == (3 if after else 2)
    if kind == "items":
        held = sum(total for total, _ in policy.book._blocks.values())
        whole = sum(release.values[0] for release in released) / 0.5 + held  # each reward counts as 1 - 1/2
        assert whole == (3 if after else 2)


def use(policy):
    policy.advance()  # as a handler of a signal may do; it is refused


def give_up(policy):
    raise TimeoutError


def load(policy):
    adaprivate.load("/nowhere")


@pytest.mark.parametrize("handler", [use, give_up, load])
@pytest.mark.parametrize("rounds", [3, 4], ids=["whole", "fused"])
@pytest.mark.parametrize("kind", ["sums", "gaussian"])
def test_an_error_of_what_interrupts_is_not_taken_for_a_refused_event(monkeypatch, kind, rounds, handler):
    """It comes when the event has entered: nothing says that it was refused, and it does not enter again."""
    quiet(monkeypatch)
    policy, twin = played(rounds, kind), played(rounds, kind)
    with monkeypatch.context() as patched:
        original = WholeSum.enter

        def interrupted(self, features, reward, way):
            original(self, features, reward, way)
            handler(policy)

        patched.setattr(WholeSum, "enter", interrupted)
        with pytest.raises((InputError, TimeoutError)):
            policy.decide(np.eye(3)[:1])
    for one in (policy, twin):
        for _ in range(4):
            one.learn(one.decide(np.eye(3)[:1]), 0.5)
        one.finish()
    assert policy.book.to_bytes() == twin.book.to_bytes()
    assert (policy.round, policy.book.round) == (rounds + 4, rounds + 4)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_simulated_round_that_is_interrupted_is_not_counted_twice(monkeypatch, when):
    policy = adaprivate.policy("adaprivate-ts", dimension=3, rounds=50, batch_size=10, seed=0)
    for _ in range(3):
        policy.learn(policy.decide(np.eye(3)[:1]), 1.0)
    with monkeypatch.context() as patched:
        original = SimulatedEngine.count_and_choose

        def interrupted(self, *arguments):
            if when == "after":
                original(self, *arguments)
            raise KeyboardInterrupt

        patched.setattr(SimulatedEngine, "count_and_choose", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy.decide(np.eye(3)[:1])
    policy.learn(policy.decide(np.eye(3)[:1]), 1.0)
    policy.finish()
    assert (policy.decided, policy.round) == (4, 4)
    assert policy.state.learner.scalars["round"][0] == (4 if when == "after" else 3)


@pytest.mark.parametrize("seed", [None, 0], ids=["exact", "simulated"])
@pytest.mark.parametrize("missing", [0, 0.0])
def test_whether_the_first_reward_came_changes_no_other(kit, monkeypatch, missing, seed):
    """What stands for it may be written as a whole number; others are not read as such on that account."""
    quiet(monkeypatch)
    options = {"dimension": 3, "rounds": 500, "batch_size": 100, "channel": "gaussian", "missing": missing}
    found = []
    for first in (None, 0.0):
        source = Secure() if seed is None else None
        policy = adaprivate.policy("noise-aware-ts", **options, seed=seed, source=source)
        policy._engine.rng[...] = 5
        for reward in (first, 0.7, 0.25, True, 1, 0.7):
            policy.learn(policy.decide(np.eye(3)[:1]), reward)
        policy.finish()
        found.append(policy.book.to_bytes() if seed is None else kit.everything(policy))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [{"seed": 0}, {"source": Secure()}], ids=["simulated", "exact"])
def test_every_reward_enters_the_round_that_it_was_told_of_and_no_other(monkeypatch, kind):
    """Told late, in any order, or never: what stands for a missing one is public, and no neighbor's reward."""
    policy = adaprivate.policy("adaprivate-ts", dimension=2, rounds=40, batch_size=20, reward_window=3, **kind)
    entered, engine = {}, policy._engine
    count, count_and_choose = engine.count, engine.count_and_choose

    def counted(number, features, reward, person=-1):
        assert entered.setdefault(number, reward) == reward
        return count(number, features, reward, person)

    def counted_with(number, features, reward, person, offered):
        assert entered.setdefault(number, reward) == reward
        return count_and_choose(number, features, reward, person, offered)

    monkeypatch.setattr(engine, "count", counted)
    monkeypatch.setattr(engine, "count_and_choose", counted_with)
    told, waiting = {}, []
    for number in range(40):
        waiting.append(policy.decide(np.eye(2)))
        if number % 4 == 3:
            for decision in waiting[::-1]:
                if decision.round % 3:
                    told[decision.round] = 0.01 + decision.round / 64
                    policy.learn(decision, told[decision.round])
            waiting = []
    policy.finish()
    assert entered == {number: told.get(number, policy.settings.missing) for number in range(40)}


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
