"""When a job that has failed is tried again.

Revision ID: 0014
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_SCRIPT = "ALTER TABLE job ADD COLUMN next_attempt_at TIMESTAMP WITH TIME ZONE"


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
