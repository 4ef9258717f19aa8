"""The suite sees privacy: mistakes planted into a sound policy, its compiled code or its books, are caught, and by whom.

Each compiled mistake is the sound policy's file with one text replaced, and its state renamed: numba tells states with
equal fields apart by their names.
"""

import dataclasses
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

from adaprivate import policies, registry
from adaprivate.mechanisms.book import SumBook
from adaprivate.mechanisms.plan import BatchPlan, RewardPlan, SamplingPlan
from adaprivate.mechanisms.units import EventSum, EventUnit
from adaprivate.testing import check_policy, policy_checks

SOUND = Path(__file__).parent / "sound.py"
COSTS = "releases-cost-what-the-guarantee-says"
MOMENTS = "releases-come-at-the-stated-moments"
MISTAKES = {
    "no noise": (" + state.noise[s.batch, j]", "", COSTS),
    "noise 100 times too small": ("self.dimension), self.sigma)", "self.dimension), self.sigma / 100)", COSTS),
    "noise of two thirds": ("self.dimension), self.sigma)", "self.dimension), self.sigma * 2 / 3)", COSTS),
    "noise of three halves": ("self.dimension), self.sigma)", "self.dimension), self.sigma * 3 / 2)", COSTS),
    "a sum never reset": ("state.sums[j] = 0.0", "pass", COSTS),
    "released a round early": ("s.round != state.ends[s.batch]", "s.round + 1 != state.ends[s.batch]", MOMENTS),
    "released twice": (
        "if s.round != state.ends[s.batch]:",
        "if s.round == 3:\n        for j in range(d):\n            state.released[j] = state.sums[j]\n"
        "    if s.round != state.ends[s.batch]:",
        COSTS,
    ),
    "missing rewards told from others": (
        "    def released(",
        "    @property\n    def missing(self) -> float:\n        return -1.0\n\n    def released(",
        "missing-rewards-count-as-their-public-value",
    ),
    "the same noise in every batch": ("state.noise[s.batch, j]", "state.noise[0, j]", COSTS),
    "choices that look ahead": (
        "return highest(candidates, state.parameter)",
        "for j in range(candidates.shape[1]):\n        state.scratch[j] = state.parameter[j] + 1000.0 * state.sums[j]\n"
        "    return highest(candidates, state.scratch)",
        "choices-see-releases-alone",
    ),
    "a reward range of 2": ("weight = reward - s.centre", "weight = 2.0 * (reward - s.centre)", COSTS),
    "an event in two batches": ("state.sums[j] = 0.0", "state.sums[j] = weight * features[j]", COSTS),
    "features not bounded": ("weight * features[j]", "weight * 3.0 * features[j]", COSTS),
    "nothing said of releases": ("    def released(", "    def unheard(", COSTS),
    "another seed's noise in company": (
        "return gaussian_tables(seeds, (",
        "return gaussian_tables(sorted(seeds), (",
        "noise-is-that-of-each-seed-alone",
    ),
}


def planted(text):
    """The policy of this text, registered under a name that nobody else has."""
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    name = f"planted_{key}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_loader(name, loader=None)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        own = text.replace('"planted"', f'"planted-{key}"').replace("PlantedState", f"PlantedState{key}")
        exec(compile(own, name, "exec"), vars(module))
        registry.register(module, kind="policies")
    return sys.modules[name].EXAMPLES[0]


@pytest.fixture
def only_here():
    """Planted policies are compiled for this test alone, never kept on disk, and forgotten afterwards."""
    functions = {
        id(value): value
        for name, module in list(sys.modules.items())
        if name.startswith("adaprivate")
        for value in list(vars(module).values())
        if isinstance(value, Dispatcher)
    }
    kept = {key: function._cache for key, function in functions.items()}
    for function in functions.values():
        function._cache = NullCache()
    yield
    for key, function in functions.items():
        function._cache = kept[key]
    given = policies._registry._given
    for name in [name for name in given if name.startswith("planted_")]:
        del given[name], sys.modules[name]
    policies._registry._table = None


@pytest.mark.usefixtures("only_here")
def test_the_sound_policy_passes():
    check_policy(planted(SOUND.read_text()))


def caught(settings, check):
    with pytest.raises(AssertionError, match=rf"^{check} of .*\.$") as failed:
        policy_checks()[check](settings)
    return str(failed.value)


@pytest.mark.usefixtures("only_here")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_compiled_code_is_caught(mistake):
    old, new, check = MISTAKES[mistake]
    text = SOUND.read_text()
    assert text.count(old) == 1
    text = text.replace(old, new)
    if "state.scratch" in new:
        text = text.replace("    noise: Floats\n", "    scratch: Floats\n    noise: Floats\n", 1)
    caught(planted(text), check)


@pytest.mark.usefixtures("only_here")
@pytest.mark.parametrize("mistake", ["no noise", "noise 100 times too small", "a sum never reset"])
def test_the_whole_suite_catches_it(mistake):
    old, new, check = MISTAKES[mistake]
    with pytest.raises(AssertionError, match=rf"^{check} of planted"):
        check_policy(planted(SOUND.read_text().replace(old, new)))


# --- every private policy of the registry, its noise turned down ------------------------------------------------------

MODULES = [importlib.import_module(m.name) for m in pkgutil.walk_packages(policies.__path__, "adaprivate.policies.")]
PRIVATE = [e for m in MODULES for e in getattr(m, "EXAMPLES", ()) if e.private and e.guarantee().epsilon > 0]
IDS = [f"{e.name}-{place}" for place, e in enumerate(PRIVATE)]


def quiet(settings, factor):
    """The same policy with so much of its noise, and the same promises."""
    kind = type(settings)

    def noise_tables(self, seeds):
        table = kind.noise_tables(self, seeds)
        return table if drawn_as_rounds_go_by(settings) or isinstance(settings.plan, RewardPlan) else factor * table

    def start(self, noise):
        state = kind.start(self, noise)
        if drawn_as_rounds_go_by(settings):
            state.scalars["scale"] *= factor
            for part in ("above", "resting"):
                if hasattr(state, part):
                    getattr(state, part)[:] *= factor
        if isinstance(settings.plan, RewardPlan):  # flips
            state.book.scalars["keep"] = 1 - factor * (1 - state.book.scalars["keep"])
        if isinstance(settings.plan, SamplingPlan):
            state.learner.scalars["variance"] *= factor**2
            state.learner.spread[:] *= factor
        return state

    made = type(kind.__name__, (kind,), {"noise_tables": noise_tables, "start": start, "__module__": kind.__module__})
    same = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return dataclass(frozen=True, kw_only=True)(made)(**same)


def drawn_as_rounds_go_by(settings):
    return "words" in type(settings.start(settings.noise_tables([0])[0]))._fields and not getattr(
        settings, "batched", False
    )


@pytest.mark.parametrize("factor", [0.0, 0.01])
@pytest.mark.parametrize("settings", PRIVATE, ids=IDS)
def test_too_little_noise_is_caught_in_every_policy(settings, factor):
    sampling = isinstance(settings.plan, SamplingPlan)
    if getattr(settings, "form", "") == "laplace-tree-unsound":  # its proved bound is thousands of times what it costs
        factor /= 100
    caught(quiet(settings, factor), "compiled-samples-are-as-wide-as-stated" if sampling else COSTS)


# --- mistakes in books ------------------------------------------------------------------------------------------------


class LooseSum(EventSum):
    def add(self, features, reward):
        longest = max(1.0, float(np.linalg.norm(features)))
        for _ in range(round(longest)):
            super().add(np.asarray(features) / longest, reward)


@dataclass(frozen=True)
class LooseUnit(EventUnit):
    def collector(self, dimension, *, noise, centre, shape):
        return LooseSum(dimension, noise=noise, centre=centre, shape=shape)


class NeverEmptied(SumBook):
    def close(self):
        release, after = super().close()
        after._collector.restore(self._collector.state())
        return release, after


class InTwoBatches(SumBook):
    _last = None

    def _enter(self, event):
        super()._enter(event)
        self._last = event

    def close(self):
        release, after = super().close()
        if after.batch < len(self.plan.ends):
            SumBook._enter(after, self._last)
        return release, after


class Early(SumBook):
    @property
    def due(self):
        return self.batch < len(self.plan.ends) and self.round + 1 == self.plan.ends[self.batch]


class Unnoised(SumBook):
    def close(self):
        kept = self._collector.state()
        release, after = super().close()
        clear = np.array([entry / 2**20 for entry in kept], dtype=np.float64)
        return release._replace(values=clear), after


class SameNoise(SumBook):
    _noise = None

    def close(self):
        release, after = super().close()
        noise = self._noise if self._noise is not None else release.values
        after._noise = noise
        return release._replace(values=release.values if self._noise is None else noise), after


@dataclass(frozen=True, kw_only=True)
class PlantedPlan(BatchPlan):
    kind: type = SumBook
    less: float = 1.0

    def book(self, source):
        return self.kind(self, source)

    def mechanism(self, epoch, source, replicas=1):
        built = super().mechanism(epoch, source, replicas)
        built.row_std *= self.less
        return built


SETTINGS = policies.settings("adaprivate-ts", {"dimension": 3, "rounds": 40, "batch_size": 8, "noise": "sqrt"})
AWARE = policies.settings("noise-aware-ts", {"dimension": 3, "rounds": 40, "batch_size": 8, "growth": 1.0})
EXACT_COSTS, EXACT_WIDTH = "exact-releases-cost-what-their-price-says", "exact-noise-is-as-wide-as-stated"


def with_plan(settings, **changes):
    fields = {field.name: getattr(settings.plan, field.name) for field in dataclasses.fields(settings.plan)}
    twin = dataclasses.replace(settings)
    twin.__dict__["plan"] = PlantedPlan(**{**fields, **changes})
    return twin


@pytest.mark.parametrize("settings", [SETTINGS, AWARE], ids=["sums", "rows"])
@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"unit": LooseUnit()}, EXACT_COSTS),
        ({"kind": NeverEmptied}, EXACT_COSTS),
        ({"kind": InTwoBatches}, EXACT_COSTS),
        ({"kind": Early}, EXACT_COSTS),
        ({"less": 0.01}, EXACT_COSTS),
        ({"less": 0.99}, EXACT_COSTS),
        ({"less": 1.5}, EXACT_COSTS),
        ({"kind": Unnoised}, EXACT_WIDTH),
        ({"kind": SameNoise}, EXACT_WIDTH),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_mistake_in_a_book_is_caught(settings, changes, check):
    policy_checks()[check](with_plan(settings))
    caught(with_plan(settings, **changes), check)


def test_too_little_exact_noise_is_caught_in_sampled_arms():
    settings = policies.settings("modified-thompson", {"dimension": 3, "rounds": 60, "epsilon": 4.0, "prepulls": 5})
    settings.__dict__["plan"] = dataclasses.replace(settings.plan, variance=settings.plan.variance * 0.5)
    said = caught(settings, "exact-samples-cost-what-their-price-says")
    assert "a reward costs" in said
