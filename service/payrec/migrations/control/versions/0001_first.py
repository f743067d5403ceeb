"""The control tables, the job queue, and the one function that wakes a worker.

Revision ID: 0001
"""

from importlib import resources

from alembic import op
from procrastinate.schema import SchemaManager

from payrec.storage.migrations import run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ENQUEUE = """
CREATE FUNCTION control.enqueue(environment_id uuid, kind text, delay interval DEFAULT '0') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = jobs, pg_temp AS $$
DECLARE
    -- A wake-up for later must not stand in the way of one for now.
    name text := environment_id::text || ':' || kind || CASE WHEN delay > '0' THEN ':later' ELSE '' END;
    due timestamptz := CASE WHEN delay > '0' THEN clock_timestamp() + delay END;
    waiting record;
BEGIN
    LOOP
        BEGIN
            PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(
                'payrec', 'drain', 0, NULL, name,
                jsonb_build_object('environment_id', environment_id, 'kind', kind),
                due
            )::procrastinate_job_to_defer_v1]);
            RETURN;
        EXCEPTION WHEN unique_violation THEN
            -- A wake-up is waiting already. Held until our commit, no worker can take it before it can see our job.
            SELECT id, scheduled_at INTO waiting FROM procrastinate_jobs
            WHERE queueing_lock = name AND status = 'todo' FOR NO KEY UPDATE;
            IF FOUND THEN
                IF waiting.scheduled_at > due THEN
                    UPDATE procrastinate_jobs SET scheduled_at = due WHERE id = waiting.id;
                END IF;
                -- Workers that looked meanwhile have passed over what we hold: tell them again when we commit.
                PERFORM pg_notify('procrastinate_queue_v1#payrec',
                    json_build_object('type', 'job_inserted', 'job_id', waiting.id)::text);
                RETURN;
            END IF;
        END;
    END LOOP;
END;
$$
"""


def upgrade() -> None:
    """Apply."""
    connection = op.get_bind()
    first = resources.files("payrec") / "migrations" / "control" / "versions" / "0001_first.sql"
    run_script(connection, first.read_text())
    run_script(connection, f"SET LOCAL search_path = jobs; {SchemaManager.get_schema()}")
    run_script(connection, f"SET LOCAL search_path = control; {ENQUEUE}")
