"""Saving and loading: nothing changes by it, and a file that is not a policy is named as such."""

import json

import numpy as np
import pytest

import adaprivate
from adaprivate.check import InputError
from adaprivate.mechanisms.noise import NOISE_BITS, Secure
from adaprivate.policies.core.linear import PRIOR, STATISTIC, TOTAL

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
        policy.learn(decision, float(rewards[t]))
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
    for t in range(60):
        decision = policy.decide(candidates[t])
        if t % 5 == 3 and opened:
            policy, before = copied(policy, tmp_path / "policy.npz"), kit.everything(policy)
            assert kit.everything(policy) == before
        policy.learn(decision, float(rewards[t]))
        if t % 5 == 3 and not opened:
            policy, before = copied(policy, tmp_path / "policy.npz"), kit.everything(policy)
            assert kit.everything(policy) == before
        if (t + 1) % 7 == 0:
            vectors = policy.state.vectors
            np.testing.assert_allclose(vectors[STATISTIC], vectors[PRIOR] + vectors[TOTAL], atol=60 * 2.0**-19)
    assert policy.source is not None
    assert policy.version == 8


def test_a_copy_of_a_secure_policy_draws_noise_of_its_own(kit, tmp_path):
    candidates, rewards = kit.offers(7)
    policy = kit.made(secure=True)
    kit.play(policy, candidates[:6], rewards[:6])
    copy = copied(policy, tmp_path / "policy.npz")
    for one in (policy, copy):
        kit.play(one, candidates[6:], rewards[6:])
    assert policy.version == copy.version == 1
    assert not np.array_equal(policy.state.vectors[STATISTIC], copy.state.vectors[STATISTIC])


def test_a_failed_save_leaves_the_old_file(kit, tmp_path, monkeypatch):
    path = tmp_path / "policy.npz"
    policy = kit.made()
    policy.save(path)
    old = path.read_bytes()
    policy.decide(np.eye(5))

    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        policy.save(path)
    assert path.read_bytes() == old


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


def test_corrupt_files_are_refused_or_make_no_difference(kit, tmp_path):
    path, policy = tmp_path / "policy.npz", kit.made()
    kit.play(policy, *kit.offers(20))
    policy.save(path)
    data = path.read_bytes()
    for place in range(0, len(data), 97):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :])
        try:
            loaded = adaprivate.load(path)
        except InputError:
            continue
        assert kit.everything(loaded) == kit.everything(policy)  # a byte that zip does not need, such as a date


def changed(path, change):
    """Rewrite a saved policy with its description, or an array of it, changed."""
    with np.load(path) as file:
        stored = {key: file[key] for key in file.files}
    about = json.loads(str(stored["about"]))
    change(about, stored)
    stored["about"] = np.array(json.dumps(about))
    np.savez(path, **stored)


CHANGES = [
    lambda about, stored: about.pop("settings"),
    lambda about, stored: about.pop("round"),
    lambda about, stored: about.update(policy="nonesuch"),
    lambda about, stored: about["settings"].update(epsilon=-1.0),
    lambda about, stored: about["settings"].update(colour="red"),
    lambda about, stored: about["settings"].update(dimension=4),
    lambda about, stored: about.update(open=[1, 2]),
    lambda about, stored: about.update(round="three"),
    lambda about, stored: stored.pop("state/0"),
    lambda about, stored: stored.pop("rng/0"),
    lambda about, stored: stored.update({"state/0": np.zeros((2, 2))}),
    lambda about, stored: stored.update({"state/0": np.zeros((5, 5), dtype=np.float32)}),
    lambda about, stored: stored.update({"rng/0": np.zeros(3)}),
]


@pytest.mark.parametrize("change", CHANGES, ids=[str(i) for i in range(len(CHANGES))])
def test_altered_files_are_refused(kit, change, tmp_path):
    """In compiled code a wrong shape is a wild read: it must stop at the door."""
    path = tmp_path / "policy.npz"
    kit.made().save(path)
    changed(path, change)
    with pytest.raises(InputError, match=r"^Expected "):
        adaprivate.load(path)


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
    for about in ({}, {"about": np.zeros(3)}, {"about": np.array("text")}, {"about": np.array("[1]")}):
        with path.open("wb") as file:
            np.savez(file, **about)
        refused(path)
