"""The feed of events.

Revision ID: 0015
"""

from alembic import op

from payrec.storage.migrations import run_script

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_SCRIPT = """
ALTER TABLE outbox ADD COLUMN sequence BIGINT GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX outbox_by_sequence ON outbox (sequence);
CREATE TABLE event (
    position BIGINT NOT NULL,
    id UUID NOT NULL,
    resource_id UUID NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL,
    type TEXT NOT NULL,
    data JSONB DEFAULT '{}' NOT NULL,
    PRIMARY KEY (position)
);
CREATE INDEX event_by_instant ON event (occurred_at);
CREATE INDEX event_by_resource ON event (resource_id, position);
CREATE INDEX event_by_type ON event (type, position);
CREATE UNIQUE INDEX event_id_unique ON event (id);
CREATE TABLE event_feed (
    id SMALLINT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT event_feed_is_one CHECK (id = 1)
)
"""


def upgrade() -> None:
    """Apply."""
    run_script(op.get_bind(), _SCRIPT)
