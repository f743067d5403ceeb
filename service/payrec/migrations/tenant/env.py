"""Alembic's entry: always over the connection that the caller opened, whose search path names the schema."""

from alembic import context

import payrec.tables  # noqa: F401 - fills the metadata
from payrec.tables.base import TENANT_METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TENANT_METADATA,
    transactional_ddl=True,
)
context.run_migrations()
