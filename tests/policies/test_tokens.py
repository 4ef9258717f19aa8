"""Decisions and their tokens: a reward finds its way back to the decision it belongs to, and to no other."""

import copy
import json
import pickle

import numpy as np
import pytest

import adaprivate
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.runtime.decision import RewardRefusedError
from adaprivate.runtime.policy import Policy

D = 3
EXACT = pytest.mark.parametrize("exact", [False, True], ids=["simulated", "exact"])
FOREIGN = r"^Expected decision=a text that is no token of it to be a decision of policy [0-9a-f]{12}, or its token\.$"


def made(exact=False, **options):
    noise = {"source": Secure()} if exact else {"seed": 0}
    return adaprivate.policy(
        "adaprivate-ts", dimension=D, rounds=60, batch_size=4, **noise, **{"reward_window": 5, **options}
    )


def waiting(policy):
    return {number: entry.reward for number, entry in policy._open.items()}


@EXACT
def test_a_token_goes_away_as_text_and_comes_back(exact):
    policy = made(exact)
    decisions = [policy.decide(np.eye(D)) for _ in range(3)]
    sent = json.dumps({"tokens": [decision.token for decision in decisions]})
    for token, reward in zip(reversed(json.loads(sent)["tokens"]), (0.25, True, None), strict=True):
        policy.learn(token, reward)
    assert waiting(policy) == {0: policy.settings.missing, 1: 1.0, 2: 0.25}
    assert decisions[0].token == decisions[0].token
    assert len({decision.token for decision in decisions}) == 3
    assert all(token.isascii() and token.isprintable() and " " not in token for token in json.loads(sent)["tokens"])
    for decision in decisions:
        with pytest.raises(InputError, match=rf"^Expected decision\.round={decision.round} to be learned once: a reward"):
            policy.learn(decision.token, 1.0)


@EXACT
def test_forged_tokens_are_refused_without_a_trace(kit, exact):
    policy = made(exact)
    first, second = policy.decide(np.eye(D)), policy.decide(np.eye(D))
    name, life, _, mark = first.token.split(".")
    other = second.token.split(".")[3]
    assert second.token.split(".")[:3] == [name, life, "1"]
    before = kit.everything(policy)
    forged = [
        f"{name}.{life}.1.{mark}",  # another round's number with this one's mark
        f"{name}.{life}.0.{other}",
        f"{name}.{life}.0.{mark[:-1]}",
        f"{name}.{life}.0.{mark}0",
        f"{name}.{life}.0.{mark.upper()}" if mark != mark.upper() else f"{name}.{life}.0.x",
        f"{name}.{life}.0.",
        f"{name}.{life}.0",
        f"{name}.{life}.00.{mark}x",
        f"{name}.{life}.-1.{mark}",
        f"{name}.{life}.+0.{mark}",
        f"{name}.{life}.0x0.{mark}",
        f"{name}.{life}.\u0660.{mark}",  # a zero in other digits
        f"{name}.{life}.{10**30}.{mark}",
        f"{name[:-1]}.{life}.0.{mark}",
        f".{life}.0.{mark}",
        f"{name}.{life}.0.{mark}\u00e9",
        f"{name}.{life[:-1]}.0.{mark}",
        f"{name}.{'0' * 8}.0.{mark}",  # another life's round with this one's mark
        f"{name}..0.{mark}",
        f"{name}.0.{mark}",
        f"{name}.{life}.{life}.0.{mark}",
        "",
        "0",
        ".",
        "..",
        "...",
        "\ud800",
        name,
        mark,
    ]
    for token in forged:
        with pytest.raises(InputError, match=FOREIGN):
            policy.learn(token, 1.0)
    for nonsense in (None, 0, 1.5, first.token.encode(), (0, 0, None, 0, np.zeros(D), None), tuple(first), [first]):
        with pytest.raises(
            InputError, match=r"^Expected decision=\w+ to be a decision of policy [0-9a-f]{12}, or its token\.$"
        ):
            policy.learn(nonsense, 1.0)
    assert kit.everything(policy) == before
    policy.learn(first.token, 1.0)
    assert waiting(policy) == {0: 1.0, 1: None}


@EXACT
def test_decisions_and_tokens_of_another_policy_are_refused(kit, exact):
    """Also of a twin with the same settings and seed: its rounds are not this one's."""
    policy, twin = made(exact), made(exact)
    mine, its = policy.decide(np.eye(D)), twin.decide(np.eye(D))
    assert mine.token != its.token
    assert mine.origin.id != its.origin.id
    before = kit.everything(policy)
    with pytest.raises(InputError, match=FOREIGN):
        policy.learn(its.token, 1.0)
    with pytest.raises(InputError, match=r"^Expected decision to be one of policy [0-9a-f]{12}, not of [0-9a-f]{12}\.$"):
        policy.learn(its, 1.0)
    with pytest.raises(InputError, match="not of"):
        policy.learn(mine._replace(origin=its.origin), 1.0)
    assert kit.everything(policy) == before


def test_a_token_does_not_show_the_key_nor_does_an_error():
    policy = made()
    decision = policy.decide(np.eye(D))
    key = policy._origin._key
    for text in (decision.token, repr(decision), str(decision.origin), repr(policy._origin)):
        assert key.hex() not in text
        assert repr(key) not in text
    with pytest.raises(InputError) as caught:
        policy.learn(decision.token + "x", 1.0)
    assert decision.token not in str(caught.value)


@EXACT
def test_withered_tokens_are_refused(kit, exact):
    """The window has passed: the round was counted without its reward, and the token says nothing any more."""
    policy = made(exact)
    old = policy.decide(np.eye(D))
    for _ in range(5):
        policy.decide(np.eye(D))
    policy.advance()
    assert policy.round == 1
    before = kit.everything(policy)
    for decision in (old, old.token):
        with pytest.raises(
            InputError, match=r"^Expected decision\.round=0 to be open: rounds 1 to 5 are \(reward_window=5\)"
        ):
            policy.learn(decision, 1.0)
    assert kit.everything(policy) == before


@EXACT
def test_tokens_outlive_saving(exact, tmp_path):
    policy = made(exact)
    first, second = policy.decide(np.eye(D)), policy.decide(np.eye(D))
    policy.learn(first.token, 0.5)
    policy.save(tmp_path / "p")
    loaded = adaprivate.load(tmp_path / "p")
    assert loaded.open_decision.token == first.token
    later = loaded.decide(np.eye(D))
    assert later.origin.id == first.origin.id
    assert later.origin.life != first.origin.life
    assert loaded.open_decision.origin.life == first.origin.life
    loaded.learn(second.token, 0.75)
    assert waiting(loaded) == {0: 0.5, 1: 0.75, 2: None}
    with pytest.raises(InputError, match="to be learned once"):
        loaded.learn(first.token, 0.5)
    with pytest.raises(InputError, match=FOREIGN):
        loaded.learn(made(exact).decide(np.eye(D)).token, 1.0)


@EXACT
@pytest.mark.parametrize(
    "sent", [lambda d: pickle.loads(pickle.dumps(d)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deep"]
)
def test_a_decision_can_be_sent_without_the_key_and_still_be_learned(exact, sent):
    policy = made(exact)
    decision = policy.decide(np.eye(D))
    token = decision.token
    back = sent(decision)
    assert back[:4] == decision[:4]
    assert back.features.tolist() == decision.features.tolist()
    assert (back.origin.id, back.origin.life) == (decision.origin.id, decision.origin.life)
    assert policy._origin._key not in pickle.dumps(decision)
    assert len(policy._origin._key) == 16
    if sent is not copy.copy:
        assert back.origin._key == b""
        with pytest.raises(InputError, match=r"^Expected the token to be asked of the decision itself"):
            back.token  # noqa: B018  # a made-up one would be refused only when its reward comes
    policy.learn(back, 0.5)
    assert waiting(policy) == {0: 0.5}
    with pytest.raises(InputError, match="to be learned once"):
        policy.learn(token, 0.5)


def reason(policy, decision):
    with pytest.raises(RewardRefusedError) as refused:
        policy.learn(decision, 1.0)
    assert isinstance(refused.value, InputError)
    return refused.value.reason


@EXACT
def test_a_refusal_gives_its_reason(exact):
    policy = made(exact, reward_window=1)
    old, new = policy.decide(np.eye(D)), policy.decide(np.eye(D))
    policy.learn(new, 0.5)
    assert reason(policy, new) == reason(policy, new.token) == "repeated"
    policy.decide(np.eye(D))
    assert reason(policy, old) == reason(policy, old.token) == "late"
    other = made(exact).decide(np.eye(D))
    assert {reason(policy, one) for one in (other, other.token, "junk", None)} == {"foreign"}


@EXACT
def test_rewards_of_decisions_lost_in_a_restart_do_not_go_to_those_made_since(exact, tmp_path):
    """Saved, decided on, killed, loaded: the next visitor has the lost one's round, and another reward."""
    policy = made(exact)
    kept = policy.decide(np.eye(D))
    if exact:
        policy.save(tmp_path / "p")
        lost = [policy.decide(np.eye(D)) for _ in range(3)]
        loaded = adaprivate.load(tmp_path / "p")
    else:
        data = policy.to_bytes()
        lost = [policy.decide(np.eye(D)) for _ in range(3)]
        loaded = Policy.from_bytes(data)
    assert {reason(loaded, one) for one in (*lost, *(one.token for one in lost))} == {"lost"}  # nobody has their rounds yet
    new = [loaded.decide(np.eye(D)) for _ in range(2)]
    assert [one.round for one in new] == [one.round for one in lost[:2]] == [1, 2]
    assert {reason(loaded, one) for one in (*lost, *(one.token for one in lost))} == {"lost"}
    assert waiting(loaded) == {0: None, 1: None, 2: None}
    loaded.learn(new[0].token, 0.25)
    loaded.learn(new[1], 0.75)
    loaded.learn(kept.token, 0.5)
    assert waiting(loaded) == {0: 0.5, 1: 0.25, 2: 0.75}
    assert reason(loaded, new[0]) == "repeated"
    assert {reason(loaded, one) for one in lost} == {"lost"}


@EXACT
def test_lives_end_with_every_restart_and_open_decisions_keep_theirs(exact, tmp_path):
    policy, decisions = made(exact), []
    for number in range(3):
        decisions.append(policy.decide(np.eye(D)))
        policy.save(tmp_path / f"{number}")
        policy = adaprivate.load(tmp_path / f"{number}")
    assert len({decision.origin.life for decision in decisions}) == 3
    assert len({decision.origin.id for decision in decisions}) == 1
    for decision, reward in zip(decisions, (0.25, 0.5, 0.75), strict=True):
        policy.learn(decision.token, reward)
    assert waiting(policy) == {0: 0.25, 1: 0.5, 2: 0.75}


def test_seven_fields():
    decision = made().decide(np.eye(D))
    assert decision._fields == ("action", "version", "propensity", "round", "features", "origin", "item")
