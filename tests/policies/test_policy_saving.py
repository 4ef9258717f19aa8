"""Saving and loading: nothing changes by it, and a file that is not a policy is named as such."""

import dataclasses

import numpy as np
import pytest

import adaprivate
from adaprivate import policies
from adaprivate.check import InputError
from adaprivate.mechanisms import packing
from adaprivate.mechanisms.informative import Informative
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.runtime import storage
from adaprivate.runtime.storage import _MAGIC

CASES = [
    {"name": "random"},
    {"name": "lints", "centre": 0.5},
    {"name": "linucb"},
    {"forced_exploration": 2.0},
    {"noise": "tree", "theta_0": (0.1, 0.0, 0.0, 0.3, -0.2)},
    {"name": "adaprivate-ts-adaptive", "schedule": "growing"},
    {"name": "adaprivate-ts-amp"},
    {"name": "adaprivate-ucb", "centre": 0.5},
    {"statistics": "ab"},
]
STRATEGIES = ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"]


def copied(policy, path):
    policy.save(path)
    return adaprivate.load(path)


@pytest.mark.parametrize("options", CASES, ids=[str(i) for i in range(len(CASES))])
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_saving_midway_changes_nothing(kit, options, opened, tmp_path):
    candidates, rewards = kit.offers()
    policy = kit.made(seed=3, **options)
    for t in range(60):
        if t % 11 == 3 and not opened:
            copy = copied(policy, tmp_path / "policy.npz")
            assert kit.everything(copy) == kit.everything(policy)
            policy = copy
        decision = policy.decide(candidates[t])
        if t % 11 == 3 and opened:
            copy = copied(policy, str(tmp_path / "policy.npz"))
            assert kit.everything(copy) == kit.everything(policy)
            policy = copy
        policy.learn(decision, float(rewards[t]))  # of the policy that was saved: the copy knows its own
    policy.advance()
    whole = kit.made(seed=3, **options)
    kit.play(whole, candidates, rewards)
    assert kit.everything(policy) == kit.everything(whole)
    assert policy.settings == whole.settings
    assert policy.guarantee == whole.guarantee
    assert [file.name for file in tmp_path.iterdir()] == ["policy.npz"]


@pytest.mark.parametrize("noise", STRATEGIES)
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_secure_policies_continue_where_they_were(kit, noise, opened, tmp_path, monkeypatch):
    """Without the noise, the released statistic is the true running sum, however often the policy was saved."""
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))
    candidates, rewards = kit.offers()
    policy = kit.made(secure=True, noise=noise, centre=0.5, theta_0=(0.5, 0.0, 0.0, 0.0, -0.5))
    truth = np.zeros(5)
    for t in range(60):
        decision = policy.decide(candidates[t])
        if t % 5 == 3 and opened:
            policy, before = copied(policy, tmp_path / "policy.npz"), kit.everything(policy)
            assert kit.everything(policy) == before
        policy.learn(decision, float(rewards[t]))
        truth += (rewards[t] - 0.5) * decision.features
        if t % 5 == 3 and not opened:
            policy, before = copied(policy, tmp_path / "policy.npz"), kit.everything(policy)
            assert kit.everything(policy) == before
        if (t + 1) % 7 == 0:
            policy.advance()
            assert policy.version == (t + 1) // 7
            np.testing.assert_allclose(policy.state.statistic, policy.state.prior + truth, atol=60 * 2.0**-19)
            np.testing.assert_array_equal(policy.state.prior, (0.5, 0.0, 0.0, 0.0, -0.5))
    assert policy.source is not None
    assert policy.version == 8


def test_what_a_loaded_policy_releases_is_its_own_noise(kit, tmp_path):
    """Two policies restored from the same bytes, which files do not allow, draw noise of their own."""
    candidates, rewards = kit.offers(7)
    policy = kit.made(secure=True)
    kit.play(policy, candidates[:6], rewards[:6])
    data = policy.to_bytes()
    one, copy = type(policy).from_bytes(data), type(policy).from_bytes(data)
    assert kit.everything(one) == kit.everything(copy) == kit.everything(policy)
    for each in (one, copy):
        each.observe(candidates[6, 0], 0.5)
        each.finish()
    assert one.version == copy.version == 1
    assert np.array_equal(one.state.root, copy.state.root)
    assert not np.array_equal(one.state.statistic, copy.state.statistic)


@pytest.mark.parametrize("extended", [False, True], ids=["planned", "extended"])
def test_a_policy_goes_on_with_the_matrix_it_was_stored_with(kit, extended, tmp_path, monkeypatch):
    """Even where the same settings would now be fitted with another: its releases are rows of the stored C."""
    monkeypatch.setattr(Secure, "gaussian", lambda self, rows, scale: np.asarray(rows / 2**NOISE_BITS, dtype=float))
    options = {"rounds": 30, "batch_size": 5, "growth": 1.0, "intercept": 0.0, "channel": "gaussian"}
    policy = kit.made("noise-aware-greedy", secure=True, **options)
    candidates, rewards = kit.offers(60)
    start = 42 if extended else 12
    events = []
    for t in range(start):
        decision = policy.decide(candidates[t])
        policy.learn(decision, float(rewards[t]))
        events.append((rewards[t] - 0.5) * decision.features / np.linalg.norm(decision.features))
    policy.save(tmp_path / "p")
    stored = policy.book.plan.sums.encoder()
    tables = {field: getattr(policy.state, field).copy() for field in ("decoder", "influence", "relevance", "drift")}
    fit = Informative.__init__

    def otherwise(self, *args, **options):
        fit(self, *args, **options)
        self._hold(np.eye(self.steps) + 0.5 * np.eye(self.steps, k=-1))

    monkeypatch.setattr(Informative, "__init__", otherwise)
    loaded = adaprivate.load(tmp_path / "p")
    anew = policies.settings(loaded.settings.name, dataclasses.asdict(loaded.settings))
    anew = anew.extended(anew.learner())
    assert not np.allclose(anew.plan.sums.encoder(), stored)  # the fit would give another one
    assert np.array_equal(loaded.settings.plan.sums.encoder(), stored)
    assert np.array_equal(loaded.settings.batches.encoder(), stored)
    assert np.array_equal(loaded.book.plan.sums.encoder(), stored)
    for field, table in tables.items():
        assert np.array_equal(getattr(loaded.state, field), table)
    for t in range(start, start + 15):
        decision = loaded.decide(candidates[t])
        loaded.learn(decision, float(rewards[t]))
        events.append((rewards[t] - 0.5) * decision.features / np.linalg.norm(decision.features))
    loaded.advance()
    done = loaded.version
    ends = loaded.settings.ends
    assert done == np.sum(ends <= start + 15) >= np.sum(ends <= start) + 1
    sums = [np.sum(events[a:b], axis=0) for a, b in zip([0, *ends], ends[:done], strict=False)]
    np.testing.assert_allclose(loaded.state.rows[:done], stored[:done, :done] @ sums, atol=1e-3)
    assert loaded.guarantee.epsilon == policy.guarantee.epsilon


def test_a_failed_save_leaves_the_old_file(kit, tmp_path, monkeypatch):
    path = tmp_path / "policy.npz"
    policy = kit.made()
    policy.save(path)
    old = path.read_bytes()
    policy.decide(np.eye(5))

    def full(*args, **kwargs):
        raise OSError("No space left on device")

    for step in ("fsync", "open"):
        with monkeypatch.context() as patched:
            patched.setattr(storage.os, step, full)
            with pytest.raises(OSError, match="No space"):
                policy.save(path)
        assert path.read_bytes() == old
        assert [file.name for file in tmp_path.iterdir()] == ["policy.npz"]
    policy.save(path)
    assert kit.everything(adaprivate.load(path)) == kit.everything(policy)


def refused(path):
    with pytest.raises(InputError) as caught:
        adaprivate.load(path)
    assert str(caught.value).startswith(f"Expected path={str(path)!r} to be a saved policy")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("build", [{}, {"secure": True}], ids=["simulated", "secure"])
@pytest.mark.parametrize("keep", [0.0, 0.001, 0.3, 0.7, 0.99, 0.9999])
def test_truncated_files_are_refused(kit, build, keep, tmp_path):
    path = tmp_path / "policy.npz"
    kit.made(**build).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    refused(path)


@pytest.mark.parametrize("build", [{}, {"secure": True}], ids=["simulated", "secure"])
def test_corrupt_files_are_refused_or_make_no_difference(kit, build, tmp_path):
    path, policy = tmp_path / "policy.npz", kit.made(**build)
    kit.play(policy, *kit.offers(20))
    policy.save(path)
    data = path.read_bytes()
    for place in range(0, len(data), 97):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :])
        try:
            loaded = adaprivate.load(path)
        except InputError:
            for lease in tmp_path.glob("*.lease"):
                lease.unlink()
            continue
        assert kit.everything(loaded) == kit.everything(policy)  # a byte that nothing depends on


def changed(path, change):
    """Rewrite a saved policy with one of its values changed."""
    stored = packing.from_bytes(path.read_bytes()[len(_MAGIC) :])
    change(stored)
    path.write_bytes(_MAGIC + packing.to_bytes(stored))


def learners(stored, change):
    """The same within the learner of a policy with exact noise."""
    if "learner" not in stored["parts"]:
        change(stored["parts"]["state"][0])
        return
    learner = packing.from_bytes(stored["parts"]["learner"].tobytes())
    change(learner["parts"])
    stored["parts"]["learner"] = np.frombuffer(packing.to_bytes(learner), dtype=np.uint8)


def placed(place, value):
    return lambda parts: parts.__setitem__(place, value)


CHANGES = [
    lambda stored: stored.pop("settings"),
    lambda stored: stored.pop("round"),
    lambda stored: stored.update(policy="nonesuch"),
    lambda stored: stored["settings"].update(epsilon=-1.0),
    lambda stored: stored["settings"].update(colour="red"),
    lambda stored: stored["settings"].update(dimension=4),
    lambda stored: stored.update(open=[1, 2]),
    lambda stored: stored.update(open=[[0, 0, None, 0, [0.0] * 4, None, False]]),
    lambda stored: stored.update(round="three"),
    lambda stored: stored.update(round=-1),
    lambda stored: stored.update(key="not hexadecimal"),
    lambda stored: stored.pop("parts"),
    lambda stored: stored["parts"].clear(),
    lambda stored: learners(stored, lambda parts: parts.pop(0)),
    lambda stored: learners(stored, placed(0, None)),
    lambda stored: learners(stored, placed(0, np.zeros((2, 2)))),
    lambda stored: learners(stored, placed(0, np.zeros((2, 5)))),
    lambda stored: learners(stored, placed(0, np.zeros((9, 5)))),
    lambda stored: learners(stored, placed(0, np.zeros((5, 5), dtype=np.float32))),
    lambda stored: learners(stored, placed(1, np.zeros(4))),
    lambda stored: learners(stored, placed(6, np.zeros(1))),
    lambda stored: stored["parts"].update(rng=np.zeros(3), learner=np.zeros(3, dtype=np.uint8)),
    lambda stored: stored["parts"].update(state=[], book=np.zeros(3, dtype=np.uint8)),
]


@pytest.mark.parametrize("build", [{}, {"secure": True}], ids=["simulated", "secure"])
@pytest.mark.parametrize("change", CHANGES, ids=[str(i) for i in range(len(CHANGES))])
def test_altered_files_are_refused(kit, build, change, tmp_path):
    """In compiled code a wrong shape is a wild read: it must stop at the door."""
    path = tmp_path / "policy.npz"
    kit.made(**build).save(path)
    changed(path, change)
    refused(path)
    assert [file.name for file in tmp_path.iterdir()] == ["policy.npz"]  # nor is it taken


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign"
    refused(path)
    refused(tmp_path)
    for data in (b"", b"hello", b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), bytes(1000), b"\x80\x04K\x01."):
        path.write_bytes(data)
        refused(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    refused(path)
    for values in ({}, [1], "text", {"settings": {}}):
        path.write_bytes(_MAGIC + packing.to_bytes(values))
        refused(path)
    path.write_bytes(_MAGIC)
    refused(path)
