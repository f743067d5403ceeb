"""Every state names the change that made it, and what is replaced is kept: any instant can be shown again.

Of what was there before, nothing tells since when: history begins now.

Revision ID: 0022
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE allocation ADD COLUMN change_id UUID, ADD COLUMN reason TEXT, ADD COLUMN category TEXT,
    ADD COLUMN posting_code TEXT;
ALTER TABLE match ADD COLUMN created_change_id UUID, ADD COLUMN change_id UUID;
ALTER TABLE open_reason ADD COLUMN change_id UUID;
CREATE TABLE allocation_state (
    transaction_id UUID NOT NULL,
    change_id UUID,
    amount_minor BIGINT NOT NULL,
    allocated_minor BIGINT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    version BIGINT NOT NULL,
    side SMALLINT NOT NULL,
    status TEXT NOT NULL,
    reason_code TEXT,
    reason TEXT,
    category TEXT,
    posting_code TEXT,
    PRIMARY KEY (transaction_id, version, side)
);
CREATE INDEX allocation_state_by_status ON allocation_state (side, status, transaction_id)
    WHERE status IN ('partially_matched', 'void', 'ignored', 'classified', 'reversed', 'linked');
CREATE TABLE match_state (
    match_id UUID NOT NULL,
    change_id UUID,
    superseded_by UUID,
    returned_minor BIGINT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    decided_at TIMESTAMP WITH TIME ZONE,
    effective_on DATE,
    version BIGINT NOT NULL,
    sampled BOOLEAN NOT NULL,
    status TEXT NOT NULL,
    decided_by TEXT,
    decision_reason TEXT,
    PRIMARY KEY (match_id, version)
);
CREATE TABLE stated_row (
    transaction_id UUID NOT NULL,
    until_change_id UUID NOT NULL,
    revision INTEGER NOT NULL,
    side SMALLINT NOT NULL,
    stated JSONB NOT NULL,
    PRIMARY KEY (transaction_id, until_change_id, side)
);
CREATE INDEX stated_row_by_change ON stated_row (until_change_id);
CREATE TABLE open_reason_state (
    transaction_id UUID NOT NULL,
    change_id UUID,
    until_change_id UUID NOT NULL,
    side SMALLINT NOT NULL,
    reason SMALLINT NOT NULL,
    PRIMARY KEY (transaction_id, until_change_id, side)
);
CREATE TABLE history_span (
    begun_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (begun_at)
);
INSERT INTO history_span DEFAULT VALUES;
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = 'match'::regclass
    LOOP
        EXECUTE format(
            'CREATE INDEX %I ON %I (change_id) WHERE change_id IS NOT NULL',
            replace(part, 'match_', 'match_by_change_'), part
        );
    END LOOP;
END $$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
