"""What is open and quotes several references has the digits of each in full.

Revision ID: 0043
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

# What came before stays without: lists are read by the service alone.
_SCRIPT = """
ALTER TABLE incoming_open ADD COLUMN IF NOT EXISTS series_digits BIGINT[];
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
