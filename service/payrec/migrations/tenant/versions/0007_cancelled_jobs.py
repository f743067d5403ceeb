"""When somebody asked for a job to be cancelled.

Revision ID: 0007
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_SCRIPT = "ALTER TABLE job ADD COLUMN cancel_requested_at TIMESTAMP WITH TIME ZONE"


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
