"""Of which expected transactions it was told that they are overdue.

Revision ID: 0018
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE overdue_notice (
    transaction_id UUID NOT NULL,
    told_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (transaction_id)
)
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
