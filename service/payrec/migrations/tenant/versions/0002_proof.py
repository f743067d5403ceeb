"""How a match of several legs was found.

Revision ID: 0002
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), "ALTER TABLE match ADD COLUMN proof JSONB;")
