"""Policies with their options in the signature: the same as by name, and they cannot drift from their settings."""

import ast
import dataclasses
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import adaprivate as ap
from adaprivate import policies
from adaprivate.runtime import named

ALSO = ("seed", "source", "reward_window", "propensities", "reward_range")


@pytest.mark.parametrize("function", named.NAMES)
def test_signatures_are_those_of_the_settings(function):
    made = inspect.signature(getattr(ap, function)).parameters
    fields = dataclasses.fields(policies.settings_class(named.NAMES[function]))
    assert set(made) == {field.name for field in fields} | set(ALSO)
    for field in fields:
        given = made[field.name]
        needed = field.default is dataclasses.MISSING
        assert given.kind is inspect.Parameter.KEYWORD_ONLY
        if field.name == "dimension":  # taken from the first candidates where it is not given
            assert (given.annotation, given.default) == ("int | None", None)
            continue
        assert given.annotation == field.type
        assert given.default is inspect.Parameter.empty if needed else given.default == field.default
    by_name = inspect.signature(named.policy).parameters
    assert [made[option] for option in ALSO] == [by_name[option] for option in ALSO]


@pytest.mark.parametrize("function", named.NAMES)
def test_help_explains_what_the_settings_explain(function):
    first, _, explained = inspect.getdoc(policies.settings_class(named.NAMES[function])).partition("\n")
    said = inspect.getdoc(getattr(ap, function))
    assert said.startswith(first)
    assert explained.strip() in said
    private = set(inspect.signature(getattr(ap, function)).parameters) & {"centre", "channel", "unit", "schedule"}
    assert all(re.search(rf"\b{option}\b", said) for option in private)


def test_all_of_them_are_public():
    assert {"policy", "load", *named.NAMES} == {name for name in ap._LAZY if ap._LAZY[name] == "adaprivate.runtime.named"}
    assert set(named.NAMES) <= set(ap.__all__)


@pytest.mark.parametrize("function", named.NAMES)
def test_they_are_the_policies_of_that_name(function):
    options = {"dimension": 3, "rounds": 400, "seed": 7}
    mine, theirs = getattr(ap, function)(**options), ap.policy(named.NAMES[function], **options)
    assert type(mine) is type(theirs)
    assert mine.settings == theirs.settings


def test_options_reach_the_policy():
    policy = ap.RRLinUCB(dimension=3, rounds=50, epsilon=2.0, seed=0, reward_window=2)
    assert (policy.settings.name, policy.settings.epsilon, policy.reward_window) == ("rr-linucb", 2.0, 2)
    policy.learn(policy.decide(np.eye(3)), True)
    with pytest.raises(ap.InputError, match="epsilom"):
        ap.RRLinUCB(dimension=3, rounds=50, epsilom=2.0, seed=0)
    with pytest.raises(ap.InputError, match="Expected rounds to be given for rr-linucb"):
        ap.RRLinUCB(seed=0)
    with pytest.raises(TypeError, match="positional"):
        ap.RRLinUCB(50)


def test_type_checkers_read_the_same_settings_and_the_same_other_options():
    """mypy holds their use, in ``typed_options.py``; here they are held against what runs."""
    classes = {
        node.name: node for node in ast.walk(ast.parse(Path(named.__file__).read_text())) if isinstance(node, ast.ClassDef)
    }
    use = {ast.unparse(node.target): ast.unparse(node.value) for node in classes.pop("_Use").body[1:]}
    by_name = inspect.signature(named.policy).parameters
    assert use == {"dimension": "None"} | {option: repr(by_name[option].default) for option in ALSO}
    bases = {f"_{function}": ["_Use", policies.settings_class(name).__name__] for function, name in named.NAMES.items()}
    assert {name: [base.id for base in node.bases] for name, node in classes.items()} == bases


def test_they_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(ap.NoiseAware)) is ap.NoiseAware
