"""What the service answers, route by route. Rewards pass through two of them, to the writer and nowhere else.

A route checks what public state can tell, lets the writer store, and answers after the commit.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import pydantic
from fastapi import APIRouter, Header, Path, Query

from adaprivate.check import InputError
from adaprivate.service import documents, models, problems
from adaprivate.service.access import Key
from adaprivate.service.bandit import BanditSpec, decision_of
from adaprivate.service.deciding import Ask, Prepared
from adaprivate.service.faults import Fault
from adaprivate.service.grouping import Writer
from adaprivate.service.lean import Answer, TheVisit, Visit, in_thread, json_answer
from adaprivate.service.limits import Limits
from adaprivate.service.problems import Refusal
from adaprivate.service.sizing import expect_affordable, expect_decidable

if TYPE_CHECKING:
    from adaprivate.service.core import Service

Name = Annotated[str, Path(description="The bandit's name.", pattern=models.NAME_PATTERN, examples=["front-page"])]
DecisionId = Annotated[
    str,
    Path(
        description="As the decision said.", max_length=200, pattern="^[0-9a-z-]+$", examples=["1p2a-0f1e2d3c4b5a69788796"]
    ),
]
MANY = 10_000
"""More candidates than so many are looked up in a thread, so that nobody else waits."""
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern="^[!-~]([ -~]*[!-~])?$",
        description="A request that is repeated with the same key gets the decisions that it made the first time.",
    ),
]
_ALWAYS = (401, 403, 421)
_WITH_BODY = (400, 408, 413, 415, 422)


def said(scope: str, *statuses: int, body: bool = False, bodies: int = 1, **further: Any) -> dict[str, Any]:
    """What a route's declaration says of scope and errors; ``bodies``: how much longer than others its body may be."""
    every = sorted({*_ALWAYS, *statuses, *(_WITH_BODY if body else ())})
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": problems.Problem, "description": problems.WHY[status]} for status in every
    }
    return {
        "responses": {**responses, **further.pop("responses", {})},
        "openapi_extra": {"x-scope": scope, "x-bodies": bodies},
        **further,
    }


@dataclass(frozen=True)
class Parts:
    """What routes work with."""

    service: Service
    writer: Writer
    limits: Limits


def add_decisions(router: APIRouter, parts: Parts) -> None:
    """Deciding, one by one and many at once."""
    service, writer, limits = parts.service, parts.writer, parts.limits

    known: set[str] = set()

    async def expect_known(name: str) -> None:
        """Raise unless there is such a bandit. The database is asked about strangers, in a thread: nobody else waits."""
        if name not in known:
            await in_thread(service.room, name)
            known.add(name)

    def check_all(name: str, asks: Sequence[Ask], field: str, look_again: bool) -> list[Prepared]:
        found: list[Prepared] = []
        with problems.placed(lambda inside: problems.joined(field.format(len(found)), inside)):
            for ask in asks:
                found.append(service.check(name, ask, look_again=look_again))
        return found

    async def checked(name: str, asks: Sequence[Ask], field: str = "") -> list[Prepared]:
        """Asks against what this worker knows; before one is refused the database is asked for newer items, in a thread."""
        if expect_decidable(service.room(name), asks) <= MANY:
            try:
                return check_all(name, asks, field, look_again=False)
            except Fault as fault:
                if fault.kind != "invalid":
                    raise
        return await in_thread(check_all, name, asks, field, look_again=True)

    @contextmanager
    def default_named(name: str) -> Iterator[None]:
        """Where nothing can be decided just now: say what to show instead."""
        try:
            yield
        except (Fault, Refusal) as error:
            if problems.KINDS[error.kind] != 503:
                raise
            # The error may be that of many requests, of other bandits too: it is not changed.
            raise Fault("unavailable", error.detail, item=service.default_item(name)) from None

    @router.post(
        "/bandits/{name:part}/decisions",
        summary="Decide",
        response_model=documents.Decision,
        tags=["decisions"],
        **said("decide", 404, 409, 429, 503, body=True),
    )
    async def decide(
        name: Name, body: models.DecisionRequest, visit: TheVisit, idempotency_key: IdempotencyKey = None
    ) -> Answer:
        """Choose one of the candidates. The decision is stored first; send its `decision_id` back with the reward."""
        limits.decisions(visit.key_id, visit.address, 1)
        with default_named(name):
            await expect_known(name)
            asks = await checked(name, [body.ask()])
            key = request_key(visit, idempotency_key, body)
            (found,) = await writer.decide(name, asks, key, asks[0].offered)
        return Answer(200, orjson.dumps(documents.shown(found)))

    @router.post(
        "/bandits/{name:part}/decisions:batch",
        summary="Decide many",
        response_model=documents.Decisions,
        tags=["decisions"],
        **said("decide", 404, 409, 429, 503, body=True),
    )
    async def decide_many(
        name: Name, body: models.DecisionsRequest, visit: TheVisit, idempotency_key: IdempotencyKey = None
    ) -> Answer:
        """Make many decisions of one bandit: all are stored, or none."""
        limits.decisions(visit.key_id, visit.address, len(body.decisions))
        with default_named(name):
            await expect_known(name)
            asks = await checked(name, [one.ask() for one in body.decisions], "decisions[{}]")
            key = request_key(visit, idempotency_key, body)
            found = await writer.decide(name, asks, key, sum(one.offered for one in asks))
        return Answer(200, orjson.dumps({"decisions": [documents.shown(one) for one in found]}))


def request_key(visit: Visit, given: str | None, body: pydantic.BaseModel) -> str | None:
    """What a request is known by when it is sent again: by the same caller, with the same body."""
    if given is None:
        return None
    text = f"{visit.key_id}\n{given}\n{body.model_dump_json()}"
    return hashlib.sha256(text.encode()).hexdigest()


_REFUSED = {
    "different": ("different", "Expected the reward that came before: it stands, and this one is not taken."),
    "late": ("late", "Expected the reward before its batch closed."),
    "lost": ("lost", "Expected a decision that this database holds: it was lost with another."),
    "unknown": ("unknown-decision", "Expected the id of a decision of this service."),
}
_STORED = {
    "recorded": Answer(201, b'{"status":"recorded"}'),
    "duplicate": Answer(200, b'{"status":"duplicate"}'),
}


def add_rewards(router: APIRouter, parts: Parts) -> None:
    """Taking rewards. How many come, and when, is private: nothing here is noted."""
    service, writer, limits = parts.service, parts.writer, parts.limits
    known: set[str] = set()

    async def checked(key: Key | None, entries: Sequence[tuple[str, float | bool]], field: str) -> list[Fault | None]:
        """Raise where a reward cannot be taken; of each whether its decision is unknown.

        The database is asked about bandits that are strangers, so not where all others would wait.
        """
        named = {found[0] for decision_id, _ in entries if (found := decision_of(decision_id)) is not None}
        if named <= known:
            return check_all(key, entries, field)
        faults = await in_thread(check_all, key, entries, field)
        if not any(faults):
            known.update(named)
        return faults

    def check_all(key: Key | None, entries: Sequence[tuple[str, float | bool]], field: str) -> list[Fault | None]:
        own = None if key is None or key.bandit is None else service.room(key.bandit).bandit.tag
        found: list[Fault | None] = []
        for place, (decision_id, value) in enumerate(entries):
            where = field.format(place)
            if own is not None and (named := decision_of(decision_id)) is not None and named[0] != own:
                raise Fault("forbidden", "Expected a decision of the key's own bandit.", field=where + "decision_id")
            try:
                service.check_reward(decision_id, value)
            except InputError as error:
                raise Fault("invalid", str(error), field=where + "reward") from None
            except Fault as fault:
                if fault.kind != "unknown-decision":
                    raise
                found.append(fault)
            else:
                found.append(None)
        return found

    @router.put(
        "/decisions/{decision_id:part}/reward",
        summary="Reward",
        response_model=documents.RewardStored,
        status_code=201,
        tags=["rewards"],
        **said(
            "reward",
            *(404, 409, 410, 429, 503),
            body=True,
            responses={200: {"model": documents.RewardStored, "description": "The same reward had come before."}},
        ),
    )
    async def reward(decision_id: DecisionId, body: models.RewardRequest, visit: TheVisit) -> Answer:
        """Say what came of a decision. May be repeated: the same reward again changes nothing, another one is refused."""
        limits.rewards(visit.key_id, visit.address, 1)
        entries = [(decision_id, body.reward)]
        (unknown,) = await checked(visit.key, entries, "")
        if unknown is not None:
            raise unknown
        (status,) = await writer.reward(entries)
        if status in _STORED:
            return _STORED[status]
        raise Fault(*_REFUSED[status])

    @router.post(
        "/rewards:batch",
        summary="Reward many",
        response_model=documents.RewardStatuses,
        tags=["rewards"],
        **said("reward", 429, 503, body=True),
    )
    async def reward_many(body: models.RewardsRequest, visit: TheVisit) -> Answer:
        """Say what came of many decisions, of any bandits; each is answered for itself."""
        limits.rewards(visit.key_id, visit.address, len(body.rewards))
        entries = [(one.decision_id, one.reward) for one in body.rewards]
        unknown = await checked(visit.key, entries, "rewards[{}].")
        real = [entry for entry, fault in zip(entries, unknown, strict=True) if fault is None]
        answers = iter(await writer.reward(real) if real else ())
        return json_answer({"statuses": [next(answers) if fault is None else "unknown" for fault in unknown]})


_PARQUET = {
    "description": "A parquet file.",
    "content": {"application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}}},
}
_REWARDS = "With rewards, where the bandit keeps them: PRIVATE, and outside the guarantee."


def _named(name: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"content-disposition", f'attachment; filename="{name}"'.encode()),)


def add_bandits(router: APIRouter, parts: Parts) -> None:
    """Bandits and their items; what is public of them, and what only administrators may see."""
    service = parts.service

    @router.post(
        "/bandits",
        summary="Create a bandit",
        response_model=documents.Status,
        status_code=201,
        tags=["bandits"],
        **said("admin", 409, 503, body=True),
    )
    def create(body: models.BanditRequest, visit: TheVisit) -> Answer:
        """Make a bandit: whom it protects, how well, and how it decides. None of this changes later."""
        if visit.key is not None:
            visit.key.expect("admin", body.name)
        body.expect_plain()
        with problems.placed(body.place_of):
            spec = BanditSpec(**body.model_dump())
            expect_affordable(spec)
            return json_answer(service.create(spec), 201)

    @router.get("/bandits", summary="All bandits", response_model=documents.Bandits, tags=["bandits"], **said("read", 503))
    def bandits(visit: TheVisit) -> Answer:
        """All bandits that the key may see, each in a few words."""
        return json_answer({"bandits": [one for one in service.bandits() if sees(visit.key, one["name"])]})

    @router.get(
        "/bandits/{name:part}",
        summary="A bandit",
        response_model=documents.Status,
        tags=["bandits"],
        **said("read", 404, 503),
    )
    def status(name: Name) -> Answer:
        """Settings, guarantee, budget, closed batches, and the one that closes next."""
        return json_answer(service.status(name))

    @router.put(
        "/bandits/{name:part}/items",
        summary="Set the items",
        response_model=documents.ItemsStored,
        tags=["bandits"],
        **said("admin", 404, 409, 503, body=True, bodies=16),
    )
    def put_items(name: Name, body: models.ItemsRequest) -> Answer:
        """Replace the catalogue, which is public. Decisions that were made stay as they were."""
        with problems.placed(lambda _: "items"):
            return json_answer(service.put_items(name, body.items))

    @router.get(
        "/bandits/{name:part}/items",
        summary="The items",
        response_model=documents.Items,
        tags=["bandits"],
        **said("read", 404, 503),
    )
    def items(name: Name) -> Answer:
        """The catalogue."""
        return json_answer({"items": service.items(name)})

    @router.get(
        "/bandits/{name:part}/series",
        summary="What was learned",
        response_model=documents.Series,
        tags=["bandits"],
        **said("read", 404, 503),
    )
    def series(name: Name) -> Answer:
        """What the dashboard draws: mean rewards as far as noisy releases tell, and how often each item was shown."""
        return json_answer(service.series(name))

    @router.get(
        "/bandits/{name:part}/arrivals",
        summary="Rewards that wait (private)",
        response_model=documents.Arrivals,
        tags=["administration"],
        **said("admin", 404, 503),
    )
    def arrivals(name: Name) -> Answer:
        """PRIVATE: how many rewards wait and came late. For operators: shown to others, it breaks the guarantee."""
        return json_answer(service.arrivals(name))

    @router.get(
        "/bandits/{name:part}/log.parquet",
        summary="The log of decisions",
        tags=["administration"],
        response_model=None,
        **said("admin", 404, 422, 503, responses={200: _PARQUET}),
    )
    def log(name: Name, rewards: Annotated[bool, Query(description=_REWARDS)] = False) -> Answer:
        """What was offered and chosen, one row a decision, for `adaprivate evaluate`."""
        from adaprivate.service.log import write_log

        folder = Folder(tempfile.mkdtemp(prefix="adaprivate-log-"))  # for the owner's eyes only
        try:
            write_log(service.database, name, folder / "log.parquet", rewards=rewards)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Answer(200, b"", b"application/vnd.apache.parquet", _named(f"{name}.parquet"), folder)

    @router.post(
        "/bandits/{name:part}:pause",
        summary="Pause",
        response_model=documents.Status,
        tags=["administration"],
        **said("admin", 404, 409, 503),
    )
    def pause(name: Name) -> Answer:
        """Decide nothing for now. Rewards are still taken, and batches close."""
        return json_answer(service.pause(name))

    @router.post(
        "/bandits/{name:part}:resume",
        summary="Resume",
        response_model=documents.Status,
        tags=["administration"],
        **said("admin", 404, 409, 503),
    )
    def resume(name: Name) -> Answer:
        """Decide again."""
        return json_answer(service.resume(name))


def sees(key: Key | None, bandit: str) -> bool:
    """Whether a key may see this bandit."""
    return key is None or key.bandit in (None, bandit)
