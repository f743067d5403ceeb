"""Files may be objects of an object store: the row says which.

Revision ID: 0021
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE import ADD COLUMN object_id UUID;
ALTER TABLE export ADD COLUMN object_id UUID;
CREATE INDEX import_by_object ON import (object_id) WHERE object_id IS NOT NULL;
CREATE INDEX export_by_object ON export (object_id) WHERE object_id IS NOT NULL;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
