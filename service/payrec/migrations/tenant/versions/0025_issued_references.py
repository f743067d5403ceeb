"""References are issued, each once; and an import says what its file holds.

Revision ID: 0025
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE expected_transaction ADD COLUMN reference_issued BOOLEAN DEFAULT false NOT NULL;
CREATE UNIQUE INDEX expected_transaction_issued_reference_unique ON expected_transaction (reference)
    WHERE reference_issued;
ALTER TABLE import ADD COLUMN resource TEXT DEFAULT 'incoming-transactions' NOT NULL;
ALTER TABLE import ADD CONSTRAINT import_resource_known
    CHECK (resource IN ('incoming-transactions', 'expected-transactions'));
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
