"""What every policy must do, found by discovery: a new file is tested with no edit here."""

import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import adaprivate
from adaprivate import environments, policies, privacy
from adaprivate.check import InputError
from adaprivate.mechanisms import Secure
from adaprivate.policies.adaprivate.batched import BatchedSettings
from adaprivate.policies.core.policy import Policy
from adaprivate.policies.noise_aware.settings import NoiseAwareSettings
from adaprivate.simulation import run_all

MODULES = [importlib.import_module(m.name) for m in pkgutil.walk_packages(policies.__path__, "adaprivate.policies.")]
FOUND = [(module, example) for module in MODULES for example in getattr(module, "EXAMPLES", ())]
IDS = [f"{example.name}-{place}" for place, (_, example) in enumerate(FOUND)]
EXAMPLES = [example for _, example in FOUND]
PRIVATE = [
    (e, id_)
    for e, id_ in zip(EXAMPLES, IDS, strict=True)
    if hasattr(e, "calibrations") or isinstance(e, NoiseAwareSettings)
]
EXPECTED = [
    *("adaprivate-ts", "adaprivate-ts-adaptive", "adaprivate-ts-amp", "adaprivate-ucb"),
    *("adac-oful", "batched-aggregation", "coreset-elimination", "dgs-linucb", "ldp-linucb"),
    *("rarely-switching", "zcdp-episodic"),
    *("jdp-linucb-gaussian", "jdp-linucb-wishart", "jdp-linucb-wishart-unshifted"),
    *("mishra-thakurta-linucb", "mishra-thakurta-lints"),
    *("lints", "linucb", "noise-aware-greedy", "noise-aware-ts", "noise-aware-ucb", "oful", "random"),
    *("thompson", "modified-thompson", "filtered-thompson", "ucb1", "dp-se", "anytime-lazy-ucb", "dp-ts", "lazy-dp-ts"),
    *("adap-ucb", "adap-klucb", "adac-ucb", "mishra-thakurta-ucb", "mishra-thakurta-ts"),
]

each = pytest.mark.parametrize("settings", EXAMPLES, ids=IDS)
each_private = pytest.mark.parametrize("settings", [example for example, _ in PRIVATE], ids=[id_ for _, id_ in PRIVATE])


def fixed_arms(settings):
    return getattr(settings, "fixed_arms", False)


def world(settings):
    if fixed_arms(settings):
        return environments.environment("bernoulli-arms", {"arms": settings.dimension})
    return environments.environment("synthetic", {"dimension": settings.dimension, "arms": 12, "candidates": 3})


def offers(settings, seed=0):
    rng = np.random.default_rng([seed, 98])
    shape = (settings.rounds, 4, settings.dimension)
    if fixed_arms(settings):
        return np.tile(np.eye(settings.dimension), (settings.rounds, 1, 1)), rng.uniform(size=settings.rounds)
    return rng.standard_normal(shape) / np.sqrt(settings.dimension) / 2, rng.uniform(size=settings.rounds)


def play(policy, candidates, rewards):
    actions = []
    for offered, reward in zip(candidates, rewards, strict=True):
        decision = policy.decide(offered)
        policy.learn(decision, float(reward))
        actions.append(decision.action)
    return actions


def leaves(state):
    return [leaf.tolist() for leaf in state]


def test_every_policy_is_found_under_one_name():
    homes = {}
    for module, example in FOUND:
        homes.setdefault(example.name, set()).add((module.__name__, type(example)))
    assert all(len(home) == 1 for home in homes.values())
    assert sorted(homes) == policies.names()
    assert set(EXPECTED) <= set(homes)
    for name, home in homes.items():
        assert {(policies.describe(name)[1].split("\n")[0], policies.settings_class(name))} == {
            (inspect.getdoc(importlib.import_module(module)).split("\n")[0], kind) for module, kind in home
        }


@pytest.mark.parametrize("module", {module.__name__: module for module, _ in FOUND}.values(), ids=lambda m: m.__name__)
def test_says_where_it_comes_from_what_it_promises_and_how_it_deviates(module):
    lines = inspect.getdoc(module).split("\n")
    assert len(lines[0]) > 20
    assert lines[0].endswith(".")
    assert lines[1] == ""
    starts = [line.partition(":")[0] for line in lines if line.partition(":")[0] in ("Paper", "Guarantee", "Deviates")]
    assert starts == ["Paper", "Guarantee", "Deviates"]
    for line in lines:
        key, _, rest = line.partition(":")
        if key in starts:
            assert len(rest.strip()) > 3
    for example in module.EXAMPLES:
        assert len(policies.describe(example.name)[0]) > 20


@each
def test_is_frozen_and_built_from_its_own_options(settings):
    assert policies.settings(settings.name, dataclasses.asdict(settings)) == settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.rounds = 1
    assert hash(settings) == hash(policies.settings(settings.name, dataclasses.asdict(settings)))


@each
def test_runs_and_repeats_itself(settings):
    first, second = (run_all([settings], world(settings), [1, 2], jobs=jobs)[0] for jobs in (1, 2))
    for one, two in zip(first, second, strict=True):
        assert (one.reward, one.regret) == (two.reward, two.regret)
        assert leaves(one.state) == leaves(two.state)
        assert 0 <= one.regret <= settings.rounds
        assert np.all(np.diff(one.curve) >= 0)
        assert all(np.isfinite(leaf).all() for leaf in one.state)
    assert (first[0].reward, first[0].regret) != (first[1].reward, first[1].regret)


@each
def test_same_seed_same_transcript_and_only_then(settings):
    candidates, rewards = offers(settings)
    one, two, other = (Policy(settings, seed=seed, source=None) for seed in (5, 5, 6))
    transcripts = [play(policy, candidates, rewards) for policy in (one, two, other)]
    assert transcripts[0] == transcripts[1]
    assert leaves(one.state) == leaves(two.state)
    if settings.noise_tables([0]).size:
        assert leaves(one.state) != leaves(other.state)


@each
def test_saving_midway_changes_nothing(settings, tmp_path):
    candidates, rewards = offers(settings)
    whole, part = (Policy(settings, seed=5, source=None) for _ in range(2))
    half = settings.rounds // 2
    expected = play(whole, candidates, rewards)
    actions = play(part, candidates[:half], rewards[:half])
    part.save(tmp_path / "policy.npz")
    part = adaprivate.load(tmp_path / "policy.npz")
    assert actions + play(part, candidates[half:], rewards[half:]) == expected
    assert leaves(part.state) == leaves(whole.state)
    assert part.settings == settings


@each
def test_noise_is_that_of_each_seed_alone(settings):
    together = settings.noise_tables([3, 1, 4])
    assert len(together) == 3
    for place, seed in enumerate([3, 1, 4]):
        np.testing.assert_allclose(settings.noise_tables([seed])[0], together[place], rtol=1e-12, atol=1e-12)


@each
def test_choices_do_not_depend_on_rewards_before_they_are_released(settings):
    """Two runs that differ in their rewards choose alike until the first release; private policies alone wait for one."""
    if not settings.private:
        return
    candidates, rewards = offers(settings)
    one, two = (Policy(settings, seed=7, source=None) for _ in range(2))
    end = int(settings.ends[0]) if hasattr(settings, "ends") else getattr(settings, "first_release", settings.rounds)
    assert play(one, candidates[:end], rewards[:end]) == play(two, candidates[:end], 1 - rewards[:end])


@each
def test_states_its_guarantee(settings):
    statement = settings.guarantee()
    assert settings.private is (statement is not None)
    if statement is None:
        return
    assert privacy.Guarantee.from_json(statement.to_json()) == statement
    assert statement.epsilon >= 0
    if hasattr(settings, "epsilon"):
        assert statement.delta == getattr(settings, "delta", 0.0)
        conditions = {privacy.CONDITIONS["secret-noise"], privacy.CONDITIONS["exact-noise"]}
        assert conditions <= set(statement.assumptions)
        assert statement.simulated
        refusals = [refusal(lambda: Policy(settings, seed=None, source=Secure()))]
        refusals.append(refusal(lambda: settings.guarantee(exact_noise=True)))
        assert refusals[0] == refusals[1]  # exact noise is promised by those alone who can draw it
        if refusals[0] is None:
            assert conditions <= set(settings.guarantee(exact_noise=True).enforced)
        elif not isinstance(settings, BatchedSettings):
            assert f"for a policy with exact noise, not {settings.name}" in refusals[0]


def refusal(made):
    """The error that this raises, if it does."""
    try:
        made()
    except InputError as error:
        return str(error)
    return None


def calibrations(settings):
    """Those a policy offers; one that offers no choice is exact."""
    return settings.calibrations() if hasattr(settings, "calibrations") else ("exact",)


@each_private
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_calibrations_keep_what_was_asked_or_say_so(settings, epsilon):
    for calibration in calibrations(settings):
        chosen = {"calibration": calibration} if hasattr(settings, "calibrations") else {}
        statement = dataclasses.replace(settings, epsilon=epsilon, **chosen).guarantee()
        printed = f"The published calibration states epsilon = {epsilon:g}."
        if calibration == "published-unsound" or getattr(settings, "unsound", False):
            assert statement.epsilon > epsilon * 1.01
            assert f"epsilon = {statement.epsilon:.4g}" in statement.sentence
            assert printed in statement.sentence
            continue
        assert statement.epsilon <= epsilon * (1 + 1e-9)
        if calibration == "tight":  # up to a tree's node that is counted and never released
            assert statement.epsilon > 0.8 * epsilon
            assert statement.nominal_epsilon is None
            assert "published" not in statement.sentence
        elif calibration == "exact" and getattr(settings, "statistics", "b") != "ab":
            assert statement.epsilon == pytest.approx(epsilon, rel=1e-6)
            assert statement.nominal_epsilon is None
            assert "published" not in statement.sentence
        else:
            assert statement.nominal_epsilon == epsilon
            assert printed in statement.sentence
            assert statement.epsilon < epsilon


def test_the_unsound_calibration_is_offered_by_its_name_only():
    kind = policies.settings_class("adaprivate-ts-amp")
    assert kind(dimension=3, rounds=10, batch_size=5).calibration == "exact"
    assert all("published-unsound" not in calibrations(e) for e, _ in PRIVATE if e.name != "adaprivate-ts-amp")


BATCHED = [e for e in EXAMPLES if isinstance(e, BatchedSettings) and e.inclusion == 1 and e.statistics == "b"]


@pytest.mark.parametrize("noise", ["independent", "tree", "honaker", "sqrt", "banded", "blt", "optimal"])
@pytest.mark.parametrize("settings", BATCHED, ids=[f"{e.name}-{i}" for i, e in enumerate(BATCHED)])
def test_promises_what_its_mechanism_promises(settings, noise):
    """The policy's statement is that of the mechanism which makes its releases, no better."""
    settings = dataclasses.replace(settings, noise=noise)
    ours, theirs = settings.guarantee(exact_noise=True), settings.mechanism(Secure()).guarantee(settings.delta)
    assert ours.epsilon == pytest.approx(theirs.epsilon, rel=1e-9)
    assert ours.epsilon >= theirs.epsilon * (1 - 1e-12)
    assert (ours.unit, ours.neighbours, ours.protects) == (theirs.unit, theirs.neighbours, theirs.protects)
    assert not (ours.exact and not theirs.exact)
    assert set(theirs.assumptions) <= {*ours.assumptions, *ours.enforced}


@pytest.mark.parametrize("settings", [e for e in EXAMPLES if fixed_arms(e)], ids=lambda e: e.name)
@pytest.mark.parametrize("source", [None, Secure()], ids=["simulated", "exact"])
def test_fixed_arms_refuse_rewards_that_come_late(settings, source, tmp_path):
    """Pre-pulls and first pulls are counted by learned rounds: with a delay, an arm would be sampled with few rewards."""
    message = rf"^Expected reward_window=3 == 0 for {settings.name}, a policy on arms\.$"
    with pytest.raises(InputError, match=message):
        Policy(settings, seed=None if source else 0, source=source, reward_window=3)
    if source is None:
        policy = Policy(settings, seed=0, source=None)
        policy.reward_window = 3
        policy.save(tmp_path / "policy.npz")
        with pytest.raises(InputError, match=message):
            adaprivate.load(tmp_path / "policy.npz")


@pytest.mark.parametrize("settings", [e for e in EXAMPLES if fixed_arms(e)], ids=lambda e: e.name)
def test_fixed_arms_are_refused_anything_else(settings):
    place = environments.environment("synthetic", {"dimension": settings.dimension, "arms": 12, "candidates": 3})
    with pytest.raises(InputError, match=rf"^Expected environment='synthetic' to offer the same arms .* {settings.name} "):
        run_all([settings], place, [0])
    policy = Policy(settings, seed=0, source=None)
    with pytest.raises(InputError, match=r"^Expected candidates to be the \d+ unit vectors"):
        policy.decide(np.eye(settings.dimension)[::-1])
    assert policy.open_decision is None
    play(policy, *offers(settings))
    with pytest.raises(
        InputError, match=rf"^Expected round={settings.rounds} < {settings.rounds}, the rounds in its settings"
    ):
        policy.decide(np.eye(settings.dimension))
