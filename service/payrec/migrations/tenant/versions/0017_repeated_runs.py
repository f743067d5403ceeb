"""A matching run that is to be followed by another one, because something arrived while it was at work.

Revision ID: 0017
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_SCRIPT = "ALTER TABLE job ADD COLUMN repeat_requested BOOLEAN DEFAULT false NOT NULL"


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
