"""How a run's rows are found and kept in order.

Revision ID: 0003
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE match ADD COLUMN content_key BIGINT;
ALTER TABLE leg ADD COLUMN contra_revision INTEGER;
ALTER TABLE leg ALTER COLUMN expected_revision DROP NOT NULL;
ALTER TABLE leg ALTER COLUMN incoming_revision DROP NOT NULL;
DROP INDEX match_by_status;
DROP INDEX match_by_run;
DROP INDEX leg_by_expected;
DROP INDEX leg_by_incoming;
DROP INDEX allocation_by_status;
DO $$
BEGIN
    IF to_regclass('match_default') IS NOT NULL THEN
        CREATE INDEX match_by_status_default ON match_default (status, id) WHERE status <> 'accepted';
        CREATE INDEX match_by_run_default ON match_default USING brin (run_id);
    END IF;
    IF to_regclass('leg_default') IS NOT NULL THEN
        CREATE INDEX leg_by_expected_default ON leg_default (expected_id) WHERE expected_id IS NOT NULL;
        CREATE INDEX leg_by_incoming_default ON leg_default (incoming_id) WHERE incoming_id IS NOT NULL;
        CREATE INDEX leg_by_contra_expected_default ON leg_default (contra_expected_id)
            WHERE contra_expected_id IS NOT NULL;
        CREATE INDEX leg_by_contra_incoming_default ON leg_default (contra_incoming_id)
            WHERE contra_incoming_id IS NOT NULL;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
