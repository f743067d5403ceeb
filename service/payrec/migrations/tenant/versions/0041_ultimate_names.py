"""An incoming transaction keeps who is really paying through another, and what is open has the key of that name.

Revision ID: 0041
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

# Of transactions that came before, it is only in their files.
_SCRIPT = """
ALTER TABLE incoming_transaction ADD COLUMN IF NOT EXISTS ultimate_counterparty_name TEXT;
ALTER TABLE incoming_open ADD COLUMN IF NOT EXISTS ultimate_name_key BIGINT;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
