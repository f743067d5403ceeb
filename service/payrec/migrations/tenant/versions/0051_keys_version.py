"""Open rows say which version of the code has made their keys, so that a run makes those of earlier ones anew.

All that are there are of an earlier version. A later change of what keys are does this again with its own number.

Revision ID: 0051
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE expected_open ADD COLUMN IF NOT EXISTS keys_version SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE expected_open ALTER COLUMN keys_version SET DEFAULT 1;
CREATE INDEX IF NOT EXISTS expected_open_stale ON expected_open (transaction_id) WHERE keys_version < 1;
ALTER TABLE incoming_open ADD COLUMN IF NOT EXISTS keys_version SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE incoming_open ALTER COLUMN keys_version SET DEFAULT 1;
CREATE INDEX IF NOT EXISTS incoming_open_stale ON incoming_open (transaction_id) WHERE keys_version < 1;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
