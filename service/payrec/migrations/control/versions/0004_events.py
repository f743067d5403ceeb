"""Which environments have events without a place in the feed, and which endpoints are to be looked at.

Revision ID: 0004
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE TABLE control.unsealed_change (
    change_id UUID NOT NULL,
    environment_id UUID NOT NULL,
    PRIMARY KEY (change_id)
);
CREATE TABLE control.webhook_queue (
    webhook_id UUID NOT NULL,
    environment_id UUID NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (webhook_id)
);
CREATE INDEX webhook_queue_by_due ON control.webhook_queue (due_at);

CREATE FUNCTION control.note_unsealed(change_id uuid, environment_id uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = control, pg_temp AS $$
    INSERT INTO unsealed_change (change_id, environment_id) VALUES ($1, $2) ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION control.schedule_webhook(webhook_id uuid, environment_id uuid, due_at timestamptz, is_exact boolean)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = control, pg_temp AS $$
    -- A webhook stays its environment's: who names another one's changes nothing.
    INSERT INTO webhook_queue AS q (webhook_id, environment_id, due_at) VALUES ($1, $2, $3)
    ON CONFLICT ON CONSTRAINT webhook_queue_pkey
    DO UPDATE SET due_at = CASE WHEN $4 THEN $3 ELSE LEAST(q.due_at, $3) END WHERE q.environment_id = $2
$$;
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
