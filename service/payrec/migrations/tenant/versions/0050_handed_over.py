"""A job says how many of its attempts have ended because their worker was asked to end: they say nothing of the job.

Revision ID: 0050
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE job ADD COLUMN IF NOT EXISTS handed_over INTEGER NOT NULL DEFAULT 0;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
