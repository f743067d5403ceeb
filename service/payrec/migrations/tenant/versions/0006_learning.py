"""What was learned of decisions.

Revision ID: 0006
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE calibration (
    version BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    since TIMESTAMP WITH TIME ZONE,
    decisions INTEGER DEFAULT 0 NOT NULL,
    reviewed INTEGER DEFAULT 0 NOT NULL,
    wrong INTEGER DEFAULT 0 NOT NULL,
    bound_ppm INTEGER DEFAULT 0 NOT NULL,
    threshold_milli INTEGER,
    corrections JSONB DEFAULT '{}' NOT NULL,
    curve JSONB DEFAULT '[]' NOT NULL,
    PRIMARY KEY (version),
    CONSTRAINT calibration_version_positive CHECK (version > 0),
    CONSTRAINT calibration_wrong_within_reviewed CHECK (wrong BETWEEN 0 AND reviewed)
);
CREATE TABLE alias (
    id UUID NOT NULL,
    statement_key BIGINT NOT NULL,
    counterparty_key BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    version INTEGER DEFAULT 1 NOT NULL,
    confirmations INTEGER DEFAULT 1 NOT NULL,
    status TEXT NOT NULL,
    statement_name TEXT NOT NULL,
    counterparty_name TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT alias_status_known CHECK (status IN ('active', 'contradicted', 'forgotten'))
);
CREATE UNIQUE INDEX alias_name_unique ON alias (statement_key);
CREATE INDEX match_by_person ON match (decided_at) WHERE left(decided_by, 7) <> 'engine:'
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
