"""What another system has open is compared with what is open here.

Revision ID: 0029
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE import DROP CONSTRAINT import_resource_known;
ALTER TABLE import ADD CONSTRAINT import_resource_known
    CHECK (resource IN ('incoming-transactions', 'expected-transactions', 'expected-snapshots'));

CREATE TABLE expected_snapshot (
    id UUID NOT NULL,
    figures JSONB,
    PRIMARY KEY (id),
    CONSTRAINT expected_snapshot_import FOREIGN KEY(id) REFERENCES import (id)
);

CREATE TABLE expected_snapshot_difference (
    snapshot_id UUID NOT NULL,
    expected_transaction_id UUID,
    here_minor BIGINT,
    there_minor BIGINT,
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    external_id TEXT,
    here_currency TEXT,
    here_direction TEXT,
    here_status TEXT,
    there_currency TEXT,
    there_direction TEXT,
    outcome TEXT,
    detail TEXT,
    PRIMARY KEY (snapshot_id, ordinal),
    CONSTRAINT expected_snapshot_difference_snapshot FOREIGN KEY(snapshot_id) REFERENCES expected_snapshot (id),
    CONSTRAINT expected_snapshot_difference_kind_known
        CHECK (kind IN ('missing_here', 'missing_there', 'amount_differs'))
);

CREATE INDEX expected_snapshot_difference_by_kind ON expected_snapshot_difference (snapshot_id, kind, ordinal);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
