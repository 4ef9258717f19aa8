"""The feedback of Open Bandit Pipeline: what its datasets' ``obtain_batch_bandit_feedback()`` gives, a dict of arrays.

``context`` (n, c), ``action`` (n), ``reward`` (n), ``pscore`` (n), ``position`` (n) or None, ``action_context`` (K, a).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError
from adaprivate.data.reading import File
from adaprivate.data.sources import Source, in_memory

CONTEXT, ITEM = "context_", "item_feature_"


KEYS = {"n_rounds", "n_actions", "context", "action_context", "pscore"}
"""Those by which it is told from a dict of columns."""


def is_feedback(given: Mapping[str, Any]) -> bool:
    """Whether a dict is feedback, by its keys; other dicts are columns of a table."""
    return bool(KEYS & set(given)) or set(given) <= {"action", "reward", "position"}


def feedback_source(feedback: Mapping[str, Any]) -> Source:
    """The log in such a dict, with its contexts and its items' features."""
    for name in ("action", "reward"):
        check.expect(name in feedback, "keys of the feedback", sorted(map(str, feedback)), f"to hold {name}")
    actions = _array("action", feedback["action"])
    check.expect(actions.ndim == 1, "feedback.action.shape", actions.shape, "== (n,)")
    n = len(actions)
    table: dict[str, Any] = {"action": actions, "reward": _column("reward", feedback["reward"], n)}
    usual: dict[str, Any] = {}
    if feedback.get("pscore") is not None:
        table["propensity"] = _column("pscore", feedback["pscore"], n)
    if feedback.get("position") is not None:
        table["position"] = _array("position", feedback["position"])
        check.expect(table["position"].shape == (n,), "feedback.position.shape", table["position"].shape, f"== ({n},)")
        usual["position"] = "position"
    if feedback.get("context") is not None:
        context = _matrix("context", feedback["context"], n)
        table |= {f"{CONTEXT}{place}": context[:, place] for place in range(context.shape[1])}
        usual["context"] = tuple(f"{CONTEXT}{place}" for place in range(context.shape[1]))
    if feedback.get("action_context") is not None:
        items = _matrix("action_context", feedback["action_context"], None)
        columns = {f"{ITEM}{place}": items[:, place] for place in range(items.shape[1])}
        usual["items"] = pl.DataFrame({"item": np.arange(len(items)), **columns})
    elif feedback.get("n_actions") is not None:
        usual["items"] = pl.DataFrame(
            {"item": np.arange(check.whole("feedback.n_actions", feedback["n_actions"], at_least=1))}
        )
    return in_memory(File(Path("feedback")), pl.DataFrame(table), "row", usual)


def _array(name: str, value: object, kind: type | None = None) -> Array:
    """An array of numbers or texts. What is wrong with a value is not said: it may be a reward."""
    try:
        found = np.asarray(value, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"Expected feedback.{name} to be an array of numbers.") from None
    if found.dtype == object:
        raise InputError(f"Expected feedback.{name} to be an array of numbers or of texts.")
    return found


def _column(name: str, value: object, rows: int) -> Floats:
    found = _array(name, value, np.float64)
    check.expect(found.shape == (rows,), f"feedback.{name}.shape", found.shape, f"== ({rows},)")
    return found


def _matrix(name: str, value: object, rows: int | None) -> Floats:
    found = _array(name, value, np.float64)
    fine = found.ndim == 2 and rows in (None, len(found))
    check.expect(fine, f"feedback.{name}.shape", found.shape, f"== ({'n' if rows is None else rows}, d)")
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        row, place = wrong[0].tolist()
        raise InputError(f"Expected feedback.{name}[{row}, {place}]={found[row, place].item()!r} to be finite.")
    return found
