"""From when on an account's statements are waited for, and of which it was told that they are missing.

Revision ID: 0035
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE account ADD COLUMN statements_from DATE;
UPDATE account SET statements_from = current_date WHERE statement_every IS NOT NULL;
CREATE TABLE statement_notice (
    account_id UUID NOT NULL,
    told_at TIMESTAMP WITH TIME ZONE NOT NULL,
    begins_on DATE NOT NULL,
    PRIMARY KEY (account_id, begins_on)
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
