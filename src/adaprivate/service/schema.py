"""The tables. PRIVATE ones hold what rewards could be read off: rewards, late, and the column books.book.

A bandit has two streams of rounds, each with a book of its own: 0 is the policy's, 1 the holdback's.
"""

from __future__ import annotations

import sqlalchemy as sa

POLICY, HOLDBACK = 0, 1
STREAMS = ("policy", "holdback")
FOR_GOOD = 2**62
"""A round beyond all others: a stream that is sealed up to here takes no more rewards."""

metadata = sa.MetaData()


def _bandit() -> sa.Column[int]:
    return sa.Column("bandit", sa.Integer, sa.ForeignKey("bandits.id"), primary_key=True, autoincrement=False)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


bandits = sa.Table(
    "bandits",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", sa.Text, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("description", sa.Text, nullable=False, comment="how it was made: public, JSON"),
    sa.Column("secret", sa.LargeBinary, nullable=False, comment="SECRET: keys of decision ids, of people, of exploration"),
    sa.Column("decided", sa.BigInteger, nullable=False, default=0),
    sa.Column("policy_rounds", sa.BigInteger, nullable=False, default=0),
    sa.Column("holdback_rounds", sa.BigInteger, nullable=False, default=0),
    sa.Column("clipped", sa.BigInteger, nullable=False, default=0),
    sa.Column("catalogue", sa.Integer, nullable=False, default=0, comment="how often the items were replaced"),
    sa.Column("state", sa.Text, nullable=False, default="open"),
    sa.Column("reason", sa.Text),
    sa.Column(
        "void", sa.Text, nullable=False, default="[]", comment="conditions of the guarantee that no longer hold, JSON"
    ),
)

items = sa.Table(
    "items",
    metadata,
    _bandit(),
    _key("position"),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("features", sa.LargeBinary, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False, default=True),
)

decisions = sa.Table(
    "decisions",
    metadata,
    _bandit(),
    _key("first_round"),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("first_policy", sa.BigInteger, nullable=False),
    sa.Column("policy_count", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""One row for each group of decisions that were committed together."""

requests = sa.Table(
    "requests",
    metadata,
    _bandit(),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("first_round", sa.BigInteger, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Index("requests_by_time", "at"),
)
"""Idempotency keys of decisions, for a day."""

rewards = sa.Table(
    "rewards",
    metadata,
    _bandit(),
    _key("round"),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("told", sa.Boolean, nullable=False, comment="whether this is what a law told of the reward"),
    sa.Column("at", sa.Double, nullable=False),
)
"""PRIVATE: rewards that wait for their batch to close, or are kept on request."""

late = sa.Table("late", metadata, _bandit(), _key("round"), sa.Column("at", sa.Double, nullable=False))
"""PRIVATE: that a reward came too late; never which."""

books = sa.Table(
    "books",
    metadata,
    _bandit(),
    _key("stream"),
    sa.Column("version", sa.BigInteger, nullable=False, default=0, comment="batches closed"),
    sa.Column("closed", sa.BigInteger, nullable=False, default=0, comment="rounds of the stream in closed batches"),
    sa.Column("next_end", sa.BigInteger, comment="the round after which the next batch ends; null: no further one does"),
    sa.Column(
        "closed_round", sa.BigInteger, nullable=False, default=0, comment="the bandit's round after the last of those"
    ),
    sa.Column(
        "sealed", sa.BigInteger, nullable=False, default=0, comment="rounds of the bandit below this take no rewards"
    ),
    sa.Column("claimed_until", sa.Double, nullable=False, default=0.0, comment="until then one worker is closing"),
    sa.Column("releases", sa.BigInteger, nullable=False, default=0),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    sa.Column("book", sa.LargeBinary, nullable=False, comment="PRIVATE"),
    sa.Column("learner", sa.LargeBinary, comment="public; null for the holdback"),
)

releases = sa.Table(
    "releases",
    metadata,
    _bandit(),
    _key("stream"),
    _key("batch"),
    sa.Column("first", sa.BigInteger, nullable=False, comment="the number of the first release in it"),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
"""All that was released when a batch closed."""

ledger = sa.Table(
    "ledger",
    metadata,
    _bandit(),
    _key("stream"),
    _key("batch"),
    sa.Column("start", sa.BigInteger, nullable=False),
    sa.Column("end", sa.BigInteger, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("released_at", sa.Double, nullable=False),
    sa.Column("releases", sa.BigInteger, nullable=False),
    sa.Column("epsilon", sa.Double, nullable=False),
    sa.Column("delta", sa.Double, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column(
        "summary", sa.Text, nullable=False, comment="what the releases say of mean rewards, and what was shown: JSON"
    ),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("bandit", sa.Text, comment="the name of the only bandit it is for"),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("revoked_at", sa.Double),
)

meta = sa.Table("meta", metadata, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
