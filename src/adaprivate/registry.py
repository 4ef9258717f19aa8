"""How policies, environments, mechanisms and experiments are found by name, wherever they are written.

A module that offers some comes from one of three places: a package of adaprivate, an entry point that an installed
distribution declares in the group ``adaprivate.KIND``, or :func:`register`. A name belongs to one module: one that two
claim is refused until one of them goes. An entry point that cannot be loaded leaves all other names alone.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from adaprivate import check

KINDS = {
    "policies": "policy",
    "environments": "environment",
    "mechanisms": "mechanism",
    "experiments": "experiment",
    "laws": "law",
    "units": "unit",
}
"""What other packages can add, and the word for one of it; entry points of each are in the group ``adaprivate.KIND``."""
_HOMES = (
    "adaprivate.policies",
    "adaprivate.environments",
    "adaprivate.mechanisms",
    "adaprivate.mechanisms.laws",
    "adaprivate.mechanisms.units",
    "adaprivate.experiments",
)
"""Each keeps registries; imported when a module is registered, so that they can say whether it is theirs."""
_NAME = re.compile(r'^    name: ClassVar\[str\] = "([^"]+)"$', re.MULTILINE)
"""The name of a class, in the source of its module."""
_registries: dict[str, Registry[Any]] = {}
Value = TypeVar("Value")


class _Offer(NamedTuple, Generic[Value]):
    """What stands under a name: the module it comes from, and the value, or None where the module waits to be asked."""

    module: str
    value: Value | None


class _Table(NamedTuple, Generic[Value]):
    """Everything found: what can be used, what two modules claim, and what could not be loaded, with the reason."""

    found: dict[str, _Offer[Value]]
    contested: dict[str, str]
    broken: dict[str, str]


class Registry(Generic[Value]):
    """Everything of one kind, by name, found when first asked for.

    ``offers`` says what a module has of this kind: its values by name. The modules of ``package``, where there is one, are
    all imported, and those that offer nothing passed over. With ``by_text`` each is imported when it is asked for: its
    names are read in its source, one a class, ``name: ClassVar[str] = "..."``.
    """

    def __init__(
        self,
        kind: str,
        package: str | None,
        offers: Callable[[ModuleType], Mapping[str, Value]],
        *,
        by_text: bool = False,
    ) -> None:
        self.kind = check.one_of("kind", kind, KINDS)
        self.package = package
        self._word = KINDS[kind]
        self._offers = offers
        self._by_text = by_text
        self._given: dict[str, ModuleType] = {}
        self._own_offers: list[tuple[str, Mapping[str, Value | None]]] | None = None
        self._table: _Table[Value] | None = None
        _registries[kind] = self

    def names(self) -> list[str]:
        """Every name that can be used."""
        return sorted(self._all().found)

    def find(self, name: str) -> Value:
        """What stands under this name; an unknown, contested or broken one is refused with the reason."""
        offer = self._offer(name)
        if offer.value is not None:
            return offer.value
        offered = self._offers(importlib.import_module(offer.module))
        check.expect(name in offered, self._word, name, f"to be offered by {offer.module}")
        self._all().found[name] = _Offer(offer.module, offered[name])
        return offered[name]

    def module(self, name: str) -> ModuleType:
        """The module that this name comes from."""
        where = self._offer(name).module
        return self._given[where] if where in self._given else importlib.import_module(where)

    def values(self) -> list[Value]:
        """Everything that can be used: adaprivate's own by module, then that of entry points, then what was registered."""
        return [self.find(name) for name in self._all().found]

    def refused(self) -> dict[str, str]:
        """What cannot be used, and why: names that two modules claim, entry points that cannot be loaded."""
        table = self._all()
        return {**table.broken, **table.contested}

    def examine(self, module: ModuleType) -> None:
        """Raise unless :meth:`add` would take this module."""
        name = module.__name__
        offered = self._offers(module)
        check.expect(bool(offered), "module", name, f"to offer {self.kind}")
        table = self._all()
        for key in offered:
            check.expect(key not in table.contested, self._word, key, table.contested.get(key, ""))
            home = table.found[key].module if key in table.found else name
            check.expect(home == name, self._word, key, _claimed(home, name))

    def add(self, module: ModuleType) -> None:
        """Take a module; the next look-up sees it. The same module again is looked at afresh."""
        self.examine(module)
        self._given[module.__name__] = module
        self._table = None

    def _offer(self, name: str) -> _Offer[Value]:
        found, refused, broken = self._all().found, self.refused(), self._all().broken
        lost = "".join(f", or {label} {reason}" for label, reason in broken.items())
        if isinstance(name, str) and name in refused:
            check.expect(False, self._word, name, refused[name])
        return found[check.one_of(self._word, name, sorted(found), lost)]

    def _all(self) -> _Table[Value]:
        if self._table is not None:
            return self._table
        table: _Table[Value] = _Table({}, {}, {})
        whole = True
        self._own_offers = self._own_offers if self._own_offers is not None else list(self._own())
        for module, offered in self._own_offers:
            self._enter(table, module, offered)
        for point in sorted(entry_points(group=f"adaprivate.{self.kind}"), key=lambda point: (point.name, point.value)):
            if point.value in self._given:
                continue
            try:
                module, values = self._load(point)
            except _HalfImportedError:
                whole = False  # it is asking this itself, while it is imported; the next look-up will see it
            except Exception as error:  # whatever another's module raises
                reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(".")
                table.broken[point.name] = f"to load, but {point.value} raised {reason}"
            else:
                self._enter(table, module, values)
        for given in self._given.values():
            self._enter(table, given.__name__, self._offers(given))
        if whole:
            self._table = table
        return table

    def _own(self) -> Iterator[tuple[str, Mapping[str, Value | None]]]:
        """The modules of the package, and what they offer."""
        if self.package is None:
            return
        path = importlib.import_module(self.package).__path__
        for info in sorted(pkgutil.walk_packages(path, f"{self.package}."), key=lambda info: info.name):
            text = _source(info) if self._by_text else None
            if text is not None:
                yield info.name, dict.fromkeys(_NAME.findall(text))
            else:
                yield info.name, self._offers(importlib.import_module(info.name))

    def _load(self, point: EntryPoint) -> tuple[str, Mapping[str, Value]]:
        """The name of an entry point's module, and what it offers."""
        module = point.load()
        check.kind("entry point", module, ModuleType)
        if getattr(module.__spec__, "_initializing", False):
            raise _HalfImportedError
        offered = self._offers(module)
        check.expect(bool(offered), "module", module.__name__, f"to offer {self.kind}")
        return module.__name__, offered

    def _enter(self, table: _Table[Value], module: str, offered: Mapping[str, Value | None]) -> None:
        for name, value in offered.items():
            home = table.found[name].module if name in table.found else module
            if name in table.contested:
                table.contested[name] += f" and {module}"
            elif home != module:
                del table.found[name]
                table.contested[name] = _claimed(home, module)
            else:
                table.found[name] = _Offer(module, value)


class _HalfImportedError(Exception):
    """A module is asked what it offers before its last line has run."""


def _source(info: pkgutil.ModuleInfo) -> str | None:
    """The source of a module that is not imported, or None where it is not installed."""
    spec = info.module_finder.find_spec(info.name, None)
    try:
        return None if spec is None else spec.loader.get_source(info.name)  # type: ignore[union-attr]
    except (AttributeError, ImportError, OSError):
        return None


def _claimed(home: str, module: str) -> str:
    return f"to be the name of one thing, not of those in {home} and {module}"


def has(thing: object, *parts: str) -> bool:
    """Whether a thing has all these attributes; none is computed, as properties of recorded data would read files."""
    missing = object()
    return all(inspect.getattr_static(thing, part, missing) is not missing for part in parts)


def file_name(module: str) -> str:
    """The name that a module has by its file: ``my_package.my_table`` is ``my-table``."""
    return module.rpartition(".")[2].replace("_", "-")


def register(module: ModuleType | str, *, kind: str | None = None) -> None:
    """Add what a module (or the one of this dotted name) offers: policies, environments, mechanisms, an experiment.

    Which of them is seen from the module: ``EXAMPLES`` of settings of policies or environments, or of functions that build
    mechanisms; ``SOURCE``, ``SETTINGS``, ``run`` and ``compare`` of an experiment, ``EXPERIMENTS`` of several.
    ``kind="policies"`` takes those alone. A module that offers nothing, or a name that another one has, is refused, and
    nothing is added. Twice is harmless.
    """
    check.kind("module", module, ModuleType, str)
    found = importlib.import_module(module) if isinstance(module, str) else module
    for home in _HOMES:
        importlib.import_module(home)
    known = {name: _registries[name] for name in KINDS if name in _registries}
    if kind is not None:
        chosen = [known[check.one_of("kind", kind, known)]]
    else:
        chosen = [registry for registry in known.values() if registry._offers(found)]
    offered = "to offer " + " or ".join(known) + ", by EXAMPLES (docs/extending.md)"
    check.expect(bool(chosen), "module", found.__name__, offered)
    for registry in chosen:
        registry.examine(found)
    for registry in chosen:
        registry.add(found)
