"""Who writes an open row says which version of the code has made its keys: nothing is said for those who do not.

A process of an earlier version that goes on while an upgrade is under way writes keys as it makes them. They are made
anew with those that were there before it.

Revision ID: 0052
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE expected_open ALTER COLUMN keys_version SET DEFAULT 0;
ALTER TABLE incoming_open ALTER COLUMN keys_version SET DEFAULT 0;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
