"""What waits for a person is found in the order of the money at stake.

Revision ID: 0040
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0040"
down_revision = "0039"
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
            'CREATE INDEX %I ON %I (currency, amount_minor, score, id) WHERE status = ''proposed''',
            replace(part, 'match_', 'match_by_stake_'), part
        );
    END LOOP;
END $$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
