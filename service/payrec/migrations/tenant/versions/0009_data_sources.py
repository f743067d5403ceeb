"""Data sources, and whose file an import is.

Revision ID: 0009
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE data_source (
    id UUID NOT NULL,
    change_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_sync_at TIMESTAMP WITH TIME ZONE,
    version INTEGER DEFAULT 1 NOT NULL,
    enabled BOOLEAN NOT NULL,
    failing BOOLEAN DEFAULT false NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    format TEXT NOT NULL,
    account TEXT,
    schedule TEXT,
    secret_ref TEXT,
    secret BYTEA,
    config JSONB DEFAULT '{}' NOT NULL,
    profile JSONB DEFAULT '{}' NOT NULL,
    last_error JSONB,
    PRIMARY KEY (id),
    CONSTRAINT data_source_kind_known CHECK (kind IN ('upload', 's3', 'gcs', 'azure', 'http', 'sftp'))
);
CREATE UNIQUE INDEX data_source_name_unique ON data_source (name);
ALTER TABLE import ADD COLUMN data_source_id UUID;
CREATE INDEX import_by_data_source ON import (data_source_id, id) WHERE data_source_id IS NOT NULL
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
