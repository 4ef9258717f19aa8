"""Policies and made worlds do what was recorded: the same choices and whole numbers, floats to 1e-9."""

import json

import pytest
from tests.golden.transcripts import RECORD, WORLDS, drawn, examples, transcript, worlds

RECORDED, RECORDED_WORLDS = json.loads(RECORD.read_text()), json.loads(WORLDS.read_text())
EXAMPLES, PLACES = examples(), worlds()


def assert_same(one, other, where):
    if isinstance(other, dict):
        assert one.keys() == other.keys(), where
        for key in other:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(other, list):
        assert len(one) == len(other), where
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_same(mine, theirs, f"{where}[{place}]")
    elif isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), where
    else:
        assert one == other, where


@pytest.mark.parametrize("name", EXAMPLES)
def test_does_what_was_recorded(name):
    assert_same(transcript(EXAMPLES[name]), RECORDED[name], name)


@pytest.mark.parametrize("name", PLACES)
def test_a_world_is_what_was_recorded(name):
    assert_same(drawn(PLACES[name]), RECORDED_WORLDS[name], name)


def test_nothing_recorded_is_gone():
    assert [*RECORDED] == [*EXAMPLES]
    assert [*RECORDED_WORLDS] == [*PLACES]


def test_a_change_in_the_last_digits_is_seen():
    name = "adaprivate-ts-0"
    changed = json.loads(json.dumps(RECORDED[name]))
    changed["simulated"]["released"] += 1e-6
    with pytest.raises(AssertionError, match="released"):
        assert_same(changed, RECORDED[name], name)
