"""The audit log is read by what was done.

Revision ID: 0010
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_SCRIPT = "CREATE INDEX audit_record_by_action ON audit_record (action, change_id, ordinal)"


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
