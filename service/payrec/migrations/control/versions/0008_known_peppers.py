"""Peppers are known again: a process with another one than keys were made under does not start.

Revision ID: 0008
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE TABLE control.known_pepper (
    fingerprint BYTEA NOT NULL,
    first_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (fingerprint)
);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
