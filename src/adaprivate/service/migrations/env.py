"""What alembic runs to take the steps: on a connection that it is given, within the transaction that is open there."""

from __future__ import annotations

from alembic import context

from adaprivate.service.migrations import VERSION_TABLE
from adaprivate.service.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
