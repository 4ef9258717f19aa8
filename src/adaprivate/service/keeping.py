"""Whether a database holds all that was published, what follows where it does not, and what going on regardless costs.

A bandit whose database is behind the journal is halted: it would release again what people have seen. Whoever goes on
knowingly is told the price, and the guarantee says from then on which condition is void. No reward is read here.
"""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from adaprivate import check
from adaprivate.mechanisms.plan import plan_from_bytes
from adaprivate.privacy.price import EitherPrice, Price, compose
from adaprivate.service import schema
from adaprivate.service.bandit import void_text
from adaprivate.service.database import Database, locked
from adaprivate.service.journal import Journal, Known, State

VOIDABLE = "no-replay"
"""The condition that whoever resumes a halted bandit gives up."""
BEING_WRITTEN = "It is being written to a file."
"""Why a bandit is moved that can still be taken back: there is no file yet that could be imported elsewhere."""
_MOST_TIMES = 8
"""More repetitions than this are not priced."""
_WHO_PAYS = "everyone in the batches released again and, where noise is shared, in earlier ones"

Digests = dict[int, dict[int, str]]
"""By stream and batch: what each release is known by."""
AtMost = dict[str, float] | None
"""The epsilon and delta that are paid at most; None where nobody knows."""


_NAME_AND_VOID = sa.select(schema.bandits.c.name, schema.bandits.c.void).where(
    schema.bandits.c.id == sa.bindparam("number")
)


class Standing(NamedTuple):
    """Whether a database holds all that was published of a bandit; ``reason``: why it is halted, where it must be."""

    state: State
    reason: str | None


def digests(connection: sa.Connection, bandit: int) -> Digests:
    """What this database has released of a bandit."""
    k = schema.ledger
    found: Digests = {}
    for row in connection.execute(sa.select(k.c.stream, k.c.batch, k.c.digest).where(k.c.bandit == bandit)):
        found.setdefault(row.stream, {})[row.batch] = row.digest
    return found


def standing(connection: sa.Connection, bandit: int, known: Known) -> Standing:
    """How a bandit of this database stands against what the journal knew before the connection's transaction began."""
    rows = digests(connection, bandit)
    state = known.state(rows)
    name, void = connection.execute(_NAME_AND_VOID, {"number": bandit}).one()
    forgotten = bool(known.repeated) and not any(void_text(entry).startswith(VOIDABLE) for entry in json.loads(void))
    if state != "behind" and not forgotten:
        return Standing(state, None)
    if known.moved:
        what = "It was moved away and goes on elsewhere; this database is older than that"
    elif state != "behind":
        what = "It went on after batches were lost, which this database does not know: it was rolled back since"
    else:
        what = f"{_in_words(_ranges(known, rows))} published, which this database does not know: it was rolled back"
    price, _ = _price(connection, bandit, {stream: known.times(stream) + 1 for stream in _lacking(known, rows)})
    return Standing(
        "behind",
        f"{what}. Going on here would release rewards twice. Put the newer database back, or start a new bandit "
        f"with a budget of its own; or go on knowingly, by adaprivate resume {name} --void {VOIDABLE}: {price}.",
    )


def standings(database: Database, journal: Journal) -> dict[str, Standing]:
    """How each bandit of a database stands, by name; those that were moved away are not asked."""
    b = schema.bandits
    with database.reading() as connection:
        uids = {row.id: row.uid for row in connection.execute(sa.select(b.c.id, b.c.uid))}
    known = {number: journal.known(uid) for number, uid in uids.items()}  # before the database is read
    with database.reading() as connection:
        query = sa.select(b.c.id, b.c.name).where(b.c.state != "moved", b.c.id.in_(uids)).order_by(b.c.name)
        return {row.name: standing(connection, row.id, known[row.id]) for row in connection.execute(query).all()}


def state(database: Database, journal: Journal) -> State:
    """Whether a database holds all that was published of its bandits: the worst that is true of any."""
    found = {one.state for one in standings(database, journal).values()}
    return "behind" if "behind" in found else "unknown" if "unknown" in found else "whole"


def halt(connection: sa.Connection, bandit: int, reason: str) -> None:
    """Let a bandit decide and close no more, and say why."""
    b = schema.bandits
    going = b.c.state.in_(("open", "paused"))
    connection.execute(b.update().where(b.c.id == bandit, going).values(state="halted", reason=reason))


def halt_behind(connection: sa.Connection, journal: Journal) -> dict[str, Standing]:
    """Halt all bandits of this database that are behind; how each stands. Nobody else may be closing batches meanwhile."""
    b = schema.bandits
    found = {}
    query = sa.select(b.c.id, b.c.uid, b.c.name).where(b.c.state != "moved").order_by(b.c.name)
    for row in connection.execute(query).all():
        found[row.name] = standing(connection, row.id, journal.known(row.uid))
        if found[row.name].reason is not None:
            halt(connection, row.id, str(found[row.name].reason))
    return found


def fresh_ids(connection: sa.Connection, bandit: int) -> None:
    """Let ids of decisions made so far be refused: rounds that were lost with a newer database are given out again."""
    b = schema.bandits
    secret = connection.scalar(sa.select(b.c.secret).where(b.c.id == bandit))
    assert secret is not None
    connection.execute(b.update().where(b.c.id == bandit).values(secret=secrets.token_bytes(32) + secret[32:]))


def resume(database: Database, journal: Journal, name: str, *, void: str | None = None) -> str | None:
    """Let a halted bandit go on; where batches may be released again only if ``void`` says that this is known.

    Returns what that means, which its guarantee says from now on; None where nothing was published that the database lacks.
    Ids of decisions so far are refused from now on: rounds that were lost are given out again.
    """
    check.expect(void in (None, VOIDABLE), "void", void, f"== {VOIDABLE!r}, or not to be given")
    b = schema.bandits
    with database.writing() as connection:
        row = bandit_row(connection, name)
        rows, known = digests(connection, row.id), journal.known(row.uid)
        values: dict[str, Any] = {"state": "open", "reason": None}
        text = None
        written = row.reason != BEING_WRITTEN
        if row.state == "moved" and not written and known.begun and not known.moved:  # the export never came to its end
            connection.execute(b.update().where(b.c.id == row.id).values(**values))
            return None
        halted = row.state == "halted" or (row.state == "moved" and not written)
        check.expect(halted, f"state of {name}", row.state, "== 'halted': there is nothing to resume")
        if row.state == "moved" or known.state(rows) != "whole" or known.repeated:
            if void is None:
                raise check.InputError(f"Expected void=None == {VOIDABLE!r} to go on knowingly. {row.reason or ''}".strip())
            text, at_most = _going_on(connection, journal, row, known, rows)
            others = [entry for entry in json.loads(row.void) if not void_text(entry).startswith(VOIDABLE)]
            values["void"] = json.dumps([*others, text if at_most is None else {"text": text, **at_most}])
        fresh_ids(connection, row.id)
        connection.execute(b.update().where(b.c.id == row.id).values(**values))
    return text


def _going_on(
    connection: sa.Connection, journal: Journal, row: sa.Row[Any], known: Known, rows: Digests
) -> tuple[str, AtMost]:
    """Note in the journal that what the database lacks may be published again; what that means, and its price."""
    for stream, batches in _lacking(known, rows).items():
        journal.again(row.uid, stream, batches[0])
        journal.publish(row.uid, stream, {batch: d for batch, d in rows.get(stream, {}).items() if batch >= batches[0]})
    journal.returned(row.uid)
    known = journal.known(row.uid)
    ranges = {stream: (min(a for a, _ in times), max(b for _, b in times)) for stream, times in known.repeated.items()}
    price, at_most = _price(connection, row.id, {stream: known.times(stream) for stream in ranges})
    return f"{VOIDABLE}: {_in_words(ranges)} published before, and may be published again: {price}.", at_most


def bandit_row(connection: sa.Connection, name: str) -> sa.Row[Any]:
    """The bandit of this name, which nobody else changes meanwhile."""
    b = schema.bandits
    row = connection.execute(locked(sa.select(b).where(b.c.name == name))).one_or_none()
    if row is None:
        raise check.InputError(f"Expected name={name!r:.80} to be a bandit of this database.")
    return row


def vouch(database: Database, journal: Journal, name: str) -> None:
    """Say, of a bandit whose journal was lost, that this database holds all that was published of it."""
    with database.writing() as connection:
        row = bandit_row(connection, name)
        rows = digests(connection, row.id)
        found = journal.state(row.uid, rows)
        check.expect(found != "behind", f"journal of {name}", found, "not to know of more: then nobody can vouch")
        for stream, batches in rows.items():
            journal.publish(row.uid, stream, batches)
        journal.vouch(row.uid)


def repeated(price: Price, times: int) -> Price | None:
    """What whoever is in all of so many runs pays, each run with noise of its own; None where nobody has worked it out.

    Gaussian prices grow by the root of the number, pure ones by the number; of alternatives each run may take another.
    """
    if times > _MOST_TIMES:
        return None
    try:
        if isinstance(price, EitherPrice):
            choices = itertools.combinations_with_replacement(price.prices, times)
            return EitherPrice(tuple(compose([*choice]) for choice in choices))
        return compose([price] * times)
    except check.InputError:  # sampled releases are not composed
        return None


def _lacking(known: Known, rows: Digests) -> dict[int, list[int]]:
    """By stream: batches that were published and that a database lacks."""
    found = {stream: known.conflicts(stream, rows.get(stream, {})) for stream in sorted({0, *known.published, *rows})}
    return {stream: batches for stream, batches in found.items() if batches}


def _ranges(known: Known, rows: Digests) -> dict[int, tuple[int, int]]:
    return {stream: (batches[0], batches[-1]) for stream, batches in _lacking(known, rows).items()}


def _in_words(ranges: Mapping[int, tuple[int, int]]) -> str:
    """Batches 5 to 7 of the policy and batch 2 of the holdback were ..."""
    if not ranges:
        return "Batches nobody knows of may have been"
    words = [
        (f"batch {first}" if first == last else f"batches {first} to {last}") + f" of the {schema.STREAMS[stream]}"
        for stream, (first, last) in ranges.items()
    ]
    several = len(words) > 1 or any(first < last for first, last in ranges.values())
    text = " and ".join(words)
    return f"{text[0].upper()}{text[1:]} {'were' if several else 'was'}"


def _price(connection: sa.Connection, bandit: int, times: Mapping[int, int]) -> tuple[str, AtMost]:
    """The price of rewards that were released so often, by stream; without any, of rewards released twice.

    A reward is in one stream. The price is that of the dearest one, all of them at the delta that the bandit states.
    In words, and as numbers where it is a bound: not where nobody knows how often.
    """
    b, k = schema.bandits, schema.books
    policy = json.loads(str(connection.scalar(sa.select(b.c.description).where(b.c.id == bandit))))["policy"]
    rows = connection.execute(sa.select(k.c.stream, k.c.plan).where(k.c.bandit == bandit)).all()
    plans: dict[int, Any] = {row.stream: plan_from_bytes(row.plan) for row in rows}
    stated = plans[schema.POLICY].guarantee(policy, exact_noise=True)
    paid: list[float] = []
    for stream, plan in plans.items():
        often = times.get(stream, 1) if times else 2
        if often < 2:
            continue
        price = repeated(plan.price(exact_noise=True), often)
        if price is None:
            return f"epsilon is not known any more for {_WHO_PAYS}", None
        paid.append(price.epsilon(stated.delta))
    at_most = {"epsilon": max([stated.epsilon, *paid]), "delta": stated.delta} if times else None
    if not paid:
        return "nothing more is paid", at_most
    limit = " at most" if times else ""
    words = f"epsilon = {max(paid):.4g}{limit} (delta = {stated.delta:g}), not {stated.epsilon:.4g}, for {_WHO_PAYS}"
    return words, at_most
