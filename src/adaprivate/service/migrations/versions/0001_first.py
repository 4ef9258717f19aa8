"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _text(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable, comment=comment)


def _number(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, comment=comment)


def _real(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=nullable, comment=comment)


def _data(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=nullable, comment=comment)


def _bandit() -> sa.Column[int]:
    return sa.Column("bandit", sa.Integer, sa.ForeignKey("bandits.id"), primary_key=True, autoincrement=False)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "bandits",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        _text("uid"),
        _text("name"),
        _real("created_at"),
        _text("description", "how it was made: public, JSON"),
        _data("secret", "SECRET: keys of decision ids, of people, of exploration"),
        _number("decided"),
        _number("policy_rounds"),
        _number("holdback_rounds"),
        _number("clipped"),
        sa.Column("catalogue", sa.Integer, nullable=False, comment="how often the items were replaced"),
        _text("state"),
        _text("reason", nullable=True),
        _text("void", "conditions of the guarantee that no longer hold, JSON"),
        sa.UniqueConstraint("uid"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "items",
        _bandit(),
        _key("position"),
        _text("id"),
        _data("features"),
        sa.Column("active", sa.Boolean, nullable=False),
    )
    op.create_table(
        "decisions",
        _bandit(),
        _key("first_round"),
        _number("count"),
        _number("first_policy"),
        _number("policy_count"),
        _real("at"),
        _number("version"),
        _data("data"),
    )
    op.create_table(
        "requests",
        _bandit(),
        sa.Column("key", sa.Text, primary_key=True),
        _number("first_round"),
        _number("count"),
        _real("at"),
    )
    op.create_index("requests_by_time", "requests", ["at"])
    op.create_table(
        "rewards",
        _bandit(),
        _key("round"),
        _real("value"),
        sa.Column("told", sa.Boolean, nullable=False, comment="whether this is what a law told of the reward"),
        _real("at"),
    )
    op.create_table("late", _bandit(), _key("round"), _real("at"))
    op.create_table(
        "books",
        _bandit(),
        _key("stream"),
        _number("version", "batches closed"),
        _number("closed", "rounds of the stream in closed batches"),
        _number("next_end", "the round after which the next batch ends; null: no further one does", nullable=True),
        _number("sealed", "rounds of the bandit below this take no rewards"),
        _real("claimed_until", "until then one worker is closing"),
        _number("releases"),
        _data("plan"),
        _data("book", "PRIVATE"),
        _data("learner", "public; null for the holdback", nullable=True),
    )
    op.create_table(
        "releases",
        _bandit(),
        _key("stream"),
        _key("batch"),
        _number("first", "the number of the first release in it"),
        _number("count"),
        _data("data"),
    )
    op.create_table(
        "ledger",
        _bandit(),
        _key("stream"),
        _key("batch"),
        _number("start"),
        _number("end"),
        _real("due_at"),
        _real("released_at"),
        _number("releases"),
        _real("epsilon"),
        _real("delta"),
        _text("digest"),
        _text("summary", "what the releases say of mean rewards, and what was shown: JSON"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        _text("name"),
        _text("scopes"),
        _text("bandit", "the name of the only bandit it is for", nullable=True),
        _text("hash"),
        _real("created_at"),
        _real("revoked_at", nullable=True),
        sa.UniqueConstraint("hash"),
    )
    op.create_table("meta", sa.Column("name", sa.Text, primary_key=True), _text("value"))
