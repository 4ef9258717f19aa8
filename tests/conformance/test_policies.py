"""Every policy through the suite of adaprivate.testing, found by discovery: a new file is tested with no edit here."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

from adaprivate import policies
from adaprivate.mechanisms import Secure
from adaprivate.mechanisms.plan import BatchPlan
from adaprivate.policies.adaprivate.batched import BatchedSettings
from adaprivate.policies.core.settings import about
from adaprivate.testing import check_policy, policy_checks

MODULES = [importlib.import_module(m.name) for m in pkgutil.walk_packages(policies.__path__, "adaprivate.policies.")]
FOUND = [(module, example) for module in MODULES for example in getattr(module, "EXAMPLES", ())]
IDS = [f"{example.name}-{place}" for place, (_, example) in enumerate(FOUND)]
EXAMPLES = [example for _, example in FOUND]
EXPECTED = [
    *("adaprivate-ts", "adaprivate-ts-adaptive", "adaprivate-ts-amp", "adaprivate-ts-user", "adaprivate-ucb"),
    *("adac-oful", "batched-aggregation", "coreset-elimination", "dgs-linucb", "ldp-linucb"),
    *("rarely-switching", "zcdp-episodic"),
    *("jdp-linucb-gaussian", "jdp-linucb-wishart", "jdp-linucb-wishart-unshifted"),
    *("mishra-thakurta-linucb", "mishra-thakurta-lints"),
    *("lints", "linucb", "noise-aware-greedy", "noise-aware-ts", "noise-aware-ucb", "oful", "random", "tuned-linucb"),
    *("thompson", "modified-thompson", "filtered-thompson", "ucb1", "dp-se", "anytime-lazy-ucb", "dp-ts", "lazy-dp-ts"),
    *("adap-ucb", "adap-klucb", "adac-ucb", "mishra-thakurta-ucb", "mishra-thakurta-ts", "beta-thompson"),
]


@pytest.mark.parametrize("check", policy_checks().values(), ids=policy_checks().keys())
@pytest.mark.parametrize("settings", EXAMPLES, ids=IDS)
def test_conforms(settings, check):
    check(settings)


def test_the_whole_suite_stops_at_the_first_failure_and_says_what_failed():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Undocumented(policies.settings_class("random")):
        pass

    check_policy(policies.settings("random", {"dimension": 2, "rounds": 10}))
    with pytest.raises(AssertionError, match=r"^[a-z-]+ of random: .*\.$") as failed:
        check_policy(Undocumented(dimension=2, rounds=10))
    assert str(failed.value).startswith("is-documented of random: ")


def test_every_policy_is_found_under_one_name():
    homes = {}
    for module, example in FOUND:
        homes.setdefault(example.name, set()).add((module.__name__, type(example)))
    assert all(len(home) == 1 for home in homes.values())
    assert sorted(homes) == policies.names()
    assert set(EXPECTED) <= set(homes)
    for name, home in homes.items():
        ((module, kind),) = home
        assert policies.settings_class(name) is kind
        line, told = policies.describe(name)
        assert (line, told) == (inspect.getdoc(kind).split("\n")[0], about(kind, importlib.import_module(module)))


def test_the_unsound_calibration_is_offered_by_its_name_only():
    kind = policies.settings_class("adaprivate-ts-amp")
    assert kind(dimension=3, rounds=10, batch_size=5).calibration == "exact"
    offering = [e.name for e in EXAMPLES if hasattr(e, "calibrations") and "published-unsound" in e.calibrations()]
    assert set(offering) == {"adaprivate-ts-amp", "adaprivate-ts-user"}


BATCHED = [
    e
    for e in EXAMPLES
    if isinstance(e, BatchedSettings) and not hasattr(e, "sampling_rate") and isinstance(e.plan, BatchPlan)
]


@pytest.mark.parametrize("noise", ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"])
@pytest.mark.parametrize("settings", BATCHED, ids=[f"{e.name}-{i}" for i, e in enumerate(BATCHED)])
def test_promises_what_its_mechanism_promises(settings, noise):
    """The policy's statement is that of the mechanism which makes its releases, no better."""
    settings = dataclasses.replace(settings, noise=noise)
    (epoch,) = settings.plan.epochs
    ours = settings.guarantee(exact_noise=True)
    theirs = settings.plan.mechanism(epoch, Secure()).guarantee(settings.delta)
    assert ours.epsilon == pytest.approx(theirs.epsilon, rel=1e-9)
    assert ours.epsilon >= theirs.epsilon * (1 - 1e-12)
    assert (ours.unit, ours.neighbours, ours.protects) == (theirs.unit, theirs.neighbours, theirs.protects)
    assert not (ours.exact and not theirs.exact)
    assert set(theirs.assumptions) <= {*ours.assumptions, *ours.enforced}
