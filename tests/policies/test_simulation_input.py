"""What simulate refuses: one line that names the argument, its value and the condition it broke."""

import math

import pytest

from adaprivate import environments, policies
from adaprivate.check import InputError
from adaprivate.simulation import run_all, simulate

MISTAKES = [
    ({"policies": ["nonesuch"]}, "Expected policy='nonesuch' in {"),
    ({"policies": []}, "Expected policies=[] to be non-empty"),
    ({"environment": "nowhere"}, "Expected environment='nowhere' in {"),
    ({"options": {"batchsize": 10}}, "Expected option='batchsize' to be one of "),
    ({"options": {"alpha": 1.0}}, "Expected option='alpha' in {"),
    ({"options": {"epsilon": 1.0}}, "Expected option='epsilon' in {"),
    ({"options": {"candidates": 101}}, "Expected candidates=101 <= 100"),
    ({"options": {"v": "wide"}}, "Expected v='wide' to be a number"),
    ({"options": {"theta_0": (1.0, 2.0)}}, "Expected theta_0.shape=(2,) == (20,)"),
    ({"jobs": 0}, "Expected jobs=0 >= 1"),
    ({"seeds": 0}, "Expected seeds=0 >= 1"),
    ({"seeds": []}, "Expected seeds=[] "),
    ({"seeds": 2.5}, "Expected seeds=2.5 "),
    ({"seeds": [-1]}, "Expected seeds=-1 >= 0"),
    ({"rounds": 0}, "Expected rounds=0 >= 1"),
    ({"rounds": 10.0}, "Expected rounds=10.0 to be a whole number"),
    ({"epsilon": -1.0}, "Expected epsilon=-1.0 > 0"),
    ({"epsilon": [1.0, 0.0]}, "Expected epsilon=0.0 > 0"),
    ({"epsilon": math.nan}, "Expected epsilon=nan "),
    ({"epsilon": []}, "Expected epsilon=[] "),
    ({"delta": 1.0}, "Expected delta=1.0 > 0 and < 1"),
    ({"delta": 2.0}, "Expected delta=2.0 > 0 and < 1"),
    ({"rounds": 30, "options": {"batch_size": 31}}, "Expected batch_size=31 <= rounds=30"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_mistakes_are_named_in_one_line(change, message):
    options = {"batch_size": 10, **change.get("options", {})}
    with pytest.raises(InputError) as caught:
        simulate(**{"policies": ["adaprivate-ts"], "rounds": 40, "seeds": 1, **change, "options": options})
    text = str(caught.value)
    assert text.startswith(message)
    assert "\n" not in text


def test_a_policy_of_another_dimension_is_refused():
    world = environments.environment("synthetic", {"dimension": 5})
    with pytest.raises(InputError, match=r"^Expected dimension=4 == 5\.$"):
        run_all([policies.settings("lints", {"dimension": 4, "rounds": 10})], world, [0])
