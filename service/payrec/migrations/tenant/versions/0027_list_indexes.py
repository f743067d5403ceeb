"""Lists are found by what names few rows: a reference, a group, a status that is rare.

Revision ID: 0027
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE INDEX allocation_by_status ON allocation (side, status, transaction_id)
    WHERE status IN ('partially_matched', 'void', 'ignored', 'classified', 'reversed', 'linked');
CREATE INDEX expected_transaction_by_reference ON expected_transaction (reference, id) WHERE reference IS NOT NULL;
CREATE INDEX incoming_transaction_by_group ON incoming_transaction (group_key, id) WHERE group_key IS NOT NULL;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
