"""Dropped environments are remembered until their files are gone from the object store.

Revision ID: 0007
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE TABLE control.blob_remnant (
    environment_id UUID NOT NULL,
    tenant_id UUID NOT NULL,
    dropped_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (environment_id)
);
CREATE INDEX blob_remnant_by_age ON control.blob_remnant (dropped_at);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
