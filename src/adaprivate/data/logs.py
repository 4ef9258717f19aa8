"""The columns of a log by their roles: action, reward, propensity, user, time, context and candidates.

A log has one decision a row. Columns are named by the caller or found by their usual names. The Open Bandit Dataset is
recognized by its columns. The reward is private and may play no other role.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from adaprivate.check import InputError, did_you_mean
from adaprivate.data.reading import File, fault, look_like_names
from adaprivate.data.sources import Source, table_from, table_of

OPEN_BANDIT = {"item_id", "position", "click", "propensity_score"}
ACTIONS, REWARDS, PROPENSITIES = ("action", "item_id"), ("reward", "click"), ("propensity", "propensity_score")
"""The usual names of what was chosen, what it earned and how likely it was: the first that is there is taken."""
USERS = ("user", "user_id")
"""The usual names of a column that says whose a decision was."""
TIMES = ("time", "timestamp", "date", "datetime")
"""The usual names of a column that says when it was. Rows are put in order only by one that is named."""
IDS = ("decision_id", "event_id", "id")
"""The usual names of a column that names each decision."""


def is_log(columns: Sequence[str]) -> bool:
    """Whether these columns are a log by their names alone."""
    return usual_name(ACTIONS, columns) is not None and usual_name(REWARDS, columns) is not None


def usual_name(usual: Sequence[str], columns: Sequence[str], taken: Sequence[str | None] = ()) -> str | None:
    """The first of these names that is one of the columns, and not taken for something else."""
    return next((name for name in usual if name in columns and name not in taken), None)


def perhaps(name: str, known: Sequence[str]) -> str:
    """The question whether a name is one of these, misspelt; numbers in it are not."""
    digits = re.findall(r"\d", name)
    return did_you_mean(name, [one for one in known if re.findall(r"\d", one) == digits])


MOST_NAMED = 40
"""So many columns are named where one is missing."""


def no_column(
    file: File | Path, name: str, columns: Sequence[str], otherwise: str = "", names: Sequence[str] = ()
) -> NoReturn:
    """Raise one line: which column is not there (nor are its other ``names``), which are, and which was perhaps meant."""
    question = next(filter(None, (perhaps(one, columns) for one in (name, *names))), "") if look_like_names(columns) else ""
    raise InputError(f"Expected {file} to have a column {name}{otherwise}; it has {listed(columns)}.{question}")


def listed(columns: Sequence[str]) -> str:
    """The names of columns, as errors list them."""
    if not look_like_names(columns):
        return f"{len(columns)}, and its first line does not look like their names"
    more = f" and {len(columns) - MOST_NAMED:,} more" if len(columns) > MOST_NAMED else ""
    return ", ".join(columns[:MOST_NAMED]) + more


def no_rows(file: File) -> NoReturn:
    """Raise one line: there is nothing in it."""
    raise InputError(f"Expected {file} to hold decisions: the log holds no rows.")


def opened(source: Any, name: str) -> tuple[File, pl.DataFrame]:
    """A table and the file it is from; one that is from no file goes by its name."""
    if not isinstance(source, str | Path):
        return File(Path(name)), table_from(source, name)
    file = File(Path(source))
    if not file.path.is_file():
        raise InputError(f"Expected {source} to be a file.")
    return file, table_of(file)


@dataclass(frozen=True)
class Columns:
    """Which columns of a log hold what; None where there is none."""

    action: str
    reward: str
    propensity: str | None = None
    position: str | None = None
    user: str | None = None
    time: str | None = None
    id: str | None = None
    context: tuple[str, ...] = ()
    candidates: tuple[tuple[str, ...], ...] = ()
    """Of each candidate, the columns of its features."""
    offered: str | None = None
    """The column that lists the candidates of a row by their names."""
    item_columns: tuple[str, ...] = ()
    """Columns of lists, one entry for each candidate of a row: its place, then what is known of it."""

    @property
    def single(self) -> dict[str, str]:
        """The columns that there is one of, by what they hold."""
        words = ("action", "reward", "propensity", "position", "user", "time", "id", "offered")
        return {word: name for word in words if (name := getattr(self, word)) is not None}

    def expect_private(self, role: str, names: Iterable[str | None]) -> None:
        """Raise where the reward, which alone is private, is to serve as something that is public, too."""
        if self.reward in names:
            raise InputError(f"Expected {role}={self.reward!r} not to be the reward: it is private, {role} is public.")


def columns_of(
    source: Source,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    position: str | None = None,
    user: str | None = None,
    time: str | None = None,
    id: str | None = None,
    context: Sequence[str] = (),
    candidates: str | None = None,
) -> Columns:
    """The columns of a log, named here or found where they bear their usual names. Whether they are there is not checked.

    context: columns of the context, or beginnings of their names. candidates: the beginning of columns BEGINNING_k_j,
    feature j of candidate k (the action is then the number k), or a column that lists the candidates of a row by name.
    """
    names, usual = source.columns, dict(source.usual)
    if set(names) >= OPEN_BANDIT:
        usual |= {"action": "item_id", "reward": "click", "propensity": "propensity_score", "position": "position"}
        usual |= {"time": "timestamp"} if "timestamp" in names else {}
    action = action or usual.get("action") or usual_name(ACTIONS, names, (reward, propensity, user)) or ACTIONS[0]
    reward = reward or usual.get("reward") or usual_name(REWARDS, names, (action, propensity, user)) or REWARDS[0]
    if propensity is None:
        propensity = usual.get("propensity") or usual_name(PROPENSITIES, names, (action, reward, user))
    taken = (action, reward, propensity)
    if user is None:
        user = usual.get("user") or usual_name(USERS, names, taken)
    if id is None:
        id = usual.get("id") or usual_name(IDS, names, (*taken, user))
    if user and user in taken:
        raise InputError(f"Expected user={user!r} not to be the action, the reward or the propensity.")
    offered = usual.get("offered")
    features: tuple[tuple[str, ...], ...] = ()
    if candidates is not None and candidates in names:
        offered = candidates
    elif candidates:
        features = candidate_columns(source, candidates)
    found = Columns(
        action,
        reward,
        propensity or None,
        position or usual.get("position"),
        user or None,
        (usual.get("time") if time is None else time) or None,
        id or None,
        tuple(named_columns(source, context or usual.get("context", ()), taken, user)),
        features,
        offered,
        tuple(usual.get("item_columns", ())),
    )
    for role, name in found.single.items():
        if role != "reward":
            found.expect_private("candidates" if role == "offered" else role, [name])
    for own in (*found.candidates, found.item_columns):
        found.expect_private("candidates", own)
    return found


def expect_kinds(source: Source, columns: Columns) -> None:
    """Raise where a column of one value a row holds lists or the like."""
    for word, name in columns.single.items():
        kind = source.schema.get(name)
        if word != "offered" and kind is not None and unreadable(kind):
            fault(source.file, None, name, str(kind), "to be texts or numbers")


def unreadable(kind: Any) -> bool:
    """Whether values of this type are neither texts nor numbers nor times."""
    return bool(kind.is_nested() or kind in (pl.Object, pl.Binary))


def expect_columns(source: Source, columns: Columns) -> None:
    """Raise unless the log has these columns, and rows."""
    if len(source) == 0:
        no_rows(source.file)
    for word, name in columns.single.items():
        if name not in source.schema:
            usual = {"action": ACTIONS, "reward": REWARDS}.get(word)
            if usual is None or name != usual[0]:
                no_column(source.file, name, source.columns)
            no_column(source.file, name, source.columns, f" or {usual[1]}, or another that {word}= (--{word}) names", usual)
    expect_kinds(source, columns)


def named_columns(source: Source, wanted: Sequence[str], taken: Sequence[str | None], user: str | None) -> list[str]:
    """The columns that these names, or beginnings of names, stand for."""
    found: list[str] = []
    for beginning in wanted:
        exact = [beginning] if beginning in source.schema else []
        matching = exact or [name for name in source.columns if name.startswith(beginning) and name not in (*taken, user)]
        if beginning in taken:
            raise InputError(f"Expected context={beginning!r} not to be the action, the reward or the propensity.")
        if not matching:
            no_column(source.file, beginning, source.columns, " or columns that begin so")
        found += [name for name in matching if name not in found]
    return found


def candidate_columns(source: Source, beginning: str) -> tuple[tuple[str, ...], ...]:
    """The names of columns BEGINNING_k_j, by candidate k."""
    pattern = re.compile(re.escape(beginning) + r"_?(\d+)_(\d+)")
    places = {(int(m[1]), int(m[2])): m[0] for name in source.columns if (m := pattern.fullmatch(name))}
    if not places:
        no_column(source.file, f"{beginning}_0_0", source.columns, ", feature 0 of candidate 0, and others like it")
    count, d = (1 + max(place[axis] for place in places) for axis in (0, 1))
    missing = [place for place in np.ndindex(count, d) if place not in places]
    if missing:
        no_column(source.file, "{}_{}_{}".format(beginning, *missing[0]), source.columns)
    return tuple(tuple(places[k, j] for j in range(d)) for k in range(count))
