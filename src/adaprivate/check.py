"""One error grammar for every input: ``Expected epsilon=-1 > 0.``

Each function returns the checked value in its plain type, or raises :class:`InputError` naming the argument, its value and
the condition it broke.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from adaprivate.errors import ClippedWarning as ClippedWarning
from adaprivate.errors import InputError as InputError
from adaprivate.errors import LittleToLearnWarning as LittleToLearnWarning

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Choice = TypeVar("Choice", bound=str)


class Unsaid(str):
    """The name of a value that no error repeats: it may be private, as contexts are under joint and local guarantees."""

    __slots__ = ()


def expect(condition: bool, name: str, value: object, requirement: str) -> None:
    """Raise ``Expected name=value requirement.`` unless the condition holds; of an :class:`Unsaid` name no value."""
    if not condition:
        shown = name if value is None and requirement.startswith("to be given") else _named(name, value)
        raise InputError(f"Expected {shown} {requirement}.")


def _named(name: str, value: object) -> str:
    return name if isinstance(name, Unsaid) else f"{name}={_show(value)}"


def _show(value: object) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def reward(value: object, otherwise: str = "") -> float:
    """A reward: a number from 0 to 1, or a bool (or ``otherwise``). The error does not repeat it: it is private."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    try:
        number = float(value) if isinstance(value, numbers.Real) else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise InputError(
            f"Expected reward to be a number from 0 to 1, or a bool{otherwise}; it is private and not repeated here."
        )
    return number


def reward_range(value: object) -> tuple[float, float]:
    """The public ends of what a reward may be: two numbers, the first one smaller."""
    pair = isinstance(value, tuple | list) and len(value) == 2
    expect(pair, "reward_range", value, "to be two numbers (least, greatest)")
    low, high = (real("reward_range", end) for end in value)  # type: ignore[attr-defined]
    expect(low < high and math.isfinite(high - low), "reward_range", value, "to be (least, greatest), least < greatest")
    return low, high


def scaled_reward(value: object, within: tuple[float, float]) -> float:
    """A reward within this range, as a number from 0 to 1. The error does not repeat it: it is private."""
    low, high = within
    try:
        number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not low <= number <= high:
        raise InputError(
            f"Expected reward to be a number from {low:g} to {high:g}, its reward_range, and no bool; "
            "it is private and not repeated here."
        )
    return min(1.0, max(0.0, (number - low) / (high - low)))


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite number within the stated bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InputError(f"Expected {_named(name, value)} to be a number.")
    try:
        number = float(value)
    except OverflowError:
        number = -math.inf if str(value).startswith("-") else math.inf  # a whole number beyond all floats
    bounds = []
    if above is not None:
        bounds.append((number > above, f"> {above:g}"))
    if at_least is not None:
        bounds.append((number >= at_least, f">= {at_least:g}"))
    if below is not None:
        bounds.append((number < below, f"< {below:g}"))
    if at_most is not None:
        bounds.append((number <= at_most, f"<= {at_most:g}"))
    requirement = " and ".join(text for _, text in bounds)
    expect(all(met for met, _ in bounds), name, value, requirement)
    expect(math.isfinite(number), name, value, "to be finite")
    return number


def whole(name: str, value: object, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """A whole number within the stated bounds; floats are refused even when they are whole."""
    expect(value is not None, name, value, "to be given: a whole number")
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputError(f"Expected {_named(name, value)} to be a whole number.")
    number = int(value)
    if at_least is not None:
        expect(number >= at_least, name, value, f">= {at_least}")
    if at_most is not None:
        expect(number <= at_most, name, value, f"<= {at_most}")
    return number


def kind(name: str, value: object, *types: type) -> None:
    """An instance of one of these classes."""
    words = " or ".join(t.__name__ for t in types)
    expect(isinstance(value, types), name, value, f"to be a {words}")


def probability(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    return real(name, value, above=0, below=1)


def mean_reward(name: str, value: object) -> float:
    """A public mean of rewards that are scaled to 0 to 1, not so near an end that nothing could be learned."""
    number = real(name, value)
    expect(1e-4 <= number <= 1 - 1e-4, name, value, ">= 0.0001 and <= 0.9999, on the 0..1 scale")
    return number


def budget(epsilon: object) -> float:
    """A privacy budget that noise can be found for: 1e-6 to 1e4."""
    number = real("epsilon", epsilon, above=0)
    expect(1e-6 <= number <= 1e4, "epsilon", epsilon, ">= 1e-06 and <= 10000")
    return number


def regulariser(ridge: object) -> float:
    """A ridge whose matrices have inverses and determinants in floating point."""
    number = real("ridge", ridge, above=0)
    expect(1e-9 <= number <= 1e9, "ridge", ridge, ">= 1e-09 and <= 1e+09")
    return number


MANY = 12
"""More names than this are listed after the one that was perhaps meant."""


def one_of(name: str, value: object, options: Iterable[str], rest: str = "") -> str:
    """One of a few words; where it is nearly one, the error asks for that. ``rest`` ends its sentence."""
    allowed = tuple(options)
    if not (isinstance(value, str) and value in allowed):
        question = did_you_mean(value, allowed)
        if question and len(allowed) > MANY:  # what was perhaps meant comes before a long list
            names = f"They are {', '.join(allowed)}{rest}."
            raise InputError(f"Expected {_named(name, value)} to be one of {len(allowed)} names.{question} {names}")
        words = "in {" + ", ".join(allowed) + "}" + rest
        raise InputError(f"Expected {_named(name, value)} {words}.{question}")
    return value


def did_you_mean(value: object, allowed: Iterable[str]) -> str:
    """A question that ends an error, where a word is nearly one of those allowed; else nothing."""
    near = difflib.get_close_matches(value, list(allowed), n=1, cutoff=0.7) if isinstance(value, str) else []
    return f" Did you mean {near[0]}?" if near else ""


def known(options: Iterable[str], allowed: Iterable[str], of: str = "") -> None:
    """Options that somebody takes; ``of`` says who."""
    words = tuple(allowed)
    for option in options:
        one_of("option", option, words, f" for {of}" if of else "")


def floats(name: str, value: object, shape: tuple[int | None, ...]) -> Floats:
    """A finite float array of the given shape (``None`` leaves an axis free). No error repeats a number of it."""
    if type(value) is np.ndarray and value.ndim == 1 and value.dtype == np.float64 and value.shape == shape:
        with np.errstate(over="ignore", invalid="ignore"):
            square = value.dot(value)
        if math.isfinite(square):  # then all entries are
            return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:  # raised here, and so without the first error, whose text may quote a value
        raise InputError(f"Expected {name} to be an array of numbers.")
    wanted = "(" + ", ".join("*" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"
    fits = array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
    expect(fits, f"{name}.shape", array.shape, f"== {wanted}")
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        index = ", ".join(map(str, where))
        raise InputError(f"Expected {name}[{index}]={array[where].item()!r} to be finite.")
    return array


def option(default: Any, allowed: Callable[..., object], **limits: Any) -> Any:
    """A field of a dataclass with this default, which :func:`options` checks by ``allowed(name, value, **limits)``.

    The check also holds for a subclass with another default. A value of None is not checked where it is the default.
    """
    return dataclasses.field(default=default, metadata={"allowed": partial(allowed, **limits)})


def options(settings: Any) -> None:
    """Check every field of this dataclass that is an :func:`option`."""
    kind: Any = type(settings)
    for field in dataclasses.fields(kind):
        value, allowed = getattr(settings, field.name), _checks(kind).get(field.name)
        if allowed is not None and not (value is None and field.default is None):
            allowed(field.name, value)


@cache
def _checks(kind: Any) -> dict[str, Callable[[str, object], object]]:
    """The check of every option of this class: that of the nearest class that gives one."""
    found: dict[str, Callable[[str, object], object]] = {}
    for base in reversed(kind.__mro__):
        for field in vars(base).get("__dataclass_fields__", {}).values():
            if "allowed" in field.metadata:
                found[field.name] = field.metadata["allowed"]
    return found
