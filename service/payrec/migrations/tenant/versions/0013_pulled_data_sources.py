"""Data sources that are pulled: when the next time is, and what became of each remote object.

Revision ID: 0013
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE data_source ADD COLUMN next_sync_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE data_source ADD COLUMN sync_job_id UUID;
CREATE INDEX data_source_due ON data_source (next_sync_at) WHERE next_sync_at IS NOT NULL AND enabled;
CREATE TABLE data_source_object (
    source_id UUID NOT NULL,
    import_id UUID,
    size BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    source_version INTEGER NOT NULL,
    object_key BYTEA NOT NULL,
    state TEXT DEFAULT 'seen' NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    sha256 TEXT,
    error JSONB,
    PRIMARY KEY (source_id, object_key),
    FOREIGN KEY(source_id) REFERENCES data_source (id) ON DELETE CASCADE,
    CONSTRAINT data_source_object_state_known CHECK (state IN ('seen', 'importing', 'imported', 'failed'))
);
CREATE INDEX data_source_object_importing ON data_source_object (source_id) WHERE state = 'importing'
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
