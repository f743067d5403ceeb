"""The audit log is read by what it is about.

Revision ID: 0003
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE INDEX control_audit_record_by_resource ON control.audit_record (resource_id, id);
DROP INDEX control.control_audit_record_by_tenant;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
