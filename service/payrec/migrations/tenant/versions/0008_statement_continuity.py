"""How statements of an account follow each other, and files that are kept.

Revision ID: 0008
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE statement ADD COLUMN page_number BIGINT;
ALTER TABLE statement ADD COLUMN is_last_page BOOLEAN;
ALTER TABLE statement ADD COLUMN from_on DATE;
ALTER TABLE statement ADD COLUMN to_on DATE;
ALTER TABLE statement ADD COLUMN opened_on DATE;
ALTER TABLE statement ADD COLUMN chained_on DATE;
ALTER TABLE statement ADD COLUMN continuity TEXT;
ALTER TABLE statement ADD COLUMN expected_opening_minor BIGINT;
ALTER TABLE statement ADD COLUMN expected_on DATE;
ALTER TABLE statement ADD CONSTRAINT statement_continuity_known
    CHECK (continuity IN ('ok', 'gap', 'overlap', 'first', 'not_available'));
DROP INDEX statement_by_account;
CREATE INDEX statement_by_chain ON statement (account, currency, chained_on, import_id, ordinal)
    WHERE chained_on IS NOT NULL;
CREATE INDEX import_problem_of_continuity ON import_problem (import_id, statement_index)
    WHERE code IN ('statement_gap', 'statement_overlap');
CREATE INDEX import_with_file ON import (created_at) WHERE blob_id IS NOT NULL
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
