"""Where the open rounds of a stream begin, so that closing a batch does not read all decisions before it.

For books that are there already 0 is right: their next batch is looked for from the first decision on, once.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column."""
    comment = "the bandit's round after the last of those"
    op.add_column("books", sa.Column("closed_round", sa.BigInteger, nullable=False, server_default="0", comment=comment))
