"""Logs of other software: Vowpal Wabbit's dsjson, and the feedback of Open Bandit Pipeline.

dsjson has one JSON object a line, a decision and its reward:

    _label_cost, _label_probability, _labelIndex     minus the reward, the propensity, the place of what was chosen
    a, p                                             actions by rank (the first was chosen; counted from 1), probabilities
    c                                                the context; ``_multi`` in it lists the candidates, each an object

An object in ``c`` is a namespace. Its values become columns ``namespace.name``, of the context or of each candidate. A text
is a value, a number a number, a truth value a text; lists are named by place. Lines without a decision (outcomes that
were not joined, and such that say ``_skipLearn``) are left out. Read in pieces, which are kept as parquet files.

Feedback is what ``obtain_batch_bandit_feedback()`` of Open Bandit Pipeline's datasets gives, a dict of arrays: ``context``
(n, c), ``action`` (n), ``reward`` (n), ``pscore`` (n), ``position`` (n) or None, ``action_context`` (K, a).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adaprivate import check
from adaprivate.check import Array, Floats, InputError
from adaprivate.data.files import PRIVATE, File, fault
from adaprivate.logs.tables import Scratch, Source, in_memory

PIECE = 20_000
"""So many lines are read at once."""
MOST_NAMES = 2_000
"""At most so many different features are columns."""
CANDIDATE = "candidate."
PLACE = CANDIDATE + "place"
"""The place of a candidate in its row: a feature only where candidates have no other."""
_LARGEST = (1 << 63) - 1
_OWN = ("_action", "_reward", "_propensity", "_time", "_id")


def dsjson_source(file: File) -> Source:
    """The log in a dsjson file."""
    folder = Scratch()
    parts: list[Path] = []
    schema: dict[str, Any] = {}
    for piece in _pieces(file):
        table = _table(piece)
        schema |= dict(table.schema)
        if len(schema) > MOST_NAMES:
            raise InputError(f"Expected {file} to have at most {MOST_NAMES} different features.")
        parts.append(folder.write(table.lazy(), f"{len(parts):08d}.parquet"))
    if not parts:
        raise InputError(f"Expected {file} to hold decisions: lines with c, and with _label_cost or a and p.")
    own = tuple(name for name in schema if name.startswith(CANDIDATE))
    context = tuple(name for name in schema if name not in (*_OWN, *own))
    usual: dict[str, Any] = {name[1:]: name for name in _OWN if name in schema}
    usual |= {"context": context, "item_columns": (PLACE, *(name for name in own if name != PLACE))}
    whole = folder.write(pl.concat([pl.scan_parquet(part) for part in parts], how="diagonal"), "log.parquet")
    for part in parts:
        part.unlink()
    return Source(file, pl.scan_parquet(whole), schema, usual=usual, kept=folder)


def _pieces(file: File) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    with file.open() as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                given = json.loads(line)
                row = _decision(file, number, given) if isinstance(given, dict) else None
            except InputError:
                raise
            except (ValueError, RecursionError):
                given = None
            if not isinstance(given, dict):
                fault(file, number, None, PRIVATE, "to be a JSON object, not nested deeply; a line may hold a reward")
            if row is not None:
                rows.append(row)
            if len(rows) == PIECE:
                yield rows
                rows = []
    if rows:
        yield rows


def _decision(file: File, number: int, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """A line as columns; None where it holds no decision."""
    context = given.get("c")
    if not isinstance(context, Mapping) or given.get("_skipLearn") is True:
        return None
    candidates = context.get("_multi")
    if not isinstance(candidates, list) or not candidates:
        fault(file, number, "c._multi", type(candidates).__name__, "to list the candidates")
    ranked, odds = given.get("a"), given.get("p")
    chosen = given.get("_labelIndex")
    if chosen is None and isinstance(ranked, list) and ranked:
        chosen = _place(ranked[0])
    if chosen is None:
        chosen = _place(given.get("_label_Action"))
    if isinstance(chosen, bool) or not isinstance(chosen, int | None) or abs(chosen or 0) > _LARGEST:
        fault(file, number, "_labelIndex", chosen, "to be a whole number")
    likely = given.get("_label_probability")
    if likely is None and isinstance(odds, list) and odds:
        likely = odds[0]
    if likely is not None and _number(likely) is None:
        fault(file, number, "_label_probability", likely, "to be a number")
    cost = _number(given.get("_label_cost"))
    if cost is None and given.get("_label_cost") is not None:
        fault(file, number, "_label_cost", PRIVATE, "to be a number; it is private and not repeated")
    row: dict[str, Any] = {"_action": chosen, "_reward": None if cost is None else 0.0 - cost, "_propensity": likely}
    named = {"_time": given.get("Timestamp"), "_id": given.get("EventId")}
    row |= {name: value for name, value in named.items() if value is not None}
    row |= _flat({name: value for name, value in context.items() if name != "_multi"})
    if any(name.startswith(CANDIDATE) for name in row):
        fault(file, number, "c", CANDIDATE[:-1], "not to be a namespace of the context")
    described = [_flat(one) if isinstance(one, Mapping) else {} for one in candidates]
    names = dict.fromkeys(name for one in described for name in one)
    row[PLACE] = [str(place) for place in range(len(candidates))]
    return row | {CANDIDATE + name: [one.get(name) for one in described] for name in names}


def _place(value: object) -> int | None:
    """The place of an action that is counted from 1."""
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def _flat(given: Mapping[str, Any], before: str = "") -> dict[str, str | None]:
    """Names and values as texts: nested names are joined by points; what begins with _ is VW's own."""
    found: dict[str, str | None] = {}
    for key, value in given.items():
        if key.startswith("_") and key != "_text":
            continue
        name = before + "".join(c if c.isalnum() or c in "_-." else "_" for c in key)
        if isinstance(value, Mapping):
            found |= _flat(value, name + ".")
        elif isinstance(value, list):
            found |= _flat({str(place): one for place, one in enumerate(value)}, name + ".")
        elif isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif value is not None:
            found[name] = value if isinstance(value, str) else repr(value)
    return found


def _table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row)
    kinds: dict[str, Any] = {"_action": pl.Int64, "_reward": pl.Float64, "_propensity": pl.Float64}
    columns = {}
    for name in names:
        kind = pl.List(pl.String) if name.startswith(CANDIDATE) else kinds.get(name, pl.String)
        columns[name] = pl.Series(name, [row.get(name) for row in rows], dtype=kind, strict=False)
    return pl.DataFrame(columns)


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
