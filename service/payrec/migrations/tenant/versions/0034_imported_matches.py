"""Decisions that were made elsewhere are imported, and teach.

Revision ID: 0034
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE import DROP CONSTRAINT import_resource_known;
ALTER TABLE import ADD CONSTRAINT import_resource_known
    CHECK (resource IN ('incoming-transactions', 'expected-transactions', 'expected-snapshots', 'matches'));

ALTER TABLE job DROP CONSTRAINT job_kind_known;
ALTER TABLE job ADD CONSTRAINT job_kind_known
    CHECK (kind IN ('match', 'import', 'sync', 'export', 'backtest', 'redeliver', 'learn'));

CREATE TABLE imported_match (
    match_id UUID NOT NULL,
    import_id UUID NOT NULL,
    learned_change_id UUID,
    imported_at TIMESTAMP WITH TIME ZONE NOT NULL,
    reviewed BOOLEAN NOT NULL,
    content_key BYTEA NOT NULL,
    imported_by TEXT NOT NULL,
    PRIMARY KEY (match_id),
    CONSTRAINT imported_match_content_key_length CHECK (octet_length(content_key) = 16)
);

CREATE UNIQUE INDEX imported_match_content_unique ON imported_match (content_key);

CREATE INDEX imported_match_to_learn ON imported_match (import_id) WHERE reviewed AND learned_change_id IS NULL;

CREATE TABLE imported_match_lesson (
    expected_id UUID NOT NULL,
    incoming_id UUID NOT NULL,
    match_id UUID NOT NULL,
    change_id UUID NOT NULL,
    rival_milli BIGINT,
    agrees BOOLEAN NOT NULL,
    levels SMALLINT[] NOT NULL,
    uniqueness TEXT NOT NULL,
    PRIMARY KEY (expected_id, incoming_id),
    CONSTRAINT imported_match_lesson_match FOREIGN KEY(match_id) REFERENCES imported_match (match_id)
);

CREATE INDEX imported_match_lesson_by_match ON imported_match_lesson (match_id);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
