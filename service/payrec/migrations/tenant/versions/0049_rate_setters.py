"""A rate says who has set it, so that limits need not ask a log that is deleted some day and knows no maker of a key.

Revision ID: 0049
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE fx_rate ADD COLUMN IF NOT EXISTS set_by TEXT[];
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
