"""A posting says what it has charged of which line, so that the charges of a line taken in parts come to the whole.

Revision ID: 0046
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE posting ADD COLUMN IF NOT EXISTS charged JSONB;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
