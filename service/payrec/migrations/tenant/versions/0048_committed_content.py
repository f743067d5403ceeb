"""Of an audit record whose content was erased, it stays provable who did what, and when.

Revision ID: 0048
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE audit_commitment ADD COLUMN IF NOT EXISTS content BYTEA
    CONSTRAINT audit_commitment_content_length CHECK (octet_length(content) = 32);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
