"""Locks of periods, the days on which decisions count, and lines that came when their day was locked.

Revision ID: 0032
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE period_lock (
    id UUID NOT NULL,
    change_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    locked_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    reopened_at TIMESTAMP WITH TIME ZONE,
    open_line_count BIGINT NOT NULL,
    statement_gap_count BIGINT NOT NULL,
    pending_approval_count BIGINT NOT NULL,
    through_on DATE NOT NULL,
    version INTEGER DEFAULT 1 NOT NULL,
    override BOOLEAN NOT NULL,
    account TEXT,
    reason TEXT NOT NULL,
    locked_by TEXT NOT NULL,
    reopened_by TEXT,
    reopen_reason TEXT,
    sums JSONB DEFAULT '{}' NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX period_lock_by_account ON period_lock (account, through_on) WHERE reopened_at IS NULL;
ALTER TABLE match ADD COLUMN reversed_on DATE;
ALTER TABLE match_state ADD COLUMN reversed_on DATE;
ALTER TABLE allocation ADD COLUMN effective_on DATE;
ALTER TABLE allocation_state ADD COLUMN effective_on DATE;
ALTER TABLE incoming_transaction ADD COLUMN late BOOLEAN DEFAULT false NOT NULL;
CREATE INDEX incoming_transaction_late ON incoming_transaction (id) WHERE late;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
