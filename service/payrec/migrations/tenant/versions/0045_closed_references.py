"""A payment that quotes what is paid already is known by the key of its reference.

Revision ID: 0045
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

# Keys are made by the service alone. What is open has one, and keeps it when it is closed; what was closed before has
# none.
_SCRIPT = """
ALTER TABLE expected_transaction ADD COLUMN IF NOT EXISTS reference_key BIGINT;
CREATE INDEX IF NOT EXISTS expected_transaction_by_key ON expected_transaction (reference_key)
    WHERE reference_key IS NOT NULL;
UPDATE expected_transaction e SET reference_key = o.reference_key
FROM expected_open o WHERE o.transaction_id = e.id AND o.reference_key & 1 = 1;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
