"""What was erased is told, by numbers.

Revision ID: 0036
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE job DROP CONSTRAINT job_kind_known;
ALTER TABLE job ADD CONSTRAINT job_kind_known
    CHECK (kind IN ('match', 'import', 'sync', 'export', 'backtest', 'redeliver', 'learn', 'erasure'));

CREATE TABLE erasure (
    id UUID NOT NULL,
    change_id UUID NOT NULL,
    user_id UUID,
    job_id UUID,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    erased JSONB NOT NULL,
    kept JSONB NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT erasure_subject_known CHECK (subject IN ('counterparty_name', 'counterparty_account', 'user'))
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
