"""One policy, many threads: every decision is unique, every event enters one batch, and what is released adds up exactly.

The noise that the operating system gave is captured and taken off again; what is left must be the exact integer sums.
"""

import sys
import threading

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import check
from adaprivate.mechanisms import Secure, noise
from adaprivate.mechanisms.contributions import Contribution
from adaprivate.mechanisms.noise import NOISE_BITS, Noise

D, THREADS = 3, 8


class Captured:
    """Stands between the exact sampler and the sums: keeps every draw, in order."""

    def __init__(self, monkeypatch):
        self.draws = []
        sampler = noise._gaussian_sampler

        def kept(scale, size):
            draw = sampler(scale, size)

            def drawn(zeros):
                values = draw(zeros)
                self.draws.append([int(v) for v in values])
                return values

            return drawn

        monkeypatch.setattr(noise, "_gaussian_sampler", kept)


@pytest.fixture(params=[None, 1e-6], ids=["default switch interval", "1e-6 switch interval"])
def switching(request):
    before = sys.getswitchinterval()
    if request.param is not None:
        sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


def hammer(policy, each, work):
    """Run ``work(thread, policy)`` in many threads at once; the first error is raised."""
    errors = []
    gate = threading.Barrier(THREADS)

    def run(thread):
        try:
            gate.wait()
            for turn in range(each):
                work(thread, turn)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(t,)) for t in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_exact_sums_survive_many_threads(monkeypatch, switching):
    """8 x 400 rounds: released minus captured noise is the exact sum of the events of its rounds, batch by batch."""
    each, size, window = 400, 100, 50
    captured = Captured(monkeypatch)
    policy = ap.policy(
        "adaprivate-ts", dimension=D, rounds=THREADS * each, batch_size=size, source=Secure(), reward_window=window
    )
    released, told = [], {}
    close = type(policy.book).close

    def seen(book):
        release, after = close(book)
        released.append(release)
        return release, after

    monkeypatch.setattr(type(policy.book), "close", seen)
    candidates = np.random.default_rng(0).standard_normal((THREADS, 4, D)) / 4
    rewards = np.random.default_rng(1).uniform(size=(THREADS, each))
    late = []

    def work(thread, turn):
        decision = policy.decide(candidates[thread])
        try:
            policy.learn(decision, float(rewards[thread, turn]))
            reward = float(rewards[thread, turn])
        except check.InputError:  # 50 others decided first: the window has passed
            late.append(decision.round)
            reward = 0.0
        told[decision.round] = (decision.features.copy(), reward)

    hammer(policy, each, work)
    policy.finish()
    assert sorted(told) == list(range(THREADS * each))
    assert policy.round == policy.decided == THREADS * each
    assert [release.batch for release in released] == list(range(THREADS * each // size))
    assert len(captured.draws) == len(released)
    contribution = Contribution(D, Secure(), 0.0, None)
    total, noisy = np.zeros(D, dtype=object), np.zeros(D, dtype=object)
    for batch, release in enumerate(released):
        for number in range(batch * size, (batch + 1) * size):
            total = total + contribution(*told[number])
        noisy = noisy + np.array(captured.draws[batch], dtype=object)
        exact = [int(t) * 2**20 + int(n) for t, n in zip(total, noisy, strict=True)]
        np.testing.assert_allclose(release.values, [e / 2**NOISE_BITS for e in exact], rtol=1e-12, atol=1e-12)
    assert len(late) < THREADS * each / 2


def leaves(state, name=""):
    """The arrays of a state by their names."""
    if not isinstance(state, tuple):
        return {name: state}
    parts = [leaves(part, field) for field, part in zip(state._fields, state, strict=True)]
    return {f"{name}.{field}": leaf for part in parts for field, leaf in part.items()}


def remember(policy, offered):
    """Let a policy know the candidates of decisions that it did not make itself."""
    learner, scouted = policy.state.learner, policy.settings.scouted
    rows = np.concatenate(offered[:scouted])
    learner.offers[: len(rows)] = rows
    learner.offered_in[: len(rows)] = np.repeat(np.arange(scouted), [len(some) for some in offered[:scouted]])
    learner.scalars["offers"], learner.scalars["offered"] = len(rows), scouted


CHANNELS = [{"channel": channel} for channel in ("gaussian", "flip", "items", "auto")]
POLICIES = [*(("noise-aware-ts", options) for options in CHANNELS), ("linucb", {}), ("adaprivate-ucb", {})]


@pytest.mark.parametrize(("name", "options"), POLICIES, ids=str)
def test_decisions_are_unique_and_each_reward_finds_its_own(name, options, switching):
    """What many threads have told is, round by round, what one thread tells a twin in the same order."""
    options = options if name == "linucb" else {"batch_size": 60, **options}
    policy = ap.policy(name, dimension=D, rounds=4000, seed=0, reward_window=100, **options)
    told, late, reasons = [{} for _ in range(THREADS)], [], []
    offered, made_at, versions = {}, {}, []
    candidates = np.random.default_rng(0).uniform(-0.5, 0.5, (THREADS, 4, D))
    rewards = np.random.default_rng(1).uniform(size=(THREADS, 50, 3))

    def work(thread, turn):
        made = policy.decide_many(candidates[thread][None].repeat(3, axis=0)) if turn % 5 == 0 else None
        for place, decision in enumerate(made or [policy.decide(candidates[thread])]):
            reward = float(rewards[thread, turn, place])
            try:
                policy.learn(decision.token if turn % 2 else decision, reward)
            except check.InputError as error:  # 100 others decided first: the window has passed
                reasons.append(f"round={decision.round} to be open" in str(error) and decision.round < policy.round)
                late.append(decision.round)
                reward = None
            told[thread][decision.round] = (decision.features.copy(), reward)
            offered[decision.round], made_at[decision.round] = candidates[thread], decision.version
        if turn % 7 == 0:
            policy.advance()
            counted, opened = policy.round, policy.open_decision
            assert opened is None or opened.round >= counted

    hammer(policy, 50, work)
    together = {number: event for one in told for number, event in one.items()}
    assert sum(map(len, told)) == len(together)
    assert sorted(together) == list(range(THREADS * (40 + 3 * 10)))
    assert all(reasons)
    assert len(late) < len(together) / 2
    assert policy.decided == len(together)
    policy.finish()
    assert policy.round == len(together)
    alone = ap.policy(name, dimension=D, rounds=4000, seed=0, **options)
    if name == "noise-aware-ts":
        remember(alone, [offered[number] for number in range(len(together))])
    for number in range(len(together)):
        alone.observe(*together[number])
        alone.advance()
        versions.append(alone.version)
    assert alone.version == policy.version
    assert (policy.version > 1) == (name != "linucb")  # which releases nothing
    mine, its = leaves(policy.state), leaves(alone.state)
    for field, leaf in mine.items():
        scratch = field.endswith((".rotated", ".parameter"))  # of choosing
        assert scratch or leaf.tolist() == its[field].tolist(), field
    if name == "noise-aware-ts":
        assert policy.settings.choice == alone.settings.choice
        assert policy.version == policy.state.learner.scalars["releases"][0]
    assert all(made_at[number] <= versions[number - 1] for number in range(1, len(together)))
    assert [made_at[number] for number in sorted(made_at)] == sorted(made_at.values())


def test_a_source_is_secure_itself_or_nothing():
    class Quiet(Secure):
        def gaussian(self, values, scale):
            return np.array([v / 2**NOISE_BITS for v in values.ravel()]).reshape(values.shape)

    with pytest.raises(check.InputError, match=r"^Expected source='Quiet' to be Secure\(\) itself\.$"):
        ap.policy("adaprivate-ts", dimension=D, rounds=50, batch_size=5, source=Quiet())
    for source in (Noise, Secure):
        with pytest.raises(check.InputError):
            ap.policy("adaprivate-ts", dimension=D, rounds=50, batch_size=5, source=source)
