"""Events of tenants and keys, on their way to the outboxes of the environments that they concern.

Revision ID: 0005
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SCRIPT = """
CREATE TABLE control.outbox (
    id UUID NOT NULL,
    environment_id UUID NOT NULL,
    resource_id UUID NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    type TEXT NOT NULL,
    data JSONB DEFAULT '{}' NOT NULL,
    sequence BIGINT GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (id),
    CONSTRAINT control_outbox_environment FOREIGN KEY(environment_id) REFERENCES control.tenant_environment (id)
        ON DELETE CASCADE
);
CREATE INDEX control_outbox_by_environment ON control.outbox (environment_id);
CREATE UNIQUE INDEX control_outbox_by_sequence ON control.outbox (sequence);
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), SCRIPT)
