"""Endpoints that are told of events, and deliveries to them.

Revision ID: 0016
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_SCRIPT = """
CREATE TABLE webhook (
    id UUID NOT NULL,
    position BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    previous_secret_until TIMESTAMP WITH TIME ZONE,
    lease_until TIMESTAMP WITH TIME ZONE,
    failing_since TIMESTAMP WITH TIME ZONE,
    paused_until TIMESTAMP WITH TIME ZONE,
    version INTEGER DEFAULT 1 NOT NULL,
    attempt INTEGER DEFAULT 0 NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    url TEXT NOT NULL,
    status TEXT NOT NULL,
    disabled_reason TEXT,
    description TEXT,
    events TEXT[] NOT NULL,
    secret_sealed BYTEA NOT NULL,
    previous_secret_sealed BYTEA,
    PRIMARY KEY (id),
    CONSTRAINT webhook_status_known CHECK (status IN ('active', 'disabled')),
    CONSTRAINT webhook_disabled_for_a_reason CHECK ((status = 'disabled') = (disabled_reason IS NOT NULL))
);
CREATE TABLE webhook_delivery (
    webhook_id UUID NOT NULL,
    position BIGINT NOT NULL,
    event_id UUID NOT NULL,
    resource_id UUID NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempted_at TIMESTAMP WITH TIME ZONE,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    attempts INTEGER DEFAULT 0 NOT NULL,
    duration_ms INTEGER,
    response_status INTEGER,
    status TEXT NOT NULL,
    type TEXT NOT NULL,
    error TEXT,
    response_excerpt TEXT,
    PRIMARY KEY (webhook_id, position),
    CONSTRAINT webhook_delivery_status_known CHECK (status IN ('pending', 'succeeded', 'failed')),
    CONSTRAINT webhook_delivery_pending_is_tried_again CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
);
CREATE INDEX webhook_delivery_by_position ON webhook_delivery (position);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_delivery_failed ON webhook_delivery (webhook_id, position) WHERE status = 'failed';
CREATE INDEX webhook_delivery_pending ON webhook_delivery (webhook_id, resource_id, position) WHERE status = 'pending'
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
