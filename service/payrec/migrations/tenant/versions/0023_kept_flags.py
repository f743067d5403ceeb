"""Whether a line is a duplicate is kept with the line, so that it is known again when the line is open again.

Revision ID: 0023
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE incoming_transaction ADD COLUMN duplicate BOOLEAN DEFAULT false NOT NULL;
ALTER TABLE incoming_transaction ADD COLUMN single BOOLEAN DEFAULT false NOT NULL;
UPDATE incoming_transaction t SET duplicate = true FROM incoming_open o WHERE o.transaction_id = t.id AND o.duplicate;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
