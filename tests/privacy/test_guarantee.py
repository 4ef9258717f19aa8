"""The guarantee as a statement: complete, honest about its conditions, and stable through JSON."""

import json

import pytest

from adaprivate import privacy
from adaprivate.check import InputError
from adaprivate.privacy import GaussianPrice, Guarantee, PurePrice


def example(**changes):
    return privacy.guarantee(GaussianPrice(privacy.gdp_mu(1, 1e-5)), privacy.events(), 1e-5, **changes)


def test_sentence_states_unit_strength_and_exception():
    text = example().sentence
    for part in ("any one reward", "were that information different", "2.718 times", "1e-05", "epsilon = 1", "event-level"):
        assert part in text
    text = privacy.guarantee(PurePrice(0.5), privacy.users(2.0, 3, "add-remove"), 0.0).sentence
    assert "all rewards of any one person" in text
    assert "left out or added" in text
    assert "additional probability" not in text


def test_conditions_are_enforced_or_assumed_never_lost():
    statement = example(enforced=("reward-range", "feature-norm"))
    every = {privacy.CONDITIONS[name] for name in privacy.events().conditions}
    assert set(statement.enforced) | set(statement.assumptions) == every
    assert not set(statement.enforced) & set(statement.assumptions)
    assert privacy.CONDITIONS["secret-noise"] in statement.assumptions
    assert "It holds only if you keep to:" in str(statement)
    assert "The software enforces:" in str(statement)


@pytest.mark.parametrize(
    "statement",
    [
        example(),
        example(nominal_epsilon=1.5, enforced=("one-batch",)),
        privacy.guarantee(PurePrice(0.5), privacy.rows(1.0, "replace"), 0.0),
    ],
)
def test_json_round_trip(statement):
    assert Guarantee.from_json(statement.to_json()) == statement
    assert json.loads(statement.to_json())["sentence"] == statement.sentence


def test_epsilon_never_exceeds_what_was_calibrated():
    assert example().epsilon <= 1
    assert example().epsilon == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "to be a JSON object"),
        ("[1]", "to be a JSON object"),
        ('{"unit": "event"}', "to include"),
        (json.dumps({**json.loads(example().to_json()), "extra": 1}), "none but those of a guarantee"),
        (json.dumps({**json.loads(example().to_json()), "epsilon": -1}), "Expected epsilon=-1 >= 0."),
        (json.dumps({**json.loads(example().to_json()), "epsilon": 0.5}), "to say what the fields say"),
        (json.dumps({**json.loads(example().to_json()), "unit": "town"}), "Expected unit='town' in"),
    ],
)
def test_tampered_json_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        Guarantee.from_json(text)


def test_unknown_conditions_are_refused():
    with pytest.raises(InputError, match="Expected condition='hope' in"):
        example(enforced=("hope",))
