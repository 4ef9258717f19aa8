"""Every condition of a guarantee, broken: code refuses or bounds it, or the guarantee prints it as the caller's to keep.

A condition without an entry in ``TABLE`` fails here. ``kept`` breaks the condition and shows that code upholds it: it must
be there for whatever a guarantee calls enforced. ``assumed`` gives a guarantee that rests on the caller for it: it must be
there for whatever one calls an assumption.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import adaprivate
from adaprivate import mechanisms, policies, privacy
from adaprivate.adapters import CobaLearner, plain_features
from adaprivate.check import InputError
from adaprivate.mechanisms import Laplace, NoisyMax, Secure, Simulated, SymmetricGaussian
from adaprivate.mechanisms.channels import ChannelPlan
from adaprivate.mechanisms.messages import MessagePlan
from adaprivate.mechanisms.symmetric import gram_rows
from adaprivate.mechanisms.units import Event, EventSum
from adaprivate.mechanisms.units.user import UserSum
from adaprivate.privacy import Guarantee
from adaprivate.runtime.policy import Policy
from adaprivate.testing.books import open_noise

X = np.array([0.6, 0.8, 0.0])


def settings(name, **options):
    return policies.settings(name, {"dimension": 3, "rounds": 40, **options})


BATCHED = settings("adaprivate-ts", batch_size=5)
CATALOGUE = ((0.9, 0.1, 0.0), (-0.5, 0.2, 0.1), (0.3, -0.1, 0.2))


def in_use(made, folder=None):
    return Policy(made, source=Secure())


# --- conditions that code keeps ---------------------------------------------------------------------------------------


def rewards_out_of_range(folder):
    for made in (BATCHED, settings("lazy-dp-ts"), settings("thompson"), settings("rr-linucb"), settings("ldp-linucb")):
        policy = in_use(made)
        decision = policy.decide(np.eye(3))
        for wrong in (1.5, -0.1, float("nan"), "much"):
            with pytest.raises(InputError, match="reward") as refused:
                policy.learn(decision, wrong)
            assert str(wrong) not in str(refused.value)
    for plan in (BATCHED.plan, settings("lazy-dp-ts").plan, settings("ldp-linucb").plan):
        with pytest.raises(InputError, match="reward"):
            plan.book(Secure()).add(
                Event(0, X, 1.5, channel="items" if plan.routed else "", block=0 if plan.routed else -1)
            )


def features_too_long(folder):
    sums = [EventSum(3, noise=Secure()) for _ in range(2)]
    sums[0].add(X, 1.0)
    sums[1].add(7 * X, 1.0)
    assert sums[0].take().tolist() == sums[1].take().tolist()
    plan = MessagePlan(delta=1e-5, dimension=3, rounds=1, noise_multiplier=1.0)
    assert plan.whole(7 * X, 1.0).tolist() == plan.whole(X, 1.0).tolist()


def learned_twice(made):
    def broken(folder):
        policy = in_use(made)
        decision = policy.decide(np.eye(3))
        policy.learn(decision, 1.0)
        with pytest.raises(InputError, match="to be learned once"):
            policy.learn(decision, 1.0)
        policy.advance()
        with pytest.raises(InputError, match="to be open"):
            policy.learn(decision, 1.0)
        before = policy.book.round
        with pytest.raises(InputError, match="the next one"):
            policy.book.add(Event(before - 1, X, 1.0))

    return broken


def releases_told_by_rewards(made, choices_may_follow_releases=False):
    """Whether rewards come or not, versions are the same; without noise, so that releases of nothing are alike."""

    def broken(folder):
        seen = []
        for comes in (True, False):
            with open_noise(silent=True):
                policy = in_use(made)
                policy.learner.rng[:] = Policy(made, seed=1)._engine.rng
                versions = []
                for _ in range(made.rounds):
                    decision = policy.decide(np.eye(3))
                    versions.append((decision.version, decision.action if choices_may_follow_releases else None))
                    if comes:
                        policy.learn(decision, made.missing)
                        assert policy.version == decision.version
                policy.finish()
            seen.append((versions, policy.version))
        assert seen[0] == seen[1]
        assert seen[0][1] > 0

    return broken


def two_channels(folder):
    plan = ChannelPlan(delta=0.0, epsilon=1.0, channels=("items",))
    book = plan.book(Secure())
    for channel in ("", "flip", "gaussian", "both"):
        with pytest.raises(InputError, match=r"event\.channel"):
            book.add(Event(0, X, 1.0, channel=channel, block=0))
    book.add(Event(0, X, 1.0, channel="items", block=0))
    with pytest.raises(InputError, match="the next one"):
        book.add(Event(0, X, 1.0, channel="items", block=1))


def noise_from_a_seed(folder):
    with pytest.raises(InputError, match="not to come with source"):
        Policy(BATCHED, seed=1, source=Secure())
    with pytest.raises(InputError, match=r"to be Secure\(\) itself"):
        Policy(BATCHED, source=Simulated(1))
    with pytest.raises(TypeError):
        Secure(1)


def noise_in_floating_point(folder):
    for kind in ("gaussian", "laplace"):
        with pytest.raises(InputError, match="whole numbers of the grid"):
            getattr(Secure(), kind)(np.ones(3), 1.0)
    with pytest.raises(InputError, match="with exact noise"):
        in_use(settings("adaprivate-ts", batch_size=5, statistics="ab"))


def a_file_continued_twice(folder):
    policy = in_use(BATCHED)
    policy.save(folder / "p")
    adaprivate.load(folder / "p")
    with pytest.raises(InputError, match="to be continued once"):
        adaprivate.load(folder / "p")


def a_person_of_many_rewards(folder):
    people = UserSum(3, noise=Secure(), clip=1.0, batches=1)
    for _ in range(50):
        people.add("ann", X, 1.0)
    assert sum(int(v) ** 2 for v in people.take()) <= 4**20


def a_person_in_many_batches(folder):
    people = UserSum(3, noise=Secure(), clip=1.0, batches=2)
    entered = []
    for _ in range(4):
        entered.append(people.add("ann", X, 1.0))
        people.take()
    assert entered == [True, True, False, False]


def a_person_who_comes_too_often(name):
    """Of five visits two count, and nothing of the others is released or learned."""

    def broken(folder):
        policy = in_use(settings(name, unit="user", counted_visits=2))
        for _ in range(5):
            policy.learn(policy.decide(np.eye(3), user="ann"), 1.0)
        policy.finish()
        assert policy.book.people == {"people": 1, "counted": 2, "beyond": 3}
        assert not policy.book.weigh(5, policy._person("ann"), X).any()

    return broken


def features_outside_the_catalogue(folder):
    made = settings("noise-aware-ts", catalogue=CATALOGUE, channel="gaussian", batch_size=5)
    shape = made.plan.sums.shape
    collector = made.plan.sums.collector(Secure())
    size = made.plan.sums.size
    worst = 0
    for direction in np.eye(size):
        collector.add(9 * direction, 1.0)
        worst = max(worst, sum(int(v) ** 2 for v in collector.take()))
    assert shape is not None
    assert 0 < worst <= 4**20
    assert collector.clipped > 0


# --- conditions that are the caller's ---------------------------------------------------------------------------------


def of_policy(name, **options):
    return lambda: in_use(settings(name, **options)).guarantee


def of_mechanism(made):
    return lambda: made().guarantee(1e-5)


LOCAL = of_policy("noise-aware", channel="flip", local=True)
MESSAGES = of_policy("ldp-linucb")


def of_joint():
    return settings("jdp-linucb-gaussian").guarantee()


def of_people():
    running = mechanisms.PrefixSum(
        mechanisms.strategy("tree", 4),
        dimension=3,
        noise_multiplier=1.0,
        noise=Secure(),
        participation=privacy.users(1.0, 2, "replace"),
    )
    return running.guarantee(1e-5)


def bare_events():
    """A mechanism by itself, its sums anyone's: nothing is enforced but its noise."""
    return mechanisms.PrefixSum(
        mechanisms.strategy("tree", 4), dimension=3, noise_multiplier=1.0, noise=Secure()
    ).guarantee(1e-5)


class Condition(NamedTuple):
    """How it is broken and kept (given a folder), and a guarantee in which it is the caller's; at least one of them."""

    kept: Callable | None = None
    assumed: Callable[[], Guarantee] | None = None


def a_flip_of_something_else(folder):
    policy = in_use(settings("noise-aware", channel="flip", local=True))
    with pytest.raises(InputError, match="flipped bit"):
        policy.learn(policy.decide(np.eye(3)), 0.5)


TABLE = {
    "reward-range": Condition(rewards_out_of_range, bare_events),
    "feature-norm": Condition(features_too_long, bare_events),
    "one-batch": Condition(learned_twice(BATCHED), bare_events),
    "public-schedule": Condition(releases_told_by_rewards(BATCHED), bare_events),
    "one-arm": Condition(
        learned_twice(settings("lazy-dp-ts")),
        of_mechanism(lambda: NoisyMax(sensitivities=[1, 1], sigmas=[1, 1], noise=Secure())),
    ),
    "one-channel": Condition(two_channels),
    "client-flip": Condition(a_flip_of_something_else, LOCAL),
    "client-message": Condition(assumed=MESSAGES),
    "released-schedule": Condition(
        releases_told_by_rewards(settings("lazy-dp-ts"), choices_may_follow_releases=True),
        of_mechanism(lambda: NoisyMax(sensitivities=[1, 1], sigmas=[1, 1], noise=Secure())),
    ),
    "public-features": Condition(assumed=of_policy("adaprivate-ts", batch_size=5)),
    "own-reward": Condition(assumed=lambda: CobaLearner("noise-aware", plain_features(2, 3), rounds=40).guarantee),
    "secret-noise": Condition(noise_from_a_seed, lambda: Policy(BATCHED, seed=1).guarantee),
    "no-replay": Condition(a_file_continued_twice, of_policy("adaprivate-ts", batch_size=5)),
    "exact-noise": Condition(noise_in_floating_point, lambda: Policy(BATCHED, seed=1).guarantee),
    "user-clip": Condition(a_person_of_many_rewards, of_people),
    "user-batches": Condition(a_person_in_many_batches, of_people),
    "user-ledger": Condition(a_person_who_comes_too_often("noise-aware")),
    "user-visits": Condition(a_person_who_comes_too_often("rr-linucb")),
    "public-visits": Condition(assumed=of_policy("rr-linucb", unit="user")),
    "user-identity": Condition(assumed=of_people),
    "public-preparation": Condition(
        assumed=of_mechanism(
            lambda: SymmetricGaussian(dimension=3, noise_multiplier=1.0, noise=Secure(), participation=gram_rows("replace"))
        )
    ),
    "independent-rounds": Condition(assumed=of_joint),
    "own-action-hidden": Condition(assumed=of_joint),
    "one-message": Condition(assumed=MESSAGES),
    "catalogue": Condition(
        features_outside_the_catalogue,
        lambda: next(e for e in mechanisms.examples() if e.name == "catalogue").build(Secure()).guarantee(1e-5),
    ),
    "secret-sample": Condition(assumed=lambda: settings("adaprivate-ts-amp", batch_size=5).guarantee()),
    "one-entry": Condition(assumed=of_mechanism(lambda: NoisyMax(sensitivities=[1, 1], sigmas=[1, 1], noise=Secure()))),
    "l1-change": Condition(assumed=of_mechanism(lambda: Laplace(dimension=3, epsilon=1.0, l1_change=1.0, noise=Secure()))),
}


def test_every_condition_has_an_entry_and_every_entry_is_a_condition():
    assert {*TABLE} == {*privacy.CONDITIONS}
    assert all(entry.kept or entry.assumed for entry in TABLE.values())


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.kept])
def test_broken_it_is_refused_or_bounded(name, tmp_path):
    TABLE[name].kept(tmp_path)


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.assumed])
def test_it_is_printed_where_it_is_the_callers(name):
    statement, text = TABLE[name].assumed(), privacy.CONDITIONS[name]
    assert text in statement.assumptions
    assert text not in statement.enforced
    _, _, after = str(statement).partition("It holds only if you keep to:")
    assert f"  - {text}" in after


def statements():
    for name in policies.names():
        for case in policies.overview(name).cases:
            yield f"{name}, in production", case.statement
        for example in policies.examples(name):
            yield f"{name}, simulated", example.guarantee()


def test_nothing_is_called_enforced_or_assumed_that_is_not_shown_above():
    names = {text: name for name, text in privacy.CONDITIONS.items()}
    assert len(names) == len(privacy.CONDITIONS)
    for where, statement in statements():
        if statement is None:
            continue
        for text in statement.enforced:
            assert TABLE[names[text]].kept, f"{where}: {names[text]} is called enforced"
        for text in statement.assumptions:
            assert TABLE[names[text]].assumed, f"{where}: {names[text]} is called the caller's"
        assert not {*statement.enforced} & {*statement.assumptions}
