"""What every settings class gets from its base: checked options, and documentation of its own."""

import dataclasses
import inspect
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from adaprivate import check, mechanisms, policies
from adaprivate.check import InputError, option
from adaprivate.policies.core.settings import PolicySettings, about, known_strategy


@dataclass(frozen=True, kw_only=True)
class Base(PolicySettings):
    """A base with options.

    Paper: that of the base.
    Guarantee: none.
    Deviates: nothing.

    width: how wide.
    """

    name: ClassVar[str] = "base"
    width: float = option(1.0, check.real, at_least=0)
    share: float | None = option(None, check.probability)
    shape: str = option("round", check.one_of, options=("round", "square"))
    noise: str = option("tree", known_strategy)


@dataclass(frozen=True, kw_only=True)
class Narrow(Base):
    """Another default for the width, whose check stays; another check for the shape."""

    width: float = 0.5
    shape: str = option("flat", check.one_of, options=("flat",))


@pytest.mark.parametrize("kind", [Base, Narrow])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": -1}, "^Expected width=-1 >= 0.$"),
        ({"width": None}, "^Expected width=None to be a number.$"),
        ({"share": 2}, "^Expected share=2 > 0 and < 1.$"),
        ({"noise": "tre"}, "^Expected noise='tre' in .* Did you mean tree"),
        ({"shape": "oval"}, "^Expected shape='oval' in "),
    ],
)
def test_options_are_checked_whatever_the_default(kind, given, message):
    with pytest.raises(InputError, match=message):
        kind(dimension=2, rounds=3, **given)


def test_defaults_are_plain_values():
    assert dataclasses.asdict(Narrow(dimension=2, rounds=3)) == {
        "dimension": 2,
        "rounds": 3,
        "width": 0.5,
        "share": None,
        "shape": "flat",
        "noise": "tree",
    }
    with pytest.raises(InputError, match="shape='round'"):
        Narrow(dimension=2, rounds=3, shape="round")


def test_where_a_policy_comes_from_is_not_inherited_but_its_options_are():
    here = sys.modules[__name__]
    assert about(Base, here).startswith("A base with options.\n\nPaper: that of the base.\n")
    assert "Paper" not in inspect.getdoc(Narrow)
    assert "width: how wide." in inspect.getdoc(Narrow)
    assert about(Narrow, here) == inspect.getdoc(here)


def test_policies_that_share_a_file_are_told_apart():
    told = {name: policies.describe(name)[1] for name in policies.names()}
    assert len(set(told.values())) == len(told)
    assert "Li, Chu, Langford" in told["linucb"]
    assert "Agrawal & Goyal 2013" in told["lints"]
    assert all(text.count("\nPaper: ") == 1 for text in told.values())


def test_settings_build_the_strategy_they_name_and_no_other(monkeypatch):
    built, strategy = [], mechanisms.strategy
    monkeypatch.setattr(mechanisms, "strategy", lambda name, steps: built.append(name) or strategy(name, steps))
    policies.settings("noise-aware", {"dimension": 3, "rounds": 50, "noise": "sqrt"})
    assert built == ["sqrt"]
    for refused in ("tree", "sqr", None):
        with pytest.raises(InputError, match=r"informative.*sqrt") as error:
            policies.settings("noise-aware", {"dimension": 3, "rounds": 50, "noise": refused})
        assert "honaker" not in str(error.value)
