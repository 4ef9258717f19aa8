"""What `adaprivate list policies` says of a policy is what happens when one makes it; guarantees come with conditions."""

import dataclasses
import io
import json
import subprocess
import sys
from typing import ClassVar

import pytest
from rich.console import Console

from adaprivate import environments, policies, privacy, report, simulation
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.policies.core.overview import START_HERE, overview
from adaprivate.policies.core.settings import PolicySettings
from adaprivate.runtime.policy import Policy

NAMES = policies.names()


def document(*arguments):
    done = subprocess.run([sys.executable, "-m", "adaprivate", *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def listed():
    return document("list", "policies")["policies"]


def asked(name):
    """The examples, and the first one with every other unit that it may have."""
    first, *others = policies.examples(name)
    return [first, *others, *(dataclasses.replace(first, unit=unit) for unit in first.units[1:])]


@pytest.mark.parametrize("name", NAMES)
def test_production_noise_is_listed_where_a_policy_really_has_it(name):
    for example, case in zip(asked(name), policies.overview(name).cases, strict=True):
        if not case.production_noise:
            with pytest.raises(InputError) as refused:
                Policy(example, source=Secure())
            assert case.refusal == str(refused.value)
            continue
        policy = Policy(example, source=Secure())
        assert case.refusal is None
        assert (case.statement, case.unit) == (policy.guarantee, policy.guarantee.unit)
        assert case.pure is (policy.guarantee.delta == 0)
        assert not case.statement.simulated


@pytest.mark.parametrize("name", NAMES)
def test_units_are_those_of_the_plans(name):
    found = policies.overview(name)
    units = [e.plan.participation.unit for e in asked(name) if e.plan is not None]
    assert [case.unit for case in found.cases if case.unit != "none" and name != "random"] == units
    assert ("none" in found.units) is not policies.settings_class(name).private
    assert found.fixed_arms is policies.settings_class(name).fixed_arms


def test_a_policy_may_have_it_for_some_options_only():
    assert policies.overview("adaprivate-ts-amp").production_noise == "some options"
    cases = policies.overview("adaprivate-ts-amp").cases
    assert [case.production_noise for case in cases] == [False, True]
    assert cases[0].refusal == "Expected sampling_rate=0.5 == 1 with exact noise."
    assert cases[1].options["sampling_rate"] == 1.0


def test_whoever_needs_no_edit_here_is_picked_up():
    """Units and noise are asked of settings: of any kind, also of those that refuse to say what they promise."""
    base = policies.examples("rr-linucb")[0]

    class People:
        name, fixed_arms = "people", False
        __dataclass_fields__: ClassVar[dict] = {}

        def __init__(self, unit, fails=False):
            self.plan, self.unit, self.fails = base.plan, unit, fails

        def guarantee(self, *, exact_noise=False):
            if self.fails:
                raise InputError("Expected something else.")
            return privacy.guarantee(privacy.PurePrice(1.0), privacy.users(1.0, 2, "replace"), 0.0)

    found = overview("people", [People("user"), People("user", fails=True)])
    assert found.units == ("user", "none")
    assert (found.production_noise, found.promises) == ("some options", "epsilon or nothing")
    assert found.place is None
    assert found.cases[1].refusal == "Expected something else."
    with pytest.raises(InputError, match=r"^Expected examples=0 to show what nothing does"):
        overview("nothing", [])


def test_those_to_start_with_come_first_and_can_be_used(listed):
    assert {*START_HERE} <= {*NAMES}
    first = [name for name in START_HERE if name in NAMES]
    assert [entry["name"] for entry in listed[: len(first)]] == first
    assert [entry["start_here"] for entry in listed] == [*range(1, len(first) + 1)] + [None] * (len(listed) - len(first))
    assert first[0] == "noise-aware"
    for entry in listed[: len(first)]:
        assert entry["recommended_for"]
        yardstick = entry["recommended_for"].startswith("a yardstick")
        assert entry["production_noise"] == ("no" if yardstick else "yes")
    notions = {(entry["chooses"], unit, entry["promises"]) for entry in listed[: len(first)] for unit in entry["units"]}
    assert {("arms", "event", "epsilon"), ("contextual", "event", "epsilon, delta")} <= notions
    assert any(unit == "local" for _, unit, _ in notions)


def test_every_policy_is_listed_with_what_its_guarantee_rests_on(listed):
    assert sorted(entry["name"] for entry in listed) == NAMES
    for entry in listed:
        assert entry["summary"]
        assert entry["chooses"] in ("arms", "contextual")
        for shown in (entry, *entry["examples"]):
            real = shown["guarantee"].startswith("This protects")
            if entry["name"] != "random":
                assert (privacy.CONDITIONS["exact-noise"] in shown["enforced"]) is real
            if shown["guarantee"].startswith("none"):
                assert shown["enforced"] == shown["assumptions"] == []
            elif entry["name"] != "random":
                assert privacy.CONDITIONS["no-replay"] in shown["assumptions"]


@pytest.mark.parametrize("width", [100, 160])
def test_the_table_fits_the_terminal(listed, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(report.policy_table(listed))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    text = "\n".join(lines)
    places = [text.index(entry["name"]) for entry in listed[:3]]
    assert places == sorted(places)
    assert all(entry["name"] in text for entry in listed)


# --- conditions beside guarantees -------------------------------------------------------------------------------------


def test_simulate_prints_conditions():
    rows = document("simulate", "--policy", "linucb", "--policy", "adaprivate-ts", "--rounds", "300", "--seeds", "2")[
        "rows"
    ]
    assert rows[0]["enforced"] == rows[0]["assumptions"] == []
    settings = simulation.policy_settings("adaprivate-ts", environments.environment("synthetic"), 300, {})
    told = privacy.stated(settings.guarantee(), 300)
    assert {key: rows[1][key] for key in told} == told
    assert set(told) == {"guarantee", "remarks", "enforced", "assumptions"}
    assert privacy.CONDITIONS["public-features"] in rows[1]["assumptions"]
    assert privacy.CONDITIONS["reward-range"] in rows[1]["enforced"]


def test_evaluate_prints_conditions_and_that_runs_add_up(tmp_path):
    (tmp_path / "log.csv").write_text("action,reward,propensity\n" + "0,1,0.5\n1,0,0.5\n" * 200)
    arguments = ("evaluate", str(tmp_path / "log.csv"), "--policy", "noise-aware", "--policy", "linucb")
    found = document(*arguments)
    assert "their epsilons add up" in found["composition"]
    assert privacy.CONDITIONS["no-replay"] in found["rows"][0]["assumptions"]
    assert privacy.CONDITIONS["reward-range"] in found["rows"][0]["enforced"]
    assert found["rows"][1]["assumptions"] == []
    done = subprocess.run([sys.executable, "-m", "adaprivate", *arguments], capture_output=True, text=True)
    text = " ".join(done.stdout.split())
    for part in (
        "The software enforces:",
        "It holds only if you keep to:",
        "learns from the same rewards",
        "their epsilons add up",
    ):
        assert part in text


def test_calibrate_prints_conditions():
    found = document("calibrate", "--epsilon", "1", "--delta", "1e-5")["guarantee"]
    assert found["assumptions"]
    assert "enforced" in found


def test_settings_without_a_plan_have_no_exact_noise():
    class Bare(PolicySettings):
        name = "bare"

    case = overview("bare", [Bare(dimension=2, rounds=3)]).cases[0]
    assert not case.production_noise
    assert case.refusal == "Expected source='Secure()' for a policy with exact noise, not bare."
