"""What is open and has no counterparty's name has the keys of the names that its text may have.

Revision ID: 0042
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

# What came before stays without: names are made comparable by the service alone.
_SCRIPT = """
ALTER TABLE incoming_open ADD COLUMN IF NOT EXISTS text_name_keys BIGINT[];
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
