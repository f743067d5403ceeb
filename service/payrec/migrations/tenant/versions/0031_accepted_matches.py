"""Accepted matches are found by an index, as those of any other status are: they may be at the far end of the order.

Revision ID: 0031
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_SCRIPT = """
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = 'match'::regclass
    LOOP
        EXECUTE format(
            'CREATE INDEX %I ON %I (id) WHERE status = ''accepted''',
            replace(part, 'match_', 'match_by_accepted_'), part
        );
    END LOOP;
END $$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
