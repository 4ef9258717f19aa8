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

from adaprivate.check import Array, Floats, InputError, Integers, did_you_mean
from adaprivate.data.files import File, fault, look_like_names, table_of
from adaprivate.logs.tables import Source, table_from
from adaprivate.people.identity import user_text

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


def hashes(values: pl.Series) -> Array:
    """A number of 64 bits for each value, the same in every block."""
    return values.cast(pl.String).hash(seed=1).to_numpy()


def spelled(values: pl.Series) -> pl.Series:
    """The users of these identifiers: all spellings of one identifier become one text, as policies read them."""
    texts = values.cast(pl.String)
    if values.dtype.is_numeric():
        return texts
    known = texts.drop_nulls().unique()
    return texts.replace(known, pl.Series([user_text(text) for text in known], dtype=pl.String))


def numbers(values: pl.Series) -> pl.Series:
    """Values as numbers; null where they are none."""
    return values.cast(pl.Float64, strict=False)


def moments(values: pl.Series) -> pl.Series:
    """Times as numbers or texts that sort as they came; null where a value is no time."""
    if values.dtype.is_temporal():
        return values.cast(pl.Datetime("us") if values.dtype != pl.Duration else values.dtype).to_physical()
    if values.dtype.is_numeric():
        return numbers(values)
    texts = values.cast(pl.String)
    if texts.null_count() < len(texts) and numbers(texts).null_count() == texts.null_count():
        return numbers(texts)
    return texts.set(~texts.str.contains(r"^\d{4}-\d\d-\d\d([T ]\d\d:.*)?$").fill_null(False), None)


def time_key(source: Source, column: str) -> pl.Expr:
    """What rows are sorted by."""
    kind = source.schema[column]
    if kind != pl.String:
        return pl.col(column)
    first = next(block[column] for _, block in source.blocks([column]))
    return pl.col(column).cast(pl.Float64, strict=False) if moments(first).dtype == pl.Float64 else pl.col(column)


def names_of(values: pl.Series) -> pl.Series:
    """Lists of candidates' names: lists as they are, texts divided at | signs."""
    if values.dtype == pl.String:
        return values.str.split("|")
    return values.list.eval(pl.element().cast(pl.String))


def by_number(source: Source, columns: Columns) -> bool:
    """Whether an action is the number of a candidate of its row, not a name."""
    if columns.candidates or columns.item_columns:
        return True
    if columns.offered is None or columns.action not in source.schema:
        return False
    kind = source.schema[columns.offered]
    texts = kind == pl.String or kind == pl.List(pl.String)
    return bool(texts and source.schema[columns.action].is_integer())


def cells_of(block: pl.DataFrame, columns: Columns) -> tuple[Floats, Integers]:
    """The features (n, K, d) of candidates that stand in columns, and how many are there of each row."""
    wide = columns.candidates
    cells = [numbers(block[name]).to_numpy() for own in wide for name in own]
    array = np.stack(cells, axis=1).reshape(len(block), len(wide), -1)
    return array, (~np.isnan(array).all(axis=2)).sum(axis=1)


def counts_of(block: pl.DataFrame, columns: Columns) -> Integers | None:
    """How many candidates each row has, where the columns say so."""
    if columns.candidates:
        return cells_of(block, columns)[1]
    if columns.offered is not None:
        return names_of(block[columns.offered]).list.len().fill_null(0).to_numpy().astype(np.int64)
    if columns.item_columns:
        return block[columns.item_columns[0]].list.len().fill_null(0).to_numpy().astype(np.int64)
    return None
