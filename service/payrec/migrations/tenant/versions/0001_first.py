"""The tables of a tenant environment.

Revision ID: 0001
"""

from importlib import resources

from alembic import op

from payrec.storage.migrations import run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    first = resources.files("payrec") / "migrations" / "tenant" / "versions" / "0001_first.sql"
    run_script(op.get_bind(), first.read_text())
